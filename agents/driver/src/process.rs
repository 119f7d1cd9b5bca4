//! The child itself: started in a process group of its own, its stderr drained and its end kept, ended with all of its group.
//! Invariants: it is reaped once, and only after its group got its last signal, so that no signal reaches a stranger; a dropped
//! [`Process`] ends it without waiting here.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

/// Bytes of stderr that are kept, the newest.
const STDERR_BYTES: usize = 4 << 10;

/// How long a driver may take to end by itself once its stdin is closed, and again once it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// How long it is waited for the status of a driver whose output has ended.
const STATUS_WAIT: Duration = Duration::from_millis(500);

/// How long it is waited for its last words, when something that it left behind still holds its stderr.
const WORDS_WAIT: Duration = Duration::from_millis(100);

const POLL: Duration = Duration::from_millis(5);

/// Variables that are the server's own secrets. Its other settings are the driver's too. Clause: S31.
const SECRETS: &[&str] = &["TRIPLANE_TOKEN", "LARIK_SERVER_TOKEN"];

/// A driver that runs.
#[derive(Debug)]
pub(crate) struct Process {
    child: Option<Child>,
    leader: Pid,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// Its stderr has ended: all of its last words are here.
    silent: CancellationToken,
}

/// Its streams; to close `stdin` is to ask it to end.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Sender,
    pub(crate) stdout: Receiver,
}

/// Starts `program` in `cwd`, behind `prefix` where there is one. Errors: it cannot be started.
pub(crate) async fn start(program: &Path, prefix: &[OsString], cwd: &Path) -> io::Result<(Process, Pipes)> {
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let mut command = match prefix.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir(cwd).process_group(0);
    for name in SECRETS {
        command.env_remove(name);
    }
    command.stdin(Stdio::from(their_stdin)).stdout(their_stdout).stderr(their_stderr);
    // Before the spawn: no error can leave a child that nobody holds.
    let pipes = Pipes {
        stdin: Sender::from_owned_fd(OwnedFd::from(stdin))?,
        stdout: Receiver::from_owned_fd(OwnedFd::from(stdout))?,
    };
    let mut drained = Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let child = spawn(command).await?;
    let leader = Pid::from_child(&child);
    let stderr: Arc<Mutex<VecDeque<u8>>> = Arc::default();
    let (kept, silent) = (stderr.clone(), CancellationToken::new());
    let ended = silent.clone().drop_guard();
    // Ends with the pipe, whose other end only the driver and its children hold.
    tokio::spawn(async move {
        let _ended = ended;
        let mut piece = vec![0; 4096];
        while let Ok(length @ 1..) = drained.read(&mut piece).await {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(piece.iter().take(length));
            let over = kept.len().saturating_sub(STDERR_BYTES);
            kept.drain(..over);
        }
    });
    Ok((Process { child: Some(child), leader, stderr, silent }, pipes))
}

impl Process {
    /// How it ended and the last that it said, for an error text; once its output has ended. One that is still there is not
    /// spoken to any more.
    pub(crate) async fn epitaph(&self) -> String {
        let until = Instant::now() + STATUS_WAIT;
        while !has_ended(self.leader) && Instant::now() < until {
            tokio::time::sleep(POLL).await;
        }
        let _ = tokio::time::timeout(WORDS_WAIT, self.silent.cancelled()).await;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let how = match rustix::process::waitid(WaitId::Pid(self.leader), options) {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => format!("it ended with code {code}"),
                (None, Some(signal)) => format!("it was ended by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            },
            Ok(None) | Err(_) => "it closed its output".to_owned(),
        };
        match self.said() {
            said if said.is_empty() => how,
            said => format!("{how}; its last words: {said}"),
        }
    }

    /// Whether it has ended, reaped or not.
    pub(crate) fn has_ended(&self) -> bool {
        has_ended(self.leader)
    }

    /// Ends it and its group for good, now.
    pub(crate) fn kill(&self) {
        // Not reaped before `drop`, so the group is ours.
        let _ = rustix::process::kill_process_group(self.leader, Signal::KILL);
    }

    /// Waits until it is gone, when its stdin is closed: politely, then not. Blocks for two seconds at most.
    pub(crate) fn end(mut self) {
        if let Some(child) = self.child.take() {
            end(child, self.leader);
        }
    }

    /// The last lines of stderr, as one.
    fn said(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = kept.as_slices();
        let text = String::from_utf8_lossy(&[a, b].concat()).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(4)..).unwrap_or_default().join(" | ");
        let from = last.char_indices().rev().nth(399).map_or(0, |(at, _)| at);
        last.get(from..).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        let leader = self.leader;
        let reaper = std::thread::Builder::new().name("triplane-reap".to_owned()).spawn(move || end(child, leader));
        if let Err(error) = reaper {
            self.kill();
            tracing::error!(%error, "a driver may live on");
        }
    }
}

/// Its stdin is closed, or will be at once. The group gets the last signal before the leader is reaped.
fn end(mut child: Child, leader: Pid) {
    if !wait(GRACE, || has_ended(leader)) {
        let _ = rustix::process::kill_process_group(leader, Signal::TERM);
        wait(GRACE, || has_ended(leader));
    }
    let _ = rustix::process::kill_process_group(leader, Signal::KILL);
    let status: io::Result<ExitStatus> = child.wait();
    if let Ok(Some(signal)) = status.map(|status| status.signal()) {
        tracing::debug!(signal, "a driver was ended");
    }
}

fn wait(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

/// Whether a child has ended and is not reaped.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(rustix::process::waitid(WaitId::Pid(child), options), Ok(None))
}

/// Starts on a thread that never ends: on Linux a parent-death signal fires when the *thread* that started the child ends.
async fn spawn(command: Command) -> io::Result<Child> {
    type Request = (Command, oneshot::Sender<io::Result<Child>>);
    /// Starts that may wait for the thread; each takes about a millisecond, and who comes later waits.
    const QUEUE: usize = 16;
    static QUEUE_IN: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts drivers is gone");
    let queue = match QUEUE_IN.get() {
        Some(queue) => queue,
        None => {
            let (queue, mut requests) = mpsc::channel::<Request>(QUEUE);
            let serve = move || {
                while let Some((mut command, started)) = requests.blocking_recv() {
                    let child = command.spawn();
                    // Our copies of the child's pipe ends go with the command.
                    drop(command);
                    if let Err(Ok(mut orphan)) = started.send(child) {
                        let _ = rustix::process::kill_process_group(Pid::from_child(&orphan), Signal::KILL);
                        let _ = orphan.wait();
                    }
                }
            };
            std::thread::Builder::new().name("triplane-drivers".to_owned()).spawn(serve)?;
            // Who lost a race lets its thread end before it started anything.
            QUEUE_IN.get_or_init(|| queue)
        }
    };
    let (started, child) = oneshot::channel();
    queue.send((command, started)).await.map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}
