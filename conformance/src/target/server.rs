//! One server process with its temporary directories: started with a case's flags, its ready lines read, killed with its whole
//! group when it is dropped. Invariant: nothing of it outlives the case; whatever does is found by its marker.

use super::process::{self, MARKER};
use crate::{
    case::Wire,
    client::stdio::Lines,
    verdict::{Outcome, Stop, shorten},
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

/// Bytes of stderr that are kept.
const LOG_BYTES: usize = 8 << 20;

/// Servers started so far; with our pid it makes their markers.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// A marker that no other server has.
pub(super) fn mark() -> String {
    format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// How to start a server.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The transports.
    pub wires: Vec<Wire>,
    /// Flags after those that the runner gives.
    pub args: Vec<OsString>,
    /// Environment beside `PATH`, `HOME` and `TRIPLANE_HOME`.
    pub env: Vec<(String, String)>,
    /// Where it works.
    pub cwd: PathBuf,
    /// `$HOME` and, below it, `$TRIPLANE_HOME`.
    pub home: PathBuf,
    /// Whether `--addr 127.0.0.1:0` is given to HTTP; a case that sets `--addr` itself says no.
    pub free_port: bool,
    /// Whether `$TRIPLANE_HOME` is set.
    pub triplane_home: bool,
    /// The umask that it is started under, in octal.
    pub umask: Option<&'static str>,
}

impl Launch {
    /// Adds flags.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the transports.
    #[must_use]
    pub fn wires(mut self, wires: &[Wire]) -> Self {
        self.wires = wires.to_vec();
        self
    }

    /// Starts it under a umask.
    #[must_use]
    pub fn umask(mut self, umask: &'static str) -> Self {
        self.umask = Some(umask);
        self
    }

    /// Leaves `--addr` to the case.
    #[must_use]
    pub fn without_addr(mut self) -> Self {
        self.free_port = false;
        self
    }

    fn serves(&self, wire: Wire) -> bool {
        self.wires.contains(&wire)
    }
}

/// Output that grows while it is read.
#[derive(Debug, Clone)]
pub struct Tail {
    text: Arc<Mutex<Vec<u8>>>,
    grown: watch::Receiver<()>,
}

impl Tail {
    pub(super) fn follow(mut from: impl AsyncRead + Unpin + Send + 'static) -> (Self, JoinHandle<()>) {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (tell, grown) = watch::channel(());
        let kept = text.clone();
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 8 << 10];
            while let Ok(read @ 1..) = from.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = LOG_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(buffer.get(..read.min(room)).unwrap_or_default());
                drop(kept);
                tell.send_replace(());
            }
        });
        (Self { text, grown }, task)
    }

    /// All of it so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pid: u32,
    mark: String,
    deadline: Duration,
    stdout: Option<Tail>,
    stderr: Tail,
    readers: Vec<JoinHandle<()>>,
    pipes: Option<Lines>,
    /// The ready lines in the order they came.
    pub ready: Vec<Value>,
    /// Where it works.
    pub cwd: PathBuf,
    /// Its `$TRIPLANE_HOME`.
    pub home: PathBuf,
    wires: Vec<Wire>,
}

/// What stays of a server for the runner to look at.
#[derive(Debug, Clone)]
pub struct Trail {
    /// Its marker in the environment.
    pub mark: String,
    /// Its stdout, where that is no wire.
    pub stdout: Option<Tail>,
    /// Its stderr.
    pub stderr: Tail,
    /// How many ready lines it has.
    pub ready: usize,
}

impl Trail {
    /// Ends the case if stdout holds anything but the ready lines (C07).
    pub fn check_stdout(&self) -> Outcome {
        let Some(stdout) = &self.stdout else { return Ok(()) };
        let text = stdout.text();
        let count =
            |member: &str| text.lines().filter_map(ready_line).filter(|line| line.get(member).is_some()).count();
        let known = text.lines().all(|line| ready_line(line).is_some());
        let once = count("port") <= 1 && count("url") <= 1 && text.lines().count() >= self.ready;
        let clean = known && once && (text.is_empty() || text.ends_with('\n'));
        if clean {
            return Ok(());
        }
        let seen = format!("stdout holds more than {} ready lines: {}", self.ready, shorten(&text));
        Err(Stop::Broke { clause: Some("C07"), seen })
    }
}

