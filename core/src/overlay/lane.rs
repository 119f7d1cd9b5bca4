//! A thread that owns one connection, and the queue before it. There are two: one reads, one writes.
//! Invariants: jobs are done in the order that they came; writes that wait together are one transaction, each in a savepoint of its
//! own, and none is answered before the commit; a job that is in the queue is answered, whatever happens.
//! The thread starts with the first job and ends with [`Lane::close`] or the lane.

use super::{
    Meta, Metas, OverlayError, rows,
    schema::{Identity, Place},
};
use crate::session::now_ms;
use rusqlite::Connection;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, oneshot};

/// Callers that may wait in one lane; more wait for their turn to queue.
const WAITERS: usize = 1024;

/// Jobs in the queue, those that nobody waits for included: two for every session that may be live. Beyond it those are lost, and logged.
const QUEUE: usize = 32_768;

/// Writes of one transaction.
const BATCH: usize = 256;

/// How often the start of a transaction is tried, each time for as long as a statement waits.
const TRIES: usize = 4;

/// After a failure the file is not tried again for so long: one look serves all that ask meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Pending rows that are looked at when the file is opened to write.
const SWEEP: u32 = 512;

/// How long notes that nobody waits for wait for company, so that they cost no transaction of their own.
const LINGER: Duration = Duration::from_millis(5);

/// How long a reader waits for the notes of its own process.
pub(super) const SETTLE: Duration = Duration::from_millis(250);

/// What a lane's thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// `synced`: a durable write is on the disk when it is answered.
    Write {
        synced: bool,
    },
}

/// A connection and what was read from it.
pub(super) struct Db {
    pub(super) conn: Connection,
    identity: Option<Identity>,
    metas: Option<(i64, Arc<Metas>)>,
    /// Whether commits are synced now.
    full: bool,
    swept: bool,
}

impl Db {
    /// What was said of all sessions. One row is read when nothing was said since the last time.
    pub(super) fn metas(&mut self) -> Result<Arc<Metas>, OverlayError> {
        let revision = rows::revision(&self.conn)?;
        if let Some((_, metas)) = self.metas.as_ref().filter(|(known, _)| *known == revision) {
            return Ok(metas.clone());
        }
        let metas: Metas =
            rows::metas(&self.conn)?.into_iter().map(|(id, meta)| (id, Arc::<Meta>::new(meta))).collect();
        let metas = Arc::new(metas);
        self.metas = Some((revision, metas.clone()));
        Ok(metas)
    }
}

type Run = Box<dyn FnOnce(Result<&mut Db, OverlayError>) -> Ran + Send>;

type Answer = Box<dyn FnOnce(Result<(), OverlayError>) + Send>;

/// What a job did, and how to tell its caller once the commit is known.
struct Ran {
    error: Option<OverlayError>,
    answer: Answer,
}

struct Job {
    /// Its commit is synced, where the plane promises that.
    durable: bool,
    /// Somebody waits for the answer.
    awaited: bool,
    run: Run,
}

impl Job {
    fn new<T: Send + 'static>(
        durable: bool,
        awaited: bool,
        op: impl FnOnce(&mut Db) -> Result<T, OverlayError> + Send + 'static,
        done: impl FnOnce(Result<T, OverlayError>) + Send + 'static,
    ) -> Self {
        let run = move |db: Result<&mut Db, OverlayError>| {
            let result = db.and_then(op);
            let error = result.as_ref().err().cloned();
            Ran { error, answer: Box::new(move |committed| done(result.and_then(|out| committed.map(|()| out)))) }
        };
        Self { durable, awaited, run: Box::new(run) }
    }

    fn refuse(self, error: &OverlayError) {
        let ran = (self.run)(Err(error.clone()));
        (ran.answer)(Err(error.clone()));
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: bool,
    /// The thread is to end once the queue is empty.
    leaving: bool,
    /// Who waits for that.
    closers: Vec<oneshot::Sender<()>>,
}

struct Shared {
    kind: Kind,
    place: Arc<Place>,
    state: Mutex<State>,
    work: Condvar,
    waiters: Semaphore,
}

