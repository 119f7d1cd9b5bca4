//! Prompts, their runs, and how they end. Clauses: L15, L18, H18, H19, C10, C05.

use crate::support::{Bed, kinds, soon};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use triplane_core::{
    PlaneError,
    plane::{Prompt, WhenBusy},
};
use triplane_protocol::{ErrorCode, SessionId, Stop};

#[tokio::test]
async fn h18_one_run_at_a_time() {
    let bed = Bed::new();
    let id = bed.create().await;
    let run = bed.start(&id, "gate\ndone").await;
    assert!(bed.plane.get(&id).await.unwrap().row.busy);
    let error = soon(bed.plane.prompt(&id, Prompt::text("x", WhenBusy::Refuse))).await.unwrap_err();
    assert!(matches!(error, PlaneError::Busy(_)), "{error}");
    bed.open_gate();
    let result = soon(run.finished()).await.unwrap();
    assert_eq!((result.reply.as_str(), result.stop), ("done", Stop::Completed));
    assert!(!bed.plane.get(&id).await.unwrap().row.busy);
    assert_eq!(bed.texts(&id).await, ["gate\ndone", "done"]);
}

#[tokio::test]
async fn l15_prompts_wait_their_turn_up_to_a_bound() {
    let bed = Bed::with(|config| config.limits.queued_prompts = 2);
    let id = bed.create().await;
    let first = bed.start(&id, "gate\none").await;
    let queued = |text: &'static str| bed.plane.prompt(&id, Prompt::text(text, WhenBusy::Queue));
    let (second, third, fourth) = (queued("two"), queued("three"), queued("four"));
    let rest = async {
        let error = fourth.await.unwrap_err();
        assert!(matches!(error, PlaneError::Overloaded(_)), "{error}");
        bed.open_gate();
    };
    let (second, third, ()) = soon(async { tokio::join!(second, third, rest) }).await;
    let third = soon(third.unwrap().finished()).await.unwrap();
    let (first, second) = (soon(first.finished()).await.unwrap(), soon(second.unwrap().finished()).await.unwrap());
    assert_eq!([&first.reply, &second.reply, &third.reply], ["one", "two", "three"]);
    assert!(first.last_seq < second.last_seq && second.last_seq < third.last_seq);
    assert_eq!(bed.texts(&id).await, ["gate\none", "one", "two", "two", "three", "three"]);
}

#[tokio::test]
async fn l15_sessions_do_not_wait_for_each_other() {
    let bed = Bed::new();
    let (a, b) = (bed.create().await, bed.create().await);
    let run = bed.start(&a, "gate").await;
    assert_eq!(bed.run(&b, "quick").await.reply, "quick");
    bed.open_gate();
    soon(run.finished()).await.unwrap();
}

#[tokio::test]
async fn l18_a_submit_that_was_cancelled_before_it_began_never_runs() {
    let bed = Bed::new();
    let id = bed.create().await;
    let armed = |token: &CancellationToken| Prompt { armed: token.clone(), ..Prompt::text("x", WhenBusy::Queue) };
    let fired = CancellationToken::new();
    fired.cancel();
    assert!(matches!(soon(bed.plane.prompt(&id, armed(&fired))).await, Err(PlaneError::Cancelled)));
    // The same while it waits behind another run.
    let run = bed.start(&id, "gate").await;
    let token = CancellationToken::new();
    let waits = bed.plane.prompt(&id, armed(&token));
    let (waits, ()) = soon(async { tokio::join!(waits, async { token.cancel() }) }).await;
    assert!(matches!(waits, Err(PlaneError::Cancelled)), "{waits:?}");
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    assert_eq!(bed.texts(&id).await, ["gate", ""]);
    // Too late: the run goes on, whoever fired cancels it otherwise.
    let late = CancellationToken::new();
    let run = soon(bed.plane.prompt(&id, armed(&late))).await.unwrap();
    late.cancel();
    assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Completed);
}

#[tokio::test]
async fn h19_a_cancel_ends_the_run_in_flight_and_tells_whether_there_was_one() {
    let bed = Bed::new();
    let id = bed.create().await;
    assert!(!soon(bed.plane.cancel(&id)).await.unwrap());
    let run = bed.start(&id, "wait").await;
    let (one, two) = soon(async { tokio::join!(bed.plane.cancel(&id), bed.plane.cancel(&id)) }).await;
    assert!(one.unwrap() && two.unwrap());
    assert!(!bed.plane.get(&id).await.unwrap().row.busy, "the end is told before the cancel is answered");
    assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Aborted);
    assert_eq!(bed.run(&id, "next").await.stop, Stop::Completed);
}

