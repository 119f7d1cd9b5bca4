//! What the JSON-RPC transports share: from one message's text to its reply's bytes, and the queues in between.
//! Invariant: each request gets one reply, each notification none, a batch one array in the order of its items; a panic
//! in a handler is an `internal` reply. Knows no socket and no method. Clauses: C02, C05, L18, L19.
//!
//! A transport reads a message, calls [`Peer::take`] in the order of arrival (this takes the places in the queues, and
//! runs nothing), runs the [`Work`] wherever it likes, sends [`Answer::bytes`], and then calls [`Answer::sent`].

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use serde_json::value::RawValue;
use std::{
    collections::{HashMap, HashSet},
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    ErrorCode, Failure,
    jsonrpc::{self, BATCH_REPLY_BYTES, Id, Incoming, Item, Request},
    table::{Queue, Row},
};

/// What a wire supplies. One value serves one connection.
pub trait Wire: Send + Sync + 'static {
    /// The wire's closed list of methods.
    type Method: Copy + Send + 'static;

    /// The method of this name, and its row; `None` is answered with `-32601`.
    fn lookup(&self, name: &str) -> Option<(Self::Method, &'static Row)>;

    /// What a request of a row with a queue waits behind. `None`: it names nothing, and does not wait.
    fn key(&self, method: Self::Method, params: Option<&str>) -> Option<String>;

    /// Whether a call may last until the client sends something more (a prompt waits for permissions), so that reading
    /// must not wait for it.
    fn lasts(&self, method: Self::Method) -> bool;

    /// Whether a cancel may reach a call that still waits in its queue; see [`SessionQueues::cancel_waiting`].
    fn arms(&self, _method: Self::Method) -> bool {
        false
    }

    /// Runs one call to its end. Dropped midway when the connection goes.
    fn call(
        self: Arc<Self>,
        method: Self::Method,
        call: Call,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + 'static;
}

/// One call, when its turn has come.
#[derive(Debug)]
pub struct Call {
    /// Raw text of the params.
    pub params: Option<Box<str>>,
    /// Fires when somebody cancels it before it has [begun](Armed::begun).
    pub armed: Armed,
    /// What keeps the next call of a [`Queue::Start`] from starting.
    pub turn: Turn,
}

/// A call's turn to start; over when it is dropped, or [passed on](Turn::pass_on).
#[derive(Default)]
pub struct Turn(Mutex<Option<Box<Place>>>);

impl Turn {
    /// Lets the next call of the session start, though this one has not ended.
    pub fn pass_on(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turn")
    }
}

/// A result, and what is to be done once its reply is on its way.
pub struct Reply {
    /// The result as JSON.
    pub result: Box<RawValue>,
    /// Runs after the reply was handed over, and before anything else is: a subscription starts here.
    pub then: Option<Then>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("result", &self.result).field("then", &self.then.is_some()).finish()
    }
}

/// Something to be done after a reply was handed over.
pub type Then = Box<dyn FnOnce() + Send>;

impl From<Box<RawValue>> for Reply {
    fn from(result: Box<RawValue>) -> Self {
        Self { result, then: None }
    }
}

/// The dispatcher of one connection.
#[derive(Debug)]
pub struct Peer<W> {
    wire: Arc<W>,
    queues: SessionQueues,
}

/// What a message asks for; its places in the queues are taken.
pub struct Work<W: Wire>(Kind<W>);

enum Kind<W: Wire> {
    Ready(Bytes),
    Single(Job<W>),
    Batch(Vec<Planned<W>>),
}

enum Planned<W: Wire> {
    Ready(Vec<u8>),
    Job(Job<W>),
}

struct Job<W: Wire> {
    wire: Arc<W>,
    id: Option<Id>,
    method: W::Method,
    call: Call,
    place: Option<Box<Place>>,
    queue: Queue,
    /// Whether the place is held until the reply is on its way; not if a later item of the same batch waits behind it,
    /// and never in a queue of starts.
    holds: bool,
    lasts: bool,
}

