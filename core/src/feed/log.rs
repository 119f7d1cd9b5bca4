//! One session's log: a ring in memory, read by cursor, and the spool behind it.
//!
//! Invariants: seqs in the ring are contiguous; publishing takes one short lock and waits for nobody; a reader gets every
//! seq after its position exactly once, or a gap that names what it will not get. Clauses: H15, H16, S23, C14.

use super::{Batch, Entry, Framed, Framing, Gap, bell::Bell, frame};
use crate::{
    stats::Stats,
    store::{SessionDir, SpoolPage, StoreError},
};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::VecDeque,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;
use triplane_protocol::SessionId;

/// Bytes that one look into the spool takes at most.
const SPOOL_READ_BYTES: usize = 256 << 10;

/// Events that one look into the spool takes at most, for a reader that wants bytes.
const SPOOL_EVENTS: usize = 256;

/// Where those events are that memory has no more.
#[async_trait]
pub trait Past: Debug + Send + Sync {
    /// Events of a session with a seq above `after`: at most `max_events`, and no more once there are `max_bytes`.
    async fn page(
        &self,
        id: &SessionId,
        after: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<SpoolPage, StoreError>;
}

#[async_trait]
impl Past for SessionDir {
    async fn page(
        &self,
        id: &SessionId,
        after: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<SpoolPage, StoreError> {
        self.replay(id, after, max_events, max_bytes).await
    }
}

/// What is published of one session, live or not.
#[derive(Debug)]
pub struct Log {
    past: Arc<dyn Past>,
    id: SessionId,
    ring: Mutex<Ring>,
    bell: Arc<Bell>,
    stats: Arc<Stats>,
    cap_entries: usize,
    cap_bytes: usize,
}

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    next_seq: u64,
    epoch: Arc<str>,
    /// The last seq of the seq space before this one.
    before: u64,
}

impl Ring {
    /// The first seq that memory has, or will have.
    fn first(&self) -> u64 {
        self.entries.front().map_or(self.next_seq, |entry| entry.seq)
    }
}

impl Log {
    /// A log that counts for itself. `caps`: events and bytes that memory keeps.
    pub fn over(past: Arc<dyn Past>, id: SessionId, next_seq: u64, epoch: &str, caps: (usize, usize)) -> Self {
        Self::new(past, id, next_seq, epoch, caps, Arc::default())
    }

