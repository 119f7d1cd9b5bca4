//! What a driver says in a run, as events of the plane and messages of the history.
//! What is the plane's to say, what is not known, and what is known and broken goes on as an `extension`, as it came: nothing is
//! dropped silently, and nothing that a driver says can pass for the plane's word.

use serde_json::{Value, json};
use triplane_core::session::RunSink;
use triplane_protocol::{
    AgentEvent, Message, Part, Role, Usage,
    driver::{Ask, Outcome},
};

/// What the events of a run have told so far.
#[derive(Debug, Default)]
pub(crate) struct Told {
    turns: u32,
    usage: Usage,
    reply: Option<String>,
}

/// What an event asks for.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing: it was passed on.
    Done,
    /// A person, or a rule.
    Ask(Box<Ask>),
}

/// Passes an event on. A message of the assistant and the result of a tool go into the history first.
pub(crate) async fn pass(event: Value, told: &mut Told, sink: &RunSink) -> Next {
    match read(event, sink) {
        Read::Ask(ask) => return Next::Ask(ask),
        Read::Event(event) => {
            match &*event {
                AgentEvent::LlmEnd { message, usage, .. } => {
                    told.turns = told.turns.saturating_add(1);
                    told.usage += *usage;
                    told.reply = Some(message.plain_text());
                    sink.message(message.clone()).await;
                }
                AgentEvent::ToolCallEnd { call_id, output, error, .. } => {
                    let result = Part::result(call_id.clone(), output.clone(), *error);
                    sink.message(Message::of(sink.message_id(), Role::Tool, vec![result], sink.now_ms())).await;
                }
                _ => {}
            }
            sink.emit(*event).await;
        }
    }
    Next::Done
}

/// Fills in what the outcome leaves out, and writes the reply of a driver that sent no `llm_end` into the history.
pub(crate) async fn finish(outcome: Outcome, told: Told, sink: &RunSink) -> (Outcome, String, Usage, u32) {
    if let (None, Some(text)) = (&told.reply, outcome.reply.as_ref().filter(|text| !text.is_empty())) {
        sink.message(Message::text(sink.message_id(), Role::Assistant, text, sink.now_ms())).await;
    }
    let reply = outcome.reply.clone().or(told.reply).unwrap_or_default();
    let (usage, turns) = (outcome.usage.unwrap_or(told.usage), outcome.turns.unwrap_or(told.turns));
    (outcome, reply, usage, turns)
}

enum Read {
    Ask(Box<Ask>),
    Event(Box<AgentEvent>),
}

fn read(mut event: Value, sink: &RunSink) -> Read {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or("event").to_owned();
    let kept = |data: Value| Read::Event(Box::new(AgentEvent::Extension { name: kind.clone(), data }));
    let broken = |event: &Value, why: String| kept(json!({"fault": why, "event": event}));
    match kind.as_str() {
        "permission_request" => match serde_json::from_value(event.clone()) {
            Ok(ask) => Read::Ask(Box::new(ask)),
            Err(error) => broken(&event, error.to_string()),
        },
        "turn_start" | "llm_start" | "llm_delta" | "llm_thinking_delta" | "llm_retry" | "llm_end"
        | "tool_call_start" | "tool_call_output" | "tool_call_end" | "plan" | "usage" | "extension" => {
            let whole = event.clone();
            complete(&mut event, sink);
            serde_json::from_value(event)
                .map_or_else(|error| broken(&whole, error.to_string()), |event| Read::Event(Box::new(event)))
        }
        _ => kept(event),
    }
}

/// What a driver need not say.
fn complete(event: &mut Value, sink: &RunSink) {
    let Some(members) = event.as_object_mut() else { return };
    match members.get("type").and_then(Value::as_str) {
        Some("llm_end") => {
            members.entry("usage").or_insert_with(|| json!(Usage::default()));
            members.entry("stop").or_insert_with(|| json!("completed"));
            if let Some(message) = members.get_mut("message").and_then(Value::as_object_mut) {
                message.entry("at").or_insert_with(|| json!(sink.now_ms()));
                message.entry("role").or_insert_with(|| json!("assistant"));
                // Its own would have to be unique in the session, which it cannot know.
                message.insert("id".into(), json!(sink.message_id()));
            }
        }
        Some("tool_call_end") => {
            members.entry("error").or_insert(Value::Bool(false));
            members.entry("duration_ms").or_insert_with(|| json!(0));
        }
        Some("tool_call_start") => drop(members.entry("input").or_insert_with(|| json!({}))),
        Some(_) | None => {}
    }
}

impl Told {
    /// Reply, usage and turns.
    pub(crate) fn into_parts(self) -> (String, Usage, u32) {
        (self.reply.unwrap_or_default(), self.usage, self.turns)
    }
}
