//! Other people's agents, put together from what is known of each: who runs its prompts, where its sessions are, where its
//! config is. An agent of which nothing is known is left out.

use crate::{
    homes::Homes,
    settings::{AgentKind, AgentTable, Settings},
};
use std::{sync::Arc, time::Duration};
use triplane_acp::{AcpAgent, AcpConfig, KNOWN, Known};
use triplane_config::{FORMATS, FolderConfig, Format};
use triplane_core::agent::{Agent, ConfigStore, Parts, SessionStore};
use triplane_stores::{Kind, Places};

/// How long an agent's process may be idle before it is ended; the next run starts another and loads its session.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// Every agent that this build or the home's settings know, in the order of their names' tables. Starts nothing and opens nothing.
pub(crate) fn agents(settings: &Settings, homes: &Homes<'_>) -> Vec<Arc<dyn Agent>> {
    let known = KNOWN.iter().map(|known| (known.id, known.name));
    let own = settings.agents.iter().map(|(id, table)| (id.as_str(), table.name.as_deref().unwrap_or(id)));
    let mut names: Vec<(&str, &str)> = Vec::new();
    let stored = Kind::all().map(|kind| (kind.id(), kind.name()));
    for (id, name) in FORMATS.iter().map(|format| (format.id, format.name)).chain(known).chain(stored).chain(own) {
        match names.iter_mut().find(|(known, _)| *known == id) {
            // What the owner calls it counts.
            Some(found) => found.1 = name,
            None => names.push((id, name)),
        }
    }
    names
        .into_iter()
        .map(|(id, name)| Parts {
            id: id.to_owned(),
            name: name.to_owned(),
            runner: runner(id, name, settings),
            store: store(id, settings),
            config: config(id, homes, settings),
        })
        .filter(|parts| parts.runner.is_some() || parts.store.is_some() || parts.config.is_some())
        .map(|parts| Arc::new(parts) as Arc<dyn Agent>)
        .collect()
}

/// Who runs an agent's prompts: what the settings say, else what is known of it.
fn runner(id: &str, name: &str, settings: &Settings) -> Option<Arc<dyn Agent>> {
    let path = std::env::var_os("PATH");
    let (command, env, install) = match (settings.agents.get(id), Known::of(id)) {
        (Some(AgentTable { command, env, kind: AgentKind::Acp, .. }), _) => {
            (command.clone(), env.clone().into_iter().collect(), None)
        }
        (None, Some(known)) => {
            let env = known.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            (known.command(path.as_deref()), env, Some(known.install.to_owned()))
        }
        (None, None) => return None,
    };
    Some(Arc::new(AcpAgent::new(AcpConfig {
        id: id.to_owned(),
        name: name.to_owned(),
        command,
        env,
        install,
        path,
        shim: std::env::current_exe().ok(),
        state_dir: settings.home.join("acp"),
        idle: Some(IDLE),
    })))
}

/// Where an agent's sessions are, whether or not it is installed, and whether they can be written. Clause: S06.
fn store(agent: &str, settings: &Settings) -> Option<(Arc<dyn SessionStore>, bool)> {
    let kind = Kind::all().find(|kind| kind.id() == agent)?;
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let places = Places { home: settings.place.user_home.clone()?, variable: &variable };
    Some((places.store(kind), kind.writes()))
}

fn config(agent: &str, homes: &Homes<'_>, settings: &Settings) -> Option<Arc<dyn ConfigStore>> {
    let (format, user) = (Format::of(agent)?, homes.config(agent)?);
    let cwd = settings.place.cwd.clone();
    Some(Arc::new(FolderConfig::new(format, cwd.join(user), cwd)))
}
