//! What is around the machine: a disk that syncs, fails and forgets, a clock, an agent, and clients. It carries effects out as
//! the session's own task does, and asks the model of each whether it may be.

use crate::{
    ensure,
    model::{Call, Checked, Model},
    script::Step,
};
use std::collections::VecDeque;
use triplane_core::{
    agent::{RunError, RunOutcome, Settings},
    plane::{Answer, Choice, ClearWhen, TaskInfo, WhenBusy},
    session::{
        Machine, TaskOutput,
        input::{Closing, Effect, Input, Origin, PromptInput, Say, Step as For, Ticket},
    },
    store::History,
};
use triplane_protocol::{
    AgentEvent, CallId, ErrorCode, Message, MessageId, Part, RequestId, Role, RunId, Stop, TaskId, Usage,
    event::{CloseReason, OptionKind, PermissionOption, PermissionRequest, SettingsPatch, TaskState},
    ir::Mode,
    record::{Checkpoint, Record, RunState},
};

const QUEUE: usize = 3;
const GRACE_MS: u64 = 5000;

/// How often the rare things happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    runs: usize,
    queued: usize,
    handovers: usize,
    answers: usize,
    expired: usize,
    overdue: usize,
    compactions: usize,
    lost_records: usize,
    interrupted: usize,
    failed_appends: usize,
    closes: usize,
    evictions_refused: usize,
    late: usize,
}

