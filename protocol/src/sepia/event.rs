//! The facts of a session in this wire's words, and the lines that carry them.
//! Invariants: one exhaustive match makes a [`SessionEvent`], borrowing everything; an event is encoded once and its bytes
//! are put into each reader's line. Clauses: S22–S27.

use crate::{
    AgentEvent, CallId, ErrorCode, Message, MessageId, Part, RequestId, RunId, SessionId, Stop, TaskId, Usage,
    event::{CloseReason, Origin, Outcome, PermissionOption, PermissionRequest, PlanEntry, SettingsPatch, TaskState},
    jsonrpc,
    sepia::{NODE_EVENT, NodeEvent, SESSION_EVENT},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Params of `session.event`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvents<'a> {
    /// The session.
    pub session_id: &'a SessionId,
    /// In order; empty when some were lost.
    pub events: Vec<SessionEvent<'a>>,
    /// How many events this reader lost, right here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lagged: Option<u64>,
}

/// One fact of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionEvent<'a> {
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact<'a>,
    /// Counts by one within the session, from 1.
    pub seq: u64,
}

/// What happened, by `type`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fact<'a> {
    /// The session is busy; first of a run.
    RunStarted {},
    /// The session is idle; last of a run.
    RunFinished {
        /// How the run ended; absent after a compaction.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Stop>,
    },
    /// A prompt was taken.
    UserMessage {
        /// The message's id.
        id: &'a MessageId,
        /// What was said.
        text: &'a str,
        /// Who said it.
        origin: Origin,
    },
    /// A round trip to the model begins.
    TurnStarted {
        /// From 1 within a run.
        turn: u32,
        /// `provider/name`.
        model: &'a str,
    },
    /// The model was asked.
    LlmStarted {
        /// `provider/name`.
        model: &'a str,
    },
    /// A piece of the reply.
    TextDelta {
        /// The piece.
        text: &'a str,
    },
    /// A piece of the reasoning.
    ThinkingDelta {
        /// The piece.
        text: &'a str,
    },
    /// The model is asked again after a failure.
    LlmRetry {
        /// From 1.
        attempt: u32,
        /// How long it is waited before.
        delay_ms: u64,
        /// What failed.
        message: &'a str,
    },
    /// The model's message is whole.
    MessageFinished {
        /// The message, as it stands in the history.
        message: &'a Message,
        /// Tokens of this turn.
        usage: Usage,
        /// Why the turn stopped.
        stop: Stop,
    },
    /// A tool begins.
    ToolCallStarted {
        /// Names the call.
        call_id: &'a CallId,
        /// The tool.
        name: &'a str,
        /// Its arguments.
        input: &'a Value,
        /// One line for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    /// A tool says something while it runs.
    ToolCallOutput {
        /// Names the call.
        call_id: &'a CallId,
        /// The piece.
        text: &'a str,
    },
    /// A tool is done.
    ToolCallFinished {
        /// Names the call.
        call_id: &'a CallId,
        /// What the model is told.
        output: &'a [Part],
        /// Whether it failed.
        error: bool,
        /// How long it took.
        duration_ms: u64,
        /// Unified diff of the change it made.
        #[serde(skip_serializing_if = "Option::is_none")]
        diff: Option<&'a str>,
    },
    /// A tool call waits for a person.
    PermissionRequest {
        /// Names the request.
        request_id: &'a RequestId,
        /// The call that waits.
        call_id: &'a CallId,
        /// The tool.
        tool: &'a str,
        /// One line for people.
        title: &'a str,
        /// The tool's arguments.
        input: &'a Value,
        /// What can be answered.
        options: &'a [PermissionOption],
    },
    /// A request was answered, or expired with its run.
    PermissionResolved {
        /// The request.
        request_id: &'a RequestId,
        /// How it ended.
        outcome: Outcome,
        /// Why, if somebody said.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        /// Who answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a str>,
    },
    /// The agent's list of steps.
    Plan {
        /// All steps, in order.
        entries: &'a [PlanEntry],
    },
    /// A background task began.
    TaskStarted {
        /// The task.
        task_id: &'a TaskId,
        /// One line for people.
        title: &'a str,
    },
    /// A background task ended.
    TaskFinished {
        /// The task.
        task_id: &'a TaskId,
        /// How it ended.
        state: TaskState,
        /// Its output.
        text: &'a str,
    },
    /// The history was summarised.
    Compacted {
        /// Estimated tokens before.
        before_tokens: u64,
        /// Estimated tokens after.
        after_tokens: u64,
        /// What stands for the history now.
        summary: &'a str,
    },
    /// A setting of the session was changed.
    SettingsChanged(&'a SettingsPatch),
    /// Tokens so far in this run.
    Usage(&'a Usage),
    /// The run's result.
    Final {
        /// The text of the last assistant message.
        reply: &'a str,
        /// Tokens of the run.
        usage: Usage,
        /// Round trips to the model.
        turns_used: u32,
        /// Why it stopped.
        stopped_reason: Stop,
        /// The run.
        run_id: &'a RunId,
    },
    /// Something failed.
    Error {
        /// Which kind of failure.
        code: ErrorCode,
        /// One line that helps.
        message: &'a str,
        /// Whether the same prompt may work later.
        retryable: bool,
    },
    /// The session left memory; its last event for this reader.
    SessionClosed {
        /// Why.
        reason: CloseReason,
    },
    /// What an agent sent that has no type here.
    Extension {
        /// The agent's name for it.
        name: &'a str,
        /// As it came.
        data: &'a Value,
    },
}

impl<'a> SessionEvent<'a> {
    /// The same fact in this wire's words.
    pub fn new(seq: u64, event: &'a AgentEvent) -> Self {
        Self { fact: fact(event), seq }
    }
}

fn fact(event: &AgentEvent) -> Fact<'_> {
    match event {
        AgentEvent::Status { busy: true, .. } => Fact::RunStarted {},
        AgentEvent::Status { busy: false, outcome } => Fact::RunFinished { outcome: *outcome },
        AgentEvent::UserMessage { id, text, origin } => Fact::UserMessage { id, text, origin: *origin },
        AgentEvent::TurnStart { turn, model } => Fact::TurnStarted { turn: *turn, model },
        AgentEvent::LlmStart { model } => Fact::LlmStarted { model },
        AgentEvent::LlmDelta { text } => Fact::TextDelta { text },
        AgentEvent::LlmThinkingDelta { text } => Fact::ThinkingDelta { text },
        AgentEvent::LlmRetry { attempt, delay_ms, message } => {
            Fact::LlmRetry { attempt: *attempt, delay_ms: *delay_ms, message }
        }
        AgentEvent::LlmEnd { message, usage, stop } => Fact::MessageFinished { message, usage: *usage, stop: *stop },
        AgentEvent::ToolCallStart { call_id, name, input, title } => {
            Fact::ToolCallStarted { call_id, name, input, title: title.as_deref() }
        }
        AgentEvent::ToolCallOutput { call_id, text } => Fact::ToolCallOutput { call_id, text },
        AgentEvent::ToolCallEnd { call_id, output, error, duration_ms, diff } => {
            Fact::ToolCallFinished { call_id, output, error: *error, duration_ms: *duration_ms, diff: diff.as_deref() }
        }
        AgentEvent::PermissionRequest(PermissionRequest { request_id, call_id, tool, title, input, options }) => {
            Fact::PermissionRequest { request_id, call_id, tool, title, input, options }
        }
        AgentEvent::PermissionResolved { request_id, outcome, reason, by } => {
            Fact::PermissionResolved { request_id, outcome: *outcome, reason: reason.as_deref(), by: by.as_deref() }
        }
        AgentEvent::Plan { entries } => Fact::Plan { entries },
        AgentEvent::TaskStart { task_id, title } => Fact::TaskStarted { task_id, title },
        AgentEvent::TaskEnd { task_id, state, text } => Fact::TaskFinished { task_id, state: *state, text },
        AgentEvent::Compaction { before_tokens, after_tokens, summary } => {
            Fact::Compacted { before_tokens: *before_tokens, after_tokens: *after_tokens, summary }
        }
        AgentEvent::SettingsChanged(patch) => Fact::SettingsChanged(patch),
        AgentEvent::Usage(usage) => Fact::Usage(usage),
        AgentEvent::Final { reply, usage, turns_used, stopped_reason, run_id } => {
            Fact::Final { reply, usage: *usage, turns_used: *turns_used, stopped_reason: *stopped_reason, run_id }
        }
        AgentEvent::Error { code, message, retryable } => Fact::Error { code: *code, message, retryable: *retryable },
        AgentEvent::SessionClosed { reason } => Fact::SessionClosed { reason: *reason },
        AgentEvent::Extension { name, data } => Fact::Extension { name, data },
    }
}

/// One event as JSON; what every line that carries it is built around.
pub fn encode(seq: u64, event: &AgentEvent) -> Vec<u8> {
    // Our own types into memory: this cannot fail.
    serde_json::to_vec(&SessionEvent::new(seq, event)).unwrap_or_else(|_| format!(r#"{{"seq":{seq}}}"#).into_bytes())
}

/// A `session.event` notification with events that are encoded already.
pub fn session_events<B: AsRef<[u8]>>(id: &SessionId, events: &[B]) -> Vec<u8> {
    line(SESSION_EVENT, "", id, events)
}

/// A `session.event` notification that tells how many events were lost.
pub fn session_lagged(id: &SessionId, lost: u64) -> Vec<u8> {
    jsonrpc::notification(SESSION_EVENT, &format!(r#"{{"sessionId":"{id}","events":[],"lagged":{lost}}}"#))
}

/// A `node.event` notification of `sessionEvents`, with events that are encoded already.
pub fn node_session_events<B: AsRef<[u8]>>(id: &SessionId, events: &[B]) -> Vec<u8> {
    line(NODE_EVENT, r#""type":"sessionEvents","#, id, events)
}

/// A `node.event` notification.
pub fn node_event(event: &NodeEvent<'_>) -> Vec<u8> {
    jsonrpc::notification(NODE_EVENT, &serde_json::to_string(event).unwrap_or_default())
}

fn line<B: AsRef<[u8]>>(method: &str, before: &str, id: &SessionId, events: &[B]) -> Vec<u8> {
    let bytes: usize = events.iter().map(|event| event.as_ref().len() + 1).sum();
    let mut line = EventLine::new(method, before, id, bytes);
    for event in events {
        line.push(event.as_ref());
    }
    line.finish()
}

/// A notification with events of one session, made piece by piece.
#[derive(Debug)]
pub struct EventLine {
    out: Vec<u8>,
    /// Where the events begin.
    start: usize,
}

impl EventLine {
    /// A `session.event`; `bytes`: about how many its events will have.
    pub fn of_session(id: &SessionId, bytes: usize) -> Self {
        Self::new(SESSION_EVENT, "", id, bytes)
    }

    fn new(method: &str, before: &str, id: &SessionId, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes + before.len() + id.as_str().len() + 96);
        // A session's id needs no escapes; its grammar has none of the characters.
        let head = [r#"{"jsonrpc":"2.0","method":""#, method, r#"","params":{"#, before];
        for piece in head.into_iter().chain([r#""sessionId":""#, id.as_str(), r#"","events":["#]) {
            out.extend_from_slice(piece.as_bytes());
        }
        let start = out.len();
        Self { out, start }
    }

    /// Adds an event that is encoded already.
    pub fn push(&mut self, event: &[u8]) {
        self.comma();
        self.out.extend_from_slice(event);
    }

    /// Adds an event.
    pub fn encode(&mut self, seq: u64, event: &AgentEvent) {
        self.comma();
        let before = self.out.len();
        // Our own types into memory: this cannot fail.
        if serde_json::to_writer(&mut self.out, &SessionEvent::new(seq, event)).is_err() {
            self.out.truncate(before);
            self.out.extend_from_slice(format!(r#"{{"seq":{seq}}}"#).as_bytes());
        }
    }

    fn comma(&mut self) {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
    }

    /// Bytes of its events so far.
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// The whole line.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(b"]}}");
        self.out
    }
}
