//! The one loop that reads, answers and writes, and how it ends.
//!
//! Invariants: reading never waits for a call that may wait for the client; it does wait while calls that end by themselves
//! fill their budget, and while too much output waits. Replies to the lines of one read are written together. At the
//! end every request that was begun is answered, every `detached` is handed in, and only then the outbox is closed.
//! Clauses: S01, S30, C05, C09, C14.

use crate::{
    Ended, StdioConfig,
    forward::Readers,
    lines::{Line, Lines},
    outbox::{Outbox, WRITE_BYTES},
};
use futures_util::FutureExt;
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::rpc::{Answer, Peer, SessionQueues, Work};
use triplane_core::{
    Plane, PlaneError,
    plane::{Hold, HoldPolicy},
};
use triplane_protocol::{ErrorCode, Failure, SessionId, jsonrpc};

/// Writes in a row before input has its turn again.
const WRITES: usize = 4;

/// Bytes of a request's text that cost one more unit of its budget.
const UNIT_BYTES: usize = 64 << 10;

/// What the calls of the connection share.
pub(crate) struct Client {
    pub(crate) plane: Plane,
    pub(crate) config: StdioConfig,
    pub(crate) hold: Hold,
    pub(crate) outbox: Arc<Outbox>,
    /// Fires when a client asked for the end.
    pub(crate) end: CancellationToken,
    /// Fires when the plane is down: forwarders hand in what is there and end.
    pub(crate) drain: CancellationToken,
    /// Owns the forwarders.
    pub(crate) forwards: TaskTracker,
    subscriptions: Arc<Semaphore>,
    /// Each session's forwarders.
    followed: Mutex<HashMap<SessionId, Followed>>,
    /// Forwarders of the node's feed.
    pub(crate) node_readers: Arc<AtomicUsize>,
}

/// The forwarders of one session.
#[derive(Default)]
struct Followed {
    readers: Arc<()>,
    /// How far each is.
    progress: Vec<watch::Receiver<u64>>,
}

impl Client {
    /// A place for one more subscription. Errors: `Overloaded`.
    pub(crate) fn subscription(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.subscriptions.clone().try_acquire_owned().map_err(|_| {
            let most = self.config.limits.subscriptions;
            Failure::new(
                ErrorCode::Overloaded,
                format!("this connection has {most} subscriptions; detach some sessions"),
            )
        })
    }

    /// Remembers a forwarder of `id`; who reads beside it.
    pub(crate) fn follows(&self, id: &SessionId, progress: watch::Receiver<u64>) -> Readers {
        let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        // A forwarder that has ended has dropped its sender.
        all.retain(|_, followed| {
            followed.progress.retain(|forward| forward.has_changed().is_ok());
            !followed.progress.is_empty()
        });
        let followed = all.entry(id.clone()).or_default();
        followed.progress.push(progress);
        Readers { session: followed.readers.clone(), node: self.node_readers.clone() }
    }

    /// Waits until every forwarder of `id` has handed in what there is up to `seq`, or has ended.
    pub(crate) async fn told(&self, id: &SessionId, seq: u64) {
        let forwards = {
            let all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(id).map(|followed| followed.progress.clone()).unwrap_or_default()
        };
        for mut forward in forwards {
            let _ended = forward.wait_for(|told| *told >= seq).await;
        }
    }
}

