//! One short function a row: from typed input to plane calls to typed reply. Knows no HTTP.
//! Everything about sessions is the plane's; what is here is larik's alone: when a session is loaded, and what "nothing" is.

mod history;
mod permissions;
mod runs;
mod server;
mod sessions;
mod stream;
mod tasks;

use crate::{
    config::{HttpConfig, HttpLimits, ServerInfo},
    metrics::Requests,
    sse::EventStream,
};
use serde_json::value::RawValue;
use std::{
    future::Future,
    sync::{Arc, OnceLock},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_core::{
    Plane, PlaneError,
    plane::{Hold, HoldPolicy},
};
use triplane_protocol::{ErrorCode, Failure, SessionId, larik, rest::Serve};

/// Serves the wire from a plane.
pub(crate) struct Larik {
    plane: Plane,
    hold: Hold,
    info: ServerInfo,
    /// Made when it is first asked for: it costs more memory than all the rest of an idle server.
    document: OnceLock<Arc<RawValue>>,
    /// Requests that were answered.
    pub(crate) requests: Requests,
    limits: HttpLimits,
    streams: Arc<Semaphore>,
    tracker: TaskTracker,
    ending: CancellationToken,
}

impl Serve for Larik {
    type Stream = EventStream;
}

impl Larik {
    pub(crate) fn new(plane: Plane, config: &HttpConfig, tracker: TaskTracker, ending: CancellationToken) -> Self {
        Self {
            hold: plane.hold(HoldPolicy { name: "http", answers: true, ..HoldPolicy::default() }),
            plane,
            info: config.info.clone(),
            document: OnceLock::new(),
            requests: Requests::default(),
            limits: config.limits.clone(),
            streams: Arc::new(Semaphore::new(config.limits.streams)),
            tracker,
            ending,
        }
    }

    /// The wire's document. Errors: `Internal` for a defect of the wire's table.
    fn document(&self) -> Result<Arc<RawValue>, Failure> {
        if let Some(document) = self.document.get() {
            return Ok(document.clone());
        }
        let broken = |cause: String| Failure::new(ErrorCode::Internal, "the wire's table is broken").because(cause);
        let document = larik::openapi(&self.info.version).map_err(broken)?;
        let text = serde_json::value::to_raw_value(&document).map_err(|err| broken(err.to_string()))?;
        Ok(self.document.get_or_init(|| text.into()).clone())
    }

    /// Loads a stored session unless it is live, through whatever wire. Carried to its end even if the client goes. Clause: C17.
    async fn loaded(&self, id: &SessionId) -> Result<(), Failure> {
        if self.plane.is_live(id) {
            return Ok(());
        }
        let (plane, hold, id) = (self.plane.clone(), self.hold.clone(), id.clone());
        self.to_end(async move { plane.attach(&hold, &id).await }).await?;
        Ok(())
    }

    /// `found`; or, of a session that is stored but not loaded, `nothing`. Clause: C17.
    async fn or_nothing<T>(&self, id: &SessionId, found: Result<T, PlaneError>, nothing: T) -> Result<T, Failure> {
        match found {
            Err(PlaneError::NotFound { .. }) if !self.plane.is_live(id) => {
                self.plane.get(id).await?;
                Ok(nothing)
            }
            other => Ok(other?),
        }
    }

    /// Runs `work` as a task of the server, so that a client that goes does not leave it half done.
    async fn to_end<T, F>(&self, work: F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, PlaneError>> + Send + 'static,
        T: Send + 'static,
    {
        match self.tracker.spawn(work).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Failure::new(ErrorCode::Internal, "the request failed; the server's log has the cause")),
        }
    }
}

/// Refuses params that are well formed and make no sense.
fn refuse<T>(message: &str) -> Result<T, Failure> {
    Err(Failure::new(ErrorCode::InvalidParams, message))
}
