//! What language servers know of a session's files. A server belongs to the process: one for each directory and language, started
//! when a file of that language is first touched, shared by all sessions of the directory, stopped when nobody needs it. Clause: H25.
//! Invariants: a server's trouble never fails an edit; what it adds to a result is bounded in time and size.
//!
//! - [`table`]: which servers there are. [`server`]: one of them, kept by [`crate::keeper`]. [`wire`]: how it is spoken to.
//! - [`show`]: its answers as text.

mod server;
mod show;
mod table;
mod wire;

pub use table::{LspServer, builtin};

use crate::keeper::{Keeper, Phase};
use serde_json::{Value, json};
use server::{Running, Server, Told};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Servers that run at the same time; more sessions than these need theirs later.
const SERVERS: usize = 32;

/// How long a change waits for a server that is only just being started. The next change finds it ready.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// Severity of warnings; what is milder is not told after a change.
const WARNING: u64 = 2;

/// The mildest.
const HINT: u64 = 4;

/// What the language servers of a process are.
#[derive(Debug, Clone, Default)]
pub struct LspConfig {
    /// In the order of preference for a file that several know.
    pub servers: Vec<LspServer>,
    /// As in [`crate::NativeConfig::shim`].
    pub shim: Option<PathBuf>,
    /// As in [`crate::NativeConfig::hidden`].
    pub hidden: Vec<String>,
}

/// The language servers of a process.
pub struct LspHub {
    config: LspConfig,
    kept: Mutex<HashMap<Key, Arc<Keeper<Server>>>>,
}

/// A directory, and a server's name.
type Key = (PathBuf, String);

impl std::fmt::Debug for LspHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LspHub").finish_non_exhaustive()
    }
}

impl LspHub {
    /// Starts nothing.
    pub fn new(config: LspConfig) -> Self {
        Self { config, kept: Mutex::default() }
    }

    /// Whether any server is installed, so that its tools are worth telling a model of.
    pub fn is_useful(&self) -> bool {
        self.config.servers.iter().any(|server| server.program().is_some())
    }

    /// The servers, and where each of them is; nothing where it is not installed.
    pub fn servers(&self) -> Vec<(&LspServer, Option<PathBuf>)> {
        self.config.servers.iter().map(|server| (server, server.program())).collect()
    }

