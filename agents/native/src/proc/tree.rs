//! Platform code: who belongs to a command, and how all of them are ended.
//! On Linux `/proc` tells: members of the command's process group, descendants of its leader, and every process that carries its
//! marker in the environment, so that a grandchild in a session of its own is found too. Elsewhere the group is all that is known.
//! A signal goes through a pidfd to a process whose start time was checked, so never to a stranger with a reused id (CP-12).

use rustix::process::{Pid, Signal};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long the last signal is repeated; a process in an uninterruptible wait may outlast it.
const LAST_TRIES: Duration = Duration::from_secs(1);

/// Whose processes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// This child, which leads its group and is not reaped, and all that it started.
    Child(Pid),
    /// All that this process started, without itself.
    Myself,
}

/// Ends all of them: politely, and after `grace` for good. Returns when none is left, or none can be ended. Blocks.
pub(crate) fn end(root: Root, marker: &str, grace: Duration) {
    if !grace.is_zero() {
        signal(root, marker, Signal::TERM);
        if wait_until(grace, || system::members(root, marker).is_empty()) {
            return;
        }
    }
    wait_until(LAST_TRIES, || {
        signal(root, marker, Signal::KILL);
        system::members(root, marker).is_empty()
    });
}

/// Signals a process group that is known to be ours: its leader is an unreaped child.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    // No such group: its last member is gone, which is what was wanted.
    let _ = rustix::process::kill_process_group(leader, signal);
}

/// Looks again, less and less often, until `done` or `limit`; says whether it was done. Blocks.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(2);
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Whether a child has ended and is not reaped.
pub(crate) fn has_ended(child: Pid) -> bool {
    use rustix::process::{WaitId, WaitIdOptions};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(rustix::process::waitid(WaitId::Pid(child), options), Ok(None))
}

fn signal(root: Root, marker: &str, signal: Signal) {
    // The group first and at once: who forks between a look and a signal stays in it.
    if let Root::Child(leader) = root {
        signal_group(leader, signal);
    }
    for member in system::members(root, marker) {
        system::signal(&member, signal);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Pid, Root, Signal};
    use crate::proc::MARKER;
    use rustix::process::PidfdFlags;
    use std::{
        collections::{HashMap, HashSet},
        fs::File,
        io::Read,
    };

    /// The longest environment that is looked at; the kernel allows a quarter of the stack, 2 MiB by default.
    const ENVIRON_BYTES: u64 = 4 << 20;

    /// A process, by id and start time.
    pub(super) struct Member {
        pid: Pid,
        started: u64,
    }

    struct Stat {
        parent: i32,
        group: i32,
        zombie: bool,
        started: u64,
    }

    /// All living processes of `root`.
    pub(super) fn members(root: Root, marker: &str) -> Vec<Member> {
        let me = rustix::process::getpid().as_raw_pid();
        let all = processes();
        let mine = |pid: i32, stat: &Stat| match root {
            Root::Child(leader) => {
                pid == leader.as_raw_pid() || stat.group == leader.as_raw_pid() || carries(pid, marker)
            }
            Root::Myself => stat.parent == me || carries(pid, marker),
        };
        let mut found: HashSet<i32> =
            all.iter().filter(|(pid, stat)| **pid != me && mine(**pid, stat)).map(|(p, _)| *p).collect();
        loop {
            let before = found.len();
            let children =
                all.iter().filter(|(pid, stat)| **pid != me && found.contains(&stat.parent)).map(|(p, _)| *p);
            let children: Vec<i32> = children.collect();
            found.extend(children);
            if found.len() == before {
                break;
            }
        }
        let living = found.into_iter().filter_map(|pid| {
            let stat = all.get(&pid).filter(|stat| !stat.zombie)?;
            Some(Member { pid: Pid::from_raw(pid)?, started: stat.started })
        });
        living.collect()
    }

    /// Signals `member` if it is still the process that was seen.
    pub(super) fn signal(member: &Member, signal: Signal) {
        let Ok(fd) = rustix::process::pidfd_open(member.pid, PidfdFlags::empty()) else {
            return;
        };
        if stat(member.pid.as_raw_pid()).is_some_and(|now| now.started == member.started) {
            let _ = rustix::process::pidfd_send_signal(&fd, signal);
        }
    }

    fn processes() -> HashMap<i32, Stat> {
        let Ok(dir) = std::fs::read_dir("/proc") else {
            return HashMap::new();
        };
        let pids = dir.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
    }

    fn stat(pid: i32) -> Option<Stat> {
        parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of the program stands in parentheses, and may hold any byte, also a parenthesis.
    fn parse(stat: &[u8]) -> Option<Stat> {
        let behind = stat.iter().rposition(|b| *b == b')')? + 1;
        let text = std::str::from_utf8(stat.get(behind..)?).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        Some(Stat {
            zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether the process carries our marker. Another user's environment cannot be read, and is not ours.
    fn carries(pid: i32, marker: &str) -> bool {
        let Ok(file) = File::open(format!("/proc/{pid}/environ")) else {
            return false;
        };
        let mut environ = Vec::new();
        if file.take(ENVIRON_BYTES).read_to_end(&mut environ).is_err() {
            return false;
        }
        let wanted = format!("{MARKER}={marker}");
        environ.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_program_name_cannot_forge_its_parents() {
            let line = b"12 (a) S 1 1) R 7 8 9 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
            let stat = parse(line).unwrap();
            assert_eq!((stat.parent, stat.group, stat.zombie, stat.started), (7, 8, false, 4242));
            assert!(parse(b"12 (a").is_none() && parse(b"12 (a) R x").is_none());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Pid, Root, Signal};
    /// A process that is known to live.
    pub(super) struct Member(Pid);

    /// Without `/proc` the leader stands for its group.
    pub(super) fn members(root: Root, _marker: &str) -> Vec<Member> {
        match root {
            Root::Child(leader) if !super::has_ended(leader) => vec![Member(leader)],
            Root::Child(_) | Root::Myself => Vec::new(),
        }
    }

    pub(super) fn signal(member: &Member, signal: Signal) {
        let _ = rustix::process::kill_process(member.0, signal);
    }
}
