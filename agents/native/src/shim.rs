//! The small process between us and a child: our own program, started again with [`ARG`] in front.
//! Uses safe calls only and no async runtime; must be the first thing that `main` does.
//!
//! - `guard PROGRAM ARGS…`: starts the program in a group of its own and stays beside it. Orphans of the whole tree become its
//!   children (Linux), so that none gets away. When its stdin closes (it was told to, or the process that held the other end is
//!   gone, however it ended) it ends the tree: politely, and two seconds later for good. Else it ends as the program did.
//! - `relay PROGRAM ARGS…`: the same for a program that is spoken to: what comes on stdin is handed on to it, and when stdin closes
//!   the program's does too; what has not ended a moment later is ended as above, and so is what the program leaves behind.
//! - `boxed SPEC PROGRAM ARGS…`: as `guard`, but the program is confined as SPEC says; the guard itself is not.
//! - `exec PARENT PROGRAM ARGS…`: asks for a signal at the death of `PARENT`, then becomes the program; for a child that needs its
//!   stdin. The signal fires when the *thread* that started it ends. Fault: CP-03.

use crate::{
    proc::{
        GRACE, MARKER,
        tree::{self, Root},
    },
    sandbox::Confine,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, WaitOptions, WaitStatus},
};
use std::{
    ffi::OsString,
    io::{BufRead, Read, Write},
    os::unix::process::CommandExt,
    process::{ChildStdin, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The first argument that makes the program a shim.
pub const ARG: &str = "__shim";

/// Stays beside the program.
pub const GUARD: &str = "guard";

/// Stays beside the program and hands it its stdin.
pub const RELAY: &str = "relay";
/// Stays beside the program, which is confined.
pub(crate) const BOXED: &str = "boxed";

/// Becomes the program.
pub const EXEC: &str = "exec";

/// How long a program may take to end by itself after its stdin closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// The shell's code for a program that cannot be started.
const CANNOT_START: u8 = 127;

/// Runs the shim with what followed [`ARG`]. Returns only when it is over: hand the code back from `main`.
pub fn run_shim(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let mode = args.next();
    match mode.as_ref().and_then(|m| m.to_str()) {
        Some(mode @ (GUARD | RELAY)) => match args.next() {
            Some(program) => guard(None, &program, args, mode == RELAY),
            None => cannot("the shim was given no program"),
        },
        Some(BOXED) => match (args.next().and_then(|spec| confine(&spec)), args.next()) {
            (Some(confine), Some(program)) => guard(Some(confine), &program, args, false),
            _ => cannot("the shim was given no good spec and program"),
        },
        Some(EXEC) => match (args.next().as_ref().and_then(|p| p.to_str()?.parse().ok()), args.next()) {
            (Some(parent), Some(program)) => exec(parent, &program, args),
            _ => cannot("the shim was given no parent and program"),
        },
        Some(_) | None => cannot("the shim knows `guard`, `relay`, `boxed` and `exec`"),
    }
}

fn confine(spec: &OsString) -> Option<Confine> {
    serde_json::from_str(spec.to_str()?).ok()
}

fn guard(confine: Option<Confine>, program: &OsString, args: impl Iterator<Item = OsString>, relays: bool) -> ExitCode {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let set = |command: &mut Command| {
        command.stdin(if relays { Stdio::piped() } else { Stdio::null() }).process_group(0);
    };
    let started = match confine {
        Some(confine) => confine.spawn(program, args.collect(), set),
        None => {
            let mut command = Command::new(program);
            set(command.args(args));
            command.spawn().map_err(|err| format!("{} cannot be started: {err}", program.display()))
        }
    };
    let mut child = match started {
        Ok(child) => child,
        Err(why) => return cannot(&why),
    };
    let leader = Pid::from_child(&child);
    let dying = Arc::new(AtomicBool::new(false));
    let relay = child.stdin.take();
    let watcher = std::thread::spawn({
        let dying = Arc::clone(&dying);
        move || match relay {
            Some(to) => end_after_hangup(to, leader, &dying),
            None => end_with_stdin(&dying),
        }
    });
    let status = wait_for(leader);
    if dying.load(Ordering::SeqCst) {
        let _ = watcher.join();
    } else {
        // Reaped a moment ago; ids are handed out in a circle, so this one is not in use again yet.
        tree::signal_group(leader, Signal::KILL);
        if relays {
            // A server is shared and lives long: what it started must not outlive it, however it ended.
            end_tree();
        }
    }
    end_like(status)
}

/// Waits for the end of stdin, then ends the tree.
fn end_with_stdin(dying: &AtomicBool) {
    let mut stdin = std::io::stdin().lock();
    let mut byte = [0];
    loop {
        match stdin.read(&mut byte) {
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    dying.store(true, Ordering::SeqCst);
    end_tree();
}

/// Hands stdin on, and when its other end is gone gives the program a moment to end by itself before its tree is ended.
/// The end is seen even while the program reads nothing and the relay stands.
fn end_after_hangup(to: ChildStdin, leader: Pid, dying: &AtomicBool) {
    std::thread::spawn(move || relay(to));
    let stdin = std::io::stdin();
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if fds.iter().any(|fd| !fd.revents().is_empty()) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    dying.store(true, Ordering::SeqCst);
    tree::wait_until(FAREWELL, || rustix::process::test_kill_process(leader).is_err());
    end_tree();
}

/// Until stdin ends, or the program does not read any more; then its stdin is closed.
fn relay(mut to: ChildStdin) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let piece = match stdin.fill_buf() {
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok([]) | Err(_) => return,
            Ok(piece) => piece,
        };
        if to.write_all(piece).is_err() {
            return;
        }
        let length = piece.len();
        stdin.consume(length);
    }
}

fn end_tree() {
    let marker = std::env::var(MARKER).unwrap_or_default();
    tree::end(Root::Myself, &marker, GRACE);
}

/// Reaps orphans until the program itself has ended.
fn wait_for(leader: Pid) -> Option<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == leader => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Ends in the way of the program, signal included, so that whoever waits need not know of the shim.
fn end_like(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::from(CANNOT_START);
    };
    if let Some(signal) = status.terminating_signal() {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
        // Ignored signals do not end us; then the shell's way of telling.
        return ExitCode::from(128u8.saturating_add(u8::try_from(signal).unwrap_or(0)));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(CANNOT_START))
}

fn exec(parent: i32, program: &OsString, args: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    if let Err(err) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return cannot(&format!("no parent-death signal: {err}"));
    }
    // The parent may have died before the signal was asked for.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(parent) {
        return cannot("the parent is gone");
    }
    let err = Command::new(program).args(args).exec();
    cannot(&format!("{} cannot be started: {err}", program.display()))
}

/// The child's stderr is where its starter looks.
fn cannot(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(CANNOT_START)
}
