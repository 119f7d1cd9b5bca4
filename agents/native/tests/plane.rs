//! The agent in a real plane: what a client sees of its runs, and what stays on disk.
//! Clauses: H14, H19, H20, H21; faults: CP-04, PM-02.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "helpers of tests are tests")]

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use triplane_core::{
    Plane, PlaneConfig,
    feed::Subscription,
    limits::Limits,
    plane::{Answer, Choice, Created, Hold, HoldPolicy, Prompt, RunResult, WhenBusy},
    store::Durability,
};
use triplane_native::{NativeAgent, NativeConfig, tools::Helpers};
use triplane_protocol::{
    AgentEvent, Message, Part, Role, SessionId, Stop,
    event::{CloseReason, SettingsPatch, TaskState},
    ir::{KnownPart, Mode},
};

const DEADLINE: Duration = Duration::from_secs(20);

struct House {
    _dir: tempfile::TempDir,
    cwd: PathBuf,
    plane: Plane,
    _hold: Hold,
    id: SessionId,
    events: tokio::sync::Mutex<Subscription>,
    seen: Mutex<Vec<AgentEvent>>,
}

async fn house(mode: Mode) -> House {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let cwd = root.join("work");
    std::fs::create_dir(&cwd).unwrap();
    let config = PlaneConfig {
        cwd: cwd.clone(),
        session_dir: root.join("sessions"),
        home: root.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch::default(),
        limits: Limits::default(),
        overlay: true,
        abort_on_disconnect: false,
    };
    let helpers = Helpers::default();
    let agent = NativeAgent::new(NativeConfig { helpers: helpers.clone(), ..NativeConfig::default() });
    let plane = Plane::open(config, vec![Arc::new(agent)]).unwrap();
    helpers.live_in(&plane);
    let hold = plane.hold(HoldPolicy { name: "test", answers: true, ..HoldPolicy::default() });
    let settings = SettingsPatch { mode: Some(mode), ..SettingsPatch::default() };
    let id = plane.create(&hold, Created { settings, ..Created::default() }).await.unwrap().row.id;
    let events = tokio::sync::Mutex::new(plane.subscribe(&id).await.unwrap());
    House { _dir: dir, cwd, plane, _hold: hold, id, events, seen: Mutex::default() }
}

impl House {
    /// Reads events until one fits, and keeps all of them.
    async fn until(&self, fits: impl Fn(&AgentEvent) -> bool) -> AgentEvent {
        let read = async {
            let mut events = self.events.lock().await;
            loop {
                for entry in events.next(1).await.entries {
                    self.seen.lock().unwrap().push(entry.event.clone());
                    if fits(&entry.event) {
                        return entry.event.clone();
                    }
                }
            }
        };
        tokio::time::timeout(DEADLINE, read).await.expect("the event never came")
    }

    async fn idle(&self) {
        self.until(|e| matches!(e, AgentEvent::Status { busy: false, .. })).await;
    }

    async fn prompt(&self, text: &str) -> triplane_core::plane::Run {
        self.plane.prompt(&self.id, Prompt::text(text, WhenBusy::Refuse)).await.unwrap()
    }

    async fn run(&self, text: &str) -> RunResult {
        let run = self.prompt(text).await;
        let result = tokio::time::timeout(DEADLINE, run.finished()).await.expect("the run hangs").unwrap();
        self.idle().await;
        result
    }

    fn kinds(&self) -> String {
        self.seen.lock().unwrap().iter().map(AgentEvent::kind).collect::<Vec<_>>().join(" ")
    }

    async fn answer(&self, option: &str, reason: Option<&str>) {
        let AgentEvent::PermissionRequest(request) =
            self.until(|e| matches!(e, AgentEvent::PermissionRequest(_))).await
        else {
            unreachable!()
        };
        let choice = Choice::Option(option.to_owned());
        let answer = Answer { choice, reason: reason.map(str::to_owned), by: None };
        self.plane.answer(&self.id, &request.request_id, answer).await.unwrap();
    }

    async fn history(&self) -> Vec<Arc<Message>> {
        self.plane.messages(&self.id).await.unwrap()
    }

    async fn close(self) {
        tokio::time::timeout(DEADLINE, self.plane.shutdown(Duration::ZERO)).await.expect("the shutdown hangs");
    }
}

/// Every call of the history has its result, in order.
fn consistent(history: &[Arc<Message>]) -> bool {
    let parts = || history.iter().flat_map(|m| &m.parts);
    let calls = parts().filter_map(|p| if let Part::Known(KnownPart::Call { id, .. }) = p { Some(id) } else { None });
    let results =
        parts().filter_map(|p| if let Part::Known(KnownPart::Result { id, .. }) = p { Some(id) } else { None });
    calls.eq(results)
}

fn living(mark: &str) -> usize {
    let wanted = format!("sleep\0{mark}\0").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).filter(|line| *line == wanted).count()
}

