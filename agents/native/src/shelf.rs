//! What one live session keeps between its runs: its background commands, so that a later call can read or stop them.
//! Invariant: bounded, however much a command says; what was dropped is counted and told.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use triplane_protocol::{SessionId, TaskId};

/// Bytes of output that wait to be read.
const UNREAD_BYTES: usize = 32 << 10;

/// Background commands that are remembered; those that ended go first.
const JOBS: usize = 64;

/// One live session's own things.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// The session.
    pub(crate) id: SessionId,
    jobs: Mutex<BTreeMap<TaskId, Arc<Job>>>,
}

impl Shelf {
    pub(crate) fn new(id: SessionId) -> Self {
        Self { id, jobs: Mutex::default() }
    }

    /// Remembers a command.
    pub(crate) fn keep(&self, id: TaskId, job: Arc<Job>) {
        let mut jobs = lock(&self.jobs);
        while jobs.len() >= JOBS {
            let over = jobs.iter().find(|(_, job)| job.has_ended()).map(|(id, _)| id.clone());
            let Some(over) = over else { break };
            jobs.remove(&over);
        }
        jobs.insert(id, job);
    }

    /// The command of a task. The error is for the model and names those that there are.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Job>, String> {
        let jobs = lock(&self.jobs);
        jobs.get(&TaskId::from(id)).cloned().ok_or_else(|| {
            let known: Vec<&str> = jobs.keys().map(TaskId::as_str).collect();
            let known =
                if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
            format!("task_id: no background command of this name; {known}")
        })
    }
}

/// A background command.
#[derive(Debug, Default)]
pub(crate) struct Job {
    state: Mutex<State>,
    /// Something came, or it ended.
    moved: Notify,
    /// Ends it.
    pub(crate) stop: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    unread: VecDeque<u8>,
    dropped: usize,
    ended: Option<String>,
}

impl Job {
    /// It said something.
    pub(crate) fn push(&self, text: &str) {
        let mut state = lock(&self.state);
        state.unread.extend(text.bytes());
        let over = state.unread.len().saturating_sub(UNREAD_BYTES);
        state.unread.drain(..over);
        state.dropped += over;
        drop(state);
        self.moved.notify_waiters();
    }

    /// It ended, in the way that `how` tells.
    pub(crate) fn end(&self, how: String) {
        lock(&self.state).ended = Some(how);
        self.moved.notify_waiters();
    }

    fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Resolves when there is something to read, or it has ended. Cancel safe.
    pub(crate) async fn moved(&self) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            {
                let state = lock(&self.state);
                if state.ended.is_some() || !state.unread.is_empty() {
                    return;
                }
            }
            moved.await;
        }
    }

    /// Resolves when it has ended. Cancel safe.
    pub(crate) async fn ended(&self) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.has_ended() {
                return;
            }
            moved.await;
        }
    }

    /// What it said since the last time, and how it stands.
    pub(crate) fn read(&self) -> String {
        let mut state = lock(&self.state);
        let bytes: Vec<u8> = state.unread.drain(..).collect();
        let cut = std::mem::take(&mut state.dropped);
        let mut text = if cut == 0 { String::new() } else { format!("[… {cut} bytes cut …]\n") };
        text.push_str(&String::from_utf8_lossy(&bytes));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match &state.ended {
            Some(how) => text.push_str(&format!("[ended: {how}]")),
            None => text.push_str("[still running]"),
        }
        text
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_once_and_a_flood_is_cut() {
        let job = Job::default();
        job.push("a");
        assert_eq!((job.read(), job.read()), ("a\n[still running]".into(), "[still running]".into()));
        job.push(&"x".repeat(UNREAD_BYTES));
        job.push("end");
        job.end("exit code 1".into());
        let text = job.read();
        assert!(
            text.starts_with("[… 3 bytes cut …]\nxx") && text.ends_with("xend\n[ended: exit code 1]"),
            "{}",
            text.len()
        );
    }

    #[test]
    fn the_shelf_is_bounded_and_names_what_it_has() {
        let shelf = Shelf::new(SessionId::parse("s1").unwrap());
        assert!(shelf.find("t").unwrap_err().contains("there is none"));
        for n in 0..2 * JOBS {
            let job = Arc::new(Job::default());
            if n > 0 {
                job.end("well".into());
            }
            shelf.keep(TaskId::from(format!("t{n:04}")), job);
        }
        assert_eq!(lock(&shelf.jobs).len(), JOBS);
        assert!(shelf.find("t0000").is_ok(), "one that runs stays");
        assert!(shelf.find("t0001").unwrap_err().contains("t0127"));
    }
}
