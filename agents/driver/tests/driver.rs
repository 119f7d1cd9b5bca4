//! Drivers in a real plane: they answer, die, hang and talk nonsense. Clauses: S31, S32; faults: CP-01, CP-04–CP-06, CP-11, CP-13.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "helpers of tests are tests")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use triplane_core::{
    Plane, PlaneConfig,
    agent::{Agent, StoreFailure},
    limits::Limits as PlaneLimits,
    plane::{Answer, Choice, Created, Hold, HoldPolicy, Prompt, RunResult, WhenBusy},
    store::Durability,
};
use triplane_driver::{DriverAgent, Found, Launch, Limits};
use triplane_protocol::{
    AgentEvent, ErrorCode, SessionId, Stop,
    config::{AgentConfig, ConfigItem, ConfigKind, ConfigScope},
    event::SettingsPatch,
};

const DEADLINE: Duration = Duration::from_secs(20);

struct House {
    dir: tempfile::TempDir,
    plane: Plane,
    hold: Hold,
    driver: Arc<DriverAgent>,
}

fn limits() -> Limits {
    let ms = Duration::from_millis;
    Limits { start: ms(5000), call: ms(700), cancel: ms(500), alive: ms(700), again: ms(0) }
}

/// A plane whose only agent is the test's driver, started with these variables.
fn house_with(program: &Path, variables: &[&str], limits: Limits) -> House {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let mut prefix: Vec<std::ffi::OsString> = vec!["env".into(), "TRIPLANE_TOKEN=".into()];
    prefix.push(format!("TEST_DRIVER_LOG={}", root.join("log").display()).into());
    prefix.extend(variables.iter().map(Into::into));
    let launch = Launch { cwd: root.clone(), prefix, limits };
    let driver = Arc::new(DriverAgent::new(Found { name: "test".into(), path: program.to_owned() }, launch));
    let config = PlaneConfig {
        cwd: root.clone(),
        session_dir: root.join("sessions"),
        home: root.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch::default(),
        limits: PlaneLimits::default(),
        overlay: true,
        abort_on_disconnect: false,
    };
    let plane = Plane::open(config, vec![driver.clone()]).unwrap();
    let hold = plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
    House { dir, plane, hold, driver }
}

fn house() -> House {
    house_with(Path::new(env!("CARGO_BIN_EXE_triplane-driver-test")), &[], limits())
}

impl House {
    async fn session(&self) -> SessionId {
        let created = Created { agent: Some("test".into()), ..Created::default() };
        self.plane.create(&self.hold, created).await.unwrap().row.id
    }

    async fn run(&self, id: &SessionId, text: &str) -> RunResult {
        let run = self.plane.prompt(id, Prompt::text(text, WhenBusy::Refuse)).await.unwrap();
        soon(run.finished()).await.unwrap()
    }

    async fn load(&self, id: &str) -> Result<String, StoreFailure> {
        self.driver.learn().await;
        let store = self.driver.store().unwrap();
        soon(store.load(&SessionId::parse(id).unwrap())).await.map(|session| session.id.to_string())
    }

    /// How often a line is in the driver's log.
    fn logged(&self, line: &str) -> usize {
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().filter(|logged| *logged == line).count()
    }

