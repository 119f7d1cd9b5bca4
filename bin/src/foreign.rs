//! Other people's agents, put together from what is known of each: who runs its prompts, where its sessions are, where its
//! config is. An agent of which nothing is known is left out.

use crate::{
    homes::Homes,
    settings::{AgentKind, AgentTable, Settings},
};
use std::{ffi::OsString, path::Path, sync::Arc, time::Duration};
use triplane_acp::{AcpAgent, AcpConfig, KNOWN, Known};
use triplane_config::{FORMATS, FolderConfig, Format};
use triplane_core::agent::{Agent, ConfigStore, Parts, SessionStore};
use triplane_native::shim::{ARG, RELAY};
use triplane_stores::Kind;

/// How long an agent's process may be idle before it is ended; the next run starts another and loads its session.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// Every agent that this build or the home's settings know, in the order of their names' tables. Starts nothing and opens nothing.
pub(crate) fn agents(settings: &Settings, homes: &Homes<'_>, shim: Option<&Path>) -> Vec<Arc<dyn Agent>> {
    let start = Start { settings, path: std::env::var_os("PATH"), prefix: shim.map(prefix).unwrap_or_default() };
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
            runner: start.runner(id, name),
            store: store(id, homes),
            config: config(id, homes, settings),
        })
        .filter(|parts| parts.runner.is_some() || parts.store.is_some() || parts.config.is_some())
        .map(|parts| Arc::new(parts) as Arc<dyn Agent>)
        .collect()
}

/// What every agent is started with.
struct Start<'a> {
    settings: &'a Settings,
    path: Option<OsString>,
    prefix: Vec<OsString>,
}

impl Start<'_> {
    /// Who runs an agent's prompts: what the settings say, else what is known of it.
    fn runner(&self, id: &str, name: &str) -> Option<Arc<dyn Agent>> {
        let own = self.settings.agents.get(id);
        let added = own.into_iter().flat_map(|AgentTable { env, kind: AgentKind::Acp, .. }| env.clone());
        let (command, env, install) = match (own.filter(|table| !table.command.is_empty()), Known::of(id)) {
            (Some(table), _) => (table.command.clone(), added.collect(), None),
            (None, Some(known)) => {
                let usual = known.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
                let command = known.command(self.path.as_deref());
                (command, usual.chain(added).collect(), Some(known.install.to_owned()))
            }
            (None, None) => return None,
        };
        Some(Arc::new(AcpAgent::new(AcpConfig {
            id: id.to_owned(),
            name: name.to_owned(),
            command,
            env,
            install,
            path: self.path.clone(),
            prefix: self.prefix.clone(),
            state_dir: self.settings.home.join("acp"),
            idle: Some(IDLE),
        })))
    }
}

/// The process that stands between us and an agent, and ends all that it leaves behind.
fn prefix(shim: &Path) -> Vec<OsString> {
    vec![shim.into(), ARG.into(), RELAY.into()]
}

/// Where an agent's sessions are, whether or not it is installed, and whether they can be written. Clause: S06.
fn store(agent: &str, homes: &Homes<'_>) -> Option<(Arc<dyn SessionStore>, bool)> {
    let kind = Kind::all().find(|kind| kind.id() == agent)?;
    let home = homes.database(agent).or_else(|| homes.home(agent))?;
    Some((kind.store(home, homes.editors(agent)), kind.writes()))
}

fn config(agent: &str, homes: &Homes<'_>, settings: &Settings) -> Option<Arc<dyn ConfigStore>> {
    let (format, user) = (Format::of(agent)?, homes.config(agent)?);
    let cwd = settings.place.cwd.clone();
    Some(Arc::new(FolderConfig::new(format, cwd.join(user), cwd)))
}
