//! The facts of a session as they happen: lich's `event`, larik's SSE data, and (renamed) sepia's `SessionEvent`.
//! Order in a run: `status` busy, `user_message`, turns, `final` (or `error` and `final`), `status` idle, last. Clauses: L17, H13, H14.

use crate::{
    CallId, MessageId, RequestId, RunId, TaskId,
    code::ErrorCode,
    ir::{Effort, Message, Mode, Part, Stop, Usage},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One fact of a session, by `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// A prompt was taken.
    UserMessage {
        /// The message's id.
        id: MessageId,
        /// What was said.
        text: String,
        /// Who said it.
        origin: Origin,
    },
    /// A run began or ended; first and last of a run.
    Status {
        /// Whether a run is in flight.
        busy: bool,
        /// How the run ended, when one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Stop>,
    },
    /// A round trip to the model begins.
    TurnStart {
        /// From 1 within a run.
        turn: u32,
        /// `provider/name`.
        model: String,
    },
    /// The model was asked.
    LlmStart {
        /// `provider/name`.
        model: String,
    },
    /// A piece of the reply.
    LlmDelta {
        /// The piece.
        text: String,
    },
    /// A piece of the reasoning.
    LlmThinkingDelta {
        /// The piece.
        text: String,
    },
    /// The model is asked again after a failure.
    LlmRetry {
        /// From 1.
        attempt: u32,
        /// How long it is waited before.
        delay_ms: u64,
        /// What failed.
        message: String,
    },
    /// The model's message is whole.
    LlmEnd {
        /// The message, as it stands in the history.
        message: Message,
        /// Tokens of this turn.
        usage: Usage,
        /// Why the turn stopped.
        stop: Stop,
    },
    /// A tool begins.
    ToolCallStart {
        /// Names the call.
        call_id: CallId,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A tool says something while it runs.
    ToolCallOutput {
        /// Names the call.
        call_id: CallId,
        /// The piece.
        text: String,
    },
    /// A tool is done.
    ToolCallEnd {
        /// Names the call.
        call_id: CallId,
        /// What the model is told.
        output: Vec<Part>,
        /// Whether it failed.
        error: bool,
        /// How long it took.
        duration_ms: u64,
        /// Unified diff of the change it made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
    },
    /// A tool call waits for a person.
    PermissionRequest(PermissionRequest),
    /// A request was answered, or expired with its run.
    PermissionResolved {
        /// The request.
        request_id: RequestId,
        /// How it ended.
        outcome: Outcome,
        /// Why, if somebody said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The agent's list of steps.
    Plan {
        /// All steps, in order.
        entries: Vec<PlanEntry>,
    },
    /// A background task began.
    TaskStart {
        /// The task.
        task_id: TaskId,
        /// One line for people.
        title: String,
    },
    /// A background task ended.
    TaskEnd {
        /// The task.
        task_id: TaskId,
        /// How it ended.
        state: TaskState,
        /// Its output.
        text: String,
    },
    /// The history was summarised.
    Compaction {
        /// Estimated tokens before.
        before_tokens: u64,
        /// Estimated tokens after.
        after_tokens: u64,
        /// What stands for the history now.
        summary: String,
    },
    /// A setting of the session was changed.
    SettingsChanged(SettingsPatch),
    /// Tokens so far in this run.
    Usage(Usage),
    /// The run's result; the last event of a run but for `status`.
    Final {
        /// The text of the last assistant message.
        reply: String,
        /// Tokens of the run.
        usage: Usage,
        /// Round trips to the model.
        turns_used: u32,
        /// Why it stopped.
        stopped_reason: Stop,
        /// The run.
        run_id: RunId,
    },
    /// Something failed.
    Error {
        /// Which kind of failure.
        code: ErrorCode,
        /// One line that helps.
        message: String,
        /// Whether the same prompt may work later.
        retryable: bool,
    },
    /// The session left memory.
    SessionClosed {
        /// Why.
        reason: CloseReason,
    },
    /// What an agent sent that has no type here.
    Extension {
        /// The agent's name for it.
        name: String,
        /// As it came.
        data: Value,
    },
}

impl AgentEvent {
    /// The `type` tag.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user_message",
            Self::Status { .. } => "status",
            Self::TurnStart { .. } => "turn_start",
            Self::LlmStart { .. } => "llm_start",
            Self::LlmDelta { .. } => "llm_delta",
            Self::LlmThinkingDelta { .. } => "llm_thinking_delta",
            Self::LlmRetry { .. } => "llm_retry",
            Self::LlmEnd { .. } => "llm_end",
            Self::ToolCallStart { .. } => "tool_call_start",
            Self::ToolCallOutput { .. } => "tool_call_output",
            Self::ToolCallEnd { .. } => "tool_call_end",
            Self::PermissionRequest(_) => "permission_request",
            Self::PermissionResolved { .. } => "permission_resolved",
            Self::Plan { .. } => "plan",
            Self::TaskStart { .. } => "task_start",
            Self::TaskEnd { .. } => "task_end",
            Self::Compaction { .. } => "compaction",
            Self::SettingsChanged(_) => "settings_changed",
            Self::Usage(_) => "usage",
            Self::Final { .. } => "final",
            Self::Error { .. } => "error",
            Self::SessionClosed { .. } => "session_closed",
            Self::Extension { .. } => "extension",
        }
    }
}

/// A tool call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRequest {
    /// Names the request.
    pub request_id: RequestId,
    /// The call that waits.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// One line for people.
    pub title: String,
    /// The tool's arguments.
    pub input: Value,
    /// What can be answered.
    pub options: Vec<PermissionOption>,
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionOption {
    /// Names the option; the native agent's ids are the kinds.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it means.
    pub kind: OptionKind,
}

/// What an option means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Allow this call.
    AllowOnce,
    /// Allow it, and calls like it from now on.
    AllowAlways,
    /// Refuse this call.
    RejectOnce,
    /// Refuse it, and calls like it from now on.
    RejectAlways,
}

impl OptionKind {
    /// Whether the call may go on.
    pub const fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// Whether a rule is saved.
    pub const fn always(self) -> bool {
        matches!(self, Self::AllowAlways | Self::RejectAlways)
    }
}

/// How a permission request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call went on.
    Allowed,
    /// The call was refused.
    Denied,
    /// The run ended first.
    Expired,
}

/// Who said a user message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A client's prompt.
    Client,
    /// The results of background tasks, handed over by the plane.
    Task,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    /// The step.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Not begun.
    Pending,
    /// Being worked on.
    Active,
    /// Finished.
    Done,
}

/// How a background task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Still going.
    Running,
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// Stopped by somebody.
    Stopped,
}

/// Settings that changed; what is absent stayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsPatch {
    /// `provider/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Why a session left memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Somebody asked, or another process took it over.
    Explicit,
    /// Nobody used it for long enough.
    Idle,
    /// It was deleted.
    Deleted,
    /// Its history was rewound.
    Rewind,
    /// The plane shut down.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_the_serialized_tag() {
        let events = [
            AgentEvent::Status { busy: true, outcome: None },
            AgentEvent::Usage(Usage::default()),
            AgentEvent::SettingsChanged(SettingsPatch::default()),
            AgentEvent::LlmThinkingDelta { text: "x".into() },
            AgentEvent::SessionClosed { reason: CloseReason::Idle },
        ];
        for event in events {
            assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.kind());
        }
    }
}
