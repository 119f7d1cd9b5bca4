//! `todo`: the agent's list of steps, told as the event `plan`.

use super::{Builtin, Desk, Outcome, Prepared};
use schemars::JsonSchema;
use serde::Deserialize;
use triplane_core::session::ToolKind;
use triplane_protocol::{
    AgentEvent, CallId,
    event::{PlanEntry, PlanState},
};

/// Steps of one list.
const STEPS: usize = 100;

/// Bytes of one step.
const STEP_BYTES: usize = 1_000;

/// Input of `todo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Todo {
    /// All steps in their order; they take the place of those before.
    steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    /// What is to be done, in a few words.
    text: String,
    /// How far it is.
    state: State,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Not begun.
    Pending,
    /// Being worked on.
    Active,
    /// Finished.
    Done,
}

impl Builtin for Todo {
    const NAME: &'static str = "todo";
    const DESCRIPTION: &'static str = "Shows the person your list of steps for work that has several. Call it again with the \
        whole list when a step begins or is done; one step is `active` at a time.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        if self.steps.len() > STEPS {
            return Err(format!("steps: {STEPS} are the most"));
        }
        for (at, step) in self.steps.iter().enumerate() {
            if step.text.trim().is_empty() || step.text.len() > STEP_BYTES {
                return Err(format!("steps[{at}].text: must have from 1 to {STEP_BYTES} bytes"));
            }
        }
        let host = desk.host.clone();
        let done = self.steps.iter().filter(|step| matches!(step.state, State::Done)).count();
        let subject = format!("{done} of {} done", self.steps.len());
        let told = subject.clone();
        let entries = self.steps.into_iter().map(|step| PlanEntry {
            text: step.text,
            state: match step.state {
                State::Pending => PlanState::Pending,
                State::Active => PlanState::Active,
                State::Done => PlanState::Done,
            },
        });
        let entries = entries.collect();
        Ok(Prepared {
            kind: ToolKind::Read,
            title: format!("todo {subject}"),
            subject,
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                host.emit(AgentEvent::Plan { entries }).await;
                Outcome::ok(told)
            }),
        })
    }
}
