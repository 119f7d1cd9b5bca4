//! Sessions: rows of the list, the life of a live one, runs and history. Clauses: S06, S07, S11–S17, S22.

use crate::{
    ErrorCode, Message, MessageId, Part, RequestId, RunId, SessionId, Stop, Usage,
    ir::{Extra, KnownPart},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Nothing is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// It is done; there is nothing to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListParams {
    /// Whether each row tells the live state of its lock.
    #[serde(default)]
    pub with_locks: bool,
}

/// Sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Newest write first.
    pub sessions: Vec<SessionRow>,
}

/// What the store and the overlay say of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// The agent that owns it.
    pub agent_id: String,
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// Title for people; the overlay's wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `provider/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated_at: i64,
    /// Whether it is live in this process.
    pub live: bool,
    /// Whether it was created and never flushed.
    pub pending: bool,
    /// Whether somebody pinned it.
    pub pinned: bool,
    /// Whether somebody archived it.
    pub archived: bool,
    /// The projects that it belongs to.
    pub project_ids: Vec<String>,
    /// The times that it was live, oldest first.
    pub spans: Vec<Span>,
    /// The live state of its lock, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockState>,
}

/// One time that a session was live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The agent that ran it.
    pub agent_id: String,
    /// The model that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub started_at: i64,
    /// Milliseconds since the epoch; null while it lasts, or until the end of a killed process is found.
    pub ended_at: Option<i64>,
}

/// How a session's lock stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockState {
    /// Whether somebody holds it.
    pub state: LockWord,
    /// Who holds it, or held it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<LockHolder>,
}

/// Whether somebody holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockWord {
    /// Nobody does.
    Free,
    /// A process does.
    Held,
    /// The process that did is gone.
    Stale,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockHolder {
    /// Its node's id.
    pub node: String,
    /// Its process.
    pub pid: u32,
    /// Since when, in milliseconds since the epoch.
    pub since: i64,
    /// Counts the times that it changed hands by a takeover.
    pub generation: u64,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Its row.
    #[serde(flatten)]
    pub row: SessionRow,
    /// Messages in its transcript.
    pub message_count: u64,
}

/// Names a session, live or stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRef {
    /// The session.
    pub id: SessionId,
    /// The agent that owns it; a session of another agent is not found.
    #[serde(default)]
    pub agent: Option<String>,
}

/// Names a live session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveRef {
    /// The session.
    pub id: SessionId,
}

/// Which page of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryParams {
    /// The session.
    pub id: SessionId,
    /// The agent that owns it.
    #[serde(default)]
    pub agent: Option<String>,
    /// Messages at most; capped at the manifest's `historyLimit`, which is also the default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// `before` of the page that was read last.
    #[serde(default)]
    pub before: Option<MessageId>,
}

/// A page of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPage {
    /// Oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Goes into the next call; null when nothing is older.
    pub before: Option<MessageId>,
}

/// Which session to make live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachParams {
    /// The session.
    pub id: SessionId,
    /// The agent that owns it.
    #[serde(default)]
    pub agent: Option<String>,
    /// Whether to take it from the process that holds it.
    #[serde(default)]
    pub takeover: bool,
    /// The model that it goes on with.
    #[serde(default)]
    pub model: Option<String>,
    /// Models to be tried in order when the first cannot be used.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

/// A session that is live, or open for reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The session.
    pub id: SessionId,
    /// Its agent.
    pub agent_id: String,
    /// Whether its agent cannot run it here; then it is not live.
    pub read_only: bool,
    /// The model that it has; null when its agent does not tell.
    pub model: Option<String>,
}

/// It is no longer live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Detached {
    /// Always true.
    pub detached: bool,
}

/// What a new session is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreateParams {
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// The agent that runs it; the default one otherwise.
    #[serde(default)]
    pub agent: Option<String>,
    /// Title for people.
    #[serde(default)]
    pub title: Option<String>,
    /// `provider/name`.
    #[serde(default)]
    pub model: Option<String>,
    /// Models to be tried in order when the first cannot be used.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

/// What to say to which session.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct PromptParams {
    /// A live session.
    pub id: SessionId,
    /// What is said; at least one part.
    #[schemars(length(min = 1))]
    pub parts: Vec<PromptPart>,
    /// The agent that owns the session.
    #[serde(default)]
    pub agent: Option<String>,
}

/// A piece of a prompt: the pieces of the session IR that a client can say.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// Members that are not known here; kept.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A picture, inline or by address.
    Image {
        /// Media type.
        mime: String,
        /// Base64.
        #[serde(default)]
        data: Option<String>,
        /// Address.
        #[serde(default)]
        uri: Option<String>,
        /// Members that are not known here; kept.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A file, by path or address.
    File {
        /// Path on this node.
        #[serde(default)]
        path: Option<String>,
        /// Address.
        #[serde(default)]
        uri: Option<String>,
        /// Media type.
        #[serde(default)]
        mime: Option<String>,
        /// Its text.
        #[serde(default)]
        text: Option<String>,
        /// Members that are not known here; kept.
        #[serde(flatten)]
        extra: Extra,
    },
}

impl From<PromptPart> for Part {
    fn from(part: PromptPart) -> Self {
        Self::Known(match part {
            PromptPart::Text { text, extra } => KnownPart::Text { text, extra },
            PromptPart::Image { mime, data, uri, extra } => KnownPart::Image { mime, data, uri, extra },
            PromptPart::File { path, uri, mime, text, extra } => KnownPart::File { path, uri, mime, text, extra },
        })
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptOutcome {
    /// Why it stopped.
    pub stop_reason: Stop,
    /// Tokens of the run.
    pub usage: Usage,
    /// Round trips to the model.
    pub turns: u32,
    /// The text of the last assistant message.
    pub reply: String,
    /// The run.
    pub run_id: RunId,
    /// What failed, when `stopReason` is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
}

/// What failed in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFailure {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// One line for people.
    pub message: String,
}

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// False when nothing ran.
    pub cancelled: bool,
}

/// The answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionParams {
    /// A live session.
    pub id: SessionId,
    /// The request.
    pub request: RequestId,
    /// One of its options, by id.
    pub option: String,
}

/// The request is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resolved {
    /// Always true.
    pub resolved: bool,
}

/// It is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// Always true.
    pub deleted: bool,
}

/// Changes of what the overlay says of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchMetaParams {
    /// The session.
    pub id: SessionId,
    /// The agent that owns it.
    #[serde(default)]
    pub agent: Option<String>,
    /// What is absent stays.
    pub patch: MetaPatch,
}

/// What the overlay may be told. Null clears a title or a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaPatch {
    /// Stands for the stored title.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub title: Option<Option<String>>,
    /// Pins it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Archives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// All projects that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_ids: Option<Vec<String>>,
    /// The model that the next attach asks for.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub model: Option<Option<String>>,
}

/// Tells a null from an absent member.
fn given<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<String>>, D::Error> {
    Deserialize::deserialize(d).map(Some)
}

/// The session's events come from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSubscribed {
    /// Always true.
    pub subscribed: bool,
    /// The session.
    pub session_id: SessionId,
}