    /// All events of a run of a fresh session, `status` idle included.
    async fn events(&self, text: &str) -> Vec<AgentEvent> {
        let id = self.session().await;
        let mut events = self.plane.subscribe(&id).await.unwrap();
        self.run(&id, text).await;
        let mut seen = Vec::new();
        loop {
            for entry in soon(events.next(64)).await.entries {
                seen.push(entry.event.clone());
                if matches!(entry.event, AgentEvent::Status { busy: false, .. }) {
                    return seen;
                }
            }
        }
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("it hangs")
}

fn kinds(events: &[AgentEvent]) -> String {
    events.iter().map(AgentEvent::kind).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn it_is_started_late_and_once() {
    let house = house();
    assert_eq!((house.logged("start"), house.driver.descriptor().can.prompt), (0, false));
    house.plane.learn().await;
    let told = house.driver.descriptor();
    assert_eq!((told.name.as_str(), told.version.as_deref(), told.can.prompt), ("Test", Some("7"), true));
    let rows = house.driver.store().unwrap().list().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(house.load("one").await.unwrap(), "one");
    assert_eq!(house.logged("start"), 1);
    house.plane.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_run_is_told_and_kept() {
    let house = house();
    let id = house.session().await;
    let result = house.run(&id, "hello").await;
    assert_eq!((result.reply.as_str(), result.stop, result.turns), ("you said hello", Stop::Completed, 1));
    assert_eq!((result.usage.input, result.usage.output), (3, 2));
    let messages: Vec<String> =
        house.plane.messages(&id).await.unwrap().iter().map(|message| message.plain_text()).collect();
    assert_eq!(messages, ["hello", "you said hello"]);
    house.run(&id, "again").await;
    assert_eq!((house.logged("session.open"), house.logged("start")), (1, 1));
    let events = house.events("tool").await;
    assert_eq!(
        kinds(&events),
        "status user_message turn_start llm_delta tool_call_start tool_call_end llm_end final status"
    );
}

#[tokio::test]
async fn what_is_not_known_goes_on_as_it_came() {
    let events = house().events("odd").await;
    let odd: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Extension { name, data } => Some(format!("{name} {data}")),
            _ => None,
        })
        .collect();
    assert_eq!(odd.len(), 4, "{odd:?}");
    assert_eq!(odd[0], r#"mood {"type":"mood","level":3}"#);
    assert!(odd[1].starts_with(r#"llm_delta {"fault":"#) && odd[1].contains(r#""text":7"#), "{}", odd[1]);
    assert!(odd[2].starts_with("final "), "the plane's own word was taken from a driver: {}", odd[2]);
    assert_eq!(odd[3], r#"event "no object""#);
    assert!(kinds(&events).ends_with("llm_end final status"), "{}", kinds(&events));
}

#[tokio::test]
async fn permissions_go_through_the_plane() {
    let house = house();
    for (option, expected) in [("yes-please", "allowed yes-please"), ("no", "denied no")] {
        let id = house.session().await;
        let mut events = house.plane.subscribe(&id).await.unwrap();
        let run = house.plane.prompt(&id, Prompt::text("ask", WhenBusy::Refuse)).await.unwrap();
        let request = loop {
            let batch = soon(events.next(64)).await;
            let asked = batch.entries.iter().find_map(|entry| match &entry.event {
                AgentEvent::PermissionRequest(request) => Some(request.clone()),
                _ => None,
            });
            if let Some(request) = asked {
                break request;
            }
        };
        assert_eq!((request.tool.as_str(), request.options.len()), ("look", 2));
        let answer = Answer { choice: Choice::Option(option.into()), reason: None, by: None };
        house.plane.answer(&id, &request.request_id, answer).await.unwrap();
        assert_eq!(soon(run.finished()).await.unwrap().reply, expected);
    }
}

#[tokio::test]
async fn a_death_costs_the_calls_in_flight_and_the_next_one_works() {
    let house = house();
    let (one, two) = (house.session().await, house.session().await);
    house.run(&one, "hello").await;
    let waiting = house.plane.prompt(&two, Prompt::text("wait", WhenBusy::Refuse)).await.unwrap();
    let failure = house.load("die").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Unavailable);
    assert_eq!(
        failure.cause.as_deref(),
        Some("it ended with code 3; its last words: first line | the disk is on fire")
    );
    // The other session's run is told too, and at once.
    let result = soon(waiting.finished()).await.unwrap();
    let error = result.error.unwrap();
    assert_eq!((result.stop, error.code, error.retryable), (Stop::Error, ErrorCode::Unavailable, true));
    assert!(error.message.contains("the disk is on fire"), "{}", error.message);
    assert_eq!(house.load("one").await.unwrap(), "one");
    assert_eq!(house.run(&one, "hello").await.reply, "you said hello");
    assert_eq!((house.logged("start"), house.logged("session.open")), (2, 3));
}

#[tokio::test]
async fn nonsense_ends_the_process_and_is_named() {
    let program = Path::new(env!("CARGO_BIN_EXE_triplane-driver-test"));
    let house = house_with(program, &[], Limits { call: DEADLINE, ..limits() });
    for (how, cause) in
        [("garbage", "no message"), ("deep", "no message"), ("long", "a line of more than 16777216 bytes")]
    {
        let failure = house.load(how).await.unwrap_err();
        assert_eq!(failure.code, ErrorCode::Unavailable, "{how}");
        assert!(failure.cause.as_deref().unwrap().contains(cause), "{how}: {failure:?}");
    }
    assert_eq!(house.load("one").await.unwrap(), "one");
    let failure = house.load("wrong").await.unwrap_err();
    assert!(failure.cause.unwrap().starts_with("session.version: invalid type"));
    let failure = house.load("none").await.unwrap_err();
    assert_eq!((failure.code, failure.cause.as_deref()), (ErrorCode::NotFound, Some("cause: no such session")));
    // A second answer is let go, and so is what a call that was given up is answered.
    assert_eq!(house.run(&house.session().await, "twice").await.stop, Stop::Completed);
    assert_eq!(house.logged("start"), 4);
}

#[tokio::test]
async fn one_that_hangs_keeps_nobody() {
    let house = house();
    house.load("one").await.unwrap();
    let began = Instant::now();
    let (hung, slow, quick) = tokio::join!(house.load("hang"), house.load("slow"), async {
        let quick = house.load("one").await;
        (quick, began.elapsed())
    });
    assert_eq!(hung.unwrap_err().cause.as_deref(), Some("no answer within 700ms"));
    assert_eq!(slow.unwrap(), "slow");
    assert!(quick.0.is_ok() && quick.1 < Duration::from_millis(600), "{quick:?}");
    // It answered others meanwhile, so it was let live.
    assert_eq!(house.logged("start"), 1);
}

#[tokio::test]
async fn one_that_answers_nobody_is_replaced() {
    // Stopped, it reads nothing and says nothing.
    let script = "#!/bin/sh\nread -r l\necho '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":1,\"capabilities\":{\"read\":true}}}'\n\
        echo start >> \"$TEST_DRIVER_LOG\"\nexec sleep 600\n";
    let (_dir, program) = executable(script);
    let mut house = house_with(&program, &[], Limits { alive: Duration::from_millis(300), ..limits() });
    assert_eq!(house.load("one").await.unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(house.load("one").await.unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(house.logged("start"), 2);
    house = house_with(&program, &[], limits());
    house.driver.learn().await;
    house.plane.shutdown(Duration::ZERO).await;
}

fn executable(script: &str) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("triplane-driver-script");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (dir, path)
}

#[tokio::test]
async fn a_cancelled_run_ends_whatever_the_driver_does() {
    let house = house();
    for (prompts, (how, starts)) in (1..).zip([("wait", 1), ("deaf", 1), ("hello", 2)]) {
        let id = house.session().await;
        let run = house.plane.prompt(&id, Prompt::text(how, WhenBusy::Refuse)).await.unwrap();
        if how == "hello" {
            assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Completed);
        } else {
            // Once the driver has begun, so that the cancel finds it at work.
            let mut events = house.plane.subscribe(&id).await.unwrap();
            while house.logged("session.prompt") < prompts {
                let _ = tokio::time::timeout(Duration::from_millis(20), events.next(64)).await;
            }
            let began = Instant::now();
            assert!(house.plane.cancel(&id).await.unwrap());
            assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Aborted);
            assert!(began.elapsed() < Duration::from_secs(5), "{how}: {:?}", began.elapsed());
        }
        assert_eq!(house.logged("start"), starts, "{how}");
    }
}

#[tokio::test]
async fn a_flood_is_waited_for_and_loses_nothing() {
    let house = house();
    let id = house.session().await;
    let quick = async {
        let began = Instant::now();
        house.load("one").await.unwrap();
        began.elapsed()
    };
    let (result, _) = tokio::join!(house.run(&id, "flood"), quick);
    assert_eq!((result.reply.as_str(), result.stop), ("flooded", Stop::Completed));
    // turn_start, the deltas, and the frame around them.
    assert!(result.last_seq >= 20_000, "{}", result.last_seq);
}

#[tokio::test]
async fn a_failed_start_is_told_and_tried_again() {
    let program = Path::new(env!("CARGO_BIN_EXE_triplane-driver-test"));
    for (variable, cause) in [
        ("TEST_DRIVER_START=die", "it ended with code 3; its last words: first line | the disk is on fire"),
        ("TEST_DRIVER_START=hang", "no manifest within 300ms"),
        ("TEST_DRIVER_PROTOCOL=2", "it speaks version 2 of the protocol; this server speaks 1"),
    ] {
        let house = house_with(program, &[variable], Limits { start: Duration::from_millis(300), ..limits() });
        let created = Created { agent: Some("test".into()), ..Created::default() };
        let id = house.plane.create(&house.hold, created).await.unwrap().row.id;
        let error = house.run(&id, "hello").await.error.unwrap();
        assert_eq!(error.code, ErrorCode::Unavailable, "{variable}");
        assert!(error.message.ends_with(cause), "{}", error.message);
        assert!(house.logged("start") >= 2, "it was started {} times", house.logged("start"));
    }
    let house = house_with(Path::new("/no/such/driver"), &[], limits());
    let id = house.session().await;
    assert!(house.run(&id, "hello").await.error.unwrap().message.contains("/no/such/driver"));
}

#[tokio::test]
async fn what_a_dead_driver_left_behind_holds_nobody_and_ends() {
    let house = house();
    let began = Instant::now();
    assert_eq!(house.load("linger").await.unwrap_err().code, ErrorCode::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    house.plane.shutdown(Duration::ZERO).await;
    let left = || sleepers(house.dir.path()) > 0;
    let until = Instant::now() + Duration::from_secs(5);
    while left() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!left(), "a child of the driver lives on");
}

/// Processes that have this directory's log in their environment.
fn sleepers(dir: &Path) -> usize {
    let Ok(all) = std::fs::read_dir("/proc") else { return 0 };
    let wanted = format!("TEST_DRIVER_LOG={}", dir.canonicalize().unwrap().join("log").display());
    all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("environ")).ok())
        .filter(|environment| environment.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes()))
        .count()
}

#[tokio::test]
async fn its_store_and_its_config_are_the_planes() {
    let house = house();
    house.plane.learn().await;
    let store = house.driver.store().unwrap();
    let session = store.load(&SessionId::parse("one").unwrap()).await.unwrap();
    let saved = store.save(&session, None).await.unwrap();
    assert_eq!((saved.id.as_str(), saved.lost), ("fresh", vec!["images".to_owned()]));
    store.delete(&saved.id).await.unwrap();
    assert_eq!(house.plane.config_get("test", None).await.unwrap().dir, "own");
    assert_eq!(house.plane.config_get("test", Some("/there")).await.unwrap().dir, "/there");
    let item = ConfigItem {
        kind: ConfigKind::Rule,
        name: "r".into(),
        scope: ConfigScope::User,
        path: String::new(),
        meta: serde_json::Map::new(),
        body: "b".into(),
    };
    let config = AgentConfig { agent: "a".into(), dir: String::new(), items: vec![item] };
    assert_eq!(house.plane.config_import("test", None, &config, true).await.unwrap().len(), 1);
    house.plane.shutdown(Duration::ZERO).await;
    assert_eq!(sleepers(house.dir.path()), 0, "the driver outlives the plane");
}
