//! One lock a stored session, and the fence that keeps a former holder from writing.
//! Two files beside the transcript: `<id>.lock` is locked by the system for as long as its holder lives, however it ends;
//! `<id>.holder` says who that is, and is locked for moments only: around every write and every change of the record (the fence).
//! Invariant: a write of a holder happens while the record names its generation and nobody can raise it.
//! A process id in a file keeps nothing locked. Not for network file systems, whose locks cannot be trusted. Clauses: S06, S12.
//!
//! Takeover: the taker asks in the record (`wanted`), waits a second for the holder to stop its run, store its end and let go.
//! A holder that does not answer loses the session: under the fence the taker raises the generation and puts a lock file of its
//! own in place of the one that the other still has. Only one that stopped inside a write cannot be fenced: then it stays held.

use super::{
    error::StoreError,
    files::{self, Access},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use triplane_protocol::SessionId;

/// How often a held lock is tried again: a child between fork and exec has a copy of our handle for a moment.
const GHOST_TRIES: u32 = 20;
const GHOST_PAUSE: Duration = Duration::from_millis(2);

/// How long a holder has to answer a takeover, and how long a taker or a writer waits for the fence. DESIGN §7 names it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The record has a fixed size, so that one write replaces all of it.
const RECORD_BYTES: usize = 512;

/// Who holds a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The node.
    pub node: String,
    /// The process.
    pub pid: u32,
    /// Milliseconds since the epoch.
    pub since: i64,
    /// Raised with every holder.
    pub generation: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("held by a process that has not said its name");
        }
        write!(
            f,
            "held by process {} of node {}, since {}, generation {}",
            self.pid, self.node, self.since, self.generation
        )
    }
}

/// How a session's lock stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// Nobody has it.
    Free,
    /// A process has it.
    Held(Holder),
    /// Its last holder ended without releasing it; it is free.
    Stale(Holder),
}

/// A session that this process holds; dropped, it is released.
#[derive(Debug)]
pub struct SessionLock {
    id: SessionId,
    holder: Holder,
    /// Locked by the system for as long as this lives.
    lock: File,
    /// Its lock is the fence.
    record: File,
    /// Threads that share a handle share its lock.
    inside: Mutex<()>,
    /// The record's bytes as this holder wrote them.
    mine: [u8; RECORD_BYTES],
    /// Found to be fenced once; it never ends.
    fenced: AtomicBool,
}

impl SessionLock {
    /// Takes the lock. Blocking: up to 40 ms, with `takeover` up to three seconds. Errors: `Held`, `Io`.
    pub fn acquire(dir: &Path, id: &SessionId, node: &str, takeover: bool) -> Result<Self, StoreError> {
        let place = Place::new(dir, id);
        // A second round only if the files were replaced or removed under our hands.
        for _ in 0..3 {
            let lock =
                place.try_lock_for(GHOST_PAUSE, GHOST_TRIES).map_err(StoreError::io("taking the session's lock"))?;
            let taken = match lock {
                Some(lock) => place.settle(id, node, lock)?,
                None if takeover => place.take_over(id, node)?,
                None => break,
            };
            if let Some(lock) = taken {
                return Ok(lock);
            }
        }
        Err(StoreError::Held(place.holder()))
    }

    fn new(id: &SessionId, holder: Holder, mine: [u8; RECORD_BYTES], lock: File, record: File) -> Self {
        Self { id: id.clone(), holder, lock, record, inside: Mutex::new(()), mine, fenced: AtomicBool::new(false) }
    }

