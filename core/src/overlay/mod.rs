//! What people say of sessions, beside the transcripts: titles, pins, archives, projects, a preferred model; when a session was
//! live; and what `create` was given until the transcript has its first line. One SQLite file, `plane.db` in the home directory.
//!
//! Invariants: what a call answers is committed before, as durable as the plane promises; "database is locked" reaches nobody;
//! nothing here changes a transcript, or the order of sessions (C13). Nothing is opened before it is needed.
//! A file that cannot be opened costs the overlay and nothing else. Clauses: C12, C16, S06, S14, S17, S18, S28.
//!
//! - `types`: what is kept. `rows`: the statements. `listed`: rows of the list, a cache. `schema`: the file, its mode, its versions. `lane`: the threads that own connections.

mod lane;
mod listed;
mod rows;
mod schema;
mod types;

pub use types::{Meta, MetaPatch, OverlayError, Pending, Project, Span};

use crate::store::Durability;
use lane::{Kind, Lane};
use schema::Place;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use triplane_protocol::SessionId;

/// What was said of sessions, by id; those of which nothing was said are not in it.
pub type Metas = HashMap<SessionId, Arc<Meta>>;

/// Projects that one session may be in.
pub const MEMBERSHIPS: usize = 256;

/// Projects of one home.
pub const PROJECTS: u32 = 10_000;

/// The overlay of one home. Cheap to clone; its threads and its file are there from the first call that needs them.
#[derive(Debug, Clone)]
pub struct Overlay {
    lanes: Option<Arc<Lanes>>,
}

#[derive(Debug)]
struct Lanes {
    place: Arc<Place>,
    /// Sessions of other directories are told apart by this.
    dir: String,
    /// Reads do not wait for a write that is being synced, nor for another process that writes.
    reads: Lane,
    writes: Lane,
    posted: Arc<AtomicU64>,
    /// The last trouble that was logged, so that it is logged once.
    logged: Mutex<Option<OverlayError>>,
}

impl Overlay {
    /// The overlay in `home` for the sessions of `dir`. Touches nothing.
    pub fn new(home: &Path, dir: &Path, durability: Durability) -> Self {
        let place = Arc::new(Place::new(home));
        let synced = durability == Durability::Fsync;
        let lanes = Lanes {
            dir: dir.to_string_lossy().into_owned(),
            reads: Lane::new(Kind::Read, place.clone()),
            writes: Lane::new(Kind::Write { synced }, place.clone()),
            place,
            posted: Arc::default(),
            logged: Mutex::default(),
        };
        Self { lanes: Some(Arc::new(lanes)) }
    }

    /// No overlay: reads find nothing, changes answer [`OverlayError::Absent`]. Clause: S28.
    pub const fn off() -> Self {
        Self { lanes: None }
    }

    /// The file; `None` without an overlay.
    pub fn path(&self) -> Option<PathBuf> {
        self.lanes.as_ref().map(|lanes| lanes.place.path().to_owned())
    }

    /// What was said of all sessions, by whatever process. Read again only when something was said since.
    pub async fn metas(&self) -> Result<Arc<Metas>, OverlayError> {
        self.read(|db| db.metas()).await
    }

    /// What was said of one session.
    pub async fn meta(&self, id: &SessionId) -> Result<Arc<Meta>, OverlayError> {
        Ok(self.metas().await?.get(id).cloned().unwrap_or_default())
    }

    /// Changes what is said of a session, all or nothing; answers with what it is then.
    /// Errors: `NoProject` for a project that is not there. Clause: S17.
    pub async fn patch(&self, id: &SessionId, patch: MetaPatch) -> Result<Meta, OverlayError> {
        let id = id.clone();
        self.write(move |conn| rows::patch(conn, &id, patch)).await
    }

    /// Every project, oldest first. Clause: S18.
    pub async fn projects(&self) -> Result<Vec<Project>, OverlayError> {
        self.read(|db| rows::projects(&db.conn)).await
    }

    /// Makes a project. Errors: `Full`.
    pub async fn create_project(&self, project: Project) -> Result<Project, OverlayError> {
        self.write(move |conn| rows::create_project(conn, project)).await
    }

    /// Gives a project another name. Errors: `NoProject`.
    pub async fn rename_project(&self, id: String, name: String) -> Result<Project, OverlayError> {
        self.write(move |conn| rows::rename_project(conn, &id, &name)).await
    }

    /// Deletes a project, and takes it out of every session in the same moment. Errors: `NoProject`.
    pub async fn delete_project(&self, id: String) -> Result<(), OverlayError> {
        self.write(move |conn| rows::delete_project(conn, &id)).await
    }

    /// Keeps what `create` was given until the transcript has a line. Clauses: S06, S14.
    pub async fn keep_pending(&self, pending: Pending) -> Result<(), OverlayError> {
        let dir = self.dir();
        self.write(move |conn| rows::keep_pending(conn, &dir, &pending)).await
    }

