//! What is on disk: transcripts, spools, blobs, locks. Every file is 0600 and every directory 0700; no id leads out of the directory.
//! Knows no wire, no agent and no live session. Clauses: C12, C13, C15, C16, L05, L08, L11, L24.
//!
//! Reading order:
//! - [`files`]: private files, opened safely, written whole.
//! - [`History`]: what a transcript tells; pure.
//! - [`Transcript`]: the append-only file, and its durability by the [`Committer`].
//! - [`SessionLock`]: who may write, and the fence.
//! - [`Spool`]: published events and reserved seqs.
//! - [`SessionDir`]: the directory that all of them live in; `order` and `index` behind its lists, [`RowCache`] behind that.

mod blobs;
mod cache;
mod commit;
mod error;
pub mod files;
mod history;
mod index;
mod lines;
mod lock;
mod order;
mod spool;
mod spool_read;
mod transcript;

pub use blobs::{Blobs, hash};
pub use cache::{Cached, RowCache};
pub use commit::Committer;
pub use error::StoreError;
pub use history::{History, Line, Unknown};
pub use lock::{Holder, LockState, SessionLock};
pub use spool::{BLOCK, Spool, SpoolPage, SpoolState};
pub use transcript::{LoadReport, Loaded, Transcript};

use index::{Index, Stamp};
use order::Order;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use triplane_protocol::{SessionId, record::Header};

/// A spool over this lets its older half go.
const SPOOL_BYTES: u64 = 64 << 20;

/// The largest file that a checkpoint takes in.
const BLOB_BYTES: u64 = 64 << 20;

/// When an acknowledged change is safe. Clause: C12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced to the disk; one group commit covers all that wait.
    #[default]
    Fsync,
    /// Written to the system; a power cut may take the last moments.
    Flush,
}

/// A transcript in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The session.
    pub id: SessionId,
    /// Modification time, milliseconds since the epoch.
    pub mtime_ms: i64,
    /// Size of the transcript.
    pub bytes: u64,
}

/// What a list shows of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IndexRow {
    /// The session.
    pub id: SessionId,
    /// Its agent; empty while the transcript is empty.
    pub agent: String,
    /// Its directory; empty while the transcript is empty.
    pub cwd: String,
    /// Title for people.
    pub title: Option<String>,
    /// `provider/name`.
    pub model: Option<String>,
    /// The session that it was forked from.
    pub parent: Option<SessionId>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
    /// Messages of the projection; `None` where counting them would mean to read a huge file.
    pub messages: Option<u64>,
    /// Size of the transcript; 0: nothing was flushed yet.
    pub bytes: u64,
}

/// The directory of sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionDir {
    ground: Arc<Ground>,
    index: Arc<Index>,
    cache: Option<Arc<Kept>>,
}

/// The list's rows of earlier processes.
#[derive(Debug)]
struct Kept {
    rows: Arc<dyn RowCache>,
    loaded: tokio::sync::OnceCell<()>,
}

/// What every open file of a directory needs.
#[derive(Debug)]
struct Ground {
    root: PathBuf,
    /// For making names durable; `None` where the platform has no such thing.
    directory: Option<Arc<File>>,
    durability: Durability,
    committer: Committer,
    order: Order,
    blobs: Blobs,
    /// Sessions that were written to since the index last looked.
    dirty: Mutex<HashSet<SessionId>>,
}

impl SessionDir {
    /// Opens the directory, and makes it (0700) when it is missing. `.triplane/.gitignore` keeps a project's sessions out of its history.
    /// Errors: it cannot be made; `.triplane` or `sessions` in it is a symlink, so that a project would choose where sessions go.
    pub fn open(root: &Path, durability: Durability) -> Result<Self, StoreError> {
        Self::open_with(root, durability, Committer::default())
    }

