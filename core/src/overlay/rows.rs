//! The statements of the overlay. Each function runs inside a transaction of its caller.
//! Invariant: whatever changes a [`Meta`] raises the revision in the same transaction, so that every process sees it.

use super::{Meta, MetaPatch, OverlayError, PROJECTS, Pending, Project, Span};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{collections::HashMap, path::Path};
use triplane_protocol::SessionId;

/// Spans that are kept of one session; the oldest go first.
const SPANS: i64 = 32;

/// A session younger than this is left alone by [`sweep`].
const SETTLED_MS: i64 = 3_600_000;

type Result<T> = std::result::Result<T, OverlayError>;

/// Raised with every change of what was said of a session.
pub(super) fn revision(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("SELECT revision FROM state")?.query_row([], |row| row.get(0))?)
}

fn touch(conn: &Connection) -> Result<()> {
    conn.prepare_cached("UPDATE state SET revision = revision + 1")?.execute([])?;
    Ok(())
}

pub(super) fn metas(conn: &Connection) -> Result<HashMap<SessionId, Meta>> {
    let mut found: HashMap<SessionId, Meta> = HashMap::new();
    let mut stmt = conn.prepare("SELECT session, title, pinned, archived, model FROM metas")?;
    let mut rows = stmt.query([])?;
    while let Some(row) = rows.next()? {
        let Some(id) = session(row)? else { continue };
        found.insert(id, meta(row)?);
    }
    let mut stmt = conn.prepare("SELECT session, project FROM members ORDER BY session, place")?;
    let mut rows = stmt.query([])?;
    while let Some(row) = rows.next()? {
        let Some(id) = session(row)? else { continue };
        found.entry(id).or_default().project_ids.push(row.get(1)?);
    }
    Ok(found)
}

/// A foreign hand may have written what is no id.
fn session(row: &Row<'_>) -> Result<Option<SessionId>> {
    Ok(SessionId::parse(row.get_ref(0)?.as_str().unwrap_or_default()).ok())
}

fn meta(row: &Row<'_>) -> rusqlite::Result<Meta> {
    let (title, pinned, archived, model) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(Meta { title, pinned, archived, project_ids: Vec::new(), model })
}