    /// Whether the server of a file runs. Starts nothing.
    pub(crate) fn is_up(&self, root: &Path, path: &Path) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_root = kept.iter().filter(|((dir, _), _)| dir == root);
        of_root.any(|(_, keeper)| keeper.kept().config.knows(path) && matches!(keeper.phase(), Phase::Up(_)))
    }

    /// The server for a file. Errors: none that is installed knows it, or too many run.
    fn keeper(&self, root: &Path, path: &Path) -> Result<Arc<Keeper<Server>>, String> {
        let mut knows = self.config.servers.iter().filter(|server| server.knows(path)).peekable();
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if knows.peek().is_none() {
            return Err(format!("no language server knows files of the kind `{ending}`"));
        }
        let commands: Vec<&str> = knows.clone().map(|server| server.command.as_str()).collect();
        let server = knows
            .find(|server| server.program().is_some())
            .ok_or_else(|| format!("the language server for `{ending}` is not installed ({})", commands.join(", ")))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (root.to_owned(), server.name.clone());
        if let Some(keeper) = kept.get(&key) {
            return Ok(Arc::clone(keeper));
        }
        if kept.len() >= SERVERS {
            kept.retain(|_, keeper| !matches!(keeper.phase(), Phase::Down { .. }));
        }
        if kept.len() >= SERVERS {
            return Err(format!("{SERVERS} language servers run already; their sessions have to become idle first"));
        }
        let keeper = Arc::new(Keeper::new(Server {
            config: server.clone(),
            root: root.to_owned(),
            shim: self.config.shim.clone(),
            hidden: self.config.hidden.clone(),
        }));
        kept.insert(key, Arc::clone(&keeper));
        Ok(keeper)
    }

    async fn told(&self, root: &Path, path: &Path) -> Result<(LspServer, Arc<Running>, Told), String> {
        let keeper = self.keeper(root, path)?;
        let live = keeper.get().await?;
        let told = live.tell(path).await?;
        Ok((keeper.kept().config.clone(), live, told))
    }

    /// What a changed file's server says of it, to be added to the change's result; `None`: nothing, or nobody to ask.
    pub(crate) async fn after_change(&self, root: &Path, path: &Path) -> Option<String> {
        if !path.starts_with(root) {
            return None;
        }
        let keeper = self.keeper(root, path).ok()?;
        let name = keeper.kept().config.name.clone();
        if keeper.is_failing() {
            return None;
        }
        let live = match tokio::time::timeout(FIRST_WAIT, keeper.get()).await {
            Ok(Ok(live)) => live,
            Ok(Err(why)) => {
                tracing::debug!("{why}");
                return None;
            }
            Err(_) => return Some(format!("[{name} is still starting; ask for `diagnostics` later]")),
        };
        let limit = keeper.kept().config.diagnostics_wait;
        let told = async {
            let told = live.tell(path).await?;
            live.changed(path).await?;
            Ok::<_, String>(told)
        };
        let told = match tokio::time::timeout(limit, told).await {
            Ok(Ok(told)) => told,
            Ok(Err(why)) => {
                tracing::debug!("{name}: {why}");
                return None;
            }
            Err(_) => return None,
        };
        let problems = live.problems(path, &told, limit).await?;
        show::problems(&problems, WARNING).map(|text| format!("problems that {name} finds in it now:\n{text}"))
    }

    /// The problems of one file, or of all that were looked at.
    pub(crate) async fn diagnostics(&self, root: &Path, path: Option<&Path>) -> Result<String, String> {
        let Some(path) = path else { return Ok(self.all(root)) };
        let (server, live, told) = self.told(root, path).await?;
        match live.problems(path, &told, server.diagnostics_wait.max(FIRST_WAIT)).await {
            Some(problems) => Ok(show::problems(&problems, HINT).unwrap_or_else(|| "no problems".to_owned())),
            None => Err(format!("{} has not looked at it yet; ask again later", server.name)),
        }
    }

    fn all(&self, root: &Path) -> String {
        let kept: Vec<Arc<Keeper<Server>>> = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().filter(|((dir, _), _)| dir == root).map(|(_, keeper)| Arc::clone(keeper)).collect()
        };
        let mut text = String::new();
        for live in
            kept.iter().filter_map(|keeper| if let Phase::Up(live) = keeper.phase() { Some(live) } else { None })
        {
            for (path, problems) in live.all_problems() {
                let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                if let Some(lines) = show::problems(&problems, WARNING).filter(|_| text.len() < 32 << 10) {
                    text.push_str(&format!("{shown}\n{lines}\n"));
                }
            }
        }
        if text.is_empty() {
            "no problems in the files that were looked at; give a `path` to look at one".to_owned()
        } else {
            text
        }
    }

    /// Where a symbol is defined.
    pub(crate) async fn definition(
        &self,
        root: &Path,
        path: &Path,
        line: Option<u64>,
        symbol: &str,
    ) -> Result<String, String> {
        self.at(root, path, line, symbol, "textDocument/definition", json!({})).await
    }

    /// Where a symbol is used.
    pub(crate) async fn references(
        &self,
        root: &Path,
        path: &Path,
        line: Option<u64>,
        symbol: &str,
    ) -> Result<String, String> {
        let context = json!({ "context": { "includeDeclaration": true } });
        self.at(root, path, line, symbol, "textDocument/references", context).await
    }

    async fn at(
        &self,
        root: &Path,
        path: &Path,
        line: Option<u64>,
        symbol: &str,
        method: &str,
        mut params: Value,
    ) -> Result<String, String> {
        let (server, live, told) = self.told(root, path).await?;
        let position = show::position(&told.text, line, symbol)?;
        if let Some(params) = params.as_object_mut() {
            params.insert("textDocument".to_owned(), json!({ "uri": told.uri }));
            params.insert("position".to_owned(), position);
        }
        let failed = |why: String| format!("{}: {why}", server.name);
        let result = live.ask(method, params, server.request_timeout).await.map_err(failed)?;
        let text = show::places(&result, root).await;
        if text.is_empty() {
            Err(format!("{} found nothing; it may still be reading the project", server.name))
        } else {
            Ok(text)
        }
    }

    /// The symbols of a file; or, with `query`, those of the directory in its language whose name fits.
    pub(crate) async fn symbols(&self, root: &Path, path: &Path, query: Option<&str>) -> Result<String, String> {
        let (server, live, told) = self.told(root, path).await?;
        let (method, params) = match query {
            Some(query) => ("workspace/symbol", json!({ "query": query })),
            None => ("textDocument/documentSymbol", json!({ "textDocument": { "uri": told.uri } })),
        };
        let failed = |why: String| format!("{}: {why}", server.name);
        let result = live.ask(method, params, server.request_timeout).await.map_err(failed)?;
        let text = show::symbols(&result, root);
        if text.is_empty() { Err(format!("{} found no symbols", server.name)) } else { Ok(text) }
    }
}