    fn open_with(root: &Path, durability: Durability, committer: Committer) -> Result<Self, StoreError> {
        let opening = |source| StoreError::Io { doing: "opening the session directory", source };
        let home = root.parent().filter(|parent| parent.file_name().is_some_and(|name| name == ".triplane"));
        for path in home.into_iter().chain(home.map(|_| root)) {
            if path.is_symlink() {
                let text = format!("{} is a symlink", path.display());
                return Err(opening(io::Error::new(io::ErrorKind::InvalidInput, text)));
            }
        }
        files::private_dir(root).map_err(opening)?;
        if let Some(home) = home {
            files::private_dir(home).map_err(opening)?;
            ignore(home).map_err(opening)?;
        }
        let root = root.canonicalize().map_err(opening)?;
        let ground = Ground {
            directory: files::open_dir(&root).map_err(opening)?.map(Arc::new),
            durability,
            committer,
            order: Order::new(root.join("order.log")),
            blobs: Blobs::new(root.join("blobs"), BLOB_BYTES),
            dirty: Mutex::default(),
            root,
        };
        Ok(Self { ground: Arc::new(ground), index: Arc::default(), cache: None })
    }

    /// Has the list's rows kept in `rows` between processes.
    #[must_use]
    pub fn with_cache(mut self, rows: Arc<dyn RowCache>) -> Self {
        self.cache = Some(Arc::new(Kept { rows, loaded: tokio::sync::OnceCell::new() }));
        self
    }

    /// Hands rows to the cache that it does not have yet, those of a small change too.
    pub fn keep_index(&self) {
        self.keep(1);
    }

    /// `least`: how many rows are worth a write.
    fn keep(&self, least: usize) {
        if let Some(cache) = &self.cache
            && let Some((changed, gone)) = self.index.unsaved(least)
        {
            cache.rows.save(changed, gone);
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.ground.root
    }

    /// The transcript's path.
    pub fn path(&self, id: &SessionId) -> PathBuf {
        self.ground.path(id)
    }

    /// File checkpoints.
    pub fn blobs(&self) -> &Blobs {
        &self.ground.blobs
    }

    /// The group commit that all files here share.
    pub fn committer(&self) -> &Committer {
        &self.ground.committer
    }

    /// Takes the session's lock, whether or not there is such a session. Errors: `Held`. Clause: S12.
    pub async fn lock(&self, id: &SessionId, node: &str, takeover: bool) -> Result<Arc<SessionLock>, StoreError> {
        let (ground, id, node) = (self.ground.clone(), id.clone(), node.to_owned());
        blocking(move || SessionLock::acquire(&ground.root, &id, &node, takeover).map(Arc::new)).await
    }

    /// How the session's lock stands. Clause: S06.
    pub async fn lock_state(&self, id: &SessionId) -> Result<LockState, StoreError> {
        let (ground, id) = (self.ground.clone(), id.clone());
        blocking(move || SessionLock::probe(&ground.root, &id).map_err(StoreError::io("looking at the session's lock")))
            .await
    }

    /// Makes an empty transcript; `header` is written with the first append. Errors: `Exists`. Clause: L05.
    pub async fn create(&self, header: Header, lock: Arc<SessionLock>) -> Result<Transcript, StoreError> {
        let path = self.ground.path(&header.id);
        let id = header.id.clone();
        let transcript = Transcript::create(path.clone(), header, lock, self.ground.clone())?;
        if let Err(err) = self.ground.sync_names().await {
            _ = files::remove(&path);
            return Err(err);
        }
        self.ground.written(&id);
        Ok(transcript)
    }

    /// Makes a transcript of `history` under `header` (with its `parent`): whole and durable when this resolves, else not there.
    /// Errors: `Exists`. Clauses: L09, C15.
    pub async fn fork(
        &self,
        history: &History,
        header: Header,
        lock: Arc<SessionLock>,
    ) -> Result<Transcript, StoreError> {
        let (ground, lines) = (self.ground.clone(), history.fork_lines(header.clone()));
        let path = ground.path(&header.id);
        let temp = files::temp_path(&path).map_err(StoreError::io("creating the transcript"))?;
        let mut unnamed = TempFile(Some(temp.clone()));
        let made = blocking(move || {
            let mut transcript = Transcript::create(temp, header, lock, ground)?;
            transcript.write_lines(&lines)?;
            Ok(transcript)
        });
        let mut transcript = made.await?;
        transcript.sync().await?;
        transcript.rename(path)?;
        unnamed.0 = None;
        self.ground.sync_names().await?;
        Ok(transcript)
    }

    /// Opens a transcript for appends; a torn last line is cut off. Errors: `NotFound`, `NewerFormat`.
    pub async fn load(&self, id: &SessionId, lock: Arc<SessionLock>) -> Result<Loaded, StoreError> {
        let (ground, path) = (self.ground.clone(), self.ground.path(id));
        blocking(move || Transcript::load(path, lock, ground)).await
    }

    /// Reads a transcript without a lock and changes nothing. Errors: `NotFound`, `NewerFormat`. Clause: L11.
    pub async fn read(&self, id: &SessionId) -> Result<(History, LoadReport), StoreError> {
        let (path, id) = (self.ground.path(id), id.clone());
        blocking(move || transcript::read(&path, &id)).await
    }

    /// Opens the session's spool for appends; no file is made before the first reservation.
    pub async fn spool(&self, id: &SessionId, lock: Arc<SessionLock>) -> Result<(Spool, SpoolState), StoreError> {
        let (ground, path) = (self.ground.clone(), self.ground.spool_path(id));
        blocking(move || Spool::open(path, lock, ground, SPOOL_BYTES)).await
    }

    /// Removes a session's spool, so that its seq space begins anew with the next load. The lock is the proof that it may.
    pub async fn forget_spool(&self, lock: &SessionLock) -> Result<(), StoreError> {
        let path = self.ground.spool_path(lock.id());
        let removed = blocking(move || Ok(files::remove(&path))).await?;
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(StoreError::io("removing the spool")),
        }
    }

