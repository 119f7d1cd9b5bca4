//! The live map and the node's feed, behind one lock, so that markers mirror membership exactly.
//!
//! Invariants: a session is in the map exactly between its attached/created and detached markers; `detached` is its last
//! item; events are put on the feed only while somebody reads it. Clauses: S24–S26.

use super::{Entry, Marker, NodeItem, bell::Bell};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;
use triplane_protocol::SessionId;

/// Items that the feed keeps for its slowest reader. Past it, a reader is told how many it lost.
const FEED_ITEMS: usize = 8192;

/// Who is live, and what the node's readers are told of it.
#[derive(Debug)]
pub struct NodeFeed<L> {
    inner: Mutex<LiveMap<L>>,
    readers: AtomicUsize,
    bell: Arc<Bell>,
}

/// The live map with its feed; only ever seen under the lock.
#[derive(Debug)]
pub struct LiveMap<L> {
    /// Who is live.
    pub sessions: HashMap<SessionId, Arc<L>>,
    /// Whether nobody may come in any more.
    pub closed: bool,
    items: VecDeque<NodeItem>,
    next: u64,
    cap: usize,
}

impl<L> LiveMap<L> {
    fn push(&mut self, item: NodeItem) {
        if self.items.len() >= self.cap {
            self.items.pop_front();
        }
        self.items.push_back(item);
        self.next += 1;
    }

    fn first(&self) -> u64 {
        self.next - self.items.len() as u64
    }
}

impl<L> Default for NodeFeed<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> NodeFeed<L> {
    /// Nobody is live.
    pub fn new() -> Self {
        Self::capped(FEED_ITEMS)
    }

    /// The same with another bound on what is kept for the slowest reader.
    pub fn capped(cap: usize) -> Self {
        let map = LiveMap { sessions: HashMap::new(), closed: false, items: VecDeque::new(), next: 0, cap };
        Self { inner: Mutex::new(map), readers: AtomicUsize::new(0), bell: Bell::new() }
    }

    /// The live map, for a look or a change that needs no marker.
    pub fn map(&self) -> MutexGuard<'_, LiveMap<L>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Items that are kept for readers.
    pub fn held(&self) -> usize {
        self.map().items.len()
    }

    /// Changes the map and tells the feed in the same moment. `change` answers with the markers.
    pub fn change<T>(&self, change: impl FnOnce(&mut LiveMap<L>) -> (Vec<Marker>, T)) -> T {
        let mut map = self.map();
        let (markers, out) = change(&mut map);
        let told = !markers.is_empty() && self.readers.load(Ordering::Acquire) > 0;
        if told {
            markers.into_iter().for_each(|marker| map.push(NodeItem::Marker(marker)));
        }
        drop(map);
        if told {
            self.bell.ring(true);
        }
        out
    }

    /// Puts a session's events on the feed, if anybody reads it.
    pub fn events(&self, id: &SessionId, entries: &[Arc<Entry>]) {
        if self.readers.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut map = self.map();
        entries.iter().for_each(|entry| map.push(NodeItem::Event(id.clone(), entry.clone())));
        drop(map);
        self.bell.ring(entries.iter().any(|entry| !entry.streams()));
    }
}

/// What a [`NodeSubscription`] reads, whatever the live sessions are made of.
trait Source: Send + Sync {
    fn read(&self, position: u64, max: usize) -> (u64, Vec<NodeItem>);
    fn leave(&self);
}

impl<L: Send + Sync> Source for NodeFeed<L> {
    fn read(&self, position: u64, max: usize) -> (u64, Vec<NodeItem>) {
        let map = self.map();
        let first = map.first();
        let mut out = Vec::new();
        if position < first {
            out.push(NodeItem::Lagged { id: None, count: first - position });
        }
        let from = position.max(first);
        let skip = usize::try_from(from - first).unwrap_or(usize::MAX);
        out.extend(map.items.iter().skip(skip).take(max).cloned());
        let taken = map.items.len().saturating_sub(skip).min(max) as u64;
        (from + taken, out)
    }

    fn leave(&self) {
        // The last reader takes the backlog along.
        if self.readers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.map().items.clear();
        }
    }
}

/// A position in the node's feed.
pub struct NodeSubscription {
    source: Arc<dyn Source>,
    wake: watch::Receiver<()>,
    position: u64,
}

impl std::fmt::Debug for NodeSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeSubscription").field("position", &self.position).finish_non_exhaustive()
    }
}

impl NodeSubscription {
    /// A position at the end of `feed`, and what `look` sees in the map at that very moment.
    pub fn at_end<L: Send + Sync + 'static, T>(
        feed: &Arc<NodeFeed<L>>,
        look: impl FnOnce(&LiveMap<L>) -> T,
    ) -> (Self, T) {
        let map = feed.map();
        feed.readers.fetch_add(1, Ordering::AcqRel);
        let (position, seen) = (map.next, look(&map));
        drop(map);
        (Self { source: feed.clone(), wake: feed.bell.listen(), position }, seen)
    }

    /// The next items, at most `max`. Waits while there is none. Cancel safe.
    pub async fn next(&mut self, max: usize) -> Vec<NodeItem> {
        loop {
            self.wake.borrow_and_update();
            let items = self.try_next(max);
            if !items.is_empty() {
                return items;
            }
            if self.wake.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// What is there now, without waiting.
    pub fn try_next(&mut self, max: usize) -> Vec<NodeItem> {
        let (position, items) = self.source.read(self.position, max);
        self.position = position;
        items
    }
}

impl Drop for NodeSubscription {
    fn drop(&mut self) {
        self.source.leave();
    }
}