    pub(crate) fn new(
        past: Arc<dyn Past>,
        id: SessionId,
        next_seq: u64,
        epoch: &str,
        (cap_entries, cap_bytes): (usize, usize),
        stats: Arc<Stats>,
    ) -> Self {
        let ring = Ring { entries: VecDeque::new(), bytes: 0, next_seq, epoch: epoch.into(), before: 0 };
        Self { past, id, ring: Mutex::new(ring), bell: Bell::new(), stats, cap_entries, cap_bytes }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Positions that somebody holds.
    pub fn readers(&self) -> usize {
        self.bell.readers()
    }

    /// The seq of the next event.
    pub fn next_seq(&self) -> u64 {
        self.ring().next_seq
    }

    /// Names the seq space; empty before the first event.
    pub fn epoch(&self) -> Arc<str> {
        self.ring().epoch.clone()
    }

    /// The seq space goes on at `next_seq`, after a load. What lies between is a gap. With another epoch it is another space,
    /// of which readers are told when they come to it.
    pub fn resume(&self, next_seq: u64, epoch: &str) {
        let mut ring = self.ring();
        let another = *ring.epoch != *epoch;
        if next_seq > ring.next_seq || another {
            if another {
                ring.before = ring.next_seq - 1;
            }
            ring.entries.clear();
            ring.bytes = 0;
            ring.next_seq = next_seq;
            ring.epoch = epoch.into();
        }
    }

    /// Adds entries, whose seqs must go on from [`Self::next_seq`], and wakes the readers at most once.
    pub fn publish(&self, entries: &[Arc<Entry>]) {
        let mut ring = self.ring();
        for entry in entries {
            ring.bytes += entry.json.len();
            ring.next_seq = entry.seq + 1;
            ring.entries.push_back(entry.clone());
        }
        while ring.entries.len() > self.cap_entries || (ring.bytes > self.cap_bytes && ring.entries.len() > 1) {
            if let Some(old) = ring.entries.pop_front() {
                ring.bytes -= old.json.len();
            }
        }
        drop(ring);
        self.bell.ring(entries.iter().any(|entry| !entry.streams()));
    }

    /// Events and bytes that memory holds.
    pub fn held(&self) -> (usize, usize) {
        let ring = self.ring();
        (ring.entries.len(), ring.bytes)
    }

    /// What memory has after `position`; `None` when the spool must be asked.
    fn in_ring(&self, position: u64, max: usize) -> Option<Batch> {
        let ring = self.ring();
        if position + 1 < ring.first() {
            return None;
        }
        let skip = usize::try_from(position + 1 - ring.first()).unwrap_or(usize::MAX);
        Some(Batch { gap: None, entries: ring.entries.iter().skip(skip).take(max).cloned().collect() })
    }

    /// As [`Self::in_ring`], framed in one piece.
    fn framed_in_ring(
        &self,
        position: u64,
        how: (Framing, usize),
        encode: &impl Fn(&Entry) -> Bytes,
    ) -> Option<Framed> {
        let ring = self.ring();
        if position + 1 < ring.first() {
            return None;
        }
        let skip = usize::try_from(position + 1 - ring.first()).unwrap_or(usize::MAX);
        Some(frame(ring.entries.iter().skip(skip), how, encode).1)
    }

    /// What the spool has after `position`, up to where memory begins; what is in neither is a gap.
    async fn in_spool(&self, position: u64, max: usize) -> Batch {
        let (first, epoch) = {
            let ring = self.ring();
            (ring.first(), ring.epoch.clone())
        };
        let page = self.past.page(&self.id, position, max, SPOOL_READ_BYTES).await.unwrap_or_else(|error| {
            tracing::warn!(%error, session = %self.id, "the spool could not be read");
            SpoolPage::default()
        });
        let same_space = *page.epoch == *epoch;
        let old = page.events.into_iter().take_while(|(seq, _)| same_space && *seq < first);
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        for (seq, line) in old {
            // Only a contiguous piece at a time: a hole in the spool is a gap of its own.
            if entries.last().is_some_and(|last| last.seq + 1 != seq) {
                break;
            }
            match Entry::from_line(seq, &line) {
                Ok(entry) => entries.push(Arc::new(entry)),
                Err(error) => tracing::warn!(%error, session = %self.id, seq, "a spooled event could not be read"),
            }
        }
        let found = entries.first().map_or(first, |entry| entry.seq);
        let gap = (found > position + 1).then_some(Gap { from: position + 1, to: found - 1 });
        Batch { gap, entries }
    }
}

/// A position in one session's log. Publishing never waits for it. Outlives unload and load of the session.
#[derive(Debug)]
pub struct Subscription {
    log: Arc<Log>,
    wake: watch::Receiver<()>,
    position: u64,
    /// The seq space that the position is in.
    epoch: Arc<str>,
    ahead: Option<Gap>,
    /// Read from the spool, after the position, and not framed yet.
    spooled: std::vec::IntoIter<Arc<Entry>>,
}

impl Subscription {
    /// A position at the end of `log`; it stands when this returns.
    pub fn at_end(log: Arc<Log>) -> Self {
        let wake = log.bell.listen();
        let (position, epoch) = {
            let ring = log.ring();
            (ring.next_seq.saturating_sub(1), ring.epoch.clone())
        };
        Self { log, wake, position, epoch, ahead: None, spooled: Vec::new().into_iter() }
    }