    /// What `create` was given for this session.
    pub async fn pending(&self, id: &SessionId) -> Result<Option<Pending>, OverlayError> {
        let (dir, id) = (self.dir(), id.clone());
        self.read(move |db| rows::pending(&db.conn, &dir, &id)).await
    }

    /// The same for all sessions of the directory.
    pub async fn all_pending(&self) -> Result<HashMap<SessionId, Pending>, OverlayError> {
        let dir = self.dir();
        self.read(move |db| rows::all_pending(&db.conn, &dir)).await
    }

    /// The transcript has its first line: what `create` was given is in it. Not awaited; what is left over is swept later.
    pub fn flushed(&self, id: &SessionId) {
        let (dir, id) = (self.dir(), id.clone());
        self.post(move |conn| rows::drop_pending(conn, &dir, &id));
    }

    /// A session went live. A span that a killed process left open ends at `last_write`. Not awaited.
    pub fn opened(&self, id: &SessionId, generation: u64, span: Span, last_write: i64) {
        let id = id.clone();
        self.post(move |conn| rows::open_span(conn, &id, generation, &span, last_write));
    }

    /// A session is live no more. Not awaited.
    pub fn closed(&self, id: &SessionId, generation: u64, at: i64) {
        let id = id.clone();
        self.post(move |conn| rows::close_span(conn, &id, generation, at));
    }

    /// The times that sessions were live, oldest first; `id`: of one session.
    pub async fn spans(&self, id: Option<&SessionId>) -> Result<HashMap<SessionId, Vec<Span>>, OverlayError> {
        self.settle().await;
        let id = id.cloned();
        self.read(move |db| rows::spans(&db.conn, id.as_ref())).await
    }

    /// Takes everything away that is kept of a session that was deleted.
    pub async fn forget(&self, id: &SessionId) -> Result<(), OverlayError> {
        if self.lanes.as_ref().is_some_and(|lanes| !lanes.is_there()) {
            return Ok(());
        }
        let (dir, id) = (self.dir(), id.clone());
        self.write(move |conn| rows::forget(conn, &dir, &id)).await
    }

    /// Everything that was handed in is written, and the file is closed. A later call opens it again.
    pub async fn close(&self) {
        if let Some(lanes) = &self.lanes {
            lanes.writes.close().await;
            lanes.reads.close().await;
        }
    }

    /// Logs what kept a read from the overlay, once, and goes on without.
    pub(crate) fn without<T: Default>(&self, read: Result<T, OverlayError>) -> T {
        let Some(lanes) = &self.lanes else { return T::default() };
        let mut logged = lanes.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(read) => {
                *logged = None;
                read
            }
            Err(error) => {
                if logged.as_ref() != Some(&error) {
                    tracing::warn!(path = %lanes.place.path().display(), %error, "sessions are shown without the overlay");
                    *logged = Some(error);
                }
                T::default()
            }
        }
    }

    fn dir(&self) -> String {
        self.lanes.as_ref().map(|lanes| lanes.dir.clone()).unwrap_or_default()
    }

    /// Waits for what was posted, so that a reader sees what its own process said; not for long, since others may hold the file.
    async fn settle(&self) {
        let Some(lanes) = &self.lanes else { return };
        if lanes.posted.load(Ordering::Acquire) > 0 {
            let written = lanes.writes.call(false, |_| Ok(()));
            // A reader is better off with the state of a moment ago than with none.
            let _ = tokio::time::timeout(lane::SETTLE, written).await;
        }
    }

    async fn read<T, F>(&self, op: F) -> Result<T, OverlayError>
    where
        T: Default + Send + 'static,
        F: FnOnce(&mut lane::Db) -> Result<T, OverlayError> + Send + 'static,
    {
        let lanes = self.lanes.as_ref().ok_or_else(OverlayError::off)?;
        if !lanes.is_there() {
            return Ok(T::default());
        }
        lanes.reads.call(false, op).await
    }

    async fn write<T, F>(&self, op: F) -> Result<T, OverlayError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, OverlayError> + Send + 'static,
    {
        let lanes = self.lanes.as_ref().ok_or_else(OverlayError::off)?;
        lanes.writes.call(true, |db| op(&db.conn)).await
    }

    fn post(&self, op: impl FnOnce(&rusqlite::Connection) -> Result<(), OverlayError> + Send + 'static) {
        let Some(lanes) = &self.lanes else { return };
        let posted = lanes.posted.clone();
        posted.fetch_add(1, Ordering::AcqRel);
        lanes.writes.post(
            move |db| op(&db.conn),
            move |done| {
                posted.fetch_sub(1, Ordering::AcqRel);
                // Whoever needs an answer gets one by other calls; a plane without an overlay would say so with every session.
                match done {
                    Ok(()) | Err(OverlayError::Absent(_)) => {}
                    Err(error) => tracing::warn!(%error, "a note on a session was lost"),
                }
            },
        );
    }
}

impl Lanes {
    /// Whether there is anything to read. One `stat`.
    fn is_there(&self) -> bool {
        self.place.path().symlink_metadata().is_ok()
    }
}

#[cfg(test)]
mod tests;
