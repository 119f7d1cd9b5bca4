//! Cursor's command: one small SQLite database a session, `chats/<hash of the directory>/<uuid>/store.db`, with blobs by the
//! hash of their bytes: messages as JSON, and lists that link to them. Read only; it keeps no times of messages.

use crate::{
    build::{Build, Draft, call_id, list, text},
    files, ids,
    opencode::{failed, open},
    threaded::read_only,
    time::ms,
    tree::{Entry, Format, Seen},
};
use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};
use std::{collections::HashSet, io, path::PathBuf};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Part, Role, Session, SessionId};

/// Blobs of one session at most.
const BLOBS: usize = 100_000;

/// The store below `~/.cursor`.
pub(crate) struct Cursor {
    pub(crate) dir: PathBuf,
}

impl Format for Cursor {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for project in files::names(&self.dir.join("chats"))? {
            for dir in files::names(&project)? {
                let id = SessionId::parse(files::name(&dir)).ok();
                entries.extend(id.map(|id| Entry { path: dir.join("store.db"), id: Some(id) }));
            }
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        let meta = database(seen).and_then(|db| meta(&db)).map_err(|failure| io::Error::other(failure.message))?;
        Ok(Some(sketch(&meta).row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let id = seen.id.clone().map_or_else(|| ids::parse("cursor"), Ok)?;
        let db = database(seen)?;
        let meta = meta(&db)?;
        let draft = sketch(&meta);
        let at = draft.created.unwrap_or(seen.updated);
        let mut build = Build::default();
        let mut walk = Walk { db: &db, seen: HashSet::new(), build: &mut build, at };
        if let Some(root) = text(&meta, "/latestRootBlobId") {
            walk.blob(root, 0)?;
        }
        Ok(build.session("cursor", draft.row(id, seen.updated)))
    }

    fn save(&self, _session: &Session, _id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        read_only("Cursor")
    }

    fn delete(&self, _seen: &Seen) -> Result<(), StoreFailure> {
        read_only("Cursor")
    }
}

fn database(seen: &Seen) -> Result<Connection, StoreFailure> {
    open(&seen.path, false)?.ok_or_else(|| files::failed("reading the session")(io::ErrorKind::NotFound.into()))
}

/// What the session says of itself: JSON, in hexadecimal.
fn meta(db: &Connection) -> Result<Value, StoreFailure> {
    let found = db.query_row("SELECT CAST(value AS TEXT) FROM meta WHERE key = '0'", [], |row| row.get::<_, String>(0));
    let found = found.optional().map_err(failed)?.unwrap_or_default();
    let bytes: Option<Vec<u8>> =
        (0..found.len() / 2).map(|at| u8::from_str_radix(found.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .or_else(|| serde_json::from_str(&found).ok())
        .unwrap_or_default())
}

fn sketch(meta: &Value) -> Draft {
    Draft {
        cwd: None,
        titles: [text(meta, "/name").map(str::to_owned), None, None],
        model: text(meta, "/lastUsedModel").map(str::to_owned),
        created: meta.get("createdAt").and_then(ms),
    }
}

struct Walk<'a> {
    db: &'a Connection,
    seen: HashSet<String>,
    build: &'a mut Build,
    at: i64,
}

impl Walk<'_> {
    /// Takes a blob: a message, or a list whose links are followed in order.
    fn blob(&mut self, id: &str, depth: u8) -> Result<(), StoreFailure> {
        if depth > 16 || self.seen.len() > BLOBS || !self.seen.insert(id.to_owned()) {
            return Ok(());
        }
        let found = self.db.query_row("SELECT data FROM blobs WHERE id = ?", [id], |row| row.get::<_, Vec<u8>>(0));
        let Some(data) = found.optional().map_err(failed)? else { return Ok(()) };
        match serde_json::from_slice::<Value>(&data) {
            Ok(message) => take(self.build, &message, self.at),
            Err(_) => {
                for link in links(&data) {
                    self.blob(&link, depth + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// The hashes in a list: each behind the bytes 0x0A 0x20.
fn links(data: &[u8]) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = data;
    while let [0x0a, 0x20, after @ ..] = rest {
        let Some((hash, behind)) = after.split_at_checked(32) else { break };
        links.push(hash.iter().map(|byte| format!("{byte:02x}")).collect());
        rest = behind;
    }
    links
}

fn take(build: &mut Build, message: &Value, at: i64) {
    let content = message.get("content").unwrap_or(&Value::Null);
    let (mut said, mut results) = (Vec::new(), Vec::new());
    said.extend(content.as_str().map(Part::text));
    for part in list(content, "") {
        match text(part, "/type") {
            Some("text") => said.extend(text(part, "/text").map(Part::text)),
            Some("reasoning") => {
                let signature = text(part, "/signature").map(str::to_owned);
                said.extend(text(part, "/text").map(|thought| Part::thinking(thought, signature)));
            }
            Some("tool-call") => {
                let input = part.get("args").cloned().unwrap_or_else(|| json!({}));
                let id = call_id(text(part, "/toolCallId").unwrap_or_default());
                said.push(Part::call(id, text(part, "/toolName").unwrap_or("tool"), input));
            }
            Some("tool-result") => {
                let output = match part.get("result") {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                let id = call_id(text(part, "/toolCallId").unwrap_or_default());
                results.push(Part::result(id, vec![Part::text(output)], false));
            }
            Some(_) | None => said.extend(part.as_object().cloned().map(Part::Other)),
        }
    }
    let role = match text(message, "/role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        // Instructions of the agent itself.
        Some(_) | None => return,
    };
    let id = text(message, "/id");
    build.push(id, role, said, at);
    build.push(id, Role::Tool, results, at);
}
