//! The handle that every transport calls: cheap to clone, one method a plane call.
//! Invariant: a session is in the live map exactly between its attached/created and detached markers. Clauses: S26, C17.

mod types;

pub use types::{
    Answer, Answered, Choice, Created, HistoryPage, Hold, HoldPolicy, ListPage, PlaneConfig, Prompt, Run, RunResult,
    SessionDetail, SessionRow, TaskInfo, WhenBusy,
};

use crate::{
    PlaneError,
    agent::{Agent, Descriptor},
    feed::{NodeSubscription, Subscription},
};
use std::{sync::Arc, time::Duration};
use triplane_protocol::{
    Message, MessageId, RequestId, SessionId, TaskId,
    event::{CloseReason, PermissionRequest, SettingsPatch},
};

/// All that one process serves.
#[derive(Debug, Clone)]
pub struct Plane {}

impl Plane {
    /// Opens the plane. Agents in order of preference: the first that can prompt is the default unless the config names one.
    /// Errors: a directory that cannot be made or is not ours to write.
    pub fn open(_config: PlaneConfig, _agents: Vec<Arc<dyn Agent>>) -> Result<Self, PlaneError> {
        Ok(Self {})
    }

    /// The config that it was opened with.
    pub fn config(&self) -> &PlaneConfig {
        unreachable!()
    }

    /// Registers a party that opens sessions (a transport); see [`HoldPolicy`]. Clause: C17.
    pub fn hold(&self, _policy: HoldPolicy) -> Hold {
        Hold {}
    }

    /// Makes a session and makes it live: its empty transcript is on disk before this returns. Clauses: L05, H07, S14.
    /// Errors: `UnknownAgent`, `NoAgent`, `InvalidParams` (model, cwd), `Overloaded` at the cap, `Closing`.
    pub async fn create(&self, _hold: &Hold, _created: Created) -> Result<SessionDetail, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Loads a stored session under its own id, or adds `hold` to a live one. Errors: `NotFound`, `Locked`, `Closing`.
    pub async fn attach(&self, _hold: &Hold, _id: &SessionId) -> Result<SessionDetail, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Ends a live session for all holds: its run is cancelled first. `false` when it was not live. The transcript stays.
    pub async fn detach(&self, _id: &SessionId, _reason: CloseReason) -> Result<bool, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Every session of the store, newest write first (C13). `limit` rows after `cursor` (an opaque text of an earlier page).
    pub async fn list(&self, _limit: Option<usize>, _cursor: Option<&str>) -> Result<ListPage, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// One session, live or stored. Errors: `NotFound`.
    pub async fn get(&self, _id: &SessionId) -> Result<SessionDetail, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// A whole id, a unique prefix or `latest`, resolved. Errors: `NotFound`, `Ambiguous`, `InvalidParams`. Clause: L08.
    pub async fn resolve(&self, _text: &str) -> Result<SessionId, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// All messages of a session, live or stored, oldest first. Errors: `NotFound`. Clause: H11.
    pub async fn messages(&self, _id: &SessionId) -> Result<Vec<Arc<Message>>, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// A page of the history, newest page first, oldest first within it. Clause: S11.
    pub async fn history(
        &self,
        _id: &SessionId,
        _limit: Option<usize>,
        _before: Option<&MessageId>,
    ) -> Result<HistoryPage, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Takes a prompt for a live session. Returns once it is on disk and its run began (with [`WhenBusy::Queue`], once the
    /// runs before it are done). Errors: `NotFound` when not live, `Busy`, `NoAgent`, `TooLarge`, `Overloaded`,
    /// `Cancelled` when `armed` fired first. Dropped before it resolves: the run goes on if it had begun (C10).
    pub async fn prompt(&self, _id: &SessionId, _prompt: Prompt) -> Result<Run, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Cancels the run in flight; `false` when nothing ran. Resolves once the run's end is published.
    /// Its permission requests expire. Never reaches a later run. Clause: H19.
    pub async fn cancel(&self, _id: &SessionId) -> Result<bool, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Pending permission requests of a session, or of the node. Clause: H20.
    pub fn permissions(&self, _id: Option<&SessionId>) -> Result<Vec<(SessionId, PermissionRequest)>, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Answers a permission request; the first answer wins. Errors: `NotFound` for an unknown or answered request,
    /// `InvalidParams` for an option that was not offered. Clauses: H21, S15.
    pub async fn answer(&self, _id: &SessionId, _request: &RequestId, _answer: Answer) -> Result<Answered, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Changes settings, all or none. Errors: `InvalidParams` naming the field. Clause: H09.
    pub async fn set(&self, _id: &SessionId, _patch: SettingsPatch) -> Result<SessionDetail, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Background tasks of a live session. Clause: H23.
    pub fn tasks(&self, _id: &SessionId) -> Result<Vec<TaskInfo>, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// Stops a background task. Errors: `NotFound`.
    pub async fn stop_task(&self, _id: &SessionId, _task: &TaskId) -> Result<(), PlaneError> {
        Err(PlaneError::Closing)
    }

    /// A position at the end of a session's log; it stands when this returns. Errors: `NotFound` unless live or stored.
    pub async fn subscribe(&self, _id: &SessionId) -> Result<Subscription, PlaneError> {
        Err(PlaneError::Closing)
    }

    /// A position at the end of the node's feed, and who is live at that moment. Clause: S24.
    pub fn subscribe_node(&self) -> (NodeSubscription, Vec<SessionId>) {
        (NodeSubscription {}, Vec::new())
    }

    /// Whether `id` is in the live map.
    pub fn is_live(&self, _id: &SessionId) -> bool {
        false
    }

    /// All agents.
    pub fn agents(&self) -> Vec<Descriptor> {
        Vec::new()
    }

    /// Resolves when shutdown has begun; transports end their streams then.
    pub async fn closing(&self) {
        std::future::pending().await
    }

    /// Shuts down: no new sessions or runs, runs may finish within `grace`, then they are cancelled; every session is
    /// detached with reason `shutdown`. Idempotent; all callers wait for the end. Clauses: C09, L13.
    pub async fn shutdown(&self, _grace: Duration) {}
}
