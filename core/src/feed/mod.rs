//! Events: a ring read by cursor, the spool behind it, and the node's feed.

use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use triplane_protocol::{AgentEvent, SessionId, event::CloseReason};

/// How many framings may keep their bytes with an event.
pub const FRAMINGS: usize = 4;

/// One published event of a session. Its bytes are encoded at most once a framing, however many read it.
#[derive(Debug)]
pub struct Entry {
    /// Counts by one within the session, from 1.
    pub seq: u64,
    /// The fact.
    pub event: AgentEvent,
    framed: [OnceLock<Bytes>; FRAMINGS],
}

/// Which of an entry's slots a framing uses; each transport has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing(u8);

impl Framing {
    /// The framing of slot `slot`, below [`FRAMINGS`].
    pub const fn new(slot: u8) -> Self {
        assert!((slot as usize) < FRAMINGS);
        Self(slot)
    }
}

impl Entry {
    /// An entry that nobody has encoded yet.
    pub fn new(seq: u64, event: AgentEvent) -> Self {
        Self { seq, event, framed: Default::default() }
    }

    /// The event's bytes in `framing`; `encode` is called at most once for it.
    pub fn framed(&self, framing: Framing, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        match self.framed.get(usize::from(framing.0)) {
            Some(slot) => slot.get_or_init(|| encode(self)).clone(),
            None => encode(self),
        }
    }
}

/// Events that a reader will never get: all with `from <= seq <= to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// First lost.
    pub from: u64,
    /// Last lost.
    pub to: u64,
}

/// What one wake-up found: an optional gap, then entries in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// What was lost before the first entry.
    pub gap: Option<Gap>,
    /// In order, contiguous.
    pub entries: Vec<Arc<Entry>>,
}

/// A position in one session's log. Publishing never waits for it. Outlives unload and load of the session.
#[derive(Debug)]
pub struct Subscription {}

impl Subscription {
    /// The next events, at most `max` of them. Waits while there is none. Cancel safe: dropped, nothing is lost.
    pub async fn next(&mut self, _max: usize) -> Batch {
        std::future::pending().await
    }

    /// What is there now, without waiting; an empty batch if nothing is.
    pub fn try_next(&mut self, _max: usize) -> Batch {
        Batch::default()
    }

    /// The seq of the last entry that was handed out, or where it began.
    pub fn position(&self) -> u64 {
        0
    }

    /// The epoch of the session's seq space.
    pub fn epoch(&self) -> String {
        String::new()
    }

    /// Moves the position: what comes next has a seq above `after`. Ahead of the log, the next batch tells a gap
    /// and goes on live (H15).
    pub fn seek(&mut self, _after: u64) {}
}

/// A change of the live map. Clauses: S25, S26.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// A stored session went live.
    Attached {
        /// The session.
        id: SessionId,
        /// Its agent.
        agent: String,
    },
    /// A fresh session went live.
    Created {
        /// The session.
        id: SessionId,
        /// Its agent.
        agent: String,
        /// Its directory.
        cwd: String,
    },
    /// It left the live map; always its last word on the feed.
    Detached {
        /// The session.
        id: SessionId,
        /// Its agent.
        agent: String,
        /// Why.
        reason: CloseReason,
    },
    /// It was deleted from its store.
    Deleted {
        /// The session.
        id: SessionId,
        /// Its agent.
        agent: String,
    },
}

/// One thing on the node's feed.
#[derive(Debug, Clone)]
pub enum NodeItem {
    /// The live map changed.
    Marker(Marker),
    /// A live session published.
    Event(SessionId, Arc<Entry>),
    /// This reader fell behind and lost `count` things, of one session or (`None`) of the feed itself.
    Lagged {
        /// Whose events were lost.
        id: Option<SessionId>,
        /// How many.
        count: u64,
    },
}

/// A position in the node's feed.
#[derive(Debug)]
pub struct NodeSubscription {}

impl NodeSubscription {
    /// The next items, at most `max`. Waits while there is none. Cancel safe.
    pub async fn next(&mut self, _max: usize) -> Vec<NodeItem> {
        std::future::pending().await
    }
}
