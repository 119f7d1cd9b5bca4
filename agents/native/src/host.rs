//! The session as the loop and the tools see it. In a plane it is the run's [`RunSink`]; in tests it is a record of what was said.

use async_trait::async_trait;
use std::{future::Future, path::Path, pin::Pin, sync::Arc};
use tokio_util::sync::CancellationToken;
use triplane_core::session::{ChangeGuard, PermissionAsk, RunSink, Verdict};
use triplane_protocol::{AgentEvent, Message, MessageId, TaskId, ir::Mode};

/// Where a background task puts its output.
pub(crate) type TaskText = Arc<dyn Fn(&str) + Send + Sync>;

/// A background task: whether it went well, and its closing text.
pub(crate) type TaskWork =
    Box<dyn FnOnce(TaskText, CancellationToken) -> Pin<Box<dyn Future<Output = (bool, String)> + Send>> + Send>;

/// What [`RunSink`] offers, as a trait.
#[async_trait]
pub(crate) trait Host: Send + Sync {
    /// Publishes an event; waits while the session's queue is full.
    async fn emit(&self, event: AgentEvent);
    /// Appends to the history; the event that tells of it follows.
    async fn message(&self, message: Message);
    /// The session's mode of this moment.
    fn mode(&self) -> Mode;
    /// A fresh id.
    fn message_id(&self) -> MessageId;
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
    /// May this call go ahead?
    async fn ask(&self, ask: PermissionAsk) -> Verdict;
    /// Saves what a file is now. An error: the tool must not go on.
    async fn before_change(&self, path: &Path) -> Result<Box<dyn Change>, String>;
    /// Starts a background task.
    async fn spawn_task(&self, title: String, work: TaskWork) -> Result<TaskId, String>;
}

/// A change that was announced.
#[async_trait]
pub(crate) trait Change: Send {
    /// The change is made.
    async fn done(self: Box<Self>);
}

#[async_trait]
impl Change for ChangeGuard {
    async fn done(self: Box<Self>) {
        ChangeGuard::done(*self).await;
    }
}

#[async_trait]
impl Host for RunSink {
    async fn emit(&self, event: AgentEvent) {
        RunSink::emit(self, event).await;
    }

    async fn message(&self, message: Message) {
        RunSink::message(self, message).await;
    }

    fn mode(&self) -> Mode {
        RunSink::mode(self)
    }

    fn message_id(&self) -> MessageId {
        RunSink::message_id(self)
    }

    fn now_ms(&self) -> i64 {
        RunSink::now_ms(self)
    }

    async fn ask(&self, ask: PermissionAsk) -> Verdict {
        RunSink::ask(self, ask).await
    }

    async fn before_change(&self, path: &Path) -> Result<Box<dyn Change>, String> {
        Ok(Box::new(RunSink::before_change(self, path).await?))
    }

    async fn spawn_task(&self, title: String, work: TaskWork) -> Result<TaskId, String> {
        RunSink::spawn_task(self, title, move |output, cancel| work(Arc::new(move |text| output.push(text)), cancel))
            .await
    }
}
