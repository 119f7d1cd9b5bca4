//! A session as a pure state machine: inputs in, effects out. No clock, no I/O, no randomness: ids and times come with the inputs.
//!
//! Invariants: one run at a time; a run ends exactly once; a permission request is resolved exactly once; nothing is
//! published after `session_closed`; the queue of waiting prompts is bounded. Clauses: L15, L18, H14, H18, H19, H24, S15.
//!
//! Effects are carried out in order. What follows from a write comes only after it: an [`Effect::Append`] is the last effect
//! of its step, and is answered by [`Input::Stored`] or [`Input::StoreFailed`] before anything else. So memory never has
//! what the disk has not.

use super::{
    input::{Closing, Effect, FinishedTask, Input, Origin, PromptInput, Reply, Say, Step, Ticket},
    overflow::Overflow,
    upkeep::Squeeze,
};
use crate::{
    PlaneError,
    agent::{RunError, RunOutcome, Settings},
    plane::{TaskInfo, WhenBusy},
    store::History,
};
use std::{collections::VecDeque, sync::Arc};
use triplane_protocol::{
    AgentEvent, ErrorCode, Message, MessageId, Role, RunId, Stop,
    event::{CloseReason, Outcome, PermissionRequest, SettingsPatch, TaskState},
    record::Record,
};

/// The state of one live session.
#[derive(Debug)]
pub struct Machine {
    /// What the transcript says, folded.
    pub history: History,
    /// Settings of the next turn.
    pub settings: Settings,
    pub(super) phase: Phase,
    waiting: VecDeque<(Ticket, PromptInput)>,
    queue_cap: usize,
    pub(super) permissions: Vec<PermissionRequest>,
    pub(super) tasks: Vec<TaskInfo>,
    pub(super) handover: Vec<FinishedTask>,
    pub(super) closing: Option<CloseReason>,
    closers: Vec<Ticket>,
    /// Records that go out with the next write: what create was given, the end of a run that a crash cut off.
    pub(super) unsaved: Vec<Record>,
}

/// What the session is doing.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Running(Box<Flight>),
    Compacting(Squeeze),
    Reserved,
    Closed,
}

/// The run in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) run_id: RunId,
    /// Who prompted; nobody, when the plane itself began the run.
    ticket: Option<Ticket>,
    pub(super) message_id: MessageId,
    origin: Origin,
    pub(super) cancelling: bool,
    cancel_waiters: Vec<Ticket>,
    /// How many finished tasks its prompt hands over.
    hands_over: usize,
    /// The outcome, once the agent gave it; kept for the case that its record cannot be written.
    pub(super) ended: Option<RunOutcome>,
    /// What its context was made smaller for, and how far it had come before.
    pub(super) overflow: Overflow,
}

impl Machine {
    /// A session at rest. `queue_cap`: prompts that may wait.
    pub fn new(history: History, settings: Settings, queue_cap: usize) -> Self {
        Self {
            history,
            settings,
            phase: Phase::Idle,
            waiting: VecDeque::new(),
            queue_cap,
            permissions: Vec::new(),
            tasks: Vec::new(),
            handover: Vec::new(),
            closing: None,
            closers: Vec::new(),
            unsaved: Vec::new(),
        }
    }

    /// Has `record` written with the next prompt, not by itself: loading is not a write (C13).
    pub fn write_later(&mut self, record: Record) {
        self.history.apply(record.clone());
        self.unsaved.push(record);
    }

