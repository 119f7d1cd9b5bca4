//! What is done to a session at rest: clear, compaction, and having it to oneself while files are put back.
//! Invariant: none of it begins while a run is in flight, and no run begins while one of it lasts. Clauses: L07, H22.

use super::{
    input::{ClearWhen, Effect, Reply, Step, Ticket},
    machine::{Machine, Phase},
};
use crate::{PlaneError, agent::RunError};
use std::sync::Arc;
use triplane_protocol::{AgentEvent, Message, MessageId, RunId, Stop, Usage, record::Record};

/// The compaction in flight.
#[derive(Debug)]
pub(super) struct Squeeze {
    pub(super) run_id: RunId,
    ticket: Ticket,
    before_tokens: u64,
    pub(super) cancelling: bool,
    pub(super) cancel_waiters: Vec<Ticket>,
    summary: String,
}

impl Machine {
    /// Errors: `Busy` unless the session is at rest, `Closing` when it ends.
    fn at_rest(&self, ticket: Ticket, out: &mut Vec<Effect>) -> bool {
        if self.closing.is_some() || self.closed() {
            out.push(Effect::Reply(ticket, Err(PlaneError::Closing)));
        } else if !self.idle() {
            out.push(Effect::Refuse(ticket, |id| PlaneError::Busy(id.to_string())));
        } else {
            return true;
        }
        false
    }

    pub(super) fn clear(&mut self, ticket: Ticket, id: MessageId, at: i64, when: ClearWhen, out: &mut Vec<Effect>) {
        if !self.at_rest(ticket, out) {
            return;
        }
        let record = Record::clear(id, at);
        match when {
            ClearWhen::Now => self.append([record], true, Step::Reply(ticket), out),
            ClearWhen::NextAppend => {
                self.write_later(record);
                out.push(Effect::Reply(ticket, Ok(Reply::Done)));
            }
        }
    }

    pub(super) fn reserve(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        if self.at_rest(ticket, out) {
            self.phase = Phase::Reserved;
            out.push(Effect::Reply(ticket, Ok(Reply::Done)));
        }
    }

    pub(super) fn release(&mut self, ticket: Ticket, records: Vec<Record>, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Reserved) {
            self.append(records, true, Step::Release(ticket), out);
        } else {
            out.push(Effect::Reply(ticket, Err(PlaneError::Internal("the session was not reserved".into()))));
        }
    }

    pub(super) fn compact(&mut self, ticket: Ticket, run_id: RunId, out: &mut Vec<Effect>) {
        if !self.at_rest(ticket, out) {
            return;
        }
        let history = self.history.context();
        let squeeze = Squeeze {
            run_id: run_id.clone(),
            ticket,
            before_tokens: tokens(&history),
            cancelling: false,
            cancel_waiters: Vec::new(),
            summary: String::new(),
        };
        self.phase = Phase::Compacting(squeeze);
        out.push(Effect::Publish(AgentEvent::Status { busy: true, outcome: None }));
        out.push(Effect::StartCompact { run_id, history, settings: self.settings.clone() });
    }

    pub(super) fn compacted(
        &mut self,
        run_id: &RunId,
        result: Result<(String, Usage), RunError>,
        id: MessageId,
        at: i64,
        out: &mut Vec<Effect>,
    ) {
        if let Phase::Running(flight) = &self.phase {
            if flight.run_id == *run_id {
                self.summarised(result, id, at, out);
            }
            return;
        }
        let Phase::Compacting(squeeze) = &mut self.phase else { return };
        if squeeze.run_id != *run_id {
            return;
        }
        match result {
            _ if squeeze.cancelling => self.end_compaction(Err(PlaneError::Cancelled), out),
            Err(error) => self.end_compaction(Err(PlaneError::Unavailable(error.message)), out),
            Ok((summary, _)) => {
                squeeze.summary.clone_from(&summary);
                let record = Record::compact(summary, id, at, None);
                self.append([record], true, Step::Compact, out);
            }
        }
    }

    pub(super) fn tell_compacted(&mut self, out: &mut Vec<Effect>) {
        let Phase::Compacting(squeeze) = &mut self.phase else { return };
        let (before_tokens, summary) = (squeeze.before_tokens, std::mem::take(&mut squeeze.summary));
        let after_tokens = tokens(&self.history.context());
        out.push(Effect::Publish(AgentEvent::Compaction { before_tokens, after_tokens, summary }));
        self.end_compaction(Ok(Reply::Compacted(before_tokens, after_tokens)), out);
    }

    pub(super) fn end_compaction(&mut self, reply: Result<Reply, PlaneError>, out: &mut Vec<Effect>) {
        let Phase::Compacting(squeeze) = std::mem::replace(&mut self.phase, Phase::Idle) else { return };
        out.push(Effect::Publish(AgentEvent::Status { busy: false, outcome: None }));
        out.push(Effect::Reply(squeeze.ticket, reply));
        for ticket in squeeze.cancel_waiters {
            out.push(Effect::Reply(ticket, Ok(Reply::Cancelled(Some(Stop::Aborted)))));
        }
        self.next(out);
    }
}

/// A rough count of tokens: four bytes each.
pub(super) fn tokens(messages: &[Arc<Message>]) -> u64 {
    let bytes: usize =
        messages.iter().map(|message| serde_json::to_vec(&message.parts).map_or(0, |text| text.len())).sum();
    bytes as u64 / 4
}
