//! The table of our own tools: one row a tool, from which the model's list, the schemas and the dispatch come. [`set`] has the
//! seam for tools from elsewhere.
//! Invariant: nothing that a model says about a tool is fatal; an unknown tool or a bad input is a result that teaches.

mod bash;
mod diff;
mod edit;
#[cfg(feature = "providers")]
mod fetch;
mod files;
mod glob;
mod grep;
#[cfg(feature = "providers")]
mod html;
mod jobs;
mod ls;
#[cfg(feature = "lsp")]
mod lsp;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
mod path;
mod read;
pub(crate) mod set;
mod task;
mod text;
mod todo;
mod walk;
mod write;

pub use set::Extensions;
pub(crate) use set::{Tool, ToolSet};
pub use task::Helpers;

use crate::{NativeConfig, host::Host, model::ToolSpec, sandbox::Hold, shelf::Shelf};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, OnceLock},
};
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::{CallId, Part};

/// The result of a call that the run's end broke off.
pub(crate) const CANCELLED: &str = "cancelled";

/// What every tool of a run works with.
#[derive(Clone)]
pub(crate) struct Desk {
    /// The session's directory, with its symlinks resolved.
    pub(crate) cwd: PathBuf,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) cancel: CancellationToken,
    pub(crate) config: Arc<NativeConfig>,
    /// What the session keeps between its runs.
    pub(crate) shelf: Arc<Shelf>,
    /// What the model may call.
    pub(crate) tools: Arc<ToolSet>,
}

impl Desk {
    /// What keeps a command in that is started now: the mode may have changed since the run began.
    pub(crate) fn hold(&self) -> Hold {
        Hold::of(&self.config.sandbox, self.host.mode(), &self.cwd, self.config.shim.is_some())
    }
}

/// A call whose input is good, before it is allowed.
pub(crate) struct Prepared {
    pub(crate) kind: ToolKind,
    /// One line for people.
    pub(crate) title: String,
    /// What a rule's pattern is matched against.
    pub(crate) subject: String,
    /// Whether it touches something outside the session's directory.
    pub(crate) outside: bool,
    /// The file that it changes, for [`set::Extension::after_change`].
    pub(crate) changes: Option<PathBuf>,
    /// What keeps it in, for the person who is asked.
    pub(crate) hold: Option<String>,
    /// Does nothing until it is awaited.
    pub(crate) work: Work,
}

/// What a tool does.
pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What a model is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) error: bool,
    pub(crate) diff: Option<String>,
    /// Pictures, behind the text.
    pub(crate) images: Vec<Part>,
}

impl Outcome {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: false, diff: None, images: Vec::new() }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { error: true, ..Self::ok(text) }
    }

    fn of(result: Result<String, String>) -> Self {
        match result {
            Ok(text) => Self::ok(text),
            Err(text) => Self::failed(text),
        }
    }
}

/// One of our own tools: its input, and what is done with it. The doc comments of its fields go to the model.
trait Builtin: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    /// Checks what the types cannot. May look at the disk; changes nothing. An error begins with the field's name.
    fn prepare(self, desk: &Desk, call: &CallId) -> Result<Prepared, String>;
}

/// A builtin among the others.
struct Row {
    spec: ToolSpec,
    prepare: fn(&Desk, &CallId, &Value) -> Result<Prepared, String>,
}

fn row<T: Builtin>() -> Arc<dyn Tool> {
    let schema = schemars::schema_for!(T).to_value();
    let spec = ToolSpec { name: T::NAME.into(), description: T::DESCRIPTION.into(), schema };
    Arc::new(Row { spec, prepare: |desk, call, input| parse::<T>(T::NAME, input)?.prepare(desk, call) })
}

/// The tool `task`, for sessions that may have helpers.
fn helper() -> &'static Arc<dyn Tool> {
    static ROW: OnceLock<Arc<dyn Tool>> = OnceLock::new();
    ROW.get_or_init(row::<task::Task>)
}

#[async_trait]
impl Tool for Row {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, desk: &Desk, call: &CallId, input: &Value) -> Result<Prepared, String> {
        let (prepare, desk, call, input) = (self.prepare, desk.clone(), call.clone(), input.clone());
        // Paths are looked up on the disk, which may be slow.
        let prepared = tokio::task::spawn_blocking(move || prepare(&desk, &call, &input));
        prepared.await.unwrap_or_else(|err| Err(broken(&err)))
    }
}

/// Our own tools; made when they are first asked for.
fn builtins() -> &'static [Arc<dyn Tool>] {
    static ROWS: OnceLock<Vec<Arc<dyn Tool>>> = OnceLock::new();
    ROWS.get_or_init(|| {
        vec![
            row::<read::Read>(),
            row::<write::Write>(),
            row::<edit::Edit>(),
            row::<ls::Ls>(),
            row::<glob::Glob>(),
            row::<grep::Grep>(),
            row::<bash::Bash>(),
            row::<jobs::BashOutput>(),
            row::<jobs::BashStop>(),
            row::<todo::Todo>(),
            #[cfg(feature = "providers")]
            row::<fetch::Fetch>(),
        ]
    })
}

/// The error names the field and what it should be.
fn parse<T: DeserializeOwned>(name: &str, input: &Value) -> Result<T, String> {
    if input.is_string() {
        return Err(format!("the input of `{name}` is not a JSON object; call again with one that fits its schema"));
    }
    serde_path_to_error::deserialize(input).map_err(|err| {
        let field = err.path().to_string();
        let what = err.into_inner();
        let place = if field == "." { String::new() } else { format!("{field}: ") };
        format!("bad input for `{name}`: {place}{what}")
    })
}

/// Work that looks at the disk and may take long: off the runtime, and told to stop when the run is cancelled.
async fn look<F>(desk: &Desk, work: F) -> Outcome
where
    F: FnOnce(&CancellationToken) -> Result<String, String> + Send + 'static,
{
    let stop = desk.cancel.child_token();
    // Also when this future is dropped.
    let _stop_with_us = stop.clone().drop_guard();
    let cancelled = stop.clone();
    let work = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        biased;
        () = cancelled.cancelled() => Outcome::failed(CANCELLED),
        result = work => Outcome::of(result.unwrap_or_else(|err| Err(broken(&err)))),
    }
}

/// Work that changes the disk: off the runtime, and never broken off midway.
async fn change<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|err| Err(broken(&err)))
}

fn broken(err: &tokio::task::JoinError) -> String {
    tracing::error!(error = %err, "a tool broke");
    "the tool broke; this is a defect of the server".to_owned()
}

#[cfg(test)]
mod tests;