/// The reply to one message.
#[must_use]
#[derive(Default)]
pub struct Answer {
    /// What is to be sent; `None`: nothing.
    pub bytes: Option<Bytes>,
    then: Vec<Then>,
    /// Held until the reply is on its way, so that replies of one session come in order.
    places: Vec<Place>,
}

impl Answer {
    /// To be called once `bytes` were handed over in the order in which they will be sent.
    pub fn sent(self) {
        for then in self.then {
            then();
        }
        drop(self.places);
    }
}

impl<W: Wire> Peer<W> {
    /// The dispatcher of one connection; `queues` is shared with the wire's own calls that go past them.
    pub fn new(wire: Arc<W>, queues: SessionQueues) -> Self {
        Self { wire, queues }
    }

    /// Reads one message. Call it in the order of arrival. `None`: there is nothing to do.
    pub fn take(&self, text: &str) -> Option<Work<W>> {
        let kind = match jsonrpc::parse(text) {
            Incoming::Single(item) => match self.plan(item)? {
                Planned::Ready(reply) => Kind::Ready(reply.into()),
                Planned::Job(job) => Kind::Single(job),
            },
            Incoming::Batch(items) => {
                let mut plan: Vec<_> = items.into_iter().filter_map(|item| self.plan(item)).collect();
                if plan.is_empty() {
                    return None;
                }
                let mut seen = HashSet::new();
                for item in plan.iter_mut().rev() {
                    if let Planned::Job(Job { place: Some(place), queue: Queue::BySession, holds, .. }) = item {
                        *holds = seen.insert(place.key.clone());
                    }
                }
                Kind::Batch(plan)
            }
        };
        Some(Work(kind))
    }

    fn plan(&self, item: Item<'_>) -> Option<Planned<W>> {
        let Request { id, method: name, params } = match item {
            Item::Request(request) => request,
            Item::Invalid(reply) => return Some(Planned::Ready(reply)),
            Item::Ignored => {
                tracing::debug!("a response or a faulty notification was ignored");
                return None;
            }
        };
        let Some((method, row)) = self.wire.lookup(&name) else {
            return id.map(|id| Planned::Ready(jsonrpc::method_not_found(&id, &name)));
        };
        let armed = Armed::default();
        let key = match row.queue {
            Queue::None => None,
            Queue::BySession | Queue::Start => self.wire.key(method, params),
        };
        let lasts = (row.queue == Queue::BySession && key.is_some()) || self.wire.lasts(method);
        let cancellable = self.wire.arms(method).then(|| armed.clone());
        let place = match key.map(|key| self.queues.enter(key, cancellable)).transpose() {
            Ok(place) => place,
            Err(failure) => return id.map(|id| Planned::Ready(jsonrpc::error(Some(&id), &failure, None))),
        };
        let call = Call { params: params.map(Into::into), armed, turn: Turn::default() };
        let (wire, queue) = (self.wire.clone(), row.queue);
        Some(Planned::Job(Job { wire, id, method, call, place, queue, holds: queue == Queue::BySession, lasts }))
    }
}

impl<W: Wire> Work<W> {
    /// Whether some part of it may last until the client sends something more; reading must not wait for it.
    pub fn lasts(&self) -> bool {
        match &self.0 {
            Kind::Ready(_) => false,
            Kind::Single(job) => job.lasts,
            Kind::Batch(plan) => plan.iter().any(|item| matches!(item, Planned::Job(job) if job.lasts)),
        }
    }

    /// Answers everything in it with the same failure, and runs nothing.
    pub fn refuse(self, failure: &Failure) -> Answer {
        let refuse = |job: Job<W>| job.id.map(|id| jsonrpc::error(Some(&id), failure, None));
        let bytes = match self.0 {
            Kind::Ready(bytes) => Some(bytes),
            Kind::Single(job) => refuse(job).map(Bytes::from),
            Kind::Batch(plan) => array(plan.into_iter().filter_map(|item| match item {
                Planned::Ready(reply) => Some(reply),
                Planned::Job(job) => refuse(job),
            })),
        };
        Answer { bytes, ..Answer::default() }
    }

