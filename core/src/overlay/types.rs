//! What the overlay keeps, and why it says no.

use crate::PlaneError;
use serde::{Deserialize, Serialize};
use triplane_protocol::{event::SettingsPatch, record::Header};

/// What was said of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// Stands for the title of the transcript.
    pub title: Option<String>,
    /// Somebody pinned it.
    pub pinned: bool,
    /// Somebody archived it.
    pub archived: bool,
    /// The projects that it belongs to, in the order that was given.
    pub project_ids: Vec<String>,
    /// The model that the next attach asks for.
    pub model: Option<String>,
}

/// What is to be said of a session; what is absent stays. Clause: S17.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaPatch {
    /// `Some(None)` clears it.
    pub title: Option<Option<String>>,
    /// Pins it, or no more.
    pub pinned: Option<bool>,
    /// Archives it, or no more.
    pub archived: Option<bool>,
    /// All projects that it belongs to from now on.
    pub project_ids: Option<Vec<String>>,
    /// `Some(None)` clears it.
    pub model: Option<Option<String>>,
}

/// Sessions that belong together. Clause: S18.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// A UUID.
    pub id: String,
    /// For people.
    pub name: String,
    /// Milliseconds since the epoch.
    pub created: i64,
}

/// One time that a session was live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The agent that ran it.
    pub agent: String,
    /// The model that it began with.
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub started: i64,
    /// Milliseconds since the epoch; `None` while it lasts, or until the end of a killed process is found.
    pub ended: Option<i64>,
}

/// What `create` was given, until the transcript has its first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The header that the transcript will begin with: agent, directory, creation, label, source.
    pub header: Header,
    /// Model, effort, mode and title.
    pub settings: SettingsPatch,
    /// Models to be tried when that one cannot be used.
    #[serde(default)]
    pub fallbacks: Vec<String>,
}

/// Why the overlay says no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// There is none, or its file cannot be used. Clause: S28.
    #[error("no overlay store: {0}")]
    Absent(String),
    /// No project has this id.
    #[error("no project `{0}`")]
    NoProject(String),
    /// There are as many as there may be.
    #[error("there are {0} projects; delete some of them")]
    Full(u32),
    /// Another process holds the file for longer than anybody should.
    #[error("the overlay store is busy with another process; try again")]
    Busy,
    /// The disk, or SQLite, said no.
    #[error("{0}")]
    Failed(String),
}

impl OverlayError {
    pub(super) fn off() -> Self {
        Self::Absent("this plane was started without one".into())
    }
}

impl From<rusqlite::Error> for OverlayError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy,
            Some(
                Code::DatabaseCorrupt
                | Code::NotADatabase
                | Code::CannotOpen
                | Code::ReadOnly
                | Code::PermissionDenied
                | Code::AuthorizationForStatementDenied,
            ) => Self::Absent(error.to_string()),
            // Another crate's enum, with more to come.
            Some(_) | None => Self::Failed(error.to_string()),
        }
    }
}

impl From<OverlayError> for PlaneError {
    fn from(error: OverlayError) -> Self {
        match error {
            OverlayError::Absent(_) => Self::Invalid(error.to_string()),
            OverlayError::NoProject(id) => Self::NotFound { what: "project", id, hint: "" },
            OverlayError::Full(_) | OverlayError::Busy => Self::Overloaded(error.to_string()),
            OverlayError::Failed(why) => {
                Self::Io { doing: "using the overlay store", source: std::io::Error::other(why) }
            }
        }
    }
}