/// Stdin and stdout, or any pair of byte streams, as one connection.
pub(crate) struct Connection<R, W> {
    client: Arc<Client>,
    peer: Peer<Client>,
    lines: Lines<R>,
    input_ended: bool,
    output: Output<W>,
    /// Owns the calls at work.
    calls: TaskTracker,
    short: Arc<Semaphore>,
    lasting: Arc<Semaphore>,
    /// A request for which the budget of short calls has no room yet, and its cost.
    parked: Option<(Work<Client>, u32)>,
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    pub(crate) fn new(plane: Plane, config: StdioConfig, reader: R, writer: W) -> Self {
        let limits = config.limits.clone();
        let hold = plane.hold(HoldPolicy {
            name: "stdio",
            cap: None,
            idle_ttl: config.idle_ttl,
            sweep: Some(config.sweep),
            answers: true,
        });
        let outbox = Arc::new(Outbox::new(limits.reply_bytes, limits.event_bytes));
        let client = Arc::new(Client {
            plane,
            config,
            hold,
            outbox: outbox.clone(),
            end: CancellationToken::new(),
            drain: CancellationToken::new(),
            forwards: TaskTracker::new(),
            subscriptions: Arc::new(Semaphore::new(limits.subscriptions)),
            followed: Mutex::default(),
            node_readers: Arc::default(),
        });
        let permits = |units: u32| Arc::new(Semaphore::new(usize::try_from(units).unwrap_or(usize::MAX)));
        Self {
            peer: Peer::new(client.clone(), SessionQueues::new(limits.line_calls)),
            client,
            lines: Lines::new(reader, limits.line_bytes),
            input_ended: false,
            output: Output { writer, outbox, bytes: Vec::with_capacity(WRITE_BYTES), at: 0, flushed: true },
            calls: TaskTracker::new(),
            short: permits(limits.calls),
            lasting: permits(limits.lasting_calls),
            parked: None,
        }
    }

    /// Serves until the end, and ends in order.
    pub(crate) async fn serve(mut self, stop: CancellationToken) -> Ended {
        let ended = self.talk(&stop).await;
        tracing::info!(?ended, "the stdio wire ends");
        self.finish(ended).await;
        ended
    }

