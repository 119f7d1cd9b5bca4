//! What is on disk: transcripts, spools, blobs, locks.

mod blobs;
mod commit;
mod error;
mod history;
mod lock;
mod spool;
mod transcript;

pub use blobs::{Blobs, hash};
pub use commit::Committer;
pub use error::StoreError;
pub use history::{History, Line, Unknown};
pub use lock::{Holder, LockState, SessionLock};
pub use spool::{BLOCK, Spool, SpoolPage, SpoolState};
pub use transcript::{LoadReport, Loaded, Transcript};

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use triplane_protocol::{SessionId, record::Header};

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
#[derive(Debug, Clone, PartialEq)]
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
pub struct SessionDir {}

impl SessionDir {
    /// Opens (and makes) the directory. Errors: it cannot be made, or a project made it a symlink.
    pub fn open(_root: &Path, _durability: Durability) -> Result<Self, StoreError> {
        Ok(Self {})
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        unreachable!()
    }

    /// The transcript's path.
    pub fn path(&self, _id: &SessionId) -> PathBuf {
        PathBuf::new()
    }

    /// File checkpoints.
    pub fn blobs(&self) -> &Blobs {
        unreachable!()
    }

    /// The group commit that all files here share.
    pub fn committer(&self) -> &Committer {
        unreachable!()
    }

    /// Takes the session's lock. Errors: `Held`.
    pub async fn lock(&self, _id: &SessionId, _node: &str, _takeover: bool) -> Result<Arc<SessionLock>, StoreError> {
        Ok(Arc::new(SessionLock::acquire(Path::new(""), _id, _node, _takeover)?))
    }

    /// How the session's lock stands.
    pub async fn lock_state(&self, _id: &SessionId) -> Result<LockState, StoreError> {
        Ok(LockState::Free)
    }

    /// Makes an empty transcript; `header` is written with the first append. Errors: `Exists`. Clause: L05.
    pub async fn create(&self, header: Header, _lock: Arc<SessionLock>) -> Result<Transcript, StoreError> {
        Err(StoreError::Exists(header.id.to_string()))
    }

    /// Makes a transcript of `history` under `header` (with its `parent`), durable when this resolves.
    /// Errors: `Exists`. Clauses: L09, C15.
    pub async fn fork(
        &self,
        _history: &History,
        header: Header,
        _lock: Arc<SessionLock>,
    ) -> Result<Transcript, StoreError> {
        Err(StoreError::Exists(header.id.to_string()))
    }

    /// Opens a transcript for appends; a torn last line is cut off. Errors: `NotFound`, `NewerFormat`.
    pub async fn load(&self, id: &SessionId, _lock: Arc<SessionLock>) -> Result<Loaded, StoreError> {
        Err(StoreError::NotFound(id.to_string()))
    }

    /// Reads a transcript without a lock and changes nothing. Errors: `NotFound`, `NewerFormat`.
    pub async fn read(&self, id: &SessionId) -> Result<(History, LoadReport), StoreError> {
        Err(StoreError::NotFound(id.to_string()))
    }

    /// Opens the session's spool for appends; no file is made before the first reservation.
    pub async fn spool(&self, id: &SessionId, _lock: Arc<SessionLock>) -> Result<(Spool, SpoolState), StoreError> {
        Err(StoreError::NotFound(id.to_string()))
    }

    /// What the spool of a session says, without a lock; `None`: it has none.
    pub async fn spool_state(&self, _id: &SessionId) -> Result<Option<SpoolState>, StoreError> {
        Ok(None)
    }

    /// Spooled events with a seq above `after`, without a lock. At most `max_events` and about `max_bytes`, but at least one.
    pub async fn replay(
        &self,
        _id: &SessionId,
        _after: u64,
        _max_events: usize,
        _max_bytes: usize,
    ) -> Result<SpoolPage, StoreError> {
        Ok(SpoolPage::default())
    }

    /// Whether a transcript is there (a regular file).
    pub fn exists(&self, _id: &SessionId) -> bool {
        false
    }

    /// Every transcript, newest write first. Clauses: L06, C13.
    pub async fn list(&self) -> Result<Vec<Stored>, StoreError> {
        Ok(Vec::new())
    }

    /// A row for every transcript, newest write first. Clauses: H06, S06, C13.
    pub async fn index(&self) -> Result<Arc<[Arc<IndexRow>]>, StoreError> {
        Ok(Arc::new([]))
    }

    /// A whole id, a unique prefix or `latest`. Errors: `NotFound`, `Ambiguous`, `InvalidParams`. Clause: L08.
    pub async fn resolve(&self, text: &str) -> Result<SessionId, StoreError> {
        Err(StoreError::NotFound(text.to_owned()))
    }

    /// Deletes a session that this process holds: transcript, spool, lock. Errors: `NotFound`, `Fenced`.
    pub async fn delete(&self, _lock: Arc<SessionLock>) -> Result<(), StoreError> {
        Ok(())
    }
}
