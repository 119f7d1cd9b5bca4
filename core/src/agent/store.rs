//! Sessions that another program keeps in its own format. Clauses: S06–S10, S16, S28.

use async_trait::async_trait;
use triplane_protocol::{ErrorCode, Session, SessionId};

/// A session as its store lists it, without its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRow {
    /// Its id in the store.
    pub id: SessionId,
    /// Absolute directory that it works in.
    pub cwd: String,
    /// Title for people.
    pub title: Option<String>,
    /// `provider/name`, where it is known.
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
}

/// A session that was written into a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its id there.
    pub id: SessionId,
    /// What the store's format cannot hold, one line each (`images of 2 messages`); empty when all of it went in.
    pub lost: Vec<String>,
}

/// Why a store could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreFailure {
    /// `NotFound`, `Invalid`, `Locked` (its program has the session open), `Unsupported`, `Unavailable` or `Internal`.
    pub code: ErrorCode,
    /// One line for the client: the store's own message.
    pub message: String,
    /// What stood behind it, where there is more to tell: how a process ended, its last words.
    pub cause: Option<String>,
}

impl StoreFailure {
    /// A failure with its message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None }
    }

    /// The same, with what stood behind it.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }
}

/// A store of sessions in another program's own format. Every call is cancel safe: dropped, a write is whole or absent.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Every session in it, in no order. One that cannot be read costs itself, not the list. Opens no session that did not
    /// change since the last call.
    async fn list(&self) -> Result<Vec<StoreRow>, StoreFailure>;

    /// Whether it has this session. A store that can tell without a list should.
    async fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        Ok(self.list().await?.iter().any(|row| row.id == *id))
    }

    /// A whole session. Errors: `NotFound`.
    async fn load(&self, id: &SessionId) -> Result<Session, StoreFailure>;

    /// Writes a session as its program would have: under `id`, or a fresh id of the store's own kind. Nothing partial is
    /// ever visible. Errors: `Invalid` (also when `id` exists, or is none that the store can have), `Locked`.
    async fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure>;

    /// Deletes a session and what belongs to it alone. Errors: `NotFound`, `Locked`.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreFailure>;
}
