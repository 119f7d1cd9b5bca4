//! Why a plane call fails: one variant for each thing that the caller can do about it.

use crate::agent::StoreFailure;
use triplane_protocol::{ErrorCode, Failure};

/// Why a plane call failed.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// Nothing has this id. `hint` says what to do next.
    #[error("no {what} `{id}`{hint}")]
    NotFound {
        /// `session`, `permission request`, `task`, `project`.
        what: &'static str,
        /// What was asked for.
        id: String,
        /// Empty, or begins with `: `.
        hint: &'static str,
    },
    /// More than one session begins with this.
    #[error("`{0}` fits more than one session; give more of the id")]
    Ambiguous(String),
    /// More than one store has a session of this id.
    #[error("`{id}` is in the stores of {agents}; say which with `agent`")]
    InStores {
        /// The id.
        id: String,
        /// Names of the stores' agents.
        agents: String,
    },
    /// The store of an agent could not do it.
    #[error("agent `{agent}`: {failure}")]
    Store {
        /// The store's agent.
        agent: String,
        /// Why.
        #[source]
        failure: StoreFailure,
    },
    /// Another process holds the session.
    #[error("the session is held by another process")]
    Locked(String),
    /// A run is in flight.
    #[error("session {0} is busy; wait for its run or cancel it")]
    Busy(String),
    /// A param has the right type and a wrong value.
    #[error("{0}")]
    InvalidParams(String),
    /// Well formed, but it cannot be done.
    #[error("{0}")]
    Invalid(String),
    /// No such agent, or it lacks what was asked.
    #[error("{0}")]
    UnknownAgent(String),
    /// The agent or the build does not offer it.
    #[error("{0}")]
    Unsupported(String),
    /// No agent here can run a prompt.
    #[error("this server has no agent; start it with one to run prompts")]
    NoAgent,
    /// Cancelled before it began.
    #[error("cancelled before it began")]
    Cancelled,
    /// A queue or a cap is full.
    #[error("{0}")]
    Overloaded(String),
    /// Over a stated limit.
    #[error("{0}")]
    TooLarge(String),
    /// The agent's process is gone.
    #[error("{0}")]
    Unavailable(String),
    /// An agent's own store, config or process said so; its message is the cause. Clause: S28.
    #[error("{0}")]
    Agent(StoreFailure),
    /// The plane shuts down.
    #[error("the server is shutting down")]
    Closing,
    /// The disk said no.
    #[error("{doing} failed")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A defect of ours.
    #[error("{0}")]
    Internal(String),
}

impl PlaneError {
    /// No session has this id.
    pub fn no_session(id: impl ToString) -> Self {
        Self::NotFound { what: "session", id: id.to_string(), hint: "" }
    }

    /// The session is stored, but not live.
    pub fn not_live(id: impl ToString) -> Self {
        Self::NotFound { what: "live session", id: id.to_string(), hint: ": attach it first" }
    }

    /// `map_err` for the disk.
    pub fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// The code that goes on the wire.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Agent(failure) => failure.code,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::Ambiguous(_) | Self::InStores { .. } => ErrorCode::Ambiguous,
            Self::Store { failure, .. } => failure.code,
            Self::Locked(_) => ErrorCode::Locked,
            Self::Busy(_) => ErrorCode::Busy,
            Self::InvalidParams(_) => ErrorCode::InvalidParams,
            Self::Invalid(_) => ErrorCode::Invalid,
            Self::UnknownAgent(_) => ErrorCode::UnknownAgent,
            Self::Unsupported(_) => ErrorCode::Unsupported,
            Self::NoAgent => ErrorCode::NoAgent,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Overloaded(_) => ErrorCode::Overloaded,
            Self::TooLarge(_) => ErrorCode::TooLarge,
            Self::Unavailable(_) => ErrorCode::Unavailable,
            Self::Closing => ErrorCode::Closing,
            Self::Io { .. } | Self::Internal(_) => ErrorCode::Internal,
        }
    }
}

impl From<StoreFailure> for PlaneError {
    fn from(failure: StoreFailure) -> Self {
        Self::Agent(failure)
    }
}

impl From<PlaneError> for Failure {
    /// The client's text; the log gets the whole chain here, once.
    fn from(err: PlaneError) -> Self {
        let failure = Failure::new(err.code(), err.to_string());
        match err {
            PlaneError::Locked(holder) => failure.because(holder),
            PlaneError::Store { failure: cause, .. } => failure.because(cause),
            PlaneError::Io { source, doing } => {
                tracing::error!(error = %source, "{doing} failed");
                failure.because(source)
            }
            PlaneError::Agent(StoreFailure { message, cause, .. }) => {
                let cause = cause.unwrap_or(message);
                tracing::warn!("{}: {cause}", failure.message);
                failure.because(cause)
            }
            PlaneError::Internal(what) => {
                tracing::error!("{what}");
                failure
            }
            PlaneError::NotFound { .. }
            | PlaneError::Ambiguous(_)
            | PlaneError::InStores { .. }
            | PlaneError::Busy(_)
            | PlaneError::InvalidParams(_)
            | PlaneError::Invalid(_)
            | PlaneError::UnknownAgent(_)
            | PlaneError::Unsupported(_)
            | PlaneError::NoAgent
            | PlaneError::Cancelled
            | PlaneError::Overloaded(_)
            | PlaneError::TooLarge(_)
            | PlaneError::Unavailable(_)
            | PlaneError::Closing => failure,
        }
    }
}
