//! lich as a [`Front`]: the submit is sent, its events come on the same socket, its reply ends the run.

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
use std::{collections::HashMap, path::PathBuf};

/// A lich client.
#[derive(Debug)]
pub struct LichFront {
    /// The connection.
    pub rpc: Rpc,
    session_dir: Option<PathBuf>,
    submits: HashMap<String, i64>,
}

impl LichFront {
    /// Speaks over a socket; the session directory is where the history is read from, which the wire does not tell.
    pub fn new(rpc: Rpc, session_dir: Option<PathBuf>) -> Self {
        Self { rpc, session_dir, submits: HashMap::new() }
    }
}

/// The event of a lich notification.
pub fn read_event(params: &Value) -> Outcome<Event> {
    Ok(Event { kind: params.text("/event/type").of("L17")?, data: params.at("/event")?.clone() })
}

#[async_trait]
impl Front for LichFront {
    fn wire(&self) -> Wire {
        Wire::Ws
    }

    async fn create_session(&mut self) -> Outcome<String> {
        self.rpc.call("session.create", json!({"source": "conformance"})).await.of("L05")?.text("/session_id")
    }

    async fn watch(&mut self, _session: &str) -> Outcome {
        Ok(())
    }

    async fn list(&mut self) -> Outcome<Vec<String>> {
        let listed = self.rpc.call("session.list", json!({})).await.of("L06")?;
        listed.list("/sessions")?.iter().map(|row| row.text("/id")).collect()
    }

    async fn start(&mut self, session: &str, text: &str) -> Outcome {
        let id = self.rpc.send("prompt.submit", json!({"session_id": session, "text": text})).await?;
        self.submits.insert(session.to_owned(), id);
        Ok(())
    }

    async fn event(&mut self, session: &str) -> Outcome<Event> {
        let of = |params: &Value| params.get("session_id").and_then(Value::as_str) == Some(session);
        let frame = self.rpc.notified("event", "of the session", of).await.of("L16")?;
        read_event(frame.json.at("/params")?)
    }

    async fn finish(&mut self, session: &str) -> Outcome<Run> {
        let id = self.submits.remove(session).ok_or_else(|| Stop::harness("no submit in flight"))?;
        let reply = self.rpc.reply(id).await.of("L14")?;
        let at = reply.at;
        let result = reply.ok().of("L14")?;
        let mut events = Vec::new();
        for frame in self.rpc.arrived("event") {
            let params = frame.json.at("/params")?;
            if params.text("/session_id")? != session {
                continue;
            }
            if frame.at > at {
                return Err(Stop::Broke {
                    clause: Some("L16"),
                    seen: format!("an event after its submit's reply: {frame}"),
                });
            }
            events.push(read_event(params)?);
        }
        let run = Run { events, reply: result.text("/reply")?, stopped: result.text("/stopped_reason")? };
        if let [last] = run.all("final").as_slice()
            && (last.data.text("/reply")? != run.reply || last.data.text("/stopped_reason")? != run.stopped)
        {
            return Err(Stop::Broke {
                clause: Some("L14"),
                seen: format!("the reply {result} and {} do not agree", last.data),
            });
        }
        Ok(run)
    }

    async fn cancel(&mut self, session: &str) -> Outcome<bool> {
        let result = self.rpc.call("prompt.abort", json!({"session_id": session})).await.of("L18")?;
        result.flag("/aborted")
    }

    async fn answer(&mut self, _session: &str, _request: &str, _allow: bool) -> Outcome {
        Err(Stop::skip("lich has no permission method"))
    }

    async fn messages(&mut self, session: &str) -> Outcome<Vec<Value>> {
        let dir = self
            .session_dir
            .as_ref()
            .ok_or_else(|| Stop::skip("lich does not tell a history; needs the session directory"))?;
        let path = dir.join(format!("{session}.jsonl"));
        let text = std::fs::read_to_string(&path).map_err(|err| Stop::broke(format!("{}: {err}", path.display())))?;
        let mut messages = Vec::new();
        for line in text.lines() {
            let record: Value =
                serde_json::from_str(line).map_err(|err| Stop::broke(format!("a bad record ({err}): {line}")))?;
            if record.get("type").and_then(Value::as_str) == Some("message") {
                messages.push(record);
            }
        }
        Ok(messages)
    }
}
