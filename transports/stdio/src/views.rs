//! The plane's types in this wire's words.

use triplane_core::{
    agent::Descriptor,
    plane::{self, RunResult, SessionDetail},
};
use triplane_protocol::{
    ir::{self, Extra},
    sepia::{AgentView, Attached, CapabilitiesView, PromptOutcome, RunFailure, SessionRow},
};

/// A row of the list. The overlay's members stand for "nothing was said" until the plane has one.
pub(crate) fn row(row: plane::SessionRow) -> SessionRow {
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
        pinned: false,
        archived: false,
        project_ids: Vec::new(),
        spans: Vec::new(),
        lock: None,
    }
}

/// A live session, as create and attach answer.
pub(crate) fn attached(detail: SessionDetail) -> Attached {
    Attached { id: detail.row.id, agent_id: detail.row.agent, read_only: false, model: detail.row.model }
}

/// A whole session.
pub(crate) fn session(detail: SessionDetail, messages: Vec<ir::Message>) -> ir::Session {
    let row = detail.row;
    ir::Session {
        version: 1,
        id: row.id,
        agent: row.agent,
        cwd: row.cwd,
        title: row.title,
        model: row.model,
        effort: detail.effort,
        mode: Some(detail.mode),
        created: row.created,
        updated: row.updated,
        parent: None,
        usage: Some(detail.usage),
        messages,
        extra: Extra::new(),
    }
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
