//! Subscriptions: one task each pulls from the feed and hands lines to the outbox.
//! Invariants: publishing never waits for a reader; what a reader does not get it is told exactly, where it is missing; a
//! session's forwarder ends with `sessionClosed`. Clauses: S22–S26, C14.

use crate::outbox::{Outbox, WRITE_BYTES};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use triplane_common::framing::NDJSON;
use triplane_core::feed::{Batch, Entry, Marker, NodeItem, NodeSubscription, Subscription};
use triplane_protocol::{
    AgentEvent, SessionId,
    sepia::{self, NodeEvent},
};

/// Events that a stalled reader may be behind. Clause: S23.
const WINDOW: u64 = 512;
/// A reader that takes what it is given within this time has not stalled, however large the burst is.
const STALL: Duration = Duration::from_millis(250);
/// Bytes of a usual event.
const EVENT_BYTES: usize = 256;
/// Items of the node's feed that are handed in together.
const NODE_BATCH: usize = 64;

/// What a session's forwarder reads: [`Subscription`], or a made-up one in tests.
pub(crate) trait Cursor: Send + 'static {
    fn next(&mut self, max: usize) -> impl Future<Output = Batch> + Send;
    fn try_next(&mut self, max: usize) -> Batch;
    fn position(&self) -> u64;
    fn last(&self) -> u64;
    fn seek(&mut self, after: u64);
}

impl Cursor for Subscription {
    fn next(&mut self, max: usize) -> impl Future<Output = Batch> + Send {
        self.next(max)
    }

    fn try_next(&mut self, max: usize) -> Batch {
        self.try_next(max)
    }

    fn position(&self) -> u64 {
        self.position()
    }

    fn last(&self) -> u64 {
        self.last()
    }

    fn seek(&mut self, after: u64) {
        self.seek(after);
    }
}

/// Who else reads what a session's forwarder does. Events that nobody else reads are written straight into their line; those
/// that somebody does are encoded once for all.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Held by the connection, and by each forwarder of the session.
    pub(crate) session: Arc<()>,
    /// Forwarders of the node's feed.
    pub(crate) node: Arc<AtomicUsize>,
}

impl Readers {
    fn is_one(&self) -> bool {
        Arc::strong_count(&self.session) <= 2 && self.node.load(Ordering::Relaxed) == 0
    }
}

/// One subscription to a session.
pub(crate) struct SessionForward<C> {
    id: SessionId,
    cursor: C,
    /// The last seq that was handed in, or told as lost.
    told: watch::Sender<u64>,
    readers: Readers,
    outbox: Arc<Outbox>,
    /// Fires when the plane is down: what is there is handed in, and that is all.
    drain: CancellationToken,
}

impl<C: Cursor> SessionForward<C> {
    /// A forwarder that stands at the cursor's position, and a way to see how far it is.
    pub(crate) fn new(
        id: SessionId,
        cursor: C,
        outbox: Arc<Outbox>,
        drain: CancellationToken,
    ) -> (Self, watch::Receiver<u64>) {
        let (told, progress) = watch::channel(cursor.position());
        (Self { id, cursor, told, readers: Readers::default(), outbox, drain }, progress)
    }

    /// The same, beside other readers.
    pub(crate) fn among(self, readers: Readers) -> Self {
        Self { readers, ..self }
    }

    /// Forwards until the session is closed, the outbox is, or the plane is down.
    pub(crate) async fn run(mut self) {
        // Taken from the log and not handed in yet.
        let mut hand: VecDeque<Arc<Entry>> = VecDeque::new();
        loop {
            if hand.is_empty() {
                let Some(batch) = self.pull().await else { return };
                if let Some(gap) = batch.gap {
                    self.lost(gap.to);
                }
                hand.extend(batch.entries);
                if hand.is_empty() {
                    continue;
                }
            }
            let began = Instant::now();
            if !self.outbox.event_room().await {
                return;
            }
            if began.elapsed() >= STALL && self.trim(&mut hand) {
                return;
            }
            if self.hand_in(&mut hand) {
                return;
            }
        }
    }

    async fn pull(&mut self) -> Option<Batch> {
        let max = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        tokio::select! {
            biased;
            batch = self.cursor.next(max) => Some(batch),
            () = self.drain.cancelled() => {
                let rest = self.cursor.try_next(max);
                if rest.is_empty() { None } else { Some(rest) }
            }
        }
    }

