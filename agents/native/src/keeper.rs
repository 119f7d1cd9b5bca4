//! Keeps one server that is started when it is first needed, shared by all who need it, and started again when it died.
//! Invariants: at most one instance at a time; a start belongs to the keeper's task, so no caller's cancel breaks it off; after a
//! death the next start waits, longer each time, until one has lived for a while. Knows nothing of what is kept.

use async_trait::async_trait;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The wait after the first death; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The longest wait between two starts.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Who lived this long died of something new.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// A caller waits this long for the next start; when it is farther away, the call fails at once and says when.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is kept.
#[async_trait]
pub(crate) trait Kept: Send + Sync + 'static {
    /// One running instance.
    type Live: Send + Sync + 'static;

    /// For people: `MCP server \`x\``.
    fn name(&self) -> String;

    /// How long a start may take.
    fn start_timeout(&self) -> Duration;

    /// Stopped when it was not needed for so long; `None`: never.
    fn idle(&self) -> Option<Duration>;

    /// Starts one. Cancel: dropped, nothing is left of it. Errors: one line.
    async fn start(&self) -> Result<Self::Live, String>;

    /// Resolves when it is over, with one line why.
    async fn over(&self, live: &Self::Live) -> String;

    /// Ends one that is not needed any more; bounded by itself.
    async fn stop(&self, live: &Self::Live);
}

/// How it stands.
pub(crate) enum Phase<L> {
    /// Not running; with what went wrong, if something did.
    Down {
        /// One line.
        why: Option<String>,
        /// No start before.
        until: Option<Instant>,
        /// Starts so far.
        starts: u64,
    },
    /// Being started, since then.
    Starting(Instant),
    /// Running.
    Up(Arc<L>),
}

impl<L> Clone for Phase<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Down { why, until, starts } => Self::Down { why: why.clone(), until: *until, starts: *starts },
            Self::Starting(since) => Self::Starting(*since),
            Self::Up(live) => Self::Up(Arc::clone(live)),
        }
    }
}

/// The handle; when the last is dropped, the instance ends.
pub(crate) struct Keeper<K: Kept> {
    shared: Arc<Shared<K>>,
    _end: DropGuard,
}

struct Shared<K: Kept> {
    kept: K,
    phase: watch::Sender<Phase<K::Live>>,
    wanted: Notify,
    used: Mutex<Instant>,
    running: Mutex<bool>,
    end: CancellationToken,
}

impl<K: Kept> Keeper<K> {
    /// Starts nothing.
    pub(crate) fn new(kept: K) -> Self {
        let phase = watch::channel(Phase::Down { why: None, until: None, starts: 0 }).0;
        let end = CancellationToken::new();
        let shared = Arc::new(Shared {
            kept,
            phase,
            wanted: Notify::new(),
            used: Mutex::new(Instant::now()),
            running: Mutex::new(false),
            end: end.clone(),
        });
        Self { shared, _end: end.drop_guard() }
    }

    pub(crate) fn kept(&self) -> &K {
        &self.shared.kept
    }

    pub(crate) fn phase(&self) -> Phase<K::Live> {
        self.shared.phase.borrow().clone()
    }

    /// Whether it keeps dying, so that who can do without does not wait for it.
    #[cfg(any(feature = "lsp", test))]
    pub(crate) fn is_failing(&self) -> bool {
        matches!(&*self.shared.phase.borrow(), Phase::Down { until: Some(until), .. } if *until > Instant::now() + FIRST_WAIT)
    }

    /// The running instance, started if need be. Errors: one line that says why, and when it is tried again.
    /// Cancel safe: the start goes on without the caller.
    pub(crate) async fn get(&self) -> Result<Arc<K::Live>, String> {
        let shared = &self.shared;
        *shared.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut phases = shared.phase.subscribe();
        let mut seen = None;
        loop {
            let phase = phases.borrow_and_update().clone();
            match phase {
                Phase::Up(live) => return Ok(live),
                Phase::Starting(_) => {}
                Phase::Down { why, until, starts } => {
                    let wait = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
                    let failed = seen.is_some_and(|seen| seen != starts);
                    if failed || wait > PATIENCE {
                        return Err(self.failed(why.as_deref(), wait));
                    }
                    seen = Some(starts);
                    self.want();
                }
            }
            if phases.changed().await.is_err() {
                return Err(self.failed(None, Duration::ZERO));
            }
        }
    }

    fn failed(&self, why: Option<&str>, wait: Duration) -> String {
        let (name, why) = (self.shared.kept.name(), why.unwrap_or("it is being shut down"));
        match wait.as_secs() {
            0 => format!("{name} is not available: {why}"),
            seconds => format!("{name} is not available: {why}; it is tried again in {seconds} s"),
        }
    }

    /// Wakes the task, which is made when it is first needed.
    fn want(&self) {
        self.shared.wanted.notify_one();
        let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*running {
            *running = true;
            // Owned by the handle: its end token is cancelled with the last one.
            tokio::spawn(keep(Arc::clone(&self.shared)));
        }
    }
}

