//! The wire over an in-memory pipe and a real plane in a temporary directory, with an agent that does what its prompt says.
//! Every await is under [`DEADLINE`].
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use std::{collections::VecDeque, future::Future, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex},
    sync::Semaphore,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use triplane_core::{Plane, PlaneConfig};
use triplane_stdio::{Ended, StdioConfig, serve_on};

#[path = "../../../common/tests/puppet/mod.rs"]
mod puppet;
pub use puppet::plane;

pub const DEADLINE: Duration = Duration::from_secs(10);

/// The pipe's size: small, so that a reader that does not read is felt.
const PIPE_BYTES: usize = 16 << 10;

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("the deadline passed")
}

/// A served connection, seen from the client.
pub struct Scene {
    pub plane: Plane,
    pub gate: Arc<Semaphore>,
    pub stop: CancellationToken,
    pub cwd: PathBuf,
    pub input: Option<DuplexStream>,
    pub output: Option<BufReader<DuplexStream>>,
    /// Notifications that were passed over while a reply was awaited.
    pub told: VecDeque<Value>,
    next_id: u64,
    task: JoinHandle<Ended>,
    _dir: tempfile::TempDir,
}

impl Scene {
    pub async fn start() -> Self {
        Self::with(|_, _| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut PlaneConfig, &mut StdioConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StdioConfig { grace: Duration::from_millis(300), ..StdioConfig::new("1.2.3") };
        let (plane, gate) = plane(dir.path(), |plane| change(plane, &mut config));
        let root = plane.config().cwd.clone();
        let stop = CancellationToken::new();
        let (input, reader) = duplex(PIPE_BYTES);
        let (writer, output) = duplex(PIPE_BYTES);
        let task = tokio::spawn(serve_on(plane.clone(), config, stop.clone(), reader, writer));
        Self {
            plane,
            gate,
            stop,
            cwd: root,
            input: Some(input),
            output: Some(BufReader::new(output)),
            told: VecDeque::new(),
            next_id: 0,
            task,
            _dir: dir,
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        within(self.input.as_mut().unwrap().write_all(bytes)).await.unwrap();
    }

    /// The next line; `None` at the end.
    pub async fn line(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        within(self.output.as_mut().unwrap().read_until(b'\n', &mut line)).await.unwrap();
        if line.is_empty() {
            return None;
        }
        assert_eq!(line.pop(), Some(b'\n'), "every line has its end");
        Some(serde_json::from_slice(&line).unwrap())
    }

    /// The next message that is a reply; notifications are kept in `told`.
    pub async fn reply(&mut self) -> Value {
        loop {
            let message = self.line().await.expect("the wire ended");
            if message.is_array() || message.get("id").is_some() {
                return message;
            }
            self.told.push_back(message);
        }
    }

    /// The next notification, kept or new.
    pub async fn notification(&mut self) -> Value {
        match self.told.pop_front() {
            Some(message) => message,
            None => {
                let message = self.line().await.expect("the wire ended");
                assert_eq!(message.get("id"), None, "{message}");
                message
            }
        }
    }

    /// Sends a request; gives its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.write(format!("{request}\n").as_bytes()).await;
        self.next_id
    }

    /// One request with nothing else in flight: its result, or its error.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params).await;
        let mut reply = self.reply().await;
        assert_eq!(reply["id"], id, "{reply}");
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(reply["error"].take()),
        }
    }

    /// A live session.
    pub async fn create(&mut self) -> String {
        let cwd = self.cwd.clone();
        let made = self.ask("sessions.create", json!({"cwd": cwd})).await.unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    pub async fn prompt(&mut self, id: &str, text: &str) -> u64 {
        self.request("sessions.prompt", prompt(id, text)).await
    }

    /// Closes stdin, reads all that is left, and gives that and why the wire ended.
    pub async fn close(mut self) -> (Vec<Value>, Ended) {
        self.input = None;
        self.rest().await
    }

    /// Reads all that is left, and gives that and why the wire ended.
    pub async fn rest(mut self) -> (Vec<Value>, Ended) {
        let mut rest = Vec::from(std::mem::take(&mut self.told));
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        (rest, within(&mut self.task).await.unwrap())
    }

    /// Why it ended, when nobody reads.
    pub async fn ended(mut self) -> Ended {
        within(&mut self.task).await.unwrap()
    }
}

pub fn prompt(id: &str, text: &str) -> Value {
    json!({"id": id, "parts": [{"type": "text", "text": text}]})
}

/// `data.code` of an error.
pub fn code(error: &Value) -> &str {
    error["data"]["code"].as_str().unwrap_or_default()
}

/// The types of the events in `session.event` notifications, in order.
pub fn types<'a>(told: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let events = told.into_iter().flat_map(|message| message["params"]["events"].as_array().into_iter().flatten());
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}
