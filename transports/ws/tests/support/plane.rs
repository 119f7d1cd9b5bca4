//! A whole lich server over a real plane in a temporary directory, with an agent that does what its prompt says.

use crate::support::{Client, client, token, within};
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
use triplane_core::{Plane, PlaneConfig, agent::Agent};
use triplane_ws::{Ws, WsConfig};

#[path = "../../../common/tests/puppet/mod.rs"]
mod puppet;
use puppet::{Puppet, plane_of};

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
        let mut config = WsConfig::new(token());
        // Tests rarely read on to the closing handshake.
        config.limits.closing = Duration::from_millis(50);
        let plane = plane_of(dir.path(), agents, |plane| change(plane, &mut config));
        let sessions = plane.config().session_dir.clone();
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
