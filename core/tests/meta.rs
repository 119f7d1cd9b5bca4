//! What people say of sessions, as the plane answers it: titles, pins, projects, a preferred model; and sessions that were created
//! and never flushed. Clauses: S06, S14, S16, S17, S18, S28, C12, C13; faults: SL-12, SL-13.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use async_trait::async_trait;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use triplane_core::{
    Plane, PlaneConfig, PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Turn},
    limits::Limits,
    overlay::{Meta, MetaPatch},
    plane::{Attach, Created, Hold, HoldPolicy, MetaRow, Prompt, SessionRow, WhenBusy},
    session::RunSink,
    store::{Durability, LockState},
};
use triplane_protocol::{
    SessionId, Stop, Usage,
    event::{CloseReason, SettingsPatch},
    ir::{Effort, Mode},
};

const DEADLINE: Duration = Duration::from_secs(30);

/// An agent that says nothing. Models are `m/…`.
struct Mute(&'static str);

#[async_trait]
impl Agent for Mute {
    fn descriptor(&self) -> Descriptor {
        let can = Capabilities { prompt: true, read: true, write: true, delete: true, config: false };
        let (id, name) = (self.0.into(), self.0.into());
        Descriptor { id, name, version: None, installed: true, can, models: Vec::new(), modes: Vec::new() }
    }

    fn default_model(&self) -> String {
        "m/default".into()
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        if model.starts_with("m/") { Ok(()) } else { Err(format!("no model `{model}`")) }
    }

    async fn open(&self, _: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        Ok(Box::new(MuteLive))
    }
}

struct MuteLive;

#[async_trait]
impl LiveAgent for MuteLive {
    async fn run(&mut self, turn: Turn, _: RunSink, _: CancellationToken) -> RunOutcome {
        let reply = turn.settings.model;
        RunOutcome { stop: Stop::Completed, reply, usage: Usage::default(), turns: 1, error: None }
    }

    async fn summarize(&mut self, _: Turn, _: CancellationToken) -> Result<(String, Usage), RunError> {
        Ok(("nothing was said".into(), Usage::default()))
    }
}

/// A home and a session directory, and how planes are opened in them.
struct Place {
    _temp: tempfile::TempDir,
    root: PathBuf,
}

struct House {
    plane: Plane,
    hold: Hold,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("work")).unwrap();
        std::fs::create_dir(root.join("other")).unwrap();
        Self { _temp: temp, root }
    }

    fn open(&self) -> House {
        self.open_with(true)
    }

    fn open_with(&self, overlay: bool) -> House {
        let config = PlaneConfig {
            cwd: self.root.join("work"),
            session_dir: self.root.join("sessions"),
            home: self.root.join("home"),
            durability: Durability::Fsync,
            agent: None,
            defaults: SettingsPatch::default(),
            limits: Limits::default(),
            overlay,
            abort_on_disconnect: false,
        };
        let plane = Plane::open(config, vec![Arc::new(Mute("mute")), Arc::new(Mute("other"))]).unwrap();
        let hold = plane.hold(HoldPolicy { name: "test", ..HoldPolicy::default() });
        House { plane, hold }
    }
}

impl House {
    async fn create(&self) -> SessionId {
        self.plane.create(&self.hold, Created::default()).await.unwrap().row.id
    }

    /// The model that answered.
    async fn prompt(&self, id: &SessionId) -> String {
        let run = self.plane.prompt(id, Prompt::text("hi", WhenBusy::Refuse)).await.unwrap();
        tokio::time::timeout(DEADLINE, run.finished()).await.expect("the run hangs").unwrap().reply
    }

    async fn detach(&self, id: &SessionId) {
        assert!(self.plane.detach(id, CloseReason::Explicit).await.unwrap());
    }

    async fn attach(&self, id: &SessionId) -> SessionRow {
        self.plane.attach(&self.hold, id).await.unwrap().row
    }

    async fn list(&self) -> Vec<SessionRow> {
        self.plane.list(None, None).await.unwrap().rows
    }

    async fn ids(&self) -> Vec<SessionId> {
        self.list().await.into_iter().map(|row| row.id).collect()
    }

    async fn row(&self, id: &SessionId) -> MetaRow {
        let rows = self.plane.rows(true).await.unwrap();
        rows.into_iter().find(|row| row.row.id == *id).expect("it is in the list")
    }

