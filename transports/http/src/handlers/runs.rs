//! Runs: start one, wait for one, interrupt one. Clauses: H18, H19, C10.

use super::Larik;
use crate::views;
use tokio_util::task::TaskTracker;
use triplane_core::{
    Plane,
    plane::{Prompt as PlanePrompt, Run, WhenBusy},
};
use triplane_protocol::{
    Failure, RunId, SessionId,
    larik::{Accepted, CancelRun, Cancelled, Finished, Prompt},
    rest::{Either, Handle, Input},
};

impl Handle<Prompt> for Larik {
    async fn handle(&self, input: Input<Prompt>) -> Result<Either<Accepted, Finished>, Failure> {
        let (id, body) = (input.path.id, input.body);
        self.loaded(&id).await?;
        let prompt = PlanePrompt::text(body.text, WhenBusy::Refuse);
        if !body.wait.unwrap_or(false) {
            let run = self.plane.prompt(&id, prompt).await?;
            return Ok(Either::First(Accepted { run_id: run.run_id, seq: run.seq }));
        }
        let (run, mut waiting) = self.begin(id, prompt).await?;
        let result = run.finished().await;
        waiting.over = true;
        Ok(Either::Second(views::finished(result?)))
    }
}

impl Larik {
    /// Starts a run that is waited for. Begun to its end, so that a client that goes meanwhile takes its run along, where it
    /// does at all: what nobody receives is dropped.
    async fn begin(&self, id: SessionId, prompt: PlanePrompt) -> Result<(Run, Waiting), Failure> {
        let (plane, tracker) = (self.plane.clone(), self.tracker.clone());
        self.to_end(async move {
            let run = plane.prompt(&id, prompt).await?;
            let waiting = Waiting { plane, id, run_id: run.run_id.clone(), tracker, over: false };
            Ok((run, waiting))
        })
        .await
    }
}

/// A client that waits for a run; gone before the run's end, it takes the run along where the plane is set up so. Clause: C10.
struct Waiting {
    plane: Plane,
    id: SessionId,
    run_id: RunId,
    tracker: TaskTracker,
    over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over || !self.plane.config().abort_on_disconnect {
            return;
        }
        let (plane, id, run_id) = (self.plane.clone(), self.id.clone(), self.run_id.clone());
        self.tracker.spawn(async move {
            if let Err(err) = plane.cancel_run(&id, &run_id).await {
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
