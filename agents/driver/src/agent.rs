//! A driver as an agent of the plane. What it can do is known once it was asked; until then it claims nothing. One that could
//! not be started counts as one that runs prompts, so that a prompt is told why it cannot.

use crate::{
    discover::Found,
    live::DriverSession,
    stores::{Config, Sessions},
    supervisor::{Launch, Supervisor},
};
use async_trait::async_trait;
use std::sync::Arc;
use triplane_core::{
    PlaneError,
    agent::{Agent, Capabilities, ConfigStore, Descriptor, LiveAgent, Open, SessionStore},
};
use triplane_protocol::{driver::Manifest, ir::Mode};

/// One driver.
#[derive(Debug, Clone)]
pub struct DriverAgent {
    supervisor: Arc<Supervisor>,
}

impl DriverAgent {
    /// The agent that a driver is. Starts nothing.
    pub fn new(found: Found, launch: Launch) -> Self {
        Self { supervisor: Arc::new(Supervisor::new(found, launch)) }
    }

    fn can(&self) -> triplane_protocol::driver::Capabilities {
        self.supervisor.manifest().map(|manifest| manifest.capabilities).unwrap_or_default()
    }
}

#[async_trait]
impl Agent for DriverAgent {
    fn descriptor(&self) -> Descriptor {
        let name = &self.supervisor.found.name;
        let manifest = self.supervisor.manifest();
        let can = self.can();
        let known = |of: fn(&Manifest) -> Option<String>| manifest.as_ref().and_then(of);
        let modes = manifest.as_ref().map(|manifest| manifest.modes.clone()).filter(|modes| !modes.is_empty());
        Descriptor {
            id: name.clone(),
            name: known(|manifest| manifest.name.clone()).unwrap_or_else(|| name.clone()),
            version: known(|manifest| manifest.version.clone()),
            installed: manifest.is_some() || !self.supervisor.failed(),
            can: Capabilities {
                prompt: can.prompt || (manifest.is_none() && self.supervisor.failed()),
                read: can.read,
                write: can.write,
                delete: can.delete,
                config: can.config,
            },
            models: manifest.map(|manifest| manifest.models).unwrap_or_default(),
            modes: modes.unwrap_or_else(|| Mode::ALL.to_vec()),
        }
    }

    fn id(&self) -> String {
        self.supervisor.found.name.clone()
    }

    async fn learn(&self) {
        self.supervisor.learn().await;
    }

    fn default_model(&self) -> String {
        let first = self.supervisor.manifest().and_then(|manifest| manifest.models.into_iter().next());
        first.unwrap_or_else(|| format!("{}/default", self.supervisor.found.name))
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        let models = self.supervisor.manifest().map(|manifest| manifest.models).unwrap_or_default();
        if models.is_empty() || models.iter().any(|known| known == model) {
            return Ok(());
        }
        Err(format!("driver `{}` has no model `{model}`; it has {}", self.supervisor.found.name, models.join(", ")))
    }

    fn store(&self) -> Option<Arc<dyn SessionStore>> {
        self.can().read.then(|| Arc::new(Sessions(self.supervisor.clone())) as Arc<dyn SessionStore>)
    }

    fn config(&self) -> Option<Arc<dyn ConfigStore>> {
        self.can().config.then(|| Arc::new(Config(self.supervisor.clone())) as Arc<dyn ConfigStore>)
    }

    async fn open(&self, open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        // One that was not asked yet, or cannot be started, is found out by the run, which tells why.
        if self.supervisor.manifest().is_some_and(|manifest| !manifest.capabilities.prompt) {
            let text = format!("driver `{}` cannot run prompts", self.supervisor.found.name);
            return Err(PlaneError::Unsupported(text));
        }
        Ok(Box::new(DriverSession::new(self.supervisor.clone(), open.id)))
    }

    async fn close(&self) {
        self.supervisor.close().await;
    }
}
