//! The handle that every transport calls: cheap to clone, one method a plane call.
//!
//! - `lifecycle`: create, attach, detach, shutdown. `holds`: who keeps what live, and what goes first.
//! - `runs`: prompt, cancel, permissions, settings, tasks. `reads`: list, get, history, subscriptions.
//! - `upkeep`: clear, compact, undo, rewind, restore (`files`). `copies`: fork, resume, import, export, delete.
//! - `foreign`: sessions in the stores of other programs.
//! - `meta`: what people say of sessions, and projects; rows of the list with all of it.
//! - `config`: the config of agents.
//! - `types`: what the calls take and give.

mod config;
mod copies;
mod files;
mod foreign;
mod holds;
mod lifecycle;
mod meta;
mod reads;
mod runs;
mod types;
mod upkeep;

pub use crate::session::input::ClearWhen;
pub use config::ConfigCount;
pub use copies::{Forked, Import, Written};
pub use files::{Restored, Skipped};
pub use meta::MetaRow;
pub use types::{
    Answer, Answered, Attach, Attached, Choice, Created, HistoryPage, Hold, HoldPolicy, ListPage, PlaneConfig, Prompt,
    Run, RunResult, SessionDetail, SessionRow, TaskInfo, WhenBusy,
};
pub use upkeep::{Compacted, Rewind, Rewound, Undone};

use crate::{
    PlaneError,
    agent::{Agent, Descriptor, NoAgent, Settings},
    feed::{Log, NodeFeed},
    node::Node,
    overlay::Overlay,
    permission::RuleBook,
    session::{Live, Services},
    store::SessionDir,
};
use holds::Holds;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_protocol::{SessionId, event::SettingsPatch, ir::Mode};

/// All that one process serves.
#[derive(Clone)]
pub struct Plane {
    inner: Arc<Inner>,
}

struct Inner {
    config: PlaneConfig,
    node: Node,
    agents: Vec<Arc<dyn Agent>>,
    services: Arc<Services>,
    rules: RuleBook,
    holds: Holds,
    /// One lock an id, so that create, attach and detach of one session go one after another.
    gates: Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>,
    logs: Mutex<HashMap<SessionId, Weak<Log>>>,
    uses: AtomicU64,
    /// The task that watches for takeovers, started with the first live session.
    watching: std::sync::Once,
    closing: CancellationToken,
    closed: tokio::sync::Mutex<bool>,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane").field("node", &self.inner.node.id).finish_non_exhaustive()
    }
}

impl Plane {
    /// Opens the plane. Agents in order of preference: the first that can prompt is the default unless the config names one.
    /// Errors: a directory that cannot be made or is not ours to write; `UnknownAgent` for a default that is not there.
    pub fn open(config: PlaneConfig, agents: Vec<Arc<dyn Agent>>) -> Result<Self, PlaneError> {
        let node = Node::of(&config.home)?;
        let dir = SessionDir::open(&config.session_dir, config.durability)?;
        let (dir, overlay) = match config.overlay {
            true => {
                let overlay = Overlay::new(&config.home, dir.root(), config.durability);
                (dir.with_cache(Arc::new(overlay.clone())), overlay)
            }
            false => (dir, Overlay::off()),
        };
        let dir = Arc::new(dir);
        let services = Services {
            dir,
            overlay,
            feed: Arc::new(NodeFeed::new()),
            limits: config.limits.clone(),
            answerable: AtomicBool::new(false),
            tracker: TaskTracker::new(),
            stats: Arc::default(),
        };
        let inner = Inner {
            config,
            node,
            agents,
            services: Arc::new(services),
            rules: RuleBook::default(),
            holds: Holds::default(),
            gates: Mutex::default(),
            logs: Mutex::default(),
            uses: AtomicU64::new(1),
            watching: std::sync::Once::new(),
            closing: CancellationToken::new(),
            closed: tokio::sync::Mutex::new(false),
        };
        let plane = Self { inner: Arc::new(inner) };
        if let Some(name) = &plane.inner.config.agent {
            plane.agent(Some(name))?;
        }
        Ok(plane)
    }

    /// The config that it was opened with.
    pub fn config(&self) -> &PlaneConfig {
        &self.inner.config
    }

    /// This machine's identity.
    pub fn node(&self) -> &Node {
        &self.inner.node
    }

    /// All agents, in order of preference.
    pub fn agents(&self) -> Vec<Descriptor> {
        self.inner.agents.iter().map(|agent| agent.descriptor()).collect()
    }

