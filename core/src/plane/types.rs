//! What plane calls take and give.

use crate::{
    agent::{RunError, Settings},
    limits::Limits,
    session::TaskOutput,
    store::Durability,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    Message, MessageId, Part, RunId, SessionId, Stop, TaskId, Usage,
    event::{PermissionRequest, SettingsPatch, TaskState},
    ir::{Effort, Mode},
};

/// How a plane is set up.
#[derive(Debug, Clone)]
pub struct PlaneConfig {
    /// Absolute directory that sessions work in unless they say otherwise.
    pub cwd: PathBuf,
    /// Where transcripts live. Clause: L24.
    pub session_dir: PathBuf,
    /// `$TRIPLANE_HOME`: node identity and overlay.
    pub home: PathBuf,
    /// When an acknowledged change is safe.
    pub durability: Durability,
    /// The agent of new sessions; `None`: the first that can prompt.
    pub agent: Option<String>,
    /// Settings of new sessions; what is absent is the agent's default (mode: `default`).
    pub defaults: SettingsPatch,
    /// Every bound.
    pub limits: Limits,
    /// Whether what people say of sessions is kept, in `plane.db` in `home`. Clause: S28.
    pub overlay: bool,
    /// Whether a run ends with the connection that asked for it (`--on-disconnect abort`). Clause: C10.
    pub abort_on_disconnect: bool,
}

/// What a party that opens sessions promises and limits.
#[derive(Debug, Clone, Default)]
pub struct HoldPolicy {
    /// For the log.
    pub name: &'static str,
    /// Sessions that it may hold; opening one more lets the least recently used idle one go. Clause: L12.
    pub cap: Option<usize>,
    /// How long a session may idle before the hold is let go. Clause: S29.
    pub idle_ttl: Option<Duration>,
    /// How often it is looked for idle sessions; without it, every 30 s.
    pub sweep: Option<Duration>,
    /// Whether its clients can answer permission requests; if no party can, they are denied at once. Clause: C11.
    pub answers: bool,
}

/// A registered party. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold(pub(crate) usize);

/// What a new session is given.
#[derive(Debug, Clone, Default)]
pub struct Created {
    /// Absolute directory; `None`: the plane's.
    pub cwd: Option<PathBuf>,
    /// `None`: the default agent.
    pub agent: Option<String>,
    /// Model, effort, mode and title; what is absent is the plane's default.
    pub settings: SettingsPatch,
    /// Models to be tried in order when the first cannot be used; which one was taken is told in an event.
    pub fallbacks: Vec<String>,
    /// Free text of the creator.
    pub label: Option<String>,
    /// The session that it belongs to.
    pub parent: Option<SessionId>,
    /// Which client created it.
    pub source: Option<String>,
}

/// How a stored session is made live.
#[derive(Debug, Clone, Default)]
pub struct Attach {
    /// Whose session it is, when several stores have one of its id.
    pub agent: Option<String>,
    /// Takes it from another process that holds it.
    pub takeover: bool,
    /// The model from now on.
    pub model: Option<String>,
    /// Models to be tried in order when that one cannot be used.
    pub fallbacks: Vec<String>,
}

/// A session that was asked to be live.
#[derive(Debug, Clone)]
pub struct Attached {
    /// The session.
    pub session: SessionDetail,
    /// Its agent cannot run it here: it can be read, and is not live.
    pub read_only: bool,
}

/// A row of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// Its agent.
    pub agent: String,
    /// Title for people; the overlay's wins.
    pub title: Option<String>,
    /// Its directory.
    pub cwd: String,
    /// `provider/name`: of a live session what it runs with, else what the next attach takes.
    pub model: Option<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
    /// Whether it is in the live map.
    pub live: bool,
    /// Whether a run is in flight.
    pub busy: bool,
    /// Whether its transcript is still empty.
    pub pending: bool,
}

