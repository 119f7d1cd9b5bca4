//! What goes into a session's state machine and what comes out of it.

use crate::{
    PlaneError,
    agent::{RunError, RunOutcome, Settings},
    plane::{Answer, Answered, TaskInfo, WhenBusy},
};
use std::sync::Arc;
use triplane_protocol::{
    AgentEvent, Message, MessageId, Part, RequestId, RunId, SessionId, Stop, TaskId, Usage,
    event::{CloseReason, Outcome, PermissionRequest, SettingsPatch, TaskState},
    record::Record,
};

pub use triplane_protocol::event::Origin;

/// Names a caller who waits for an answer. Never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A prompt, with the ids and the time that the machine may not make itself.
#[derive(Debug, Clone)]
pub struct PromptInput {
    /// Of the run to be.
    pub run_id: RunId,
    /// Of the user message to be.
    pub message_id: MessageId,
    /// What is said.
    pub parts: Vec<Part>,
    /// Who says it.
    pub origin: Origin,
    /// What to do when a run is in flight.
    pub when_busy: WhenBusy,
    /// Milliseconds since the epoch.
    pub at: i64,
}

/// Something that happens to a session.
#[derive(Debug)]
pub enum Input {
    /// Somebody prompts.
    Prompt(Ticket, PromptInput),
    /// The caller of a prompt that still waits gave up.
    Withdraw(Ticket),
    /// Somebody cancels the run in flight; if he saw one (its id), then that one only.
    Cancel(Ticket, Option<RunId>),
    /// The agent says something in a run.
    Agent(RunId, Say),
    /// A cancelled run did not end in time.
    Overdue(RunId),
    /// Somebody answers a permission request.
    Answer(Ticket, RequestId, Answer),
    /// Somebody changes settings; they were checked before.
    Set(Ticket, SettingsPatch),
    /// A record that only the transcript needs (a checkpoint).
    Record(Ticket, Record),
    /// Somebody empties the history: with a boundary of this id and time, written at once or with the next prompt (L07).
    Clear(Ticket, MessageId, i64, ClearWhen),
    /// Somebody wants the session to himself while it is idle; ends with [`Input::Release`].
    Reserve(Ticket),
    /// What was done while reserved: records to be written.
    Release(Ticket, Vec<Record>),
    /// Somebody has the history summarised; the run's id is for its cancel.
    Compact(Ticket, RunId),
    /// The summary, with the boundary's id and time; `None` when the compaction was given up.
    Compacted(RunId, Result<(String, Usage), RunError>, MessageId, i64),
    /// The plane has something to tell that is not the agent's.
    Tell(AgentEvent),
    /// A background task began.
    TaskStarted(TaskInfo),
    /// A background task ended: its state, its text, and when.
    TaskEnded(TaskId, TaskState, String, i64),
    /// The ids and the time for [`Effect::WantHandover`].
    Handover(PromptInput),
    /// Somebody stops a background task.
    StopTask(Ticket, TaskId),
    /// The session is to end.
    Close(Ticket, CloseReason, Closing),
    /// An [`Effect::Append`] is safe; its records come back.
    Stored(Step, Vec<Record>),
    /// An [`Effect::Append`] failed, and nothing of it is on disk.
    StoreFailed(Step, String),
}

/// What a close does to the run in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Cancels it.
    Now,
    /// Lets it end first.
    AfterRun,
    /// Nothing: with anything to do the session stays, and the close is refused.
    IfIdle,
}

/// When a clear's boundary is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClearWhen {
    /// At once. Clause: H22.
    Now,
    /// With the next prompt; the transcript's bytes stay as they are. Clause: L07.
    NextAppend,
}

/// What an append was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A run begins.
    Start,
    /// A run ends.
    End,
    /// Settings change; this caller waits.
    Set(Ticket),
    /// What was done while reserved.
    Release(Ticket),
    /// The boundary of a compaction.
    Compact,
    /// The boundary of a compaction in a run, which goes on after it.
    Squeeze,
    /// Something else that this caller waits for.
    Reply(Ticket),
    /// Nobody waits.
    Plain,
}

