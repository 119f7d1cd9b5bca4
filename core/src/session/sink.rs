//! What a running agent holds of its session: events out, permissions asked, files checkpointed, tasks spawned.

use super::{
    input::{Input, Say},
    live::{Live, PendingAsk, fresh_id, now_ms},
};
use crate::{
    permission::{self, Decision},
    plane::TaskInfo,
    store::files::{self, Access},
};
use std::{
    collections::VecDeque,
    future::Future,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use triplane_protocol::{
    AgentEvent, CallId, Message, MessageId, RequestId, RunId, TaskId,
    event::{PermissionOption, PermissionRequest, TaskState},
    ir::{Extra, Mode},
    record::{Checkpoint, Record},
};

/// Bytes of a background task's output that are kept; the oldest go first.
const TASK_OUTPUT_BYTES: usize = 64 << 10;
/// Bytes of one file that is checkpointed; a larger one is refused before it is changed.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// What a tool does, as far as permissions care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Looks only; inside the session's directory it never asks.
    Read,
    /// Changes files.
    Edit,
    /// Runs a command.
    Execute,
    /// Reaches out to a network.
    Fetch,
    /// Runs a command past the sandbox that should hold it; asks in every mode that runs commands at all, unless a rule allows it.
    Unconfined,
}

/// A tool call that wants to go ahead.
#[derive(Debug, Clone)]
pub struct PermissionAsk {
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// What it does.
    pub kind: ToolKind,
    /// One line for people.
    pub title: String,
    /// The tool's arguments.
    pub input: serde_json::Value,
    /// What a rule's pattern is matched against: the command, or the path relative to the session's directory.
    pub subject: String,
    /// Whether it touches something outside the session's directory; asks in every mode but `bypass`.
    pub outside: bool,
    /// The agent's own options; `None`: the four kinds.
    pub options: Option<Vec<PermissionOption>>,
}

/// What became of a [`PermissionAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead; the option that was chosen, when somebody chose.
    Allowed {
        /// The option's id.
        option: Option<String>,
    },
    /// Do not; the reason goes to the model.
    Denied {
        /// One line.
        reason: String,
        /// The option that was chosen, when somebody chose.
        option: Option<String>,
    },
    /// The run was cancelled.
    Expired,
}

/// The session, as its running agent sees it. Clones speak for the same run.
#[derive(Debug, Clone)]
pub struct RunSink {
    live: Arc<Live>,
    run_id: RunId,
    message_id: MessageId,
}

impl RunSink {
    pub(super) fn new(live: Arc<Live>, run_id: RunId, message_id: MessageId) -> Self {
        Self { live, run_id, message_id }
    }

    async fn say(&self, say: Say) {
        self.live.tell(Input::Agent(self.run_id.clone(), say)).await;
    }

    /// Publishes one event; waits while the session's queue is full.
    /// Never for `status`, `user_message`, `permission_*`, `task_*`, `final`, `error`, `session_closed`: those are the plane's.
    pub async fn emit(&self, event: AgentEvent) {
        self.say(Say::Event(event)).await;
    }

    /// Appends a message to the history and to the transcript. Events that tell of it follow, not precede.
    pub async fn message(&self, message: Message) {
        self.say(Say::Message(message)).await;
    }

    /// A fresh message id.
    pub fn message_id(&self) -> MessageId {
        MessageId::from(fresh_id())
    }

