//! Bodies, parameters and results of larik's sessions and runs, member for member as clients see them.

use crate::{
    ErrorCode, Message, RequestId, RunId, SessionId, Stop, TaskId, Usage,
    event::{PermissionRequest, TaskState},
    ir::{Effort, Mode},
};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};
use std::{fmt, sync::Arc};

/// Names a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPath {
    /// The session.
    pub id: SessionId,
}

/// Names a permission request of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionPath {
    /// The session.
    pub id: SessionId,
    /// The request.
    pub request_id: RequestId,
}

/// Names a background task of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPath {
    /// The session.
    pub id: SessionId,
    /// The task.
    pub task_id: TaskId,
}

/// Pages a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageQuery {
    /// Rows at most; all of them when absent.
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub cursor: Option<String>,
}

/// A row of the list of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionItem {
    /// The session.
    pub id: SessionId,
    /// The agent that runs it.
    pub agent: String,
    /// Title for people.
    pub title: Option<String>,
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// `provider/name`.
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
    /// Whether it is in memory.
    pub loaded: bool,
    /// Whether a run is in flight.
    pub busy: bool,
}

/// A page of the list of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPage {
    /// Newest write first.
    pub sessions: Vec<SessionItem>,
    /// `cursor` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One session in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// As in the list.
    #[serde(flatten)]
    pub item: SessionItem,
    /// What needs a permission.
    pub mode: Mode,
    /// Reasoning effort, where it was chosen.
    pub effort: Option<Effort>,
    /// Tokens over all runs.
    pub usage: Usage,
    /// Pending permission requests.
    pub permissions: Vec<PermissionRequest>,
    /// Background tasks, running and ended.
    pub tasks: Vec<Task>,
    /// `seq` of the last event; 0 before the first.
    pub seq: u64,
    /// Changes when the session's `seq` begins anew.
    pub epoch: String,
}

/// What a new session is given, or which stored one is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreateBody {
    /// `provider/name`; the server's default when absent.
    pub model: Option<String>,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// What needs a permission.
    pub mode: Option<Mode>,
    /// The agent that runs it; the server's default when absent.
    pub agent: Option<String>,
    /// Title for people.
    pub title: Option<String>,
    /// Loads this stored session instead.
    pub resume: Option<SessionId>,
    /// Loads the newest stored session instead.
    #[serde(rename = "continue")]
    pub newest: Option<bool>,
}

/// What is changed; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchBody {
    /// `provider/name`.
    pub model: Option<String>,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// What needs a permission.
    pub mode: Option<Mode>,
    /// Title for people.
    pub title: Option<String>,
}

/// A transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// Oldest first. A clear or a compaction stands where it happened, as a `system` message with a `boundary` part.
    pub messages: Vec<Arc<Message>>,
}

/// Where a fork begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkBody {
    /// Index into the messages, of a prompt; what is before it is kept. Everything is kept when absent.
    #[serde(default, deserialize_with = "whole")]
    pub at: Option<u64>,
}

/// A new session, branched off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forked {
    /// The new session.
    #[serde(flatten)]
    pub session: SessionView,
    /// Text of the prompt that `at` named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptBody {
    /// What is said.
    #[schemars(length(min = 1))]
    pub text: String,
    /// Whether to answer when the run ends rather than when it begins.
    pub wait: Option<bool>,
}

/// A run that began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// The run.
    pub run_id: RunId,
    /// `seq` of its first event.
    pub seq: u64,
}

/// A run that ended, however it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finished {
    /// Text of the last assistant message.
    pub text: String,
    /// Tokens of the run.
    pub usage: Usage,
    /// Round trips to the model.
    pub turns_used: u32,
    /// Why it stopped.
    pub stopped_reason: Stop,
    /// The run.
    pub run_id: RunId,
    /// What failed, when `stopped_reason` is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
}

/// What failed in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFailure {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// One line that helps.
    pub message: String,
}

/// What a cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// Whether a run was interrupted; false when nothing ran.
    pub cancelled: bool,
}

/// Pending permission requests of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    /// Oldest first.
    pub permissions: Vec<PermissionRequest>,
}

/// Pending permission requests of all sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllPermissions {
    /// Each with its session.
    pub permissions: Vec<SessionPermission>,
}

/// A permission request and its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPermission {
    /// The session that waits.
    pub session: SessionId,
    /// The request.
    #[serde(flatten)]
    pub request: PermissionRequest,
}

/// An answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionBody {
    /// Whether the call may go on.
    pub allow: bool,
    /// Whether calls like it are answered so from now on.
    pub always: Option<bool>,
    /// Goes to the model when the call is refused.
    pub reason: Option<String>,
}

/// What an `always` answer did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionAnswered {
    /// Whether the call goes on.
    pub allowed: bool,
    /// Whether the rule was saved.
    pub persisted: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    /// Estimated tokens before.
    pub before_tokens: u64,
    /// Estimated tokens after.
    pub after_tokens: u64,
}

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Undone {
    /// Text of the prompt that was taken back.
    pub prompt: String,
    /// Files that are again what they were.
    pub restored: Vec<String>,
    /// Files that were left alone.
    pub skipped: Vec<Skipped>,
}

/// A file that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// A history that is empty now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cleared {}

/// Background tasks of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    /// Oldest first.
    pub tasks: Vec<Task>,
}

/// A background task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The task.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// How it stands.
    pub state: TaskState,
    /// Milliseconds since the epoch.
    pub started: i64,
    /// Milliseconds since the epoch; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i64>,
}

/// A whole number, as JSON Schema means it: `2.0` is one too.
fn whole<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    struct Whole;
    impl Visitor<'_> for Whole {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, not below 0")
        }

        fn visit_unit<E>(self) -> Result<Option<u64>, E> {
            Ok(None)
        }

        fn visit_u64<E>(self, number: u64) -> Result<Option<u64>, E> {
            Ok(Some(number))
        }

        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and in a double's exact range"
        )]
        fn visit_f64<E: Error>(self, number: f64) -> Result<Option<u64>, E> {
            let exact = 0.0..=9_007_199_254_740_991.0;
            if number.fract() == 0.0 && exact.contains(&number) {
                return Ok(Some(number as u64));
            }
            Err(E::invalid_type(Unexpected::Float(number), &self))
        }
    }
    d.deserialize_any(Whole)
}