    /// How the lock stands, without taking it. A probe looks like a holder for some microseconds, which [`acquire`](Self::acquire) waits out.
    pub fn probe(dir: &Path, id: &SessionId) -> io::Result<LockState> {
        let place = Place::new(dir, id);
        let file = match files::open(&place.lock, Access::Read) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(LockState::Free),
            Err(err) => return Err(err),
        };
        match file.try_lock_shared() {
            Ok(()) => {
                file.unlock()?;
                let named = place.record().and_then(Record::holder);
                Ok(named.map_or(LockState::Free, LockState::Stale))
            }
            Err(TryLockError::WouldBlock) => Ok(LockState::Held(place.holder())),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What other processes read of this holder.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whether somebody asked for the session or has taken it: then stop the run, store its end, and drop this.
    /// One small read; ask at least twice a second.
    pub fn lost(&self) -> bool {
        if self.fenced.load(Ordering::Relaxed) {
            return true;
        }
        let mut now = [0; RECORD_BYTES];
        match files::read_at(&self.record, &mut now, 0) {
            Ok(RECORD_BYTES) if now == self.mine => false,
            // What does not parse is being written right now.
            Ok(read) => Record::parse(now.get(..read).unwrap_or_default())
                .is_some_and(|record| record.wanted.is_some() || record.holder().as_ref() != Some(&self.holder)),
            Err(_) => false,
        }
    }

    /// Runs `write` while nobody can take the session over. Errors: `Fenced` when somebody has, `write`'s own.
    pub fn fenced_write<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.fenced.load(Ordering::Relaxed) {
            return Err(StoreError::Fenced);
        }
        let _inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let _held = Fence::enter(&self.record, PATIENCE).map_err(StoreError::io("locking the session's fence"))?;
        if !self.owns().map_err(StoreError::io("reading the session's fence"))? {
            self.fenced.store(true, Ordering::Relaxed);
            return Err(StoreError::Fenced);
        }
        write()
    }

    /// Whether the record still names this holder. Under the fence.
    fn owns(&self) -> io::Result<bool> {
        let mut now = [0; RECORD_BYTES];
        let read = files::read_at(&self.record, &mut now, 0)?;
        let same = now == self.mine || {
            let named = Record::parse(now.get(..read).unwrap_or_default()).and_then(Record::holder);
            named.as_ref() == Some(&self.holder)
        };
        // Who removes the record by hand makes room for another holder.
        Ok(same && !files::is_unlinked(&self.record.metadata()?))
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        if let Ok(held) = Fence::enter(&self.record, GHOST_PAUSE * GHOST_TRIES)
            && self.owns().unwrap_or(false)
        {
            let left = Record { generation: self.holder.generation, ..Record::default() };
            _ = left.write(held.0);
        }
        // Explicit: a child between fork and exec would keep it for a moment.
        _ = self.lock.unlock();
    }
}

/// What `<id>.holder` holds: the generation, and who has it unless it was released.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    generation: u64,
    /// Somebody asks the holder to let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; RECORD_BYTES];
        let read = files::read_at(file, &mut bytes, 0)?;
        Ok(Self::parse(bytes.get(..read).unwrap_or_default()))
    }

    fn encode(&self) -> io::Result<[u8; RECORD_BYTES]> {
        let mut bytes = [b' '; RECORD_BYTES];
        let json = serde_json::to_vec(self)?;
        let room = bytes.get_mut(..json.len()).filter(|_| json.len() < RECORD_BYTES);
        room.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the node's id is too long"))?
            .copy_from_slice(&json);
        if let Some(last) = bytes.last_mut() {
            *last = b'\n';
        }
        Ok(bytes)
    }

    fn write(&self, file: &File) -> io::Result<[u8; RECORD_BYTES]> {
        let bytes = self.encode()?;
        files::write_at(file, &bytes, 0)?;
        // Whatever somebody else put there.
        if file.metadata()?.len() != RECORD_BYTES as u64 {
            files::resize(file, RECORD_BYTES as u64)?;
        }
        Ok(bytes)
    }

    fn holder(self) -> Option<Holder> {
        let Self { generation, node, pid, since, .. } = self;
        Some(Holder { node: node?, pid: pid?, since: since?, generation })
    }
}

/// The exclusive lock on the record, for as long as it lives.
struct Fence<'a>(&'a File);

impl<'a> Fence<'a> {
    fn enter(file: &'a File, patience: Duration) -> io::Result<Self> {
        let mut until = None;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(err)) => return Err(err),
                Err(TryLockError::WouldBlock) => {
                    let now = Instant::now();
                    if now > *until.get_or_insert(now + patience) {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "another process holds the session's fence",
                        ));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        _ = self.0.unlock();
    }
}

/// Where a session's lock is.
struct Place {
    lock: PathBuf,
    record: PathBuf,
}

impl Place {
    fn new(dir: &Path, id: &SessionId) -> Self {
        Self { lock: dir.join(format!("{id}.lock")), record: dir.join(format!("{id}.holder")) }
    }

    fn record(&self) -> Option<Record> {
        Record::read(&files::open(&self.record, Access::Read).ok()?).ok()?
    }

