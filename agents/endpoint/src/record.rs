//! What was asked, and how it ended: so that a test sees that a cancel really broke a request off.
//! Invariant: a request ends exactly once; one that nobody ended was left by its client.

use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Requests that are kept; older ones are forgotten.
const KEPT: usize = 200;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was answered whole.
    Complete,
    /// It was refused with a status.
    Failed,
    /// The script broke the connection.
    Broken,
    /// The client went away before the end.
    ClientGone,
}

impl Ending {
    const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Broken => "broken",
            Self::ClientGone => "client_gone",
        }
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// From 1.
    pub number: u64,
    /// Its path, without the query.
    pub path: String,
    /// What was sent.
    pub body: Value,
    /// `None` while it is being answered.
    pub ending: Option<Ending>,
}

/// The last requests, oldest first. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Record {
    kept: Arc<Mutex<Kept>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    requests: VecDeque<Request>,
}

impl Default for Record {
    fn default() -> Self {
        Self { kept: Arc::default(), changed: watch::channel(0).0 }
    }
}

impl Record {
    /// What is kept.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Waits until a request fits. Cancel safe.
    pub async fn until(&self, fits: impl Fn(&Request) -> bool) -> Request {
        let mut changed = self.changed.subscribe();
        loop {
            let found = self.lock().requests.iter().find(|request| fits(request)).cloned();
            if let Some(found) = found {
                return found;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) fn begin(&self, path: &str, body: Value) -> Open {
        let mut kept = self.lock();
        kept.count += 1;
        let number = kept.count;
        if kept.requests.len() == KEPT {
            kept.requests.pop_front();
        }
        kept.requests.push_back(Request { number, path: path.to_owned(), body, ending: None });
        drop(kept);
        self.changed.send_modify(|n| *n += 1);
        Open { record: self.clone(), number, ending: Ending::ClientGone }
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows = self.requests().into_iter().map(|request| {
            let Request { number, path, body, ending } = request;
            json!({ "number": number, "path": path, "body": body, "ending": ending.map(Ending::word) })
        });
        rows.collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Open {
    record: Record,
    number: u64,
    ending: Ending,
}

impl Open {
    pub(crate) fn end(mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut kept = self.record.lock();
        if let Some(request) = kept.requests.iter_mut().find(|request| request.number == self.number) {
            request.ending = Some(self.ending);
        }
        drop(kept);
        self.record.changed.send_modify(|n| *n += 1);
    }
}
