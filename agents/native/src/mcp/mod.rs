//! Tools of MCP servers. The connections belong to the process: each is made once, when it is first needed, and shared by all
//! sessions that may use it. Clause: H25.
//! Invariants: a server that a project names is not started before a person approved it; no session waits for another's server;
//! a server's trouble is a call's result or a note, never a run's end.
//!
//! - [`config`]: which servers there are. [`approval`]: which of a project's may be started.
//! - [`server`]: one of them, kept by [`crate::keeper`]; [`client`]: our side of its connection; [`elicit`]: its questions.
//! - [`tool`]: its tools, made fit for models; [`result`]: what they answer.

mod approval;
mod capped;
mod client;
mod config;
mod elicit;
mod result;
mod server;
mod tool;

pub use approval::Approvals;
pub(crate) use client::Caller;
pub use config::{McpServer, PROJECT_FILE, Reach, read_project};
pub use result::McpAnswer;
pub use tool::McpTool;
pub(crate) use tool::server_of;

use crate::keeper::{Keeper, Phase};
use serde_json::{Map, Value};
use server::Server;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// How long a turn waits for servers that are being started; those that take longer are there for the next one.
const LIST_WAIT: Duration = Duration::from_secs(15);

/// Projects whose servers are kept; the ones that nobody uses go first.
const PROJECTS: usize = 64;

/// What the servers of a process are.
#[derive(Debug, Clone, Default)]
pub struct McpConfig {
    /// Servers of this machine's owner, for every session.
    pub servers: Vec<McpServer>,
    /// Servers that a project's settings name, with the project's directory. `.mcp.json` is read besides, for each session's own.
    pub project: Option<(PathBuf, Vec<McpServer>)>,
    /// What was approved; `None`: nothing of a project is started.
    pub approvals: Option<Approvals>,
    /// As in [`crate::NativeConfig::shim`].
    pub shim: Option<PathBuf>,
}

/// The servers of a process.
pub struct McpHub {
    config: McpConfig,
    own: Vec<Arc<Keeper<Server>>>,
    projects: Mutex<HashMap<PathBuf, Project>>,
}

/// What servers offer, and news of those that do not, as data of `mcp_server` events.
pub(crate) struct Listed {
    pub(crate) tools: Vec<McpTool>,
    pub(crate) news: Vec<Value>,
}

impl std::fmt::Debug for McpHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHub").finish_non_exhaustive()
    }
}

/// What one directory names.
#[derive(Default)]
struct Project {
    stamp: Option<(SystemTime, u64)>,
    servers: Vec<Arc<Keeper<Server>>>,
    wrong: Vec<String>,
}

/// A server and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpState {
    /// Its name.
    pub name: String,
    /// How it is reached, on one line.
    pub line: String,
    /// The project that names it; `None`: this machine's owner does.
    pub project: Option<PathBuf>,
    /// Where it stands.
    pub state: Standing,
    /// Tools that it listed last.
    pub tools: Vec<String>,
}

/// Where a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Has to be approved first.
    Unapproved,
    /// Not needed yet.
    Idle,
    /// Being started.
    Starting,
    /// Connected.
    Ready,
    /// Not available; one line why.
    Failed(String),
}

impl Standing {
    /// One word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Unapproved => "unapproved",
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed(_) => "failed",
        }
    }
}

/// A server that a session may use, or may not yet.
struct Found {
    keeper: Arc<Keeper<Server>>,
    project: Option<PathBuf>,
    approved: bool,
}

impl McpHub {
    /// Starts nothing.
    pub fn new(config: McpConfig) -> Self {
        let own = config.servers.iter().map(|server| keeper(server.clone(), &config)).collect();
        Self { config, own, projects: Mutex::default() }
    }

    /// The tools that a session in `cwd` has; the servers are started, and waited for a while.
    pub(crate) async fn tools(&self, cwd: &Path) -> Listed {
        let found = self.found(cwd).await;
        let started = found.iter().filter(|found| found.approved).map(|found| {
            let keeper = Arc::clone(&found.keeper);
            // A start that was waited for before is not waited for again.
            let waited = if let Phase::Starting(since) = keeper.phase() { since.elapsed() } else { Duration::ZERO };
            let limit = LIST_WAIT.saturating_sub(waited);
            tokio::spawn(async move { tokio::time::timeout(limit, keeper.get()).await.map(|got| got.map(drop)) })
        });
        // Side by side; none outlives its time.
        for start in started.collect::<Vec<_>>() {
            let _ = start.await;
        }
        let mut tools: Vec<McpTool> = Vec::new();
        for one in found.iter().filter(|found| found.approved) {
            tools.extend(one.keeper.kept().tools().iter().flat_map(|tools| tools.iter().cloned()));
        }
        Listed { tools, news: found.iter().map(state).filter_map(|state| news(&state)).collect() }
    }

    /// Starts every server of a session in `cwd` that may be started, and waits for each as long as its start may take.
    pub async fn check(&self, cwd: &Path) -> Vec<McpState> {
        let found = self.found(cwd).await;
        for one in found.iter().filter(|found| found.approved) {
            let _ = one.keeper.get().await;
        }
        found.iter().map(state).collect()
    }

    /// The servers of a session in `cwd`, as they are now. Starts nothing.
    pub async fn states(&self, cwd: &Path) -> Vec<McpState> {
        self.found(cwd).await.iter().map(state).collect()
    }

    /// What is wrong with the project's own file, a line each.
    pub fn wrong(&self, cwd: &Path) -> Vec<String> {
        let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.get(cwd).map(|project| project.wrong.clone()).unwrap_or_default()
    }