    /// Runs it to its end. Dropped midway, its calls are dropped and its places in the queues are free.
    pub async fn run(self) -> Answer {
        match self.0 {
            Kind::Ready(bytes) => Answer { bytes: Some(bytes), ..Answer::default() },
            Kind::Single(job) => {
                let Done { reply, then, place } = job.run().await;
                Answer {
                    bytes: reply.map(Bytes::from),
                    then: then.into_iter().collect(),
                    places: place.into_iter().map(|place| *place).collect(),
                }
            }
            Kind::Batch(plan) => run_batch(plan).await,
        }
    }
}

/// Runs the items beside each other (each in its own queue) and puts their replies in order. Replies past
/// [`BATCH_REPLY_BYTES`] give way to a `too_large` each; their calls have run.
async fn run_batch<W: Wire>(plan: Vec<Planned<W>>) -> Answer {
    let mut replies: Vec<Option<Vec<u8>>> = Vec::with_capacity(plan.len());
    let mut running = FuturesUnordered::new();
    let mut total = 0;
    for (index, item) in plan.into_iter().enumerate() {
        match item {
            Planned::Ready(reply) => {
                total += reply.len();
                replies.push(Some(reply));
            }
            Planned::Job(job) => {
                replies.push(None);
                running.push(async move { (index, job.id.clone(), job.run().await) });
            }
        }
    }
    let mut answer = Answer::default();
    while let Some((index, id, Done { reply, then, place })) = running.next().await {
        let reply = match (reply, id) {
            (Some(reply), Some(id)) if total + reply.len() > BATCH_REPLY_BYTES => {
                let message =
                    format!("the replies to a batch have at most {BATCH_REPLY_BYTES} bytes; ask for this one alone");
                Some(jsonrpc::error(Some(&id), &Failure::new(ErrorCode::TooLarge, message), None))
            }
            (reply, _) => reply,
        };
        total += reply.as_ref().map_or(0, Vec::len);
        if let Some(slot) = replies.get_mut(index) {
            *slot = reply;
        }
        answer.then.extend(then);
        answer.places.extend(place.map(|place| *place));
    }
    answer.bytes = array(replies.into_iter().flatten());
    answer
}

/// A JSON array of `replies`; `None` when there are none.
fn array(replies: impl Iterator<Item = Vec<u8>>) -> Option<Bytes> {
    let mut out = Vec::new();
    for reply in replies {
        out.push(if out.is_empty() { b'[' } else { b',' });
        out.extend_from_slice(&reply);
    }
    if out.is_empty() {
        return None;
    }
    out.push(b']');
    Some(out.into())
}

struct Done {
    reply: Option<Vec<u8>>,
    then: Option<Then>,
    place: Option<Box<Place>>,
}

impl<W: Wire> Job<W> {
    async fn run(self) -> Done {
        let Self { wire, id, method, mut call, mut place, queue, holds, lasts: _ } = self;
        if let Some(place) = &mut place {
            place.turn().await;
        }
        if queue == Queue::Start {
            call.turn = Turn(Mutex::new(place.take()));
        }
        let outcome = if call.armed.is_cancelled() {
            Err(Failure::new(ErrorCode::Cancelled, "cancelled before it began"))
        } else {
            // A handler's state is behind the plane's own invariants; a panic is told and the connection goes on.
            let called = AssertUnwindSafe(async move { wire.call(method, call).await }).catch_unwind().await;
            called.unwrap_or_else(|_| {
                tracing::error!("a handler panicked");
                Err(Failure::new(ErrorCode::Internal, "this call failed on our side; the log has the cause"))
            })
        };
        let (reply, then) = match (outcome, id) {
            (Ok(Reply { result, then }), Some(id)) => (Some(jsonrpc::result(&id, result.get())), then),
            (Ok(Reply { then, .. }), None) => (None, then),
            (Err(failure), Some(id)) => (Some(jsonrpc::error(Some(&id), &failure, None)), None),
            (Err(failure), None) => {
                tracing::debug!(%failure, "a notification failed");
                (None, None)
            }
        };
        Done { reply, then, place: place.filter(|_| holds) }
    }
}

