//! Stores that may wait for the disk, on threads that may be waited for.

use async_trait::async_trait;
use std::sync::Arc;
use triplane_core::agent::{Saved, SessionStore, StoreFailure, StoreRow};
use triplane_protocol::{ErrorCode, Session, SessionId};

/// [`SessionStore`], in calls that block.
pub(crate) trait Store: Send + Sync + 'static {
    fn list(&self) -> Result<Vec<StoreRow>, StoreFailure>;
    fn has(&self, id: &SessionId) -> Result<bool, StoreFailure>;
    fn load(&self, id: &SessionId) -> Result<Session, StoreFailure>;
    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure>;
    fn delete(&self, id: &SessionId) -> Result<(), StoreFailure>;
}

/// A store on other threads. A call that is dropped runs on to its end there, so a write is whole or absent.
pub(crate) struct Threaded<S>(pub(crate) Arc<S>);

impl<S: Store> Threaded<S> {
    async fn run<T, F>(&self, call: F) -> Result<T, StoreFailure>
    where
        T: Send + 'static,
        F: FnOnce(&S) -> Result<T, StoreFailure> + Send + 'static,
    {
        let store = self.0.clone();
        let done = tokio::task::spawn_blocking(move || call(&store)).await;
        done.unwrap_or_else(|error| Err(StoreFailure::new(ErrorCode::Internal, error.to_string())))
    }
}

#[async_trait]
impl<S: Store> SessionStore for Threaded<S> {
    async fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        self.run(S::list).await
    }

    async fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        let id = id.clone();
        self.run(move |store| store.has(&id)).await
    }

    async fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        let id = id.clone();
        self.run(move |store| store.load(&id)).await
    }

    async fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let (session, id) = (session.clone(), id.cloned());
        self.run(move |store| store.save(&session, id.as_ref())).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreFailure> {
        let id = id.clone();
        self.run(move |store| store.delete(&id)).await
    }
}

/// The answer of a store that is only read.
pub(crate) fn read_only<T>(agent: &str) -> Result<T, StoreFailure> {
    Err(StoreFailure::new(ErrorCode::Unsupported, format!("sessions of {agent} can only be read")))
}

/// No session has this id.
pub(crate) fn missing(id: &SessionId) -> StoreFailure {
    StoreFailure::new(ErrorCode::NotFound, format!("no session `{id}`"))
}
