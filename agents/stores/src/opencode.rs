//! opencode: one SQLite database in WAL mode, which the agent may have open. Sessions, messages and parts are rows whose
//! `data` is JSON; order is by id. Every write is one transaction, so nobody sees a part of a session.

use crate::{
    build::{Build, call_id, count, text},
    flat::{Block, Flat, Holds, Lost, Out, Thinking, flatten, output_text},
    ids,
    threaded::{Store, missing},
    time,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{ErrorCode, Message, Part, Role, Session, SessionId, Stop, Usage};

/// How long a write waits for the agent's own.
const PATIENCE: Duration = Duration::from_secs(5);

const HOLDS: Holds = Holds {
    agent: "opencode",
    thinking: Thinking::Both,
    images: true,
    result_images: false,
    errors: true,
    usage: true,
    reasoning: true,
    cost: true,
    stop: false,
};

/// The database.
pub(crate) struct Opencode {
    pub(crate) path: PathBuf,
}

/// What the database said.
pub(crate) fn failed(error: rusqlite::Error) -> StoreFailure {
    let busy = matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    );
    let code = if busy { ErrorCode::Locked } else { ErrorCode::Unavailable };
    StoreFailure::new(code, format!("its database: {error}"))
}

/// Opens a database that is there; `None` when it is not.
pub(crate) fn open(path: &std::path::Path, write: bool) -> Result<Option<Connection>, StoreFailure> {
    if !path.is_file() {
        return Ok(None);
    }
    let mode = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    Ok(Some(connection))
}

impl Opencode {
    fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<StoreRow>> {
        let model: Option<String> = row.get(3)?;
        let model = model.and_then(|model| serde_json::from_str::<Value>(&model).ok());
        let model = model.and_then(|model| {
            Some(format!(
                "{}/{}",
                text(&model, "/providerID")?,
                text(&model, "/id").or_else(|| text(&model, "/modelID"))?
            ))
        });
        let Ok(id) = SessionId::parse(&row.get::<_, String>(0)?) else { return Ok(None) };
        Ok(Some(StoreRow {
            id,
            cwd: row.get(1)?,
            title: row.get(2)?,
            model,
            created: row.get(4)?,
            updated: row.get(5)?,
        }))
    }
}

const COLUMNS: &str = "id, directory, title, model, time_created, time_updated";

