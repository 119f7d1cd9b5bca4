//! Requests and replies over one process: who waits for which answer, and which session's run hears which event.
//! Invariants: what is asked is answered, by the driver or by its end; a line that is no message ends the process, since
//! nobody could tell what was lost with it; the reader waits for a run that is slow to take its events, never the other way round.
//!
//! A second answer to one call, an answer that comes after its caller gave up, and events outside of a run are let go.

use crate::{
    lines::{self, Line},
    process::{Pipes, Process},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::unix::pipe::{Receiver, Sender},
    signal::unix::{SignalKind, signal},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    ErrorCode, Failure, SessionId,
    driver::{EVENT, Event, LINE_BYTES},
    jsonrpc, strict,
};

/// Lines that may wait to be written; who has more to say waits, as long as its own time limit lets it.
const OUT_LINES: usize = 64;

/// Events of one run that may wait to be taken; then the reader waits.
const RUN_EVENTS: usize = 256;

/// Bytes of them, so that large events cannot fill the memory. More than a line, so one event always fits.
const RUN_BYTES: usize = 2 * LINE_BYTES;

/// How long what a dead driver wrote may take to be read, when something that it left behind still holds its output.
const DRAIN: Duration = Duration::from_millis(300);

/// How often it is looked for the death of a driver where no signal tells.
const LOOK: Duration = Duration::from_secs(2);

/// Why a call was not answered.
#[derive(Debug, Clone)]
pub(crate) enum Unanswered {
    /// The process is gone; how, in one line.
    Gone(String),
    /// It said no.
    Refused(Failure),
}

/// One process, spoken to. Dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    out: mpsc::Sender<Vec<u8>>,
    process: Arc<Process>,
    /// Ends the tasks.
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, Unanswered>>>,
    runs: HashMap<SessionId, Listener>,
    /// How it ended.
    gone: Option<String>,
}

#[derive(Debug, Clone)]
struct Listener {
    events: mpsc::Sender<Heard>,
    room: Arc<Semaphore>,
    number: u64,
}

/// An event of a run, and the room that it takes until it is dropped.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) event: serde_json::Value,
    _room: OwnedSemaphorePermit,
}

/// Hears the events of one session while it is held.
#[derive(Debug)]
pub(crate) struct Hearing {
    pub(crate) events: mpsc::Receiver<Heard>,
    shared: Arc<Shared>,
    id: SessionId,
    number: u64,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.runs.get(&self.id).is_some_and(|listener| listener.number == self.number) {
            state.runs.remove(&self.id);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing comes any more: every caller and every run is told.
    fn end(&self, how: &str) {
        let mut state = self.lock();
        let how = state.gone.get_or_insert_with(|| how.to_owned()).clone();
        for (_, caller) in state.waiting.drain() {
            let _ = caller.send(Err(Unanswered::Gone(how.clone())));
        }
        state.runs.clear();
    }
}

impl Connection {
    /// Speaks to a process over its pipes.
    pub(crate) fn new(process: Process, pipes: Pipes) -> Self {
        let (shared, process, stop) = (Arc::<Shared>::default(), Arc::new(process), CancellationToken::new());
        let (out, lines) = mpsc::channel(OUT_LINES);
        tokio::spawn(stop.clone().run_until_cancelled_owned(write(pipes.stdin, lines)));
        let reading = read(pipes.stdout, shared.clone(), process.clone(), out.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(reading));
        let watching = watch(process.clone(), shared.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(watching));
        Self { shared, out, process, stop }
    }

    /// How it ended, if it did.
    pub(crate) fn gone(&self) -> Option<String> {
        self.shared.lock().gone.clone()
    }

    /// Asks, and waits for the answer; whoever gives up drops this. `params` is JSON.
    pub(crate) async fn ask(&self, method: &str, params: &str) -> Result<Box<RawValue>, Unanswered> {
        let (caller, answer) = oneshot::channel();
        let waiting = {
            let mut state = self.shared.lock();
            if let Some(how) = &state.gone {
                return Err(Unanswered::Gone(how.clone()));
            }
            state.next_id += 1;
            let id = state.next_id;
            state.waiting.insert(id, caller);
            Waiting { shared: &self.shared, id }
        };
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n", waiting.id);
        if line.len() > LINE_BYTES {
            let text = format!("`{method}` would take a line of more than {LINE_BYTES} bytes");
            return Err(Unanswered::Refused(Failure::new(ErrorCode::TooLarge, text)));
        }
        // A closed queue: its end is told by the answer.
        let _ = self.out.send(line.into_bytes()).await;
        answer.await.unwrap_or_else(|_| Err(Unanswered::Gone("it is being ended".into())))
    }

    /// Hears the events of a session from now on; whoever heard them before does not any more.
    pub(crate) fn hear(&self, id: &SessionId) -> Hearing {
        let (events, heard) = mpsc::channel(RUN_EVENTS);
        let mut state = self.shared.lock();
        state.next_id += 1;
        let number = state.next_id;
        if state.gone.is_none() {
            state.runs.insert(id.clone(), Listener { events, room: Arc::new(Semaphore::new(RUN_BYTES)), number });
        }
        Hearing { events: heard, shared: self.shared.clone(), id: id.clone(), number }
    }

    /// Ends the process for good, now; `why` is what callers are told.
    pub(crate) fn kill(&self, why: &str) {
        self.shared.end(why);
        self.process.kill();
        self.stop.cancel();
    }

