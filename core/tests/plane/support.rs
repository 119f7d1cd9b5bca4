//! A plane in a temporary directory, an agent that does what its prompt says, and readers that check what they read.

use async_trait::async_trait;
use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use triplane_core::{
    Plane, PlaneConfig, PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    feed::{Entry, Gap, Marker, NodeItem, NodeSubscription, Subscription},
    limits::Limits,
    plane::{Created, Hold, HoldPolicy, Prompt, Run, RunResult, WhenBusy},
    session::{PermissionAsk, RunSink, ToolKind, Verdict},
    store::Durability,
};
use triplane_protocol::{
    AgentEvent, CallId, ErrorCode, Message, Role, SessionId, Stop, Usage, event::SettingsPatch, ir::Mode,
};

/// Nothing here takes this long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// Everything that is awaited is awaited under a deadline.
#[track_caller]
pub(crate) fn soon<F: Future>(what: F) -> impl Future<Output = F::Output> {
    let at = std::panic::Location::caller();
    async move { tokio::time::timeout(DEADLINE, what).await.unwrap_or_else(|_| panic!("hangs at {at}")) }
}

/// The agent: each line of a prompt is an order, anything else is echoed, a word a delta.
#[derive(Clone)]
pub(crate) struct TestAgent {
    /// `gate` waits for a permit of it.
    pub(crate) gate: Arc<Semaphore>,
    /// How long a close takes.
    pub(crate) close: Duration,
}

impl Default for TestAgent {
    fn default() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), close: Duration::ZERO }
    }
}

#[async_trait]
impl Agent for TestAgent {
    fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: "test".into(),
            name: "Test".into(),
            version: None,
            installed: true,
            can: Capabilities { prompt: true, read: true, write: true, delete: true, config: false },
            models: Vec::new(),
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        "test/one".into()
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        if model.starts_with("test/") { Ok(()) } else { Err(format!("no model `{model}`")) }
    }

    async fn open(&self, _open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl LiveAgent for TestAgent {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let prompt = turn.history.last().map(|message| message.plain_text()).unwrap_or_default();
        if let Some(outcome) = too_large(&turn, &prompt, &sink).await {
            return outcome;
        }
        let mut said = Vec::new();
        let mut stop = Stop::Completed;
        for line in prompt.lines() {
            let (order, rest) = line.split_once(' ').unwrap_or((line, ""));
            match self.obey(order, rest, &turn, &sink, &cancel).await {
                Ok(text) => said.extend(text),
                Err(why) => {
                    stop = why;
                    break;
                }
            }
        }
        let reply = said.join(" ");
        if stop == Stop::Completed || !said.is_empty() {
            sink.message(Message::text(sink.message_id(), Role::Assistant, reply.clone(), sink.now_ms())).await;
        }
        RunOutcome { stop, reply, usage: Usage::default(), turns: 1, error: None }
    }

    async fn summarize(&mut self, turn: Turn, cancel: CancellationToken) -> Result<(String, Usage), RunError> {
        if turn.history.iter().any(|message| message.plain_text() == "slow summary") {
            cancel.cancelled().await;
        }
        Ok((format!("summary of {}", turn.history.len()), Usage::default()))
    }

    async fn close(&mut self) {
        tokio::time::sleep(self.close).await;
    }
}