    async fn close(self) {
        tokio::time::timeout(DEADLINE, self.plane.shutdown(Duration::ZERO)).await.expect("the shutdown hangs");
    }
}

fn titled(title: &str) -> MetaPatch {
    MetaPatch { title: Some(Some(title.into())), ..MetaPatch::default() }
}

fn preferring(model: Option<&str>) -> MetaPatch {
    MetaPatch { model: Some(model.map(str::to_owned)), ..MetaPatch::default() }
}

#[tokio::test]
async fn sl13_s14_what_create_was_given_outlives_the_process_until_the_first_prompt() {
    let place = Place::new();
    let house = place.open();
    let settings = SettingsPatch {
        model: Some("m/chosen".into()),
        effort: Some(Effort::High),
        mode: Some(Mode::Plan),
        title: Some("A title".into()),
    };
    let created = Created {
        cwd: Some(place.root.join("other")),
        agent: Some("other".into()),
        settings,
        fallbacks: vec!["m/second".into()],
        label: Some("label".into()),
        parent: None,
        source: Some("test".into()),
    };
    let before = house.plane.create(&house.hold, created).await.unwrap();
    let id = before.row.id.clone();
    house.close().await;

    let house = place.open();
    let stored = SessionRow { live: false, ..before.row.clone() };
    assert_eq!(house.list().await, std::slice::from_ref(&stored));
    assert_eq!(house.row(&id).await.row, stored);
    let detail = house.plane.get(&id).await.unwrap();
    assert_eq!((detail.row, detail.mode, detail.effort), (stored, Mode::Plan, Some(Effort::High)));
    assert_eq!(house.attach(&id).await, before.row);
    house.detach(&id).await;
    assert!(house.plane.get(&id).await.unwrap().row.pending, "to attach is not to write");
    house.attach(&id).await;
    assert_eq!(house.prompt(&id).await, "m/chosen");
    house.close().await;

    let house = place.open();
    let after = house.plane.get(&id).await.unwrap();
    let written = SessionRow { live: false, pending: false, updated: after.row.updated, ..before.row };
    assert_eq!((after.row, after.mode, after.effort), (written, Mode::Plan, Some(Effort::High)));
    let transcript = std::fs::read_to_string(after.path).unwrap();
    let header = transcript.lines().next().unwrap();
    assert!(header.contains("\"label\":\"label\"") && header.contains("\"source\":\"test\""), "{header}");
    let db = rusqlite::Connection::open(place.root.join("home/plane.db")).unwrap();
    let left: i64 = db.query_row("SELECT count(*) FROM pending", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "the transcript says it now");
    house.close().await;
}

