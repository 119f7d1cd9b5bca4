//! A run whose context does not fit: the history is summarised by the session's own model, and the same prompt is run again.
//! Invariant: the client sees one run; a refused context is helped once, and a run that asks for it early only as long as it
//! gets further in between. When the summary cannot be had, the run ends with what was wrong at first.
//!
//! What is summarised is everything before the prompt, and what the run itself said so far. The boundary names the prompt, so
//! that the model sees the summary and then the prompt that is still to be answered.

use super::{
    input::{Effect, Step},
    machine::{Machine, Phase},
    upkeep::tokens,
};
use crate::agent::{RunError, RunOutcome};
use std::sync::Arc;
use triplane_protocol::{AgentEvent, ErrorCode, Message, MessageId, Stop, Usage, record::Record};

/// How far a run had come when its context was full, and the compaction in flight.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    usage: Usage,
    turns: u32,
    /// It was helped before.
    helped: bool,
    squeeze: Option<Squeeze>,
}

#[derive(Debug)]
struct Squeeze {
    before_tokens: u64,
    summary: String,
    /// What the run ends with if it cannot be helped.
    outcome: RunOutcome,
}

impl Overflow {
    /// The outcome of the whole run, from that of its last part.
    pub(super) fn sum(&self, mut outcome: RunOutcome) -> RunOutcome {
        outcome.usage += self.usage;
        outcome.turns = outcome.turns.saturating_add(self.turns);
        outcome
    }

    /// Whether a run that ended so may be helped.
    fn helps(&self, outcome: &RunOutcome) -> bool {
        let asked = outcome.error.as_ref().filter(|error| error.code == ErrorCode::TooLarge);
        asked.is_some_and(|error| !self.helped || (error.retryable && outcome.turns > 0))
    }
}

impl Machine {
    /// The agent is done with the run, or with as much of it as fits.
    pub(super) fn said_ended(&mut self, outcome: RunOutcome, out: &mut Vec<Effect>) {
        let Phase::Running(flight) = &self.phase else { return };
        // While it is summarised, the agent has nothing to say of the run.
        if flight.overflow.squeeze.is_some() {
            return;
        }
        self.expire_permissions(out);
        match self.to_summarise(&outcome) {
            Some(history) => self.squeeze(history, outcome, out),
            None => self.end(outcome, out),
        }
    }

    /// What is to be summarised, if that is what the outcome asks for and there is anything.
    fn to_summarise(&self, outcome: &RunOutcome) -> Option<Vec<Arc<Message>>> {
        let Phase::Running(flight) = &self.phase else { return None };
        if flight.cancelling || !flight.overflow.helps(outcome) {
            return None;
        }
        let mut context = self.history.context();
        let prompt = context.iter().rposition(|message| message.id == flight.message_id)?;
        if prompt + 1 == context.len() {
            context.truncate(prompt);
        }
        // A summary alone does not get shorter by being summarised.
        let summarised = |message: &Arc<Message>| self.history.is_boundary(&message.id);
        let something = context.iter().any(|message| message.id != flight.message_id && !summarised(message));
        something.then_some(context)
    }

    fn squeeze(&mut self, history: Vec<Arc<Message>>, outcome: RunOutcome, out: &mut Vec<Effect>) {
        let before_tokens = tokens(&self.history.context());
        let Phase::Running(flight) = &mut self.phase else { return };
        let run_id = flight.run_id.clone();
        flight.overflow.squeeze = Some(Squeeze { before_tokens, summary: String::new(), outcome });
        out.push(Effect::StartCompact { run_id, history, settings: self.settings.clone() });
    }

    /// The summary is there, or is not to be had.
    pub(super) fn summarised(
        &mut self,
        result: Result<(String, Usage), RunError>,
        id: MessageId,
        at: i64,
        out: &mut Vec<Effect>,
    ) {
        let Phase::Running(flight) = &mut self.phase else { return };
        let Some(squeeze) = &mut flight.overflow.squeeze else { return };
        match result {
            _ if flight.cancelling => self.give_up(None, out),
            Err(error) => self.give_up(Some(&error.message), out),
            Ok((summary, usage)) => {
                squeeze.summary.clone_from(&summary);
                flight.overflow.usage += usage;
                let record = Record::compact(summary, id, at, Some(flight.message_id.clone()));
                self.append([record], true, Step::Squeeze, out);
            }
        }
    }

    /// The boundary is on disk: tell it, and run the prompt again.
    pub(super) fn squeezed(&mut self, out: &mut Vec<Effect>) {
        let (history, settings) = (self.history.context(), self.settings.clone());
        let Phase::Running(flight) = &mut self.phase else { return };
        let overflow = &mut flight.overflow;
        let Some(Squeeze { before_tokens, summary, outcome }) = overflow.squeeze.take() else { return };
        overflow.helped = true;
        overflow.usage += outcome.usage;
        overflow.turns = overflow.turns.saturating_add(outcome.turns);
        let turns = overflow.turns;
        let (run_id, message_id) = (flight.run_id.clone(), flight.message_id.clone());
        out.push(Effect::Publish(AgentEvent::Compaction { before_tokens, after_tokens: tokens(&history), summary }));
        out.push(Effect::StartRun { run_id, message_id, history, settings, turns });
    }

    /// The boundary could not be written.
    pub(super) fn not_squeezed(&mut self, why: &str, out: &mut Vec<Effect>) {
        self.give_up(Some(why), out);
    }

    fn give_up(&mut self, why: Option<&str>, out: &mut Vec<Effect>) {
        let Phase::Running(flight) = &mut self.phase else { return };
        let Some(Squeeze { mut outcome, .. }) = flight.overflow.squeeze.take() else { return };
        match (&mut outcome.error, why) {
            (Some(error), Some(why)) => error.message = format!("{}; it could not be summarised: {why}", error.message),
            // It was cancelled.
            _ => (outcome.stop, outcome.error) = (Stop::Aborted, None),
        }
        self.end(outcome, out);
    }

    /// An event with the turn's number in the whole run.
    pub(super) fn counted(&self, event: AgentEvent) -> AgentEvent {
        match (event, &self.phase) {
            (AgentEvent::TurnStart { turn, model }, Phase::Running(flight)) => {
                AgentEvent::TurnStart { turn: turn.saturating_add(flight.overflow.turns), model }
            }
            (event, _) => event,
        }
    }
}