async fn keep<K: Kept>(shared: Arc<Shared<K>>) {
    let kept = async {
        let (mut starts, mut deaths) = (0, 0);
        loop {
            shared.wanted.notified().await;
            let until = match &*shared.phase.borrow() {
                Phase::Down { until, .. } => *until,
                Phase::Starting(_) | Phase::Up(_) => continue,
            };
            if let Some(until) = until {
                tokio::time::sleep_until(until).await;
            }
            let began = Instant::now();
            shared.phase.send_replace(Phase::Starting(began));
            starts += 1;
            let why = match timeout(shared.kept.start_timeout(), shared.kept.start()).await {
                Ok(Ok(live)) => live_on(&shared, Arc::new(live)).await,
                Ok(Err(why)) => Some(why),
                Err(_) => {
                    let seconds = shared.kept.start_timeout().as_secs_f32();
                    Some(format!("it did not answer within {seconds} s of its start"))
                }
            };
            deaths = match &why {
                Some(_) if began.elapsed() < LONG_LIFE => deaths + 1,
                Some(_) => 1,
                None => 0,
            };
            if let Some(why) = &why {
                tracing::warn!("{}: {why}", shared.kept.name());
            }
            let until = (deaths > 0).then(|| Instant::now() + wait_after(deaths));
            shared.phase.send_replace(Phase::Down { why, until, starts });
        }
    };
    tokio::select! {
        () = shared.end.cancelled() => {}
        () = kept => {}
    }
    let last = shared.phase.send_replace(Phase::Down { why: None, until: None, starts: u64::MAX });
    if let Phase::Up(live) = last {
        shared.kept.stop(&live).await;
    }
}

/// Until it is over: with why, or without when it was not needed any more.
async fn live_on<K: Kept>(shared: &Shared<K>, live: Arc<K::Live>) -> Option<String> {
    shared.phase.send_replace(Phase::Up(Arc::clone(&live)));
    let not_needed = async {
        let Some(idle) = shared.kept.idle() else { return std::future::pending().await };
        loop {
            let used = *shared.used.lock().unwrap_or_else(PoisonError::into_inner);
            if used.elapsed() >= idle {
                return;
            }
            tokio::time::sleep_until(used + idle).await;
        }
    };
    tokio::select! {
        why = shared.kept.over(&live) => Some(why),
        () = not_needed => {
            shared.kept.stop(&live).await;
            None
        }
    }
}

fn wait_after(deaths: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1_u32 << deaths.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Starts fail as often as it is told, and every instance ends when it is told.
    #[derive(Default)]
    struct Fake {
        starts: AtomicU32,
        fails: AtomicU32,
        stops: Arc<AtomicU32>,
        idle: Option<Duration>,
    }

    #[async_trait]
    impl Kept for Fake {
        type Live = Notify;

        fn name(&self) -> String {
            "it".to_owned()
        }

        fn start_timeout(&self) -> Duration {
            Duration::from_secs(5)
        }

        fn idle(&self) -> Option<Duration> {
            self.idle
        }

        async fn start(&self) -> Result<Notify, String> {
            self.starts.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
                Ok(1000..) => std::future::pending().await,
                Ok(_) => Err("no luck".to_owned()),
                Err(_) => Ok(Notify::new()),
            }
        }

        async fn over(&self, live: &Notify) -> String {
            live.notified().await;
            "it died".to_owned()
        }

        async fn stop(&self, _live: &Notify) {
            self.stops.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn starts(keeper: &Keeper<Fake>) -> u32 {
        keeper.kept().starts.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_share_one_and_a_cancelled_one_breaks_nothing() {
        let keeper = Keeper::new(Fake::default());
        assert!(timeout(Duration::from_millis(50), keeper.get()).await.is_err());
        let (a, b) = tokio::join!(keeper.get(), keeper.get());
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        assert_eq!(starts(&keeper), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn deaths_are_followed_by_longer_and_longer_waits() {
        let keeper = Keeper::new(Fake::default());
        let mut waits = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            let live = loop {
                match keeper.get().await {
                    Ok(live) => break live,
                    Err(why) => {
                        assert!(why.contains("it died; it is tried again in"), "{why}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            };
            waits.push(began.elapsed().as_secs());
            assert!(!keeper.is_failing());
            live.notify_one();
            while matches!(keeper.phase(), Phase::Up(_)) {
                tokio::task::yield_now().await;
            }
        }
        assert!(keeper.is_failing());
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60]);
        tokio::time::sleep(LONGEST_WAIT).await;
        let live = keeper.get().await.unwrap();
        tokio::time::sleep(LONG_LIFE).await;
        live.notify_one();
        let began = Instant::now();
        while keeper.get().await.is_err() || matches!(keeper.phase(), Phase::Down { .. }) {}
        assert!(began.elapsed() < Duration::from_secs(1), "a long life is forgiven");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_start_and_a_hanging_one_are_told() {
        let keeper = Keeper::new(Fake { fails: AtomicU32::new(1), ..Fake::default() });
        assert_eq!(keeper.get().await.unwrap_err(), "it is not available: no luck");
        assert!(keeper.get().await.is_ok());
        let keeper = Keeper::new(Fake { fails: AtomicU32::new(1000), ..Fake::default() });
        let why = keeper.get().await.unwrap_err();
        assert_eq!(why, "it is not available: it did not answer within 5 s of its start");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_one_is_stopped_and_started_again_without_a_wait() {
        let keeper = Keeper::new(Fake { idle: Some(Duration::from_secs(10)), ..Fake::default() });
        for round in 1..=2 {
            drop(keeper.get().await.unwrap());
            tokio::time::sleep(Duration::from_secs(6)).await;
            keeper.get().await.unwrap();
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert_eq!((starts(&keeper), keeper.kept().stops.load(Ordering::SeqCst)), (round, round - 1));
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert_eq!(keeper.kept().stops.load(Ordering::SeqCst), round);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_keeper_stops_its_instance() {
        let stops = Arc::new(AtomicU32::new(0));
        let keeper = Keeper::new(Fake { stops: Arc::clone(&stops), ..Fake::default() });
        let live = keeper.get().await.unwrap();
        drop((keeper, live));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stops.load(Ordering::SeqCst), 1);
    }
}