    /// What the spool of a session says, without a lock; `None`: it has none.
    pub async fn spool_state(&self, id: &SessionId) -> Result<Option<SpoolState>, StoreError> {
        let path = self.ground.spool_path(id);
        blocking(move || spool_read::state(&path).map_err(StoreError::io("reading the spool"))).await
    }

    /// Spooled events with a seq above `after`, without a lock: at most `max_events`, and no more once there are `max_bytes`.
    pub async fn replay(
        &self,
        id: &SessionId,
        after: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<SpoolPage, StoreError> {
        let path = self.ground.spool_path(id);
        let page = move || spool_read::page(&path, after, max_events, max_bytes);
        blocking(move || page().map_err(StoreError::io("reading the spool"))).await
    }

    /// Whether a transcript is there (a regular file). One `stat`.
    pub fn exists(&self, id: &SessionId) -> bool {
        fs::symlink_metadata(self.ground.path(id)).is_ok_and(|meta| meta.is_file())
    }

    /// Every transcript, newest write first. Clauses: L06, C13.
    pub async fn list(&self) -> Result<Vec<Stored>, StoreError> {
        let ground = self.ground.clone();
        blocking(move || {
            let found: Vec<(SessionId, Stamp)> = index::transcripts(&ground.root)?.into_iter().collect();
            let sorted = ground.order.newest_first(found, |(id, stamp)| (id, stamp.mtime_ns));
            let stored = |(id, stamp): (SessionId, Stamp)| Stored {
                id,
                mtime_ms: stamp.mtime_ns.div_euclid(1_000_000),
                bytes: stamp.bytes,
            };
            Ok(sorted.into_iter().map(stored).collect())
        })
        .await
    }

    /// A row for every transcript, newest write first. Nothing is opened that was read in this state before. Clauses: H06, S06, C13.
    pub async fn index(&self) -> Result<Arc<[Arc<IndexRow>]>, StoreError> {
        if let Some(rows) = self.index.fresh(&self.ground) {
            return Ok(rows);
        }
        if let Some(cache) = &self.cache {
            cache.loaded.get_or_init(async || self.index.adopt(cache.rows.load().await)).await;
        }
        let (ground, index) = (self.ground.clone(), self.index.clone());
        let rows = blocking(move || index.rows(&ground)).await;
        self.keep(index::WORTH_A_WRITE);
        rows
    }

    /// A whole id, a unique prefix or `latest`. Errors: `NotFound`, `Ambiguous`, `InvalidParams`. Clause: L08.
    pub async fn resolve(&self, text: &str) -> Result<SessionId, StoreError> {
        let prefix = SessionId::parse(text).map_err(StoreError::InvalidParams)?;
        if text.contains("..") {
            return Err(StoreError::InvalidParams("a session id must not hold `..`"));
        }
        let missing = || StoreError::NotFound(text.to_owned());
        if text == "latest" {
            return self.list().await?.into_iter().next().map(|stored| stored.id).ok_or_else(missing);
        }
        if self.exists(&prefix) {
            return Ok(prefix);
        }
        let ground = self.ground.clone();
        let mut found = blocking(move || {
            let all = index::transcripts(&ground.root)?.into_keys();
            Ok(all.filter(|id| id.as_str().starts_with(prefix.as_str())).take(2).collect::<Vec<_>>())
        })
        .await?;
        match (found.pop(), found.pop()) {
            (Some(id), None) => Ok(id),
            (None, _) => Err(missing()),
            (Some(_), Some(_)) => Err(StoreError::Ambiguous(text.to_owned())),
        }
    }

    /// Deletes a session that this process holds: transcript, spool, lock. Errors: `NotFound`, `Fenced`. Clause: S16.
    pub async fn delete(&self, lock: Arc<SessionLock>) -> Result<(), StoreError> {
        let ground = self.ground.clone();
        blocking(move || {
            let id = lock.id();
            lock.fenced_write(|| {
                files::remove(&ground.path(id)).map_err(transcript::missing(id))?;
                // Without the transcript the rest means nothing: what cannot be removed now is no session.
                for kind in ["events", "holder", "lock"] {
                    _ = files::remove(&ground.root.join(format!("{id}.{kind}")));
                }
                Ok(())
            })
        })
        .await?;
        self.ground.sync_names().await
    }
}

impl Ground {
    fn path(&self, id: &SessionId) -> PathBuf {
        self.root.join(format!("{id}.jsonl"))
    }

