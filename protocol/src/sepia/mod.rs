//! sepia: newline-delimited JSON-RPC over stdio. Every method and notification of the wire is declared here; nothing is listed twice.
//! Clauses: S01–S32.
//!
//! Order: a client need not wait for `sessions.attach` before it sends `sessions.prompt`. Requests that name the same session start
//! in the order in which they came: each once those before it have ended, a prompt counting as ended when its run has begun,
//! a read when it has begun. `sessions.cancel` and `sessions.permission` never wait, so they can answer what runs; a prompt
//! while another runs is `busy` at once. Replies come in any order. Requests without a session never wait.
//!
//! - [`session`]: sessions: rows, the life of a live one, runs, history.
//! - [`transfer`]: moving sessions between stores, and taking back what was done.
//! - [`node`]: what the server says of itself, and the node's feed.
//! - [`config`]: agents, projects and config.
//! - [`event`]: the facts of a session, in this wire's words.

pub mod config;
pub mod event;
pub mod node;
pub mod session;
pub mod transfer;

pub use config::*;
pub use event::*;
pub use node::*;
pub use session::*;
pub use transfer::*;

use crate::{ir::Session, table::Notification};

/// Version of this wire, told in the manifest; raised when a client would break.
pub const PROTOCOL: u32 = 1;

crate::rpc_wire! {
    /// Tells the server's name, version, node, lifecycle settings and the methods that it serves.
    ShowManifest: "manifest" (Nothing) -> Manifest, queue None, errors [], clauses ["S02", "S03", "S04", "C07"];

    /// Lists the registered agents and what each can do.
    ListAgents: "agents.list" (Nothing) -> Agents, queue None, errors [], clauses ["S05"];

    /// Lists the sessions of every agent's store, newest write first, with the overlay merged in, and the pending ones.
    ListSessions: "sessions.list" (ListParams) -> Sessions, queue None, errors [], clauses ["S06", "C13"];

    /// A whole session, live or stored.
    GetSession: "sessions.get" (SessionRef) -> Session, queue Start,
        errors [NotFound, Ambiguous, UnknownAgent, Unavailable], clauses ["S07", "C15"];

    /// A session without its messages.
    SummarizeSession: "sessions.summary" (SessionRef) -> Summary, queue Start,
        errors [NotFound, Ambiguous, UnknownAgent, Unavailable], clauses ["S07"];

    /// A whole session, wrapped for a transfer.
    ExportSession: "sessions.export" (SessionRef) -> Exported, queue Start,
        errors [NotFound, Ambiguous, UnknownAgent, Unavailable], clauses ["S08", "C15"];

    /// Writes a session into an agent's store, under a fresh id unless one is given.
    ImportSession: "sessions.import" (ImportParams) -> Imported, queue Start,
        errors [Invalid, UnknownAgent, Locked, Unavailable], clauses ["S09", "S28", "C15"];

    /// Copies a stored session into another agent's store on this node.
    ConvertSession: "sessions.convert" (ConvertParams) -> Converted, queue Start,
        errors [NotFound, Ambiguous, Invalid, UnknownAgent, Locked, Unavailable], clauses ["S10", "S28"];

    /// A page of the history, newest page first.
    ReadHistory: "sessions.history" (HistoryParams) -> HistoryPage, queue Start,
        errors [NotFound, Ambiguous, UnknownAgent, Unavailable], clauses ["S11"];

    /// Makes a stored session live, under its lock. An agent that cannot run it gives a read-only attach.
    AttachSession: "sessions.attach" (AttachParams) -> Attached, queue Start,
        errors [NotFound, Ambiguous, Locked, UnknownAgent, Unavailable, Overloaded], clauses ["S12", "S26", "C17"];

    /// Releases a live session; a run in flight is cancelled first.
    DetachSession: "sessions.detach" (LiveRef) -> Detached, queue Start, errors [NotFound], clauses ["S13", "S26"];

    /// Makes a session and makes it live.
    CreateSession: "sessions.create" (CreateParams) -> Attached, queue None,
        errors [UnknownAgent, NoAgent, Unavailable, Overloaded], clauses ["S14", "S26"];

    /// Runs a prompt on a live session and answers when the run has ended, with its outcome.
    PromptSession: "sessions.prompt" (PromptParams) -> PromptOutcome, queue Start,
        errors [NotFound, Busy, NoAgent, TooLarge, Cancelled, Unavailable, Overloaded], clauses ["S15", "S27", "C10"];

    /// Cancels the run in flight, if there is one; its permission requests expire.
    CancelSession: "sessions.cancel" (LiveRef) -> Cancelled, queue None, errors [NotFound], clauses ["S15"];

    /// Answers a permission request with one of its options. The first answer wins.
    AnswerPermission: "sessions.permission" (PermissionParams) -> Resolved, queue None, errors [NotFound], clauses ["S15"];

    /// Deletes a session from the store that owns it; a live one is detached.
    DeleteSession: "sessions.delete" (SessionRef) -> Deleted, queue Start,
        errors [NotFound, Ambiguous, Locked, UnknownAgent, Unsupported, Unavailable], clauses ["S16", "S26"];

    /// Changes what the overlay says of a session: title, pinned, archived, projects, model.
    PatchMeta: "sessions.patch_meta" (PatchMetaParams) -> SessionRow, queue Start,
        errors [NotFound, Ambiguous, Invalid, UnknownAgent, Overloaded, Unavailable], clauses ["S17", "S28"];

    /// Lists the projects of this node.
    ListProjects: "projects.list" (Nothing) -> Projects, queue None, errors [Invalid, Overloaded], clauses ["S18", "S28"];

    /// Makes a project.
    CreateProject: "projects.create" (CreateProjectParams) -> Project, queue None,
        errors [Invalid, Overloaded], clauses ["S18", "S28"];

    /// Renames a project.
    RenameProject: "projects.rename" (RenameProjectParams) -> Project, queue None,
        errors [NotFound, Invalid, Overloaded], clauses ["S18", "S28"];

    /// Deletes a project; its id leaves every session.
    DeleteProject: "projects.delete" (ProjectRef) -> Deleted, queue None,
        errors [NotFound, Invalid, Overloaded], clauses ["S18", "S28"];

    /// Counts the config items of every agent that has config; one that fails does not hide the others.
    ListConfig: "config.list" (ConfigListParams) -> Vec<ConfigEntry>, queue None,
        errors [UnknownAgent], clauses ["S19", "S28"];

    /// An agent's config.
    GetConfig: "config.get" (ConfigParams) -> AgentConfig, queue None,
        errors [UnknownAgent, Invalid, Unavailable], clauses ["S20", "S28"];

    /// Installs config items for an agent, with one action an item. Deletes nothing, and touches nothing outside the config root.
    ImportConfig: "config.import" (ConfigImportParams) -> ConfigImported, queue None,
        errors [UnknownAgent, Invalid, Unavailable], clauses ["S20", "S28"];

    /// Puts files back to what they were at a message.
    RestoreFiles: "sessions.restore" (RestoreParams) -> Restored, queue Start,
        errors [NotFound, Busy, Locked], clauses ["S21"];

    /// Takes back the messages after a message; a live session is detached.
    RewindSession: "sessions.rewind" (RewindParams) -> Rewound, queue Start,
        errors [NotFound, Busy, Locked], clauses ["S21", "S26"];

    /// Streams a live session's events from now on, until it is detached. A second call is a second stream.
    SubscribeSession: "sessions.subscribe" (LiveRef) -> SessionSubscribed, queue Start,
        errors [NotFound, Overloaded], clauses ["S22", "S23", "S15"];

    /// Streams the node's feed from now on: changes of the live map, and the events of every live session.
    SubscribeNode: "events.subscribe" (Nothing) -> NodeSubscribed, queue None, errors [Overloaded], clauses ["S24", "S25", "S26"];

    /// Closes the plane and ends the process with code 0.
    Shutdown: "shutdown" (Nothing) -> Done, queue None, errors [], clauses ["S30"];
}

