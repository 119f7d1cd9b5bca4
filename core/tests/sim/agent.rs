//! The agent of a session: it says, asks, ends, runs over, summarises, and has background tasks, all as the script wants it.

use crate::{
    model::{Halt, pick},
    script::Step,
    session::Session,
};
use triplane_core::{
    agent::{RunError, RunOutcome},
    plane::TaskInfo,
    session::{
        TaskOutput,
        input::{Input, Say},
    },
};
use triplane_protocol::{
    AgentEvent, CallId, ErrorCode, Message, MessageId, RequestId, Role, RunId, Stop, TaskId, Usage,
    event::{OptionKind, PermissionOption, PermissionRequest, TaskState},
};

type Checked = Result<(), Halt>;

impl Session {
    pub(super) fn agent(&mut self, run: RunId, step: Step) -> Checked {
        let id = self.fresh();
        let say = match step {
            Step::Message => {
                let id = MessageId::from(format!("a{id}"));
                Say::Message(Message::text(id, Role::Assistant, "an answer", self.now as i64))
            }
            Step::Ask { answerable } => {
                let id = RequestId::from(format!("q{id}"));
                self.requests.push(id.clone());
                self.model.asked(id.clone());
                Say::Ask { request: request(id), answerable }
            }
            Step::End(stop) => Say::Ended(outcome(stop)),
            Step::Overflow { early } => {
                let outcome = RunOutcome::needs_compaction(Usage::default(), u32::from(early));
                if let Some(active) = &mut self.model.active {
                    active.refused = !early;
                }
                let error = RunError { code: ErrorCode::TooLarge, message: "no".into(), retryable: false };
                Say::Ended(if early { outcome } else { RunOutcome { error: Some(error), ..outcome } })
            }
            _ => Say::Event(AgentEvent::LlmDelta { text: "x".into() }),
        };
        self.feed(Input::Agent(run, say))
    }

    pub(super) fn summary(&mut self, ok: bool) -> Checked {
        let active = self.model.active.as_ref().filter(|active| active.compacts.is_some() || active.squeezing);
        let Some(run) = active.map(|active| active.run.clone()) else { return Ok(()) };
        self.compacted(run, ok)
    }

    pub(super) fn compacted(&mut self, run: RunId, ok: bool) -> Checked {
        let id = MessageId::from(format!("b{}", self.fresh()));
        let error = RunError { code: ErrorCode::Unavailable, message: "no".into(), retryable: true };
        let summary = if ok { Ok(("summary".to_owned(), Usage::default())) } else { Err(error) };
        match self.current() {
            None if self.model.active.as_ref().is_some_and(|active| active.squeezing) => self.seen.squeezes += 1,
            _ => self.seen.compactions += 1,
        }
        self.feed(Input::Compacted(run, summary, id, self.now as i64))
    }

    pub(super) fn task(&mut self) -> Checked {
        let id = TaskId::from(format!("t{}", self.fresh()));
        self.model.tasks.insert(id.clone(), Default::default());
        let (title, state, started) = ("a task".to_owned(), TaskState::Running, self.now as i64);
        self.feed(Input::TaskStarted(TaskInfo {
            id,
            title,
            state,
            started,
            ended: None,
            output: TaskOutput::default(),
        }))
    }

    pub(super) fn task_ends(&mut self, n: u8, ok: bool) -> Checked {
        let closing = self.model.closing;
        let running: Vec<TaskId> =
            self.model.tasks.iter().filter(|(_, task)| !task.ended).map(|(id, _)| id.clone()).collect();
        let Some(id) = pick(&running, n) else { return Ok(()) };
        let Some(task) = self.model.tasks.get_mut(&id) else { return Ok(()) };
        task.ended = true;
        let state = match (task.stop_asked, ok) {
            (true, _) => TaskState::Stopped,
            (false, true) => TaskState::Done,
            (false, false) => TaskState::Failed,
        };
        if state != TaskState::Stopped && !closing {
            self.model.owed.insert(id.clone());
        }
        self.feed(Input::TaskEnded(id, state, "what it said".into(), self.now as i64))
    }

    pub(super) fn drop_run(&mut self, run: RunId) -> Result<Input, Halt> {
        self.seen.overdue += 1;
        self.model.dropped();
        let compacts = self.model.active.as_ref().is_some_and(|active| active.compacts.is_some() || active.squeezing);
        Ok(match compacts {
            true => {
                let error = RunError { code: ErrorCode::Cancelled, message: "cancelled".into(), retryable: false };
                Input::Compacted(run, Err(error), MessageId::from("never"), self.now as i64)
            }
            false => Input::Agent(run, Say::Ended(outcome(Stop::Aborted))),
        })
    }
}

fn outcome(stop: Stop) -> RunOutcome {
    RunOutcome { stop, reply: "r".into(), usage: Usage::default(), turns: 1, error: None }
}

fn request(request_id: RequestId) -> PermissionRequest {
    let option = |kind, id: &str| PermissionOption { id: id.into(), name: id.into(), kind };
    let options = vec![
        option(OptionKind::AllowOnce, "yes"),
        option(OptionKind::AllowAlways, "ever"),
        option(OptionKind::RejectOnce, "no"),
    ];
    let (call_id, title) = (CallId::from("c"), String::new());
    PermissionRequest { request_id, call_id, tool: "bash".into(), title, input: serde_json::Value::Null, options }
}
