//! An agent that does what its prompt says, and a plane in a temporary directory with it; for the tests of more than one wire.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use async_trait::async_trait;
use serde_json::json;
use std::{path::Path, sync::Arc};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use triplane_core::{
    Plane, PlaneConfig, PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    limits::Limits,
    session::{PermissionAsk, RunSink, ToolKind, Verdict},
    store::Durability,
};
use triplane_protocol::{AgentEvent, Message, Role, Stop, Usage, event::SettingsPatch, ir::Mode};

/// `wait` waits for a permit of the gate, or for its cancel; `say N` gives N deltas; `ask` asks for a permission and tells
/// the verdict; anything else is echoed.
pub struct Puppet {
    pub gate: Arc<Semaphore>,
}

#[async_trait]
impl Agent for Puppet {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: "puppet".into(),
            name: "Puppet".into(),
            version: None,
            installed: true,
            can: Capabilities { prompt: true, read: true, write: true, delete: true, ..Capabilities::default() },
            models: vec!["puppet/one".into(), "puppet/two".into()],
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        "puppet/one".into()
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        if model.starts_with("puppet/") { Ok(()) } else { Err(format!("no model `{model}`")) }
    }

    async fn open(&self, _open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        Ok(Box::new(Strings { gate: self.gate.clone() }))
    }
}

struct Strings {
    gate: Arc<Semaphore>,
}

#[async_trait]
impl LiveAgent for Strings {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let text = turn.history.last().map(|message| message.plain_text()).unwrap_or_default();
        sink.emit(AgentEvent::TurnStart { turn: 1, model: turn.settings.model.clone() }).await;
        let deltas = text.strip_prefix("say ").and_then(|count| count.parse().ok()).unwrap_or(1);
        for n in 0..deltas {
            sink.emit(AgentEvent::LlmDelta { text: format!("{n:0100}") }).await;
        }
        let (mut stop, mut reply) = (Stop::Completed, text.clone());
        match text.as_str() {
            "wait" => tokio::select! {
                permit = self.gate.acquire() => permit.unwrap().forget(),
                () = cancel.cancelled() => stop = Stop::Aborted,
            },
            "ask" => {
                let ask = PermissionAsk {
                    call_id: "call".into(),
                    tool: "bash".into(),
                    kind: ToolKind::Execute,
                    title: "run".into(),
                    input: json!({"command": "ls"}),
                    subject: "ls".into(),
                    outside: false,
                    options: None,
                };
                reply = match sink.ask(ask).await {
                    Verdict::Allowed { option } => format!("allowed {}", option.unwrap_or_default()),
                    Verdict::Denied { .. } => "denied".into(),
                    Verdict::Expired => "expired".into(),
                };
            }
            _ => {}
        }
        let message = Message::text(sink.message_id(), Role::Assistant, reply.clone(), sink.now_ms());
        sink.message(message.clone()).await;
        sink.emit(AgentEvent::LlmEnd { message, usage: Usage::default(), stop }).await;
        RunOutcome { stop, reply, usage: Usage::default(), turns: 1, error: None }
    }

    async fn summarize(&mut self, _turn: Turn, _cancel: CancellationToken) -> Result<(String, Usage), RunError> {
        Ok(("nothing".into(), Usage::default()))
    }
}

/// A plane in `dir` with the puppet, and what lets its `wait` go on.
pub fn plane(dir: &Path, change: impl FnOnce(&mut PlaneConfig)) -> (Plane, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    (plane_of(dir, vec![Arc::new(Puppet { gate: gate.clone() })], change), gate)
}

/// A plane in `dir` with these agents.
pub fn plane_of(dir: &Path, agents: Vec<Arc<dyn Agent>>, change: impl FnOnce(&mut PlaneConfig)) -> Plane {
    let root = dir.canonicalize().unwrap();
    let mut config = PlaneConfig {
        cwd: root.clone(),
        session_dir: root.join(".triplane/sessions"),
        home: root.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch::default(),
        limits: Limits::default(),
        overlay: true,
        abort_on_disconnect: false,
    };
    change(&mut config);
    Plane::open(config, agents).unwrap()
}