fn meta_of(conn: &Connection, id: &SessionId) -> Result<Meta> {
    let sql = "SELECT session, title, pinned, archived, model FROM metas WHERE session = ?1";
    let found = conn.prepare_cached(sql)?.query_row([id.as_str()], meta).optional()?;
    let mut stmt = conn.prepare_cached("SELECT project FROM members WHERE session = ?1 ORDER BY place")?;
    let project_ids = stmt.query_map([id.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Meta { project_ids, ..found.unwrap_or_default() })
}

pub(super) fn patch(conn: &Connection, id: &SessionId, patch: MetaPatch) -> Result<Meta> {
    let mut now = meta_of(conn, id)?;
    now.title = patch.title.unwrap_or(now.title);
    now.pinned = patch.pinned.unwrap_or(now.pinned);
    now.archived = patch.archived.unwrap_or(now.archived);
    now.model = patch.model.unwrap_or(now.model);
    if let Some(asked) = patch.project_ids {
        conn.prepare_cached("DELETE FROM members WHERE session = ?1")?.execute([id.as_str()])?;
        now.project_ids = Vec::new();
        let mut is_there = conn.prepare_cached("SELECT 1 FROM projects WHERE id = ?1")?;
        let mut insert = conn.prepare_cached("INSERT INTO members VALUES (?1, ?2, ?3)")?;
        for (place, project) in (0_i64..).zip(asked) {
            if now.project_ids.contains(&project) {
                continue;
            }
            if !is_there.exists([&project])? {
                return Err(OverlayError::NoProject(project));
            }
            insert.execute(params![id.as_str(), place, project])?;
            now.project_ids.push(project);
        }
    }
    let bare = Meta { project_ids: now.project_ids.clone(), ..Meta::default() };
    if now == bare {
        conn.prepare_cached("DELETE FROM metas WHERE session = ?1")?.execute([id.as_str()])?;
    } else {
        let sql = "INSERT OR REPLACE INTO metas VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![id.as_str(), now.title, now.pinned, now.archived, now.model];
        conn.prepare_cached(sql)?.execute(row)?;
    }
    touch(conn)?;
    Ok(now)
}

pub(super) fn projects(conn: &Connection) -> Result<Vec<Project>> {
    let mut stmt = conn.prepare_cached("SELECT id, name, created FROM projects ORDER BY created, id")?;
    Ok(stmt.query_map([], project)?.collect::<rusqlite::Result<_>>()?)
}

fn project(row: &Row<'_>) -> rusqlite::Result<Project> {
    Ok(Project { id: row.get(0)?, name: row.get(1)?, created: row.get(2)? })
}

pub(super) fn create_project(conn: &Connection, project: Project) -> Result<Project> {
    let count: u32 = conn.prepare_cached("SELECT count(*) FROM projects")?.query_row([], |row| row.get(0))?;
    if count >= PROJECTS {
        return Err(OverlayError::Full(count));
    }
    let row = params![project.id, project.name, project.created];
    conn.prepare_cached("INSERT INTO projects VALUES (?1, ?2, ?3)")?.execute(row)?;
    Ok(project)
}

pub(super) fn rename_project(conn: &Connection, id: &str, name: &str) -> Result<Project> {
    let sql = "UPDATE projects SET name = ?2 WHERE id = ?1 RETURNING id, name, created";
    let renamed = conn.prepare_cached(sql)?.query_row([id, name], project).optional()?;
    renamed.ok_or_else(|| OverlayError::NoProject(id.to_owned()))
}

pub(super) fn delete_project(conn: &Connection, id: &str) -> Result<()> {
    if conn.prepare_cached("DELETE FROM projects WHERE id = ?1")?.execute([id])? == 0 {
        return Err(OverlayError::NoProject(id.to_owned()));
    }
    conn.prepare_cached("DELETE FROM members WHERE project = ?1")?.execute([id])?;
    touch(conn)
}

pub(super) fn keep_pending(conn: &Connection, dir: &str, pending: &Pending) -> Result<()> {
    let given = serde_json::to_string(pending).map_err(|error| OverlayError::Failed(error.to_string()))?;
    let row = params![dir, pending.header.id.as_str(), given];
    conn.prepare_cached("INSERT OR REPLACE INTO pending VALUES (?1, ?2, ?3)")?.execute(row)?;
    Ok(())
}

pub(super) fn pending(conn: &Connection, dir: &str, id: &SessionId) -> Result<Option<Pending>> {
    let sql = "SELECT given FROM pending WHERE dir = ?1 AND session = ?2";
    let given: Option<String> = conn.prepare_cached(sql)?.query_row([dir, id.as_str()], |row| row.get(0)).optional()?;
    Ok(given.and_then(|given| parse(id, &given)))
}

pub(super) fn all_pending(conn: &Connection, dir: &str) -> Result<HashMap<SessionId, Pending>> {
    let mut found = HashMap::new();
    let mut stmt = conn.prepare_cached("SELECT session, given FROM pending WHERE dir = ?1")?;
    let mut rows = stmt.query([dir])?;
    while let Some(row) = rows.next()? {
        let Some(id) = session(row)? else { continue };
        if let Some(pending) = parse(&id, row.get_ref(1)?.as_str().unwrap_or_default()) {
            found.insert(id, pending);
        }
    }
    Ok(found)
}

fn parse(id: &SessionId, given: &str) -> Option<Pending> {
    match serde_json::from_str(given) {
        Ok(pending) => Some(pending),
        Err(error) => {
            tracing::warn!(session = %id, %error, "what create was given cannot be read");
            None
        }
    }
}

pub(super) fn drop_pending(conn: &Connection, dir: &str, id: &SessionId) -> Result<()> {
    conn.prepare_cached("DELETE FROM pending WHERE dir = ?1 AND session = ?2")?.execute([dir, id.as_str()])?;
    Ok(())
}

/// A span that is open still was left by a process that was killed: whoever opens one has the session's lock.
pub(super) fn open_span(conn: &Connection, id: &SessionId, generation: u64, span: &Span, last: i64) -> Result<()> {
    let sql = "UPDATE spans SET ended = max(started, ?2) WHERE session = ?1 AND ended IS NULL";
    conn.prepare_cached(sql)?.execute(params![id.as_str(), last])?;
    let row = params![id.as_str(), key(generation), span.agent, span.model, span.started, span.ended];
    conn.prepare_cached("INSERT OR REPLACE INTO spans VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute(row)?;
    let sql = "DELETE FROM spans WHERE session = ?1 AND generation <= (
        SELECT generation FROM spans WHERE session = ?1 ORDER BY generation DESC LIMIT 1 OFFSET ?2)";
    conn.prepare_cached(sql)?.execute(params![id.as_str(), SPANS])?;
    Ok(())
}

pub(super) fn close_span(conn: &Connection, id: &SessionId, generation: u64, at: i64) -> Result<()> {
    let sql = "UPDATE spans SET ended = max(started, ?3) WHERE session = ?1 AND generation = ?2 AND ended IS NULL";
    conn.prepare_cached(sql)?.execute(params![id.as_str(), key(generation), at])?;
    Ok(())
}

pub(super) fn spans(conn: &Connection, id: Option<&SessionId>) -> Result<HashMap<SessionId, Vec<Span>>> {
    let mut found: HashMap<SessionId, Vec<Span>> = HashMap::new();
    let sql = "SELECT session, agent, model, started, ended FROM spans
        WHERE ?1 IS NULL OR session = ?1 ORDER BY session, generation";
    let mut stmt = conn.prepare_cached(sql)?;
    let mut rows = stmt.query([id.map(SessionId::as_str)])?;
    while let Some(row) = rows.next()? {
        let Some(id) = session(row)? else { continue };
        let span = Span { agent: row.get(1)?, model: row.get(2)?, started: row.get(3)?, ended: row.get(4)? };
        found.entry(id).or_default().push(span);
    }
    Ok(found)
}

/// SQLite's numbers have a sign.
fn key(generation: u64) -> i64 {
    generation.cast_signed()
}

pub(super) fn forget(conn: &Connection, dir: &str, id: &SessionId) -> Result<()> {
    drop_pending(conn, dir, id)?;
    conn.prepare_cached("DELETE FROM spans WHERE session = ?1")?.execute([id.as_str()])?;
    let metas = conn.prepare_cached("DELETE FROM metas WHERE session = ?1")?.execute([id.as_str()])?;
    let members = conn.prepare_cached("DELETE FROM members WHERE session = ?1")?.execute([id.as_str()])?;
    if metas + members > 0 { touch(conn) } else { Ok(()) }
}

/// Takes pending rows away whose transcript has a line, or is gone; looks at `most` at most.
pub(super) fn sweep(conn: &Connection, most: u32, now: i64) -> Result<()> {
    let mut stmt = conn.prepare("SELECT session, dir, given FROM pending LIMIT ?1")?;
    let mut rows = stmt.query([most])?;
    let mut over = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(id) = session(row)? else { continue };
        let dir: String = row.get(1)?;
        let given = parse(&id, row.get_ref(2)?.as_str().unwrap_or_default());
        // A row may be there before its transcript: the two are made at once.
        if given.is_some_and(|given| now.saturating_sub(given.header.created) < SETTLED_MS) {
            continue;
        }
        let path = Path::new(&dir);
        let transcript = path.join(format!("{id}.jsonl")).symlink_metadata();
        // A directory that is not there may be on a disk that is not there now.
        if transcript.map_or_else(|_| path.is_dir(), |meta| meta.len() > 0) {
            over.push((dir, id));
        }
    }
    over.iter().try_for_each(|(dir, id)| drop_pending(conn, dir, id))
}
