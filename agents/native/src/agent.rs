//! The agent and its live sessions. A live session holds its [`Shelf`] between runs; all else comes with each run.

use crate::{
    host::Host,
    model::Models,
    run,
    sandbox::SandboxConfig,
    shelf::Shelf,
    tools::{Extensions, Helpers},
};
use async_trait::async_trait;
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;
use triplane_core::{
    PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    session::RunSink,
};
use triplane_protocol::{Usage, ir::Mode};

/// How the agent is set up.
#[derive(Debug, Clone, Default)]
pub struct NativeConfig {
    /// Which models there are.
    pub models: Models,
    /// Models that are asked, in this order, when the session's own one cannot answer.
    pub fallbacks: Vec<String>,
    /// Variables that commands do not see: those with the providers' keys.
    pub hidden: Vec<String>,
    /// The program that runs [`crate::shim::run_shim`] when its first argument is [`crate::shim::ARG`]. With it, what a
    /// command started ends even when this process is killed; `None`: commands are started directly.
    pub shim: Option<PathBuf>,
    /// What keeps commands in.
    pub sandbox: SandboxConfig,
    /// The user's home directory, for instructions, skills and commands that hold everywhere.
    pub user_home: Option<PathBuf>,
    /// Whether `fetch` may reach this machine and private networks.
    pub fetch_private: bool,
    /// Where sub-agents live.
    pub helpers: Helpers,
    /// Who brings tools from elsewhere.
    pub extensions: Extensions,
}

/// The built-in agent.
#[derive(Debug, Clone, Default)]
pub struct NativeAgent {
    config: Arc<NativeConfig>,
}

impl NativeAgent {
    /// Starts nothing.
    pub fn new(config: NativeConfig) -> Self {
        Self { config: Arc::new(config) }
    }
}

#[async_trait]
impl Agent for NativeAgent {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: "native".to_owned(),
            name: "Triplane".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            installed: true,
            can: Capabilities { prompt: true, read: true, write: true, delete: true, config: false },
            models: self.config.models.names(),
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        self.config.models.names().into_iter().next().unwrap_or_else(|| "script/echo".to_owned())
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        self.config.models.find(model).map(drop)
    }

    async fn open(&self, open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        let shelf = Arc::new(Shelf::new(open.id));
        Ok(Box::new(NativeLive { config: Arc::clone(&self.config), shelf }))
    }
}

/// One live session.
#[derive(Debug)]
struct NativeLive {
    config: Arc<NativeConfig>,
    shelf: Arc<Shelf>,
}

#[async_trait]
impl LiveAgent for NativeLive {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let host: Arc<dyn Host> = Arc::new(sink);
        run::run(&self.config, Arc::clone(&self.shelf), turn, host, cancel).await
    }

    async fn summarize(&mut self, turn: Turn, cancel: CancellationToken) -> Result<(String, Usage), RunError> {
        run::summarize(&self.config, &turn, &cancel).await
    }
}
