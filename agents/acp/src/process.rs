//! One agent process of one directory: started when a run first needs it, shared by the sessions of that directory, started anew
//! after it died, ended when the last session lets go of it or when nobody needed it for long.
//! Invariants: at most one process of an agent and directory; whatever it started ends with it, through the relay that stands
//! between it and us; a death fails the calls in flight and no others.

use crate::peer::{Peer, Refusal};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, BufReader},
    process::Command,
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long an agent may take until it has said what it can do; real ones took up to ten seconds on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Bytes of stderr that are kept for error texts; the oldest go first.
const STDERR_BYTES: usize = 8 << 10;

/// Of those, what an error text shows.
const SHOWN_CHARS: usize = 600;

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;

/// How variables of ours begin. They are not handed on: whoever has the token can run commands on this machine.
const OURS: &[&str] = &["TRIPLANE_", "LARIK_", "LICH_", "SEPIA_"];

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Added to the environment.
    pub(crate) env: Vec<(String, String)>,
    /// What stands before the program.
    pub(crate) prefix: Vec<OsString>,
}

/// A running agent.
#[derive(Debug)]
pub(crate) struct Process {
    /// The conversation.
    pub(crate) peer: Peer,
    /// What it said of itself when it was started.
    pub(crate) hello: Value,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    used: Mutex<Instant>,
    _end: DropGuard,
}

impl Process {
    /// Starts it in `cwd` and shakes hands. Errors: one line. Cancel: dropped, it is ended.
    pub(crate) async fn start(launch: &Launch, cwd: &Path, idle: Option<Duration>) -> Result<Arc<Self>, String> {
        let name = launch.command.first().ok_or("an empty command")?;
        let mut command = launch.command(cwd).ok_or("an empty command")?;
        let mut child = command.spawn().map_err(|error| format!("`{name}` cannot be started: {error}"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(mut errors)) = pipes else { return Err("a child without pipes".into()) };
        let end = CancellationToken::new();
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        // Owned by the pipe: ends when the last process that holds it does.
        tokio::spawn({
            let stderr = stderr.clone();
            async move {
                let mut piece = vec![0; 4096];
                while let Ok(read @ 1..) = errors.read(&mut piece).await {
                    let mut kept = stderr.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend(piece.get(..read).unwrap_or_default());
                    let over = kept.len().saturating_sub(STDERR_BYTES);
                    kept.drain(..over);
                }
            }
        });
        let peer = Peer::start(BufReader::with_capacity(64 << 10, stdout), stdin, end.clone());
        // Owned by `end`: closing its stdin makes the relay end the whole tree; this one reaps the relay.
        tokio::spawn({
            let (end, peer) = (end.clone(), peer.clone());
            async move {
                tokio::select! {
                    _ = child.wait() => {}
                    () = peer.over() => {}
                    () = end.cancelled() => {}
                }
                end.cancel();
                if timeout(FAREWELL, child.wait()).await.is_err() {
                    let _ = child.kill().await;
                }
            }
        });
        let guard = end.clone().drop_guard();
        let hello = timeout(START, peer.call("initialize", hello())).await;
        let why = match hello {
            Ok(Ok(hello)) => {
                let used = Mutex::new(Instant::now());
                let process = Arc::new(Self { peer, hello, stderr, used, _end: guard });
                if let Some(idle) = idle {
                    process.end_when_idle(idle, end);
                }
                return Ok(process);
            }
            Ok(Err(Refusal::Gone)) => "it ended before it said what it can do".to_owned(),
            Ok(Err(refusal)) => format!("it refused to begin: {refusal}"),
            Err(_) => format!("it did not say what it can do within {} s", START.as_secs()),
        };
        Err(format!("`{name}`: {why}{}", last_words(&stderr)))
    }

    /// Whether it announced something: the JSON pointer of a member that is neither absent, null nor false.
    pub(crate) fn can(&self, pointer: &str) -> bool {
        !matches!(self.hello.pointer(pointer), None | Some(Value::Null | Value::Bool(false)))
    }

    /// Somebody needs it now.
    pub(crate) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The end of its stderr, for an error text; empty when it said nothing.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.stderr)
    }

    fn end_when_idle(self: &Arc<Self>, idle: Duration, end: CancellationToken) {
        let process = Arc::downgrade(self);
        // Owned by `end`.
        tokio::spawn(async move {
            loop {
                let Some(process) = process.upgrade() else { return };
                let used = *process.used.lock().unwrap_or_else(PoisonError::into_inner);
                // A run holds a clone beside the one that is kept.
                if used.elapsed() >= idle && Arc::strong_count(&process) <= 2 {
                    tracing::debug!("an agent's process was not needed for {idle:?}");
                    return end.cancel();
                }
                drop(process);
                tokio::select! {
                    () = tokio::time::sleep(idle) => {}
                    () = end.cancelled() => return,
                }
            }
        });
    }
}

/// How long the relay may take to end the tree after its stdin closed: it asks first, and kills two seconds later.
const FAREWELL: Duration = Duration::from_secs(6);

impl Launch {
    fn command(&self, cwd: &Path) -> Option<Command> {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain(self.command.iter().map(OsStr::new));
        let mut command = Command::new(words.next()?);
        command.args(words).current_dir(cwd).envs(self.env.iter().map(|(name, value)| (name, value)));
        for (name, _) in std::env::vars_os() {
            let given = self.env.iter().any(|(given, _)| name == given.as_str());
            if !given && OURS.iter().any(|ours| name.to_string_lossy().starts_with(ours)) {
                command.env_remove(&name);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // A signal from the terminal is for us; the agent ends when we say so.
        #[cfg(unix)]
        command.process_group(0);
        Some(command)
    }
}

/// What we say of ourselves. Files are read and written through us, so that changes can be taken back; there are no terminals.
fn hello() -> Value {
    json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": false},
        "clientInfo": {"name": "triplane", "title": "Triplane", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn last_words(stderr: &Mutex<VecDeque<u8>>) -> String {
    let kept = stderr.lock().unwrap_or_else(PoisonError::into_inner);
    let (a, b) = kept.as_slices();
    let text = String::from_utf8_lossy(&[a, b].concat()).into_owned();
    drop(kept);
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let skip = text.chars().count().saturating_sub(SHOWN_CHARS);
    format!("; it said: {}", text.chars().skip(skip).collect::<String>())
}

/// The place of one process, for the sessions that share it.
#[derive(Debug)]
pub(crate) struct Shared {
    launch: Launch,
    cwd: PathBuf,
    idle: Option<Duration>,
    running: AsyncMutex<Option<Arc<Process>>>,
}

impl Shared {
    /// Starts nothing.
    pub(crate) fn new(launch: Launch, cwd: PathBuf, idle: Option<Duration>) -> Self {
        Self { launch, cwd, idle, running: AsyncMutex::new(None) }
    }

    /// The process, started if there is none. Errors: one line. Several callers wait for one start.
    pub(crate) async fn get(&self) -> Result<Arc<Process>, String> {
        let mut running = self.running.lock().await;
        if let Some(process) = running.as_ref().filter(|process| !process.peer.is_over()) {
            process.touch();
            return Ok(process.clone());
        }
        let process = Process::start(&self.launch, &self.cwd, self.idle).await?;
        *running = Some(process.clone());
        Ok(process)
    }

    /// Ends `process`, which does not do what it is told; the next call starts another.
    pub(crate) async fn give_up(&self, process: &Arc<Process>) {
        let mut running = self.running.lock().await;
        if running.as_ref().is_some_and(|known| Arc::ptr_eq(known, process)) {
            *running = None;
        }
        process.peer.end();
    }
}