    /// Milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        now_ms()
    }

    /// The session's mode of this moment.
    pub fn mode(&self) -> Mode {
        self.live.machine().settings.mode
    }

    /// The session's directory.
    pub fn cwd(&self) -> PathBuf {
        self.live.cwd.clone()
    }

    /// May this call go ahead? Answers at once where the mode or a rule decides, else waits for a person.
    /// The mode is the one of this moment, not the one that the run began with.
    pub async fn ask(&self, ask: PermissionAsk) -> Verdict {
        let mode = self.mode();
        let rule = self.live.rules.find(&ask.tool, &ask.subject).map_err(drop);
        match permission::decide(mode, &ask, rule) {
            Decision::Allow => Verdict::Allowed { option: None },
            Decision::Deny(reason) => Verdict::Denied { reason, option: None },
            Decision::Ask => self.ask_person(ask).await,
        }
    }

    async fn ask_person(&self, ask: PermissionAsk) -> Verdict {
        let request_id = RequestId::from(fresh_id());
        let request = PermissionRequest {
            request_id: request_id.clone(),
            call_id: ask.call_id.clone(),
            tool: ask.tool.clone(),
            title: ask.title.clone(),
            input: ask.input.clone(),
            options: ask.options.clone().unwrap_or_else(permission::standard_options),
        };
        let (verdict, rx) = oneshot::channel();
        self.live.asks().insert(request_id.clone(), PendingAsk { ask, verdict });
        let answerable = self.live.services.answerable.load(std::sync::atomic::Ordering::Acquire);
        if !self.live.tell(Input::Agent(self.run_id.clone(), Say::Ask { request, answerable })).await {
            self.live.asks().remove(&request_id);
        }
        let asked = Instant::now();
        let verdict = rx.await.unwrap_or(Verdict::Expired);
        self.live.services.stats.waited(asked.elapsed());
        verdict
    }

    /// Saves what `path` is now, before a tool changes it. Errors: one line; then the tool must not go on.
    pub async fn before_change(&self, path: &Path) -> Result<ChangeGuard, String> {
        let before = self.blob(path).await?;
        let checkpoint = Checkpoint {
            path: path.to_string_lossy().into_owned(),
            before,
            after: None,
            message: self.message_id.clone(),
            extra: Extra::new(),
        };
        self.record(checkpoint.clone()).await?;
        Ok(ChangeGuard { sink: self.clone(), checkpoint, path: path.to_owned() })
    }

    /// Keeps the content of `path` as a blob; `None` when there is no such file.
    async fn blob(&self, path: &Path) -> Result<Option<String>, String> {
        let (dir, path) = (self.live.services.dir.clone(), path.to_owned());
        let task = tokio::task::spawn_blocking(move || {
            let told = |error: std::io::Error| format!("{}: {error}", path.display());
            // What is looked at and what is read is the same regular file: no link is followed, no pipe waited for.
            match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(told(error)),
                Ok(_) => (),
            }
            let file = files::open(&path, Access::Read).map_err(told)?;
            let mut content = Vec::new();
            file.take(CHECKPOINT_BYTES + 1).read_to_end(&mut content).map_err(told)?;
            if content.len() as u64 > CHECKPOINT_BYTES {
                return Err(format!("{}: too large to be checkpointed (64 MiB at most)", path.display()));
            }
            dir.blobs().put(&content).map(Some).map_err(|error| error.to_string())
        });
        task.await.map_err(|error| error.to_string())?
    }

    async fn record(&self, checkpoint: Checkpoint) -> Result<(), String> {
        let record = Record::Checkpoint(checkpoint);
        let done = self.live.ask(|ticket| Input::Record(ticket, record)).await;
        done.map(drop).map_err(|error| error.to_string())
    }

    /// Starts a background task of the session. `work` gets a place to put output and its cancel token; it answers with
    /// whether it went well and its closing text. The task outlives the run. Errors: one line (too many tasks).
    pub async fn spawn_task<F, Fut>(&self, title: String, work: F) -> Result<TaskId, String>
    where
        F: FnOnce(TaskOutput, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = (bool, String)> + Send + 'static,
    {
        let (id, token) = (TaskId::from(fresh_id()), CancellationToken::new());
        {
            let mut tokens = self.live.task_tokens();
            let most = self.live.services.limits.tasks;
            if tokens.len() >= most {
                return Err(format!("{most} background tasks run already; stop one first"));
            }
            tokens.insert(id.clone(), token.clone());
        }
        let output = TaskOutput::default();
        let started = TaskInfo {
            id: id.clone(),
            title,
            state: TaskState::Running,
            started: now_ms(),
            ended: None,
            output: output.clone(),
        };
        self.live.tell(Input::TaskStarted(started)).await;
        let (live, task_id) = (self.live.clone(), id.clone());
        self.live.services.tracker.spawn(async move {
            let work = tokio::spawn(work(output.clone(), token.clone()));
            let (well, text) = work.await.unwrap_or_else(|error| (false, format!("the task broke: {error}")));
            live.task_tokens().remove(&task_id);
            let state = match (token.is_cancelled(), well) {
                (true, _) => TaskState::Stopped,
                (false, true) => TaskState::Done,
                (false, false) => TaskState::Failed,
            };
            live.tell(Input::TaskEnded(task_id, state, text, now_ms())).await;
        });
        Ok(id)
    }
}

/// A file that a tool is about to change; tell how it came out with [`ChangeGuard::done`].
#[derive(Debug)]
#[must_use]
pub struct ChangeGuard {
    sink: RunSink,
    checkpoint: Checkpoint,
    path: PathBuf,
}

impl ChangeGuard {
    /// The change is made: the file's new hash goes into the transcript, so that undo can tell it from later changes.
    pub async fn done(self) {
        let Self { sink, mut checkpoint, path } = self;
        match sink.blob(&path).await {
            Ok(after) => checkpoint.after = after,
            Err(error) => tracing::warn!("what a tool made of a file could not be kept: {error}"),
        }
        if let Err(error) = sink.record(checkpoint).await {
            tracing::warn!("a checkpoint could not be recorded: {error}");
        }
    }
}

/// Where a background task puts its output; bounded, the oldest goes first.
#[derive(Debug, Clone, Default)]
pub struct TaskOutput(Arc<Mutex<VecDeque<u8>>>);

impl TaskOutput {
    /// Adds text.
    pub fn push(&self, text: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(text.bytes());
        let over = kept.len().saturating_sub(TASK_OUTPUT_BYTES);
        kept.drain(..over);
    }

    /// What is kept, oldest first; a character that the bound cut in two is replaced.
    pub fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = kept.as_slices();
        String::from_utf8_lossy(&[a, b].concat()).into_owned()
    }
}
