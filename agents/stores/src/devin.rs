//! Devin: one SQLite database. A session is a tree of nodes; its main chain goes from the head to the root. Read only.

use crate::{
    build::{Build, call_id, count, list, text},
    opencode::{failed, open},
    threaded::{Store, missing, read_only},
    time,
};
use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};
use std::{collections::HashSet, path::PathBuf};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Part, Role, Session, SessionId, Usage};

const COLUMNS: &str = "id, working_directory, title, model, created_at, last_activity_at, main_chain_id";

/// Nodes of one session at most; a chain that bites its tail ends too.
const NODES: usize = 1_000_000;

/// The database.
pub(crate) struct Devin {
    pub(crate) path: PathBuf,
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<(StoreRow, Option<i64>)>> {
    let Ok(id) = SessionId::parse(&row.get::<_, String>(0)?) else { return Ok(None) };
    let ms = |at: i64| -> rusqlite::Result<i64> {
        Ok(time::ms(&json!(row.get::<_, f64>(at as usize)?)).unwrap_or_default())
    };
    let found = StoreRow {
        id,
        cwd: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
        title: row.get::<_, Option<String>>(2)?.filter(|title| !title.is_empty()),
        model: row.get(3)?,
        created: ms(4)?,
        updated: ms(5)?,
    };
    Ok(Some((found, row.get(6)?)))
}

impl Store for Devin {
    fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        let Some(db) = open(&self.path, false)? else { return Ok(Vec::new()) };
        let mut select = db.prepare(&format!("SELECT {COLUMNS} FROM sessions WHERE hidden = 0")).map_err(failed)?;
        let rows = select.query_map([], row).map_err(failed)?;
        Ok(rows.filter_map(|row| row.ok().flatten()).map(|(row, _)| row).collect())
    }

    fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        let Some(db) = open(&self.path, false)? else { return Ok(false) };
        let found = db.query_row("SELECT 1 FROM sessions WHERE id = ?", [id.as_str()], |_| Ok(())).optional();
        Ok(found.map_err(failed)?.is_some())
    }

    fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        let mut db = open(&self.path, false)?.ok_or_else(|| missing(id))?;
        let db = db.transaction().map_err(failed)?;
        let found = db.query_row(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?"), [id.as_str()], row);
        let (row, mut head) = found.optional().map_err(failed)?.flatten().ok_or_else(|| missing(id))?;
        let mut node = db
            .prepare("SELECT parent_node_id, chat_message, created_at FROM message_nodes WHERE session_id = ? AND node_id = ?")
            .map_err(failed)?;
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        while let Some(at) = head.filter(|at| chain.len() < NODES && seen.insert(*at)) {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, String>(1)?, row.get::<_, f64>(2)?))
            };
            let Some((parent, message, at)) =
                node.query_row(params![id.as_str(), at], read).optional().map_err(failed)?
            else {
                break;
            };
            if let Ok(message) = serde_json::from_str::<Value>(&message) {
                chain.push((message, time::ms(&json!(at)).unwrap_or_default()));
            }
            head = parent;
        }
        let (mut build, mut told) = (Build::default(), HashSet::new());
        for (message, at) in chain.into_iter().rev() {
            // Nodes are played again after a restart.
            let again = text(&message, "/message_id").is_some_and(|id| !told.insert(id.to_owned()));
            if !again {
                take(&mut build, &message, at);
            }
        }
        Ok(build.session("devin", row))
    }

    fn save(&self, _session: &Session, _id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        read_only("Devin")
    }

    fn delete(&self, _id: &SessionId) -> Result<(), StoreFailure> {
        read_only("Devin")
    }
}

fn take(build: &mut Build, message: &Value, at: i64) {
    let id = text(message, "/message_id");
    let said = text(message, "/content").filter(|said| !said.is_empty()).map(Part::text);
    match text(message, "/role") {
        Some("user") => {
            let typed = message.pointer("/metadata/is_user_input").and_then(Value::as_bool).unwrap_or(true);
            if typed {
                build.push(id, Role::User, said.into_iter().collect(), at);
            }
        }
        Some("assistant") => {
            let thought = text(message, "/thinking").filter(|thought| !thought.is_empty());
            let mut parts: Vec<Part> =
                thought.map(|thought| Part::thinking(thought, None)).into_iter().chain(said).collect();
            for call in list(message, "/tool_calls") {
                let input = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
                parts.push(Part::call(
                    call_id(text(call, "/id").unwrap_or_default()),
                    text(call, "/name").unwrap_or("tool"),
                    input,
                ));
            }
            if let Some(made) = build.push(id, Role::Assistant, parts, at) {
                made.model = text(message, "/metadata/generation_model").map(str::to_owned);
                made.usage = message.pointer("/metadata/metrics").filter(|metrics| metrics.is_object()).map(usage);
            }
        }
        Some("tool") => {
            let done =
                message.pointer("/metadata/extensions/chisel~1tool_result_meta/success").and_then(Value::as_bool);
            let call = call_id(text(message, "/tool_call_id").unwrap_or_default());
            build.push(id, Role::Tool, vec![Part::result(call, said.into_iter().collect(), done == Some(false))], at);
        }
        // Instructions of the agent itself.
        Some(_) | None => {}
    }
}

fn usage(metrics: &Value) -> Usage {
    let read = count(metrics, "/cache_read_tokens");
    let input =
        count(metrics, "/input_tokens").saturating_add(read).saturating_add(count(metrics, "/cache_creation_tokens"));
    Usage { input, output: count(metrics, "/output_tokens"), cached: read, ..Usage::default() }
}
