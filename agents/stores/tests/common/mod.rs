//! A home directory with every store in it.

use std::path::Path;
use tempfile::TempDir;
use triplane_core::agent::{Saved, SessionStore};
use triplane_protocol::Session;
use triplane_stores::Kind;

/// The stores of one home.
pub(crate) struct Bed {
    pub(crate) dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        schema(&dir.path().join(".local/share/opencode/opencode.db"));
        Self { dir, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap() }
    }

    pub(crate) fn store(&self, kind: Kind) -> std::sync::Arc<dyn SessionStore> {
        let home = match kind {
            Kind::Opencode => ".local/share/opencode".to_owned(),
            other => format!(".{}", other.id()),
        };
        kind.store(self.dir.path().join(home), Vec::new())
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let within = async { tokio::time::timeout(std::time::Duration::from_secs(60), future).await };
        self.runtime.block_on(within).expect("an answer in time")
    }

    /// Into a store and out again.
    pub(crate) fn round(&self, kind: Kind, session: &Session) -> (Saved, Session) {
        let store = self.store(kind);
        let saved = self.wait(store.save(session, None)).unwrap_or_else(|error| panic!("{}: {error}", kind.id()));
        let back = self.wait(store.load(&saved.id)).unwrap_or_else(|error| panic!("{}: {error}", kind.id()));
        (saved, back)
    }
}

/// The tables of opencode that a session lies in.
pub(crate) fn schema(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE project(id TEXT PRIMARY KEY, worktree TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, sandboxes TEXT NOT NULL);
         CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT NOT NULL REFERENCES project(id) ON DELETE CASCADE, parent_id TEXT, slug TEXT NOT NULL,
             directory TEXT NOT NULL, title TEXT NOT NULL, version TEXT NOT NULL, agent TEXT, model TEXT, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
         CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
         CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT NOT NULL REFERENCES message(id) ON DELETE CASCADE, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);",
    )
    .unwrap();
}
