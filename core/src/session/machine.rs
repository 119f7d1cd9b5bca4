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
    upkeep::Squeeze,
};
use crate::{
    PlaneError,
    agent::{RunError, RunOutcome, Settings},
    plane::{Answered, Choice, TaskInfo, WhenBusy},
    store::History,
};
use std::{collections::VecDeque, sync::Arc};
use triplane_protocol::{
    AgentEvent, ErrorCode, Message, MessageId, RequestId, Role, RunId, Stop, TaskId,
    event::{CloseReason, OptionKind, Outcome, PermissionRequest, SettingsPatch, TaskState},
    ir::Part,
    record::{Record, RunState},
};

/// Background tasks that are kept in the list after their end.
const ENDED_TASKS: usize = 64;

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
    permissions: Vec<PermissionRequest>,
    tasks: Vec<TaskInfo>,
    handover: Vec<FinishedTask>,
    pub(super) closing: Option<CloseReason>,
    closers: Vec<Ticket>,
    /// Records that go out with the next write: what create was given, the end of a run that a crash cut off.
    pub(super) unsaved: Vec<Record>,
}

/// What the session is doing.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Running(Flight),
    Compacting(Squeeze),
    Reserved,
    Closed,
}

/// The run in flight.
#[derive(Debug)]
pub(super) struct Flight {
    run_id: RunId,
    /// Who prompted; nobody, when the plane itself began the run.
    ticket: Option<Ticket>,
    message_id: MessageId,
    origin: Origin,
    cancelling: bool,
    cancel_waiters: Vec<Ticket>,
    /// How many finished tasks its prompt hands over.
    hands_over: usize,
    /// The outcome, once the agent gave it; kept for the case that its record cannot be written.
    ended: Option<RunOutcome>,
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

    /// Pending permission requests, oldest first.
    pub fn permissions(&self) -> &[PermissionRequest] {
        &self.permissions
    }

    /// Background tasks, oldest first.
    pub fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
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

    fn start(&mut self, ticket: Option<Ticket>, prompt: PromptInput, hands_over: usize, out: &mut Vec<Effect>) {
        let PromptInput { run_id, message_id, parts, origin, at, .. } = prompt;
        let message = Message::of(message_id.clone(), Role::User, parts, at);
        let started = Record::Run { id: run_id.clone(), state: RunState::Started, stop: None };
        self.phase = Phase::Running(Flight {
            run_id,
            ticket,
            message_id,
            origin,
            cancelling: false,
            cancel_waiters: Vec::new(),
            hands_over,
            ended: None,
        });
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
        out.push(Effect::StartRun { run_id, message_id: id, history, settings });
    }

