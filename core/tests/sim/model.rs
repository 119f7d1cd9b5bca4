//! What must be true of a session, told in the plainest way; it is fed what goes in and what comes out of the machine.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use triplane_core::{
    PlaneError,
    session::input::{Closing, Origin, Reply, Ticket},
};
use triplane_protocol::{AgentEvent, RequestId, RunId, TaskId, event::Outcome};

/// Fails the step with a text.
#[macro_export]
macro_rules! ensure {
    ($truth:expr, $($text:tt)+) => { if !$truth { return Err(format!($($text)+).into()); } };
}

pub(crate) type Checked = Result<(), String>;

/// Why a step does not go on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Something is not as it must be.
    Wrong(String),
    /// The process died in a write.
    Died,
}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl From<&str> for Halt {
    fn from(why: &str) -> Self {
        Self::Wrong(why.into())
    }
}

/// The `n`th of what is there, the newest for the highest `n`.
pub(crate) fn pick<T: Clone>(all: &[T], n: u8) -> Option<T> {
    all.get(usize::from(n) * all.len() / 256).cloned()
}

/// What a caller waits for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    Prompt(RunId),
    /// The run that it can reach.
    Cancel(Option<RunId>),
    Answer(RequestId),
    Set(String),
    ClearLater,
    Reserve,
    Release,
    Compact(RunId),
    Close(Closing),
    Other,
}

/// The run or the compaction in flight.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) run: RunId,
    pub(crate) compacts: Option<Ticket>,
    started: bool,
    final_told: bool,
    /// Somebody had a reason to cancel it.
    pub(crate) doomed: bool,
    pub(crate) cancel_sent: bool,
    /// Its context was refused, not only seen to fill up.
    pub(crate) refused: bool,
    pub(crate) squeezing: bool,
    squeezed: bool,
    pub(crate) helped: u32,
}

/// A permission request.
#[derive(Debug, Default)]
struct Asked {
    told: bool,
    resolved: Option<Outcome>,
    verdict: bool,
    answered: bool,
}

/// A background task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    told: bool,
    pub(crate) stop_asked: bool,
    pub(crate) ended: bool,
    end_told: bool,
}

/// One life of a session, from a load to a close or a crash.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) calls: HashMap<Ticket, Call>,
    pub(crate) queue: VecDeque<Ticket>,
    pub(crate) active: Option<Active>,
    pub(crate) reserved: bool,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
    busy_told: bool,
    begun: Option<RunId>,
    over: HashSet<RunId>,
    /// Cancels that met the run that they were for.
    hit: HashSet<Ticket>,
    asks: BTreeMap<RequestId, Asked>,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    /// Finished tasks whose results nobody told the agent yet.
    pub(crate) owed: HashSet<TaskId>,
}

impl Model {
    pub(crate) fn call(&mut self, ticket: Ticket, call: Call) {
        self.calls.insert(ticket, call);
    }

    /// A caller is answered: once.
    fn take(&mut self, ticket: Ticket) -> Result<Call, String> {
        self.queue.retain(|queued| *queued != ticket);
        self.calls.remove(&ticket).ok_or_else(|| format!("{ticket:?} is answered twice"))
    }

    pub(crate) fn occupied(&self) -> bool {
        self.active.is_some()
            || self.reserved
            || !self.queue.is_empty()
            || self.tasks.values().any(|task| task.told && !task.ended && !task.end_told)
    }

    /// Whether a prompt must wait, or is refused.
    pub(crate) fn occupied_by_run(&self) -> bool {
        self.active.is_some()
    }

    pub(crate) fn asked(&mut self, id: RequestId) {
        self.asks.insert(id, Asked::default());
    }

    fn pending(&self) -> HashSet<&RequestId> {
        self.asks.iter().filter(|(_, ask)| ask.told && !ask.verdict).map(|(id, _)| id).collect()
    }