    /// Resolves when shutdown has begun; transports end their streams then.
    pub async fn closing(&self) {
        self.inner.closing.cancelled().await;
    }

    /// The agent of this name, or the default one; a plane without any has [`NoAgent`]. Errors: `UnknownAgent`.
    fn agent(&self, name: Option<&str>) -> Result<Arc<dyn Agent>, PlaneError> {
        let agents = &self.inner.agents;
        match name.or(self.inner.config.agent.as_deref()) {
            Some(NoAgent::NAME) => Ok(Arc::new(NoAgent)),
            Some(name) => agents.iter().find(|agent| agent.id() == name).cloned().ok_or_else(|| {
                let known: Vec<String> = agents.iter().map(|agent| agent.id()).collect();
                PlaneError::UnknownAgent(format!("no agent `{name}`; there is {}", known.join(", ")))
            }),
            None => {
                let prompts = |agent: &&Arc<dyn Agent>| agent.descriptor().can.prompt;
                Ok(agents.iter().find(prompts).cloned().unwrap_or_else(|| Arc::new(NoAgent)))
            }
        }
    }

    /// Settings of a session: what was asked for, else the plane's defaults, else the agent's.
    fn settings(&self, agent: &dyn Agent, asked: &SettingsPatch) -> Settings {
        let defaults = &self.inner.config.defaults;
        let model = asked.model.clone().or_else(|| defaults.model.clone()).unwrap_or_else(|| agent.default_model());
        Settings {
            model,
            effort: asked.effort.or(defaults.effort),
            mode: asked.mode.or(defaults.mode).unwrap_or(Mode::Default),
        }
    }

    /// Checks settings before anything is changed. Errors: `InvalidParams` naming the field.
    fn check_settings(&self, agent: &dyn Agent, patch: &SettingsPatch) -> Result<(), PlaneError> {
        if let Some(model) = &patch.model {
            agent.check_model(model).map_err(|why| PlaneError::InvalidParams(format!("model: {why}")))?;
        }
        let limit = self.inner.services.limits.title_bytes;
        match &patch.title {
            Some(title) if title.len() > limit => {
                Err(PlaneError::InvalidParams(format!("title: has at most {limit} bytes")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The live session of this id; marks it as used. Errors: `NotFound` with the hint to attach it.
    fn live(&self, id: &SessionId) -> Result<Arc<Live>, PlaneError> {
        let live = self.peek(id).ok_or_else(|| PlaneError::not_live(id))?;
        live.used.store(self.inner.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        live.touch();
        Ok(live)
    }

    /// The live session of this id, without using it.
    fn peek(&self, id: &SessionId) -> Option<Arc<Live>> {
        self.inner.services.feed.map().sessions.get(id).cloned()
    }

    /// Whether `id` is in the live map.
    pub fn is_live(&self, id: &SessionId) -> bool {
        self.peek(id).is_some()
    }

    fn overlay(&self) -> &Overlay {
        &self.inner.services.overlay
    }

    fn dir(&self) -> &Arc<SessionDir> {
        &self.inner.services.dir
    }

    /// The log of a session, live or not; the same one for all who ask while somebody has it.
    async fn log(&self, id: &SessionId, fresh: bool) -> Result<Arc<Log>, PlaneError> {
        let known = |logs: &HashMap<SessionId, Weak<Log>>| logs.get(id).and_then(Weak::upgrade);
        if let Some(log) = known(&self.logs()) {
            return Ok(log);
        }
        let state = if fresh { None } else { self.dir().spool_state(id).await? };
        let (next_seq, epoch) = state.map_or((1, String::new()), |state| (state.next_seq, state.epoch));
        let mut logs = self.logs();
        // Somebody may have been faster while the disk was asked.
        if let Some(log) = known(&logs) {
            return Ok(log);
        }
        let limits = &self.inner.services.limits;
        let (caps, stats) = ((limits.ring_events, limits.ring_bytes), self.inner.services.stats.clone());
        let log = Log::new(self.dir().clone(), id.clone(), next_seq, &epoch, caps, stats);
        let log = Arc::new(log);
        if logs.len() >= 256 && logs.len().is_power_of_two() {
            logs.retain(|_, log| log.strong_count() > 0);
        }
        logs.insert(id.clone(), Arc::downgrade(&log));
        Ok(log)
    }

    fn logs(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Weak<Log>>> {
        self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
