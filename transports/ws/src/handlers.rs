//! One handler a row of lich: params in, a plane call, the result out. Clauses: L03–L20.

use crate::{connection::Client, submit};
use futures_util::FutureExt;
use std::sync::Arc;
use triplane_common::rpc::Armed;
use triplane_core::{
    PlaneError,
    plane::{ClearWhen, Created},
};
use triplane_protocol::{
    ErrorCode, Failure, SessionId,
    lich::{self, HealthResult, HealthStatus, ListedSession},
    table::Handle,
};

/// One request of one client, when its turn has come.
pub(crate) struct Request {
    pub(crate) client: Arc<Client>,
    /// Fires when an abort came before its run began.
    pub(crate) armed: Armed,
}

impl Handle<lich::Health> for Request {
    async fn handle(&self, _: lich::HealthParams) -> Result<HealthResult, Failure> {
        Ok(HealthResult { status: HealthStatus::Ok, version: env!("CARGO_PKG_VERSION").into() })
    }
}

impl Handle<lich::SessionCreate> for Request {
    async fn handle(&self, params: lich::SessionCreateParams) -> Result<lich::SessionCreateResult, Failure> {
        let lich = &self.client.lich;
        let created = Created { label: params.label, source: Some(params.source), ..Created::default() };
        let detail = lich.plane.create(&lich.hold, created).await?;
        Ok(lich::SessionCreateResult { session_id: detail.row.id })
    }
}

impl Handle<lich::SessionList> for Request {
    async fn handle(&self, _: lich::SessionListParams) -> Result<lich::SessionListResult, Failure> {
        let page = self.client.lich.plane.list(None, None).await?;
        let listed = page.rows.into_iter().map(|row| ListedSession { id: row.id, mtime_ms: row.updated });
        Ok(lich::SessionListResult { sessions: listed.collect() })
    }
}

impl Handle<lich::SessionClear> for Request {
    async fn handle(&self, params: lich::SessionClearParams) -> Result<lich::SessionClearResult, Failure> {
        self.client.lich.plane.clear(&params.session_id, ClearWhen::NextAppend).await?;
        Ok(lich::SessionClearResult { session_id: params.session_id })
    }
}

impl Handle<lich::SessionResume> for Request {
    async fn handle(&self, params: lich::SessionResumeParams) -> Result<lich::SessionResumeResult, Failure> {
        let lich = &self.client.lich;
        let (resumed_id, fork) = lich.plane.resume_fork(&lich.hold, &params.id, params.source).await?;
        let message_count = u64::try_from(fork.message_count).unwrap_or(u64::MAX);
        Ok(lich::SessionResumeResult { session_id: fork.session.row.id, resumed_id, message_count })
    }
}

impl Handle<lich::PromptSubmit> for Request {
    async fn handle(&self, params: lich::PromptSubmitParams) -> Result<lich::PromptSubmitResult, Failure> {
        self.needs_agent()?;
        if params.text.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidParams, "text: must not be empty"));
        }
        submit::run(&self.client, &self.armed, &params.session_id, params.text).await
    }
}

impl Handle<lich::PromptAbort> for Request {
    async fn handle(&self, params: lich::PromptAbortParams) -> Result<lich::PromptAbortResult, Failure> {
        self.needs_agent()?;
        let waited = self.client.queues.cancel_waiting(params.session_id.as_str()) > 0;
        let aborted = self.cancel(&params.session_id, waited).await?;
        Ok(lich::PromptAbortResult { session_id: params.session_id, aborted })
    }
}

impl Request {
    /// Cancels the run in flight; whether it, or (`waited`) a submit that had not begun, was there to be cancelled.
    /// Answers once that is on its way: the run's end may take a while, and is told by its submit.
    async fn cancel(&self, id: &SessionId, waited: bool) -> Result<bool, Failure> {
        let lich = &self.client.lich;
        let (plane, session) = (lich.plane.clone(), id.clone());
        let mut cancel = Box::pin(async move { plane.cancel(&session).await });
        // The first look settles which run is meant.
        let outcome = match (&mut cancel).now_or_never() {
            Some(outcome) => outcome,
            None if waited || lich.plane.get(id).await?.row.busy => {
                lich.tasks.spawn(cancel);
                return Ok(true);
            }
            None => cancel.await,
        };
        match outcome {
            // Nothing runs in a session that is not live.
            Err(PlaneError::NotFound { .. }) => Ok(waited),
            outcome => Ok(outcome? || waited),
        }
    }

    fn needs_agent(&self) -> Result<(), Failure> {
        if self.client.lich.prompts { Ok(()) } else { Err(PlaneError::NoAgent.into()) }
    }
}