/// First in, first out for each key of one connection. Bounded: a request over the bound is refused with `overloaded`.
#[derive(Debug, Clone)]
pub struct SessionQueues {
    lines: Arc<Mutex<HashMap<String, Line>>>,
    bound: usize,
}

#[derive(Debug)]
struct Line {
    /// One permit; tokio's semaphore is fair, so it is the queue.
    turn: Arc<Semaphore>,
    /// How many are in line, the one at work included.
    length: usize,
    /// Those in line that a cancel may reach.
    armed: Vec<Armed>,
}

/// Tells a request that somebody cancelled it while it waited. Made when it is first looked at: most requests never do.
#[derive(Debug, Default)]
pub struct Armed(OnceLock<Arc<Arm>>);

#[derive(Debug, Default)]
struct Arm {
    token: CancellationToken,
    begun: AtomicBool,
}

impl Clone for Armed {
    fn clone(&self) -> Self {
        Self(OnceLock::from(self.arm().clone()))
    }
}

impl Armed {
    /// Fires on cancel.
    pub fn token(&self) -> &CancellationToken {
        &self.arm().token
    }

    /// Its run has begun: from now on a cancel goes to the run.
    pub fn begun(&self) {
        self.arm().begun.store(true, Ordering::Release);
    }

    fn arm(&self) -> &Arc<Arm> {
        self.0.get_or_init(Arc::default)
    }

    fn is_cancelled(&self) -> bool {
        self.0.get().is_some_and(|arm| arm.token.is_cancelled())
    }
}

/// A place in a line; dropped, the next one's turn comes.
struct Place {
    queues: SessionQueues,
    key: String,
    armed: Option<Armed>,
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl SessionQueues {
    /// Queues that hold `bound` requests each, the one at work included.
    pub fn new(bound: usize) -> Self {
        Self { lines: Arc::default(), bound }
    }

    /// Fires the token of every request of `key` that can be cancelled ([`Wire::arms`]) and has not
    /// [begun](Armed::begun); how many those were.
    pub fn cancel_waiting(&self, key: &str) -> usize {
        let lines = self.lock();
        let Some(line) = lines.get(key) else { return 0 };
        let waits = |armed: &&Armed| !armed.arm().begun.load(Ordering::Acquire) && !armed.is_cancelled();
        line.armed.iter().filter(waits).map(|armed| armed.token().cancel()).count()
    }

    fn enter(&self, key: String, armed: Option<Armed>) -> Result<Box<Place>, Failure> {
        let mut lines = self.lock();
        let line = lines.entry(key.clone()).or_insert_with(|| Line {
            turn: Arc::new(Semaphore::new(1)),
            length: 0,
            armed: Vec::new(),
        });
        if line.length >= self.bound {
            let message = format!("{} requests wait for this session already", self.bound);
            return Err(Failure::new(ErrorCode::Overloaded, message));
        }
        line.length += 1;
        line.armed.extend(armed.clone());
        let mut turn = Box::pin(line.turn.clone().acquire_owned().map(Result::ok));
        // The first poll takes the place in the line.
        let permit = (&mut turn).now_or_never().flatten();
        let waiting = if permit.is_none() { Some(turn as Pin<Box<_>>) } else { None };
        Ok(Box::new(Place { queues: self.clone(), key, armed, waiting, permit }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    async fn turn(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            self.permit = waiting.await;
            self.waiting = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.queues.lock();
        let Some(line) = lines.get_mut(&self.key) else { return };
        if let Some(mine) = &self.armed {
            line.armed.retain(|armed| !Arc::ptr_eq(armed.arm(), mine.arm()));
        }
        line.length = line.length.saturating_sub(1);
        if line.length == 0 {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
#[path = "rpc_tests.rs"]
mod tests;