/// A server that did not come up.
#[derive(Debug)]
pub struct Failed {
    /// How it ended, if it has.
    pub status: Option<ExitStatus>,
    /// What it said.
    pub stderr: String,
    /// What it wrote to stdout.
    pub stdout: String,
}

impl Server {
    /// Starts a server and waits until it is ready; one that ends or stays silent makes it break C07.
    pub async fn start(program: &Path, launch: &Launch, deadline: Duration) -> Outcome<Self> {
        match Self::try_start(program, launch, deadline).await? {
            Ok(server) => Ok(server),
            Err(failed) => Err(Stop::Broke {
                clause: Some("C07"),
                seen: format!("the server did not come up: {:?}; stderr: {}", failed.status, shorten(&failed.stderr)),
            }),
        }
    }

    /// The same, where not coming up may be the right answer.
    pub async fn try_start(program: &Path, launch: &Launch, deadline: Duration) -> Outcome<Result<Self, Failed>> {
        let mut server = spawn(program, launch, mark(), deadline)?;
        let listeners = launch.wires.iter().filter(|wire| **wire != Wire::Stdio).count();
        let up = timeout(deadline * 2, server.read_ready(listeners)).await;
        match up {
            Ok(Ok(())) => Ok(Ok(server)),
            Ok(Err(())) | Err(_) => {
                let status = timeout(deadline, server.child.wait()).await.ok().and_then(Result::ok);
                process::kill_group(server.pid);
                server.drain().await;
                let stdout = server.stdout.as_ref().map(Tail::text).unwrap_or_default();
                Ok(Err(Failed { status, stderr: server.stderr.text(), stdout }))
            }
        }
    }

    /// Reads the ready lines where C07 puts them; fails when the output ends first.
    async fn read_ready(&mut self, count: usize) -> Result<(), ()> {
        let mut tail =
            if self.wires.contains(&Wire::Stdio) { self.stderr.clone() } else { self.stdout.clone().ok_or(())? };
        loop {
            let text = tail.text();
            let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
            self.ready = whole.lines().filter_map(ready_line).collect();
            if self.ready.len() >= count {
                return Ok(());
            }
            tail.grown.changed().await.map_err(|_| ())?;
        }
    }

    /// The ready line of a transport.
    pub fn ready_line(&self, wire: Wire) -> Outcome<&Value> {
        let member = if wire == Wire::Ws { "port" } else { "url" };
        let found = self.ready.iter().find(|line| line.get(member).is_some());
        found.ok_or_else(|| Stop::Broke {
            clause: Some("C07"),
            seen: format!("no ready line for {wire} in {:?}", self.ready),
        })
    }

    /// The stdio wire; it can be taken once.
    pub fn take_pipes(&mut self) -> Outcome<Lines> {
        self.pipes.take().ok_or_else(|| Stop::harness("the stdio wire is taken, or was not asked for"))
    }

    /// Everything on stdout so far, where it is no wire.
    pub fn stdout(&self) -> String {
        self.stdout.as_ref().map(Tail::text).unwrap_or_default()
    }

