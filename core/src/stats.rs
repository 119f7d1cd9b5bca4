//! What the plane counts of itself, as plain atomics: nothing is allocated, locked or labelled where events pass.
//! Invariant: counters only grow; what is "now" (live, busy, waiting) is not counted but looked at when it is asked for.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use triplane_protocol::Stop;

/// Every way that a run can end, in the order of [`Snapshot::runs`].
pub const STOPS: [Stop; 6] =
    [Stop::Completed, Stop::Aborted, Stop::MaxTurns, Stop::MaxTokens, Stop::Refused, Stop::Error];

/// Upper bounds of a [`Histogram`]'s buckets, in microseconds: a write alone is tens, a sync thousands.
pub const BOUNDS_US: [u64; 10] = [50, 100, 250, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000];

/// The plane's counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    runs: [AtomicU64; STOPS.len()],
    events: AtomicU64,
    gaps: AtomicU64,
    lost: AtomicU64,
    waits: Histogram,
    writes: Histogram,
    syncs: Histogram,
}

impl Stats {
    /// A run ended.
    pub(crate) fn run_ended(&self, stop: Stop) {
        let slot = match stop {
            Stop::Completed => 0,
            Stop::Aborted => 1,
            Stop::MaxTurns => 2,
            Stop::MaxTokens => 3,
            Stop::Refused => 4,
            Stop::Error => 5,
        };
        if let Some(count) = self.runs.get(slot) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many events were published, together.
    pub(crate) fn published(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
    }

    /// A reader was told that it will not get `lost` events.
    pub(crate) fn gap(&self, lost: u64) {
        self.gaps.fetch_add(1, Ordering::Relaxed);
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// A permission request was resolved after so long.
    pub(crate) fn waited(&self, time: Duration) {
        self.waits.observe(time);
    }

    /// A transcript was appended to; `synced`: an acknowledgement waited for it.
    pub(crate) fn appended(&self, synced: bool, time: Duration) {
        if synced { self.syncs.observe(time) } else { self.writes.observe(time) }
    }

    /// All of it, with what is now.
    pub(crate) fn snapshot(&self, now: Now) -> Snapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Snapshot {
            now,
            runs: std::array::from_fn(|slot| self.runs.get(slot).map_or(0, read)),
            events: read(&self.events),
            gaps: read(&self.gaps),
            lost: read(&self.lost),
            waits: self.waits.read(),
            writes: self.writes.read(),
            syncs: self.syncs.read(),
        }
    }
}

/// Durations, by how long they were.
#[derive(Debug, Default)]
struct Histogram {
    /// One a bound, and one for what is above them all.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let slot = BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(BOUNDS_US.len());
        if let Some(bucket) = self.buckets.get(slot) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    fn read(&self) -> Durations {
        let mut sum = 0;
        let upto = std::array::from_fn(|slot| {
            sum += self.buckets.get(slot).map_or(0, |bucket| bucket.load(Ordering::Relaxed));
            sum
        });
        Durations { upto, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// What a [`Histogram`] held when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durations {
    /// How many lasted at most each of [`BOUNDS_US`]; the last one is all of them.
    pub upto: [u64; BOUNDS_US.len() + 1],
    /// All together, in microseconds.
    pub sum_us: u64,
}

impl Durations {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.upto.last().copied().unwrap_or_default()
    }
}

/// What is true of the plane at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Live sessions.
    pub live: u64,
    /// Those with a run in flight.
    pub busy: u64,
    /// Permission requests that wait for an answer.
    pub pending: u64,
    /// Background tasks that run.
    pub tasks: u64,
    /// Positions in sessions' logs that somebody reads, over all wires.
    pub subscribers: u64,
}

/// The plane's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// At this moment.
    pub now: Now,
    /// Runs that ended, by [`STOPS`].
    pub runs: [u64; STOPS.len()],
    /// Events published.
    pub events: u64,
    /// Gaps that readers were told.
    pub gaps: u64,
    /// Events in those gaps.
    pub lost: u64,
    /// How long permission requests waited for their outcome.
    pub waits: Durations,
    /// Appends to transcripts that nothing waited for.
    pub writes: Durations,
    /// Appends to transcripts that an acknowledgement waited for.
    pub syncs: Durations,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_each_bound() {
        let histogram = Histogram::default();
        for us in [50, 51, 2_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let read = histogram.read();
        assert_eq!(read.upto, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);
        assert_eq!((read.count(), read.sum_us), (3, 2_000_101));
    }

    #[test]
    fn each_stop_has_its_slot() {
        let stats = Stats::default();
        STOPS.iter().for_each(|stop| stats.run_ended(*stop));
        let now = Now { live: 0, busy: 0, pending: 0, tasks: 0, subscribers: 0 };
        assert_eq!(stats.snapshot(now).runs, [1; STOPS.len()]);
    }
}