/// What an agent says in a run.
#[derive(Debug)]
pub enum Say {
    /// A fact.
    Event(AgentEvent),
    /// A message of the history.
    Message(Message),
    /// A tool call that waits for a person, if one can be reached at all.
    Ask {
        /// The request.
        request: PermissionRequest,
        /// Whether any party of this process could ever answer (C11).
        answerable: bool,
    },
    /// The run is over.
    Ended(RunOutcome),
}

/// A background task whose results wait to be handed over.
#[derive(Debug, Clone)]
pub struct FinishedTask {
    /// The task.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// How it ended.
    pub state: TaskState,
    /// Its output.
    pub text: String,
}

/// What a caller gets.
#[derive(Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// How the run ended that was told to stop; `None`: there was nothing to cancel. A run may have come to its own end first.
    Cancelled(Option<Stop>),
    /// What an answer did.
    Answered(Answered),
    /// What a compaction did: estimated tokens before and after.
    Compacted(u64, u64),
}

/// Something to be done outside, in order.
#[derive(Debug)]
pub enum Effect {
    /// Write records, then say [`Input::Stored`] or [`Input::StoreFailed`] before anything else; last of its step.
    Append {
        /// The records.
        records: Vec<Record>,
        /// Whether they must be safe first, since an acknowledgement follows.
        sync: bool,
        /// What it is for.
        then: Step,
    },
    /// Publish an event.
    Publish(AgentEvent),
    /// The run's start is stored and published: tell the caller.
    Accepted {
        /// Nobody, when the plane itself began the run.
        ticket: Option<Ticket>,
        /// The run.
        run_id: RunId,
    },
    /// Have the agent run.
    StartRun {
        /// The run.
        run_id: RunId,
        /// The user message that began it.
        message_id: MessageId,
        /// What the model sees.
        history: Vec<Arc<Message>>,
        /// Settings of the run's first turn.
        settings: Settings,
        /// Round trips that the run had already, when its context was made smaller for it.
        turns: u32,
    },
    /// Have the agent summarise; its answer comes as [`Input::Compacted`].
    StartCompact {
        /// For its cancel.
        run_id: RunId,
        /// What is to be summarised.
        history: Vec<Arc<Message>>,
        /// Settings of the session.
        settings: Settings,
    },
    /// Tell the agent to stop; if it does not, say [`Input::Overdue`] after a while.
    CancelRun(RunId),
    /// Give the agent up and say that the run ended.
    DropRun(RunId),
    /// The run's end is stored and published: tell the caller.
    Ended {
        /// The run.
        run_id: RunId,
        /// How it ended.
        outcome: RunOutcome,
    },
    /// Answer a caller.
    Reply(Ticket, Result<Reply, PlaneError>),
    /// Answer a caller with an error that names the session.
    Refuse(Ticket, fn(&SessionId) -> PlaneError),
    /// Tell the agent what became of its request.
    Verdict {
        /// The request.
        request_id: RequestId,
        /// How it ended.
        outcome: Outcome,
        /// The option that was chosen.
        option: Option<String>,
        /// Goes to the model when it was refused.
        reason: Option<String>,
    },
    /// Save a rule for this request and calls like it, then answer the caller.
    SaveRule {
        /// Who answered.
        ticket: Ticket,
        /// The request.
        request_id: RequestId,
        /// Whether such calls are allowed.
        allow: bool,
    },
    /// Make ids and a time and hand them in with [`Input::Handover`].
    WantHandover,
    /// Stop a background task.
    StopTask(TaskId),
    /// The session has ended; nothing follows.
    Closed {
        /// Why.
        reason: CloseReason,
        /// Who asked for it.
        closers: Vec<Ticket>,
    },
}