/// The run that the caller saw has ended and the next one of the queue has begun when the cancel is looked at.
#[tokio::test]
async fn h19_a_cancel_never_reaches_a_later_run() {
    let bed = Bed::new();
    let id = bed.create().await;
    for _ in 0..20 {
        let first = bed.start(&id, "gate\none").await;
        let second = bed.plane.prompt(&id, Prompt::text("gate\ntwo", WhenBusy::Queue));
        let cancel = async {
            // The first run sees its gate open, and the cancel is on its way before its end is known.
            bed.open_gate();
            bed.plane.cancel(&id).await.unwrap()
        };
        let (second, hit) = soon(async { tokio::join!(second, cancel) }).await;
        let first = soon(first.finished()).await.unwrap().stop;
        assert_eq!(hit, first == Stop::Aborted, "what a cancel answers is what became of the run");
        bed.agent.gate.add_permits(2);
        assert_eq!(soon(second.unwrap().finished()).await.unwrap().stop, Stop::Completed);
        bed.agent.gate.forget_permits(9);
    }
}

#[tokio::test]
async fn h19_an_agent_that_does_not_listen_is_given_up_in_time() {
    let bed = Bed::new();
    let id = bed.create().await;
    let run = bed.start(&id, "ignore-cancel").await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    assert!(soon(bed.plane.cancel(&id)).await.unwrap());
    assert!(begun.elapsed() <= Duration::from_secs(6), "{:?}", begun.elapsed());
    tokio::time::resume();
    assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Aborted);
    assert_eq!(bed.run(&id, "next").await.reply, "next");
}

#[tokio::test]
async fn c05_an_agent_that_breaks_is_an_error_of_its_run_alone() {
    let bed = Bed::new();
    let (id, other) = (bed.create().await, bed.create().await);
    let waits = bed.start(&other, "gate\nunharmed").await;
    let mut reader = bed.reader(&id).await;
    let result = bed.run(&id, "panic").await;
    assert_eq!(result.stop, Stop::Error);
    assert_eq!(result.error.unwrap().code, ErrorCode::Internal);
    assert_eq!(kinds(&reader.until_idle().await), ["status", "user_message", "error", "final", "status"]);
    assert_eq!(bed.run(&id, "next").await.reply, "next");
    bed.open_gate();
    assert_eq!(soon(waits.finished()).await.unwrap().reply, "unharmed");
}

#[tokio::test]
async fn c10_a_caller_that_goes_away_leaves_its_run_behind() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    // Gone after the run began.
    drop(bed.start(&id, "gate\none").await);
    bed.open_gate();
    reader.until_idle().await;
    // Gone while it waits for its turn.
    let run = bed.start(&id, "gate\ntwo").await;
    let waits = bed.plane.prompt(&id, Prompt::text("three", WhenBusy::Queue));
    assert!(tokio::time::timeout(Duration::from_millis(20), waits).await.is_err());
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    reader.until_idle().await;
    reader.until_idle().await;
    assert_eq!(bed.texts(&id).await, ["gate\none", "one", "gate\ntwo", "two", "three", "three"]);
}

#[tokio::test]
async fn the_limit_of_turns_reaches_the_agent() {
    let bed = Bed::with(|config| config.limits.max_turns = 3);
    let id = bed.create().await;
    assert_eq!(bed.run(&id, "max-turns").await.stop, Stop::MaxTurns);
}

#[tokio::test]
async fn c05_prompts_that_are_none_are_refused() {
    let bed = Bed::with(|config| config.limits.prompt_bytes = 8);
    let id = bed.create().await;
    let refused = async |text: &str| bed.plane.prompt(&id, Prompt::text(text, WhenBusy::Refuse)).await.unwrap_err();
    assert!(matches!(refused("").await, PlaneError::InvalidParams(_)));
    assert!(matches!(refused("ninebytes").await, PlaneError::TooLarge(_)));
    let ghost = SessionId::parse("ghost").unwrap();
    let error = bed.plane.prompt(&ghost, Prompt::text("x", WhenBusy::Refuse)).await.unwrap_err();
    assert!(error.to_string().contains("attach it first"), "S15: {error}");
    assert_eq!(bed.texts(&id).await, [""; 0]);
}

#[tokio::test]
async fn h09_settings_reach_the_next_run_and_a_bad_one_changes_nothing() {
    use triplane_protocol::{event::SettingsPatch, ir::Mode};
    let bed = Bed::new();
    let id = bed.create().await;
    let model = |name: &str| SettingsPatch { model: Some(name.into()), mode: Some(Mode::Plan), ..Default::default() };
    let error = soon(bed.plane.set(&id, model("other/x"))).await.unwrap_err();
    assert!(matches!(error, PlaneError::InvalidParams(ref text) if text.starts_with("model:")), "{error}");
    let before = bed.plane.get(&id).await.unwrap();
    assert_eq!((before.row.model.as_deref(), before.mode), (Some("test/one"), Mode::Default));
    soon(bed.plane.set(&id, model("test/two"))).await.unwrap();
    assert_eq!(bed.run(&id, "model").await.reply, "test/two");
    // What was set before the first prompt is what a reload finds.
    let bed = bed.restart().await;
    let after = soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!((after.row.model.as_deref(), after.mode), (Some("test/two"), Mode::Plan));
}