    async fn talk(&mut self, stop: &CancellationToken) -> Ended {
        loop {
            let idle = self.answer_lines();
            if self.client.end.is_cancelled() {
                return Ended::Shutdown;
            }
            if idle && self.input_ended {
                return Ended::Eof;
            }
            // What can be written at once is, without asking everything else first.
            for _ in 0..WRITES {
                match self.output.step().now_or_never() {
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        tracing::info!(%error, "nobody reads stdout");
                        return Ended::Broken;
                    }
                    None => break,
                }
            }
            let reads = idle && !self.input_ended;
            let cost = self.parked.as_ref().map_or(0, |(_, cost)| *cost);
            let short = self.short.clone();
            // Not biased: neither a flood of input nor one of events may starve the other.
            tokio::select! {
                () = stop.cancelled() => return Ended::Stopped,
                () = self.client.end.cancelled() => return Ended::Shutdown,
                // Cancel safe: a write that was dropped has written nothing.
                written = self.output.step() => if let Err(error) = written {
                    tracing::info!(%error, "nobody reads stdout");
                    return Ended::Broken;
                },
                more = self.lines.fill(), if reads => match more {
                    Ok(more) => self.input_ended = !more,
                    Err(error) => {
                        tracing::warn!(%error, "stdin cannot be read; taken for its end");
                        self.input_ended = true;
                    }
                },
                Ok(permit) = short.acquire_many_owned(cost), if cost > 0 => {
                    if let Some((work, _)) = self.parked.take() {
                        self.start(work, permit);
                    }
                },
            }
        }
    }

    /// Answers the lines that are here. `false`: some are left, until there is room for their calls or their replies.
    fn answer_lines(&mut self) -> bool {
        while self.parked.is_none() {
            if self.client.outbox.crowded() {
                return false;
            }
            let Some(line) = self.lines.next() else { return true };
            let (text, cost) = match line {
                Line::TooLong => {
                    self.client.outbox.push(jsonrpc::too_long(self.client.config.limits.line_bytes).into());
                    continue;
                }
                Line::Bytes(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Bytes(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => (text, cost(text)),
                    Err(_) => {
                        self.client.outbox.push(jsonrpc::not_utf8().into());
                        continue;
                    }
                },
            };
            if let Some(work) = self.peer.take(text) {
                self.admit(work, cost);
            }
            if self.client.end.is_cancelled() {
                return true;
            }
        }
        false
    }

    /// Starts a call, parks it, or refuses it.
    fn admit(&mut self, work: Work<Client>, cost: u32) {
        let limits = &self.client.config.limits;
        if work.lasts() {
            match self.lasting.clone().try_acquire_many_owned(cost.min(limits.lasting_calls)) {
                Ok(permit) => self.start(work, permit),
                Err(_) => {
                    let failure =
                        Failure::new(ErrorCode::Overloaded, "too many prompts are at work on this connection");
                    hand_in(&self.client.outbox, work.refuse(&failure));
                }
            }
            return;
        }
        let cost = cost.min(limits.calls);
        match self.short.clone().try_acquire_many_owned(cost) {
            Ok(permit) => self.start(work, permit),
            Err(_) => self.parked = Some((work, cost)),
        }
    }

    /// Runs a call here as far as it goes at once, and the rest of it beside the loop.
    fn start(&mut self, work: Work<Client>, permit: OwnedSemaphorePermit) {
        let mut run = Box::pin(work.run());
        if let Some(answer) = (&mut run).now_or_never() {
            hand_in(&self.client.outbox, answer);
            return;
        }
        let outbox = self.client.outbox.clone();
        self.calls.spawn(async move {
            let mut answer = run.await;
            if let Some(bytes) = answer.bytes.take() {
                outbox.reply(bytes).await;
            }
            answer.sent();
            drop(permit);
        });
    }

    /// Shuts the plane down, answers what is at work, and writes all of it.
    async fn finish(self, ended: Ended) {
        let Self { client, mut output, calls, short, parked, lines, .. } = self;
        drop(lines);
        if ended == Ended::Broken {
            client.outbox.close();
        }
        if let Some((work, _)) = parked {
            hand_in(&client.outbox, work.refuse(&PlaneError::Closing.into()));
        }
        let closing = async {
            let began = Instant::now();
            let grace = client.config.grace;
            // What ends by itself is let to, before it would be told that the plane is closing.
            let all = client.config.limits.calls;
            let _late = timeout(grace, short.acquire_many(all)).await;
            client.plane.shutdown(grace.saturating_sub(began.elapsed())).await;
            calls.close();
            client.forwards.close();
            let drain = client.config.limits.drain;
            let _late = timeout(drain, calls.wait()).await;
            client.drain.cancel();
            let _late = timeout(drain, client.forwards.wait()).await;
        };
        let pump = async { while output.step().await.is_ok() {} };
        // Either all is handed in, or nobody takes it any more: then what is left to hand in is dropped.
        let mut closing = std::pin::pin!(closing);
        tokio::select! {
            () = &mut closing => {}
            () = pump => {
                client.outbox.close();
                closing.await;
            }
        }
        while output.waits() {
            match timeout(client.config.limits.drain, output.step()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        client.outbox.close();
    }
}

/// Units of a budget that a request of this text takes.
fn cost(text: &str) -> u32 {
    u32::try_from(1 + text.len() / UNIT_BYTES).unwrap_or(u32::MAX)
}

/// Hands in an answer at once, and lets what follows it begin.
fn hand_in(outbox: &Outbox, mut answer: Answer) {
    if let Some(bytes) = answer.bytes.take() {
        outbox.push(bytes);
    }
    answer.sent();
}

/// The writing half.
struct Output<W> {
    writer: W,
    outbox: Arc<Outbox>,
    /// Taken from the outbox; what is before `at` is written.
    bytes: Vec<u8>,
    at: usize,
    flushed: bool,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    /// Writes a piece, or flushes, or waits for something to write. Cancel safe. Errors: nobody reads.
    async fn step(&mut self) -> io::Result<()> {
        if self.at == self.bytes.len() {
            self.refill();
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.is_empty() {
            let written = self.writer.write(rest).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.at += written;
            self.flushed = false;
        } else if !self.flushed {
            self.writer.flush().await?;
            self.flushed = true;
        } else {
            self.outbox.readable().await;
        }
        Ok(())
    }

    fn refill(&mut self) {
        self.bytes.clear();
        self.at = 0;
        self.outbox.take(&mut self.bytes);
    }

    /// Whether something is left to write or to flush.
    fn waits(&mut self) -> bool {
        if self.at == self.bytes.len() {
            self.refill();
        }
        !self.bytes.is_empty() || !self.flushed
    }
}
