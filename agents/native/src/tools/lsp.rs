//! `diagnostics`, `definition`, `references` and `symbols`: what language servers know; and a word about each changed file.
//! A server that does not run yet is started, and some run code of the project when they start: that asks, as a look outside does.

use super::{
    CANCELLED, Desk, Outcome, Prepared, Tool, broken, parse,
    path::{self, Place},
    set::Extension,
    text::title,
};
use crate::{lsp::LspHub, model::ToolSpec};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{marker::PhantomData, path::Path, sync::Arc};
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// All of them.
pub(super) struct LspTools {
    hub: Arc<LspHub>,
    tools: Vec<Arc<dyn Tool>>,
}

impl LspTools {
    pub(super) fn new(hub: Arc<LspHub>) -> Self {
        let tools =
            vec![row::<Diagnostics>(&hub), row::<Definition>(&hub), row::<References>(&hub), row::<Symbols>(&hub)];
        Self { hub, tools }
    }
}

#[async_trait]
impl Extension for LspTools {
    /// None where no server is installed: they would only cost a model's attention.
    async fn tools(&self, _desk: &Desk) -> Vec<Arc<dyn Tool>> {
        if self.hub.is_useful() { self.tools.clone() } else { Vec::new() }
    }

    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name).cloned()
    }

    async fn after_change(&self, desk: &Desk, path: &Path) -> Option<String> {
        self.hub.after_change(&desk.cwd, path).await
    }
}

/// What is asked. The doc comments of its fields go to the model.
#[async_trait]
trait Question: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    /// The file that it is about, as the model named it.
    fn path(&self) -> Option<&str>;

    /// Asks; `file` is [`Question::path`], resolved. The texts are for the model.
    async fn ask(self, hub: &LspHub, root: &Path, file: &Path) -> Result<String, String>;
}

struct Row<Q> {
    hub: Arc<LspHub>,
    spec: ToolSpec,
    question: PhantomData<fn() -> Q>,
}

fn row<Q: Question>(hub: &Arc<LspHub>) -> Arc<dyn Tool> {
    let schema = schemars::schema_for!(Q).to_value();
    let spec = ToolSpec { name: Q::NAME.into(), description: Q::DESCRIPTION.into(), schema };
    Arc::new(Row::<Q> { hub: Arc::clone(hub), spec, question: PhantomData })
}

#[async_trait]
impl<Q: Question> Tool for Row<Q> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, desk: &Desk, _call: &CallId, input: &Value) -> Result<Prepared, String> {
        let question: Q = parse(Q::NAME, input)?;
        let (root, path) = (desk.cwd.clone(), question.path().map(str::to_owned));
        // Paths are looked up on the disk, which may be slow.
        let place = tokio::task::spawn_blocking(move || path.map(|path| inside(&root, &path)).transpose());
        let place = place.await.unwrap_or_else(|err| Err(broken(&err)))?;
        let starts = place.as_ref().is_some_and(|place| !self.hub.is_up(&desk.cwd, &place.real));
        let (shown, real) = place.map_or_else(|| (".".to_owned(), desk.cwd.clone()), |place| (place.shown, place.real));
        let what = if starts { format!("{shown} (starts a language server)") } else { shown.clone() };
        let (hub, root, cancel) = (Arc::clone(&self.hub), desk.cwd.clone(), desk.cancel.clone());
        Ok(Prepared {
            kind: ToolKind::Read,
            title: title(Q::NAME, &what),
            subject: shown,
            outside: starts,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Outcome::failed(CANCELLED),
                    result = question.ask(&hub, &root, &real) => Outcome::of(result),
                }
            }),
        })
    }
}

/// A file of the directory: servers know no other.
fn inside(root: &Path, path: &str) -> Result<Place, String> {
    let place = path::resolve(root, "path", path)?;
    match place.outside {
        true => Err(format!("path: {} lies outside the session's directory", place.shown)),
        false => Ok(place),
    }
}

/// Input of `diagnostics`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diagnostics {
    /// The file to look at; without it, all files that were looked at in this directory.
    path: Option<String>,
}

/// Input of `definition`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// A file in which the symbol is used.
    path: String,
    /// The symbol, as it stands in the file.
    symbol: String,
    /// The line where it stands, from 1; without it, the first place in the file.
    line: Option<u64>,
}

/// Input of `references`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct References {
    /// A file in which the symbol is defined or used.
    path: String,
    /// The symbol, as it stands in the file.
    symbol: String,
    /// The line where it stands, from 1; without it, the first place in the file.
    line: Option<u64>,
}

/// Input of `symbols`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Symbols {
    /// The file whose symbols are listed; with `query`, any file of the language.
    path: String,
    /// Part of a name, to look for in the whole directory instead.
    query: Option<String>,
}

#[async_trait]
impl Question for Diagnostics {
    const NAME: &'static str = "diagnostics";
    const DESCRIPTION: &'static str = "Errors and warnings that the language server finds in a file, without building.";

    fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    async fn ask(self, hub: &LspHub, root: &Path, file: &Path) -> Result<String, String> {
        hub.diagnostics(root, self.path.is_some().then_some(file)).await
    }
}

#[async_trait]
impl Question for Definition {
    const NAME: &'static str = "definition";
    const DESCRIPTION: &'static str = "Where a symbol is defined, by the language server: `file:line:column: text`.";

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }

    async fn ask(self, hub: &LspHub, root: &Path, file: &Path) -> Result<String, String> {
        hub.definition(root, file, self.line, &self.symbol).await
    }
}

#[async_trait]
impl Question for References {
    const NAME: &'static str = "references";
    const DESCRIPTION: &'static str = "All places where a symbol is used, by the language server, each with its line.";

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }

    async fn ask(self, hub: &LspHub, root: &Path, file: &Path) -> Result<String, String> {
        hub.references(root, file, self.line, &self.symbol).await
    }
}

#[async_trait]
impl Question for Symbols {
    const NAME: &'static str = "symbols";
    const DESCRIPTION: &'static str = "The outline of a file (functions, types, fields with their lines); or, with `query`, \
        symbols of the whole directory by part of their name.";

    fn path(&self) -> Option<&str> {
        Some(&self.path)
    }

    async fn ask(self, hub: &LspHub, root: &Path, file: &Path) -> Result<String, String> {
        hub.symbols(root, file, self.query.as_deref().filter(|query| !query.is_empty())).await
    }
}
