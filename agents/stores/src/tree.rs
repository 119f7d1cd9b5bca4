//! Formats that keep a session in files of its own: rows by (path, time, size), read once for each state of a file.
//! Invariant: a file that did not change since its last row was made is not opened for a list.

use crate::{files, threaded::Store, threaded::missing, time};
use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
    time::SystemTime,
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Session, SessionId};

/// Threads that open files at once.
const READERS: usize = 4;

/// The file of a session whose state tells whether its row is still right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// Its id, when the name tells it.
    pub(crate) id: Option<SessionId>,
}

/// What a row is made from, beside the file.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: PathBuf,
    pub(crate) id: Option<SessionId>,
    /// Milliseconds since the epoch, of the last write. Formats do not set it back: agents delete sessions by it.
    pub(crate) updated: i64,
}

/// A format of files.
pub(crate) trait Format: Send + Sync + 'static {
    /// All sessions by name; opens none.
    fn entries(&self) -> io::Result<Vec<Entry>>;
    /// The row; `None` for what is no session.
    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>>;
    /// The whole session.
    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure>;
    /// Writes one.
    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure>;
    /// Deletes one that nobody has open.
    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure>;
}

/// A store of such files.
pub(crate) struct Tree<F> {
    pub(crate) format: F,
    rows: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Clone)]
struct Known {
    time: SystemTime,
    size: u64,
    row: Option<StoreRow>,
}

impl<F: Format> Tree<F> {
    pub(crate) fn new(format: F) -> Self {
        Self { format, rows: Mutex::default() }
    }

    /// Rows of all files, by path; those that changed are read by several threads.
    fn rows(&self) -> Result<Vec<(PathBuf, StoreRow)>, StoreFailure> {
        let entries = self.format.entries().map_err(files::failed("reading the store"))?;
        let known = std::mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner));
        let share = entries.len().div_ceil(READERS).max(1);
        let read = |entries: &[Entry]| entries.iter().filter_map(|entry| self.look(entry, &known)).collect::<Vec<_>>();
        let looked: Vec<(PathBuf, Known)> = match entries.len() {
            0..64 => read(&entries),
            _ => thread::scope(|scope| {
                let threads: Vec<_> = entries.chunks(share).map(|some| scope.spawn(|| read(some))).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
            }),
        };
        let rows = looked.iter().filter_map(|(path, known)| Some((path.clone(), known.row.clone()?))).collect();
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).extend(looked);
        Ok(rows)
    }

    fn look(&self, entry: &Entry, known: &HashMap<PathBuf, Known>) -> Option<(PathBuf, Known)> {
        let meta = fs::symlink_metadata(&entry.path).ok().filter(fs::Metadata::is_file)?;
        let (time, size) = (meta.modified().ok()?, meta.len());
        if let Some(known) = known.get(&entry.path).filter(|known| known.time == time && known.size == size) {
            return Some((entry.path.clone(), known.clone()));
        }
        let seen = Seen { path: entry.path.clone(), id: entry.id.clone(), updated: time::of(time) };
        let row = self.format.row(&seen).unwrap_or_else(|error| {
            tracing::warn!(file = %entry.path.display(), %error, "a session is not listed");
            None
        });
        Some((entry.path.clone(), Known { time, size, row }))
    }

    fn find(&self, id: &SessionId) -> Result<Option<Seen>, StoreFailure> {
        let entries = self.format.entries().map_err(files::failed("reading the store"))?;
        let mut path = entries.iter().find(|entry| entry.id.as_ref() == Some(id)).map(|entry| entry.path.clone());
        if path.is_none() && entries.iter().any(|entry| entry.id.is_none()) {
            path = self.rows()?.into_iter().find(|(_, row)| row.id == *id).map(|(path, _)| path);
        }
        let Some(path) = path else { return Ok(None) };
        let Some(meta) = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file) else { return Ok(None) };
        let updated = meta.modified().map_or(0, time::of);
        Ok(Some(Seen { path, id: Some(id.clone()), updated }))
    }
}

impl<F: Format> Store for Tree<F> {
    fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        Ok(self.rows()?.into_iter().map(|(_, row)| row).collect())
    }

    fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        Ok(self.find(id)?.is_some())
    }

    fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        self.format.load(&self.find(id)?.ok_or_else(|| missing(id))?)
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        if let Some(id) = id
            && self.has(id)?
        {
            let text = format!("id: a session `{id}` exists already; leave the id out for a fresh one");
            return Err(StoreFailure::new(triplane_protocol::ErrorCode::Invalid, text));
        }
        self.format.save(session, id)
    }

    fn delete(&self, id: &SessionId) -> Result<(), StoreFailure> {
        let seen = self.find(id)?.ok_or_else(|| missing(id))?;
        files::must_be_free(&[&seen.path])?;
        self.format.delete(&seen)
    }
}
