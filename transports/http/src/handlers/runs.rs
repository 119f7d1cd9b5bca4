//! Runs: start one, wait for one, interrupt one. Clauses: H18, H19, C10.

use super::Larik;
use crate::views;
use tokio_util::task::TaskTracker;
use triplane_core::{
    Plane,
    plane::{Prompt as PlanePrompt, WhenBusy},
};
use triplane_protocol::{
    Failure, SessionId,
    larik::{Accepted, CancelRun, Cancelled, Finished, Prompt},
    rest::{Either, Handle, Input},
};

impl Handle<Prompt> for Larik {
    async fn handle(&self, input: Input<Prompt>) -> Result<Either<Accepted, Finished>, Failure> {
        let (id, body) = (input.path.id, input.body);
        self.loaded(&id).await?;
        let run = self.plane.prompt(&id, PlanePrompt::text(body.text, WhenBusy::Refuse)).await?;
        if !body.wait.unwrap_or(false) {
            return Ok(Either::First(Accepted { run_id: run.run_id, seq: run.seq }));
        }
        let mut waiting = Waiting { plane: self.plane.clone(), id, tracker: self.tracker.clone(), over: false };
        let result = run.finished().await;
        waiting.over = true;
        Ok(Either::Second(views::finished(result?)))
    }
}

/// A client that waits for a run; gone before the run's end, it takes the run along where the plane is set up so. Clause: C10.
struct Waiting {
    plane: Plane,
    id: SessionId,
    tracker: TaskTracker,
    over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over || !self.plane.config().abort_on_disconnect {
            return;
        }
        let (plane, id) = (self.plane.clone(), self.id.clone());
        self.tracker.spawn(async move {
            if let Err(err) = plane.cancel(&id).await {
                tracing::debug!(error = %err, session = %id, "a run whose client went could not be cancelled");
            }
        });
    }
}

impl Handle<CancelRun> for Larik {
    async fn handle(&self, input: Input<CancelRun>) -> Result<Cancelled, Failure> {
        let id = input.path.id;
        let cancelled = self.plane.cancel(&id).await;
        Ok(Cancelled { cancelled: self.or_nothing(&id, cancelled, false).await? })
    }
}
