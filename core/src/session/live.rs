//! A live session as the rest of the plane sees it: its machine to look at, its inbox to change it.
//! Invariant: the machine is stepped by the session's own task alone; everybody else only looks.

use super::{
    Machine, PermissionAsk, Verdict,
    input::{Input, Reply, Ticket},
};
use crate::{
    PlaneError,
    agent::Agent,
    feed::{Log, NodeFeed},
    limits::Limits,
    overlay::Overlay,
    permission::Rules,
    plane::Run,
    stats::Stats,
    store::{SessionDir, SessionLock},
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_protocol::{RequestId, RunId, SessionId, TaskId};

/// What every session of a plane shares.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) dir: Arc<SessionDir>,
    pub(crate) feed: Arc<NodeFeed<Live>>,
    pub(crate) limits: Limits,
    pub(crate) overlay: Overlay,
    /// Whether any registered party can answer permission requests. Clause: C11.
    pub(crate) answerable: AtomicBool,
    /// Every task of the plane, so that shutdown can wait for all of them.
    pub(crate) tracker: TaskTracker,
    pub(crate) stats: Arc<Stats>,
}

/// One live session.
pub(crate) struct Live {
    pub(crate) id: SessionId,
    pub(crate) agent_id: String,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) cwd: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) created: i64,
    pub(crate) updated: AtomicI64,
    pub(crate) log: Arc<Log>,
    pub(crate) rules: Arc<Rules>,
    /// The session's own task holds it; whatever else keeps this alive must not keep the lock.
    pub(crate) lock: Weak<SessionLock>,
    pub(crate) services: Arc<Services>,
    /// When it was last used, by the plane's own count; for who goes first (L12).
    pub(crate) used: AtomicU64,
    /// When it was last used or went idle, by the monotonic clock (S29).
    idle_since: Mutex<Instant>,
    /// Requests that wait for a person, with what a saved rule would be about.
    pub(crate) asks: Mutex<HashMap<RequestId, PendingAsk>>,
    pub(crate) tasks: Mutex<HashMap<TaskId, CancellationToken>>,
    machine: Mutex<Machine>,
    inbox: mpsc::Sender<Box<Envelope>>,
    tickets: AtomicU64,
}

/// A tool call that waits, and where its verdict goes.
#[derive(Debug)]
pub(crate) struct PendingAsk {
    pub(crate) ask: PermissionAsk,
    pub(crate) verdict: oneshot::Sender<Verdict>,
}

/// An input with whoever waits for its answer.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) input: Input,
    pub(crate) responder: Option<(Ticket, Responder)>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum Responder {
    Reply(oneshot::Sender<Result<Reply, PlaneError>>),
    Run(oneshot::Sender<Result<Run, PlaneError>>),
}

impl Responder {
    pub(crate) fn answer(self, reply: Result<Reply, PlaneError>) {
        // A caller that went away needs no answer.
        match (self, reply) {
            (Self::Reply(tx), reply) => drop(tx.send(reply)),
            (Self::Run(tx), Err(error)) => drop(tx.send(Err(error))),
            (Self::Run(_), Ok(_)) => (),
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a live session is made of.
pub(crate) struct Parts {
    pub(crate) id: SessionId,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) cwd: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) log: Arc<Log>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) lock: Arc<SessionLock>,
    pub(crate) services: Arc<Services>,
    pub(crate) machine: Machine,
}

impl Live {
    pub(crate) fn new(parts: Parts) -> (Arc<Self>, mpsc::Receiver<Box<Envelope>>) {
        let (inbox, rx) = mpsc::channel(parts.services.limits.session_inputs);
        let live = Self {
            id: parts.id,
            agent_id: parts.agent.id(),
            agent: parts.agent,
            cwd: parts.cwd,
            path: parts.path,
            created: parts.created,
            updated: AtomicI64::new(parts.updated),
            log: parts.log,
            rules: parts.rules,
            lock: Arc::downgrade(&parts.lock),
            services: parts.services,
            used: AtomicU64::new(0),
            idle_since: Mutex::new(Instant::now()),
            asks: Mutex::default(),
            tasks: Mutex::default(),
            machine: Mutex::new(parts.machine),
            inbox,
            tickets: AtomicU64::new(0),
        };
        (Arc::new(live), rx)
    }

    /// The machine, to look at.
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is in use at this moment.
    pub(crate) fn touch(&self) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// For how long nobody used it.
    pub(crate) fn idle_for(&self) -> Duration {
        self.idle_since.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands an input in; waits while the inbox is full. `false`: the session has ended.
    pub(crate) async fn tell(&self, input: Input) -> bool {
        self.inbox.send(Box::new(Envelope { input, responder: None })).await.is_ok()
    }

    /// Hands in an input that is answered. Errors: `NotFound` when the session has ended meanwhile.
    pub(crate) async fn ask(&self, input: impl FnOnce(Ticket) -> Input) -> Result<Reply, PlaneError> {
        let ticket = self.ticket();
        let (tx, rx) = oneshot::channel();
        let envelope = Envelope { input: input(ticket), responder: Some((ticket, Responder::Reply(tx))) };
        self.inbox.send(Box::new(envelope)).await.map_err(|_| PlaneError::not_live(&self.id))?;
        rx.await.map_err(|_| PlaneError::not_live(&self.id))?
    }

    /// Hands in a prompt; the receiver gets its run.
    pub(crate) async fn ask_run(
        &self,
        ticket: Ticket,
        input: Input,
    ) -> Result<oneshot::Receiver<Result<Run, PlaneError>>, PlaneError> {
        let (tx, rx) = oneshot::channel();
        let envelope = Envelope { input, responder: Some((ticket, Responder::Run(tx))) };
        self.inbox.send(Box::new(envelope)).await.map_err(|_| PlaneError::not_live(&self.id))?;
        Ok(rx)
    }

    pub(crate) fn asks(&self) -> MutexGuard<'_, HashMap<RequestId, PendingAsk>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn task_tokens(&self) -> MutexGuard<'_, HashMap<TaskId, CancellationToken>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A fresh id of 128 bits that sorts by time.
pub(crate) fn fresh_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// A fresh run id.
pub(crate) fn run_id() -> RunId {
    RunId::from(fresh_id())
}
