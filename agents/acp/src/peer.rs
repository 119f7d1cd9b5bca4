//! JSON-RPC with one agent process, a line each. What is no JSON object is skipped and counted: agents print greetings and
//! stack traces where only the protocol belongs.
//! Invariants: a request of ours is answered once, with an error when the process ends first; what the agent says of one of its sessions
//! reaches that session's listener in the order in which it came, and a listener that is slow never loses any of it.

use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

/// Bytes of one line at most; a longer one is skipped to its end.
pub(crate) const LINE_BYTES: usize = 16 << 20;

/// Messages of one session that wait for its run. An agent that is further ahead waits for its pipe.
const WAITING: usize = 1024;

/// Lines that wait to be written.
const OUTGOING: usize = 64;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The agent said no.
    Error {
        /// JSON-RPC's, or whatever the agent has instead.
        code: i64,
        /// Its text.
        message: String,
    },
    /// The process ended first.
    Gone,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error { code, message } => write!(f, "{message} ({code})"),
            Self::Gone => f.write_str("its process ended"),
        }
    }
}

/// What an agent sends unasked about one session.
#[derive(Debug)]
pub(crate) enum Said {
    /// `session/update`: the update as it came.
    Update(Value),
    /// Another notification.
    Other {
        /// Its method.
        method: String,
        /// Its params.
        params: Value,
    },
    /// A request; whoever takes it answers it.
    Ask(Ask),
}

/// A request of the agent. Dropped without an answer, it is refused.
#[derive(Debug)]
pub(crate) struct Ask {
    /// What is asked.
    pub(crate) method: String,
    /// Its params.
    pub(crate) params: Value,
    id: Value,
    out: mpsc::Sender<String>,
}

/// JSON-RPC: no such method.
const NO_METHOD: i64 = -32601;

impl Ask {
    /// Answers it.
    pub(crate) async fn answer(self, result: Value) {
        let line = json!({"jsonrpc": "2.0", "id": self.id, "result": result}).to_string();
        // A process that is gone needs no answer.
        let _ = self.out.send(line).await;
    }

    /// Refuses it.
    pub(crate) async fn refuse(self, code: i64, message: &str) {
        let line = json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": code, "message": message}}).to_string();
        let _ = self.out.send(line).await;
    }
}

/// One end of the conversation. Clones speak to the same process.
#[derive(Debug, Clone)]
pub(crate) struct Peer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    out: mpsc::Sender<String>,
    next: AtomicU64,
    state: Mutex<State>,
    over: CancellationToken,
    /// Given from outside: ends the tasks.
    ending: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u64, oneshot::Sender<Result<Value, Refusal>>>,
    sessions: HashMap<String, mpsc::Sender<Said>>,
    over: bool,
}

impl Peer {
    /// Speaks over these two ends until the reading one is over; both tasks end then, or when `end` fires.
    pub(crate) fn start(
        read: impl AsyncBufRead + Send + Unpin + 'static,
        mut write: impl AsyncWrite + Send + Unpin + 'static,
        end: CancellationToken,
    ) -> Self {
        let (out, mut lines) = mpsc::channel::<String>(OUTGOING);
        let over = CancellationToken::new();
        let shared =
            Arc::new(Shared { out, next: AtomicU64::new(1), state: Mutex::default(), over, ending: end.clone() });
        // Owned by `end` and by the process: it closes both pipes when it ends.
        tokio::spawn({
            let (end, over) = (end.clone(), shared.over.clone());
            async move {
                loop {
                    let line = tokio::select! {
                        line = lines.recv() => line,
                        () = end.cancelled() => None,
                        () = over.cancelled() => None,
                    };
                    let Some(mut line) = line else { break };
                    line.push('\n');
                    if write.write_all(line.as_bytes()).await.is_err() || write.flush().await.is_err() {
                        break;
                    }
                }
                let _ = write.shutdown().await;
            }
        });
        tokio::spawn({
            let shared = shared.clone();
            async move {
                tokio::select! {
                    () = read_all(read, &shared) => {}
                    () = end.cancelled() => {}
                }
                shared.end();
            }
        });
        Self(shared)
    }