/// The queue before one thread.
pub(super) struct Lane(Arc<Shared>);

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lane").field(&self.0.kind).finish()
    }
}

impl Lane {
    pub(super) fn new(kind: Kind, place: Arc<Place>) -> Self {
        let waiters = Semaphore::new(WAITERS);
        Self(Arc::new(Shared { kind, place, state: Mutex::default(), work: Condvar::new(), waiters }))
    }

    /// Has `op` done and answers with what it answered, after the commit. `durable`: and after the sync.
    /// Cancel: dropped, it may still be done.
    pub(super) async fn call<T, F>(&self, durable: bool, op: F) -> Result<T, OverlayError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Db) -> Result<T, OverlayError> + Send + 'static,
    {
        let gone = |_| OverlayError::Failed("the overlay's thread is gone".into());
        let _permit = self.0.waiters.acquire().await.map_err(|_| OverlayError::Busy)?;
        let (tx, rx) = oneshot::channel();
        // A caller that went away needs no answer.
        self.0.push(Job::new(durable, true, op, move |out| drop(tx.send(out))));
        rx.await.map_err(gone)?
    }

    /// Has `op` done some time; `done` is told.
    pub(super) fn post(
        &self,
        op: impl FnOnce(&mut Db) -> Result<(), OverlayError> + Send + 'static,
        done: impl FnOnce(Result<(), OverlayError>) + Send + 'static,
    ) {
        self.0.push(Job::new(false, false, op, done));
    }

    /// Ends the thread and closes the connection, after all that is in the queue.
    pub(super) async fn close(&self) {
        let (tx, rx) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if !state.running {
                return;
            }
            state.leaving = true;
            state.closers.push(tx);
        }
        self.0.work.notify_all();
        let _ = rx.await;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.lock().leaving = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, job: Job) {
        let mut state = self.lock();
        if state.jobs.len() >= QUEUE {
            drop(state);
            return job.refuse(&OverlayError::Busy);
        }
        state.jobs.push_back(job);
        if state.running {
            drop(state);
            return self.work.notify_one();
        }
        state.running = true;
        drop(state);
        let (shared, name) = (self.clone(), if self.kind == Kind::Read { "overlay-read" } else { "overlay-write" });
        if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(move || serve(shared)) {
            self.ended(&OverlayError::Failed(format!("no thread for the overlay: {error}")));
        }
    }

    /// The next jobs; `None`: the thread is to end.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let mut lingered = false;
        loop {
            if state.jobs.is_empty() {
                if state.leaving {
                    return None;
                }
                lingered = false;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if lingered || state.leaving || state.jobs.len() >= BATCH || state.jobs.iter().any(|job| job.awaited) {
                let most = state.jobs.len().min(BATCH);
                return Some(state.jobs.drain(..most).collect());
            }
            let waited = self.work.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
            (state, lingered) = (waited.0, waited.1.timed_out());
        }
    }

    /// There is no thread any more, or there never was one.
    fn ended(&self, why: &OverlayError) {
        let (jobs, closers) = {
            let mut state = self.lock();
            state.running = false;
            state.leaving = false;
            (std::mem::take(&mut state.jobs), std::mem::take(&mut state.closers))
        };
        jobs.into_iter().for_each(|job| job.refuse(why));
        for closer in closers {
            let _ = closer.send(());
        }
    }
}

/// Says that the thread is gone, also when a defect of ours ended it.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended(&OverlayError::Failed("the overlay's thread ended".into()));
    }
}

fn serve(shared: Arc<Shared>) {
    let _ended = Ended(shared.clone());
    let mut door = Door { place: shared.place.clone(), db: None, failed: None };
    while let Some(jobs) = shared.next() {
        match shared.kind {
            Kind::Read => jobs.into_iter().for_each(|job| door.read(job)),
            Kind::Write { synced } => door.write(jobs, synced),
        }
    }
}