/// A page of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage {
    /// Newest write first.
    pub rows: Vec<SessionRow>,
    /// Hand it in for the next page.
    pub next: Option<String>,
}

/// One session in full.
#[derive(Debug, Clone)]
pub struct SessionDetail {
    /// Its row.
    pub row: SessionRow,
    /// Permission mode.
    pub mode: Mode,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// Tokens over all runs.
    pub usage: Usage,
    /// Pending permission requests.
    pub permissions: Vec<PermissionRequest>,
    /// Background tasks, running and ended.
    pub tasks: Vec<TaskInfo>,
    /// The last published seq; 0 before the first.
    pub seq: u64,
    /// Epoch of the seq space.
    pub epoch: String,
    /// Absolute path of the transcript.
    pub path: PathBuf,
}

/// A background task.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// The task.
    pub id: TaskId,
    /// One line for people.
    pub title: String,
    /// How it stands.
    pub state: TaskState,
    /// Milliseconds since the epoch.
    pub started: i64,
    /// Milliseconds since the epoch.
    pub ended: Option<i64>,
    /// Its output so far; bounded.
    pub output: TaskOutput,
}

/// A page of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPage {
    /// Oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Hand it in for the page before; `None` at the start.
    pub before: Option<MessageId>,
}

/// What a busy session does with one more prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// Answers `Busy`. Clauses: H18, S15.
    Refuse,
    /// Lets it wait for its turn. Clause: L15.
    Queue,
}

/// A prompt.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What is said.
    pub parts: Vec<Part>,
    /// What to do when a run is in flight.
    pub when_busy: WhenBusy,
    /// Fires when the caller gave up before the run began; then the prompt answers `Cancelled`. Clause: L18.
    pub armed: CancellationToken,
}

impl Prompt {
    /// A prompt of plain text.
    pub fn text(text: impl Into<String>, when_busy: WhenBusy) -> Self {
        Self { parts: vec![Part::text(text)], when_busy, armed: CancellationToken::new() }
    }
}

/// A run that began.
#[derive(Debug)]
pub struct Run {
    /// The run.
    pub run_id: RunId,
    /// The seq of its first event (`status` busy).
    pub seq: u64,
    pub(crate) end: tokio::sync::oneshot::Receiver<RunResult>,
}

impl Run {
    /// Waits for the run's end. Its last event (`status` idle) is published when this resolves; its `final` is on disk.
    /// Errors: `Closing` when the plane went down without an end. Cancel safe: dropped, the run goes on (C10).
    pub async fn finished(self) -> Result<RunResult, crate::PlaneError> {
        self.end.await.map_err(|_| crate::PlaneError::Closing)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The run.
    pub run_id: RunId,
    /// The text of the last assistant message.
    pub reply: String,
    /// Tokens of the run.
    pub usage: Usage,
    /// Round trips to the model.
    pub turns: u32,
    /// Why it stopped.
    pub stop: Stop,
    /// What failed, when `stop` is [`Stop::Error`].
    pub error: Option<RunError>,
    /// The seq of its last event (`status` idle).
    pub last_seq: u64,
}

/// An answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What was chosen.
    pub choice: Choice,
    /// Goes to the model when it is refused.
    pub reason: Option<String>,
    /// Who answered, for `permission_resolved`.
    pub by: Option<String>,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// One of the request's options, by id.
    Option(String),
    /// The option of the kind that fits.
    Kind {
        /// Allow or refuse.
        allow: bool,
        /// And so from now on.
        always: bool,
    },
}

/// What an answer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Whether the call goes on.
    pub allowed: bool,
    /// With an `always` answer: whether the rule was saved.
    pub persisted: Option<bool>,
    /// Why it was not.
    pub error: Option<String>,
}

impl SessionDetail {
    /// The settings that a run would have.
    pub fn settings(&self) -> Settings {
        Settings { model: self.row.model.clone().unwrap_or_default(), effort: self.effort, mode: self.mode }
    }
}
