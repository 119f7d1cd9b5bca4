//! The task that owns a session: it takes inputs in order, steps the machine, and carries the effects out in order.
//!
//! Invariants: what is acknowledged is on disk before; events reach the spool before the readers; a run's agent is never
//! called twice at once; when this task ends, its run, its tasks and its lock are gone. Clauses: C12, H16, S26, L13.

use super::{
    PermissionAsk, RunSink, Verdict,
    input::{Effect, Input, PromptInput, Reply, Say, Step, Ticket},
    live::{Envelope, Live, Responder, fresh_id, now_ms, run_id},
};
use crate::{
    PlaneError,
    agent::{LiveAgent, Open, RunError, RunOutcome, Settings, Turn},
    feed::{Entry, Marker},
    permission::{Rule, Rules},
    plane::{Answered, Run, RunResult, WhenBusy},
    store::{SessionLock, Spool, StoreError, Transcript},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    AgentEvent, ErrorCode, Message, MessageId, RequestId, RunId, Stop,
    event::{CloseReason, Origin, Outcome},
    record::Record,
};

/// How long a cancelled run may take to end by itself before it is given up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// Inputs taken from the inbox at once; their events are published together.
const BATCH: usize = 64;

/// The owner of one live session.
pub(crate) struct Actor {
    live: Arc<Live>,
    inbox: mpsc::Receiver<Box<Envelope>>,
    transcript: Transcript,
    lock: Arc<SessionLock>,
    spool: Option<Spool>,
    /// The spool was given up for this life.
    spoolless: bool,
    agent: Option<Box<dyn LiveAgent>>,
    run: Option<RunTask>,
    responders: HashMap<Ticket, Responder>,
    run_ends: HashMap<RunId, oneshot::Sender<RunResult>>,
    unpublished: Vec<AgentEvent>,
    busy_seq: u64,
    last_seq: u64,
    ended: bool,
    /// Who waits for the end, and what they are told.
    closers: Vec<Ticket>,
    end_error: Option<String>,
}

/// The run in flight, as a task.
struct RunTask {
    id: RunId,
    compacts: bool,
    cancel: CancellationToken,
    handle: JoinHandle<Option<Box<dyn LiveAgent>>>,
    overdue: Option<tokio::time::Instant>,
}

/// What an agent is to do in a task of its own.
enum Work {
    Run { turn: Turn, sink: RunSink },
    Summarize { turn: Turn },
}

/// What woke the session's task.
enum Woken {
    #[expect(clippy::vec_box, reason = "the inbox is of boxes, so that an idle one is small")]
    Inputs(Vec<Box<Envelope>>),
    RunTaskEnded(Result<Option<Box<dyn LiveAgent>>, tokio::task::JoinError>),
    Overdue(RunId),
    InboxClosed,
}

impl Actor {
    /// The owner of `live`. Its agent is opened with the first run.
    pub(crate) fn new(
        live: Arc<Live>,
        inbox: mpsc::Receiver<Box<Envelope>>,
        transcript: Transcript,
        lock: Arc<SessionLock>,
    ) -> Self {
        let last_seq = live.log.next_seq().saturating_sub(1);
        Self {
            live,
            inbox,
            transcript,
            lock,
            spool: None,
            spoolless: false,
            agent: None,
            run: None,
            responders: HashMap::new(),
            run_ends: HashMap::new(),
            unpublished: Vec::new(),
            busy_seq: 0,
            last_seq,
            ended: false,
            closers: Vec::new(),
            end_error: None,
        }
    }

    /// Serves the session to its end.
    pub(crate) async fn serve(mut self) {
        while !self.ended {
            match self.wait().await {
                Woken::Inputs(envelopes) => {
                    for envelope in envelopes {
                        let Envelope { input, responder } = *envelope;
                        self.responders.extend(responder);
                        self.step(input).await;
                    }
                }
                Woken::RunTaskEnded(joined) => self.run_task_ended(joined).await,
                Woken::Overdue(id) => {
                    if let Some(run) = &mut self.run {
                        run.overdue = None;
                    }
                    self.step(Input::Overdue(id)).await;
                }
                Woken::InboxClosed => break,
            }
            self.publish().await;
            self.live.touch();
        }
        self.end().await;
    }

