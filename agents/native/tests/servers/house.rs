//! A plane with the agent, its servers, and sessions in directories of their own.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use triplane_core::{
    Plane, PlaneConfig,
    feed::Subscription,
    limits::Limits,
    plane::{Answer, Choice, Created, Hold, HoldPolicy, Prompt, WhenBusy},
    store::Durability,
};
use triplane_native::{
    Extensions, NativeAgent, NativeConfig,
    lsp::{LspConfig, LspHub, LspServer},
    mcp::{Approvals, McpConfig, McpHub, McpServer, Reach},
};
use triplane_protocol::{AgentEvent, Part, SessionId, event::SettingsPatch, ir::Mode};

/// Nothing here takes longer on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

/// A test: how it is run.
pub(crate) type Case = fn() -> Pin<Box<dyn Future<Output = ()>>>;

pub(crate) fn on_a_runtime(case: Case) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, case()).await.expect("the case hangs") });
}

/// An argument that marks the processes of one case.
pub(crate) fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("mark-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Processes that have `mark` among their arguments and are no guards.
pub(crate) fn living(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let ours = |line: &Vec<u8>| {
        let args: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        args.contains(&mark.as_bytes()) && !args.contains(&triplane_native::shim::ARG.as_bytes())
    };
    lines.filter(ours).count()
}

/// Waits until so many live.
pub(crate) async fn until_living(mark: &str, count: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while living(mark) != count {
        assert!(Instant::now() < end, "{} live, not {count}", living(mark));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn me() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// A server of tools that is this program.
pub(crate) fn fake_mcp(name: &str, kind: &str, mark: &str) -> McpServer {
    let args = vec![super::fake::MCP.to_owned(), kind.to_owned(), mark.to_owned()];
    let reach = Reach::Stdio { command: me(), args, env: BTreeMap::new(), cwd: std::env::temp_dir() };
    McpServer::new(name, reach).unwrap()
}

/// A language server that is this program, for files `.x`.
pub(crate) fn fake_lsp(kind: &str, mark: &str) -> LspServer {
    let mut server = LspServer::new("fake", &me(), &[super::fake::LSP, kind, mark], &["x"]);
    server.diagnostics_wait = Duration::from_secs(2);
    server
}

pub(crate) struct House {
    pub(crate) root: tempfile::TempDir,
    pub(crate) plane: Plane,
    pub(crate) hub: Arc<McpHub>,
    hold: Hold,
}

pub(crate) struct Session {
    plane: Plane,
    pub(crate) id: SessionId,
    events: Subscription,
}

/// A tool's result.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) error: bool,
    pub(crate) parts: usize,
    pub(crate) ms: u64,
}

impl House {
    pub(crate) fn new(mcp: Vec<McpServer>, lsp: Vec<LspServer>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for name in ["work", "other", "home"] {
            std::fs::create_dir(real.join(name)).unwrap();
        }
        let shim = Some(PathBuf::from(me()));
        let approvals = Some(Approvals::of(&real.join("home")));
        let hub = Arc::new(McpHub::new(McpConfig { servers: mcp, project: None, approvals, shim: shim.clone() }));
        let lsp = Arc::new(LspHub::new(LspConfig { servers: lsp, shim: shim.clone(), hidden: Vec::new() }));
        let extensions = Extensions::default().with_mcp(Arc::clone(&hub)).with_lsp(lsp);
        let config = PlaneConfig {
            cwd: real.join("work"),
            session_dir: real.join("sessions"),
            home: real.join("home"),
            durability: Durability::Flush,
            agent: None,
            defaults: SettingsPatch::default(),
            limits: Limits::default(),
            overlay: true,
            abort_on_disconnect: false,
        };
        let agent = NativeAgent::new(NativeConfig { shim, extensions, ..NativeConfig::default() });
        let plane = Plane::open(config, vec![Arc::new(agent)]).unwrap();
        let hold = plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
        Self { root, plane, hub, hold }
    }

    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// Ends all of it; the sessions have to be gone.
    pub(crate) async fn close(self) {
        let Self { root, plane, hub, hold } = self;
        plane.shutdown(Duration::ZERO).await;
        drop((hub, hold, plane, root));
    }

    pub(crate) async fn session(&self, mode: Mode) -> Session {
        self.session_in(&self.dir("work"), mode).await
    }

    pub(crate) async fn session_in(&self, cwd: &Path, mode: Mode) -> Session {
        let settings = SettingsPatch { mode: Some(mode), ..SettingsPatch::default() };
        let cwd = Some(cwd.to_str().unwrap().to_owned());
        let created = Created { settings, cwd: cwd.map(Into::into), ..Created::default() };
        let id = self.plane.create(&self.hold, created).await.unwrap().row.id;
        Session { plane: self.plane.clone(), events: self.plane.subscribe(&id).await.unwrap(), id }
    }
}

impl Session {
    pub(crate) async fn start(&self, script: &str) {
        self.plane.prompt(&self.id, Prompt::text(script, WhenBusy::Refuse)).await.unwrap();
    }

    /// Everything that is said until `last` fits.
    pub(crate) async fn until(&mut self, last: impl Fn(&AgentEvent) -> bool) -> Vec<AgentEvent> {
        let mut all = Vec::new();
        loop {
            for entry in self.events.next(1).await.entries {
                all.push(entry.event.clone());
                if last(&entry.event) {
                    return all;
                }
            }
        }
    }

    pub(crate) async fn idle(&mut self) -> Vec<AgentEvent> {
        self.until(|event| matches!(event, AgentEvent::Status { busy: false, .. })).await
    }

    /// Runs a script to its end.
    pub(crate) async fn run(&mut self, script: &str) -> Vec<AgentEvent> {
        self.start(script).await;
        self.idle().await
    }

    /// Runs one call to its end.
    pub(crate) async fn call(&mut self, tool: &str, input: serde_json::Value) -> Told {
        let events = self.run(&format!("/tool {tool} {input}")).await;
        results(&events).pop().unwrap()
    }

    /// Answers the request that comes next.
    pub(crate) async fn answer(&mut self, option: &str) -> triplane_protocol::event::PermissionRequest {
        let events = self.until(|event| matches!(event, AgentEvent::PermissionRequest(_))).await;
        let Some(AgentEvent::PermissionRequest(request)) = events.last() else { unreachable!() };
        let answer = Answer { choice: Choice::Option(option.to_owned()), reason: None, by: None };
        self.plane.answer(&self.id, &request.request_id, answer).await.unwrap();
        request.clone()
    }

    pub(crate) async fn cancel(&self) {
        self.plane.cancel(&self.id).await.unwrap();
    }
}

pub(crate) fn results(events: &[AgentEvent]) -> Vec<Told> {
    let told = |event: &AgentEvent| {
        let AgentEvent::ToolCallEnd { output, error, duration_ms, .. } = event else { return None };
        let text = output.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n");
        Some(Told { text, error: *error, parts: output.len(), ms: *duration_ms })
    };
    events.iter().filter_map(told).collect()
}
