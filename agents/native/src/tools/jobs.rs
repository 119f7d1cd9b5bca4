//! `bash_output` and `bash_stop`: what became of a background command.

use super::{Builtin, CANCELLED, Desk, Outcome, Prepared, text::title};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// The longest wait for output.
const WAIT_MS: u64 = 60_000;

/// How long a command that was stopped may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// Input of `bash_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashOutput {
    /// The background task, as `bash` has named it.
    task_id: String,
    /// How long to wait for output or the end when there is nothing new, in milliseconds; 60000 at most, 0 when absent.
    #[serde(default)]
    wait_ms: u64,
}

impl Builtin for BashOutput {
    const NAME: &'static str = "bash_output";
    const DESCRIPTION: &'static str =
        "Answers what a background command has said since the last call, and whether it still runs.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        if self.wait_ms > WAIT_MS {
            return Err(format!("wait_ms: must be at most {WAIT_MS}; call again to wait on"));
        }
        let job = desk.shelf.find(&self.task_id)?;
        let cancel = desk.cancel.clone();
        let wait = Duration::from_millis(self.wait_ms);
        Ok(own("bash_output", self.task_id, async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Outcome::failed(CANCELLED),
                _ = tokio::time::timeout(wait, job.moved()) => {}
            }
            Outcome::ok(job.read())
        }))
    }
}

/// Input of `bash_stop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BashStop {
    /// The background task, as `bash` has named it.
    task_id: String,
}

impl Builtin for BashStop {
    const NAME: &'static str = "bash_stop";
    const DESCRIPTION: &'static str =
        "Ends a background command and all that it started, and answers what it has said since the last call.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let job = desk.shelf.find(&self.task_id)?;
        Ok(own("bash_stop", self.task_id, async move {
            job.stop.cancel();
            match tokio::time::timeout(GONE, job.ended()).await {
                Ok(()) => Outcome::ok(job.read()),
                Err(_) => Outcome::failed("it was told to end and has not yet; look again with `bash_output`"),
            }
        }))
    }
}

/// It concerns only what this session has started, and that was allowed.
fn own(name: &str, task: String, work: impl Future<Output = Outcome> + Send + 'static) -> Prepared {
    Prepared {
        kind: ToolKind::Read,
        title: title(name, &task),
        subject: task,
        outside: false,
        changes: None,
        hold: None,
        work: Box::pin(work),
    }
}
