//! Children: a shell command started in its own process group, watched, and ended with everything that it started.
//! Invariants: a child is reaped exactly once, and only after its group got its last signal, so that no signal reaches a stranger
//! (CP-12); a dropped [`Running`] takes its processes with it; what a command leaves in its group ends with it (CP-13).
//!
//! With a shim the child is a small guard (see [`crate::shim`]): it holds the read end of a pipe of ours, its stdin, and ends the
//! whole tree when that closes, also when this process is killed.

#[cfg(any(feature = "mcp", feature = "lsp"))]
pub(crate) mod piped;
mod spawner;
pub(crate) mod tree;

use crate::sandbox::Confine;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::{
    io,
    os::fd::OwnedFd,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};
use tokio::{
    net::unix::pipe::Receiver,
    signal::unix::{Signal as Signals, SignalKind, signal},
    time::sleep,
};
use tree::Root;

/// Names the call in the environment of all that it starts.
pub(crate) const MARKER: &str = "TRIPLANE_RUN";

/// How long processes have between the polite signal and the last one.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How much longer a guard may take than [`GRACE`] before it is ended from here.
/// A cancelled run has five seconds in all.
const GUARD_SLACK: Duration = Duration::from_secs(1);

/// How often a child is looked at where its death cannot be told.
const POLL: Duration = Duration::from_millis(10);

/// A shell command that runs. Its standard output and error are one pipe, so that their order is the order of arrival.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    leader: Pid,
    marker: String,
    /// Tells that some child of this process ended; which one is looked up. `None`: it is looked up every now and then.
    deaths: Option<Signals>,
    /// The guard's stdin; `None` without a shim, and once it was told to end.
    lifeline: Option<ChildStdin>,
    guarded: bool,
    reaped: Option<ExitStatus>,
}

/// Starts `command` in a shell, without the variables named in `hidden`, confined where that is asked for (only with a shim).
/// Errors: the shell or the shim cannot be started, or `cwd` is gone.
pub(crate) async fn start(
    command: &str,
    cwd: &Path,
    shim: Option<&Path>,
    hidden: &[String],
    confine: Option<&Confine>,
) -> io::Result<(Running, Receiver)> {
    let (reader, writer) = io::pipe()?;
    let marker = fresh_marker();
    let mut spawn = shell(command, shim, confine)?;
    spawn.current_dir(cwd).env(MARKER, &marker).process_group(0);
    spawn.stdout(writer.try_clone()?).stderr(writer);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if is_server_only(&text) || hidden.iter().any(|hidden| *hidden == text) {
            spawn.env_remove(&name);
        }
    }
    // Before the spawn: no death is missed, and no error can leave a child that nobody holds.
    let output = Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let deaths = signal(SignalKind::child()).ok();
    let mut child = spawner::spawn(spawn).await?;
    let leader = Pid::from_child(&child);
    let lifeline = child.stdin.take();
    Ok((Running { child, leader, marker, deaths, lifeline, guarded: shim.is_some(), reaped: None }, output))
}