impl Seen {
    fn all(&mut self) -> [&mut usize; 13] {
        [
            &mut self.runs,
            &mut self.queued,
            &mut self.handovers,
            &mut self.answers,
            &mut self.expired,
            &mut self.overdue,
            &mut self.compactions,
            &mut self.lost_records,
            &mut self.interrupted,
            &mut self.failed_appends,
            &mut self.closes,
            &mut self.evictions_refused,
            &mut self.late,
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mut other = Self { ..*other };
        self.all().into_iter().zip(other.all()).for_each(|(sum, more)| *sum += *more);
    }

    pub(crate) fn everything(&self) -> bool {
        Self { ..*self }.all().iter().all(|count| **count > 0)
    }
}

/// One session with everything around it.
pub(crate) struct World {
    machine: Machine,
    model: Model,
    /// Lines of the transcript; a crash may take those from `synced` on.
    disk: Vec<Record>,
    synced: usize,
    /// The fold of `disk`.
    stored: History,
    /// Records that were acknowledged and are written with the next append.
    later: Vec<Record>,
    failing: u8,
    now: u64,
    overdue: Option<(u64, RunId)>,
    ids: u64,
    runs: Vec<RunId>,
    requests: Vec<RequestId>,
    tickets: Vec<Ticket>,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            machine: Machine::new(History::default(), settings(None), QUEUE),
            model: Model::default(),
            disk: Vec::new(),
            synced: 0,
            stored: History::default(),
            later: Vec::new(),
            failing: 0,
            now: 1,
            overdue: None,
            ids: 0,
            runs: Vec::new(),
            requests: Vec::new(),
            tickets: Vec::new(),
            seen: Seen::default(),
        };
        // As create does.
        world.write_later(Record::set(SettingsPatch { model: Some("m".into()), ..SettingsPatch::default() }));
        world
    }

    fn write_later(&mut self, record: Record) {
        self.later.push(record.clone());
        self.machine.write_later(record);
    }

    fn fresh(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn ticket(&mut self, call: Call) -> Ticket {
        let ticket = Ticket(self.fresh());
        self.model.call(ticket, call);
        self.tickets.push(ticket);
        ticket
    }

    fn current(&self) -> Option<RunId> {
        self.model.active.as_ref().filter(|active| active.compacts.is_none()).map(|active| active.run.clone())
    }

    /// One step of the script. Errors: what is not as it must be.
    pub(crate) fn apply(&mut self, step: Step) -> Checked {
        let late = self.model.closed;
        self.befall(step)?;
        if late {
            ensure!(self.model.calls.is_empty(), "nobody answers after the close: {:?}", self.model.calls);
            self.load()?;
        }
        Ok(())
    }

    fn befall(&mut self, step: Step) -> Checked {
        self.now += 1;
        match step {
            Step::Prompt { queue } => self.prompt(if queue { WhenBusy::Queue } else { WhenBusy::Refuse }),
            Step::Withdraw(n) => match pick(&self.tickets, n) {
                Some(ticket) => self.feed(Input::Withdraw(ticket)),
                None => Ok(()),
            },
            Step::Cancel { seen } => {
                let seen = seen.and_then(|n| pick(&self.runs, n | 0x80).or(self.current()));
                let ticket = Ticket(self.fresh());
                self.model.cancel(ticket, seen.clone());
                self.feed(Input::Cancel(ticket, seen))
            }
            Step::Event | Step::Message | Step::Ask { .. } | Step::End(_) => match self.current() {
                Some(run) => self.agent(run, step),
                None => Ok(()),
            },
            Step::Late(n) => match pick(&self.runs, n).filter(|run| Some(run) != self.current().as_ref()) {
                Some(run) => {
                    self.seen.late += 1;
                    let steps =
                        [Step::Event, Step::Message, Step::Ask { answerable: true }, Step::End(Stop::Completed)];
                    self.agent(run, steps[usize::from(n) % 4])
                }
                None => Ok(()),
            },
            Step::Answer { request, option } => self.answer(request, option),
            Step::Set(n) => {
                let model = format!("m{n}");
                let ticket = self.ticket(Call::Set(model.clone()));
                self.feed(Input::Set(ticket, SettingsPatch { model: Some(model), ..SettingsPatch::default() }))
            }
            Step::Record => self.record(),
            Step::Clear { now } => self.clear(now),
            Step::Reserve => {
                let ticket = self.ticket(Call::Reserve);
                self.feed(Input::Reserve(ticket))
            }
            Step::Release { rewind } => self.release(rewind),
            Step::Compact => {
                let run = self.run_id();
                let ticket = self.ticket(Call::Compact(run.clone()));
                self.feed(Input::Compact(ticket, run))
            }
            Step::Summary { ok } => self.summary(ok),
            Step::TaskStart => self.task(),
            Step::TaskEnd { task, ok } => self.task_ends(task, ok),
            Step::StopTask(n) => {
                let ids: Vec<TaskId> = self.model.tasks.keys().cloned().collect();
                let Some(id) = pick(&ids, n) else { return Ok(()) };
                let ticket = self.ticket(Call::Other);
                self.feed(Input::StopTask(ticket, id))
            }
            Step::Detach(reason) => self.close(reason, Closing::Now),
            Step::Evict => self.close(CloseReason::Idle, Closing::IfIdle),
            Step::Drain => self.close(CloseReason::Shutdown, Closing::AfterRun),
            Step::Crash { keep } => self.crash(keep),
            Step::DiskFails(count) => {
                self.failing = count;
                Ok(())
            }
            Step::DiskWorks => {
                self.failing = 0;
                Ok(())
            }
            Step::Wait { ms } => self.wait(ms),
        }
    }

    fn run_id(&mut self) -> RunId {
        let run = RunId::from(format!("r{}", self.fresh()));
        self.runs.push(run.clone());
        run
    }

    fn prompt_input(&mut self, when_busy: WhenBusy) -> PromptInput {
        let run_id = self.run_id();
        PromptInput {
            message_id: MessageId::from(format!("u-{run_id}")),
            parts: vec![Part::text(format!("prompt of {run_id}"))],
            run_id,
            origin: Origin::Client,
            when_busy,
            at: self.now as i64,
        }
    }

    fn prompt(&mut self, when_busy: WhenBusy) -> Checked {
        let prompt = self.prompt_input(when_busy);
        let free = !self.model.occupied_by_run() && !self.model.reserved && !self.model.closing;
        let full = self.model.queue.len() >= QUEUE;
        let ticket = self.ticket(Call::Prompt(prompt.run_id.clone()));
        let may_wait = when_busy == WhenBusy::Queue && !free && !full && !self.model.closing;
        if may_wait {
            self.seen.queued += 1;
            self.model.queue.push_back(ticket);
        }
        self.feed(Input::Prompt(ticket, prompt))?;
        ensure!(may_wait == self.model.calls.contains_key(&ticket), "a prompt waits that may not, or may and does not");
        Ok(())
    }

    fn agent(&mut self, run: RunId, step: Step) -> Checked {
        let id = self.fresh();
        let say = match step {
            Step::Message => {
                let id = MessageId::from(format!("a{id}"));
                Say::Message(Message::text(id, Role::Assistant, "an answer", self.now as i64))
            }
            Step::Ask { answerable } => {
                let id = RequestId::from(format!("q{id}"));
                self.requests.push(id.clone());
                self.model.asked(id.clone());
                Say::Ask { request: request(id), answerable }
            }
            Step::End(stop) => Say::Ended(outcome(stop)),
            _ => Say::Event(AgentEvent::LlmDelta { text: "x".into() }),
        };
        self.feed(Input::Agent(run, say))
    }

    fn answer(&mut self, request: u8, option: u8) -> Checked {
        // Mostly one that may be pending, sometimes any.
        let Some(id) = pick(&self.requests, request | 0xe0) else { return Ok(()) };
        let choice = match option {
            0 => Choice::Kind { allow: true, always: false },
            1 => Choice::Kind { allow: false, always: true },
            2 => Choice::Option("ever".into()),
            3 => Choice::Option("no".into()),
            _ => Choice::Option("not offered".into()),
        };
        let ticket = self.ticket(Call::Answer(id.clone()));
        self.feed(Input::Answer(ticket, id, Answer { choice, reason: None, by: None }))
    }

    fn record(&mut self) -> Checked {
        let message = self.machine.history.messages().last().map(|message| message.id.clone());
        let Some(message) = message else { return Ok(()) };
        let path = format!("/f{}", self.fresh());
        let ticket = self.ticket(Call::Other);
        self.feed(Input::Record(
            ticket,
            Record::Checkpoint(Checkpoint { path, before: None, after: None, message, extra: Default::default() }),
        ))
    }

    fn clear(&mut self, now: bool) -> Checked {
        let (id, at) = (MessageId::from(format!("b{}", self.fresh())), self.now as i64);
        let when = if now { ClearWhen::Now } else { ClearWhen::NextAppend };
        let ticket = self.ticket(if now { Call::Other } else { Call::ClearLater });
        if !now {
            // If it is refused it will not be asked for.
            let allowed = !self.model.occupied_by_run() && !self.model.reserved && !self.model.closing;
            let record = Record::clear(id.clone(), at);
            self.later.extend(allowed.then_some(record));
        }
        self.feed(Input::Clear(ticket, id, at, when))
    }

    fn release(&mut self, rewind: bool) -> Checked {
        if !self.model.reserved {
            return Ok(());
        }
        let to = self.machine.history.messages().iter().rev().nth(1).map(|message| message.id.clone());
        let records = if rewind { vec![Record::Rewind { to }] } else { Vec::new() };
        let ticket = self.ticket(Call::Release);
        self.feed(Input::Release(ticket, records))
    }

    fn summary(&mut self, ok: bool) -> Checked {
        let active = self.model.active.as_ref().filter(|active| active.compacts.is_some());
        let Some(run) = active.map(|active| active.run.clone()) else { return Ok(()) };
        self.compacted(run, ok)
    }

    fn compacted(&mut self, run: RunId, ok: bool) -> Checked {
        let id = MessageId::from(format!("b{}", self.fresh()));
        let error = RunError { code: ErrorCode::Unavailable, message: "no".into(), retryable: true };
        let summary = if ok { Ok(("summary".to_owned(), Usage::default())) } else { Err(error) };
        self.seen.compactions += 1;
        self.feed(Input::Compacted(run, summary, id, self.now as i64))
    }

    fn task(&mut self) -> Checked {
        let id = TaskId::from(format!("t{}", self.fresh()));
        self.model.tasks.insert(id.clone(), Default::default());
        let (title, state, started) = ("a task".to_owned(), TaskState::Running, self.now as i64);
        self.feed(Input::TaskStarted(TaskInfo {
            id,
            title,
            state,
            started,
            ended: None,
            output: TaskOutput::default(),
        }))
    }

    fn task_ends(&mut self, n: u8, ok: bool) -> Checked {
        let closing = self.model.closing;
        let running: Vec<TaskId> =
            self.model.tasks.iter().filter(|(_, task)| !task.ended).map(|(id, _)| id.clone()).collect();
        let Some(id) = pick(&running, n) else { return Ok(()) };
        let Some(task) = self.model.tasks.get_mut(&id) else { return Ok(()) };
        task.ended = true;
        let state = match (task.stop_asked, ok) {
            (true, _) => TaskState::Stopped,
            (false, true) => TaskState::Done,
            (false, false) => TaskState::Failed,
        };
        if state != TaskState::Stopped && !closing {
            self.model.owed.insert(id.clone());
        }
        self.feed(Input::TaskEnded(id, state, "what it said".into(), self.now as i64))
    }

    fn close(&mut self, reason: CloseReason, when: Closing) -> Checked {
        let refused = when == Closing::IfIdle && (self.model.occupied() || self.model.closing);
        let ticket = self.ticket(Call::Close(when));
        if refused {
            self.seen.evictions_refused += 1;
        } else {
            self.model.closing = true;
            if when == Closing::Now {
                self.model.doom();
            }
        }
        self.feed(Input::Close(ticket, reason, when))?;
        ensure!(!refused || !self.model.calls.contains_key(&ticket), "an eviction waits for a busy session");
        Ok(())
    }

    fn wait(&mut self, ms: u16) -> Checked {
        self.now += u64::from(ms);
        match self.overdue.take_if(|(at, _)| *at <= self.now) {
            Some((_, run)) => self.feed(Input::Overdue(run)),
            None => Ok(()),
        }
    }

    /// The process dies: whoever waited is gone, and some of what was not synced is lost.
    fn crash(&mut self, keep: u8) -> Checked {
        let loose = self.disk.len() - self.synced;
        let kept = loose * usize::from(keep) / 256;
        self.seen.lost_records += loose - kept;
        self.disk.truncate(self.synced + kept);
        let running = self.current();
        self.later.clear();
        self.load()?;
        if let Some(run) = running {
            self.seen.interrupted += 1;
            ensure!(self.stored.interrupted() == Some(&run), "{run} was accepted, and a crash took it without a trace");
        }
        Ok(())
    }

    /// A new life from what the disk has.
    fn load(&mut self) -> Checked {
        self.synced = self.disk.len();
        self.stored = History::default();
        self.disk.iter().for_each(|record| self.stored.apply(record.clone()));
        self.later.clear();
        let settings = settings(self.stored.settings().model.clone());
        self.machine = Machine::new(self.stored.clone(), settings, QUEUE);
        self.model = Model::default();
        self.overdue = None;
        if let Some(run) = self.stored.interrupted().cloned() {
            self.write_later(Record::ended(run, Stop::Aborted));
        }
        self.compare()
    }

    /// One input, its effects, and what follows from them, as the session's own task does it.
    fn feed(&mut self, input: Input) -> Checked {
        let mut inputs = VecDeque::from([input]);
        let mut budget = 1000;
        while let Some(input) = inputs.pop_front() {
            budget -= 1;
            ensure!(budget > 0, "it never comes to rest");
            let effects = self.machine.step(input);
            let count = effects.len();
            for (at, effect) in effects.into_iter().enumerate() {
                let last = at + 1 == count;
                inputs.extend(self.carry_out(effect, last)?);
            }
        }
        self.compare()
    }

    fn compare(&self) -> Checked {
        self.model.compare(&self.machine)?;
        let mut wanted = self.stored.clone();
        self.later.iter().for_each(|record| wanted.apply(record.clone()));
        let is = &self.machine.history;
        let ids =
            |history: &History| history.messages().iter().map(|message| message.id.to_string()).collect::<Vec<_>>();
        ensure!(
            is.messages().len() == wanted.messages().len()
                && is.messages().iter().zip(wanted.messages()).all(|(a, b)| a.id == b.id),
            "memory has {:?}, the disk {:?}",
            ids(is),
            ids(&wanted)
        );
        ensure!(is.settings() == wanted.settings(), "settings: {:?}, on disk {:?}", is.settings(), wanted.settings());
        ensure!(is.interrupted() == wanted.interrupted(), "the run on disk is another one");
        ensure!(is.checkpoints() == wanted.checkpoints(), "other checkpoints on disk");
        let model = wanted.settings().model.as_deref().unwrap_or("m");
        ensure!(self.machine.settings.model == model, "the model is {}, on disk {model}", self.machine.settings.model);
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect, last: bool) -> Result<Option<Input>, String> {
        match effect {
            Effect::Append { records, sync, then } => {
                ensure!(last, "an append is not the last effect of its step");
                ensure!(!self.model.closed, "an append after the close");
                return Ok(Some(self.append(records, sync, then)));
            }
            Effect::Publish(event) => {
                if let AgentEvent::UserMessage { origin: Origin::Task, .. } = event {
                    self.seen.handovers += 1;
                }
                self.model.published(&event)?;
            }
            Effect::Accepted { ticket, run_id } => {
                self.seen.runs += 1;
                let on_disk = |record: &Record| matches!(record, Record::Run { id, state: RunState::Started, .. } if *id == run_id);
                ensure!(
                    self.disk[..self.synced].iter().rev().any(on_disk),
                    "{run_id} is accepted before it is on disk"
                );
                self.model.accepted(ticket, &run_id)?;
            }
            Effect::StartRun { run_id, message_id, history, settings, .. } => {
                ensure!(
                    history.last().is_some_and(|message| message.id == message_id),
                    "the prompt is not what comes last"
                );
                ensure!(settings == self.machine.settings, "a run with other settings");
                self.model.started(&run_id)?;
            }
            Effect::StartCompact { run_id, .. } => self.model.compacts(&run_id)?,
            Effect::CancelRun(run) => {
                self.overdue = Some((self.now + GRACE_MS, run.clone()));
                self.model.cancel_sent(&run)?;
            }
            Effect::DropRun(run) => return self.drop_run(run).map(Some),
            Effect::Ended { run_id, outcome } => {
                let ended =
                    |record: &Record| matches!(record, Record::Run { id, state: RunState::Ended, .. } if *id == run_id);
                let stored = self.disk[..self.synced].iter().rev().any(ended);
                ensure!(stored || outcome.stop == Stop::Error, "{run_id} ended well, and the disk does not know");
                self.overdue = None;
                self.model.ended(&run_id)?;
            }
            Effect::Reply(ticket, reply) => {
                let acknowledged = reply.is_ok();
                if let Call::Set(model) = self.model.replied(ticket, &reply)? {
                    let stored =
                        self.synced == self.disk.len() && self.stored.settings().model.as_ref() == Some(&model);
                    ensure!(!acknowledged || stored, "{model} is acknowledged before it is on disk");
                }
            }
            Effect::Refuse(ticket, why) => {
                let id = triplane_protocol::SessionId::parse("s").map_err(str::to_owned)?;
                self.model.replied(ticket, &Err(why(&id)))?;
            }
            Effect::Verdict { request_id, outcome, .. } => {
                self.seen.expired += usize::from(outcome == triplane_protocol::event::Outcome::Expired);
                self.model.verdict(&request_id, outcome)?;
            }
            Effect::SaveRule { ticket, .. } => {
                self.seen.answers += 1;
                self.model.answered(ticket)?;
            }
            Effect::WantHandover => return Ok(Some(Input::Handover(self.prompt_input(WhenBusy::Refuse)))),
            Effect::StopTask(id) => {
                let task = self.model.tasks.get_mut(&id).ok_or("no such task is to be stopped")?;
                task.stop_asked = true;
            }
            Effect::Closed { closers, .. } => {
                ensure!(last, "something follows the close");
                self.seen.closes += 1;
                self.model.closed(&closers)?;
            }
        }
        Ok(None)
    }

    fn append(&mut self, records: Vec<Record>, sync: bool, then: For) -> Input {
        if self.failing > 0 {
            self.failing -= 1;
            self.seen.failed_appends += 1;
            if then == For::Plain {
                self.model.doom();
            }
            return Input::StoreFailed(then, "no space".into());
        }
        for record in &records {
            if self.later.first() == Some(record) {
                self.later.remove(0);
            }
            self.stored.apply(record.clone());
        }
        self.disk.extend(records.iter().cloned());
        if sync {
            self.synced = self.disk.len();
        }
        Input::Stored(then, records)
    }

    fn drop_run(&mut self, run: RunId) -> Result<Input, String> {
        self.seen.overdue += 1;
        self.model.dropped();
        let compacts = self.model.active.as_ref().is_some_and(|active| active.compacts.is_some());
        Ok(match compacts {
            true => {
                let error = RunError { code: ErrorCode::Cancelled, message: "cancelled".into(), retryable: false };
                Input::Compacted(run, Err(error), MessageId::from("never"), self.now as i64)
            }
            false => Input::Agent(run, Say::Ended(outcome(Stop::Aborted))),
        })
    }

    /// The faults stop and everybody does his part: then all that waits must come to an end, and the session must still work.
    pub(crate) fn finish(&mut self) -> Checked {
        self.failing = 0;
        if self.model.closed {
            self.load()?;
        }
        self.settle()?;
        if self.model.closed {
            self.load()?;
        }
        self.prompt(WhenBusy::Refuse)?;
        ensure!(self.model.active.is_some(), "a session at rest takes no prompt");
        self.settle()?;
        ensure!(!self.machine.occupied(), "something never ends: {:?}", self.model);
        ensure!(self.model.owed.is_empty(), "results were never handed over: {:?}", self.model.owed);
        ensure!(self.model.calls.is_empty(), "nobody answered {:?}", self.model.calls);
        self.close(CloseReason::Shutdown, Closing::AfterRun)?;
        ensure!(self.model.closed, "an idle session does not close");
        self.load()
    }

    fn settle(&mut self) -> Checked {
        for _ in 0..500 {
            if self.model.closed {
                return Ok(());
            }
            if self.model.reserved {
                self.release(false)?;
            } else if let Some(run) = self.current() {
                self.agent(run, Step::End(Stop::Completed))?;
            } else if self.model.active.is_some() {
                self.summary(true)?;
            } else if self.model.tasks.values().any(|task| !task.ended) {
                self.task_ends(0, true)?;
            } else {
                return Ok(());
            }
        }
        Err("it does not come to rest though nothing fails".into())
    }
}

/// The `n`th of what is there, the newest for the highest `n`.
fn pick<T: Clone>(all: &[T], n: u8) -> Option<T> {
    all.get(usize::from(n) * all.len() / 256).cloned()
}

fn settings(model: Option<String>) -> Settings {
    Settings { model: model.unwrap_or_else(|| "m".into()), effort: None, mode: Mode::Default }
}

fn outcome(stop: Stop) -> RunOutcome {
    RunOutcome { stop, reply: "r".into(), usage: Usage::default(), turns: 1, error: None }
}

fn request(request_id: RequestId) -> PermissionRequest {
    let option = |kind, id: &str| PermissionOption { id: id.into(), name: id.into(), kind };
    let options = vec![
        option(OptionKind::AllowOnce, "yes"),
        option(OptionKind::AllowAlways, "ever"),
        option(OptionKind::RejectOnce, "no"),
    ];
    let (call_id, title) = (CallId::from("c"), String::new());
    PermissionRequest { request_id, call_id, tool: "bash".into(), title, input: serde_json::Value::Null, options }
}
