//! Group commit: one sync for all that wait for a file, and up to [`THREADS`] files at once, so that the file system's own
//! journal groups them.
//! Invariant: a waiter is answered by a sync that began after it asked, and by no other: a failed sync is told to all that
//! waited for it, and never tried again in their name. Clause: C12.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Syncs that may be in flight at once. More do not help: the journal is one.
const THREADS: usize = 8;

/// Waiters at once; more wait their turn. Above the number of sessions that may run at once on any machine we know.
const WAITERS: usize = 4096;

type SyncFn = dyn Fn(&File) -> io::Result<()> + Send + Sync;

/// Syncs files for many that wait at once. Cheap to clone; its threads start when they are needed and end with the last clone.
#[derive(Debug, Clone)]
pub struct Committer {
    owner: Arc<Owner>,
}

impl Default for Committer {
    fn default() -> Self {
        Self::with(sync_file)
    }
}

impl Committer {
    /// With another way to sync; for tests.
    pub(crate) fn with(sync: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            sync: Box::new(sync),
            waiters: Semaphore::new(WAITERS).into(),
        };
        Self { owner: Arc::new(Owner(Arc::new(shared))) }
    }

    /// Resolves when everything that was written to `file` before the call is on the disk.
    /// Errors: what the system said; then nothing is known of what was written since the last good sync.
    /// Cancel: dropped, the sync may still happen.
    pub async fn sync(&self, file: &Arc<File>) -> io::Result<()> {
        let shared = &self.owner.0;
        let closed = || io::Error::other("the committer is closed");
        let permit = shared.waiters.clone().acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        shared.enqueue(file, Waiter { reply, _permit: permit })?;
        answer.await.map_err(|_| closed())?
    }
}

fn sync_file(file: &File) -> io::Result<()> {
    #[cfg(test)]
    crate::crash_tests::point(|| ());
    // What makes a name safe is all of a directory, not only its data.
    if file.metadata()?.is_dir() { file.sync_all() } else { file.sync_data() }
}

/// Ends the threads when the last [`Committer`] goes.
struct Owner(Arc<Shared>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
    }
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    sync: Box<SyncFn>,
    waiters: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// By the address of the shared handle, which the entry keeps alive.
    files: HashMap<usize, Pending>,
    /// Files with waiters and no sync in flight.
    ready: VecDeque<usize>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Pending {
    file: Arc<File>,
    waiters: Vec<Waiter>,
    syncing: bool,
}

struct Waiter {
    reply: oneshot::Sender<io::Result<()>>,
    _permit: OwnedSemaphorePermit,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(self: &Arc<Self>, file: &Arc<File>, waiter: Waiter) -> io::Result<()> {
        let key = Arc::as_ptr(file) as usize;
        let mut state = self.lock();
        let fresh = || Pending { file: file.clone(), waiters: Vec::new(), syncing: false };
        let pending = state.files.entry(key).or_insert_with(fresh);
        let first = pending.waiters.is_empty() && !pending.syncing;
        pending.waiters.push(waiter);
        if !first {
            return Ok(());
        }
        state.ready.push_back(key);
        if state.idle >= state.ready.len() || state.threads >= THREADS {
            self.work.notify_one();
            return Ok(());
        }
        let shared = self.clone();
        match std::thread::Builder::new().name("commit".into()).spawn(move || shared.run()) {
            Ok(_) => state.threads += 1,
            // The threads that there are will come to it.
            Err(_) if state.threads > 0 => self.work.notify_one(),
            Err(err) => {
                state.ready.retain(|other| *other != key);
                state.files.remove(&key);
                return Err(err);
            }
        }
        Ok(())
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some(key) = state.ready.pop_front() else {
                if state.closed {
                    return;
                }
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            let Some(pending) = state.files.get_mut(&key) else { continue };
            pending.syncing = true;
            let file = pending.file.clone();
            let waiters = std::mem::take(&mut pending.waiters);
            drop(state);
            let result = (self.sync)(&file);
            for waiter in waiters {
                _ = waiter.reply.send(result.as_ref().copied().map_err(same_error));
            }
            state = self.lock();
            let Some(pending) = state.files.get_mut(&key) else { continue };
            pending.syncing = false;
            if pending.waiters.is_empty() {
                state.files.remove(&key);
            } else {
                state.ready.push_back(key);
            }
        }
    }
}

fn same_error(err: &io::Error) -> io::Error {
    match err.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(err.kind(), err.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };
    use tokio::time::timeout;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn temp_file() -> Arc<File> {
        Arc::new(tempfile::tempfile().unwrap())
    }

    async fn until(what: impl Fn() -> bool) {
        let polling = async {
            while !what() {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, polling).await.unwrap();
    }

    fn waiting(committer: &Committer) -> usize {
        WAITERS - committer.owner.0.waiters.available_permits()
    }

    #[tokio::test]
    async fn waiters_of_one_file_share_a_sync_that_began_after_they_asked() {
        let (go, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let committer = Committer::with(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            gate.lock().unwrap().recv().map_err(io::Error::other)
        });
        let file = temp_file();
        let ask = || {
            let (committer, file) = (committer.clone(), file.clone());
            tokio::spawn(async move { committer.sync(&file).await })
        };
        let first = ask();
        until(|| begun.load(Ordering::SeqCst) == 1).await;
        let later: Vec<_> = (0..50).map(|_| ask()).collect();
        until(|| waiting(&committer) == 51).await;
        go.send(()).unwrap();
        timeout(DEADLINE, first).await.unwrap().unwrap().unwrap();
        until(|| begun.load(Ordering::SeqCst) == 2).await;
        assert!(later.iter().all(|task| !task.is_finished()), "the first sync began before they asked");
        go.send(()).unwrap();
        for task in later {
            timeout(DEADLINE, task).await.unwrap().unwrap().unwrap();
        }
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        until(|| waiting(&committer) == 0).await;
        assert!(committer.owner.0.lock().files.is_empty());
    }

    #[tokio::test]
    async fn files_are_synced_side_by_side_by_a_bounded_number_of_threads() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, max) = (running.clone(), most.clone());
        let committer = Committer::with(move |_| {
            max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        });
        let files: Vec<_> = (0..64).map(|_| temp_file()).collect();
        let all: Vec<_> = (files.iter())
            .map(|file| {
                let (committer, file) = (committer.clone(), file.clone());
                tokio::spawn(async move { committer.sync(&file).await })
            })
            .collect();
        for task in all {
            timeout(DEADLINE, task).await.unwrap().unwrap().unwrap();
        }
        let most = most.load(Ordering::SeqCst);
        assert!((2..=THREADS).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn a_failed_sync_fails_all_that_waited_and_only_them() {
        let calls = AtomicUsize::new(0);
        let committer = Committer::with(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        });
        let file = temp_file();
        assert_eq!(committer.sync(&file).await.unwrap_err().raw_os_error(), Some(5));
        committer.sync(&file).await.unwrap();
    }

    #[tokio::test]
    async fn the_threads_end_with_the_last_handle() {
        let committer = Committer::default();
        let dir = tempfile::tempdir().unwrap();
        committer.sync(&temp_file()).await.unwrap();
        committer.sync(&Arc::new(File::open(dir.path()).unwrap())).await.unwrap();
        let shared = Arc::downgrade(&committer.owner.0);
        drop(committer);
        until(|| shared.strong_count() == 0).await;
    }
}