impl Store for Opencode {
    fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        let Some(db) = open(&self.path, false)? else { return Ok(Vec::new()) };
        // Those of subagents belong to their parent.
        let mut select =
            db.prepare(&format!("SELECT {COLUMNS} FROM session WHERE parent_id IS NULL")).map_err(failed)?;
        let rows = select.query_map([], Self::row).map_err(failed)?;
        Ok(rows.filter_map(|row| row.ok().flatten()).collect())
    }

    fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        let Some(db) = open(&self.path, false)? else { return Ok(false) };
        let found = db.query_row("SELECT 1 FROM session WHERE id = ?", [id.as_str()], |_| Ok(())).optional();
        Ok(found.map_err(failed)?.is_some())
    }

    fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        let mut db = open(&self.path, false)?.ok_or_else(|| missing(id))?;
        // One snapshot, whatever the agent writes meanwhile.
        let db = db.transaction().map_err(failed)?;
        let row = db.query_row(&format!("SELECT {COLUMNS} FROM session WHERE id = ?"), [id.as_str()], Self::row);
        let row = row.optional().map_err(failed)?.flatten().ok_or_else(|| missing(id))?;
        let mut build = Build::default();
        let mut messages =
            db.prepare("SELECT id, data FROM message WHERE session_id = ? ORDER BY id").map_err(failed)?;
        let mut parts = db.prepare("SELECT data FROM part WHERE message_id = ? ORDER BY id").map_err(failed)?;
        let found = messages.query_map([id.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        for (message, data) in found.map_err(failed)?.flatten() {
            let Ok(data) = serde_json::from_str::<Value>(&data) else { continue };
            let found = parts.query_map([&message], |row| row.get::<_, String>(0)).map_err(failed)?;
            let found = found.flatten().filter_map(|data| serde_json::from_str(&data).ok()).collect::<Vec<Value>>();
            take(&mut build, &message, &data, &found);
        }
        Ok(build.session("opencode", row))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        if id.is_some_and(|id| !id.as_str().starts_with("ses_")) {
            return Err(StoreFailure::new(ErrorCode::Invalid, "id: sessions of opencode begin with `ses_`"));
        }
        let Some(mut db) = open(&self.path, true)? else {
            let text = "opencode has no database here yet; start it once, or set TRIPLANE_OPENCODE_DIR";
            return Err(StoreFailure::new(ErrorCode::Unavailable, text));
        };
        let (mut lost, now) = (Lost::default(), time::now());
        let flats = flatten(session, HOLDS, &mut lost);
        let id = match id {
            Some(id) => id.clone(),
            // Newer sessions sort first.
            None => ids::parse(&format!("ses_{:012x}{}", !stamp(now, 0) & 0xffff_ffff_ffff, ids::letters(14)))?,
        };
        let db = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let taken = db.query_row("SELECT 1 FROM session WHERE id = ?", [id.as_str()], |_| Ok(())).optional();
        if taken.map_err(failed)?.is_some() {
            return Err(StoreFailure::new(ErrorCode::Invalid, format!("id: a session `{id}` exists already")));
        }
        let known = "SELECT id, worktree FROM project WHERE worktree <> '/' AND (?1 = worktree OR substr(?1, 1, length(worktree) + 1) = worktree || '/') ORDER BY length(worktree) DESC";
        let project = db
            .query_row(known, [&session.cwd], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .optional();
        let project = project.map_err(failed)?;
        let root = project.as_ref().map_or("/", |(_, root)| root.as_str()).to_owned();
        let project = project.map_or_else(|| "global".to_owned(), |(id, _)| id);
        if project == "global" {
            db.execute(
                "INSERT OR IGNORE INTO project(id, worktree, time_created, time_updated, sandboxes) VALUES('global', '/', ?1, ?1, '[]')",
                [now],
            )
            .map_err(failed)?;
        }
        let (provider, model) = split(session.model.as_deref());
        let title = session.title.clone().unwrap_or_else(|| {
            crate::build::title_of(&crate::flat::first_prompt(&flats)).unwrap_or_else(|| "Imported session".into())
        });
        db.execute(
            "INSERT INTO session(id, project_id, slug, directory, title, version, agent, model, time_created, time_updated) VALUES(?,?,?,?,?,?,?,?,?,?)",
            params![id.as_str(), project, format!("imported-{}", ids::letters(6).to_lowercase()), session.cwd, title, "1.18.33", "build",
                json!({"id": model, "providerID": provider}).to_string(), session.created, now],
        )
        .map_err(failed)?;
        let mut writer = Writer {
            db: &db,
            session: &id,
            cwd: &session.cwd,
            root: &root,
            model: (provider, model),
            now: now.saturating_sub(1 << 16),
            count: 0,
            prompt: String::new(),
            calls: Vec::new(),
        };
        for (at, flat) in flats.iter().enumerate() {
            let results = flats.get(at + 1).filter(|next| next.role == Role::Tool);
            writer.message(flat, results, &mut lost).map_err(failed)?;
        }
        db.commit().map_err(failed)?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, id: &SessionId) -> Result<(), StoreFailure> {
        let mut db = open(&self.path, true)?.ok_or_else(|| missing(id))?;
        db.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        let db = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        for statement in ["DELETE FROM part WHERE session_id = ?", "DELETE FROM message WHERE session_id = ?"] {
            db.execute(statement, [id.as_str()]).map_err(failed)?;
        }
        let gone = db.execute("DELETE FROM session WHERE id = ?", [id.as_str()]).map_err(failed)?;
        if gone == 0 {
            return Err(missing(id));
        }
        db.commit().map_err(failed)
    }
}

fn stamp(ms: i64, count: i64) -> i64 {
    ms.wrapping_mul(0x1000).wrapping_add(count)
}

fn split(model: Option<&str>) -> (String, String) {
    let model = model.unwrap_or("unknown/unknown");
    let (provider, name) = model.split_once('/').unwrap_or(("unknown", model));
    (provider.to_owned(), name.to_owned())
}

fn take(build: &mut Build, id: &str, data: &Value, parts: &[Value]) {
    let at = data.pointer("/time/created").and_then(time::ms).unwrap_or_default();
    let (mut said, mut results) = (Vec::new(), Vec::new());
    for part in parts {
        match text(part, "/type") {
            Some("text") => said.extend(text(part, "/text").map(Part::text)),
            Some("reasoning") => {
                let signature = text(part, "/metadata/anthropic/signature").map(str::to_owned);
                said.extend(text(part, "/text").map(|thought| Part::thinking(thought, signature)));
            }
            Some("tool") => {
                let call = call_id(text(part, "/callID").unwrap_or_default());
                let input = part.pointer("/state/input").cloned().unwrap_or_else(|| json!({}));
                said.push(Part::call(call.clone(), text(part, "/tool").unwrap_or("tool"), input));
                let (output, error) = (text(part, "/state/output"), text(part, "/state/error"));
                if let Some(output) = output.or(error) {
                    results.push(Part::result(call, vec![Part::text(output)], output_failed(part)));
                }
            }
            Some("file") => said.extend(text(part, "/url").map(crate::flat::Image::part)),
            Some("step-start" | "step-finish" | "snapshot" | "patch") => {}
            Some(_) | None => said.extend(part.as_object().cloned().map(Part::Other)),
        }
    }
    let user = text(data, "/role") == Some("user");
    if let Some(message) = build.push(Some(id), if user { Role::User } else { Role::Assistant }, said, at)
        && !user
    {
        assistant(message, data);
    }
    build.push(Some(&format!("{id}.results")), Role::Tool, results, at);
}

fn output_failed(part: &Value) -> bool {
    text(part, "/state/status") == Some("error")
}

fn assistant(message: &mut Message, data: &Value) {
    message.model =
        text(data, "/providerID").zip(text(data, "/modelID")).map(|(provider, model)| format!("{provider}/{model}"));
    let cached = count(data, "/tokens/cache/read");
    let usage = Usage {
        input: count(data, "/tokens/input").saturating_add(cached).saturating_add(count(data, "/tokens/cache/write")),
        output: count(data, "/tokens/output").saturating_add(count(data, "/tokens/reasoning")),
        cached,
        reasoning: count(data, "/tokens/reasoning"),
        cost: data.get("cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0),
    };
    message.usage = (usage != Usage::default()).then_some(usage);
    if data.get("error").is_some_and(Value::is_object) {
        message.stop = Some(Stop::Error);
    }
}

struct Writer<'a> {
    db: &'a Connection,
    session: &'a SessionId,
    cwd: &'a str,
    root: &'a str,
    model: (String, String),
    /// Ids come from a while ago until now, so that what the agent writes next sorts behind them, whatever the times say.
    now: i64,
    count: i64,
    /// The id of the last prompt.
    prompt: String,
    /// Calls that were written with their results.
    calls: Vec<String>,
}

impl Writer<'_> {
    fn id(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}_{:012x}{}", stamp(self.now, self.count) & 0xffff_ffff_ffff, ids::letters(14))
    }

    fn part(&mut self, message: &str, at: i64, data: &Value) -> rusqlite::Result<()> {
        let id = self.id("prt");
        let row = params![id, message, self.session.as_str(), at, at, data.to_string()];
        self.db.execute(
            "INSERT INTO part(id, message_id, session_id, time_created, time_updated, data) VALUES(?,?,?,?,?,?)",
            row,
        )?;
        Ok(())
    }

    fn message(&mut self, flat: &Flat, results: Option<&Flat>, lost: &mut Lost) -> rusqlite::Result<()> {
        if flat.role == Role::Tool {
            let strays = flat
                .blocks
                .iter()
                .filter(|block| matches!(block, Block::Result { id, .. } if !self.calls.contains(id)));
            strays.for_each(|_| lost.note("results that stand right behind no call of theirs"));
            return Ok(());
        }
        let id = self.id("msg");
        let (provider, model) = match &flat.model {
            Some(model) => split(Some(model)),
            None => self.model.clone(),
        };
        let data = match flat.role {
            Role::User | Role::Tool | Role::System => {
                self.prompt.clone_from(&id);
                json!({"role": "user", "time": {"created": flat.at}, "agent": "build", "model": {"providerID": provider, "modelID": model}})
            }
            Role::Assistant => {
                let usage = flat.usage.unwrap_or_default();
                json!({
                    "role": "assistant", "parentID": self.prompt, "mode": "build", "agent": "build",
                    "path": {"cwd": self.cwd, "root": self.root}, "cost": usage.cost.unwrap_or_default(),
                    "tokens": {
                        "input": usage.input.saturating_sub(usage.cached), "output": usage.output.saturating_sub(usage.reasoning),
                        "reasoning": usage.reasoning, "cache": {"read": usage.cached, "write": 0},
                    },
                    "modelID": model, "providerID": provider, "time": {"created": flat.at, "completed": flat.at},
                    "finish": if flat.calls() { "tool-calls" } else { "stop" },
                })
            }
        };
        let row = params![id, self.session.as_str(), flat.at, flat.at, data.to_string()];
        self.db
            .execute("INSERT INTO message(id, session_id, time_created, time_updated, data) VALUES(?,?,?,?,?)", row)?;
        for block in &flat.blocks {
            let span = json!({"start": flat.at, "end": flat.at});
            let data = match block {
                Block::Text(text) => json!({"type": "text", "text": text, "time": span}),
                Block::Thinking { text, signature } => {
                    let mut data = json!({"type": "reasoning", "text": text, "time": span});
                    if let (Some(signature), Some(members)) = (signature, data.as_object_mut()) {
                        members.insert("metadata".into(), json!({"anthropic": {"signature": signature}}));
                    }
                    data
                }
                Block::Image(image) => {
                    json!({"type": "file", "mime": image.mime, "url": image.url(), "filename": "image"})
                }
                Block::Call { id, name, input } => {
                    let result = results.and_then(|flat| result_of(flat, id));
                    if result.is_some() {
                        self.calls.push(id.clone());
                    }
                    json!({"type": "tool", "tool": name, "callID": id, "state": state(input, name, result, flat.at)})
                }
                Block::Result { .. } => continue,
            };
            self.part(&id, flat.at, &data)?;
        }
        Ok(())
    }
}

fn result_of<'a>(flat: &'a Flat, call: &str) -> Option<(&'a [Out], bool)> {
    flat.blocks.iter().find_map(|block| match block {
        Block::Result { id, output, error, .. } if id == call => Some((output.as_slice(), *error)),
        Block::Result { .. } | Block::Text(_) | Block::Thinking { .. } | Block::Call { .. } | Block::Image(_) => None,
    })
}

fn state(input: &Value, name: &str, result: Option<(&[Out], bool)>, at: i64) -> Value {
    let time = json!({"start": at, "end": at});
    match result {
        Some((output, true)) => json!({"status": "error", "input": input, "error": output_text(output), "time": time}),
        Some((output, false)) => json!({
            "status": "completed", "input": input, "output": output_text(output), "title": name, "metadata": {}, "time": time,
        }),
        // What never ended would be waited for.
        None => json!({"status": "error", "input": input, "error": "The call was interrupted.", "time": time}),
    }
}
