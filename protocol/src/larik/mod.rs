//! larik: HTTP and Server-Sent Events. Every operation of the wire is a row here; nothing is listed twice.
//! Clauses: H01–H28.
//!
//! - [`types`]: bodies, parameters and results of sessions and runs.
//! - [`server`]: what the server says of itself.
//! - [`stream`]: what an event stream carries.

pub mod server;
pub mod stream;
pub mod types;

pub use server::*;
pub use stream::*;
pub use types::*;

crate::rest_wire! {
    /// Tells that the server is alive. Needs no token.
    public Health: "health" Get "/v1/health" -> 200 HealthStatus,
        errors [], clauses ["H02", "H04"];

    /// Tells the server's version, directory, providers, sandbox, agents, node and transports.
    call Info: "info" Get "/v1/info" -> 200 ServerDetails,
        errors [], clauses ["H05"];

    /// The OpenAPI document of this wire.
    call OpenApi: "openapi" Get "/v1/openapi.json" -> 200 Document,
        errors [], clauses ["H02"];

    /// Figures of the process, in the Prometheus text format.
    text Metrics: "metrics" Get "/metrics" -> 200 String,
        errors [], clauses ["H02"];

    /// Lists the sessions of this directory, newest write first.
    call ListSessions: "listSessions" Get "/v1/sessions" query(PageQuery) -> 200 SessionPage,
        errors [], clauses ["H06", "C13"];

    /// Makes a session (201); or, with `resume` or `continue`, loads a stored one under its own id (200).
    call CreateSession: "createSession" Post "/v1/sessions" body(CreateBody) -> 201 SessionView | 200 SessionView,
        errors [NotFound, Locked, UnknownAgent, NoAgent], clauses ["H07"];

    /// One session, loaded or stored: settings, usage, pending permission requests and background tasks.
    call GetSession: "getSession" Get "/v1/sessions/{id}" path(SessionPath) -> 200 SessionView,
        errors [NotFound], clauses ["H08"];

    /// Changes the model, the effort, the mode or the title: all that is given, or nothing. Loads a stored session.
    call PatchSession: "patchSession" Patch "/v1/sessions/{id}" path(SessionPath) body(PatchBody) -> 200 SessionView,
        errors [NotFound, Locked, Unsupported], clauses ["H09", "C17"];

    /// Stops and unloads a session; its transcript stays. A session that is not loaded is left as it is.
    call DeleteSession: "deleteSession" Delete "/v1/sessions/{id}" path(SessionPath) -> 204 (),
        errors [NotFound], clauses ["H10", "C17"];

    /// The whole transcript, loaded or not, oldest message first; `at` of a fork is an index into it.
    call ListMessages: "listMessages" Get "/v1/sessions/{id}/messages" path(SessionPath) -> 200 Messages,
        errors [NotFound], clauses ["H11", "C15"];

    /// Branches into a new loaded session: the messages before index `at`, which must be a prompt, or all of them.
    call ForkSession: "forkSession" Post "/v1/sessions/{id}/fork" path(SessionPath) body(ForkBody) -> 201 Forked,
        errors [NotFound, Locked, Busy], clauses ["H12"];

    /// Streams the session's events: those after `Last-Event-ID` or `after`, if one is given, then live ones.
    stream StreamEvents: "streamEvents" Get "/v1/sessions/{id}/events"
        path(SessionPath) query(EventsQuery) headers(EventsHeaders) -> 200 StreamData,
        errors [NotFound], clauses ["H13", "H14", "H15", "H16", "H17"];

    /// Starts a run (202); or, with `wait`, answers with the run's outcome when it ends (200). Loads a stored session.
    call Prompt: "prompt" Post "/v1/sessions/{id}/prompt" path(SessionPath) body(PromptBody) -> 202 Accepted | 200 Finished,
        errors [NotFound, Locked, Busy, NoAgent, TooLarge, Cancelled, Unavailable], clauses ["H18", "C10", "C17"];

    /// Interrupts the run in flight, if there is one; its permission requests expire.
    call CancelRun: "cancelRun" Post "/v1/sessions/{id}/cancel" path(SessionPath) body(Nothing) -> 200 Cancelled,
        errors [NotFound], clauses ["H19"];

    /// The pending permission requests of a session.
    call ListPermissions: "listPermissions" Get "/v1/sessions/{id}/permissions" path(SessionPath) -> 200 Permissions,
        errors [NotFound], clauses ["H20"];

    /// Answers a permission request (204); with `always`, tells whether the rule was saved (200). The first answer wins.
    call AnswerPermission: "answerPermission" Post "/v1/sessions/{id}/permissions/{request_id}"
        path(PermissionPath) body(PermissionBody) -> 204 () | 200 PermissionAnswered,
        errors [NotFound], clauses ["H21"];

    /// The pending permission requests of all sessions.
    call ListAllPermissions: "listAllPermissions" Get "/v1/permissions" -> 200 AllPermissions,
        errors [], clauses ["H20"];

    /// Summarises the history; the summary stands for what was before. Loads a stored session.
    call CompactSession: "compactSession" Post "/v1/sessions/{id}/compact" path(SessionPath) body(Nothing) -> 200 Compacted,
        errors [NotFound, Locked, Busy, NoAgent, Unavailable, Cancelled], clauses ["H22"];

    /// Takes back the last prompt, its answer and the file changes that it made. Loads a stored session.
    call UndoPrompt: "undoPrompt" Post "/v1/sessions/{id}/undo" path(SessionPath) body(Nothing) -> 200 Undone,
        errors [NotFound, Locked, Busy, Invalid], clauses ["H22"];

    /// Empties the history; the transcript keeps what was before. Loads a stored session.
    call ClearSession: "clearSession" Post "/v1/sessions/{id}/clear" path(SessionPath) body(Nothing) -> 200 Cleared,
        errors [NotFound, Locked, Busy], clauses ["H22"];

    /// The background tasks of a session, running and ended.
    call ListTasks: "listTasks" Get "/v1/sessions/{id}/tasks" path(SessionPath) -> 200 Tasks,
        errors [NotFound], clauses ["H23"];

    /// Stops a background task.
    call StopTask: "stopTask" Delete "/v1/sessions/{id}/tasks/{task_id}" path(TaskPath) -> 204 (),
        errors [NotFound], clauses ["H23"];
}

use crate::rest::Nothing;

/// The OpenAPI document of this wire.
/// Errors: the name of a type that is read and written with different schemas.
pub fn openapi(version: &str) -> Result<serde_json::Value, String> {
    crate::openapi::document(
        &crate::openapi::Info {
            title: "Triplane over HTTP (larik)",
            version,
            summary: "Sessions of coding agents over HTTP and Server-Sent Events.",
        },
        ROWS,
    )
}

#[cfg(test)]
mod tests;
