//! A whole lich server over a real plane in a temporary directory, with an agent that does what its prompt says.

use crate::support::{Client, client, token, within};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::{
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use triplane_common::ready::ReadyLine;
use triplane_core::{
    Plane, PlaneConfig, PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    limits::Limits,
    session::RunSink,
    store::Durability,
};
use triplane_protocol::{AgentEvent, Message, Role, Stop, Usage, event::SettingsPatch, ir::Mode};
use triplane_ws::{Ws, WsConfig};

/// `wait` waits for a permit of the gate, or for its cancel; `say N` gives N deltas; anything else is echoed.
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
            can: Capabilities { prompt: true, ..Capabilities::default() },
            models: Vec::new(),
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        "puppet/one".into()
    }

    fn check_model(&self, _model: &str) -> Result<(), String> {
        Ok(())
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
            sink.emit(AgentEvent::LlmDelta { text: n.to_string() }).await;
        }
        let mut stop = Stop::Completed;
        if text == "wait" {
            tokio::select! {
                permit = self.gate.acquire() => permit.unwrap().forget(),
                () = cancel.cancelled() => stop = Stop::Aborted,
            }
        }
        let message = Message::text(sink.message_id(), Role::Assistant, text.clone(), sink.now_ms());
        sink.message(message.clone()).await;
        sink.emit(AgentEvent::LlmEnd { message, usage: Usage::default(), stop }).await;
        RunOutcome { stop, reply: text, usage: Usage::default(), turns: 1, error: None }
    }

    async fn summarize(&mut self, _turn: Turn, _cancel: CancellationToken) -> Result<(String, Usage), RunError> {
        Ok(("nothing".into(), Usage::default()))
    }
}

#[derive(Clone, Default)]
struct Line(Arc<Mutex<Vec<u8>>>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub struct Lich {
    pub plane: Plane,
    pub address: SocketAddr,
    pub gate: Arc<Semaphore>,
    pub ready: Value,
    pub sessions: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
    _dir: tempfile::TempDir,
}

impl Lich {
    pub async fn start() -> Self {
        Self::with(|_, _| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut PlaneConfig, &mut WsConfig)) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        Self::open(vec![Arc::new(Puppet { gate: gate.clone() })], gate, change).await
    }

    pub async fn without_agent() -> Self {
        Self::open(Vec::new(), Arc::new(Semaphore::new(0)), |_, _| {}).await
    }

    async fn open(
        agents: Vec<Arc<dyn Agent>>,
        gate: Arc<Semaphore>,
        change: impl FnOnce(&mut PlaneConfig, &mut WsConfig),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let sessions = root.join(".triplane/sessions");
        let mut plane = PlaneConfig {
            cwd: root.clone(),
            session_dir: sessions.clone(),
            home: root.join("home"),
            durability: Durability::Flush,
            agent: None,
            defaults: SettingsPatch::default(),
            limits: Limits::default(),
            overlay: true,
            abort_on_disconnect: false,
        };
        let mut config = WsConfig::new(token());
        // Tests rarely read on to the closing handshake.
        config.limits.closing = Duration::from_millis(50);
        change(&mut plane, &mut config);
        let plane = Plane::open(plane, agents).unwrap();
        let ws = Ws::bind(plane.clone(), config).await.unwrap();
        let (address, stop, line) = (ws.address(), CancellationToken::new(), Line::default());
        let task = tokio::spawn(ws.serve(ReadyLine::to(line.clone()), stop.clone()));
        // Served from the bind on; the ready line is there once the first request is.
        drop(client(address).await);
        let ready = serde_json::from_slice(&line.0.lock().unwrap()).unwrap();
        Self { plane, address, gate, ready, sessions, stop, task, _dir: dir }
    }

    pub async fn client(&self) -> Client {
        client(self.address).await
    }

    /// Stops the wire and the plane, as the command does.
    pub async fn end(self) {
        self.stop.cancel();
        let grace = Duration::from_millis(200);
        let ((), served) = within(async { tokio::join!(self.plane.shutdown(grace), self.task) }).await;
        served.unwrap().unwrap();
    }
}

impl Client {
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        self.send(request.to_string()).await;
    }

    pub async fn json(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The next reply; events are passed over.
    pub async fn reply(&mut self) -> Value {
        loop {
            let message = self.json().await;
            if message.get("id").is_some() || message.is_array() {
                return message;
            }
        }
    }

    /// One request with nothing else in flight: its result, or its error.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.request("ask", method, params).await;
        let mut reply = self.reply().await;
        assert_eq!(reply["id"], "ask", "{reply}");
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(reply["error"].take()),
        }
    }

    pub async fn create(&mut self) -> String {
        let made = self.ask("session.create", json!({"source": "test"})).await.unwrap();
        made["session_id"].as_str().unwrap().to_owned()
    }

    pub async fn submit(&mut self, id: impl Into<Value>, session: &str, text: &str) {
        self.request(id, "prompt.submit", json!({"session_id": session, "text": text})).await;
    }

    /// Waits until the run of `session` has said something.
    pub async fn until_event(&mut self, session: &str) {
        loop {
            let message = self.json().await;
            if message["method"] == "event" && message["params"]["session_id"] == session {
                return;
            }
        }
    }
}