    /// Whether the tool only looks, as this machine's owner says; a project's word or the server's own does not count.
    pub(crate) fn only_looks(&self, name: &str) -> bool {
        let own = self.own.iter().map(|keeper| &keeper.kept().config);
        let own = own.filter(|config| server_of(name) == Some(&config.name));
        own.flat_map(|config| config.read_only.iter().map(|own| tool::name(&config.name, own))).any(|tool| tool == name)
    }

    /// Calls a tool by its full name. Always answers.
    pub(crate) async fn call(&self, cwd: &Path, name: &str, input: Map<String, Value>, caller: Caller) -> McpAnswer {
        match self.tool(cwd, name, &caller).await {
            Ok((keeper, live, own)) => keeper.kept().call(&live, &own, input, caller).await,
            Err(text) => McpAnswer { text, images: Vec::new(), error: true },
        }
    }

    async fn tool(
        &self,
        cwd: &Path,
        name: &str,
        caller: &Caller,
    ) -> Result<(Arc<Keeper<Server>>, Arc<server::Connected>, String), String> {
        let found = self.found(cwd).await;
        let wanted = server_of(name).unwrap_or_default();
        let Some(one) = found.iter().find(|found| found.keeper.kept().config.name == wanted) else {
            let names: Vec<&str> = found.iter().map(|found| found.keeper.kept().config.name.as_str()).collect();
            return Err(format!("there is no MCP server `{}`; there are {}", config::shown(wanted), names.join(", ")));
        };
        if !one.approved {
            return Err(unapproved(wanted));
        }
        let live = tokio::select! {
            biased;
            () = caller.cancel.cancelled() => return Err(crate::tools::CANCELLED.to_owned()),
            live = one.keeper.get() => live?,
        };
        let tools = one.keeper.kept().tools().unwrap_or_default();
        match tools.iter().find(|tool| tool.name == name) {
            Some(tool) => Ok((Arc::clone(&one.keeper), live, tool.own.clone())),
            None => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(format!("there is no tool `{}`; the server has {has}", config::shown(name)))
            }
        }
    }

    /// The owner's servers first: a project cannot take the name of one of them.
    async fn found(&self, cwd: &Path) -> Vec<Found> {
        let mut found: Vec<Found> =
            self.own.iter().map(|keeper| Found { keeper: Arc::clone(keeper), project: None, approved: true }).collect();
        for keeper in self.of_project(cwd).await {
            let config = &keeper.kept().config;
            if found.iter().any(|found| found.keeper.kept().config.name == config.name) {
                continue;
            }
            let approved = self.config.approvals.as_ref().is_some_and(|approvals| approvals.has(cwd, config));
            found.push(Found { keeper, project: Some(cwd.to_owned()), approved });
        }
        found
    }

    /// What the project names now. A server whose definition changed is another one.
    async fn of_project(&self, cwd: &Path) -> Vec<Arc<Keeper<Server>>> {
        let stamp = stamp(&cwd.join(PROJECT_FILE));
        {
            let projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = projects.get(cwd).filter(|known| known.stamp == stamp) {
                return known.servers.clone();
            }
        }
        let dir = cwd.to_owned();
        let (mut named, wrong) =
            tokio::task::spawn_blocking(move || read_project(&dir)).await.unwrap_or_else(|_| (Vec::new(), Vec::new()));
        if let Some((_, settings)) = self.config.project.as_ref().filter(|(dir, _)| dir == cwd) {
            named.retain(|server| settings.iter().all(|other| other.name != server.name));
            named.extend(settings.iter().cloned());
        }
        for line in &wrong {
            tracing::warn!("{line}");
        }
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= PROJECTS && !projects.contains_key(cwd) {
            projects.retain(|_, known| known.servers.iter().any(|keeper| matches!(keeper.phase(), Phase::Up(_))));
        }
        let old = projects.remove(cwd).unwrap_or_default().servers;
        let servers: Vec<Arc<Keeper<Server>>> = named
            .into_iter()
            .map(|server| match old.iter().find(|keeper| keeper.kept().config == server) {
                Some(keeper) => Arc::clone(keeper),
                None => keeper(server, &self.config),
            })
            .collect();
        projects.insert(cwd.to_owned(), Project { stamp, servers: servers.clone(), wrong });
        servers
    }
}

/// What a model, and a person, is told of a server that waits for its approval.
pub(crate) fn unapproved(name: &str) -> String {
    format!(
        "the MCP server `{name}` comes from the project and was not approved; a person can do that with \
         `triplane mcp approve {name}` in the project's directory"
    )
}

fn keeper(server: McpServer, config: &McpConfig) -> Arc<Keeper<Server>> {
    Arc::new(Keeper::new(Server::new(server, config.shim.clone())))
}

/// What a person should know of a server that offers nothing.
fn news(state: &McpState) -> Option<Value> {
    let message = match &state.state {
        Standing::Unapproved => unapproved(&state.name),
        Standing::Failed(why) => tool::bounded(why, 1000),
        Standing::Starting => "it is still being started; its tools come with a later turn".to_owned(),
        Standing::Idle | Standing::Ready => return None,
    };
    Some(serde_json::json!({ "server": state.name, "state": state.state.word(), "message": message }))
}

fn state(found: &Found) -> McpState {
    let server = found.keeper.kept();
    let state = match found.keeper.phase() {
        _ if !found.approved => Standing::Unapproved,
        Phase::Up(_) => Standing::Ready,
        Phase::Starting(_) => Standing::Starting,
        Phase::Down { why: Some(why), .. } => Standing::Failed(why),
        Phase::Down { why: None, .. } => Standing::Idle,
    };
    let tools = server.tools().unwrap_or_default().iter().map(|tool| tool.name.clone()).collect();
    McpState {
        name: server.config.name.clone(),
        line: server.config.line(),
        project: found.project.clone(),
        state,
        tools,
    }
}

fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(file).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}
