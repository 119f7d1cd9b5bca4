//! What all wires have in common, so that one case runs over all three: a session is made, prompted, watched, cancelled, listed
//! and answered, whatever the wire calls that.

use crate::{
    case::Wire,
    json::Json,
    verdict::{Outcome, Stop},
};
use async_trait::async_trait;
use serde_json::Value;

/// One event of a session, by the name that `AgentEvent` has for it.
#[derive(Debug, Clone)]
pub struct Event {
    /// `final`, `llm_delta`, …
    pub kind: String,
    /// As the wire wrote it: snake_case or camelCase members.
    pub data: Value,
}

/// A run from its start to its end.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its events in order.
    pub events: Vec<Event>,
    /// The last assistant message's text.
    pub reply: String,
    /// Why it stopped.
    pub stopped: String,
}

impl Run {
    /// The run that these events tell, by their `final`.
    pub fn of(events: Vec<Event>) -> Outcome<Self> {
        let finals: Vec<&Event> = events.iter().filter(|event| event.kind == "final").collect();
        let [last] = finals.as_slice() else {
            return Err(Stop::broke(format!("{} `final` events in a run: {:?}", finals.len(), kinds(&events))));
        };
        let stopped = last.data.text("/stopped_reason").or_else(|_| last.data.text("/stoppedReason"))?;
        Ok(Self { reply: last.data.text("/reply")?, stopped, events })
    }

    /// The types of its events, repeats in a row told once.
    pub fn shape(&self) -> Vec<&str> {
        let mut kinds = kinds(&self.events);
        kinds.dedup();
        kinds
    }

    /// The events of one type.
    pub fn all(&self, kind: &str) -> Vec<&Event> {
        self.events.iter().filter(|event| event.kind == kind).collect()
    }
}

/// The types of events, for messages.
pub fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// A client of one wire.
#[async_trait]
pub trait Front: Send {
    /// Which wire it speaks.
    fn wire(&self) -> Wire;

    /// Makes a session that works in the server's directory and watches it; its id.
    async fn create_session(&mut self) -> Outcome<String>;

    /// Watches a session that is there already, where the wire has a way.
    async fn watch(&mut self, session: &str) -> Outcome;

    /// The ids of the sessions, in the order of the answer.
    async fn list(&mut self) -> Outcome<Vec<String>>;

    /// Starts a run and returns once it is on its way.
    async fn start(&mut self, session: &str, text: &str) -> Outcome;

    /// The next event of the session.
    async fn event(&mut self, session: &str) -> Outcome<Event>;

    /// Reads the session's events to the end of the run that was started.
    async fn finish(&mut self, session: &str) -> Outcome<Run>;

    /// Cancels; whether there was something to cancel.
    async fn cancel(&mut self, session: &str) -> Outcome<bool>;

    /// Answers a permission request; lich has no way.
    async fn answer(&mut self, session: &str, request: &str, allow: bool) -> Outcome;

    /// The messages of the history, as in the session IR.
    async fn messages(&mut self, session: &str) -> Outcome<Vec<Value>>;

    /// A whole run.
    async fn prompt(&mut self, session: &str, text: &str) -> Outcome<Run> {
        self.start(session, text).await?;
        self.finish(session).await
    }

    /// Reads on to an event of this type.
    async fn until(&mut self, session: &str, kind: &str) -> Outcome<Event> {
        let mut seen = Vec::new();
        loop {
            match self.event(session).await {
                Ok(event) if event.kind == kind => return Ok(event),
                Ok(event) => seen.push(event.kind),
                Err(Stop::Broke { clause, seen: why }) => {
                    return Err(Stop::Broke {
                        clause,
                        seen: format!("{why} while waiting for `{kind}`, after {seen:?}"),
                    });
                }
                Err(other) => return Err(other),
            }
        }
    }
}

/// The text of a message of the IR: its text parts, joined.
pub fn text_of(message: &Value) -> String {
    let parts = message.get("parts").and_then(Value::as_array).cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
}
