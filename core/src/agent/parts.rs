//! One agent put together: who runs its prompts, who reads its sessions, who reads its config.

use super::{Agent, Capabilities, ConfigStore, Descriptor, LiveAgent, Open, SessionStore};
use crate::PlaneError;
use async_trait::async_trait;
use std::sync::Arc;

/// An agent of parts that know nothing of each other.
#[derive(Clone)]
pub struct Parts {
    /// Short name, as in `--agent`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Runs its prompts.
    pub runner: Option<Arc<dyn Agent>>,
    /// Keeps its sessions, and whether they can be written and deleted.
    pub store: Option<(Arc<dyn SessionStore>, bool)>,
    /// Keeps its config.
    pub config: Option<Arc<dyn ConfigStore>>,
}

#[async_trait]
impl Agent for Parts {
    fn descriptor(&self) -> Descriptor {
        let runner = self.runner.as_ref().map(|runner| runner.descriptor());
        let write = self.store.as_ref().is_some_and(|(_, write)| *write);
        let can = Capabilities {
            prompt: runner.as_ref().is_some_and(|runner| runner.installed && runner.can.prompt),
            read: self.store.is_some(),
            write,
            delete: write,
            config: self.config.is_some(),
        };
        Descriptor {
            id: self.id.clone(),
            name: self.name.clone(),
            version: runner.as_ref().and_then(|runner| runner.version.clone()),
            installed: runner.as_ref().is_some_and(|runner| runner.installed),
            can,
            models: runner.as_ref().map(|runner| runner.models.clone()).unwrap_or_default(),
            modes: runner.map(|runner| runner.modes).unwrap_or_default(),
        }
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    async fn learn(&self) {
        if let Some(runner) = &self.runner {
            runner.learn().await;
        }
    }

    fn default_model(&self) -> String {
        self.runner.as_ref().map_or_else(|| format!("{}/default", self.id), |runner| runner.default_model())
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        self.runner.as_ref().map_or(Ok(()), |runner| runner.check_model(model))
    }

    fn store(&self) -> Option<Arc<dyn SessionStore>> {
        self.store.as_ref().map(|(store, _)| store.clone())
    }

    fn config(&self) -> Option<Arc<dyn ConfigStore>> {
        self.config.clone()
    }

    async fn open(&self, open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        match &self.runner {
            Some(runner) => runner.open(open).await,
            None => Err(PlaneError::Unavailable(format!("agent `{}` cannot run prompts here", self.id))),
        }
    }

    async fn close(&self) {
        if let Some(runner) = &self.runner {
            runner.close().await;
        }
    }
}