impl Running {
    /// Resolves when the child has ended; it is not reaped yet. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        while !tree::has_ended(self.leader) {
            match &mut self.deaths {
                Some(deaths) => drop(deaths.recv().await),
                None => sleep(POLL).await,
            }
        }
    }

    /// After [`Running::ended`]: ends what the command left in its group, and reaps.
    pub(crate) async fn finish(&mut self) -> io::Result<ExitStatus> {
        self.lifeline = None;
        if !self.guarded {
            tree::signal_group(self.leader, Signal::KILL);
        } else if self.guard_was_killed() {
            self.end_tree(Duration::ZERO).await;
        }
        self.reap()
    }

    /// Ends the command and everything that it started; resolves when all of it is gone.
    pub(crate) async fn stop(&mut self) -> io::Result<ExitStatus> {
        if self.reaped.is_none() {
            if self.lifeline.take().is_some() {
                let slack = tokio::time::timeout(GRACE + GUARD_SLACK, self.ended()).await;
                if slack.is_err() || self.guard_was_killed() {
                    self.end_tree(Duration::ZERO).await;
                }
            } else {
                self.end_tree(GRACE).await;
            }
        }
        self.reap()
    }

    async fn end_tree(&self, grace: Duration) {
        let (leader, marker) = (self.leader, self.marker.clone());
        let ended = tokio::task::spawn_blocking(move || tree::end(Root::Child(leader), &marker, grace)).await;
        if let Err(err) = ended {
            tracing::error!(error = %err, "ending a command's processes failed");
        }
    }

    /// A guard that was killed could not clean up.
    fn guard_was_killed(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(self.leader), options);
        matches!(status, Ok(Some(status)) if status.killed())
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.reaped {
            return Ok(status);
        }
        let status = self.child.wait()?;
        self.reaped = Some(status);
        Ok(status)
    }
}

impl Drop for Running {
    /// The owner is gone: no grace is waited for here, but nothing is left either.
    fn drop(&mut self) {
        if self.reaped.is_some() {
            return;
        }
        let guarded = self.lifeline.take().is_some();
        if !guarded {
            tree::signal_group(self.leader, Signal::KILL);
        }
        let (leader, marker) = (self.leader, std::mem::take(&mut self.marker));
        let reaper = std::thread::Builder::new().name("triplane-reap".to_owned()).spawn(move || {
            // The child is ours alone now and unreaped, so its id cannot have become a stranger's.
            let wait = if guarded { GRACE + GUARD_SLACK } else { Duration::ZERO };
            let gone = tree::wait_until(wait, || tree::has_ended(leader));
            if !guarded || !gone {
                tree::end(Root::Child(leader), &marker, Duration::ZERO);
            }
            let _ = rustix::process::waitpid(Some(leader), rustix::process::WaitOptions::empty());
        });
        if let Err(err) = reaper {
            tracing::error!(error = %err, "a command's processes may live on");
        }
    }
}

/// The command line: the shell, behind the shim where there is one.
fn shell(command: &str, shim: Option<&Path>, confine: Option<&Confine>) -> io::Result<Command> {
    let bash = Path::new("/bin/bash");
    let shell = if bash.exists() { bash } else { Path::new("/bin/sh") };
    let mut line = match shim {
        Some(shim) => {
            let mut line = Command::new(shim);
            line.arg(crate::shim::ARG);
            match confine {
                Some(confine) => line.arg(crate::shim::BOXED).arg(serde_json::to_string(confine)?),
                None => line.arg(crate::shim::GUARD),
            };
            line.arg(shell).stdin(Stdio::piped());
            line
        }
        None if confine.is_some() => return Err(io::Error::other("a sandbox needs the shim")),
        None => {
            let mut line = Command::new(shell);
            line.stdin(Stdio::null());
            line
        }
    };
    // `--`: a command may begin with a dash.
    line.args(["-c", "--", command]);
    Ok(line)
}

/// What a command has no business to see: the server's secrets and settings. Clause: CP-09.
fn is_server_only(name: &str) -> bool {
    let ours = ["TRIPLANE_", "LARIK_", "LICH_", "SEPIA_"].iter().any(|prefix| name.starts_with(prefix));
    ours && !matches!(name, "TRIPLANE_HOME" | MARKER)
}

/// Shuts this process's own environment to others of the same user, as far as the system can: a command could else read a key in
/// `/proc/PID/environ` although it was not handed on. Root is not stopped by it, and Linux only has it. Clause: CP-09.
pub fn shut_environment() {
    #[cfg(target_os = "linux")]
    if let Err(err) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!("commands may be able to read this process's environment: {err}");
    }
}

/// Unique over processes of this machine, so that a scan by it finds nobody else's.
fn fresh_marker() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("{}-{nanos}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A text for how a command ended; empty when it ended well.
pub(crate) fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => String::new(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests;
