//! Events: a ring read by cursor, the spool behind it, and the node's feed; a bell that wakes their readers.

mod bell;
mod log;
mod node;

pub use log::{Log, Past, Subscription};
pub use node::{LiveMap, NodeFeed, NodeSubscription};

use bytes::{Bytes, BytesMut};
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
    /// The fact as one JSON object, encoded once; what every framing is built around.
    pub json: Bytes,
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
        let json = serde_json::to_vec(&event).unwrap_or_else(|error| {
            tracing::error!(%error, seq, "an event could not be encoded");
            b"{}".to_vec()
        });
        Self { seq, event, json: json.into(), framed: Default::default() }
    }

    /// An entry from its line in the spool.
    pub(crate) fn from_line(seq: u64, line: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self::new(seq, serde_json::from_slice(line)?))
    }

    /// Whether it is a piece of a stream, whose reader loses nothing by seeing it a moment later together with the next.
    pub(crate) fn streams(&self) -> bool {
        matches!(
            self.event,
            AgentEvent::LlmDelta { .. } | AgentEvent::LlmThinkingDelta { .. } | AgentEvent::ToolCallOutput { .. }
        )
    }

    /// Whether it is the last event of a run.
    pub fn ends_run(&self) -> bool {
        matches!(self.event, AgentEvent::Status { busy: false, .. })
    }

    /// The event's bytes in `framing`; `encode` is called at most once for it.
    pub fn framed(&self, framing: Framing, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.framed_ref(framing, encode).clone()
    }

    /// The same bytes where they are.
    fn framed_ref(&self, framing: Framing, encode: impl FnOnce(&Self) -> Bytes) -> &Bytes {
        // A framing's slot is below their number.
        let [first, ..] = &self.framed;
        self.framed.get(usize::from(framing.0)).unwrap_or(first).get_or_init(|| encode(self))
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

impl Batch {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.gap.is_none() && self.entries.is_empty()
    }
}

/// What one wake-up found, framed: an optional gap, then the bytes of entries in order.
#[derive(Debug, Default)]
pub struct Framed {
    /// What was lost before the first byte.
    pub gap: Option<Gap>,
    /// Whole entries, one after another; those of one entry alone are shared with all that read it.
    pub bytes: Bytes,
    /// The entry that the bytes end with.
    pub last: Option<Arc<Entry>>,
}

/// Entries from the front of `entries`, framed into one piece of at most `max` bytes unless one entry alone is larger, and
/// not past the end of a run, so that who reads one run alone can stop there; how many they are. Copies bytes and touches no count of an entry but the last one's: with many readers on several cores the
/// counts would cost more than the bytes.
fn frame<'a>(
    entries: impl Iterator<Item = &'a Arc<Entry>> + Clone,
    (framing, max): (Framing, usize),
    encode: &impl Fn(&Entry) -> Bytes,
) -> (usize, Framed) {
    let bytes = |entry: &'a Arc<Entry>| entry.framed_ref(framing, encode);
    let (mut count, mut len, mut last) = (0, 0, None);
    for entry in entries.clone() {
        let more = bytes(entry).len();
        if count > 0 && len + more > max {
            break;
        }
        (count, len, last) = (count + 1, len + more, Some(entry));
        if entry.ends_run() {
            break;
        }
    }
    let whole = match (count, last) {
        (_, None) => Bytes::new(),
        (1, Some(one)) => bytes(one).clone(),
        (_, Some(_)) => {
            let mut whole = BytesMut::with_capacity(len);
            entries.take(count).for_each(|entry| whole.extend_from_slice(bytes(entry)));
            whole.freeze()
        }
    };
    (count, Framed { gap: None, bytes: whole, last: last.cloned() })
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