    fn spool_path(&self, id: &SessionId) -> PathBuf {
        self.root.join(format!("{id}.events"))
    }

    /// Makes new and removed names durable, as far as the store promises.
    async fn sync_names(&self) -> Result<(), StoreError> {
        match &self.directory {
            Some(directory) if self.durability == Durability::Fsync => {
                self.committer.sync(directory).await.map_err(StoreError::io("syncing the session directory"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A transcript was written to.
    fn written(&self, id: &SessionId) {
        // The record of the order is no promise to anybody: a write is not refused for it.
        if let Err(err) = self.order.touch(id) {
            tracing::warn!(session = %id, error = %err, "order.log could not be written");
        }
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if !dirty.contains(id) {
            dirty.insert(id.clone());
        }
    }

    fn has_dirty(&self) -> bool {
        !self.dirty.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take_dirty(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Removed unless it got its name.
#[derive(Debug)]
struct TempFile(Option<PathBuf>);

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            _ = fs::remove_file(path);
        }
    }
}

fn ignore(home: &Path) -> io::Result<()> {
    match files::open(&home.join(".gitignore"), files::Access::CreateNew) {
        Ok(file) => files::write_at(&file, b"/sessions/\n", 0),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(err) => Err(err),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|err| StoreError::Corrupt(format!("a store call did not end: {err}")))?
}

#[cfg(test)]
mod tests;
