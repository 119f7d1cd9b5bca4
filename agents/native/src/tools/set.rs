//! The tools of one run: our own, and those that extensions bring.
//! Invariants: names are unique, the first to have one keeps it; a set does not change while a run goes on.

use super::{Desk, Prepared, builtins, helper, text};
use crate::{NativeConfig, model::ToolSpec};
use async_trait::async_trait;
use serde_json::Value;
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};
use triplane_protocol::{CallId, SessionId};

/// A tool that a model may call.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    /// What a model is told of it.
    fn spec(&self) -> &ToolSpec;

    /// Checks a call; may look around, changes nothing. The error is for the model and begins with the field's name. Cancel safe.
    /// [`Prepared::work`] sees `desk.cancel` itself, ends soon after it, and leaves nothing running.
    async fn prepare(&self, desk: &Desk, call: &CallId, input: &Value) -> Result<Prepared, String>;
}

/// Brings tools from elsewhere; one value serves all sessions of a process.
#[async_trait]
pub(crate) trait Extension: Send + Sync {
    /// Its tools for a run in `cwd`, which is resolved. Asked at the start of each run, so it must not wait for long: what is not
    /// there yet is there in the next run.
    async fn tools(&self, cwd: &Path) -> Vec<Arc<dyn Tool>>;

    /// What the model should know about a file that one of our tools has just changed; joins that tool's result.
    async fn after_change(&self, desk: &Desk, path: &Path) -> Option<String> {
        let _ = (desk, path);
        None
    }
}

/// Extensions in a config that is cheap to clone and can be shown.
#[derive(Clone, Default)]
pub struct Extensions(Vec<Arc<dyn Extension>>);

impl Extensions {
    /// One more, behind the others.
    #[allow(dead_code, reason = "only builds with extensions have any")]
    pub(crate) fn push(&mut self, extension: Arc<dyn Extension>) {
        self.0.push(extension);
    }

    /// What they say about a change, joined.
    pub(crate) async fn after_change(&self, desk: &Desk, path: &Path) -> Option<String> {
        let mut all = Vec::new();
        for extension in &self.0 {
            let told = tokio::select! {
                biased;
                () = desk.cancel.cancelled() => return None,
                told = extension.after_change(desk, path) => told,
            };
            all.extend(told);
        }
        (!all.is_empty()).then(|| all.join("\n"))
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extensions").field("count", &self.0.len()).finish()
    }
}

/// What a model may call in one run.
pub(crate) struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
    specs: OnceLock<Vec<ToolSpec>>,
}

impl Default for ToolSet {
    fn default() -> Self {
        Self::of(builtins().to_vec())
    }
}

impl ToolSet {
    fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools, specs: OnceLock::new() }
    }

    /// Our own, then those of the extensions.
    pub(crate) async fn gather(config: &NativeConfig, session: &SessionId, cwd: &Path) -> Self {
        let mut tools = builtins().to_vec();
        if config.helpers.are_for(session) {
            tools.push(Arc::clone(helper()));
        }
        for extension in &config.extensions.0 {
            for tool in extension.tools(cwd).await {
                let name = &tool.spec().name;
                if tools.iter().any(|known| known.spec().name == *name) {
                    tracing::warn!(tool = %name, "two tools have this name; the second is left out");
                } else {
                    tools.push(tool);
                }
            }
        }
        Self::of(tools)
    }

    /// All of them, for a model.
    pub(crate) fn specs(&self) -> &[ToolSpec] {
        self.specs.get_or_init(|| self.tools.iter().map(|tool| tool.spec().clone()).collect())
    }

    /// Reads a call. The error is for the model.
    pub(crate) async fn prepare(
        &self,
        desk: &Desk,
        call: &CallId,
        name: &str,
        input: &Value,
    ) -> Result<Prepared, String> {
        match self.tools.iter().find(|tool| tool.spec().name == name) {
            Some(tool) => tool.prepare(desk, call, input).await,
            None => {
                let known: Vec<&str> = self.tools.iter().map(|tool| &*tool.spec().name).collect();
                Err(format!("there is no tool `{}`; there are {}", text::shown(name), known.join(", ")))
            }
        }
    }
}