    fn holder(&self) -> Holder {
        self.record().and_then(Record::holder).unwrap_or_default()
    }

    /// The system's lock on the file that the name means; `None` while another has it.
    fn try_lock_for(&self, pause: Duration, tries: u32) -> io::Result<Option<File>> {
        for attempt in 0..tries {
            let file = files::open(&self.lock, Access::Create)?;
            match file.try_lock() {
                Ok(()) if files::is_at(&file, &self.lock)? => return Ok(Some(file)),
                // Replaced or removed since it was opened: look again.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if attempt + 1 < tries => std::thread::sleep(pause),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(err)) => return Err(err),
            }
        }
        Ok(None)
    }

    /// Writes the record of a holder that has the system's lock; `None`: it has not any more.
    fn settle(&self, id: &SessionId, node: &str, lock: File) -> Result<Option<SessionLock>, StoreError> {
        let naming = |err| StoreError::Io { doing: "writing the session's holder record", source: err };
        let file = files::open(&self.record, Access::Create).map_err(naming)?;
        let held = self.enter(&file)?;
        // A taker may have put its own lock file in place meanwhile, or somebody deleted the session.
        if !files::is_at(&lock, &self.lock).map_err(naming)? || !files::is_at(&file, &self.record).map_err(naming)? {
            return Ok(None);
        }
        let (holder, mine) = self.claim(node, &held).map_err(naming)?;
        drop(held);
        Ok(Some(SessionLock::new(id, holder, mine, lock, file)))
    }

    /// Asks, waits, fences; `None`: the files were replaced meanwhile.
    fn take_over(&self, id: &SessionId, node: &str) -> Result<Option<SessionLock>, StoreError> {
        let naming = |err| StoreError::Io { doing: "taking the session over", source: err };
        let file = files::open(&self.record, Access::Create).map_err(naming)?;
        let held = self.enter(&file)?;
        let mut asked = Record::read(held.0).map_err(naming)?.unwrap_or_default();
        let generation = asked.generation;
        asked.wanted = Some(generation + 1);
        asked.write(held.0).map_err(naming)?;
        drop(held);

        let pause = Duration::from_millis(5);
        let tries = (PATIENCE.as_millis() / pause.as_millis()) as u32;
        if let Some(lock) = self.try_lock_for(pause, tries).map_err(naming)? {
            return self.settle(id, node, lock);
        }

        let held = self.enter(&file)?;
        let now = Record::read(held.0).map_err(naming)?.unwrap_or_default();
        if now.generation != generation {
            // Another taker was faster.
            return Err(StoreError::Held(self.holder()));
        }
        if !files::is_at(&file, &self.record).map_err(naming)? {
            return Ok(None);
        }
        let lock = self.replace_lock().map_err(naming)?;
        let (holder, mine) = self.claim(node, &held).map_err(naming)?;
        drop(held);
        Ok(Some(SessionLock::new(id, holder, mine, lock, file)))
    }

    fn enter<'a>(&self, file: &'a File) -> Result<Fence<'a>, StoreError> {
        Fence::enter(file, PATIENCE).map_err(|err| {
            let stopped_inside = err.kind() == io::ErrorKind::TimedOut;
            if stopped_inside {
                StoreError::Held(self.holder())
            } else {
                StoreError::io("locking the session's fence")(err)
            }
        })
    }

    /// A locked file of our own under the lock's name. The former holder keeps a lock on a file without a name.
    fn replace_lock(&self) -> io::Result<File> {
        let temp = files::temp_path(&self.lock)?;
        let file = files::open(&temp, Access::CreateNew)?;
        let placed = match file.try_lock() {
            Ok(()) => files::rename(&temp, &self.lock),
            Err(err) => Err(err.into()),
        };
        if placed.is_err() {
            _ = fs::remove_file(&temp);
        }
        placed.map(|()| file)
    }

    /// The last step, under the fence: the next generation is ours.
    fn claim(&self, node: &str, held: &Fence<'_>) -> io::Result<(Holder, [u8; RECORD_BYTES])> {
        let before = Record::read(held.0)?.unwrap_or_default();
        let (generation, pid, since) = (before.generation + 1, std::process::id(), files::now_ms());
        let node = node.to_owned();
        let record = Record { generation, wanted: None, node: Some(node.clone()), pid: Some(pid), since: Some(since) };
        Ok((Holder { node, pid, since, generation }, record.write(held.0)?))
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
