//! Permission requests from an agent's ask to its verdict. Clauses: H14, H19–H21, C11, C16, S15.

use crate::support::{Bed, soon};
use std::sync::Arc;
use tempfile::TempDir;
use triplane_core::{
    Plane, PlaneError,
    plane::{Answer, Choice, Created, HoldPolicy, Prompt, WhenBusy},
};
use triplane_protocol::{
    AgentEvent, RequestId, SessionId, Stop,
    event::{Outcome, SettingsPatch},
    ir::Mode,
};

fn kind(allow: bool, always: bool) -> Answer {
    Answer { choice: Choice::Kind { allow, always }, reason: Some("because".into()), by: Some("me".into()) }
}

/// Waits for a request and answers with its id.
async fn asked(bed: &Bed, id: &SessionId, text: &str) -> (triplane_core::plane::Run, RequestId) {
    let mut reader = bed.reader(id).await;
    let run = bed.start(id, text).await;
    let entry = reader.to("permission_request").await;
    let AgentEvent::PermissionRequest(request) = &entry.event else { unreachable!() };
    (run, request.request_id.clone())
}

#[tokio::test]
async fn h21_the_first_answer_wins_and_the_others_find_nothing() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    let (run, request) = asked(&bed, &id, "ask make").await;
    assert_eq!(bed.plane.permissions(None).unwrap().len(), 1);
    let mut all = tokio::task::JoinSet::new();
    for n in 0..10 {
        let (plane, id, request) = (bed.plane.clone(), id.clone(), request.clone());
        all.spawn(async move { plane.answer(&id, &request, kind(n % 2 == 0, false)).await });
    }
    let answers = soon(all.join_all()).await;
    let won: Vec<bool> = answers.iter().flatten().map(|answered| answered.allowed).collect();
    assert_eq!(won.len(), 1);
    let lost = answers.iter().filter(|answer| matches!(answer, Err(PlaneError::NotFound { .. })));
    assert_eq!(lost.count(), 9);
    let expected = if won[0] { "allowed" } else { "denied: because" };
    assert_eq!(soon(run.finished()).await.unwrap().reply, expected);
    let read = reader.until_idle().await;
    let resolved: Vec<_> = read.iter().filter(|entry| entry.event.kind() == "permission_resolved").collect();
    assert_eq!(resolved.len(), 1);
    let AgentEvent::PermissionResolved { by, .. } = &resolved[0].event else { unreachable!() };
    assert_eq!(by.as_deref(), Some("me"));
    assert_eq!(bed.plane.permissions(Some(&id)).unwrap(), []);
}

#[tokio::test]
async fn s15_an_option_that_was_not_offered_leaves_the_request_pending() {
    let bed = Bed::new();
    let id = bed.create().await;
    let (run, request) = asked(&bed, &id, "ask make").await;
    let choose = |option: &str| Answer { choice: Choice::Option(option.into()), reason: None, by: None };
    let error = soon(bed.plane.answer(&id, &request, choose("maybe"))).await.unwrap_err();
    assert!(matches!(error, PlaneError::InvalidParams(_)), "{error}");
    assert_eq!(bed.plane.get(&id).await.unwrap().permissions.len(), 1);
    soon(bed.plane.answer(&id, &request, choose("allow_once"))).await.unwrap();
    assert_eq!(soon(run.finished()).await.unwrap().reply, "allowed");
}

#[tokio::test]
async fn h21_an_always_is_kept_for_the_next_call_and_the_next_life() {
    let bed = Bed::new();
    let id = bed.create().await;
    let (run, request) = asked(&bed, &id, "ask make\nask make").await;
    let answered = soon(bed.plane.answer(&id, &request, kind(true, true))).await.unwrap();
    assert_eq!((answered.allowed, answered.persisted, answered.error), (true, Some(true), None));
    assert_eq!(soon(run.finished()).await.unwrap().reply, "allowed allowed");
    let rules = std::fs::read_to_string(bed.file(".triplane/permissions.toml")).unwrap();
    assert!(rules.contains("make"), "{rules}");
    let bed = bed.restart().await;
    let id = bed.create().await;
    assert_eq!(bed.run(&id, "ask make").await.reply, "allowed");
    let (run, request) = asked(&bed, &id, "ask make clean").await;
    soon(bed.plane.answer(&id, &request, kind(false, true))).await.unwrap();
    soon(run.finished()).await.unwrap();
    assert_eq!(bed.run(&id, "ask make clean").await.reply, "denied: a saved rule refuses it");
}

/// A rule that cannot be saved: the call goes on, and the answer says what is missing.
#[tokio::test]
async fn h21_an_always_that_cannot_be_saved_says_so() {
    let bed = Bed::new();
    let project = TempDir::new().unwrap();
    // Not a permission bit: those do not stop root.
    std::fs::write(project.path().join(".triplane"), "a file is in the way").unwrap();
    let created = Created { cwd: Some(project.path().into()), ..Created::default() };
    let id = soon(bed.plane.create(&bed.hold, created)).await.unwrap().row.id;
    let (run, request) = asked(&bed, &id, "ask make").await;
    let answered = soon(bed.plane.answer(&id, &request, kind(true, true))).await.unwrap();
    assert_eq!((answered.allowed, answered.persisted), (true, Some(false)));
    assert!(answered.error.is_some_and(|why| why.contains(".triplane")));
    assert_eq!(soon(run.finished()).await.unwrap().reply, "allowed");
}

