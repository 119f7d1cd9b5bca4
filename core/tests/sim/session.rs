//! One session: its machine, and around it a disk, a spool, a clock, clients and (in `agent`) an agent. Effects are carried out
//! as the session's own task does it, and the model is asked of each whether it may be.

use crate::{
    disk::{Disk, Failed},
    ensure,
    model::{Call, Halt, Model, pick},
    node::Node,
    readers::Stream,
    script::Step,
    seen::Seen,
};
use std::{cell::RefCell, collections::VecDeque, rc::Rc};
use triplane_core::{
    agent::Settings,
    plane::{Answer, Choice, ClearWhen, WhenBusy},
    session::{
        Machine,
        input::{Closing, Effect, Input, Origin, PromptInput, Step as For, Ticket},
    },
    store::History,
};
use triplane_protocol::{
    AgentEvent, MessageId, Part, RequestId, RunId, SessionId, Stop, TaskId,
    event::{CloseReason, SettingsPatch},
    ir::Mode,
    record::{Checkpoint, Record, RunState},
};

/// Prompts that may wait.
const QUEUE: usize = 3;
/// How long a cancelled run may take, in virtual milliseconds.
const GRACE_MS: u64 = 5000;

type Checked = Result<(), Halt>;

/// One session with everything around it.
pub(crate) struct Session {
    slot: usize,
    id: SessionId,
    machine: Machine,
    pub(super) model: Model,
    disk: Disk,
    /// The fold of what the disk acknowledged.
    stored: History,
    /// Records that were acknowledged and are written with the next append.
    later: Vec<Record>,
    pub(crate) stream: Stream,
    node: Rc<RefCell<Node>>,
    /// Told by the machine, and on its way to the readers.
    unpublished: Vec<AgentEvent>,
    /// It was deleted: what comes next in its place is another session.
    deleted: bool,
    pub(super) now: u64,
    overdue: Option<(u64, RunId)>,
    ids: u64,
    pub(super) runs: Vec<RunId>,
    pub(super) requests: Vec<RequestId>,
    tickets: Vec<Ticket>,
    pub(crate) seen: Seen,
}

impl Session {
    pub(crate) fn new(slot: usize, node: Rc<RefCell<Node>>) -> Result<Self, Halt> {
        let id = session_id(slot, 0)?;
        let mut session = Self {
            slot,
            machine: Machine::new(History::default(), settings(None), QUEUE),
            model: Model::default(),
            disk: Disk::default(),
            stored: History::default(),
            later: Vec::new(),
            stream: Stream::new(id.clone()),
            id,
            node,
            unpublished: Vec::new(),
            deleted: false,
            now: 1,
            overdue: None,
            ids: 0,
            runs: Vec::new(),
            requests: Vec::new(),
            tickets: Vec::new(),
            seen: Seen::default(),
        };
        session.begin()?;
        Ok(session)
    }

    /// A fresh session, as create makes it.
    fn begin(&mut self) -> Checked {
        self.node.borrow_mut().enter(&self.id, true)?;
        self.write_later(Record::set(SettingsPatch { model: Some("m".into()), ..SettingsPatch::default() }));
        Ok(())
    }

    fn write_later(&mut self, record: Record) {
        self.later.push(record.clone());
        self.machine.write_later(record);
    }

