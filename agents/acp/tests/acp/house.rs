//! A plane with the played agent, and a reader of its events.

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};
use triplane_acp::{AcpAgent, AcpConfig};
use triplane_core::{
    Plane, PlaneConfig,
    feed::Subscription,
    limits::Limits,
    plane::{Answer, Choice, Created, Hold, HoldPolicy, Prompt, Run, RunResult, WhenBusy},
    store::Durability,
};
use triplane_native::shim;
use triplane_protocol::{
    AgentEvent, Message, SessionId,
    event::{PermissionRequest, SettingsPatch},
    ir::Mode,
};

const DEADLINE: Duration = Duration::from_secs(30);

/// Everything that is awaited is awaited under a deadline.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(DEADLINE, what).await.expect("hangs")
}

pub(crate) struct House {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
    pub(crate) plane: Plane,
    pub(crate) hold: Hold,
    pub(crate) id: SessionId,
    events: Subscription,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(&[], SettingsPatch::default()).await
    }

    pub(crate) async fn with(env: &[(&str, &str)], settings: SettingsPatch) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let plane = plane(&dir, &env);
        let hold = plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
        let id = soon(plane.create(&hold, Created { settings, ..Created::default() })).await.unwrap().row.id;
        let events = soon(plane.subscribe(&id)).await.unwrap();
        Self { dir, env, plane, hold, id, events }
    }

    /// Ends the plane and opens another on the same directories.
    pub(crate) async fn restart(&mut self) {
        soon(self.plane.shutdown(Duration::ZERO)).await;
        self.plane = plane(&self.dir, &self.env);
        self.attach().await;
    }

    pub(crate) async fn attach(&mut self) {
        self.hold = self.plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
        soon(self.plane.attach(&self.hold, &self.id)).await.unwrap();
        self.events = soon(self.plane.subscribe(&self.id)).await.unwrap();
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    pub(crate) async fn begin(&self, text: &str) -> Run {
        soon(self.plane.prompt(&self.id, Prompt::text(text, WhenBusy::Refuse))).await.unwrap()
    }

    /// A whole run with its events.
    pub(crate) async fn run(&mut self, text: &str) -> (RunResult, Vec<AgentEvent>) {
        let run = self.begin(text).await;
        self.end(run).await
    }

    pub(crate) async fn end(&mut self, run: Run) -> (RunResult, Vec<AgentEvent>) {
        let result = soon(run.finished()).await.unwrap();
        let seen = self.until(|event| matches!(event, AgentEvent::Status { busy: false, .. })).await;
        (result, seen)
    }

    /// Events up to one that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&AgentEvent) -> bool) -> Vec<AgentEvent> {
        let mut seen = Vec::new();
        loop {
            for entry in soon(self.events.next(1)).await.entries {
                seen.push(entry.event.clone());
                if fits(&entry.event) {
                    return seen;
                }
            }
        }
    }

    /// Waits for a permission request.
    pub(crate) async fn asked(&mut self) -> PermissionRequest {
        let seen = self.until(|event| matches!(event, AgentEvent::PermissionRequest(_))).await;
        let Some(AgentEvent::PermissionRequest(request)) = seen.last() else { panic!("no request") };
        request.clone()
    }

    pub(crate) async fn answer(&self, request: &PermissionRequest, option: &str) {
        let answer = Answer { choice: Choice::Option(option.to_owned()), reason: None, by: None };
        soon(self.plane.answer(&self.id, &request.request_id, answer)).await.unwrap();
    }

    pub(crate) async fn messages(&self) -> Vec<Arc<Message>> {
        soon(self.plane.messages(&self.id)).await.unwrap()
    }
}

fn plane(dir: &tempfile::TempDir, env: &[(String, String)]) -> Plane {
    let root = dir.path().canonicalize().unwrap();
    let this = std::env::current_exe().unwrap();
    let agent = AcpAgent::new(AcpConfig {
        id: "puppet".into(),
        name: "Puppet".into(),
        command: vec![this.to_string_lossy().into_owned(), "puppet".into()],
        env: env.to_vec(),
        install: None,
        path: None,
        prefix: vec![this.into(), shim::ARG.into(), shim::RELAY.into()],
        state_dir: root.join("home").join("acp"),
        idle: Some(Duration::from_secs(60)),
    });
    let config = PlaneConfig {
        cwd: root.join("work"),
        session_dir: root.join("sessions"),
        home: root.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch::default(),
        limits: Limits::default(),
        overlay: true,
        abort_on_disconnect: false,
    };
    Plane::open(config, vec![Arc::new(agent)]).unwrap()
}

pub(crate) fn mode(mode: Mode) -> SettingsPatch {
    SettingsPatch { mode: Some(mode), ..SettingsPatch::default() }
}

pub(crate) fn kinds(events: &[AgentEvent]) -> String {
    let told = events.iter().map(AgentEvent::kind).filter(|kind| !matches!(*kind, "status" | "user_message" | "final"));
    told.collect::<Vec<_>>().join(" ")
}
