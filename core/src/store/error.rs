//! Why the store says no: one variant for each thing that the caller can do about it.

use super::lock::Holder;
use crate::PlaneError;

/// Why a store call failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No transcript has this id. Also the answer for a symlink, a FIFO or a directory in its place. Clauses: C16, L11.
    #[error("no session `{0}`")]
    NotFound(String),
    /// More than one id begins with this.
    #[error("`{0}` fits more than one session; give more of the id")]
    Ambiguous(String),
    /// What was given cannot be an id.
    #[error("{0}")]
    InvalidParams(&'static str),
    /// A transcript with this id is there already.
    #[error("a session `{0}` exists already")]
    Exists(String),
    /// Somebody else has the session.
    #[error("the session is held by another process")]
    Held(Holder),
    /// The session was taken over; this process may not write to it any more.
    #[error("the session was taken over by another process")]
    Fenced,
    /// Written by a later version.
    #[error("the transcript has format {0}, which is newer than this program")]
    NewerFormat(u32),
    /// Over a stated limit.
    #[error("{what} has {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// `a record`, `a blob`.
        what: &'static str,
        /// How many there were.
        bytes: u64,
        /// How many there may be.
        limit: u64,
    },
    /// What is on disk is not what was put there.
    #[error("{0}")]
    Corrupt(String),
    /// A record could not be written as JSON.
    #[error("a record could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// The disk said no.
    #[error("{doing} failed")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl StoreError {
    /// `map_err` for the disk.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

impl From<StoreError> for PlaneError {
    fn from(err: StoreError) -> Self {
        match err {
            StoreError::NotFound(id) => Self::no_session(id),
            StoreError::Ambiguous(text) => Self::Ambiguous(text),
            StoreError::InvalidParams(why) => Self::InvalidParams(why.to_owned()),
            StoreError::Held(holder) => Self::Locked(holder.to_string()),
            StoreError::Fenced => Self::Locked(err.to_string()),
            StoreError::Exists(_) | StoreError::NewerFormat(_) => Self::Invalid(err.to_string()),
            StoreError::TooLarge { .. } => Self::TooLarge(err.to_string()),
            StoreError::Corrupt(what) => Self::Internal(what),
            StoreError::Encode(source) => Self::Internal(format!("a record could not be encoded: {source}")),
            StoreError::Io { doing, source } => Self::Io { doing, source },
        }
    }
}