impl TestAgent {
    /// One line of a prompt; what is said of it, or why the run stops.
    async fn obey(
        &self,
        order: &str,
        rest: &str,
        turn: &Turn,
        sink: &RunSink,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, Stop> {
        let path = |name: &str| turn.cwd.join(name);
        match order {
            "wait" => {
                cancel.cancelled().await;
                return Err(Stop::Aborted);
            }
            "gate" => {
                let permit = cancel.run_until_cancelled(self.gate.acquire()).await.ok_or(Stop::Aborted)?;
                permit.expect("the gate is never closed").forget();
            }
            "ignore-cancel" => std::future::pending().await,
            "fits" | "nearly" => (),
            "turns" => return Ok(Some(turn.max_turns.to_string())),
            "panic" => panic!("the prompt said so"),
            "max-turns" => return Err(if turn.max_turns == 3 { Stop::MaxTurns } else { Stop::Error }),
            "model" => return Ok(Some(turn.settings.model.clone())),
            "history" => {
                let seen: Vec<String> = turn.history.iter().map(|message| message.plain_text()).collect();
                return Ok(Some(seen.join("|")));
            }
            "ask" | "ask-later" => {
                let ask = permission(rest);
                if order == "ask" {
                    return Ok(Some(tell(sink.ask(ask).await)));
                }
                // A task that outlives its run and asks in its name.
                let (later, gate) = (sink.clone(), self.gate.clone());
                let task = sink.spawn_task("asks".into(), move |_, _| async move {
                    gate.acquire().await.expect("the gate is never closed").forget();
                    (true, tell(later.ask(ask).await))
                });
                task.await.map_err(|_| Stop::Error)?;
            }
            "write" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let guard = sink.before_change(&path(name)).await.map_err(|_| Stop::Error)?;
                std::fs::write(path(name), text).map_err(|_| Stop::Error)?;
                guard.done().await;
            }
            "remove" => {
                let guard = sink.before_change(&path(rest)).await.map_err(|_| Stop::Error)?;
                std::fs::remove_file(path(rest)).map_err(|_| Stop::Error)?;
                guard.done().await;
            }
            // `task TEXT` ends when the gate opens; `task-deaf` not even when it is stopped.
            "task" | "task-deaf" => {
                let (gate, text, deaf) = (self.gate.clone(), rest.to_owned(), order == "task-deaf");
                let task = sink.spawn_task(rest.to_owned(), move |output, stop| async move {
                    output.push("working");
                    tokio::select! {
                        permit = gate.acquire() => permit.expect("the gate is never closed").forget(),
                        () = stop.cancelled(), if !deaf => (),
                    }
                    (true, text)
                });
                return task.await.map(|_| None).map_err(|_| Stop::Error);
            }
            "repeat" => {
                for n in 0..rest.parse::<u32>().unwrap_or(0) {
                    sink.emit(AgentEvent::LlmDelta { text: n.to_string() }).await;
                }
            }
            _ => {
                for word in [order].into_iter().chain(rest.split_whitespace()) {
                    sink.emit(AgentEvent::LlmDelta { text: word.into() }).await;
                }
                return Ok(Some(format!("{order} {rest}").trim().to_owned()));
            }
        }
        Ok(None)
    }
}

/// A prompt `fits N` is refused by the provider while the context has more than N messages; with `nearly N` the agent works
/// for a turn, sees that it has, and asks for a smaller one.
async fn too_large(turn: &Turn, prompt: &str, sink: &RunSink) -> Option<RunOutcome> {
    let (order, most) = prompt.lines().next()?.split_once(' ')?;
    if turn.history.len() <= most.parse().ok()? {
        return None;
    }
    match order {
        "fits" => {
            let (code, message) = (ErrorCode::TooLarge, "the provider takes no more".into());
            let error = Some(RunError { code, message, retryable: false });
            Some(RunOutcome { error, ..RunOutcome::of(Stop::Error) })
        }
        "nearly" => {
            sink.emit(AgentEvent::TurnStart { turn: 1, model: turn.settings.model.clone() }).await;
            sink.message(Message::text(sink.message_id(), Role::Assistant, "work", sink.now_ms())).await;
            Some(RunOutcome::needs_compaction(Usage::default(), 1))
        }
        _ => None,
    }
}

fn permission(subject: &str) -> PermissionAsk {
    PermissionAsk {
        call_id: CallId::from("c"),
        tool: "bash".into(),
        kind: ToolKind::Execute,
        title: subject.into(),
        input: serde_json::Value::Null,
        subject: subject.into(),
        outside: false,
        options: None,
    }
}

fn tell(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allowed { .. } => "allowed".into(),
        Verdict::Denied { reason, .. } => format!("denied: {reason}"),
        Verdict::Expired => "expired".into(),
    }
}

