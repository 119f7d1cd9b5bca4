//! An agent that does what its prompt says: `say N`, `big N`, `ask`, `hold`, `fail`, `task`; anything else is said back.

use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use triplane_core::{
    PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    session::{PermissionAsk, RunSink, ToolKind, Verdict},
};
use triplane_protocol::{AgentEvent, CallId, ErrorCode, Message, Role, Stop, Usage, ir::Mode};

pub struct Puppet;
struct LivePuppet;

#[async_trait]
impl Agent for Puppet {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: "puppet".into(),
            name: "Puppet".into(),
            version: None,
            installed: true,
            can: Capabilities { prompt: true, ..Capabilities::default() },
            models: vec!["puppet/one".into(), "puppet/two".into()],
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        "puppet/one".into()
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        assert_ne!(model, "puppet/panic", "as asked");
        if model.starts_with("puppet/") { Ok(()) } else { Err(format!("no model `{model}`")) }
    }

    async fn open(&self, _: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        Ok(Box::new(LivePuppet))
    }
}

fn outcome(stop: Stop, reply: impl Into<String>) -> RunOutcome {
    RunOutcome {
        stop,
        reply: reply.into(),
        usage: Usage { input: 1, output: 2, ..Usage::default() },
        turns: 1,
        error: None,
    }
}

#[async_trait]
impl LiveAgent for LivePuppet {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let text = turn.history.last().map(|message| message.plain_text()).unwrap_or_default();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let outcome = match word {
            "say" => {
                for n in 0..rest.parse().unwrap_or(1) {
                    sink.emit(AgentEvent::LlmDelta { text: format!("{n} ") }).await;
                }
                outcome(Stop::Completed, "said")
            }
            "big" => {
                for _ in 0..rest.parse().unwrap_or(1) {
                    sink.emit(AgentEvent::LlmDelta { text: "x".repeat(16 << 10) }).await;
                }
                outcome(Stop::Completed, "said")
            }
            "ask" => {
                let ask = PermissionAsk {
                    call_id: CallId::from("c1"),
                    tool: "bash".into(),
                    kind: ToolKind::Execute,
                    title: "ls".into(),
                    input: json!({"command": "ls"}),
                    subject: "ls".into(),
                    outside: false,
                    options: None,
                };
                match sink.ask(ask).await {
                    Verdict::Allowed { .. } => outcome(Stop::Completed, "allowed"),
                    Verdict::Denied { reason, .. } => outcome(Stop::Completed, format!("denied: {reason}")),
                    Verdict::Expired => outcome(Stop::Aborted, ""),
                }
            }
            "hold" => {
                cancel.cancelled().await;
                outcome(Stop::Aborted, "")
            }
            "task" => {
                let work = |_, stop: CancellationToken| async move {
                    stop.cancelled().await;
                    (false, "stopped".to_owned())
                };
                let task = sink.spawn_task("sleeps".into(), work).await;
                outcome(Stop::Completed, format!("{task:?}"))
            }
            "fail" => {
                let error =
                    RunError { code: ErrorCode::Unavailable, message: "the model is away".into(), retryable: true };
                RunOutcome { error: Some(error), ..outcome(Stop::Error, "") }
            }
            _ => outcome(Stop::Completed, text.clone()),
        };
        if outcome.stop == Stop::Completed {
            let message = Message::text(sink.message_id(), Role::Assistant, &outcome.reply, sink.now_ms());
            sink.message(message).await;
        }
        outcome
    }

    async fn summarize(&mut self, turn: Turn, _: CancellationToken) -> Result<(String, Usage), RunError> {
        Ok((format!("summary of {} messages", turn.history.len()), Usage::default()))
    }
}