    pub(super) fn fresh(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn ticket(&mut self, call: Call) -> Ticket {
        let ticket = Ticket(self.fresh());
        self.model.call(ticket, call);
        self.tickets.push(ticket);
        ticket
    }

    /// The run that the agent works on.
    pub(super) fn current(&self) -> Option<RunId> {
        let works = self.model.active.as_ref().filter(|active| active.compacts.is_none() && !active.squeezing);
        works.map(|active| active.run.clone())
    }

    /// One step of the script. Errors: what is not as it must be.
    pub(crate) fn apply(&mut self, step: Step) -> Checked {
        let late = self.model.closed;
        self.befall(step)?;
        if late {
            ensure!(self.model.calls.is_empty(), "nobody answers after the close: {:?}", self.model.calls);
            self.load(true)?;
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
            Step::Event | Step::Message | Step::Ask { .. } | Step::End(_) | Step::Overflow { .. } => {
                match self.current() {
                    Some(run) => self.agent(run, step),
                    None => Ok(()),
                }
            }
            Step::Late(n) => match pick(&self.runs, n)
                .filter(|run| self.model.active.as_ref().is_none_or(|active| active.run != *run))
            {
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
            Step::DiskFails { fault, count } => {
                (self.disk.fault, self.disk.faults) = (Some(fault), count);
                Ok(())
            }
            Step::DiskWorks => {
                self.disk.faults = 0;
                Ok(())
            }
            Step::SpoolFails => {
                self.stream.fails = true;
                Ok(())
            }
            Step::Trim => {
                self.stream.spool.trim();
                Ok(())
            }
            Step::Join => {
                self.stream.join();
                Ok(())
            }
            Step::Leave(n) => {
                self.stream.leave(n);
                Ok(())
            }
            Step::Seek { reader, after } => {
                self.stream.seek(reader, after);
                Ok(())
            }
            Step::Read { reader, max } => Ok(self.stream.read(reader, usize::from(max))?),
            Step::Wait { ms } => self.wait(ms),
            // Of the whole process.
            Step::PowerCut { .. } | Step::Kill { .. } | Step::Watch | Step::Unwatch(_) | Step::Peek { .. } => Ok(()),
        }
    }

    fn run_id(&mut self) -> RunId {
        let run = RunId::from(format!("r{}", self.fresh()));
        self.runs.push(run.clone());
        run
    }

    pub(super) fn prompt_input(&mut self, when_busy: WhenBusy) -> PromptInput {
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

    /// The process dies: whoever waited is gone. Under a power cut, `keep` of 256 parts of what was not synced are left; the
    /// last `lost` spooled events go with it.
    pub(crate) fn crash(&mut self, keep: Option<u8>, lost: usize) -> Checked {
        let running = self.model.active.as_ref().filter(|active| active.compacts.is_none());
        let running = running.map(|active| active.run.clone());
        self.seen.lost_records += self.disk.crash(keep);
        self.stream.crash(lost);
        self.unpublished.clear();
        self.model.closed = false;
        self.load(keep.is_none())?;
        if let Some(run) = running {
            self.seen.interrupted += 1;
            let ended = is_record(&run, RunState::Ended);
            let known = self.stored.interrupted() == Some(&run) || self.disk.safe().iter().any(ended);
            ensure!(known, "{run} was accepted, and a crash took it without a trace");
        }
        Ok(())
    }

    /// A new life from what the disk has. `killed`: the system lived on.
    fn load(&mut self, killed: bool) -> Checked {
        self.later.clear();
        self.overdue = None;
        if std::mem::take(&mut self.deleted) {
            let at = self.fresh();
            self.id = session_id(self.slot, at)?;
            (self.disk, self.stored) = (Disk::default(), History::default());
            self.seen.add_stream(&self.stream);
            self.stream = Stream::new(self.id.clone());
            self.machine = Machine::new(History::default(), settings(None), QUEUE);
            self.model = Model::default();
            self.begin()?;
            return self.compare();
        }
        let found = self.disk.load(killed)?;
        self.stored = History::default();
        found.into_iter().for_each(|record| self.stored.apply(record));
        self.machine = Machine::new(self.stored.clone(), settings(self.stored.settings().model.clone()), QUEUE);
        self.model = Model::default();
        self.stream.load();
        self.node.borrow_mut().enter(&self.id, false)?;
        if let Some(run) = self.stored.interrupted().cloned() {
            self.write_later(Record::ended(run, Stop::Aborted));
        }
        self.compare()
    }

    /// What was told goes to the readers: one write, one wake-up.
    fn publish(&mut self) -> Checked {
        let events = std::mem::take(&mut self.unpublished);
        if !events.is_empty() {
            let entries = self.stream.publish(events)?;
            self.node.borrow_mut().events(&self.id, &entries)?;
        }
        Ok(())
    }

    /// One input, its effects, and what follows from them, as the session's own task does it.
    pub(super) fn feed(&mut self, input: Input) -> Checked {
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
        self.publish()?;
        self.compare()
    }

    fn compare(&self) -> Checked {
        self.model.compare(&self.machine)?;
        self.node.borrow().compare()?;
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
        let sees = |history: &History| history.context().iter().map(|message| message.id.clone()).collect::<Vec<_>>();
        ensure!(sees(is) == sees(&wanted), "the model sees {:?}, by the disk {:?}", sees(is), sees(&wanted));
        ensure!(self.machine.waiting() <= QUEUE, "{} prompts wait", self.machine.waiting());
        ensure!(is.settings() == wanted.settings(), "settings: {:?}, on disk {:?}", is.settings(), wanted.settings());
        ensure!(is.interrupted() == wanted.interrupted(), "the run on disk is another one");
        ensure!(is.checkpoints() == wanted.checkpoints(), "other checkpoints on disk");
        let model = wanted.settings().model.as_deref().unwrap_or("m");
        ensure!(self.machine.settings.model == model, "the model is {}, on disk {model}", self.machine.settings.model);
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect, last: bool) -> Result<Option<Input>, Halt> {
        match effect {
            Effect::Append { records, sync, then } => {
                ensure!(last, "an append is not the last effect of its step");
                ensure!(!self.model.closed, "an append after the close");
                self.publish()?;
                return Ok(Some(self.append(records, sync, then)?));
            }
            Effect::Publish(event) => {
                if let AgentEvent::UserMessage { origin: Origin::Task, .. } = event {
                    self.seen.handovers += 1;
                }
                self.model.published(&event)?;
                self.unpublished.push(event);
            }
            Effect::Accepted { ticket, run_id } => {
                self.seen.runs += 1;
                let on_disk = self.disk.safe().iter().any(is_record(&run_id, RunState::Started));
                ensure!(on_disk, "{run_id} is accepted before it is on disk");
                self.publish()?;
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
                let stored = self.disk.safe().iter().any(is_record(&run_id, RunState::Ended));
                self.publish()?;
                ensure!(stored || outcome.stop == Stop::Error, "{run_id} ended well, and the disk does not know");
                self.overdue = None;
                self.model.ended(&run_id)?;
            }
            Effect::Reply(ticket, reply) => {
                let acknowledged = reply.is_ok();
                self.publish()?;
                if let Call::Set(model) = self.model.replied(ticket, &reply)? {
                    let stored = self.disk.all_safe() && self.stored.settings().model.as_ref() == Some(&model);
                    ensure!(!acknowledged || stored, "{model} is acknowledged before it is on disk");
                }
            }
            Effect::Refuse(ticket, why) => {
                self.model.replied(ticket, &Err(why(&self.id)))?;
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
            Effect::Closed { reason, closers } => {
                ensure!(last, "something follows the close");
                self.seen.closes += 1;
                self.publish()?;
                self.model.closed(&closers)?;
                self.deleted = reason == CloseReason::Deleted;
                self.stream.close(self.deleted);
                self.node.borrow_mut().leave(&self.id, reason)?;
            }
        }
        Ok(None)
    }

    fn append(&mut self, records: Vec<Record>, sync: bool, then: For) -> Result<Input, Halt> {
        match self.disk.append(&records, sync) {
            Err(Failed::Died) => {
                self.seen.died += 1;
                return Err(Halt::Died);
            }
            Err(Failed::Told) => {
                self.seen.failed_appends += 1;
                if then == For::Plain {
                    self.model.doom();
                }
                return Ok(Input::StoreFailed(then, "no space".into()));
            }
            Ok(()) => (),
        }
        for record in &records {
            if self.later.first() == Some(record) {
                self.later.remove(0);
            }
            self.stored.apply(record.clone());
        }
        Ok(Input::Stored(then, records))
    }

    /// The faults stop and everybody does his part: then all that waits must come to an end, and the session must still work.
    pub(crate) fn finish(&mut self) -> Checked {
        (self.disk.faults, self.stream.fails) = (0, false);
        if self.model.closed {
            self.load(true)?;
        }
        self.settle()?;
        if self.model.closed {
            self.load(true)?;
        }
        self.prompt(WhenBusy::Refuse)?;
        ensure!(self.model.active.is_some(), "a session at rest takes no prompt");
        self.settle()?;
        ensure!(!self.machine.occupied(), "something never ends: {:?}", self.model);
        ensure!(self.model.owed.is_empty(), "results were never handed over: {:?}", self.model.owed);
        ensure!(self.model.calls.is_empty(), "nobody answered {:?}", self.model.calls);
        self.close(CloseReason::Shutdown, Closing::AfterRun)?;
        ensure!(self.model.closed && self.overdue.is_none(), "an idle session does not close");
        Ok(self.stream.drain()?)
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

fn session_id(slot: usize, at: u64) -> Result<SessionId, Halt> {
    Ok(SessionId::parse(&format!("s{slot}-{at}"))?)
}

/// Whether a record is of this run's start or end.
fn is_record(run: &RunId, state: RunState) -> impl Fn(&Record) -> bool {
    move |record| matches!(record, Record::Run { id, state: is, .. } if id == run && *is == state)
}

fn settings(model: Option<String>) -> Settings {
    Settings { model: model.unwrap_or_else(|| "m".into()), effort: None, mode: Mode::Default }
}