    /// Lets go of what is more than the window behind. `true`: the session's end was among it.
    fn trim(&mut self, hand: &mut VecDeque<Arc<Entry>>) -> bool {
        let upto = self.cursor.last().saturating_sub(WINDOW);
        if upto <= *self.told.borrow() {
            return false;
        }
        let mut closed = false;
        while let Some(entry) = hand.pop_front_if(|entry| entry.seq <= upto) {
            closed |= ends(&entry);
        }
        if hand.is_empty() && self.cursor.position() < upto {
            self.cursor.seek(upto);
        }
        self.lost(upto);
        closed
    }

    fn lost(&mut self, upto: u64) {
        let lost = upto.saturating_sub(*self.told.borrow());
        if lost > 0 {
            self.outbox.push(sepia::session_lagged(&self.id, lost).into());
            self.told.send_replace(upto);
        }
    }

    /// Hands in one line. `true`: it has the session's end.
    fn hand_in(&mut self, hand: &mut VecDeque<Arc<Entry>>) -> bool {
        let one = self.readers.is_one();
        let about = hand.len().saturating_mul(EVENT_BYTES).min(WRITE_BYTES + EVENT_BYTES);
        let mut line = sepia::EventLine::of_session(&self.id, about);
        let (mut last, mut closed) = (None, false);
        while let Some(entry) = hand.pop_front() {
            match one {
                true => line.encode(entry.seq, &entry.event),
                false => line.push(&encoded(&entry)),
            }
            (last, closed) = (Some(entry.seq), ends(&entry));
            if closed || line.bytes() >= WRITE_BYTES {
                break;
            }
        }
        if let Some(last) = last {
            self.outbox.push(line.finish().into());
            self.told.send_replace(last);
        }
        closed
    }
}

fn ends(entry: &Entry) -> bool {
    matches!(entry.event, AgentEvent::SessionClosed { .. })
}

fn encoded(entry: &Entry) -> Bytes {
    entry.framed(NDJSON, |entry| sepia::encode(entry.seq, &entry.event).into())
}

/// Forwards the node's feed until the outbox is closed or the plane is down. The feed itself tells what a slow reader lost.
pub(crate) async fn node(mut feed: NodeSubscription, outbox: Arc<Outbox>, drain: CancellationToken) {
    while outbox.event_room().await {
        let items = tokio::select! {
            biased;
            items = feed.next(NODE_BATCH) => items,
            () = drain.cancelled() => feed.try_next(NODE_BATCH),
        };
        if items.is_empty() {
            return;
        }
        node_lines(&items, |line| outbox.push(line.into()));
    }
}

/// A line for each item; events of one session that stand together share one.
fn node_lines(items: &[NodeItem], mut push: impl FnMut(Vec<u8>)) {
    let mut run: Option<(&SessionId, Vec<Bytes>)> = None;
    for item in items {
        if let NodeItem::Event(id, entry) = item {
            match &mut run {
                Some((same, events)) if *same == id => events.push(encoded(entry)),
                _ => {
                    if let Some((id, events)) = run.replace((id, vec![encoded(entry)])) {
                        push(sepia::node_session_events(id, &events));
                    }
                }
            }
            continue;
        }
        if let Some((id, events)) = run.take() {
            push(sepia::node_session_events(id, &events));
        }
        if let Some(event) = node_event(item) {
            push(sepia::node_event(&event));
        }
    }
    if let Some((id, events)) = run {
        push(sepia::node_session_events(id, &events));
    }
}

fn node_event(item: &NodeItem) -> Option<NodeEvent<'_>> {
    Some(match item {
        NodeItem::Marker(Marker::Attached { id, agent }) => NodeEvent::Attached { session_id: id, agent_id: agent },
        NodeItem::Marker(Marker::Created { id, agent, cwd }) => {
            NodeEvent::Created { session_id: id, agent_id: agent, cwd }
        }
        NodeItem::Marker(Marker::Detached { id, agent, reason }) => {
            NodeEvent::Detached { session_id: id, agent_id: agent, reason: *reason }
        }
        NodeItem::Marker(Marker::Deleted { id, agent }) => NodeEvent::Deleted { session_id: id, agent_id: agent },
        NodeItem::Lagged { id, count } => NodeEvent::Lagged { session_id: id.as_ref(), count: *count },
        NodeItem::Event(..) => return None,
    })
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