    /// Asks, and waits for the answer. Cancel: dropped, an answer that comes later is thrown away.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Value, Refusal> {
        self.begin(method, params).await?.await.unwrap_or(Err(Refusal::Gone))
    }

    /// Asks; the answer comes through the receiver.
    pub(crate) async fn begin(
        &self,
        method: &str,
        params: Value,
    ) -> Result<oneshot::Receiver<Result<Value, Refusal>>, Refusal> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.0.state();
            if state.over {
                return Err(Refusal::Gone);
            }
            state.calls.retain(|_, waiting| !waiting.is_closed());
            state.calls.insert(id, answer);
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.0.out.send(line).await.map_err(|_| Refusal::Gone)?;
        Ok(answered)
    }

    /// Tells without an answer.
    pub(crate) async fn tell(&self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let _ = self.0.out.send(line).await;
    }

    /// Everything that is said of a session from now on. A listener before it hears no more.
    pub(crate) fn listen(&self, session: &str) -> mpsc::Receiver<Said> {
        let (said, listener) = mpsc::channel(WAITING);
        self.0.state().sessions.insert(session.to_owned(), said);
        listener
    }

    /// Nobody listens to a session any more.
    pub(crate) fn leave(&self, session: &str) {
        self.0.state().sessions.remove(session);
    }

    /// Resolves when the process is gone.
    pub(crate) async fn over(&self) {
        self.0.over.cancelled().await;
    }

    /// Speaks no more: both pipes are closed, and who waits is told.
    pub(crate) fn end(&self) {
        self.0.end();
        self.0.ending.cancel();
    }

    /// Whether it is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more comes: whoever waits is told.
    fn end(&self) {
        let state = {
            let mut state = self.state();
            state.over = true;
            std::mem::take(&mut *state)
        };
        self.state().over = true;
        for (_, call) in state.calls {
            let _ = call.send(Err(Refusal::Gone));
        }
        self.over.cancel();
    }

    async fn take(&self, message: Map<String, Value>) {
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        match (method, message.get("id").cloned()) {
            (None, Some(id)) => self.answered(&id, message),
            (Some(method), id) => {
                let params = message.get("params").cloned().unwrap_or(Value::Null);
                self.said(method, id, params).await;
            }
            (None, None) => tracing::debug!("an agent sent a message that is neither request nor answer"),
        }
    }

    fn answered(&self, id: &Value, mut message: Map<String, Value>) {
        let Some(call) = id.as_u64().and_then(|id| self.state().calls.remove(&id)) else {
            tracing::debug!(%id, "an agent answered what nobody asked, or asks no more");
            return;
        };
        let result = match message.remove("error").filter(|error| !error.is_null()) {
            None => Ok(message.remove("result").unwrap_or(Value::Null)),
            Some(error) => Err(refusal(&error)),
        };
        let _ = call.send(result);
    }

    async fn said(&self, method: String, id: Option<Value>, mut params: Value) {
        let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let listener = self.state().sessions.get(&session).cloned();
        let said = match (id, method.as_str()) {
            (Some(id), _) => {
                let ask = Ask { method, params, id, out: self.out.clone() };
                match ask.method.as_str() {
                    "session/request_permission" | "fs/read_text_file" | "fs/write_text_file" => Said::Ask(ask),
                    _ => {
                        let what = format!("this client has no `{}`", ask.method);
                        return ask.refuse(NO_METHOD, &what).await;
                    }
                }
            }
            (None, "session/update") => match params.get_mut("update") {
                Some(update) => Said::Update(update.take()),
                None => return,
            },
            (None, _) => Said::Other { method, params },
        };
        match (listener, said) {
            // Waits while the listener is behind: the agent's pipe fills, and nothing is lost.
            (Some(listener), said) => {
                if let Err(mpsc::error::SendError(Said::Ask(ask))) = listener.send(said).await {
                    ask.refuse(NO_METHOD, "no run of this session is in flight").await;
                }
            }
            (None, Said::Ask(ask)) => ask.refuse(NO_METHOD, "no run of this session is in flight").await,
            (None, Said::Update(_) | Said::Other { .. }) => {}
        }
    }
}

/// Some agents put HTTP statuses or text where JSON-RPC has its numbers.
fn refusal(error: &Value) -> Refusal {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str);
    let detail =
        error.pointer("/data/details").or_else(|| error.pointer("/data/message")).or_else(|| error.get("data"));
    let detail = detail.and_then(Value::as_str);
    let message = match (message, detail) {
        (Some(message), Some(detail)) if !message.contains(detail) => format!("{message}: {detail}"),
        (Some(message), _) => message.to_owned(),
        (None, Some(detail)) => detail.to_owned(),
        (None, None) => error.to_string(),
    };
    Refusal::Error { code, message: message.chars().take(2000).collect() }
}

async fn read_all(mut read: impl AsyncBufRead + Send + Unpin, shared: &Shared) {
    let (mut line, mut skipping) = (Vec::new(), false);
    loop {
        let (used, ended) = match read.fill_buf().await {
            Err(_) | Ok([]) => return,
            Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => {
                    line.extend_from_slice(bytes.get(..at).unwrap_or_default());
                    (at + 1, true)
                }
                None => {
                    line.extend_from_slice(bytes);
                    (bytes.len(), false)
                }
            },
        };
        read.consume(used);
        if line.len() > LINE_BYTES {
            skipping = true;
            line.clear();
        }
        if !ended {
            continue;
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(Value::Object(message)) if !skipping => shared.take(message).await,
            _ if line.iter().all(u8::is_ascii_whitespace) && !skipping => {}
            _ => tracing::debug!(bytes = line.len(), "an agent wrote a line that is no message"),
        }
        line.clear();
        skipping = false;
    }
}