    /// Whether a run is in flight.
    pub fn busy(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Compacting(_))
    }

    /// Whether a prompt could begin now.
    pub(super) fn idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether anything keeps it from being let go: a run, a waiting prompt, a running task.
    pub fn occupied(&self) -> bool {
        self.busy()
            || matches!(self.phase, Phase::Reserved)
            || !self.waiting.is_empty()
            || self.tasks.iter().any(|task| task.state == TaskState::Running)
    }

    /// Has `records` written, after what still waited for a write; the last effect of its step.
    pub(super) fn append(
        &self,
        records: impl IntoIterator<Item = Record>,
        sync: bool,
        then: Step,
        out: &mut Vec<Effect>,
    ) {
        let records = self.unsaved.iter().cloned().chain(records).collect();
        out.push(Effect::Append { records, sync, then });
    }

    /// Whether it has ended.
    pub fn closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// The run in flight.
    pub fn run_id(&self) -> Option<&RunId> {
        match &self.phase {
            Phase::Running(flight) => Some(&flight.run_id),
            Phase::Compacting(squeeze) => Some(&squeeze.run_id),
            Phase::Idle | Phase::Reserved | Phase::Closed => None,
        }
    }

    /// How many prompts wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// One step. The effects are to be carried out in order.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::Prompt(ticket, prompt) => self.prompt(ticket, prompt, &mut out),
            Input::Withdraw(ticket) => self.withdraw(ticket, &mut out),
            Input::Cancel(ticket, run_id) => self.cancel(ticket, run_id.as_ref(), &mut out),
            Input::Agent(run_id, say) => self.agent(&run_id, say, &mut out),
            Input::Overdue(run_id) => self.overdue(&run_id, &mut out),
            Input::Answer(ticket, request_id, answer) => {
                let by = answer.by;
                self.answer(ticket, &request_id, answer.choice, answer.reason, by, &mut out);
            }
            Input::Set(ticket, patch) => self.set(ticket, patch, &mut out),
            Input::Record(ticket, record) => self.record(ticket, record, &mut out),
            Input::Clear(ticket, id, at, when) => self.clear(ticket, id, at, when, &mut out),
            Input::Reserve(ticket) => self.reserve(ticket, &mut out),
            Input::Release(ticket, records) => self.release(ticket, records, &mut out),
            Input::Compact(ticket, run_id) => self.compact(ticket, run_id, &mut out),
            Input::Compacted(run_id, result, id, at) => self.compacted(&run_id, result, id, at, &mut out),
            Input::Tell(event) => {
                if !self.closed() {
                    out.push(Effect::Publish(event));
                }
            }
            Input::TaskStarted(task) => self.task_started(task, &mut out),
            Input::TaskEnded(id, state, text, at) => self.task_ended(&id, state, text, at, &mut out),
            Input::Handover(prompt) => self.start_handover(prompt, &mut out),
            Input::StopTask(ticket, id) => self.stop_task(ticket, &id, &mut out),
            Input::Close(ticket, reason, when) => self.close(ticket, reason, when, &mut out),
            Input::Stored(step, records) => self.stored(step, records, &mut out),
            Input::StoreFailed(step, error) => self.store_failed(step, &error, &mut out),
        }
        out
    }

    fn prompt(&mut self, ticket: Ticket, prompt: PromptInput, out: &mut Vec<Effect>) {
        if self.closing.is_some() || self.closed() {
            out.push(Effect::Reply(ticket, Err(PlaneError::Closing)));
        } else if self.idle() {
            self.start(Some(ticket), prompt, 0, out);
        } else if prompt.when_busy == WhenBusy::Refuse {
            out.push(Effect::Refuse(ticket, |id| PlaneError::Busy(id.to_string())));
        } else if self.waiting.len() >= self.queue_cap {
            let text = format!("{} prompts wait already; let some of them end first", self.waiting.len());
            out.push(Effect::Reply(ticket, Err(PlaneError::Overloaded(text))));
        } else {
            self.waiting.push_back((ticket, prompt));
        }
    }

    fn withdraw(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == ticket) {
            self.waiting.remove(at);
            out.push(Effect::Reply(ticket, Err(PlaneError::Cancelled)));
        }
    }

    pub(super) fn start(
        &mut self,
        ticket: Option<Ticket>,
        prompt: PromptInput,
        hands_over: usize,
        out: &mut Vec<Effect>,
    ) {
        let PromptInput { run_id, message_id, parts, origin, at, .. } = prompt;
        let message = Message::of(message_id.clone(), Role::User, parts, at);
        let started = Record::started(run_id.clone());
        self.phase = Phase::Running(Box::new(Flight {
            run_id,
            ticket,
            message_id,
            origin,
            cancelling: false,
            cancel_waiters: Vec::new(),
            hands_over,
            ended: None,
            overflow: Overflow::default(),
        }));
        self.append([started, Record::Message(message)], true, Step::Start, out);
    }

    /// The start of the run is on disk: tell it and go.
    fn started(&mut self, out: &mut Vec<Effect>) {
        let Phase::Running(flight) = &mut self.phase else { return };
        self.handover.drain(..std::mem::take(&mut flight.hands_over).min(self.handover.len()));
        let text = self.history.messages().last().map(|message| message.plain_text()).unwrap_or_default();
        let (id, run_id) = (flight.message_id.clone(), flight.run_id.clone());
        out.push(Effect::Publish(AgentEvent::Status { busy: true, outcome: None }));
        out.push(Effect::Publish(AgentEvent::UserMessage { id: id.clone(), text, origin: flight.origin }));
        out.push(Effect::Accepted { ticket: flight.ticket, run_id: run_id.clone() });
        let (history, settings) = (self.history.context(), self.settings.clone());
        out.push(Effect::StartRun { run_id, message_id: id, history, settings, turns: 0 });
    }

    /// Cancels the run in flight, but none that began after the one that the caller saw. Clause: H19.
    fn cancel(&mut self, ticket: Ticket, seen: Option<&RunId>, out: &mut Vec<Effect>) {
        let meant = seen.is_none_or(|seen| self.run_id() == Some(seen));
        match &mut self.phase {
            _ if !meant => out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(None)))),
            Phase::Running(flight) => {
                flight.cancel_waiters.push(ticket);
                self.cancel_flight(out);
            }
            Phase::Compacting(squeeze) => {
                squeeze.cancel_waiters.push(ticket);
                self.cancel_flight(out);
            }
            Phase::Idle | Phase::Reserved | Phase::Closed => {
                out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(None))));
            }
        }
    }

    /// Tells the agent to stop, once, and then lets what it asked for expire: in that order, so that an agent that wakes
    /// for the verdict already knows that its run is over.
    pub(super) fn cancel_flight(&mut self, out: &mut Vec<Effect>) {
        let flight = match &mut self.phase {
            Phase::Running(flight) => Some((&flight.run_id, &mut flight.cancelling)),
            Phase::Compacting(squeeze) => Some((&squeeze.run_id, &mut squeeze.cancelling)),
            Phase::Idle | Phase::Reserved | Phase::Closed => None,
        };
        if let Some((run_id, cancelling)) = flight
            && !std::mem::replace(cancelling, true)
        {
            out.push(Effect::CancelRun(run_id.clone()));
        }
        self.expire_permissions(out);
    }

    fn agent(&mut self, run_id: &RunId, say: Say, out: &mut Vec<Effect>) {
        let cancelling = match &self.phase {
            Phase::Running(flight) if flight.run_id == *run_id => flight.cancelling,
            Phase::Running(_) | Phase::Idle | Phase::Compacting(_) | Phase::Reserved | Phase::Closed => {
                // Too late to be told, but whoever asks (a background task of that run) must not wait for ever.
                if let Say::Ask { request, .. } = say {
                    let (request_id, outcome) = (request.request_id, Outcome::Expired);
                    out.push(Effect::Verdict { request_id, outcome, option: None, reason: None });
                }
                return;
            }
        };
        match say {
            Say::Event(event) => out.push(Effect::Publish(self.counted(event))),
            Say::Message(message) => self.append([Record::Message(message)], false, Step::Plain, out),
            Say::Ask { request, answerable } => self.asked(request, answerable, cancelling, out),
            Say::Ended(outcome) => self.said_ended(outcome, out),
        }
    }

    /// The run's end: stored first, then told.
    pub(super) fn end(&mut self, outcome: RunOutcome, out: &mut Vec<Effect>) {
        if let Phase::Running(flight) = &mut self.phase {
            let outcome = flight.overflow.sum(outcome);
            let record = Record::ended(flight.run_id.clone(), outcome.stop);
            flight.ended = Some(outcome);
            self.append([record], true, Step::End, out);
        }
    }

    /// Publishes `error`, `final` and `status`, answers everybody who waited, and goes on to what is next.
    fn tell_end(&mut self, out: &mut Vec<Effect>) {
        let Phase::Running(flight) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        let Some(outcome) = flight.ended else { return };
        if let Some(error) = &outcome.error {
            out.push(Effect::Publish(AgentEvent::Error {
                code: error.code,
                message: error.message.clone(),
                retryable: error.retryable,
            }));
        }
        out.push(Effect::Publish(AgentEvent::Final {
            reply: outcome.reply.clone(),
            usage: outcome.usage,
            turns_used: outcome.turns,
            stopped_reason: outcome.stop,
            run_id: flight.run_id.clone(),
        }));
        out.push(Effect::Publish(AgentEvent::Status { busy: false, outcome: Some(outcome.stop) }));
        let stop = outcome.stop;
        out.push(Effect::Ended { run_id: flight.run_id, outcome });
        for ticket in flight.cancel_waiters {
            out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(Some(stop)))));
        }
        self.next(out);
    }

    /// What comes after a run: the end, the results of background tasks, or the next prompt.
    pub(super) fn next(&mut self, out: &mut Vec<Effect>) {
        if self.closing.is_none() && !self.handover.is_empty() {
            out.push(Effect::WantHandover);
        } else {
            self.next_waiting(out);
        }
    }

    fn next_waiting(&mut self, out: &mut Vec<Effect>) {
        if let Some(reason) = self.closing {
            self.finish_close(reason, out);
        } else if let Some((ticket, prompt)) = self.waiting.pop_front() {
            self.start(Some(ticket), prompt, 0, out);
        }
    }

    fn overdue(&mut self, run_id: &RunId, out: &mut Vec<Effect>) {
        if self.run_id() == Some(run_id) {
            out.push(Effect::DropRun(run_id.clone()));
        }
    }

    fn set(&mut self, ticket: Ticket, patch: SettingsPatch, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::Reply(ticket, Err(PlaneError::Closing)));
            return;
        }
        self.append([Record::set(patch)], true, Step::Set(ticket), out);
    }

    fn settings_stored(&mut self, ticket: Ticket, records: &[Record], out: &mut Vec<Effect>) {
        for record in records {
            let Record::Set { patch, .. } = record else { continue };
            if let Some(model) = &patch.model {
                self.settings.model.clone_from(model);
            }
            self.settings.effort = patch.effort.or(self.settings.effort);
            self.settings.mode = patch.mode.unwrap_or(self.settings.mode);
            out.push(Effect::Publish(AgentEvent::SettingsChanged(patch.clone())));
        }
        out.push(Effect::Reply(ticket, Ok(Reply::Done)));
    }

    fn record(&mut self, ticket: Ticket, record: Record, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::Reply(ticket, Err(PlaneError::Closing)));
            return;
        }
        self.append([record], false, Step::Reply(ticket), out);
    }

    fn stored(&mut self, step: Step, records: Vec<Record>, out: &mut Vec<Effect>) {
        let known = std::mem::take(&mut self.unsaved).len();
        let fresh = records.get(known..).unwrap_or_default();
        fresh.iter().for_each(|record| self.history.apply(record.clone()));
        match step {
            Step::Start => self.started(out),
            Step::End => self.tell_end(out),
            Step::Set(ticket) => self.settings_stored(ticket, fresh, out),
            Step::Reply(ticket) => out.push(Effect::Reply(ticket, Ok(Reply::Done))),
            Step::Release(ticket) => {
                out.push(Effect::Reply(ticket, Ok(Reply::Done)));
                self.phase = Phase::Idle;
                self.next(out);
            }
            Step::Compact => self.tell_compacted(out),
            Step::Squeeze => self.squeezed(out),
            Step::Plain => (),
        }
    }

    fn close(&mut self, ticket: Ticket, reason: CloseReason, when: Closing, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::Reply(ticket, Ok(Reply::Done)));
            return;
        }
        if when == Closing::IfIdle && (self.occupied() || self.closing.is_some()) {
            out.push(Effect::Refuse(ticket, |id| PlaneError::Busy(id.to_string())));
            return;
        }
        self.closers.push(ticket);
        let reason = *self.closing.get_or_insert(reason);
        for (waiting, _) in std::mem::take(&mut self.waiting) {
            out.push(Effect::Reply(waiting, Err(PlaneError::Closing)));
        }
        match (self.idle(), when) {
            (true, _) => self.finish_close(reason, out),
            // A reservation ends by itself; the close follows it.
            (false, Closing::Now) => self.cancel_flight(out),
            (false, Closing::AfterRun | Closing::IfIdle) => (),
        }
    }

    fn finish_close(&mut self, reason: CloseReason, out: &mut Vec<Effect>) {
        for task in &mut self.tasks {
            if task.state == TaskState::Running {
                task.state = TaskState::Stopped;
                out.push(Effect::StopTask(task.id.clone()));
                let (task_id, state) = (task.id.clone(), TaskState::Stopped);
                out.push(Effect::Publish(AgentEvent::TaskEnd {
                    task_id,
                    state,
                    text: "the session was closed".into(),
                }));
            }
        }
        out.push(Effect::Publish(AgentEvent::SessionClosed { reason }));
        self.phase = Phase::Closed;
        out.push(Effect::Closed { reason, closers: std::mem::take(&mut self.closers) });
    }

    /// The disk refused an append: what it stood for is told as failed, and nothing waits for it.
    fn store_failed(&mut self, step: Step, error: &str, out: &mut Vec<Effect>) {
        let message = format!("the transcript could not be written: {error}");
        let failed = |ticket| Effect::Reply(ticket, Err(PlaneError::Internal(message.clone())));
        match step {
            // A run whose start could not be written never was.
            Step::Start => {
                if let Phase::Running(flight) = std::mem::replace(&mut self.phase, Phase::Idle) {
                    out.extend(flight.ticket.map(failed));
                    // Finished tasks that could not be handed over are tried again after the next run, not at once.
                    if flight.ticket.is_none() {
                        return self.next_waiting(out);
                    }
                }
                self.next(out);
            }
            // A run whose end could not be written did not end well.
            Step::End => {
                if let Phase::Running(flight) = &mut self.phase
                    && let Some(outcome) = &mut flight.ended
                {
                    outcome.stop = Stop::Error;
                    outcome.error = Some(RunError { code: ErrorCode::Internal, message, retryable: true });
                }
                self.tell_end(out);
            }
            Step::Set(ticket) | Step::Reply(ticket) => out.push(failed(ticket)),
            Step::Release(ticket) => {
                out.push(failed(ticket));
                self.phase = Phase::Idle;
                self.next(out);
            }
            Step::Compact => self.end_compaction(Err(PlaneError::Internal(message)), out),
            Step::Squeeze => self.not_squeezed(&message, out),
            Step::Plain => {
                out.push(Effect::Publish(AgentEvent::Error { code: ErrorCode::Internal, message, retryable: true }));
                self.cancel_flight(out);
            }
        }
    }

    /// The history for people, oldest first.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.history.messages().to_vec()
    }
}
