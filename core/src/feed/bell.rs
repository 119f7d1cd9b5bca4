//! Wakes the readers of a log or of the node's feed.
//!
//! What ends somebody's wait rings at once. What streams (deltas, output) rings at once after a pause, and else within
//! [`PAUSE`], once for all that came meanwhile: a wake-up and the write that follows cost far more than an event, and nobody
//! sees a millisecond. Invariant: whatever was published before a ring is seen by whoever the ring wakes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Streams wake their readers no more often than this.
const PAUSE: Duration = Duration::from_millis(1);

/// Readers that a publisher wakes itself; a wake-up costs some 100 ns.
const FEW_READERS: usize = 16;

/// No task is on its way to ring.
const NONE: u8 = 0;
/// One is, after the pause.
const SOON: u8 = 1;
/// One is, as soon as it runs.
const NOW: u8 = 2;

/// Readers wait on it, publishers ring it.
#[derive(Debug)]
pub(super) struct Bell {
    rope: watch::Sender<()>,
    /// Whether something was published that no ring told of.
    due: AtomicBool,
    /// Which task is on its way.
    coming: AtomicU8,
    /// When it rang last, in microseconds since `hung`.
    rang_us: AtomicU64,
    hung: Instant,
    pause: Duration,
}

impl Bell {
    pub(super) fn new() -> Arc<Self> {
        Self::with(PAUSE)
    }

    fn with(pause: Duration) -> Arc<Self> {
        Arc::new(Self {
            rope: watch::Sender::new(()),
            due: AtomicBool::new(false),
            coming: AtomicU8::new(NONE),
            // As if long ago, so that the first event of a stream does not wait.
            rang_us: AtomicU64::new(0),
            hung: Instant::now().checked_sub(pause).unwrap_or_else(Instant::now),
            pause,
        })
    }

    /// One more reader; it hears every ring from now on.
    pub(super) fn listen(&self) -> watch::Receiver<()> {
        self.rope.subscribe()
    }

    /// How many listen.
    pub(super) fn readers(&self) -> usize {
        self.rope.receiver_count()
    }

    /// Something was published; `at_once` unless it is a piece of a stream. Waits for nobody. Many readers are woken by a task of
    /// their own, so that the publisher pays the same for a thousand as for one.
    pub(super) fn ring(self: &Arc<Self>, at_once: bool) {
        self.due.store(true, SeqCst);
        let readers = self.readers();
        if readers == 0 {
            return;
        }
        let rested = self.now_us().saturating_sub(self.rang_us.load(SeqCst));
        let at_once = at_once || Duration::from_micros(rested) >= self.pause;
        let runtime = tokio::runtime::Handle::try_current();
        let (Ok(runtime), true) = (runtime, !at_once || readers > FEW_READERS) else { return self.pull() };
        let when = if at_once { NOW } else { SOON };
        if self.coming.fetch_max(when, SeqCst) >= when {
            return;
        }
        let bell = self.clone();
        runtime.spawn(async move {
            if when == SOON {
                tokio::time::sleep(bell.pause).await;
            }
            // Cleared first: what is published from here on has a task of its own.
            bell.coming.store(NONE, SeqCst);
            bell.pull();
        });
    }

    fn pull(&self) {
        if self.due.swap(false, SeqCst) {
            self.rang_us.store(self.now_us(), SeqCst);
            self.rope.send_replace(());
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.hung.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(reader: &mut watch::Receiver<()>) -> bool {
        let heard = reader.has_changed().unwrap_or(false);
        reader.mark_unchanged();
        heard
    }

    #[tokio::test]
    async fn a_stream_rings_once_for_many_and_an_end_rings_at_once() {
        // Long, so that a slow machine does not take a moment for a pause.
        let bell = Bell::with(Duration::from_secs(60));
        let mut reader = bell.listen();
        bell.ring(false);
        assert!(heard(&mut reader), "the first piece after a pause rings at once");
        for _ in 0..100 {
            bell.ring(false);
        }
        assert!(!heard(&mut reader), "pieces that follow wait for each other");
        bell.ring(true);
        assert!(heard(&mut reader), "an end does not wait");
        let bell = Bell::new();
        let mut reader = bell.listen();
        bell.ring(false);
        bell.ring(false);
        reader.mark_unchanged();
        bell.ring(false);
        tokio::time::timeout(Duration::from_secs(5), reader.changed()).await.expect("a piece rings soon").unwrap();
    }

    #[tokio::test]
    async fn many_readers_all_hear_it() {
        let bell = Bell::new();
        let readers: Vec<_> = (0..=FEW_READERS).map(|_| bell.listen()).collect();
        bell.ring(true);
        for mut reader in readers {
            tokio::time::timeout(Duration::from_secs(5), reader.changed()).await.expect("everybody hears it").unwrap();
        }
    }
}