    pub(crate) fn published(&mut self, event: &AgentEvent) -> Checked {
        ensure!(!self.closed, "published after session_closed: {event:?}");
        match event {
            AgentEvent::Status { busy, .. } => {
                ensure!(self.busy_told != *busy, "status {busy} told twice");
                self.busy_told = *busy;
                if *busy {
                    ensure!(self.active.is_none() && !self.reserved, "busy told while a run is in flight or reserved");
                }
            }
            AgentEvent::UserMessage { origin, text, .. } => {
                ensure!(self.busy_told, "user_message before busy");
                if *origin == Origin::Task {
                    let told: Vec<TaskId> =
                        self.owed.iter().filter(|id| text.contains(&format!("task {id} ("))).cloned().collect();
                    let lines = text.lines().filter(|line| line.starts_with("Background task")).count();
                    ensure!(!told.is_empty() && told.len() == lines, "handed over what was not owed: {text}");
                    self.owed.retain(|id| !told.contains(id));
                }
            }
            AgentEvent::Final { run_id, .. } => {
                let active = self.active.as_mut().filter(|active| active.run == *run_id);
                let active = active.ok_or_else(|| format!("final of {run_id}, which is not in flight"))?;
                ensure!(!std::mem::replace(&mut active.final_told, true), "final told twice");
            }
            AgentEvent::Compaction { .. } => {
                let active = self.active.as_mut().filter(|active| active.squeezing || active.compacts.is_some());
                let active = active.ok_or("a compaction is told, and there is none")?;
                active.squeezed = active.squeezing;
            }
            AgentEvent::LlmDelta { .. } => {
                ensure!(
                    self.active.as_ref().is_some_and(|run| run.started && !run.final_told && !run.squeezing),
                    "a delta outside a run"
                );
            }
            AgentEvent::PermissionRequest(request) => {
                let ask = self.asks.get_mut(&request.request_id).ok_or("a request that nobody made")?;
                ensure!(!std::mem::replace(&mut ask.told, true), "a request told twice");
            }
            AgentEvent::PermissionResolved { request_id, outcome, .. } => {
                let ask = self.asks.get_mut(request_id).ok_or("a resolution of nothing")?;
                ensure!(ask.told && ask.resolved.is_none(), "a request is resolved twice, or before it was told");
                ask.resolved = Some(*outcome);
            }
            AgentEvent::TaskStart { task_id, .. } => {
                let task = self.tasks.get_mut(task_id).ok_or("a start of no task")?;
                ensure!(!std::mem::replace(&mut task.told, true), "a task's start told twice");
            }
            AgentEvent::TaskEnd { task_id, .. } => {
                let task = self.tasks.get_mut(task_id).ok_or("an end of no task")?;
                ensure!(task.told && !std::mem::replace(&mut task.end_told, true), "a task's end told twice");
            }
            AgentEvent::SessionClosed { .. } => {
                ensure!(self.active.is_none() && !self.busy_told, "closed with a run in flight");
                self.closed = true;
            }
            _ => (),
        }
        Ok(())
    }

    pub(crate) fn accepted(&mut self, ticket: Option<Ticket>, run: &RunId) -> Checked {
        ensure!(
            self.active.is_none() && !self.closed && !self.reserved,
            "{run} begins beside another, or after the end"
        );
        ensure!(self.busy_told, "{run} is accepted before busy is told");
        if let Some(ticket) = ticket {
            if self.queue.contains(&ticket) {
                ensure!(self.queue.front() == Some(&ticket), "{run} began before prompts that waited longer");
            }
            ensure!(self.take(ticket)? == Call::Prompt(run.clone()), "{run} is another caller's run");
        }
        self.begun = Some(run.clone());
        self.begin(run, None);
        Ok(())
    }

    fn begin(&mut self, run: &RunId, compacts: Option<Ticket>) {
        self.active = Some(Active {
            run: run.clone(),
            started: compacts.is_some(),
            compacts,
            final_told: false,
            doomed: false,
            cancel_sent: false,
            refused: false,
            squeezing: false,
            squeezed: false,
            helped: 0,
        });
    }

