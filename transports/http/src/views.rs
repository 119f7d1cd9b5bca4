//! The plane's types as larik's. Clauses: H06, H08, H18.

use triplane_core::{
    agent::Descriptor,
    plane::{RunResult, SessionDetail, SessionRow, TaskInfo, Undone as PlaneUndone},
};
use triplane_protocol::larik::{
    AgentAbilities, AgentInfo, Finished, RunFailure, SessionItem, SessionView, Skipped, Task, Undone,
};

/// A row of the list.
pub(crate) fn item(row: SessionRow) -> SessionItem {
    SessionItem {
        id: row.id,
        agent: row.agent,
        title: row.title,
        cwd: row.cwd,
        model: row.model,
        created: row.created,
        updated: row.updated,
        loaded: row.live,
        busy: row.busy,
    }
}

/// A session in full.
pub(crate) fn session(detail: SessionDetail) -> SessionView {
    SessionView {
        item: item(detail.row),
        mode: detail.mode,
        effort: detail.effort,
        usage: detail.usage,
        permissions: detail.permissions,
        tasks: detail.tasks.into_iter().map(task).collect(),
        seq: detail.seq,
        epoch: detail.epoch,
    }
}

/// A background task.
pub(crate) fn task(info: TaskInfo) -> Task {
    Task { id: info.id, title: info.title, state: info.state, started: info.started, ended: info.ended }
}

/// A run that ended.
pub(crate) fn finished(result: RunResult) -> Finished {
    Finished {
        text: result.reply,
        usage: result.usage,
        turns_used: result.turns,
        stopped_reason: result.stop,
        run_id: result.run_id,
        error: result.error.map(|error| RunFailure { code: error.code, message: error.message }),
    }
}

/// A prompt that was taken back.
pub(crate) fn undone(undone: PlaneUndone) -> Undone {
    let left = undone.files.skipped.into_iter().map(|file| Skipped { path: file.path, reason: file.reason });
    Undone { prompt: undone.prompt, restored: undone.files.restored, skipped: left.collect() }
}

/// An agent.
pub(crate) fn agent(agent: Descriptor) -> AgentInfo {
    AgentInfo {
        id: agent.id,
        name: agent.name,
        version: agent.version,
        installed: agent.installed,
        capabilities: AgentAbilities {
            prompt: agent.can.prompt,
            read: agent.can.read,
            write: agent.can.write,
            delete: agent.can.delete,
            config: agent.can.config,
            modes: agent.modes,
            models: agent.models,
        },
    }
}
