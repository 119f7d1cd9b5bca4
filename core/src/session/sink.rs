//! What a running agent holds of its session: events out, permissions asked, files checkpointed, tasks spawned.

use std::{future::Future, path::Path, path::PathBuf};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{AgentEvent, CallId, Message, MessageId, TaskId, event::PermissionOption};

/// What a tool does, as far as permissions care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Looks only; inside the session's directory it never asks.
    Read,
    /// Changes files.
    Edit,
    /// Runs a command.
    Execute,
    /// Reaches out to a network.
    Fetch,
}

/// A tool call that wants to go ahead.
#[derive(Debug, Clone)]
pub struct PermissionAsk {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What it does.
    pub kind: ToolKind,
    /// One line for people.
    pub title: String,
    /// The tool's arguments.
    pub input: serde_json::Value,
    /// What a rule's pattern is matched against: the command, or the path relative to the session's directory.
    pub subject: String,
    /// Whether it touches something outside the session's directory; asks in every mode but `bypass`.
    pub outside: bool,
    /// The agent's own options; `None`: the four kinds.
    pub options: Option<Vec<PermissionOption>>,
}

/// What became of a [`PermissionAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead; the option that was chosen, when somebody chose.
    Allowed {
        /// The option's id.
        option: Option<String>,
    },
    /// Do not; the reason goes to the model.
    Denied {
        /// One line.
        reason: String,
    },
    /// The run was cancelled.
    Expired,
}

/// The session, as its running agent sees it. Clones speak for the same run.
#[derive(Debug, Clone)]
pub struct RunSink {}

/// A file that a tool is about to change; tell how it came out with [`ChangeGuard::done`].
#[derive(Debug)]
#[must_use]
pub struct ChangeGuard {}

impl ChangeGuard {
    /// The change is made: the file's new hash goes into the transcript.
    pub async fn done(self) {}
}

impl RunSink {
    /// Publishes one event; waits while the session's queue is full.
    /// Never for `status`, `user_message`, `permission_*`, `task_*`, `final`, `error`, `session_closed`: those are the plane's.
    pub async fn emit(&self, _event: AgentEvent) {}

    /// Appends a message to the history and to the transcript. Events that tell of it follow, not precede.
    pub async fn message(&self, _message: Message) {}

    /// A fresh message id.
    pub fn message_id(&self) -> MessageId {
        MessageId::from("")
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        0
    }

    /// May this call go ahead? Answers at once where the mode or a rule decides, else waits for a person.
    pub async fn ask(&self, _ask: PermissionAsk) -> Verdict {
        Verdict::Expired
    }

    /// Saves what `path` is now, before a tool changes it. Errors: one line; then the tool must not go on.
    pub async fn before_change(&self, _path: &Path) -> Result<ChangeGuard, String> {
        Ok(ChangeGuard {})
    }

    /// Starts a background task of the session. `work` gets the task's id, a place to put output, and its cancel token;
    /// it answers with whether it went well and its closing text. Errors: one line (too many tasks).
    pub async fn spawn_task<F, Fut>(&self, _title: String, _work: F) -> Result<TaskId, String>
    where
        F: FnOnce(TaskOutput, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = (bool, String)> + Send + 'static,
    {
        Err("not yet".into())
    }

    /// The session's directory.
    pub fn cwd(&self) -> PathBuf {
        PathBuf::new()
    }
}

/// Where a background task puts its output; bounded, the oldest goes first.
#[derive(Debug, Clone)]
pub struct TaskOutput {}

impl TaskOutput {
    /// Adds text.
    pub fn push(&self, _text: &str) {}
}
