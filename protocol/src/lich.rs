//! lich: JSON-RPC over WebSocket. Its methods, the one notification, and which events it carries.
//! A row's [`Queue`](crate::table::Queue) says what waits: requests that name a session go one after another, an abort goes at once.
//! Clauses: L01–L24.

use crate::{
    AgentEvent, RunId, SessionId, Stop, Usage,
    table::{Notification, Row},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::rpc_wire! {
    /// Says that the server is up, and which version it is.
    Health: "health" (HealthParams) -> HealthResult, queue None, errors [], clauses ["L03", "L04"];
    /// Makes a session with an empty history. Its empty transcript is on disk before the reply.
    SessionCreate: "session.create" (SessionCreateParams) -> SessionCreateResult, queue None,
        errors [UnknownAgent, Overloaded], clauses ["L05", "L12", "L13"];
    /// Lists the transcripts, newest write first.
    SessionList: "session.list" (SessionListParams) -> SessionListResult, queue None, errors [], clauses ["L04", "L06", "C13"];
    /// Empties the history in memory. The transcript's bytes stay, and so does the handle.
    SessionClear: "session.clear" (SessionClearParams) -> SessionClearResult, queue BySession,
        errors [NotFound, Busy], clauses ["L07", "L12", "L19"];
    /// Forks a transcript into a new session: its history without the trailing user messages.
    SessionResume: "session.resume" (SessionResumeParams) -> SessionResumeResult, queue None,
        errors [NotFound, Ambiguous, UnknownAgent, Overloaded], clauses ["L08", "L09", "L10", "L11", "L13"];
    /// Runs a prompt and answers when the run has ended, however it ended. The run's events come before the reply.
    PromptSubmit: "prompt.submit" (PromptSubmitParams) -> PromptSubmitResult, queue BySession,
        errors [NotFound, NoAgent, Cancelled, Overloaded, TooLarge, Unavailable], clauses ["L14", "L15", "L16", "L18", "L19", "L20"];
    /// Cancels the session's run in flight, and the submits of this socket that still wait for it.
    PromptAbort: "prompt.abort" (PromptAbortParams) -> PromptAbortResult, queue None, errors [NoAgent], clauses ["L18", "L20"];
}

/// What the server sends unasked.
pub const NOTIFICATIONS: &[Notification] = &[Notification {
    name: EVENT,
    doc: " An event of a run, on the socket that submitted it, while the submit is in flight.\n",
    params: |g| g.subschema_for::<EventParams>(),
}];

/// Name of the notification that carries an event.
pub const EVENT: &str = "event";

/// Nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthParams {}

/// The server is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthResult {
    /// Always `ok`.
    pub status: HealthStatus,
    /// Version of the program.
    pub version: String,
}

/// How the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// It serves.
    Ok,
}

/// A new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCreateParams {
    /// Free text, kept in the transcript's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which client creates it.
    pub source: String,
}

/// The new session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCreateResult {
    /// Its id.
    pub session_id: SessionId,
}

/// Nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionListParams {}

/// The transcripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionListResult {
    /// Newest write first.
    pub sessions: Vec<ListedSession>,
}

/// One transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedSession {
    /// The session.
    pub id: SessionId,
    /// When it was last written to, in milliseconds since the epoch.
    pub mtime_ms: i64,
}

/// Which session to clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionClearParams {
    /// A live session.
    pub session_id: SessionId,
}

/// The session was cleared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionClearResult {
    /// The same session.
    pub session_id: SessionId,
}

/// Which transcript to go on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumeParams {
    /// A whole id, a unique prefix of one, or `latest`.
    pub id: String,
    /// Which client resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumeResult {
    /// The new session.
    pub session_id: SessionId,
    /// The transcript that it was forked from.
    pub resumed_id: SessionId,
    /// Messages in its history.
    pub message_count: u64,
}

/// What to say to which session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSubmitParams {
    /// A live session.
    pub session_id: SessionId,
    /// The prompt; not empty.
    pub text: String,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSubmitResult {
    /// The text of the last assistant message.
    pub reply: String,
    /// Tokens of the run.
    pub usage: Usage,
    /// Absolute path of the transcript.
    pub session_path: String,
    /// Round trips to the model.
    pub turns_used: u32,
    /// Why it stopped.
    pub stopped_reason: Stop,
    /// The run.
    pub run_id: RunId,
}

