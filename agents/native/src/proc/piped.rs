//! A program that is spoken to over its standard streams and stays: a server of tools or of a language.
//! Invariants: dropped, it is ended with all that it started and reaped; behind the shim that holds even when this process is
//! killed. Its stderr is drained, so that it never stands; the end of it is kept for error texts.

use super::{GRACE, GUARD_SLACK, MARKER, Root, fresh_marker, how_it_ended, is_server_only, spawner, tree};
use rustix::process::{Pid, Signal};
use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::{Receiver, Sender},
    time::{Instant, sleep},
};

/// Bytes of stderr that are kept, the newest.
const STDERR_BYTES: usize = 4 << 10;

/// How long it is waited for the exit status of a program whose stdout has ended.
const STATUS_WAIT: Duration = Duration::from_millis(500);

/// How it is started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// A path, or a name that is looked up in `PATH`.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    /// Which of our variables it sees.
    pub(crate) inherits: Inherit,
    /// Variables of its own; they win.
    pub(crate) env: Vec<(String, String)>,
}

/// Which of our variables a program sees. None that is the server's own, in either case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inherit {
    /// Those that a program needs to find its way: path, home, locale, temporary directory.
    #[cfg(feature = "mcp")]
    Basics,
    /// All but these.
    #[cfg(feature = "lsp")]
    AllBut(Vec<String>),
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Piped {
    child: Child,
    leader: Pid,
    marker: String,
    guarded: bool,
    reaped: Option<ExitStatus>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
}

/// Its streams. To close `stdin` is to ask it to end.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Sender,
    pub(crate) stdout: Receiver,
}

/// Starts it. Errors: it cannot be started, or the directory is gone. (Behind a shim a program that cannot be started
/// ends at once, and says so on stderr.)
pub(crate) async fn start(launch: &Launch, shim: Option<&Path>) -> io::Result<(Piped, Pipes)> {
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let marker = fresh_marker();
    let mut command = match shim {
        Some(shim) => {
            let mut command = Command::new(shim);
            command.args([crate::shim::ARG, crate::shim::RELAY]).arg(&launch.program);
            command
        }
        None => Command::new(&launch.program),
    };
    command.args(&launch.args).current_dir(&launch.cwd).process_group(0);
    inherit(&mut command, &launch.inherits);
    command.envs(launch.env.iter().map(|(name, value)| (name, value))).env(MARKER, &marker);
    command.stdin(Stdio::from(their_stdin)).stdout(their_stdout).stderr(their_stderr);
    // Before the spawn: no error can leave a child that nobody holds.
    let pipes = Pipes {
        stdin: Sender::from_owned_fd(OwnedFd::from(stdin))?,
        stdout: Receiver::from_owned_fd(OwnedFd::from(stdout))?,
    };
    let mut drained = Receiver::from_owned_fd(OwnedFd::from(stderr))?;
    let child = spawner::spawn(command).await?;
    let leader = Pid::from_child(&child);
    let stderr: Arc<Mutex<VecDeque<u8>>> = Arc::default();
    let kept = Arc::clone(&stderr);
    // Ends with the pipe, whose other end is held by the program and its children only.
    tokio::spawn(async move {
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = drained.read(&mut piece).await {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(piece.iter().take(length));
            let over = kept.len().saturating_sub(STDERR_BYTES);
            kept.drain(..over);
        }
    });
    Ok((Piped { child, leader, marker, guarded: shim.is_some(), reaped: None, stderr }, pipes))
}

fn inherit(command: &mut Command, what: &Inherit) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let sees = match what {
            #[cfg(feature = "mcp")]
            Inherit::Basics => is_basic(&text),
            #[cfg(feature = "lsp")]
            Inherit::AllBut(hidden) => !hidden.iter().any(|hidden| *hidden == text),
        };
        if !sees || is_server_only(&text) {
            command.env_remove(&name);
        }
    }
}

#[cfg(feature = "mcp")]
fn is_basic(name: &str) -> bool {
    const NAMES: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "TZ"];
    NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

impl Piped {
    /// How it ended, and the last that it said on stderr; for an error text, once its stdout has ended.
    pub(crate) async fn epitaph(&mut self) -> String {
        let until = Instant::now() + STATUS_WAIT;
        while !tree::has_ended(self.leader) && Instant::now() < until {
            sleep(super::POLL).await;
        }
        let mut how = "closed its output".to_owned();
        if self.reaped.is_none() && tree::has_ended(self.leader) {
            self.reaped = self.child.wait().ok();
        }
        if let Some(status) = self.reaped {
            how = Some(how_it_ended(status)).filter(|how| !how.is_empty()).unwrap_or_else(|| "ended".to_owned());
        }
        let said = self.said();
        if said.is_empty() { how } else { format!("{how}; it said: {said}") }
    }

    /// The beginning and the end of what is left of stderr, on one line.
    fn said(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = kept.as_slices();
        let text = String::from_utf8_lossy(&[a, b].concat()).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let all = lines.len();
        let told = lines.iter().enumerate().filter(|(at, _)| *at < 2 || at + 3 >= all).map(|(_, line)| *line);
        let line = told.map(|line| line.chars().take(200).collect::<String>()).collect::<Vec<_>>().join(" | ");
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

impl Drop for Piped {
    /// Its stdin is closed by now, or will be at once; what does not end then is ended.
    fn drop(&mut self) {
        if self.reaped.is_some() {
            return;
        }
        let (leader, guarded, marker) = (self.leader, self.guarded, std::mem::take(&mut self.marker));
        let reaper = std::thread::Builder::new().name("triplane-reap".to_owned()).spawn(move || {
            // The child is ours alone now and unreaped, so its id cannot have become a stranger's.
            let wait = if guarded { GRACE + 2 * GUARD_SLACK } else { Duration::from_millis(500) };
            if !tree::wait_until(wait, || tree::has_ended(leader)) || !guarded {
                tree::end(Root::Child(leader), &marker, if guarded { Duration::ZERO } else { GRACE });
            }
            let _ = rustix::process::waitpid(Some(leader), rustix::process::WaitOptions::empty());
        });
        if let Err(err) = reaper {
            tree::signal_group(self.leader, Signal::KILL);
            tracing::error!(error = %err, "a server's processes may live on");
        }
    }
}