    pub(crate) fn started(&mut self, run: &RunId) -> Checked {
        let active = self.active.as_mut().filter(|active| active.run == *run);
        let active = active.ok_or_else(|| format!("{run} starts without being accepted"))?;
        if std::mem::replace(&mut active.started, true) {
            ensure!(std::mem::take(&mut active.squeezed) && !active.cancel_sent, "{run} starts twice");
            active.squeezing = false;
            active.helped += 1;
        }
        Ok(())
    }

    pub(crate) fn compacts(&mut self, run: &RunId) -> Checked {
        if let Some(active) = self.active.as_mut().filter(|active| active.run == *run && active.compacts.is_none()) {
            ensure!(active.started && !active.final_told, "{run} is made smaller before or after its time");
            ensure!(!active.cancel_sent, "{run} is made smaller, and it is cancelled");
            ensure!(!active.refused || active.helped == 0, "{run} is helped twice");
            ensure!(!std::mem::replace(&mut active.squeezing, true), "{run} is made smaller twice at once");
            return Ok(());
        }
        ensure!(self.active.is_none() && !self.reserved, "a compaction beside a run");
        let wanted = Call::Compact(run.clone());
        let ticket = self.calls.iter().find(|(_, call)| **call == wanted).map(|(ticket, _)| *ticket);
        ensure!(ticket.is_some(), "a compaction that nobody asked for");
        self.begin(run, ticket);
        Ok(())
    }

    pub(crate) fn ended(&mut self, run: &RunId) -> Checked {
        let active = self.active.take().filter(|active| active.run == *run);
        let active = active.ok_or_else(|| format!("{run} ends, but is not in flight"))?;
        ensure!(active.started && active.final_told && !self.busy_told, "{run} ends untold");
        ensure!(self.over.insert(run.clone()), "{run} ends twice");
        Ok(())
    }

    pub(crate) fn cancel_sent(&mut self, run: &RunId) -> Checked {
        let active = self.active.as_mut().filter(|active| active.run == *run);
        let active = active.ok_or_else(|| format!("{run} is cancelled, but is not in flight"))?;
        ensure!(active.doomed, "{run} is cancelled, and nobody asked for it");
        ensure!(!std::mem::replace(&mut active.cancel_sent, true), "{run} is cancelled twice");
        Ok(())
    }

    /// Somebody cancels, the run that he saw or whatever is in flight.
    pub(crate) fn cancel(&mut self, ticket: Ticket, seen: Option<RunId>) {
        let met = self.active.as_ref().filter(|active| seen.as_ref().is_none_or(|seen| *seen == active.run));
        let met = met.map(|active| active.run.clone());
        if met.is_some() {
            self.hit.insert(ticket);
            self.doom();
        }
        self.call(ticket, Call::Cancel(met.or(seen)));
    }

    /// The run in flight is to end, whoever wants it.
    pub(crate) fn doom(&mut self) {
        if let Some(active) = &mut self.active {
            active.doomed = true;
        }
    }

    pub(crate) fn verdict(&mut self, id: &RequestId, outcome: Outcome) -> Checked {
        let ask = self.asks.get_mut(id).ok_or("a verdict on nothing")?;
        ensure!(!std::mem::replace(&mut ask.verdict, true), "two verdicts on {id}");
        ensure!(!ask.told || ask.resolved == Some(outcome), "the verdict on {id} is not the one that was told");
        Ok(())
    }

    /// The agent was given up with whatever it asked.
    pub(crate) fn dropped(&mut self) {
        self.asks.values_mut().for_each(|ask| ask.verdict = true);
    }

    /// An answer took effect.
    pub(crate) fn answered(&mut self, ticket: Ticket) -> Checked {
        let Call::Answer(id) = self.take(ticket)? else { return Err("an answer to another call".into()) };
        let ask = self.asks.get_mut(&id).ok_or("an answer to nothing")?;
        ensure!(!std::mem::replace(&mut ask.answered, true), "{id} is answered twice");
        Ok(())
    }