#[tokio::test]
async fn s16_deleting_takes_everything_that_was_kept_of_it() {
    let place = Place::new();
    let house = place.open();
    let (live, stored) = (house.create().await, house.create().await);
    for id in [&live, &stored] {
        house.plane.patch_meta(id, None, titled("t")).await.unwrap();
    }
    house.detach(&stored).await;
    for id in [&live, &stored] {
        house.plane.delete(id, None).await.unwrap();
    }
    assert_eq!(house.plane.rows(true).await.unwrap(), []);
    house.close().await;
    let db = rusqlite::Connection::open(place.root.join("home/plane.db")).unwrap();
    for table in ["metas", "members", "spans", "pending"] {
        let left: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[tokio::test]
async fn s17_the_overlays_title_wins_everywhere_and_null_gives_the_transcripts_back() {
    let place = Place::new();
    let (house, neighbour) = (place.open(), place.open());
    let id = house.create().await;
    let patch = SettingsPatch { title: Some("of the transcript".into()), ..SettingsPatch::default() };
    house.plane.set(&id, patch).await.unwrap();
    house.prompt(&id).await;
    let expect = async |title: &str| {
        for (house, whose) in [(&house, "its own plane"), (&neighbour, "another")] {
            let titles = [
                house.list().await.remove(0).title,
                house.plane.get(&id).await.unwrap().row.title,
                house.row(&id).await.row.title,
                house.plane.export(&id, None).await.unwrap().title,
            ];
            assert!(titles.iter().all(|shown| shown.as_deref() == Some(title)), "{whose}: {titles:?}, not {title}");
        }
    };
    expect("of the transcript").await;
    let patched = neighbour.plane.patch_meta(&id, None, titled("of the overlay")).await.unwrap();
    assert_eq!(patched.row.title.as_deref(), Some("of the overlay"));
    expect("of the overlay").await;
    house.detach(&id).await;
    expect("of the overlay").await;
    let cleared = MetaPatch { title: Some(None), ..MetaPatch::default() };
    house.plane.patch_meta(&id, None, cleared).await.unwrap();
    expect("of the transcript").await;
    for house in [house, neighbour] {
        house.close().await;
    }
}

#[tokio::test]
async fn sl12_a_patch_that_fails_names_the_field_and_changes_nothing() {
    let place = Place::new();
    let house = place.open();
    let id = house.create().await;
    let first = MetaPatch { pinned: Some(true), ..titled("before") };
    let before = house.plane.patch_meta(&id, None, first).await.unwrap();
    let bad = [
        (
            MetaPatch { title: Some(Some("x".repeat(10 << 20))), ..MetaPatch::default() },
            "title: has at most 4096 bytes",
        ),
        (MetaPatch { project_ids: Some(vec!["nope".into()]), ..titled("half") }, "projectIds: no project `nope`"),
        (
            MetaPatch { project_ids: Some(vec![String::new(); 257]), ..titled("half") },
            "projectIds: has at most 256 items",
        ),
        (MetaPatch { pinned: Some(false), ..preferring(Some("x/y")) }, "model: no model `x/y`"),
        (MetaPatch { pinned: Some(false), ..preferring(Some("")) }, "model: has 1 to 4096 bytes; null clears it"),
    ];
    for (patch, why) in bad {
        match house.plane.patch_meta(&id, None, patch).await {
            Err(PlaneError::InvalidParams(text)) => assert_eq!(text, why),
            other => panic!("{other:?}, not {why}"),
        }
    }
    assert_eq!(house.plane.meta_row(&id, None).await.unwrap(), before);
    let nobody = SessionId::parse("nobody").unwrap();
    let unknown = house.plane.patch_meta(&nobody, None, titled("t")).await;
    assert!(matches!(unknown, Err(PlaneError::NotFound { what: "session", .. })), "{unknown:?}");
    house.close().await;
}

#[tokio::test]
async fn s17_the_next_attach_takes_the_preferred_model_and_null_clears_it() {
    let place = Place::new();
    let house = place.open();
    let id = house.create().await;
    assert_eq!(house.prompt(&id).await, "m/default");
    house.plane.patch_meta(&id, None, preferring(Some("m/liked"))).await.unwrap();
    assert_eq!(house.prompt(&id).await, "m/default", "it is live");
    house.detach(&id).await;
    assert_eq!(house.plane.get(&id).await.unwrap().row.model.as_deref(), Some("m/liked"));
    assert_eq!(house.attach(&id).await.model.as_deref(), Some("m/liked"));
    assert_eq!(house.prompt(&id).await, "m/liked");
    house.detach(&id).await;
    let named = Attach { model: Some("m/named".into()), ..Attach::default() };
    let attached = house.plane.attach_with(&house.hold, &id, named).await.unwrap();
    assert_eq!(attached.session.row.model.as_deref(), Some("m/named"), "what attach names goes first");
    house.detach(&id).await;
    let cleared = house.plane.patch_meta(&id, None, preferring(None)).await.unwrap();
    assert_eq!(*cleared.meta, Meta::default());
    assert_eq!(house.attach(&id).await.model.as_deref(), Some("m/liked"), "the transcript's own");
    house.close().await;
}

#[tokio::test]
async fn s18_projects_come_and_go_and_leave_every_session() {
    let place = Place::new();
    let house = place.open();
    let (a, b) = (house.plane.create_project(" a ").await.unwrap(), house.plane.create_project("b").await.unwrap());
    assert_eq!(a.name, "a");
    assert_eq!(house.plane.rename_project(&b.id, "c").await.unwrap().name, "c");
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = house.create().await;
        let patch = MetaPatch { project_ids: Some(vec![a.id.clone(), b.id.clone()]), ..MetaPatch::default() };
        assert_eq!(
            house.plane.patch_meta(&id, None, patch).await.unwrap().meta.project_ids,
            [a.id.clone(), b.id.clone()]
        );
        ids.push(id);
    }
    house.plane.delete_project(&a.id).await.unwrap();
    for id in &ids {
        assert_eq!(house.row(id).await.meta.project_ids, std::slice::from_ref(&b.id));
    }
    assert_eq!(house.plane.projects().await.unwrap().len(), 1);
    let gone = [house.plane.delete_project(&a.id).await, house.plane.rename_project("nope", "x").await.map(drop)];
    for gone in gone {
        assert!(matches!(gone, Err(PlaneError::NotFound { what: "project", .. })), "{gone:?}");
    }
    for name in ["", "  ", &"x".repeat(5000)] {
        let refused = house.plane.create_project(name).await;
        assert!(matches!(&refused, Err(PlaneError::InvalidParams(text)) if text.starts_with("name: ")), "{refused:?}");
    }
    house.close().await;
}

#[tokio::test]
async fn c13_nothing_that_is_said_of_a_session_makes_it_the_newest() {
    let place = Place::new();
    let house = place.open();
    let (old, new) = (house.create().await, house.create().await);
    for id in [&old, &new] {
        house.prompt(id).await;
        house.detach(id).await;
    }
    let updated = house.row(&old).await.row.updated;
    house.plane.patch_meta(&old, None, MetaPatch { pinned: Some(true), ..preferring(Some("m/liked")) }).await.unwrap();
    house.attach(&old).await;
    house.detach(&old).await;
    assert_eq!(house.ids().await, [new, old.clone()]);
    assert_eq!(house.row(&old).await.row.updated, updated);
    house.close().await;
}

#[tokio::test]
async fn s06_rows_tell_spans_and_locks_of_other_processes_too() {
    let place = Place::new();
    let (house, neighbour) = (place.open(), place.open());
    let id = house.create().await;
    let row = house.row(&id).await;
    assert!(matches!(row.lock, Some(LockState::Held(_))), "{:?}", row.lock);
    assert!(matches!(row.spans.as_slice(), [span] if span.ended.is_none() && span.agent == "mute"), "{:?}", row.spans);
    let seen = neighbour.row(&id).await;
    assert!(matches!(&seen.lock, Some(LockState::Held(holder)) if holder.pid == std::process::id()), "{:?}", seen.lock);
    assert!(!seen.row.live && seen.row.pending);
    house.detach(&id).await;
    let row = house.row(&id).await;
    assert_eq!(row.lock, Some(LockState::Free));
    assert!(matches!(row.spans.as_slice(), [span] if span.ended >= Some(span.started)), "{:?}", row.spans);
    neighbour.attach(&id).await;
    neighbour.close().await;
    let spans = house.row(&id).await.spans;
    assert!(spans.len() == 2 && spans.iter().all(|span| span.ended.is_some()), "{spans:?}");
    assert_eq!(house.plane.rows(false).await.unwrap()[0].lock, None, "not asked for");
    house.close().await;
}

#[tokio::test]
async fn s28_without_an_overlay_reads_go_on_and_changes_are_invalid() {
    let broken = Place::new();
    std::fs::create_dir_all(broken.root.join("home/plane.db")).unwrap();
    for (place, overlay) in [(Place::new(), false), (broken, true)] {
        let house = place.open_with(overlay);
        let id = house.create().await;
        house.prompt(&id).await;
        house.detach(&id).await;
        assert_eq!(house.attach(&id).await.id, id);
        assert_eq!(house.row(&id).await.spans, []);
        assert_eq!(house.ids().await, std::slice::from_ref(&id));
        let refused = [
            house.plane.patch_meta(&id, None, titled("t")).await.map(drop),
            house.plane.projects().await.map(drop),
            house.plane.create_project("p").await.map(drop),
            house.plane.rename_project("p", "q").await.map(drop),
            house.plane.delete_project("p").await,
        ];
        for refused in refused {
            let text = refused.as_ref().unwrap_err().to_string();
            let invalid = matches!(refused, Err(PlaneError::Invalid(_)));
            assert!(invalid && text.starts_with("no overlay store: "), "{text}");
        }
        house.plane.delete(&id, None).await.unwrap();
        house.close().await;
    }
}