/// The connection, opened when it is needed and again when the file is another one.
struct Door {
    place: Arc<Place>,
    db: Option<Db>,
    failed: Option<(Instant, OverlayError)>,
}

impl Door {
    fn open(&mut self) -> Result<&mut Db, OverlayError> {
        let there = self.place.identity();
        // A file that was deleted under our hands would swallow what is written to it.
        self.db.take_if(|db| db.identity != there);
        if self.db.is_none() {
            if let Some((at, error)) = &self.failed
                && at.elapsed() < PAUSE
            {
                return Err(error.clone());
            }
            match self.place.open() {
                Ok(conn) => {
                    self.failed = None;
                    self.db =
                        Some(Db { conn, identity: self.place.identity(), metas: None, full: false, swept: false });
                }
                Err(error) => {
                    self.failed = Some((Instant::now(), error.clone()));
                    return Err(error);
                }
            }
        }
        self.db.as_mut().ok_or_else(|| OverlayError::Failed("the overlay store is not open".into()))
    }

    /// After an error that a new connection may not have, this one is not used again.
    fn note(&mut self, error: &OverlayError) {
        match error {
            OverlayError::Absent(_) | OverlayError::Failed(_) => self.db = None,
            OverlayError::NoProject(_) | OverlayError::Full(_) | OverlayError::Busy => {}
        }
    }

    /// One view for all statements of a job.
    fn read(&mut self, job: Job) {
        let db = match self.open() {
            Ok(db) => db,
            Err(error) => return job.refuse(&error),
        };
        if let Err(error) = db.conn.execute_batch("BEGIN").map_err(OverlayError::from) {
            self.note(&error);
            return job.refuse(&error);
        }
        let ran = (job.run)(Ok(&mut *db));
        let ended = db.conn.execute_batch("COMMIT").map_err(OverlayError::from);
        if let Some(error) = ran.error.as_ref().or(ended.as_ref().err()) {
            self.note(error);
        }
        (ran.answer)(Ok(()));
    }

    fn write(&mut self, jobs: Vec<Job>, synced: bool) {
        let full = synced && jobs.iter().any(|job| job.durable);
        let begun = self.open().and_then(|db| begin(db, full).map(|()| db));
        let db = match begun {
            Ok(db) => db,
            Err(error) => {
                self.note(&error);
                return jobs.into_iter().for_each(|job| job.refuse(&error));
            }
        };
        if !std::mem::replace(&mut db.swept, true)
            && let Err(error) = rows::sweep(&db.conn, SWEEP, now_ms())
        {
            tracing::debug!(%error, "old pending rows could not be swept");
        }
        let mut answers = Vec::with_capacity(jobs.len());
        let mut worst = None;
        for job in jobs {
            let begun = db.conn.execute_batch("SAVEPOINT job").map_err(OverlayError::from);
            let ran = (job.run)(begun.map(|()| &mut *db));
            let end = if ran.error.is_none() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
            let ended = db.conn.execute_batch(end).map_err(OverlayError::from);
            worst = worst.or(ended.err()).or(ran.error);
            answers.push(ran.answer);
        }
        let committed = db.conn.execute_batch("COMMIT").map_err(OverlayError::from);
        if committed.is_err() && !db.conn.is_autocommit() {
            // What cannot be rolled back goes with the connection.
            let _ = db.conn.execute_batch("ROLLBACK");
        }
        if let Some(error) = committed.as_ref().err().or(worst.as_ref()) {
            self.note(error);
        }
        answers.into_iter().for_each(|answer| answer(committed.clone()));
    }
}

/// Begins a write; `full`: its commit is synced. Waits for another process that writes.
fn begin(db: &mut Db, full: bool) -> Result<(), OverlayError> {
    if db.full != full {
        db.conn.execute_batch(if full { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })?;
        db.full = full;
    }
    let mut begun = Err(OverlayError::Busy);
    for _ in 0..TRIES {
        begun = db.conn.execute_batch("BEGIN IMMEDIATE").map_err(OverlayError::from);
        if begun != Err(OverlayError::Busy) {
            break;
        }
    }
    begun
}
