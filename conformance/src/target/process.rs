//! Signals, and the search for processes that a case left behind: each server is started with a marker in its environment,
//! which its children inherit.

use crate::verdict::{Outcome, Stop};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{fs, time::Duration};
use tokio::time::{Instant, sleep};

/// Name of the marker in the environment.
pub const MARKER: &str = "TRIPLANE_CONFORMANCE_MARK";

/// Sends a signal to one process. One that is gone already is no failure.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills a process group that we started.
pub fn kill_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// The processes with this marker: pid and command line. Those that have ended, but are not reaped yet, do not count.
pub fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARKER}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// Kills whatever has the marker, without a verdict.
pub fn clear(mark: &str) {
    for (pid, _) in marked(mark) {
        signal(pid, Signal::KILL);
    }
}

/// Waits until no process has the marker; what is left after `wait` is killed and makes the server break C09.
pub async fn none_left(mark: &str, wait: Duration) -> Outcome {
    let end = Instant::now() + wait;
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            for (pid, _) in &left {
                signal(*pid, Signal::KILL);
            }
            return Err(Stop::Broke { clause: Some("C09"), seen: format!("processes outlived the server: {left:?}") });
        }
        // There is no event for the end of a process that is not our child.
        sleep(Duration::from_millis(20)).await;
    }
}
