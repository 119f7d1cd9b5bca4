//! sepia as a [`Front`]: subscribe, then prompt; `runFinished` ends the run.

use super::{
    front::{Event, Front, Run},
    rpc::Rpc,
};
use crate::{
    case::Wire,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
};

/// A sepia client.
#[derive(Debug)]
pub struct SepiaFront {
    /// The connection.
    pub rpc: Rpc,
    cwd: PathBuf,
    prompts: HashMap<String, i64>,
    events: HashMap<String, VecDeque<Event>>,
}

/// sepia's names, and those of `AgentEvent`.
const NAMES: &[(&str, &str)] = &[
    ("runStarted", "status"),
    ("runFinished", "status"),
    ("userMessage", "user_message"),
    ("turnStarted", "turn_start"),
    ("llmStarted", "llm_start"),
    ("textDelta", "llm_delta"),
    ("thinkingDelta", "llm_thinking_delta"),
    ("llmRetry", "llm_retry"),
    ("messageFinished", "llm_end"),
    ("toolCallStarted", "tool_call_start"),
    ("toolCallOutput", "tool_call_output"),
    ("toolCallFinished", "tool_call_end"),
    ("permissionRequest", "permission_request"),
    ("permissionResolved", "permission_resolved"),
    ("plan", "plan"),
    ("taskStarted", "task_start"),
    ("taskFinished", "task_end"),
    ("compacted", "compaction"),
    ("settingsChanged", "settings_changed"),
    ("usage", "usage"),
    ("final", "final"),
    ("error", "error"),
    ("sessionClosed", "session_closed"),
    ("extension", "extension"),
];

/// A `SessionEvent` under the name that `AgentEvent` has for it.
pub fn read_event(event: &Value) -> Outcome<Event> {
    let name = event.text("/type").of("S22")?;
    let kind = NAMES.iter().find(|(sepia, _)| *sepia == name).map(|(_, kind)| *kind);
    let kind = kind.ok_or_else(|| Stop::Broke {
        clause: Some("S22"),
        seen: format!("an event type that is not in SHAPES: {event}"),
    })?;
    Ok(Event { kind: kind.to_owned(), data: event.clone() })
}

impl SepiaFront {
    /// Speaks over stdio; sessions work in `cwd`.
    pub fn new(rpc: Rpc, cwd: PathBuf) -> Self {
        Self { rpc, cwd, prompts: HashMap::new(), events: HashMap::new() }
    }

    async fn subscribe(&mut self, session: &str) -> Outcome {
        let result = self.rpc.call("sessions.subscribe", json!({"id": session})).await.of("S22")?;
        if !result.flag("/subscribed")? || result.text("/sessionId")? != session {
            return Err(Stop::Broke { clause: Some("S22"), seen: format!("subscribed to {session}: {result}") });
        }
        Ok(())
    }
}

#[async_trait]
impl Front for SepiaFront {
    fn wire(&self) -> Wire {
        Wire::Stdio
    }

    async fn create_session(&mut self) -> Outcome<String> {
        let id = self.rpc.call("sessions.create", json!({"cwd": self.cwd})).await.of("S14")?.text("/id")?;
        self.subscribe(&id).await?;
        Ok(id)
    }

    async fn watch(&mut self, session: &str) -> Outcome {
        self.rpc.call("sessions.attach", json!({"id": session})).await.of("S12")?;
        self.subscribe(session).await
    }

    async fn list(&mut self) -> Outcome<Vec<String>> {
        let listed = self.rpc.call("sessions.list", json!({})).await.of("S06")?;
        listed.list("/sessions")?.iter().map(|row| row.text("/id")).collect()
    }

    async fn start(&mut self, session: &str, text: &str) -> Outcome {
        let params = json!({"id": session, "parts": [{"type": "text", "text": text}]});
        let id = self.rpc.send("sessions.prompt", params).await?;
        self.prompts.insert(session.to_owned(), id);
        Ok(())
    }

    async fn event(&mut self, session: &str) -> Outcome<Event> {
        loop {
            if let Some(event) = self.events.get_mut(session).and_then(VecDeque::pop_front) {
                return Ok(event);
            }
            let of = |params: &Value| params.get("sessionId").and_then(Value::as_str) == Some(session);
            let frame = self.rpc.notified("session.event", "of the session", of).await.of("S22")?;
            let queue = self.events.entry(session.to_owned()).or_default();
            for event in frame.json.list("/params/events")? {
                queue.push_back(read_event(event)?);
            }
        }
    }

    async fn finish(&mut self, session: &str) -> Outcome<Run> {
        let mut events = Vec::new();
        loop {
            let event = self.event(session).await.of("S27")?;
            let last = event.data.get("type").and_then(Value::as_str) == Some("runFinished");
            events.push(event);
            if last {
                break;
            }
        }
        let run = Run::of(events)?;
        let id = self.prompts.remove(session).ok_or_else(|| Stop::harness("no prompt in flight"))?;
        let result = self.rpc.reply(id).await.of("S15")?.ok().of("S15")?;
        if result.text("/stopReason")? != run.stopped || result.text("/reply")? != run.reply {
            return Err(Stop::Broke {
                clause: Some("S15"),
                seen: format!("the reply {result} is not what `final` says: {run:?}"),
            });
        }
        Ok(run)
    }

    async fn cancel(&mut self, session: &str) -> Outcome<bool> {
        self.rpc.call("sessions.cancel", json!({"id": session})).await.of("S15")?.flag("/cancelled")
    }

    async fn answer(&mut self, session: &str, request: &str, allow: bool) -> Outcome {
        let option = if allow { "allow_once" } else { "reject_once" };
        let params = json!({"id": session, "request": request, "option": option});
        let result = self.rpc.call("sessions.permission", params).await.of("S15")?;
        if result.flag("/resolved")? { Ok(()) } else { Err(Stop::broke(format!("sessions.permission: {result}"))) }
    }

    async fn messages(&mut self, session: &str) -> Outcome<Vec<Value>> {
        let result = self.rpc.call("sessions.get", json!({"id": session})).await.of("S07")?;
        // ◇ `{session}` or the IR itself: SHAPES says the IR.
        result.list("/messages").cloned()
    }
}