    /// Ends it in order: its input is closed, and it gets a moment.
    pub(crate) async fn close(self) {
        self.shared.end("the server is shutting down");
        self.stop.cancel();
        let process = self.process.clone();
        drop(self);
        // The tasks are gone with their next wake-up, and with the last of them the process is ours alone.
        let _ = tokio::task::spawn_blocking(move || {
            let mut process = process;
            for _ in 0..200 {
                match Arc::try_unwrap(process) {
                    Ok(alone) => return alone.end(),
                    Err(shared) => process = shared,
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        })
        .await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A call that waits; when it is dropped, nobody does any more.
struct Waiting<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.lock().waiting.remove(&self.id);
    }
}

async fn write(mut stdin: Sender, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        // One that does not read any more is about to end, which the reader sees.
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read(stdout: Receiver, shared: Arc<Shared>, process: Arc<Process>, out: mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::with_capacity(64 << 10, stdout);
    let fault = loop {
        let line = match lines::next(&mut reader, LINE_BYTES).await {
            Ok(Line::Whole(line)) => line,
            Ok(Line::TooLong) => break Some(format!("it wrote a line of more than {LINE_BYTES} bytes")),
            Ok(Line::End) => break None,
            Err(error) => break Some(format!("its output cannot be read: {error}")),
        };
        match take(&line, &shared).await {
            Ok(None) => {}
            Ok(Some(reply)) => drop(out.send(reply).await),
            Err(fault) => break Some(fault),
        }
    };
    let how = match fault {
        Some(fault) => {
            process.kill();
            fault
        }
        None => process.epitaph().await,
    };
    shared.end(&how);
    process.kill();
}

/// The output of a driver that died may be held open by something that it started.
async fn watch(process: Arc<Process>, shared: Arc<Shared>) {
    let mut deaths = signal(SignalKind::child()).ok();
    while !process.has_ended() {
        let told = async {
            match &mut deaths {
                Some(deaths) => drop(deaths.recv().await),
                None => std::future::pending().await,
            }
        };
        let _ = tokio::time::timeout(LOOK, told).await;
    }
    tokio::time::sleep(DRAIN).await;
    if shared.lock().gone.is_none() {
        let how = process.epitaph().await;
        process.kill();
        shared.end(&how);
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
    data: Option<FaultData>,
}

#[derive(Deserialize)]
struct FaultData {
    code: Option<serde_json::Value>,
    cause: Option<serde_json::Value>,
}

/// Hands a line on to whom it is for. A reply that has to be given to it. The error is one line: it is no message.
async fn take(line: &[u8], shared: &Shared) -> Result<Option<Vec<u8>>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it wrote a line that is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let wrong = |why: &str| format!("it wrote a line that is no message ({why}): {}", strict::echo(text));
    strict::check(text).map_err(|fault| wrong(&fault.message))?;
    let message: Message<'_> = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    if message.jsonrpc.as_deref() != Some("2.0") {
        return Err(wrong("jsonrpc must be \"2.0\""));
    }
    match (message.id, message.method, message.result, message.error) {
        (None, Some(method), None, None) => {
            if method == EVENT {
                heard(message.params.map_or("{}", RawValue::get), shared).await.map_err(|why| wrong(&why))?;
            } else {
                tracing::debug!(%method, "a driver's notification that is not known");
            }
            Ok(None)
        }
        // Nothing can be asked of the plane.
        (Some(id), Some(method), None, None) => {
            let failure = Failure::new(ErrorCode::Unsupported, format!("no method `{}`", strict::echo(&method)));
            let id = jsonrpc::Id::from_raw(id.get()).unwrap_or_else(jsonrpc::Id::null);
            let mut reply = jsonrpc::error(Some(&id), &failure, Some(jsonrpc::METHOD_NOT_FOUND));
            reply.push(b'\n');
            Ok(Some(reply))
        }
        (Some(id), None, result, error) => {
            let answer = match (result, error) {
                (Some(result), None) => Ok(result.to_owned()),
                (None, Some(fault)) => Err(Unanswered::Refused(refusal(fault))),
                (None, None) | (Some(_), Some(_)) => return Err(wrong("either `result` or `error`")),
            };
            let caller = id.get().parse().ok().and_then(|id: u64| shared.lock().waiting.remove(&id));
            match caller {
                Some(caller) => drop(caller.send(answer)),
                None => tracing::warn!(id = id.get(), "a driver answered what nobody waits for"),
            }
            Ok(None)
        }
        _ => Err(wrong("neither a reply nor a notification")),
    }
}

async fn heard(params: &str, shared: &Shared) -> Result<(), String> {
    let Event { id, event } = serde_json::from_str(params).map_err(|error| format!("{EVENT}: {error}"))?;
    let Some(listener) = shared.lock().runs.get(&id).cloned() else {
        tracing::debug!(session = %id, "an event outside of a run");
        return Ok(());
    };
    let bytes = u32::try_from(params.len().min(RUN_BYTES)).unwrap_or(u32::MAX);
    if let Ok(room) = listener.room.acquire_many_owned(bytes).await {
        // A run that is over hears nothing more.
        let _ = listener.events.send(Heard { event, _room: room }).await;
    }
    Ok(())
}

/// A driver's error: its own code where that is one of ours.
fn refusal(fault: Fault) -> Failure {
    let Fault { message, data } = fault;
    let (code, cause) = data.map_or((None, None), |data| (data.code, data.cause));
    let known = |code: &serde_json::Value| ErrorCode::ALL.iter().copied().find(|known| code == known.as_str());
    let failure = Failure::new(code.as_ref().and_then(known).unwrap_or(ErrorCode::Internal), message);
    match cause {
        Some(serde_json::Value::String(cause)) => failure.because(cause),
        Some(_) | None => failure,
    }
}
