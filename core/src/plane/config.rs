//! The config of agents: counted, read, installed. Clauses: S19, S20, S28.

use super::Plane;
use crate::{
    PlaneError,
    agent::{self, Agent, ConfigStore},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use triplane_protocol::config::{AgentConfig, ConfigAction, ConfigKind};

/// How many items of each kind one agent's config has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigCount {
    /// The agent.
    pub agent: String,
    /// The counts, or why they cannot be told.
    pub counts: Result<BTreeMap<ConfigKind, u64>, String>,
}

impl Plane {
    /// Counts the config of one agent, or of every agent that has config, in order of preference. One that fails does not
    /// hide the others. `dir`: absolute, or relative to the plane's directory; each agent's own default without it.
    /// Errors: `UnknownAgent` when the one that is named has no config, `InvalidParams`.
    pub async fn config_list(&self, agent: Option<&str>, dir: Option<&str>) -> Result<Vec<ConfigCount>, PlaneError> {
        let dir = self.config_dir(dir)?;
        let mut stores: Vec<(String, Arc<dyn ConfigStore>)> = Vec::new();
        match agent {
            Some(name) => stores.push((name.to_owned(), self.config_store(name).await?)),
            None => {
                self.learn().await;
                let with_config = |agent: &Arc<dyn Agent>| Some((agent.id(), agent.config()?));
                stores.extend(self.inner.agents.iter().filter_map(with_config));
            }
        }
        let count = |(agent, store): (String, Arc<dyn ConfigStore>)| {
            let root = dir.clone().unwrap_or_else(|| store.root());
            async move {
                let counts = store.read(&root).await.map(|config| config.counts());
                ConfigCount { agent, counts: counts.map_err(|failure| failure.message) }
            }
        };
        // At once: one that takes its whole time limit costs the others nothing.
        let mut tasks = tokio::task::JoinSet::new();
        for (index, one) in stores.into_iter().enumerate() {
            let counting = count(one);
            tasks.spawn(async move { (index, counting.await) });
        }
        let mut counts = Vec::new();
        while let Some(done) = tasks.join_next().await {
            counts.push(done.map_err(|error| PlaneError::Internal(format!("counting config broke: {error}")))?);
        }
        counts.sort_by_key(|(index, _)| *index);
        Ok(counts.into_iter().map(|(_, count)| count).collect())
    }

    /// An agent's config. Errors: `UnknownAgent`, `InvalidParams`; `Invalid` when its files are broken, `Unavailable`.
    pub async fn config_get(&self, agent: &str, dir: Option<&str>) -> Result<AgentConfig, PlaneError> {
        let (dir, store) = (self.config_dir(dir)?, self.config_store(agent).await?);
        let root = dir.unwrap_or_else(|| store.root());
        Ok(store.read(&root).await?)
    }

    /// Installs config items: one action each, in their order. `dry`: tells the actions only.
    /// Errors: `UnknownAgent`, `InvalidParams`, `Invalid`, `Unavailable`.
    pub async fn config_import(
        &self,
        agent: &str,
        dir: Option<&str>,
        config: &AgentConfig,
        dry: bool,
    ) -> Result<Vec<ConfigAction>, PlaneError> {
        let (dir, store) = (self.config_dir(dir)?, self.config_store(agent).await?);
        let root = dir.unwrap_or_else(|| store.root());
        Ok(store.write(&root, config, dry).await?)
    }

    /// Asks every agent that has to be asked what it can do. Each has a time limit of its own.
    pub async fn learn(&self) {
        agent::learn(&self.inner.agents).await;
    }

    async fn config_store(&self, name: &str) -> Result<Arc<dyn ConfigStore>, PlaneError> {
        let agent = self.agent(Some(name))?;
        agent.learn().await;
        agent
            .config()
            .ok_or_else(|| PlaneError::UnknownAgent(format!("agent `{name}` has no config that can be read here")))
    }

    fn config_dir(&self, dir: Option<&str>) -> Result<Option<PathBuf>, PlaneError> {
        match dir {
            None => Ok(None),
            Some(dir) if dir.is_empty() || dir.contains('\0') => {
                Err(PlaneError::InvalidParams("dir: must be a path".into()))
            }
            // Without `.` in it; `..` stays, as a link may stand before it.
            Some(dir) => Ok(Some(self.inner.config.cwd.join(Path::new(dir)).components().collect())),
        }
    }
}