    /// Everything on stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until stderr holds a text.
    pub async fn says(&mut self, text: &str) -> Outcome {
        let mut tail = self.stderr.clone();
        let wait = async {
            while !tail.text().contains(text) {
                if tail.grown.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(self.deadline, wait).await;
        if self.stderr.text().contains(text) { Ok(()) } else { Err(Stop::broke(format!("stderr never said {text:?}"))) }
    }

    /// Waits until stdout holds this many lines.
    pub async fn says_on_stdout(&mut self, lines: usize) -> Outcome {
        let Some(mut tail) = self.stdout.clone() else { return Err(Stop::harness("stdout is a wire")) };
        let wait = async { while tail.text().lines().count() < lines && tail.grown.changed().await.is_ok() {} };
        let _ = timeout(self.deadline, wait).await;
        let text = self.stdout();
        if text.lines().count() >= lines {
            Ok(())
        } else {
            Err(Stop::broke(format!("{lines} lines are due on stdout: {text:?}")))
        }
    }

    /// What the runner looks at when the case is over.
    pub fn trail(&self) -> Trail {
        Trail {
            mark: self.mark.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            ready: self.ready.len(),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where its transcripts are, unless `--session-dir` says otherwise.
    pub fn session_dir(&self) -> PathBuf {
        self.cwd.join(".triplane").join("sessions")
    }

    /// The transcript of a session.
    pub fn transcript(&self, session: &str) -> PathBuf {
        self.session_dir().join(format!("{session}.jsonl"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid, signal);
    }

    /// Waits for its end.
    pub async fn exited(&mut self, within: Duration) -> Outcome<ExitStatus> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => {
                let status = status.map_err(Stop::harness)?;
                self.drain().await;
                Ok(status)
            }
            Err(_) => Err(Stop::broke(format!("the server did not end within {within:?}"))),
        }
    }

    /// Kills it, and sees that nothing of it is left.
    pub async fn kill(&mut self) -> Outcome {
        let ended = self.child.try_wait().ok().flatten().is_some();
        if !ended {
            // The server alone, first: its children have to notice (DESIGN §8), and what stays is found by the marker.
            process::signal(self.pid, Signal::KILL);
            let _ = timeout(self.deadline, self.child.wait()).await;
        }
        let left = process::none_left(&self.mark, Duration::from_secs(3)).await;
        self.drain().await;
        left
    }

    async fn drain(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = timeout(Duration::from_secs(2), reader).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            process::kill_group(self.pid);
        }
        // The readers end by themselves, with the last process that holds the pipes.
    }
}

/// A JSON object with a token: what C07 calls a ready line. Log lines on stderr are none.
fn ready_line(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    (value.get("token").is_some() && (value.get("port").is_some() || value.get("url").is_some())).then_some(value)
}

fn spawn(program: &Path, launch: &Launch, mark: String, deadline: Duration) -> Outcome<Server> {
    let stdio = launch.serves(Wire::Stdio);
    let home = launch.home.join(".triplane");
    let mut command = match launch.umask {
        None => Command::new(program),
        Some(umask) => {
            // A shell sets it: doing so here would change our own.
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(format!("umask {umask}; exec \"$0\" \"$@\"")).arg(program);
            shell
        }
    };
    command.arg("serve").env_clear();
    for wire in &launch.wires {
        command.arg("--transport").arg(wire.flag());
    }
    if launch.free_port && launch.serves(Wire::Http) {
        command.arg("--addr").arg("127.0.0.1:0");
    }
    command.args(&launch.args).current_dir(&launch.cwd);
    for name in ["PATH", "LLVM_PROFILE_FILE", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("HOME", &launch.home).env(MARKER, &mark);
    if launch.triplane_home {
        command.env("TRIPLANE_HOME", &home);
    }
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.stdin(if stdio { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child =
        command.spawn().map_err(|err| Stop::harness(format!("{} does not start: {err}", program.display())))?;
    let missing = || Stop::harness("the child has no pipes");
    let pid = child.id().ok_or_else(missing)?;
    let (stderr, reader) = Tail::follow(child.stderr.take().ok_or_else(missing)?);
    let mut readers = vec![reader];
    let output = child.stdout.take().ok_or_else(missing)?;
    let (mut stdout, mut pipes) = (None, None);
    if stdio {
        pipes = Some(Lines::new(child.stdin.take().ok_or_else(missing)?, output, deadline));
    } else {
        let (tail, reader) = Tail::follow(output);
        readers.push(reader);
        stdout = Some(tail);
    }
    let (cwd, wires) = (launch.cwd.clone(), launch.wires.clone());
    Ok(Server { child, pid, mark, deadline, stdout, stderr, readers, pipes, ready: Vec::new(), cwd, home, wires })
}
