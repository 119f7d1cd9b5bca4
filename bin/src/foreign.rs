//! Other people's agents, put together from what is known of each: who runs its prompts, where its sessions are, where its
//! config is. An agent of which nothing is known is left out.

use crate::{homes::Homes, settings::Settings};
use std::{ffi::OsString, sync::Arc};
use triplane_config::{FORMATS, FolderConfig, Format};
use triplane_core::agent::{Agent, ConfigStore, Parts};

/// Every agent that this build knows, in the order of their names' table. Starts nothing and opens nothing.
pub(crate) fn agents(settings: &Settings) -> Vec<Arc<dyn Agent>> {
    let Some(user) = settings.place.user_home.clone() else { return Vec::new() };
    let homes = Homes::new(user, &variable);
    FORMATS
        .iter()
        .map(|format| (format.id, format.name))
        .map(|(id, name)| Parts {
            id: id.to_owned(),
            name: name.to_owned(),
            runner: None,
            store: None,
            config: config(id, &homes, settings),
        })
        .filter(|parts| parts.runner.is_some() || parts.store.is_some() || parts.config.is_some())
        .map(|parts| Arc::new(parts) as Arc<dyn Agent>)
        .collect()
}

fn config(agent: &str, homes: &Homes<'_>, settings: &Settings) -> Option<Arc<dyn ConfigStore>> {
    let (format, user) = (Format::of(agent)?, homes.config(agent)?);
    let cwd = settings.place.cwd.clone();
    Some(Arc::new(FolderConfig::new(format, cwd.join(user), cwd)))
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
