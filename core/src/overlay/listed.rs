//! The list's rows of one directory, kept in the overlay's file. Each row is one JSON text, so that another version's row is simply
//! not understood, and its transcript read again. Two processes may write the same row: each says of which state of the file it is.

use super::{Overlay, OverlayError};
use crate::store::{Cached, RowCache};
use async_trait::async_trait;
use rusqlite::{Connection, params};
use triplane_protocol::SessionId;

/// Rows of one home; with more, those of other directories go.
const ROWS: i64 = 200_000;

#[async_trait]
impl RowCache for Overlay {
    async fn load(&self) -> Vec<Cached> {
        let dir = self.dir();
        // Whoever has no overlay reads transcripts.
        self.read(move |db| load(&db.conn, &dir)).await.unwrap_or_default()
    }

    fn save(&self, changed: Vec<Cached>, gone: Vec<SessionId>) {
        let dir = self.dir();
        self.post(move |conn| save(conn, &dir, &changed, &gone));
    }
}

fn load(conn: &Connection, dir: &str) -> Result<Vec<Cached>, OverlayError> {
    let mut stmt = conn.prepare("SELECT row FROM listed WHERE dir = ?1")?;
    let mut rows = stmt.query([dir])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().unwrap_or_default();
        found.extend(serde_json::from_str::<Cached>(text).ok());
    }
    Ok(found)
}

fn save(conn: &Connection, dir: &str, changed: &[Cached], gone: &[SessionId]) -> Result<(), OverlayError> {
    let mut put = conn.prepare_cached("INSERT OR REPLACE INTO listed (dir, session, row) VALUES (?1, ?2, ?3)")?;
    for cached in changed {
        let Ok(text) = serde_json::to_string(cached) else { continue };
        put.execute(params![dir, cached.row.id.as_str(), text])?;
    }
    let mut drop = conn.prepare_cached("DELETE FROM listed WHERE dir = ?1 AND session = ?2")?;
    for id in gone {
        drop.execute(params![dir, id.as_str()])?;
    }
    let count: i64 = conn.prepare_cached("SELECT count(*) FROM listed")?.query_row([], |row| row.get(0))?;
    if count > ROWS {
        conn.execute("DELETE FROM listed WHERE dir <> ?1", [dir])?;
    }
    Ok(())
}
