//! `session.*`: the sessions of a driver's store, and those that it runs.

use crate::{
    CallId, ErrorCode, Message, RunId, Session, SessionId, Stop, Usage,
    event::PermissionOption,
    ir::{Effort, Mode},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The session.
    pub id: SessionId,
}

/// The sessions of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// In no order.
    pub sessions: Vec<Row>,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id in the store.
    pub id: SessionId,
    /// Absolute directory that it works in.
    pub cwd: String,
    /// Title for people.
    #[serde(default)]
    pub title: Option<String>,
    /// `provider/name`.
    #[serde(default)]
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
}

/// A whole session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// The session.
    pub session: Session,
}

/// A session to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Save {
    /// The session.
    pub session: Session,
    /// Under this id; a fresh one of the store's own kind without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
}

/// A session that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAs {
    /// Its id in the store.
    pub id: SessionId,
    /// What the store's format cannot hold, one line each.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// A session that will be prompted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The session, by the plane's id.
    pub id: SessionId,
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// `provider/name`.
    pub model: String,
    /// Reasoning effort, where it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// What needs a permission.
    pub mode: Mode,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The session.
    pub id: SessionId,
    /// The run.
    pub run: RunId,
    /// What the model sees, the new user message last.
    pub messages: Vec<Message>,
    /// Absolute directory that tools work in.
    pub cwd: String,
    /// `provider/name`, as of now.
    pub model: String,
    /// Reasoning effort, where it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// What needs a permission, as of now.
    pub mode: Mode,
    /// Round trips to the model at most.
    pub turns: u32,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it stopped.
    pub stop: Stop,
    /// The text of the last assistant message; what `llm_end` told without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// Tokens of the run; the sum of what `llm_end` told without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Round trips to the model; as many as there were `llm_end` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// What failed, when `stop` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFault>,
}

/// What failed in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFault {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// One line that helps.
    pub message: String,
    /// Whether the same prompt may work later.
    #[serde(default)]
    pub retryable: bool,
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The session.
    pub id: SessionId,
    /// An `AgentEvent`, or something of the driver's own with a `type`.
    pub event: Value,
}

/// The event `permission_request`, as a driver sends it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Ask {
    /// The driver's name for the request; comes back in [`Answer`].
    pub request_id: String,
    /// The call that waits.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// One line for people.
    #[serde(default)]
    pub title: Option<String>,
    /// The tool's arguments.
    #[serde(default)]
    pub input: Value,
    /// What can be answered; the four kinds without any.
    #[serde(default)]
    pub options: Vec<PermissionOption>,
    /// What the tool does.
    #[serde(default)]
    pub kind: AskKind,
    /// What a saved rule is matched against: the command, or the path.
    #[serde(default)]
    pub subject: Option<String>,
}

/// What a tool does, as far as permissions care.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// Looks only.
    Read,
    /// Changes files.
    Edit,
    /// Runs a command, or does what nobody said.
    #[default]
    Execute,
    /// Reaches out to a network.
    Fetch,
}

/// The answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The session.
    pub id: SessionId,
    /// The request, by the driver's name.
    pub request: String,
    /// Whether the call may go on; `expired` when the run was cancelled.
    pub outcome: crate::event::Outcome,
    /// The option that it is, of those that were offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Why, if somebody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
