//! What an agent looks like from the plane: it opens live sessions, and may own a store of sessions or a config.
//! An agent never touches the transcript, the feed or a wire; it speaks through its [`RunSink`].
//!
//! - [`Agent`], [`LiveAgent`]: what runs prompts.
//! - [`SessionStore`]: sessions that another program keeps in its own format.
//! - [`ConfigStore`]: config that another program keeps in its own format.
//! - [`Parts`]: one agent put together from these.

mod config;
mod parts;
mod store;

pub use config::ConfigStore;
pub use parts::Parts;
pub use store::{Saved, SessionStore, StoreFailure, StoreRow};

use crate::{PlaneError, session::RunSink};
use async_trait::async_trait;
use futures_util::future::join_all;
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    ErrorCode, Message, RunId, SessionId, Stop, Usage,
    ir::{Effort, Mode},
};

/// What an agent is and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Short name, as in `--agent`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Its version, where it tells.
    pub version: Option<String>,
    /// Whether it can be started here.
    pub installed: bool,
    /// What it can do.
    pub can: Capabilities,
    /// Models that it names, if it has a closed list.
    pub models: Vec<String>,
    /// Modes that it takes.
    pub modes: Vec<Mode>,
}

/// What an agent can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Runs prompts.
    pub prompt: bool,
    /// Its sessions can be read.
    pub read: bool,
    /// Sessions can be written into its store.
    pub write: bool,
    /// Its sessions can be deleted.
    pub delete: bool,
    /// Its config can be read and written.
    pub config: bool,
}

/// The settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `provider/name`.
    pub model: String,
    /// Reasoning effort, where it was chosen.
    pub effort: Option<Effort>,
    /// What needs a permission.
    pub mode: Mode,
}

/// What an agent is told when a session becomes live.
#[derive(Debug, Clone)]
pub struct Open {
    /// The session.
    pub id: SessionId,
    /// Absolute directory that its tools work in.
    pub cwd: PathBuf,
    /// Its settings.
    pub settings: Settings,
}

/// One prompt to be run.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The run.
    pub run_id: RunId,
    /// What the model sees: from the last boundary on, the new user message last.
    pub history: Vec<Arc<Message>>,
    /// Settings as of now.
    pub settings: Settings,
    /// Absolute directory that tools work in.
    pub cwd: PathBuf,
    /// Round trips to the model at most; the agent stops with [`Stop::MaxTurns`].
    pub max_turns: u32,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Why it stopped.
    pub stop: Stop,
    /// The text of the last assistant message.
    pub reply: String,
    /// Tokens of the run.
    pub usage: Usage,
    /// Round trips to the model.
    pub turns: u32,
    /// What failed, when `stop` is [`Stop::Error`].
    pub error: Option<RunError>,
}

impl RunOutcome {
    /// A run that stopped with nothing said.
    pub fn of(stop: Stop) -> Self {
        Self { stop, reply: String::new(), usage: Usage::default(), turns: 0, error: None }
    }

    /// The run is not over, but its context is nearly full: have the history summarised, then run the same prompt again.
    ///
    /// For an agent that sees the limit coming, before a turn; `usage` and `turns` are those since [`LiveAgent::run`] was
    /// called. The plane calls [`LiveAgent::summarize`], appends the boundary, tells `compaction`, and calls `run` again with
    /// the summary, the prompt and the turns that are left; the client sees one run with the sum of both. It can be asked for
    /// as often as the run got at least one turn further. A run that ends with an error of [`ErrorCode::TooLarge`] (the provider
    /// refused the context) is helped in the same way, once. When there is nothing to summarise, the run ends with the error.
    pub fn needs_compaction(usage: Usage, turns: u32) -> Self {
        let message = "the context is full, and there is nothing left to summarise".into();
        let error = RunError { code: ErrorCode::TooLarge, message, retryable: true };
        Self { usage, turns, error: Some(error), ..Self::of(Stop::Error) }
    }
}

/// What failed in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// One line that helps; no secret.
    pub message: String,
    /// Whether the same prompt may work later; with [`ErrorCode::TooLarge`]: whether the run got on until then.
    pub retryable: bool,
}

/// Something that can run prompts.
#[async_trait]
pub trait Agent: Send + Sync {
    /// What it is and what it can do; cheap, though it may look whether a program is there.
    fn descriptor(&self) -> Descriptor;

    /// The descriptor's id alone; looks at nothing.
    fn id(&self) -> String {
        self.descriptor().id
    }

    /// Asks what it can do, where only its process can tell and nobody asked yet; within a time limit of its own. From then on
    /// the descriptor says so.
    async fn learn(&self) {}

    /// The model that a session has when nobody named one.
    fn default_model(&self) -> String;

    /// Whether `model` can be used; the error is one line for the client.
    fn check_model(&self, model: &str) -> Result<(), String>;

    /// The store of sessions that it keeps itself, where it does.
    fn store(&self) -> Option<Arc<dyn SessionStore>> {
        None
    }

    /// The config that it keeps itself, where it does.
    fn config(&self) -> Option<Arc<dyn ConfigStore>> {
        None
    }

    /// Makes a session live. Starts nothing that a run does not need.
    async fn open(&self, open: Open) -> Result<Box<dyn LiveAgent>, PlaneError>;

    /// Lets go of everything that its sessions share, processes among it; once, when the plane has shut down.
    async fn close(&self) {}
}

/// Asks all of them at once what they can do. Most know it without being asked, so this starts no task.
pub async fn learn(agents: &[Arc<dyn Agent>]) {
    join_all(agents.iter().map(|agent| agent.learn())).await;
}

/// One live session of an agent. Owned by the session's task: one call at a time.
#[async_trait]
pub trait LiveAgent: Send {
    /// Runs one prompt to its stop. Messages and events go out through `sink`, in order.
    /// Ends soon after `cancel`, with [`Stop::Aborted`] and with every child that it started gone.
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome;

    /// A summary of `history` by the session's own model, for compaction: what a reader needs to go on with the work.
    /// The history may be larger than what the model takes, since that is what a compaction is for: leave out the output of tools
    /// first, then what is oldest.
    async fn summarize(&mut self, turn: Turn, cancel: CancellationToken) -> Result<(String, Usage), RunError>;

    /// Lets go of everything that the session holds.
    async fn close(&mut self) {}
}

/// The agent of a plane that has none: its sessions can be made, listed, read and resumed, and not prompted. Clause: L20.
#[derive(Debug, Clone, Copy)]
pub struct NoAgent;

impl NoAgent {
    /// Its name, also on `--agent`.
    pub const NAME: &'static str = "none";
}

#[async_trait]
impl Agent for NoAgent {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: Self::NAME.into(),
            name: "No agent".into(),
            version: None,
            installed: true,
            can: Capabilities { read: true, write: true, delete: true, ..Capabilities::default() },
            models: Vec::new(),
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        "none/none".into()
    }

    fn check_model(&self, _model: &str) -> Result<(), String> {
        Ok(())
    }

    async fn open(&self, _open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        Err(PlaneError::NoAgent)
    }
}