    /// Cancel safe: `recv_many` and the join handle lose nothing when dropped.
    async fn wait(&mut self) -> Woken {
        let mut inputs = Vec::new();
        match &mut self.run {
            None => match self.inbox.recv_many(&mut inputs, BATCH).await {
                0 => Woken::InboxClosed,
                _ => Woken::Inputs(inputs),
            },
            Some(run) => {
                let overdue = run.overdue;
                let late = async {
                    match overdue {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    // A flood from the run must not hide that it is late; what it said before its end comes before the end.
                    biased;
                    () = late => Woken::Overdue(run.id.clone()),
                    count = self.inbox.recv_many(&mut inputs, BATCH) => {
                        if count == 0 { Woken::InboxClosed } else { Woken::Inputs(inputs) }
                    }
                    joined = &mut run.handle => Woken::RunTaskEnded(joined),
                }
            }
        }
    }

    /// One input through the machine, its effects, and what follows from writes, until nothing follows.
    async fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let effects = self.live.machine().step(input);
            for effect in effects {
                inputs.extend(self.carry_out(effect).await);
            }
        }
    }

    /// Carries one effect out; answers with the input that follows from it.
    async fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Append { records, sync, then } => return Some(self.append(records, sync, then).await),
            Effect::Publish(event) => self.unpublished.push(event),
            Effect::Accepted { ticket, run_id } => {
                self.publish().await;
                let (end_tx, end) = oneshot::channel();
                self.run_ends.insert(run_id.clone(), end_tx);
                if let Some(Responder::Run(tx)) = ticket.and_then(|ticket| self.responders.remove(&ticket)) {
                    // A caller that went away leaves its run behind (C10).
                    let _ = tx.send(Ok(Run { run_id, seq: self.busy_seq, end }));
                }
            }
            Effect::StartRun { run_id, message_id, history, settings, turns } => {
                let Some(left) = self.live.services.limits.max_turns.checked_sub(turns).filter(|left| *left > 0) else {
                    return Some(Input::Agent(run_id, Say::Ended(RunOutcome::of(Stop::MaxTurns))));
                };
                let turn = self.turn(&run_id, history, &settings, left);
                let sink = RunSink::new(self.live.clone(), run_id.clone(), message_id);
                self.with_agent(run_id, settings, Work::Run { turn, sink });
            }
            Effect::StartCompact { run_id, history, settings } => {
                let turn = self.turn(&run_id, history, &settings, self.live.services.limits.max_turns);
                self.with_agent(run_id, settings, Work::Summarize { turn });
            }
            Effect::CancelRun(run_id) => {
                if let Some(run) = self.run.as_mut().filter(|run| run.id == run_id) {
                    run.cancel.cancel();
                    run.overdue = Some(tokio::time::Instant::now() + CANCEL_GRACE);
                }
            }
            Effect::DropRun(run_id) => return self.drop_run(&run_id),
            Effect::Ended { run_id, outcome } => {
                self.publish().await;
                self.tell_ended(run_id, outcome);
            }
            Effect::Reply(ticket, reply) => {
                self.publish().await;
                self.reply(ticket, reply);
            }
            Effect::Refuse(ticket, why) => self.reply(ticket, Err(why(&self.live.id))),
            Effect::Verdict { request_id, outcome, option, reason } => {
                self.verdict(&request_id, outcome, option, reason)
            }
            Effect::SaveRule { ticket, request_id, allow } => {
                let rule = self.rule(&request_id, allow);
                let saved = save_rule(self.live.rules.clone(), rule).await;
                let answered = Answered { allowed: allow, persisted: Some(saved.is_ok()), error: saved.err() };
                self.reply(ticket, Ok(Reply::Answered(answered)));
            }
            Effect::WantHandover => return Some(Input::Handover(self.handover_prompt())),
            Effect::StopTask(id) => {
                if let Some(token) = self.live.task_tokens().get(&id) {
                    token.cancel();
                }
            }
            Effect::Closed { reason, closers } => self.closed(reason, closers).await,
        }
        None
    }

    async fn append(&mut self, records: Vec<Record>, sync: bool, then: Step) -> Input {
        self.publish().await;
        let began = Instant::now();
        let written = if sync { self.transcript.append(&records).await } else { self.transcript.write(&records) };
        self.live.services.stats.appended(sync, began.elapsed());
        match written {
            Ok(()) => {
                self.live.updated.store(now_ms(), Ordering::Relaxed);
                Input::Stored(then, records)
            }
            Err(error) => {
                tracing::error!(session = %self.live.id, error = chain(&error), "the transcript could not be written");
                Input::StoreFailed(then, error.to_string())
            }
        }
    }

    /// Spools and publishes what has gathered: one write, one wake-up.
    async fn publish(&mut self) {
        if self.unpublished.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.unpublished);
        let count = events.len() as u64;
        if !self.spoolless
            && let Err(error) = self.reserve(count).await
        {
            self.give_up_spool(&error).await;
        }
        let first = self.live.log.next_seq();
        let mut entries = Vec::with_capacity(events.len());
        for (seq, event) in (first..).zip(events) {
            if matches!(event, AgentEvent::Status { busy: true, .. }) {
                self.busy_seq = seq;
            }
            entries.push(Arc::new(Entry::new(seq, event)));
        }
        if let Some(spool) = &mut self.spool {
            let lines: Vec<(u64, &[u8])> = entries.iter().map(|entry| (entry.seq, &*entry.json)).collect();
            if let Err(error) = spool.append(&lines) {
                tracing::warn!(session = %self.live.id, error = chain(&error), "events could not be spooled");
            }
        }
        self.last_seq = first + count - 1;
        self.live.services.stats.published(count);
        self.live.log.publish(&entries);
        self.live.services.feed.events(&self.live.id, &entries);
    }

    /// Without a reservation a seq could be used twice after a crash. So the spool goes: its next life begins a new epoch,
    /// and until then readers go on from memory. Clause: H16.
    async fn give_up_spool(&mut self, error: &StoreError) {
        tracing::error!(session = %self.live.id, error = chain(error), "the spool could not be written and is given up");
        self.spoolless = true;
        self.spool = None;
        if let Err(error) = self.live.services.dir.forget_spool(&self.lock).await {
            tracing::error!(session = %self.live.id, error = chain(&error), "the spool could not be removed");
        }
    }

    /// Opens the spool with the first event, and reserves seqs on disk before they are used. Clause: H16.
    async fn reserve(&mut self, count: u64) -> Result<(), StoreError> {
        if self.spool.is_none() {
            let (spool, state) = self.live.services.dir.spool(&self.live.id, self.lock.clone()).await?;
            self.live.log.resume(state.next_seq, &state.epoch);
            self.spool = Some(spool);
        }
        let upto = self.live.log.next_seq() + count - 1;
        if let Some(spool) = &mut self.spool {
            if upto > spool.reserved() {
                spool.reserve(upto).await?;
            }
            if spool.oversize() {
                spool.trim().await?;
            }
        }
        Ok(())
    }

    fn turn(&self, run_id: &RunId, history: Vec<Arc<Message>>, settings: &Settings, max_turns: u32) -> Turn {
        Turn { run_id: run_id.clone(), history, settings: settings.clone(), cwd: self.live.cwd.clone(), max_turns }
    }

    /// Has the agent work in a task of its own; what comes of it is told through the inbox.
    fn with_agent(&mut self, run_id: RunId, settings: Settings, work: Work) {
        let cancel = CancellationToken::new();
        let (live, token, id) = (self.live.clone(), cancel.clone(), run_id.clone());
        let before = self.run.take().map(|run| run.handle);
        let ready = self.agent.take();
        let compacts = matches!(work, Work::Summarize { .. });
        let handle = tokio::spawn(async move {
            // The agent of the run before comes back with its task, which is at its end.
            let before = match before {
                Some(handle) => handle.await.ok().flatten(),
                None => None,
            };
            let agent = match ready.or(before) {
                Some(agent) => Ok(agent),
                None => live.agent.open(Open { id: live.id.clone(), cwd: live.cwd.clone(), settings }).await,
            };
            let mut agent = match agent {
                Ok(agent) => agent,
                Err(error) => {
                    live.tell(broke(id, compacts, error.code(), error.to_string())).await;
                    return None;
                }
            };
            let said = match work {
                Work::Run { turn, sink } => Input::Agent(id, Say::Ended(agent.run(turn, sink, token).await)),
                Work::Summarize { turn } => {
                    let summary = agent.summarize(turn, token).await;
                    Input::Compacted(id, summary, MessageId::from(fresh_id()), now_ms())
                }
            };
            live.tell(said).await;
            Some(agent)
        });
        self.run = Some(RunTask { id: run_id, compacts, cancel, handle, overdue: None });
    }

    /// The run's task is over. If the machine has not heard of the run's end, the agent broke.
    async fn run_task_ended(&mut self, joined: Result<Option<Box<dyn LiveAgent>>, tokio::task::JoinError>) {
        let Some(run) = self.run.take() else { return };
        match joined {
            Ok(agent) => self.agent = agent,
            // Only when the whole process goes down: nothing more is said, and the next life finds the run cut off.
            Err(error) if error.is_cancelled() => (),
            Err(error) => {
                tracing::error!(session = %self.live.id, %error, "an agent broke");
                let told = "the agent broke; the log has the cause".into();
                self.step(broke(run.id, run.compacts, ErrorCode::Internal, told)).await;
            }
        }
    }

    /// Gives a run up that did not end when it was told to.
    fn drop_run(&mut self, run_id: &RunId) -> Option<Input> {
        let run = self.run.take_if(|run| run.id == *run_id)?;
        tracing::warn!(session = %self.live.id, "a cancelled run did not end in time and is given up");
        run.handle.abort();
        self.live.asks().clear();
        if run.compacts {
            return Some(broke(run.id, true, ErrorCode::Cancelled, "cancelled".into()));
        }
        Some(Input::Agent(run.id, Say::Ended(RunOutcome::of(Stop::Aborted))))
    }

    fn tell_ended(&mut self, run_id: RunId, outcome: RunOutcome) {
        if let Some(run) = self.run.as_mut().filter(|run| run.id == run_id) {
            run.overdue = None;
        }
        let RunOutcome { stop, reply, usage, turns, error } = outcome;
        self.live.services.stats.run_ended(stop);
        if let Some(tx) = self.run_ends.remove(&run_id) {
            let _ = tx.send(RunResult { run_id, reply, usage, turns, stop, error, last_seq: self.last_seq });
        }
    }

    fn reply(&mut self, ticket: Ticket, reply: Result<Reply, PlaneError>) {
        if let Some(responder) = self.responders.remove(&ticket) {
            responder.answer(reply);
        }
    }

    fn verdict(&mut self, id: &RequestId, outcome: Outcome, option: Option<String>, reason: Option<String>) {
        let Some(pending) = self.live.asks().remove(id) else { return };
        let verdict = match outcome {
            Outcome::Allowed => Verdict::Allowed { option },
            Outcome::Denied => {
                Verdict::Denied { reason: reason.unwrap_or_else(|| "the user refused it".into()), option }
            }
            Outcome::Expired => Verdict::Expired,
        };
        let _ = pending.verdict.send(verdict);
    }

    /// The narrow rule that was shown: this tool, this subject.
    fn rule(&self, id: &RequestId, allow: bool) -> Option<Rule> {
        let asks = self.live.asks();
        let PermissionAsk { tool, subject, .. } = &asks.get(id)?.ask;
        Some(Rule::exactly(tool, subject, allow))
    }

    fn handover_prompt(&self) -> PromptInput {
        PromptInput {
            run_id: run_id(),
            message_id: MessageId::from(fresh_id()),
            parts: Vec::new(),
            origin: Origin::Task,
            when_busy: WhenBusy::Refuse,
            at: now_ms(),
        }
    }

    /// The session leaves the live map with its last word.
    async fn closed(&mut self, reason: CloseReason, closers: Vec<Ticket>) {
        self.publish().await;
        self.ended = true;
        for token in self.live.task_tokens().values() {
            token.cancel();
        }
        if let Some(spool) = self.spool.take()
            && let Err(error) = spool.close(self.last_seq)
        {
            tracing::warn!(session = %self.live.id, error = chain(&error), "the spool could not be closed");
        }
        if let Err(error) = self.transcript.sync().await {
            tracing::error!(session = %self.live.id, error = chain(&error), "the transcript could not be synced");
        }
        let deleted = match reason {
            CloseReason::Deleted => Some(self.live.services.dir.delete(self.lock.clone()).await),
            CloseReason::Explicit | CloseReason::Idle | CloseReason::Rewind | CloseReason::Shutdown => None,
        };
        self.leave(if matches!(deleted, Some(Err(_))) { CloseReason::Explicit } else { reason });
        self.end_error = deleted.and_then(Result::err).map(|error| error.to_string());
        self.closers = closers;
    }

    /// Out of the live map, and told so, in one moment; `deleted` comes before `detached`. Clause: S26.
    fn leave(&self, reason: CloseReason) {
        let live = &self.live;
        let overlay = &live.services.overlay;
        overlay.closed(&live.id, self.lock.holder().generation, now_ms());
        if !self.transcript.is_pending() {
            overlay.flushed(&live.id);
        }
        live.services.feed.change(|map| {
            let gone = map.sessions.remove(&live.id).is_some();
            let (id, agent) = (live.id.clone(), live.agent_id.clone());
            let deleted = Marker::Deleted { id: id.clone(), agent: agent.clone() };
            let detached = Marker::Detached { id, agent, reason };
            let markers = match (gone, reason) {
                (false, _) => Vec::new(),
                (true, CloseReason::Deleted) => vec![deleted, detached],
                (true, _) => vec![detached],
            };
            (markers, ())
        });
    }

    /// Lets go of everything, whatever the way here was; then, since the lock is free again, tells who waited for it.
    async fn end(mut self) {
        if !self.ended {
            self.leave(CloseReason::Shutdown);
        }
        if let Some(run) = self.run.take() {
            run.cancel.cancel();
            let mut handle = run.handle;
            match tokio::time::timeout(CANCEL_GRACE, &mut handle).await {
                Ok(joined) => self.agent = joined.ok().flatten(),
                Err(_) => handle.abort(),
            }
        }
        if let Some(mut agent) = self.agent.take()
            && tokio::time::timeout(CANCEL_GRACE, agent.close()).await.is_err()
        {
            tracing::warn!(session = %self.live.id, "an agent did not let go in time");
        }
        let mut closers = Vec::new();
        for ticket in std::mem::take(&mut self.closers) {
            if let Some(responder) = self.responders.remove(&ticket) {
                closers.push(responder);
            }
        }
        let Self { live, mut inbox, end_error, transcript, spool, lock, .. } = self;
        drop((transcript, spool, lock));
        for responder in closers {
            responder.answer(end_error.clone().map_or(Ok(Reply::Done), |error| Err(PlaneError::Internal(error))));
        }
        inbox.close();
        while let Some(envelope) = inbox.recv().await {
            if let Some((_, responder)) = envelope.responder {
                responder.answer(Err(PlaneError::not_live(&live.id)));
            }
        }
        // Whoever still asks gets no answer any more.
        live.asks().clear();
    }
}

async fn save_rule(rules: Arc<Rules>, rule: Option<Rule>) -> Result<(), String> {
    let rule = rule.ok_or("the request is gone")?;
    tokio::task::spawn_blocking(move || rules.save(rule)).await.map_err(|error| error.to_string())?
}

/// What the machine is told when an agent could not do its work.
fn broke(id: RunId, compacts: bool, code: ErrorCode, message: String) -> Input {
    let error = RunError { code, message, retryable: false };
    if compacts {
        return Input::Compacted(id, Err(error), MessageId::from(fresh_id()), now_ms());
    }
    Input::Agent(id, Say::Ended(RunOutcome { error: Some(error), ..RunOutcome::of(Stop::Error) }))
}

/// The whole chain, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
