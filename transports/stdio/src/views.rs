//! The plane's types in this wire's words.

use triplane_core::{
    agent::Descriptor,
    overlay,
    plane::{self, ConfigCount, MetaRow, RunResult, SessionDetail},
    store,
};
use triplane_protocol::{
    ErrorCode, Failure, ir,
    sepia::{
        AgentView, Attached, CapabilitiesView, ConfigEntry, LockHolder, LockState, LockWord, MetaPatch, Project,
        PromptOutcome, Restored, RunFailure, SessionRow, Skipped, Span,
    },
};

/// A row of the list.
pub(crate) fn row(of: MetaRow) -> SessionRow {
    let MetaRow { row, meta, spans, lock } = of;
    SessionRow {
        id: row.id,
        agent_id: row.agent,
        cwd: row.cwd,
        title: row.title,
        model: row.model,
        created_at: row.created,
        updated_at: row.updated,
        live: row.live,
        pending: row.pending,
        pinned: meta.pinned,
        archived: meta.archived,
        project_ids: meta.project_ids.clone(),
        spans: spans.into_iter().map(span).collect(),
        lock: lock.map(lock_state),
    }
}

/// What one agent's config holds, or why nobody knows.
pub(crate) fn config_entry(of: ConfigCount) -> ConfigEntry {
    let ConfigCount { agent, counts } = of;
    match counts {
        Ok(counts) => ConfigEntry::Counted { agent, counts },
        Err(error) => ConfigEntry::Failed { agent, error },
    }
}

fn span(span: overlay::Span) -> Span {
    Span { agent_id: span.agent, model: span.model, started_at: span.started, ended_at: span.ended }
}

fn lock_state(state: store::LockState) -> LockState {
    let (state, holder) = match state {
        store::LockState::Free => (LockWord::Free, None),
        store::LockState::Held(holder) => (LockWord::Held, Some(holder)),
        store::LockState::Stale(holder) => (LockWord::Stale, Some(holder)),
    };
    let holder =
        holder.map(|store::Holder { node, pid, since, generation }| LockHolder { node, pid, since, generation });
    LockState { state, holder }
}

/// What the overlay is told.
pub(crate) fn patch(patch: MetaPatch) -> overlay::MetaPatch {
    let MetaPatch { title, pinned, archived, project_ids, model } = patch;
    overlay::MetaPatch { title, pinned, archived, project_ids, model }
}

/// A project.
pub(crate) fn project(project: overlay::Project) -> Project {
    Project { id: project.id, name: project.name, created_at: project.created }
}

/// A session, as create and attach answer.
pub(crate) fn attached(detail: SessionDetail, read_only: bool) -> Attached {
    Attached { id: detail.row.id, agent_id: detail.row.agent, read_only, model: detail.row.model }
}

/// Reads the session of an import. Errors: `Invalid`, naming the member.
pub(crate) fn read_session(value: serde_json::Value) -> Result<ir::Session, Failure> {
    let invalid = |what: String| Failure::new(ErrorCode::Invalid, what);
    let session: ir::Session = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { "session".to_owned() } else { format!("session.{path}") };
        invalid(format!("{at}: {}", error.inner()))
    })?;
    match session.version {
        1 => Ok(session),
        other => Err(invalid(format!("session.version: is {other}; this server reads 1"))),
    }
}

/// What became of files.
pub(crate) fn restored(files: plane::Restored) -> Restored {
    let skipped = files.skipped.into_iter().map(|file| Skipped { path: file.path, reason: file.reason });
    Restored { restored: files.restored, skipped: skipped.collect() }
}

/// How a run ended.
pub(crate) fn outcome(result: RunResult) -> PromptOutcome {
    PromptOutcome {
        stop_reason: result.stop,
        usage: result.usage,
        turns: result.turns,
        reply: result.reply,
        run_id: result.run_id,
        error: result.error.map(|error| RunFailure { code: error.code, message: error.message }),
    }
}

/// An agent.
pub(crate) fn agent(descriptor: Descriptor) -> AgentView {
    let can = descriptor.can;
    AgentView {
        id: descriptor.id,
        name: descriptor.name,
        version: descriptor.version,
        installed: descriptor.installed,
        capabilities: CapabilitiesView {
            prompt: can.prompt,
            read: can.read,
            write: can.write,
            delete: can.delete,
            config: can.config,
            modes: descriptor.modes,
            models: descriptor.models,
        },
    }
}