/// A plane and where it lives.
pub(crate) struct Bed {
    pub(crate) temp: Arc<TempDir>,
    pub(crate) agent: TestAgent,
    pub(crate) plane: Plane,
    pub(crate) hold: Hold,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut PlaneConfig)) -> Self {
        Self::at(Arc::new(TempDir::new().unwrap()), TestAgent::default(), change)
    }

    pub(crate) fn at(temp: Arc<TempDir>, agent: TestAgent, change: impl FnOnce(&mut PlaneConfig)) -> Self {
        let work = temp.path().canonicalize().unwrap().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let mut config = PlaneConfig {
            session_dir: work.join(".triplane/sessions"),
            cwd: work,
            home: temp.path().join("home"),
            durability: Durability::Flush,
            agent: None,
            defaults: SettingsPatch::default(),
            limits: Limits::default(),
            overlay: true,
            abort_on_disconnect: false,
        };
        change(&mut config);
        let plane = Plane::open(config, vec![Arc::new(agent.clone())]).unwrap();
        let hold = plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
        Self { temp, agent, plane, hold }
    }

    /// Shuts the plane down and opens another one in the same place.
    pub(crate) async fn restart(self) -> Self {
        soon(self.plane.shutdown(Duration::ZERO)).await;
        Self::at(self.temp, self.agent, |_| ())
    }

    pub(crate) async fn create(&self) -> SessionId {
        self.create_for(&self.hold).await
    }

    pub(crate) async fn create_for(&self, hold: &Hold) -> SessionId {
        soon(self.plane.create(hold, Created::default())).await.unwrap().row.id
    }

    pub(crate) async fn start(&self, id: &SessionId, text: &str) -> Run {
        soon(self.plane.prompt(id, Prompt::text(text, WhenBusy::Refuse))).await.unwrap()
    }

    /// A whole run.
    pub(crate) async fn run(&self, id: &SessionId, text: &str) -> RunResult {
        soon(self.start(id, text).await.finished()).await.unwrap()
    }

    pub(crate) fn open_gate(&self) {
        self.agent.gate.add_permits(1);
    }

    pub(crate) fn cwd(&self) -> &Path {
        &self.plane.config().cwd
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.cwd().join(name)
    }

    pub(crate) fn transcript(&self, id: &SessionId) -> PathBuf {
        self.plane.config().session_dir.join(format!("{id}.jsonl"))
    }

    pub(crate) async fn reader(&self, id: &SessionId) -> Reader {
        Reader { subscription: soon(self.plane.subscribe(id)).await.unwrap(), gaps: Vec::new() }
    }

    /// The texts of the history, oldest first.
    pub(crate) async fn texts(&self, id: &SessionId) -> Vec<String> {
        let messages = soon(self.plane.messages(id)).await.unwrap();
        messages.iter().map(|message| message.plain_text()).collect()
    }
}

/// A subscription that checks that nothing is missing but what it was told of.
pub(crate) struct Reader {
    pub(crate) subscription: Subscription,
    pub(crate) gaps: Vec<Gap>,
}

impl Reader {
    /// Reads up to the first event that `last` is true for, that one included.
    #[track_caller]
    pub(crate) fn until(&mut self, last: impl Fn(&AgentEvent) -> bool) -> impl Future<Output = Vec<Arc<Entry>>> {
        soon(async move {
            let mut read: Vec<Arc<Entry>> = Vec::new();
            loop {
                let before = self.subscription.position();
                let batch = self.subscription.next(1).await;
                let mut expected = before + 1;
                if let Some(gap) = batch.gap {
                    assert!(gap.from == expected && gap.to >= gap.from, "{gap:?} after {before}");
                    expected = gap.to + 1;
                    self.gaps.push(gap);
                }
                for entry in batch.entries {
                    assert_eq!(entry.seq, expected);
                    expected += 1;
                    read.push(entry);
                }
                if read.last().is_some_and(|entry| last(&entry.event)) {
                    return read;
                }
            }
        })
    }

    /// Reads to the end of the run.
    pub(crate) async fn until_idle(&mut self) -> Vec<Arc<Entry>> {
        self.until(|event| matches!(event, AgentEvent::Status { busy: false, .. })).await
    }

    /// Reads to the next event of a kind.
    pub(crate) async fn to(&mut self, kind: &str) -> Arc<Entry> {
        self.until(|event| event.kind() == kind).await.pop().unwrap()
    }
}

pub(crate) fn kinds(entries: &[Arc<Entry>]) -> Vec<&'static str> {
    entries.iter().map(|entry| entry.event.kind()).collect()
}

pub(crate) fn seqs(entries: &[Arc<Entry>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq).collect()
}

/// Reads the node's feed up to a marker; what came, in short words.
pub(crate) async fn node_until(feed: &mut NodeSubscription, last: impl Fn(&Marker) -> bool) -> Vec<String> {
    let mut read = Vec::new();
    loop {
        for item in soon(feed.next(1)).await {
            match item {
                NodeItem::Marker(marker) => {
                    let (word, id) = match &marker {
                        Marker::Attached { id, .. } => ("attached".to_owned(), id),
                        Marker::Created { id, .. } => ("created".to_owned(), id),
                        Marker::Detached { id, reason, .. } => (format!("detached {reason:?}"), id),
                        Marker::Deleted { id, .. } => ("deleted".to_owned(), id),
                    };
                    read.push(format!("{word} {id}"));
                    if last(&marker) {
                        return read;
                    }
                }
                NodeItem::Event(id, entry) => read.push(format!("{} {id}", entry.event.kind())),
                NodeItem::Lagged { .. } => panic!("nobody is that slow here"),
            }
        }
    }
}

pub(crate) fn is_detached(of: &SessionId) -> impl Fn(&Marker) -> bool {
    move |marker| matches!(marker, Marker::Detached { id, .. } if id == of)
}