#[tokio::test]
async fn a_run_is_told_in_order_and_kept() {
    let house = house(Mode::Default).await;
    std::fs::write(house.cwd.join("f"), "from the file").unwrap();
    let result = house.run("one two\n/tool read {\"path\":\"f\"}").await;
    assert_eq!((result.stop, result.turns, result.reply.as_str()), (Stop::Completed, 2, "tool read: from the file"));
    assert_eq!(
        house.kinds(),
        "status user_message turn_start llm_start llm_delta llm_delta llm_end usage tool_call_start tool_call_end \
         turn_start llm_start llm_delta llm_end usage final status"
    );
    let history = house.history().await;
    let roles: Vec<Role> = history.iter().map(|m| m.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert!(consistent(&history));
    let seen = house.seen.lock().unwrap().clone();
    let told =
        seen.iter().filter_map(|e| if let AgentEvent::LlmEnd { message, .. } = e { Some(message) } else { None });
    assert!(told.eq(history.iter().filter(|m| m.role == Role::Assistant).map(|m| &**m)));
    house.close().await;
}

#[tokio::test]
async fn commands_ask_and_the_answer_counts() {
    let house = house(Mode::Default).await;
    let run = house.prompt("/tool bash {\"command\":\"echo hi > made\"}").await;
    house.answer("allow_once", None).await;
    assert_eq!(run.finished().await.unwrap().stop, Stop::Completed);
    assert_eq!(std::fs::read_to_string(house.cwd.join("made")).unwrap(), "hi\n");
    let run = house.prompt("/tool bash {\"command\":\"rm made\"}").await;
    house.answer("reject_once", Some("keep it")).await;
    assert_eq!(run.finished().await.unwrap().reply, "tool bash: denied: keep it");
    assert!(house.cwd.join("made").exists());
    let run = house.prompt("/tool read {\"path\":\"/etc/passwd\"}").await;
    house.answer("reject_once", None).await;
    assert!(run.finished().await.unwrap().reply.starts_with("tool read: denied: "));
    house.close().await;
}

#[tokio::test]
async fn plan_mode_changes_nothing() {
    let house = house(Mode::Plan).await;
    let result = house.run("/tool write {\"path\":\"f\",\"content\":\"x\"}\n/tool ls").await;
    assert!(
        result.reply.starts_with("tool write: denied: ") && result.reply.ends_with("tool ls: (the directory is empty)")
    );
    assert!(!house.cwd.join("f").exists());
    house.close().await;
}

#[tokio::test]
async fn a_change_is_checkpointed_with_what_was_before() {
    let house = house(Mode::AcceptEdits).await;
    std::fs::write(house.cwd.join("f"), "old\n").unwrap();
    let script = "/tool write {\"path\":\"f\",\"content\":\"new\\n\"}\n/tool write {\"path\":\"g\",\"content\":\"g\"}";
    house.run(script).await;
    assert_eq!(std::fs::read_to_string(house.cwd.join("f")).unwrap(), "new\n");
    let path = house.plane.get(&house.id).await.unwrap().path;
    let lines = std::fs::read_to_string(path).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let kept: Vec<_> = records.filter(|r| r["type"] == "checkpoint").collect();
    assert_eq!(kept.len(), 4, "one before and one after each change");
    assert!(kept[0]["before"].is_string() && kept[0]["after"].is_null() && kept[1]["after"].is_string());
    assert!(kept[2]["before"].is_null() && kept[3]["after"].is_string());
    let diff = house.seen.lock().unwrap().iter().find_map(|e| match e {
        AgentEvent::ToolCallEnd { diff, .. } => diff.clone(),
        _ => None,
    });
    assert_eq!(diff.unwrap(), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n");
    house.close().await;
}

#[tokio::test]
async fn cancel_ends_a_command_and_the_next_prompt_works() {
    let house = house(Mode::Bypass).await;
    let mark = format!("51.{}", std::process::id());
    let script = format!("/tool bash {{\"command\":\"setsid sleep {mark} & echo up; sleep {mark}\"}}\n/tool ls");
    let run = house.prompt(&script).await;
    house.until(|e| matches!(e, AgentEvent::ToolCallOutput { .. })).await;
    assert!(house.plane.cancel(&house.id).await.unwrap());
    assert_eq!(run.finished().await.unwrap().stop, Stop::Aborted);
    assert_eq!(living(&mark), 0);
    assert!(consistent(&house.history().await));
    house.idle().await;
    assert_eq!(house.run("again").await.reply, "again");
    house.close().await;
}

#[tokio::test]
async fn cancel_expires_a_permission_and_answers_the_call() {
    let house = house(Mode::Default).await;
    let run = house.prompt("/tool bash {\"command\":\"true\"}").await;
    house.until(|e| matches!(e, AgentEvent::PermissionRequest(_))).await;
    assert!(house.plane.cancel(&house.id).await.unwrap());
    assert_eq!(run.finished().await.unwrap().stop, Stop::Aborted);
    assert!(house.plane.permissions(Some(&house.id)).unwrap().is_empty());
    house.idle().await;
    assert_eq!(house.kinds().matches("permission_resolved").count(), 1);
    assert!(consistent(&house.history().await));
    house.close().await;
}

#[tokio::test]
async fn many_chunks_are_as_many_events() {
    let house = house(Mode::Default).await;
    let run = house.prompt("/repeat 2000 x").await;
    house.idle().await;
    assert_eq!(run.finished().await.unwrap().reply.len(), 2000);
    assert_eq!(house.kinds().matches("llm_delta").count(), 2000);
    house.close().await;
}

#[tokio::test]
async fn a_task_ends_after_its_run_and_is_handed_over() {
    let house = house(Mode::Default).await;
    house.run("/task 20 all fine\n/say ok").await;
    let end = house.until(|e| matches!(e, AgentEvent::TaskEnd { .. })).await;
    let AgentEvent::TaskEnd { state, text, .. } = end else { unreachable!() };
    assert_eq!((state, text.as_str()), (TaskState::Done, "all fine"));
    house.idle().await;
    let history = house.history().await;
    assert!(history.last().unwrap().plain_text().ends_with("is done: all fine"));
    house.close().await;
}

#[tokio::test]
async fn a_background_command_ends_with_its_session() {
    let house = house(Mode::Bypass).await;
    let mark = format!("52.{}", std::process::id());
    let command = format!("sleep {mark} & echo up; wait");
    let result = house.run(&format!("/tool bash {{\"command\":\"{command}\",\"background\":true}}")).await;
    assert!(result.reply.starts_with("tool bash: started as background task "), "{}", result.reply);
    let started = async {
        while living(&mark) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, started).await.unwrap();
    house.plane.detach(&house.id, CloseReason::Explicit).await.unwrap();
    let gone = async {
        while living(&mark) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("the command lives on");
    house.close().await;
}

#[tokio::test]
async fn failures_and_a_lost_directory_leave_the_session_usable() {
    let house = house(Mode::Default).await;
    let failed = house.run("half\n/fail overloaded").await;
    assert_eq!((failed.stop, failed.error.unwrap().retryable), (Stop::Error, true));
    std::fs::remove_dir_all(&house.cwd).unwrap();
    let lost = house.run("hello").await;
    assert!(lost.error.unwrap().message.contains("cannot be used"));
    std::fs::create_dir(&house.cwd).unwrap();
    assert_eq!(house.run("hello").await.reply, "hello");
    house.close().await;
}

fn task(description: &str, prompt: &str) -> String {
    format!("/tool task {}", serde_json::json!({"description": description, "prompt": prompt}))
}

#[tokio::test]
async fn a_helper_works_in_a_child_session_and_asks_where_somebody_looks() {
    let house = house(Mode::Default).await;
    let run = house.prompt(&task("make a file", "/tool bash {\"command\":\"echo hi | tee made\"}")).await;
    let asked = house.until(|e| matches!(e, AgentEvent::PermissionRequest(_))).await;
    let AgentEvent::PermissionRequest(request) = asked else { unreachable!() };
    assert!(request.title.starts_with("helper: bash echo hi"), "{}", request.title);
    let answer = Answer { choice: Choice::Option("allow_once".into()), reason: None, by: None };
    house.plane.answer(&house.id, &request.request_id, answer).await.unwrap();
    let result = tokio::time::timeout(DEADLINE, run.finished()).await.expect("the run hangs").unwrap();
    assert_eq!((result.stop, result.reply.as_str()), (Stop::Completed, "tool task: tool bash: hi\n"));
    assert!(house.cwd.join("made").exists());
    let rows = house.plane.list(None, None).await.unwrap().rows;
    let child = rows.iter().find(|row| row.id != house.id).expect("the helper's session is listed");
    assert_eq!(child.title.as_deref(), Some("make a file"));
    house.plane.detach(&child.id, CloseReason::Explicit).await.unwrap();
    let child = house.plane.export(&child.id, None).await.unwrap();
    assert_eq!(child.parent, Some(house.id.clone()));
    house.close().await;
}

#[tokio::test]
async fn a_helper_has_no_helpers_and_ends_with_its_call() {
    let house = house(Mode::Bypass).await;
    let result = house.run(&task("outer", &task("inner", "hi"))).await;
    assert!(result.reply.contains("there is no tool `task`"), "{}", result.reply);
    let run = house.prompt(&task("wait", "/say begun\n/tool bash {\"command\":\"sleep 300\"}")).await;
    house.until(|e| matches!(e, AgentEvent::ToolCallOutput { text, .. } if text.contains("sleep 300"))).await;
    house.plane.cancel(&house.id).await.unwrap();
    assert_eq!(run.finished().await.unwrap().stop, Stop::Aborted);
    let rows = house.plane.list(None, None).await.unwrap().rows;
    assert!(rows.iter().all(|row| !row.busy), "{rows:?}");
    house.close().await;
}
