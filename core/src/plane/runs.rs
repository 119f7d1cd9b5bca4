//! What is done to a live session: prompts, cancels, answers, settings, tasks.

use super::{Answer, Answered, Plane, Prompt, Run, SessionDetail, TaskInfo};
use crate::{
    PlaneError,
    agent::NoAgent,
    session::{
        Live, fresh_id,
        input::{Input, Origin, PromptInput, Reply},
        now_ms, run_id,
    },
};
use triplane_protocol::{
    MessageId, Part, RequestId, RunId, SessionId, Stop, TaskId,
    event::{PermissionRequest, SettingsPatch},
};

impl Plane {
    /// Takes a prompt for a live session. Returns once it is on disk and its run began (with
    /// [`WhenBusy::Queue`](super::WhenBusy::Queue), once the runs before it are done). Errors: `NotFound` when not live,
    /// `Busy`, `NoAgent`, `Unavailable` when its agent is not installed, `InvalidParams` (empty), `TooLarge`, `Overloaded`, `Closing`, `Cancelled` when `armed` fired first.
    /// Dropped before it resolves: the prompt stays, and its run goes on (C10).
    pub async fn prompt(&self, id: &SessionId, prompt: Prompt) -> Result<Run, PlaneError> {
        self.open_for_work()?;
        let live = self.live(id)?;
        let agent = live.agent.descriptor();
        if !agent.can.prompt {
            return Err(match agent.installed || agent.id == NoAgent::NAME {
                true => PlaneError::NoAgent,
                false => PlaneError::Unavailable(format!("{} is not installed here (agent `{}`)", agent.name, agent.id)),
            });
        }
        self.check_parts(&prompt.parts)?;
        if prompt.armed.is_cancelled() {
            return Err(PlaneError::Cancelled);
        }
        let ticket = live.ticket();
        let input = PromptInput {
            run_id: run_id(),
            message_id: MessageId::from(fresh_id()),
            parts: prompt.parts,
            origin: Origin::Client,
            when_busy: prompt.when_busy,
            at: now_ms(),
        };
        let mut begun = live.ask_run(ticket, Input::Prompt(ticket, input)).await?;
        let begun = tokio::select! {
            begun = &mut begun => begun,
            () = prompt.armed.cancelled() => {
                // Too late for a run that began: whoever fired also cancels the run in flight.
                live.tell(Input::Withdraw(ticket)).await;
                begun.await
            }
        };
        begun.map_err(|_| PlaneError::not_live(id))?
    }

    fn check_parts(&self, parts: &[Part]) -> Result<(), PlaneError> {
        let limit = self.inner.services.limits.prompt_bytes;
        let bytes: usize = parts.iter().map(|part| part.as_text().map_or(0, str::len)).sum();
        let only_text = parts.iter().all(|part| part.as_text().is_some());
        if bytes > limit {
            return Err(PlaneError::TooLarge(format!("text: has {bytes} bytes; the limit is {limit}")));
        }
        if only_text && bytes == 0 {
            return Err(PlaneError::InvalidParams("text: must not be empty".into()));
        }
        Ok(())
    }

    /// Cancels this run, if it is the one in flight. Otherwise as [`Plane::cancel`]. Clause: H19.
    pub async fn cancel_run(&self, id: &SessionId, run: &RunId) -> Result<bool, PlaneError> {
        Ok(self.cancel_seen(&*self.live(id)?, Some(run.clone())).await? == Some(Stop::Aborted))
    }

    /// Cancels the run in flight. Resolves once the run's end is published: `true` when the run was cut short, `false` when
    /// nothing ran or it came to its own end first ([`Plane::cancel_told`] tells them apart).
    /// Its permission requests expire. Never reaches a later run. Errors: `NotFound` when not live. Clause: H19.
    pub async fn cancel(&self, id: &SessionId) -> Result<bool, PlaneError> {
        Ok(self.cancel_told(id).await? == Some(Stop::Aborted))
    }

    /// As [`Plane::cancel`]; answers with how the run ended that was told to stop, `None` when nothing ran.
    pub async fn cancel_told(&self, id: &SessionId) -> Result<Option<Stop>, PlaneError> {
        let live = self.live(id)?;
        let seen = live.machine().run_id().cloned();
        self.cancel_seen(&live, seen).await
    }

    async fn cancel_seen(&self, live: &Live, seen: Option<RunId>) -> Result<Option<Stop>, PlaneError> {
        match live.ask(|ticket| Input::Cancel(ticket, seen)).await? {
            Reply::Cancelled(stop) => Ok(stop),
            Reply::Done | Reply::Answered(_) | Reply::Compacted(..) => Err(odd_reply()),
        }
    }

    /// Pending permission requests of a live session, or of the node. Errors: `NotFound` when not live. Clause: H20.
    pub fn permissions(&self, id: Option<&SessionId>) -> Result<Vec<(SessionId, PermissionRequest)>, PlaneError> {
        let lives = match id {
            Some(id) => vec![self.live(id)?],
            None => self.inner.services.feed.map().sessions.values().cloned().collect(),
        };
        let mut out = Vec::new();
        for live in lives {
            out.extend(live.machine().permissions().iter().map(|request| (live.id.clone(), request.clone())));
        }
        out.sort_by(|a, b| a.1.request_id.cmp(&b.1.request_id));
        Ok(out)
    }

    /// Answers a permission request; the first answer wins. Errors: `NotFound` for an unknown or answered request,
    /// `InvalidParams` for an option that was not offered. Clauses: H21, S15.
    pub async fn answer(&self, id: &SessionId, request: &RequestId, answer: Answer) -> Result<Answered, PlaneError> {
        let request = request.clone();
        match self.live(id)?.ask(|ticket| Input::Answer(ticket, request, answer)).await? {
            Reply::Answered(answered) => Ok(answered),
            Reply::Done | Reply::Cancelled(_) | Reply::Compacted(..) => Err(odd_reply()),
        }
    }

    /// Changes settings of a live session, all or none; the next turn has them.
    /// Errors: `NotFound` when not live, `InvalidParams` naming the field. Clause: H09.
    pub async fn set(&self, id: &SessionId, patch: SettingsPatch) -> Result<SessionDetail, PlaneError> {
        let live = self.live(id)?;
        self.check_settings(&*live.agent, &patch)?;
        if patch != SettingsPatch::default() {
            live.ask(|ticket| Input::Set(ticket, patch)).await?;
        }
        self.get(id).await
    }

    /// Background tasks of a live session, oldest first. Errors: `NotFound` when not live. Clause: H23.
    pub fn tasks(&self, id: &SessionId) -> Result<Vec<TaskInfo>, PlaneError> {
        Ok(self.live(id)?.machine().tasks().to_vec())
    }

    /// Stops a background task. Errors: `NotFound`.
    pub async fn stop_task(&self, id: &SessionId, task: &TaskId) -> Result<(), PlaneError> {
        let task = task.clone();
        self.live(id)?.ask(|ticket| Input::StopTask(ticket, task)).await.map(drop)
    }
}

pub(super) fn odd_reply() -> PlaneError {
    PlaneError::Internal("a session gave an answer of another kind".into())
}
