//! The tools of one run: our own, and those that extensions bring.
//! Invariants: names are unique, the first to have one keeps it; a set does not change while a turn goes on.

use super::{Desk, Prepared, builtins, helper, text};
use crate::{NativeConfig, model::ToolSpec};
use async_trait::async_trait;
use serde_json::Value;
use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
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
    /// Its tools for a turn at `desk`. Asked before each turn of a model that is told of tools, so it must not wait for long: what
    /// is not there yet is there in the next turn. Cancel safe.
    async fn tools(&self, desk: &Desk) -> Vec<Arc<dyn Tool>>;

    /// The tool of that name, for a call of one that was not listed.
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let _ = name;
        None
    }

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

    /// With the tools of MCP servers.
    #[cfg(feature = "mcp")]
    pub fn with_mcp(mut self, hub: Arc<crate::mcp::McpHub>) -> Self {
        self.push(Arc::new(super::mcp::McpTools(hub)));
        self
    }

    /// With what language servers know.
    #[cfg(feature = "lsp")]
    pub fn with_lsp(mut self, hub: Arc<crate::lsp::LspHub>) -> Self {
        self.push(Arc::new(super::lsp::LspTools::new(hub)));
        self
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

/// What a model may call in one turn.
pub(crate) struct ToolSet {
    own: Arc<[Arc<dyn Tool>]>,
    /// Those of extensions.
    more: Vec<Arc<dyn Tool>>,
    specs: OnceLock<Vec<ToolSpec>>,
    extensions: Extensions,
    told: Arc<Mutex<HashSet<String>>>,
}

impl Default for ToolSet {
    fn default() -> Self {
        Self::of(builtins().into(), Extensions::default())
    }
}

impl ToolSet {
    fn of(own: Arc<[Arc<dyn Tool>]>, extensions: Extensions) -> Self {
        Self { own, more: Vec::new(), specs: OnceLock::new(), extensions, told: Arc::default() }
    }

    /// Our own tools for a run of `session`; those of extensions only by name.
    pub(crate) fn own(config: &NativeConfig, session: &SessionId) -> Self {
        let mut own = builtins().to_vec();
        if config.helpers.are_for(session) {
            own.push(Arc::clone(helper()));
        }
        Self::of(own.into(), config.extensions.clone())
    }

    /// Our own, then those of the extensions as they are now.
    pub(crate) async fn gather(desk: &Desk) -> Self {
        let mut more: Vec<Arc<dyn Tool>> = Vec::new();
        for extension in &desk.tools.extensions.0 {
            let listed = tokio::select! {
                biased;
                () = desk.cancel.cancelled() => break,
                listed = extension.tools(desk) => listed,
            };
            for tool in listed {
                let name = &tool.spec().name;
                if desk.tools.own.iter().chain(&more).any(|known| known.spec().name == *name) {
                    tracing::warn!(tool = %name, "two tools have this name; the second is left out");
                } else {
                    more.push(tool);
                }
            }
        }
        let (own, told) = (Arc::clone(&desk.tools.own), Arc::clone(&desk.tools.told));
        Self { own, more, specs: OnceLock::new(), extensions: desk.tools.extensions.clone(), told }
    }

    /// Whether an extension says this for the first time in the run.
    #[allow(dead_code, reason = "only builds with extensions say anything")]
    pub(crate) fn is_news(&self, text: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned())
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.own.iter().chain(&self.more)
    }

    /// All of them, for a model.
    pub(crate) fn specs(&self) -> &[ToolSpec] {
        self.specs.get_or_init(|| self.all().map(|tool| tool.spec().clone()).collect())
    }

    /// Reads a call. The error is for the model.
    pub(crate) async fn prepare(
        &self,
        desk: &Desk,
        call: &CallId,
        name: &str,
        input: &Value,
    ) -> Result<Prepared, String> {
        let unlisted = || self.extensions.0.iter().find_map(|extension| extension.tool(name));
        match self.all().find(|tool| tool.spec().name == name).cloned().or_else(unlisted) {
            Some(tool) => tool.prepare(desk, call, input).await,
            None => {
                let known: Vec<&str> = self.all().map(|tool| &*tool.spec().name).collect();
                Err(format!("there is no tool `{}`; there are {}", text::shown(name), known.join(", ")))
            }
        }
    }
}