#[tokio::test]
async fn c16_rules_that_cannot_be_read_allow_nothing_not_even_in_bypass() {
    let bed = Bed::new();
    let id = bed.create().await;
    std::fs::write(bed.file(".triplane/permissions.toml"), "[[rule]\n").unwrap();
    let patch = SettingsPatch { mode: Some(Mode::Bypass), ..SettingsPatch::default() };
    soon(bed.plane.set(&id, patch)).await.unwrap();
    let (run, request) = asked(&bed, &id, "ask make").await;
    let answered = soon(bed.plane.answer(&id, &request, kind(false, true))).await.unwrap();
    assert_eq!((answered.allowed, answered.persisted), (false, Some(false)));
    assert_eq!(soon(run.finished()).await.unwrap().reply, "denied: because");
    assert_eq!(std::fs::read_to_string(bed.file(".triplane/permissions.toml")).unwrap(), "[[rule]\n");
}

#[tokio::test]
async fn h19_requests_expire_with_their_run() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    let (run, request) = asked(&bed, &id, "ask make").await;
    // The agent was told, and took it for what it is: it went on to its own end, and the cancel says so.
    assert_eq!(soon(bed.plane.cancel_told(&id)).await.unwrap(), Some(Stop::Completed));
    assert_eq!(soon(run.finished()).await.unwrap().reply, "expired");
    let resolved = reader.to("permission_resolved").await;
    assert!(matches!(resolved.event, AgentEvent::PermissionResolved { outcome: Outcome::Expired, .. }));
    let error = soon(bed.plane.answer(&id, &request, kind(true, false))).await.unwrap_err();
    assert!(matches!(error, PlaneError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn h19_what_asks_in_the_name_of_a_run_that_is_over_does_not_wait_for_ever() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    bed.run(&id, "ask-later make").await;
    reader.until_idle().await;
    bed.open_gate();
    let entry = reader.to("task_end").await;
    assert!(matches!(&entry.event, AgentEvent::TaskEnd { text, .. } if text == "expired"), "{entry:?}");
}

#[tokio::test]
async fn c11_a_request_that_nobody_could_ever_answer_is_denied_at_once() {
    let temp = Arc::new(TempDir::new().unwrap());
    let bed = Bed::at(temp, Default::default(), |_| ());
    // A plane of its own: the bed's party can answer.
    let config = triplane_core::PlaneConfig { session_dir: bed.file("mute"), ..bed.plane.config().clone() };
    let mute = Plane::open(config, vec![Arc::new(bed.agent.clone())]).unwrap();
    let hold = mute.hold(HoldPolicy { name: "mute", ..HoldPolicy::default() });
    let id = soon(mute.create(&hold, Created::default())).await.unwrap().row.id;
    let run = soon(mute.prompt(&id, Prompt::text("ask make", WhenBusy::Refuse))).await.unwrap();
    let result = soon(run.finished()).await.unwrap();
    assert_eq!(result.stop, Stop::Completed);
    assert!(result.reply.starts_with("denied: no connected front end"), "{}", result.reply);
    // From the moment that somebody can, it waits for him.
    mute.hold(HoldPolicy { name: "hears", answers: true, ..HoldPolicy::default() });
    let mut events = soon(mute.subscribe(&id)).await.unwrap();
    let run = soon(mute.prompt(&id, Prompt::text("ask make", WhenBusy::Refuse))).await.unwrap();
    while mute.permissions(Some(&id)).unwrap().is_empty() {
        soon(events.next(64)).await;
    }
    soon(mute.cancel(&id)).await.unwrap();
    soon(run.finished()).await.unwrap();
}

#[tokio::test]
async fn the_mode_of_the_moment_counts_and_what_waits_goes_on_waiting() {
    let bed = Bed::new();
    let id = bed.create().await;
    let (run, request) = asked(&bed, &id, "ask one\nask two\ngate\nask three").await;
    let mode = |mode| SettingsPatch { mode: Some(mode), ..SettingsPatch::default() };
    soon(bed.plane.set(&id, mode(Mode::Bypass))).await.unwrap();
    assert_eq!(bed.plane.permissions(Some(&id)).unwrap().len(), 1);
    soon(bed.plane.answer(&id, &request, kind(false, false))).await.unwrap();
    soon(bed.plane.set(&id, mode(Mode::Plan))).await.unwrap();
    bed.open_gate();
    let reply = soon(run.finished()).await.unwrap().reply;
    assert!(reply.starts_with("denied: because allowed denied: the session is in plan mode"), "{reply}");
}
