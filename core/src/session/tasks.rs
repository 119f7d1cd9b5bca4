//! Background tasks of a session: listed, stopped, and their results handed over.
//! Invariant: a task's start and end are told once each; results are handed over by a run of their own, on an idle session at
//! once, else after the run in flight. Clauses: H23, H24.

use super::{
    input::{Effect, FinishedTask, Origin, PromptInput, Reply, Ticket},
    machine::Machine,
};
use crate::{PlaneError, plane::TaskInfo};
use triplane_protocol::{AgentEvent, TaskId, event::TaskState, ir::Part};

/// Background tasks that are kept in the list after their end.
const ENDED_TASKS: usize = 64;
impl Machine {
    /// Background tasks, oldest first.
    pub fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    pub(super) fn task_started(&mut self, task: TaskInfo, out: &mut Vec<Effect>) {
        if self.closed() {
            out.push(Effect::StopTask(task.id));
            return;
        }
        let (task_id, title) = (task.id.clone(), task.title.clone());
        self.tasks.push(task);
        out.push(Effect::Publish(AgentEvent::TaskStart { task_id, title }));
    }

    pub(super) fn task_ended(&mut self, id: &TaskId, state: TaskState, text: String, at: i64, out: &mut Vec<Effect>) {
        if self.closed() {
            return;
        }
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == *id && task.state == TaskState::Running) else {
            return;
        };
        task.state = state;
        task.ended = Some(at);
        let title = task.title.clone();
        let ended = self.tasks.iter().filter(|task| task.state != TaskState::Running).count();
        if ended > ENDED_TASKS
            && let Some(oldest) = self.tasks.iter().position(|task| task.state != TaskState::Running)
        {
            self.tasks.remove(oldest);
        }
        out.push(Effect::Publish(AgentEvent::TaskEnd { task_id: id.clone(), state, text: text.clone() }));
        // A task that somebody stopped has nothing to hand over: whoever stopped it knows.
        if state != TaskState::Stopped && self.closing.is_none() {
            self.handover.push(FinishedTask { id: id.clone(), title, state, text });
            if self.idle() {
                out.push(Effect::WantHandover);
            }
        }
    }

    /// The run that hands finished tasks over; `prompt` brings the ids and the time.
    pub(super) fn start_handover(&mut self, mut prompt: PromptInput, out: &mut Vec<Effect>) {
        if !self.idle() || self.closing.is_some() || self.handover.is_empty() {
            return;
        }
        let lines: Vec<String> = self.handover.iter().map(FinishedTask::tell).collect();
        prompt.parts = vec![Part::text(lines.join("\n"))];
        prompt.origin = Origin::Task;
        self.start(None, prompt, lines.len(), out);
    }

    pub(super) fn stop_task(&mut self, ticket: Ticket, id: &TaskId, out: &mut Vec<Effect>) {
        if self.tasks.iter().any(|task| task.id == *id && task.state == TaskState::Running) {
            out.push(Effect::StopTask(id.clone()));
            out.push(Effect::Reply(ticket, Ok(Reply::Done)));
        } else {
            let error = PlaneError::NotFound { what: "running task", id: id.to_string(), hint: "" };
            out.push(Effect::Reply(ticket, Err(error)));
        }
    }
}

impl FinishedTask {
    /// What the model is told.
    fn tell(&self) -> String {
        let how = match self.state {
            TaskState::Done => "is done",
            TaskState::Failed => "failed",
            TaskState::Stopped => "was stopped",
            TaskState::Running => "is running",
        };
        // Set in, so that no line of it can pass for something that a user said.
        let text = self.text.replace('\n', "\n  ");
        format!("Background task {} ({}) {how}: {text}", self.id, self.title)
    }
}