    /// Cancels the run in flight, but none that began after the one that the caller saw. Clause: H19.
    fn cancel(&mut self, ticket: Ticket, seen: Option<&RunId>, out: &mut Vec<Effect>) {
        let meant = seen.is_none_or(|seen| self.run_id() == Some(seen));
        match &mut self.phase {
            _ if !meant => out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(false)))),
            Phase::Running(flight) => {
                flight.cancel_waiters.push(ticket);
                self.cancel_flight(out);
            }
            Phase::Compacting(squeeze) => {
                squeeze.cancel_waiters.push(ticket);
                self.cancel_flight(out);
            }
            Phase::Idle | Phase::Reserved | Phase::Closed => {
                out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(false))));
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

    fn expire_permissions(&mut self, out: &mut Vec<Effect>) {
        for request in std::mem::take(&mut self.permissions) {
            resolve(request.request_id, Outcome::Expired, None, None, None, out);
        }
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
            Say::Event(event) => out.push(Effect::Publish(event)),
            Say::Message(message) => self.append([Record::Message(message)], false, Step::Plain, out),
            Say::Ask { request, answerable } => {
                let id = request.request_id.clone();
                out.push(Effect::Publish(AgentEvent::PermissionRequest(request.clone())));
                if cancelling {
                    resolve(id, Outcome::Expired, None, None, None, out);
                } else if answerable {
                    self.permissions.push(request);
                } else {
                    let why =
                        "no connected front end can answer permission requests; choose another mode or save a rule";
                    resolve(id, Outcome::Denied, None, Some(why.to_owned()), None, out);
                }
            }
            Say::Ended(outcome) => self.end(outcome, out),
        }
    }

    /// The run's end: stored first, then told.
    fn end(&mut self, outcome: RunOutcome, out: &mut Vec<Effect>) {
        self.expire_permissions(out);
        if let Phase::Running(flight) = &mut self.phase {
            let record = Record::Run { id: flight.run_id.clone(), state: RunState::Ended, stop: Some(outcome.stop) };
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
        out.push(Effect::Ended { run_id: flight.run_id, outcome });
        for ticket in flight.cancel_waiters {
            out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(true))));
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

    fn answer(
        &mut self,
        ticket: Ticket,
        request_id: &RequestId,
        choice: Choice,
        reason: Option<String>,
        by: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(at) = self.permissions.iter().position(|request| request.request_id == *request_id) else {
            let what = "permission request";
            let error = PlaneError::NotFound { what, id: request_id.to_string(), hint: " is pending" };
            out.push(Effect::Reply(ticket, Err(error)));
            return;
        };
        let Some(request) = self.permissions.get(at) else { return };
        let chosen = match &choice {
            Choice::Option(id) => request.options.iter().find(|option| option.id == *id),
            Choice::Kind { allow, always } => {
                let wanted = [kind_of(*allow, *always), kind_of(*allow, false)];
                wanted.iter().find_map(|kind| request.options.iter().find(|option| option.kind == *kind))
            }
        };
        let Some(option) = chosen.cloned() else {
            let ids: Vec<&str> = request.options.iter().map(|option| option.id.as_str()).collect();
            let text = format!("option: was not offered; offered are {}", ids.join(", "));
            out.push(Effect::Reply(ticket, Err(PlaneError::InvalidParams(text))));
            return;
        };
        let request = self.permissions.remove(at);
        let allowed = option.kind.allows();
        let outcome = if allowed { Outcome::Allowed } else { Outcome::Denied };
        if option.kind.always() {
            // Saved before the agent goes on, so that its next call already meets the rule.
            out.push(Effect::SaveRule { ticket, request_id: request.request_id.clone(), allow: allowed });
        } else {
            let answered = Answered { allowed, persisted: None, error: None };
            out.push(Effect::Reply(ticket, Ok(Reply::Answered(answered))));
        }
        resolve(request.request_id, outcome, Some(option.id), reason, by, out);
    }

    fn set(&mut self, ticket: Ticket, patch: SettingsPatch, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::Reply(ticket, Err(PlaneError::Closing)));
            return;
        }
        self.append([Record::Set(patch)], true, Step::Set(ticket), out);
    }

    fn settings_stored(&mut self, ticket: Ticket, records: &[Record], out: &mut Vec<Effect>) {
        for record in records {
            let Record::Set(patch) = record else { continue };
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
            Step::Plain => (),
        }
    }

    fn task_started(&mut self, task: TaskInfo, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::StopTask(task.id));
            return;
        }
        let (task_id, title) = (task.id.clone(), task.title.clone());
        self.tasks.push(task);
        out.push(Effect::Publish(AgentEvent::TaskStart { task_id, title }));
    }

    fn task_ended(&mut self, id: &TaskId, state: TaskState, text: String, at: i64, out: &mut Vec<Effect>) {
        if self.closed() {
            return;
        }
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == *id && task.state == TaskState::Running) else {
            return;
        };
        task.state = state;
        task.ended = Some(at);
        let title = task.title.clone();
        let ended = self.tasks.iter().filter(|task| task.state != TaskState::Running).count();
        if ended > ENDED_TASKS
            && let Some(oldest) = self.tasks.iter().position(|task| task.state != TaskState::Running)
        {
            self.tasks.remove(oldest);
        }
        out.push(Effect::Publish(AgentEvent::TaskEnd { task_id: id.clone(), state, text: text.clone() }));
        // A task that somebody stopped has nothing to hand over: whoever stopped it knows.
        if state != TaskState::Stopped && self.closing.is_none() {
            self.handover.push(FinishedTask { id: id.clone(), title, state, text });
            if self.idle() {
                out.push(Effect::WantHandover);
            }
        }
    }

    /// The run that hands finished tasks over; `prompt` brings the ids and the time.
    fn start_handover(&mut self, mut prompt: PromptInput, out: &mut Vec<Effect>) {
        if !self.idle() || self.closing.is_some() || self.handover.is_empty() {
            return;
        }
        let lines: Vec<String> = self.handover.iter().map(FinishedTask::tell).collect();
        prompt.parts = vec![Part::text(lines.join("\n"))];
        prompt.origin = Origin::Task;
        self.start(None, prompt, lines.len(), out);
    }

    fn stop_task(&mut self, ticket: Ticket, id: &TaskId, out: &mut Vec<Effect>) {
        if self.tasks.iter().any(|task| task.id == *id && task.state == TaskState::Running) {
            out.push(Effect::StopTask(id.clone()));
            out.push(Effect::Reply(ticket, Ok(Reply::Done)));
        } else {
            let error = PlaneError::NotFound { what: "running task", id: id.to_string(), hint: "" };
            out.push(Effect::Reply(ticket, Err(error)));
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
                if let Phase::Running(Flight { ended: Some(outcome), .. }) = &mut self.phase {
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

const fn kind_of(allow: bool, always: bool) -> OptionKind {
    match (allow, always) {
        (true, false) => OptionKind::AllowOnce,
        (true, true) => OptionKind::AllowAlways,
        (false, false) => OptionKind::RejectOnce,
        (false, true) => OptionKind::RejectAlways,
    }
}

fn resolve(
    request_id: RequestId,
    outcome: Outcome,
    option: Option<String>,
    reason: Option<String>,
    by: Option<String>,
    out: &mut Vec<Effect>,
) {
    let event = AgentEvent::PermissionResolved { request_id: request_id.clone(), outcome, reason: reason.clone(), by };
    out.push(Effect::Publish(event));
    out.push(Effect::Verdict { request_id, outcome, option, reason });
}

impl FinishedTask {
    /// What the model is told.
    fn tell(&self) -> String {
        let how = match self.state {
            TaskState::Done => "is done",
            TaskState::Failed => "failed",
            TaskState::Stopped => "was stopped",
            TaskState::Running => "is running",
        };
        // Set in, so that no line of it can pass for something that a user said.
        let text = self.text.replace('\n', "\n  ");
        format!("Background task {} ({}) {how}: {text}", self.id, self.title)
    }
}