/// Name of the notification that carries a session's events.
pub const SESSION_EVENT: &str = "session.event";

/// Name of the notification that carries the node's feed.
pub const NODE_EVENT: &str = "node.event";

/// What the server sends unasked.
pub const NOTIFICATIONS: &[Notification] = &[
    Notification {
        name: SESSION_EVENT,
        doc: " Events of a session, as many as one wake-up found; or how many this reader lost.\n",
        params: |g| g.subschema_for::<SessionEvents<'static>>(),
    },
    Notification {
        name: NODE_EVENT,
        doc: " One thing on the node's feed.\n",
        params: |g| g.subschema_for::<NodeEvent<'static>>(),
    },
];

/// The names of the methods that are served: what the manifest tells.
pub fn served() -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter(|row| row.built).map(|row| row.name)
}

/// The OpenRPC document of this wire.
/// Errors: the name of a type that is read and written with different schemas.
pub fn openrpc(version: &str) -> Result<serde_json::Value, String> {
    crate::openrpc::document(
        &crate::openrpc::Info {
            title: "Triplane over stdio (sepia)",
            version,
            summary: "Sessions of coding agents over newline-delimited JSON-RPC on stdin and stdout.",
        },
        ROWS,
        NOTIFICATIONS,
    )
}

#[cfg(test)]
mod tests;
