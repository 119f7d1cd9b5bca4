//! A session for tests: it records what is said, answers as it is told to, and runs tasks.

use crate::host::{Change, Host, TaskWork};
use async_trait::async_trait;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio_util::sync::CancellationToken;
use triplane_core::session::{PermissionAsk, Verdict};
use triplane_protocol::{AgentEvent, Message, MessageId, TaskId, ir::Mode};

/// What was said, in order.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Event(AgentEvent),
    Message(Message),
    Ask(PermissionAsk),
    Before(PathBuf),
    Done(PathBuf),
    TaskEnd(bool, String),
}

pub(crate) struct Fake {
    said: Arc<Mutex<Vec<Said>>>,
    /// Fires whenever something is said.
    changed: tokio::sync::watch::Sender<usize>,
    ids: AtomicU64,
    /// Which asks are refused: those whose subject contains this.
    pub(crate) deny: Option<&'static str>,
    /// Asks whose subject contains this are never answered.
    pub(crate) hang: Option<&'static str>,
    pub(crate) mode: Mode,
    pub(crate) tasks: CancellationToken,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let changed = tokio::sync::watch::channel(0).0;
        let said = Arc::default();
        Self {
            said,
            changed,
            ids: AtomicU64::new(0),
            deny: None,
            hang: None,
            mode: Mode::Default,
            tasks: CancellationToken::new(),
        }
    }

    fn say(&self, what: Said) {
        self.said.lock().unwrap().push(what);
        self.changed.send_modify(|n| *n += 1);
    }

    pub(crate) fn said(&self) -> Vec<Said> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<AgentEvent> {
        let said = self.said();
        said.into_iter().filter_map(|s| if let Said::Event(event) = s { Some(event) } else { None }).collect()
    }

    /// Waits until something that was said fits; at most ten seconds.
    pub(crate) async fn until(&self, fits: impl Fn(&Said) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !self.said.lock().unwrap().iter().any(&fits) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), wait).await.expect("it was never said");
    }
}

struct Guard(Arc<Mutex<Vec<Said>>>, PathBuf);

#[async_trait]
impl Change for Guard {
    async fn done(self: Box<Self>) {
        self.0.lock().unwrap().push(Said::Done(self.1));
    }
}

#[async_trait]
impl Host for Fake {
    async fn emit(&self, event: AgentEvent) {
        self.say(Said::Event(event));
    }

    async fn message(&self, message: Message) {
        self.say(Said::Message(message));
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(format!("m{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn now_ms(&self) -> i64 {
        7
    }

    async fn ask(&self, ask: PermissionAsk) -> Verdict {
        let has = |text: Option<&str>| text.is_some_and(|text| ask.subject.contains(text));
        let (denied, hangs) = (has(self.deny), has(self.hang));
        self.say(Said::Ask(ask));
        if hangs {
            std::future::pending::<()>().await;
        }
        if denied {
            Verdict::Denied { reason: "not today".into(), option: None }
        } else {
            Verdict::Allowed { option: None }
        }
    }

    async fn before_change(&self, path: &Path) -> Result<Box<dyn Change>, String> {
        self.say(Said::Before(path.to_owned()));
        Ok(Box::new(Guard(Arc::clone(&self.said), path.to_owned())))
    }

    async fn spawn_task(&self, title: String, work: TaskWork) -> Result<TaskId, String> {
        let id = TaskId::from("t1");
        self.say(Said::Event(AgentEvent::TaskStart { task_id: id.clone(), title }));
        let (said, changed) = (Arc::clone(&self.said), self.changed.clone());
        let work = work(Arc::new(|_| {}), self.tasks.clone());
        tokio::spawn(async move {
            let (ok, text) = work.await;
            said.lock().unwrap().push(Said::TaskEnd(ok, text));
            changed.send_modify(|n| *n += 1);
        });
        Ok(id)
    }
}

/// A session's empty shelf.
pub(crate) fn shelf() -> Arc<crate::shelf::Shelf> {
    Arc::new(crate::shelf::Shelf::new(triplane_protocol::SessionId::parse("s1").unwrap()))
}