    /// A position in a seq space that is no more goes to the start of the one that is; what the reader is told is gone is all
    /// of the old one, and what it may have seen of it.
    fn follow_epoch(&mut self) {
        let ring = self.log.ring();
        if Arc::ptr_eq(&ring.epoch, &self.epoch) {
            return;
        }
        if *ring.epoch != *self.epoch {
            let to = ring.before.max(self.position);
            let seen = std::mem::take(&mut self.position);
            // With nothing in the old one there is nothing to tell, but for what was to be told anyway.
            if to > 0 {
                let to = self.ahead.map_or(to, |ahead| ahead.to.max(to));
                self.ahead = Some(Gap { from: 1, to });
                self.log.stats.gap(to.saturating_sub(seen));
            }
            self.spooled = Vec::new().into_iter();
        }
        self.epoch = ring.epoch.clone();
    }

    /// The next events, at most `max` of them. Waits while there is none. Cancel safe: dropped, nothing is lost.
    pub async fn next(&mut self, max: usize) -> Batch {
        loop {
            // Marked as seen before looking: what is published in between wakes again.
            self.wake.borrow_and_update();
            let batch = self.look(max).await;
            if !batch.is_empty() {
                return batch;
            }
            if self.wake.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn look(&mut self, max: usize) -> Batch {
        self.follow_epoch();
        if self.ahead.is_some() || self.log.ring().first() <= self.position + 1 {
            return self.try_next(max);
        }
        let batch = self.log.in_spool(self.position, max).await;
        self.took(batch)
    }

    /// The next events in one piece of at most `max` bytes, unless one event alone is larger. Waits while there is none.
    /// `encode` frames an event that nobody has framed so before. Cancel safe: dropped, nothing is lost.
    pub async fn next_framed(&mut self, framing: Framing, max: usize, encode: impl Fn(&Entry) -> Bytes) -> Framed {
        loop {
            self.wake.borrow_and_update();
            let framed = self.look_framed((framing, max), &encode).await;
            if framed.gap.is_some() || framed.last.is_some() {
                return framed;
            }
            if self.wake.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    async fn look_framed(&mut self, how: (Framing, usize), encode: &impl Fn(&Entry) -> Bytes) -> Framed {
        let mut gap = None;
        self.follow_epoch();
        if self.ahead.is_some() {
            gap = self.try_next(0).gap;
        } else if self.spooled.as_slice().is_empty() {
            if let Some(framed) = self.log.framed_in_ring(self.position, how, encode) {
                self.position = framed.last.as_ref().map_or(self.position, |last| last.seq);
                return framed;
            }
            let batch = self.log.in_spool(self.position, SPOOL_EVENTS).await;
            gap = self.took(Batch { gap: batch.gap, entries: Vec::new() }).gap;
            self.spooled = batch.entries.into_iter();
        }
        let (count, mut framed) = frame(self.spooled.as_slice().iter(), how, encode);
        self.spooled.by_ref().take(count).for_each(drop);
        self.position = framed.last.as_ref().map_or(self.position, |last| last.seq);
        framed.gap = gap;
        framed
    }

    /// What memory has, without waiting; an empty batch if it has nothing, or if [`Self::next`] must ask the disk.
    pub fn try_next(&mut self, max: usize) -> Batch {
        self.follow_epoch();
        if let Some(gap) = self.ahead.take() {
            // Nothing was lost: what was asked for has never been.
            self.log.stats.gap(0);
            return Batch { gap: Some(gap), entries: Vec::new() };
        }
        let batch = self.log.in_ring(self.position, max).unwrap_or_default();
        self.took(batch)
    }

    fn took(&mut self, batch: Batch) -> Batch {
        if let Some(gap) = batch.gap {
            self.log.stats.gap(gap.to.saturating_sub(gap.from) + 1);
            self.position = self.position.max(gap.to);
        }
        if let Some(last) = batch.entries.last() {
            self.position = last.seq;
            self.spooled = Vec::new().into_iter();
        }
        batch
    }

    /// The seq of the last entry that was handed out, or where it began.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The seq of the last event that was published.
    pub fn last(&self) -> u64 {
        self.log.next_seq().saturating_sub(1)
    }

    /// The epoch of the session's seq space; empty before the first event.
    pub fn epoch(&self) -> String {
        self.log.epoch().to_string()
    }

    /// Moves the position: what comes next has a seq above `after`. Ahead of the log, the next batch tells a gap
    /// and then goes on live (H15).
    pub fn seek(&mut self, after: u64) {
        self.epoch = self.log.epoch();
        let last = self.last();
        self.spooled = Vec::new().into_iter();
        self.position = after.min(last);
        self.ahead = (after > last).then_some(Gap { from: last + 1, to: after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;
    use triplane_protocol::AgentEvent;

    fn log(cap: usize) -> (tempfile::TempDir, Arc<Log>) {
        let dir = tempfile::tempdir().unwrap();
        let id = SessionId::parse("s").unwrap();
        let store = SessionDir::open(dir.path(), Durability::Flush).unwrap();
        let log = Log::new(Arc::new(store), id, 1, "e", (cap, 1 << 20), Arc::default());
        (dir, Arc::new(log))
    }

    fn publish(log: &Arc<Log>, count: u64) {
        let from = log.next_seq();
        let entries: Vec<_> = (from..from + count)
            .map(|seq| Arc::new(Entry::new(seq, AgentEvent::LlmDelta { text: seq.to_string() })))
            .collect();
        log.publish(&entries);
    }

    fn seqs(batch: &Batch) -> (Option<(u64, u64)>, Vec<u64>) {
        (batch.gap.map(|gap| (gap.from, gap.to)), batch.entries.iter().map(|entry| entry.seq).collect())
    }

    #[test]
    fn a_reader_goes_on_from_its_position() {
        let (_dir, log) = log(10);
        publish(&log, 2);
        let mut reader = Subscription::at_end(log.clone());
        assert_eq!(seqs(&reader.try_next(9)), (None, vec![]));
        publish(&log, 3);
        assert_eq!(seqs(&reader.try_next(2)), (None, vec![3, 4]));
        assert_eq!(seqs(&reader.try_next(2)), (None, vec![5]));
        reader.seek(1);
        assert_eq!(seqs(&reader.try_next(9)), (None, vec![2, 3, 4, 5]));
    }

    #[tokio::test]
    async fn what_left_the_ring_and_is_not_spooled_is_a_gap_of_exact_size() {
        let (_dir, log) = log(4);
        let mut reader = Subscription::at_end(log.clone());
        publish(&log, 10);
        assert_eq!(seqs(&reader.next(9).await), (Some((1, 6)), vec![]));
        assert_eq!(seqs(&reader.next(9).await), (None, vec![7, 8, 9, 10]));
    }

    #[test]
    fn a_cursor_ahead_of_the_log_is_told_and_goes_on_live() {
        let (_dir, log) = log(4);
        publish(&log, 3);
        let mut reader = Subscription::at_end(log.clone());
        reader.seek(1000);
        assert_eq!(seqs(&reader.try_next(9)), (Some((4, 1000)), vec![]));
        publish(&log, 1);
        assert_eq!(seqs(&reader.try_next(9)), (None, vec![4]));
    }

    #[test]
    fn large_events_leave_by_bytes() {
        let (_dir, log) = log(4096);
        let text = "x".repeat(400_000);
        for seq in 1..=10 {
            log.publish(&[Arc::new(Entry::new(seq, AgentEvent::LlmDelta { text: text.clone() }))]);
        }
        let ring = log.ring();
        assert_eq!((ring.first(), ring.next_seq), (9, 11));
        assert!(ring.bytes <= 1 << 20);
    }

    fn digits(entry: &Entry) -> Bytes {
        format!("[{}]", entry.seq).into()
    }

    /// The next frame of at most `max` bytes, as text.
    async fn framed(reader: &mut Subscription, max: usize) -> (Option<(u64, u64)>, String, Option<u64>) {
        let framed = reader.next_framed(Framing::new(0), max, digits).await;
        let text = String::from_utf8(framed.bytes.to_vec()).unwrap();
        (framed.gap.map(|gap| (gap.from, gap.to)), text, framed.last.map(|last| last.seq))
    }

    #[tokio::test]
    async fn frames_hold_whole_events_and_at_least_one() {
        let (_dir, log) = log(20);
        let mut reader = Subscription::at_end(log.clone());
        publish(&log, 11);
        assert_eq!(framed(&mut reader, 7).await, (None, "[1][2]".into(), Some(2)));
        assert_eq!(framed(&mut reader, 1).await, (None, "[3]".into(), Some(3)));
        assert_eq!(seqs(&reader.try_next(1)), (None, vec![4]), "both ways share the position");
        assert_eq!(framed(&mut reader, 99).await, (None, "[5][6][7][8][9][10][11]".into(), Some(11)));
        reader.seek(50);
        assert_eq!(framed(&mut reader, 99).await, (Some((12, 50)), String::new(), None));
        publish(&log, 1);
        assert_eq!(framed(&mut reader, 99).await, (None, "[12]".into(), Some(12)));
    }

    #[tokio::test]
    async fn a_frame_tells_what_memory_has_not_any_more() {
        let (_dir, log) = log(4);
        let mut reader = Subscription::at_end(log.clone());
        publish(&log, 10);
        assert_eq!(framed(&mut reader, 99).await, (Some((1, 6)), String::new(), None));
        assert_eq!(framed(&mut reader, 99).await, (None, "[7][8][9][10]".into(), Some(10)));
    }

    #[tokio::test]
    async fn next_wakes_for_what_is_published_later() {
        let (_dir, log) = log(4);
        let mut reader = Subscription::at_end(log.clone());
        let (batch, ()) = tokio::join!(reader.next(9), async { publish(&log, 1) });
        assert_eq!(seqs(&batch), (None, vec![1]));
    }

    #[tokio::test]
    async fn many_readers_all_wake() {
        let (_dir, log) = log(64);
        let mut readers: Vec<_> = (0..64).map(|_| Subscription::at_end(log.clone())).collect();
        for round in 1..=3 {
            publish(&log, 1);
            for reader in &mut readers {
                let batch = tokio::time::timeout(std::time::Duration::from_secs(5), reader.next(9)).await.unwrap();
                assert_eq!(seqs(&batch), (None, vec![round]));
            }
        }
    }

    #[tokio::test]
    async fn a_reader_that_outlives_its_seq_space_is_told_and_goes_on_in_the_new_one() {
        let (_dir, log) = log(4);
        let (mut slow, mut reader) = (Subscription::at_end(log.clone()), Subscription::at_end(log.clone()));
        publish(&log, 3);
        assert_eq!(seqs(&reader.next(9).await), (None, vec![1, 2, 3]));
        log.resume(1, "f");
        publish(&log, 2);
        for reader in [&mut slow, &mut reader] {
            assert_eq!(seqs(&reader.next(9).await), (Some((1, 3)), vec![]));
            assert_eq!((reader.epoch().as_str(), seqs(&reader.next(9).await)), ("f", (None, vec![1, 2])));
        }
        let mut framing = Subscription::at_end(log.clone());
        log.resume(1, "g");
        publish(&log, 1);
        assert_eq!(framed(&mut framing, 99).await, (Some((1, 2)), String::new(), None));
        assert_eq!(framed(&mut framing, 99).await, (None, "[1]".into(), Some(1)));
        // A space that had nothing in it is no loss.
        let (_dir, fresh) = self::log(4);
        let mut reader = Subscription::at_end(fresh.clone());
        fresh.resume(1, "f");
        publish(&fresh, 1);
        assert_eq!(seqs(&reader.next(9).await), (None, vec![1]));
    }

    #[tokio::test]
    async fn a_jump_after_an_unclean_end_is_a_gap() {
        let (_dir, log) = log(4);
        publish(&log, 2);
        let mut reader = Subscription::at_end(log.clone());
        log.resume(4097, "e");
        assert_eq!(seqs(&reader.next(9).await), (Some((3, 4096)), vec![]));
        publish(&log, 1);
        assert_eq!(seqs(&reader.next(9).await), (None, vec![4097]));
    }
}