/// Whose run to cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAbortParams {
    /// The session.
    pub session_id: SessionId,
}

/// What was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAbortResult {
    /// The same session.
    pub session_id: SessionId,
    /// False when there was nothing to cancel.
    pub aborted: bool,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventParams {
    /// The session that runs.
    pub session_id: SessionId,
    /// The event, as it is in process.
    pub event: AgentEvent,
}

/// Whether this wire carries the event: all that the agent says, none of the four that the plane adds. Clause: L17.
pub const fn forwarded(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::UserMessage { .. }
        | AgentEvent::Status { .. }
        | AgentEvent::PermissionResolved { .. }
        | AgentEvent::SessionClosed { .. } => false,
        AgentEvent::TurnStart { .. }
        | AgentEvent::LlmStart { .. }
        | AgentEvent::LlmDelta { .. }
        | AgentEvent::LlmThinkingDelta { .. }
        | AgentEvent::LlmRetry { .. }
        | AgentEvent::LlmEnd { .. }
        | AgentEvent::ToolCallStart { .. }
        | AgentEvent::ToolCallOutput { .. }
        | AgentEvent::ToolCallEnd { .. }
        | AgentEvent::PermissionRequest(_)
        | AgentEvent::Plan { .. }
        | AgentEvent::TaskStart { .. }
        | AgentEvent::TaskEnd { .. }
        | AgentEvent::Compaction { .. }
        | AgentEvent::SettingsChanged(_)
        | AgentEvent::Usage(_)
        | AgentEvent::Final { .. }
        | AgentEvent::Error { .. }
        | AgentEvent::Extension { .. } => true,
    }
}

/// The row of a method by its wire name, for a dispatcher.
pub fn lookup(name: &str) -> Option<(Method, &'static Row)> {
    Method::from_name(name).map(|method| (method, method.row()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Queue, decode};

    #[test]
    fn the_methods_are_exactly_the_seven_of_the_document() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let locked = [
            "health",
            "session.create",
            "session.list",
            "session.clear",
            "session.resume",
            "prompt.submit",
            "prompt.abort",
        ];
        assert_eq!(names, locked);
        for near in ["session.Create", "session.create ", "rpc.discover", "prompt.submit\0", "health/", ""] {
            assert_eq!(Method::from_name(near), None, "{near:?}");
        }
    }

    #[test]
    fn an_abort_waits_for_nothing_and_a_submit_for_its_session() {
        assert_eq!(Method::PromptAbort.row().queue, Queue::None);
        assert_eq!(Method::PromptSubmit.row().queue, Queue::BySession);
        assert_eq!(Method::SessionClear.row().queue, Queue::BySession);
    }

    #[test]
    fn params_may_be_absent_where_there_are_none_and_are_named_where_they_are_missing() {
        assert_eq!(decode::<HealthParams>(None), Ok(HealthParams {}));
        assert_eq!(decode::<SessionListParams>(Some("{\"x\":1}")), Ok(SessionListParams {}));
        let refused = |raw| decode::<PromptSubmitParams>(Some(raw)).unwrap_err().message;
        assert_eq!(refused("{\"text\":\"x\"}"), "missing field `session_id`");
        assert_eq!(refused("{\"session_id\":\"a\",\"text\":[1]}"), "text: invalid type: sequence, expected a string");
        assert!(refused("{\"session_id\":\"../a\",\"text\":\"x\"}").starts_with("session_id: a session id has"));
        let create: SessionCreateParams = decode(Some("{\"source\":\"t\",\"more\":0}")).unwrap();
        assert_eq!(create, SessionCreateParams { label: None, source: "t".into() });
    }

    #[test]
    fn the_four_that_the_plane_adds_are_not_carried() {
        assert!(!forwarded(&AgentEvent::Status { busy: true, outcome: None }));
        assert!(forwarded(&AgentEvent::LlmDelta { text: "x".into() }));
    }
}