    pub(crate) fn replied(&mut self, ticket: Ticket, reply: &Result<Reply, PlaneError>) -> Result<Call, String> {
        if matches!(reply, Ok(Reply::Answered(_))) {
            self.answered(ticket)?;
            return Ok(Call::Other);
        }
        let call = self.take(ticket)?;
        match (&call, reply) {
            (Call::Prompt(run), Err(_)) => {
                ensure_not(self.begun.as_ref() == Some(run), "a run was refused after it began")?
            }
            (Call::Prompt(_), Ok(_)) => return Err("a prompt is answered without a run".into()),
            (Call::Cancel(Some(run)), Ok(Reply::Cancelled(hit))) => {
                let in_flight = self.active.as_ref().is_some_and(|active| active.run == *run);
                ensure_not(in_flight, "a cancel is answered before the run's end")?;
                ensure_not(hit.is_none() && self.hit.contains(&ticket), "a cancel that hit is answered as a miss")?;
                ensure_not(hit.is_some() && !self.hit.contains(&ticket), "a cancel that missed is answered as a hit")?;
            }
            (Call::Answer(id), Err(PlaneError::NotFound { .. })) => {
                ensure_not(self.pending().contains(id), "a pending request is not found")?;
            }
            (Call::Reserve, Ok(_)) => self.reserved = true,
            (Call::Release, _) => self.reserved = false,
            (Call::Compact(run), _) if self.active.as_ref().is_some_and(|active| active.run == *run) => {
                ensure_not(self.busy_told, "a compaction is answered before idle is told")?;
                self.active = None;
            }
            (Call::Close(Closing::IfIdle), Err(_)) => {
                ensure_not(!self.occupied() && !self.closing, "an idle session refuses its eviction")?;
            }
            _ => (),
        }
        Ok(call)
    }

    pub(crate) fn closed(&mut self, closers: &[Ticket]) -> Checked {
        ensure!(self.closed, "closed untold");
        let asked: HashSet<Ticket> = self.closing_calls().collect();
        ensure!(asked == closers.iter().copied().collect(), "closers {closers:?}, asked had {asked:?}");
        closers.iter().try_for_each(|ticket| self.take(*ticket).map(drop))?;
        self.owed.clear();
        ensure!(self.calls.is_empty(), "closed, and these still wait: {:?}", self.calls);
        let waiting: Vec<_> = self.asks.iter().filter(|(_, ask)| !ask.verdict).collect();
        ensure!(waiting.is_empty(), "closed, and the agent still waits: {waiting:?}");
        let left = self.tasks.iter().find(|(_, task)| !task.ended && !task.stop_asked);
        ensure!(left.is_none(), "closed, and a task goes on: {left:?}");
        Ok(())
    }

    fn closing_calls(&self) -> impl Iterator<Item = Ticket> {
        self.calls.iter().filter(|(_, call)| matches!(call, Call::Close(_))).map(|(ticket, _)| *ticket)
    }

    /// What the machine shows is what the model knows.
    pub(crate) fn compare(&self, machine: &triplane_core::session::Machine) -> Checked {
        ensure!(machine.busy() == self.active.is_some(), "busy is {}, active is {:?}", machine.busy(), self.active);
        ensure!(machine.run_id() == self.active.as_ref().map(|active| &active.run), "another run is in flight");
        ensure!(self.busy_told == machine.busy(), "what was told of busy is not so");
        ensure!(machine.waiting() == self.queue.len(), "{} wait, not {}", machine.waiting(), self.queue.len());
        let shown: HashSet<&RequestId> = machine.permissions().iter().map(|request| &request.request_id).collect();
        ensure!(shown == self.pending(), "pending are {:?}, shown are {shown:?}", self.pending());
        ensure!(machine.closed() == self.closed, "closed is {}", machine.closed());
        if !self.closed {
            ensure!(machine.occupied() == self.occupied(), "occupied is {}: {self:?}", machine.occupied());
        }
        Ok(())
    }
}

fn ensure_not(wrong: bool, text: &str) -> Checked {
    if wrong { Err(text.into()) } else { Ok(()) }
}
