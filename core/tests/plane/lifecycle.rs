//! How sessions become live and cease to be. Clauses: L05, L12, L13, C11, C17, S12, S16, S26, S29.

use crate::support::{Bed, TestAgent, is_detached, node_until, soon};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tempfile::TempDir;
use triplane_core::{
    PlaneError,
    feed::{Marker, NodeItem},
    plane::{Created, HoldPolicy, Prompt, WhenBusy},
};
use triplane_protocol::{SessionId, Stop, event::CloseReason};

/// Polls once; whether it waits for something.
async fn waits<F: Future>(mut what: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(what.as_mut().poll(cx).is_pending())).await
}

fn capped(cap: usize) -> HoldPolicy {
    HoldPolicy { name: "capped", cap: Some(cap), ..HoldPolicy::default() }
}

#[tokio::test]
async fn l05_the_empty_transcript_is_there_before_the_reply_and_a_detach_leaves_it() {
    let bed = Bed::new();
    let id = bed.create().await;
    assert_eq!(std::fs::metadata(bed.transcript(&id)).unwrap().len(), 0);
    assert!(bed.plane.is_live(&id));
    assert!(soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap());
    assert!(!bed.plane.is_live(&id) && bed.transcript(&id).exists());
    assert!(!soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap());
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!(bed.run(&id, "hello").await.reply, "hello");
}

#[tokio::test]
async fn s12_nothing_is_attached_that_is_not_stored_and_a_second_attach_changes_nothing() {
    let bed = Bed::new();
    let ghost = SessionId::parse("ghost").unwrap();
    let error = soon(bed.plane.attach(&bed.hold, &ghost)).await.unwrap_err();
    assert!(matches!(error, PlaneError::NotFound { .. }), "{error}");
    let id = bed.create().await;
    let (mut feed, live) = bed.plane.subscribe_node();
    assert_eq!(live, std::slice::from_ref(&id));
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    let words = node_until(&mut feed, is_detached(&id)).await;
    assert_eq!(words, [format!("session_closed {id}"), format!("detached Explicit {id}")]);
}

#[tokio::test]
async fn s12_a_session_is_held_by_one_process_and_free_as_soon_as_a_detach_is_answered() {
    let agent = TestAgent { close: Duration::from_millis(300), ..TestAgent::default() };
    let bed = Bed::at(Arc::new(TempDir::new().unwrap()), agent, |_| ());
    let other = Bed::at(bed.temp.clone(), TestAgent::default(), |_| ());
    let id = bed.create().await;
    // Its agent is open, and takes a while to let go; a task of it does not let go at all.
    bed.run(&id, "task-deaf forever").await;
    let error = soon(other.plane.attach(&other.hold, &id)).await.unwrap_err();
    assert!(matches!(error, PlaneError::Locked(_)), "{error}");
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    soon(other.plane.attach(&other.hold, &id)).await.unwrap();
    soon(other.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    bed.open_gate();
}

#[tokio::test]
async fn l12_the_least_recently_used_goes_first() {
    let bed = Bed::new();
    let hold = bed.plane.hold(capped(2));
    let (a, b) = (bed.create_for(&hold).await, bed.create_for(&hold).await);
    bed.run(&a, "use it").await;
    let c = bed.create_for(&hold).await;
    let live: Vec<bool> = [&a, &b, &c].iter().map(|id| bed.plane.is_live(id)).collect();
    assert_eq!(live, [true, false, true]);
    let error = soon(bed.plane.prompt(&b, Prompt::text("x", WhenBusy::Queue))).await.unwrap_err();
    assert!(matches!(error, PlaneError::NotFound { .. }), "{error}");
    assert!(bed.transcript(&b).exists());
    soon(bed.plane.resume_fork(&hold, b.as_str(), None)).await.unwrap();
}

#[tokio::test]
async fn l12_a_busy_session_is_not_evicted() {
    let bed = Bed::new();
    let hold = bed.plane.hold(capped(1));
    let id = bed.create_for(&hold).await;
    let run = bed.start(&id, "gate\ndone").await;
    let error = soon(bed.plane.create(&hold, Created::default())).await.unwrap_err();
    assert!(matches!(error, PlaneError::Overloaded(_)), "{error}");
    bed.open_gate();
    assert_eq!(soon(run.finished()).await.unwrap().reply, "done");
    bed.create_for(&hold).await;
    assert!(!bed.plane.is_live(&id));
}

/// The prompt is in the session's inbox, not yet taken, when the cap looks for somebody to let go.
#[tokio::test]
async fn l12_a_run_that_begins_while_room_is_made_is_not_cancelled() {
    let bed = Bed::new();
    let hold = bed.plane.hold(capped(1));
    let id = bed.create_for(&hold).await;
    let prompt = bed.plane.prompt(&id, Prompt::text("gate\ndone", WhenBusy::Refuse));
    let (run, created) = soon(async { tokio::join!(prompt, bed.plane.create(&hold, Created::default())) }).await;
    assert!(matches!(created, Err(PlaneError::Overloaded(_))), "{created:?}");
    bed.open_gate();
    assert_eq!(soon(run.unwrap().finished()).await.unwrap().stop, Stop::Completed);
    assert!(bed.plane.is_live(&id));
}

#[tokio::test]
async fn l12_many_at_once_do_not_pass_the_cap() {
    let bed = Bed::new();
    let hold = bed.plane.hold(capped(3));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (plane, hold) = (bed.plane.clone(), hold.clone());
        all.spawn(async move { plane.create(&hold, Created::default()).await.map(|session| session.row.id) });
    }
    let created = soon(all.join_all()).await;
    assert!(created.iter().all(|result| result.is_ok()), "{created:?}");
    let (_, live) = bed.plane.subscribe_node();
    assert_eq!(live.len(), 3);
}

#[tokio::test]
async fn l12_one_that_is_live_already_takes_room_like_any_other() {
    let bed = Bed::new();
    let hold = bed.plane.hold(capped(1));
    let (a, b) = (bed.create().await, bed.create().await);
    let held = async |id: &SessionId| soon(bed.plane.attach(&hold, id)).await;
    held(&a).await.unwrap();
    held(&a).await.unwrap();
    held(&b).await.unwrap();
    // The other party holds both. When it lets go, only what this one holds stays: the cap let the first go.
    assert!(bed.plane.is_live(&a) && bed.plane.is_live(&b));
    let run = bed.start(&b, "gate\ndone").await;
    let error = held(&a).await.unwrap_err();
    assert!(matches!(error, PlaneError::Overloaded(_)), "{error}");
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    // Two parties that each hold what the other wants do not wait for each other.
    let other = bed.plane.hold(capped(1));
    for _ in 0..20 {
        let both = async { tokio::join!(bed.plane.attach(&hold, &a), bed.plane.attach(&other, &b)) };
        let swapped = async { tokio::join!(bed.plane.attach(&hold, &b), bed.plane.attach(&other, &a)) };
        let (one, two) = soon(both).await;
        let (three, four) = soon(swapped).await;
        assert!(
            [&one, &two, &three, &four].iter().all(|attached| attached.is_ok()),
            "{one:?} {two:?} {three:?} {four:?}"
        );
    }
}

#[tokio::test]
async fn s29_the_idle_are_swept_and_the_busy_never() {
    let bed = Bed::new();
    let (ttl, sweep) = (Some(Duration::from_millis(1000)), Some(Duration::from_millis(50)));
    let hold = bed.plane.hold(HoldPolicy { name: "sweeper", idle_ttl: ttl, sweep, ..HoldPolicy::default() });
    let (mut feed, _) = bed.plane.subscribe_node();
    let busy = bed.create_for(&hold).await;
    let run = bed.start(&busy, "gate\ndone").await;
    let tasked = bed.create_for(&hold).await;
    bed.run(&tasked, "task work").await;
    let (idle, other) = (bed.create_for(&hold).await, bed.create().await);
    let words = node_until(&mut feed, is_detached(&idle)).await;
    assert_eq!(words.last().unwrap(), &format!("detached Idle {idle}"));
    assert!(bed.plane.is_live(&busy) && bed.plane.is_live(&tasked) && bed.plane.is_live(&other));
    // One for the run, one for the task; then both are idle, and go.
    bed.agent.gate.add_permits(2);
    assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Completed);
    while bed.plane.is_live(&busy) || bed.plane.is_live(&tasked) {
        node_until(&mut feed, |marker| is_detached(&busy)(marker) || is_detached(&tasked)(marker)).await;
    }
    assert!(bed.plane.is_live(&other), "C17: another party's session is none of its business");
}

/// Every use counts, not only a run; and only time that passed counts.
#[tokio::test]
async fn s29_use_keeps_a_session() {
    let bed = Bed::new();
    let minute = Duration::from_secs(60);
    let policy = HoldPolicy { name: "sweeper", idle_ttl: Some(10 * minute), ..HoldPolicy::default() };
    let hold = bed.plane.hold(policy);
    let id = bed.create_for(&hold).await;
    bed.run(&id, "so that its spool is open").await;
    let (mut feed, _) = bed.plane.subscribe_node();
    tokio::time::pause();
    for _ in 0..3 {
        tokio::time::sleep(9 * minute).await;
        bed.plane.tasks(&id).unwrap();
    }
    tokio::time::sleep(9 * minute).await;
    assert!(bed.plane.is_live(&id));
    tokio::time::sleep(2 * minute).await;
    tokio::time::resume();
    node_until(&mut feed, is_detached(&id)).await;
}

#[tokio::test]
async fn c17_a_party_lets_go_of_its_own_hold_only_and_an_explicit_detach_ends_all() {
    let bed = Bed::new();
    let (one, two) = (bed.plane.hold(capped(1)), bed.plane.hold(HoldPolicy::default()));
    let id = bed.create_for(&one).await;
    soon(bed.plane.attach(&two, &id)).await.unwrap();
    let next = bed.create_for(&one).await;
    assert!(bed.plane.is_live(&id), "the other party still holds it");
    soon(bed.plane.attach(&two, &next)).await.unwrap();
    soon(bed.plane.detach(&next, CloseReason::Explicit)).await.unwrap();
    assert!(!bed.plane.is_live(&next));
}

#[tokio::test]
async fn l13_who_asks_for_the_end_waits_for_it_though_the_first_who_asked_is_gone() {
    let agent = TestAgent { close: Duration::from_millis(50), ..TestAgent::default() };
    let bed = Bed::at(Arc::new(TempDir::new().unwrap()), agent, |_| ());
    let id = bed.create().await;
    bed.run(&id, "hello").await;
    let (mut feed, _) = bed.plane.subscribe_node();
    {
        let mut first = pin!(bed.plane.shutdown(Duration::from_secs(30)));
        assert!(waits(first.as_mut()).await, "the end takes a while");
    }
    soon(bed.plane.shutdown(Duration::ZERO)).await;
    let told = feed.try_next(99);
    let detached = |item: &NodeItem| matches!(item, NodeItem::Marker(Marker::Detached { .. }));
    assert!(told.iter().any(detached) && !bed.plane.is_live(&id));
    soon(bed.plane.shutdown(Duration::from_secs(30))).await;
}

#[tokio::test]
async fn l13_runs_may_end_then_everything_is_dropped() {
    let bed = Bed::new();
    let (quick, stuck, idle) = (bed.create().await, bed.create().await, bed.create().await);
    let (mut feed, _) = bed.plane.subscribe_node();
    let (ends, hangs) = (bed.start(&quick, "gate\ndone").await, bed.start(&stuck, "wait").await);
    let shutdown = bed.plane.shutdown(Duration::from_millis(300));
    let both = async { tokio::join!(shutdown, bed.plane.shutdown(Duration::from_secs(30)), async { bed.open_gate() }) };
    soon(both).await;
    assert_eq!(soon(ends.finished()).await.unwrap().stop, Stop::Completed);
    assert_eq!(soon(hangs.finished()).await.unwrap().stop, Stop::Aborted);
    for id in [&quick, &stuck, &idle] {
        assert!(!bed.plane.is_live(id));
    }
    let mut detached = Vec::new();
    while detached.len() < 3 {
        detached.extend(
            node_until(&mut feed, |marker| matches!(marker, triplane_core::feed::Marker::Detached { .. })).await,
        );
        detached.retain(|word| word.starts_with("detached"));
    }
    assert!(detached.iter().all(|word| word.starts_with("detached Shutdown")), "{detached:?}");
    for error in [
        bed.plane.create(&bed.hold, Created::default()).await.unwrap_err(),
        bed.plane.attach(&bed.hold, &idle).await.unwrap_err(),
        bed.plane.resume_fork(&bed.hold, "latest", None).await.unwrap_err(),
    ] {
        assert!(matches!(error, PlaneError::Closing), "{error}");
    }
}

#[tokio::test]
async fn l13_an_open_in_mid_io_cannot_bring_a_session_back() {
    let bed = Bed::new();
    let stored = bed.create().await;
    bed.run(&stored, "x").await;
    soon(bed.plane.detach(&stored, CloseReason::Explicit)).await.unwrap();
    // Each gets as far as a wait for the disk. One that the disk served at once is whole, and another is tried.
    let mut create = Box::pin(bed.plane.create(&bed.hold, Created::default()));
    while !waits(create.as_mut()).await {
        create = Box::pin(bed.plane.create(&bed.hold, Created::default()));
    }
    let mut attach = Box::pin(bed.plane.attach(&bed.hold, &stored));
    while !waits(attach.as_mut()).await {
        soon(bed.plane.detach(&stored, CloseReason::Explicit)).await.unwrap();
        attach = Box::pin(bed.plane.attach(&bed.hold, &stored));
    }
    let mut resume = Box::pin(bed.plane.resume_fork(&bed.hold, stored.as_str(), None));
    while !waits(resume.as_mut()).await {
        resume = Box::pin(bed.plane.resume_fork(&bed.hold, stored.as_str(), None));
    }
    soon(bed.plane.shutdown(Duration::ZERO)).await;
    assert!(matches!(soon(create).await, Err(PlaneError::Closing)));
    assert!(matches!(soon(attach).await, Err(PlaneError::Closing)));
    assert!(matches!(soon(resume).await, Err(PlaneError::Closing)));
    assert_eq!(bed.plane.subscribe_node().1, []);
    // Nor does its lock stay.
    let other = Bed::at(bed.temp.clone(), TestAgent::default(), |_| ());
    soon(other.plane.attach(&other.hold, &stored)).await.unwrap();
}

#[tokio::test]
async fn s16_s26_a_delete_ends_a_live_session_and_says_deleted_before_detached() {
    let bed = Bed::new();
    let (live, stored) = (bed.create().await, bed.create().await);
    bed.run(&live, "x").await;
    soon(bed.plane.detach(&stored, CloseReason::Explicit)).await.unwrap();
    let (mut feed, _) = bed.plane.subscribe_node();
    let run = bed.start(&live, "wait").await;
    soon(bed.plane.delete(&live, None)).await.unwrap();
    assert_eq!(soon(run.finished()).await.unwrap().stop, Stop::Aborted);
    let words = node_until(&mut feed, is_detached(&live)).await;
    let last = [format!("session_closed {live}"), format!("deleted {live}"), format!("detached Deleted {live}")];
    assert_eq!(words[words.len() - 3..], last);
    soon(bed.plane.delete(&stored, None)).await.unwrap();
    let deleted = |marker: &triplane_core::feed::Marker| matches!(marker, triplane_core::feed::Marker::Deleted { .. });
    assert_eq!(node_until(&mut feed, deleted).await, [format!("deleted {stored}")]);
    for id in [&live, &stored] {
        assert!(!bed.transcript(id).exists());
        assert!(matches!(soon(bed.plane.delete(id, None)).await, Err(PlaneError::NotFound { .. })));
        assert!(matches!(soon(bed.plane.get(id)).await, Err(PlaneError::NotFound { .. })));
    }
}

#[tokio::test]
async fn s16_a_session_of_another_process_is_not_deleted() {
    let bed = Bed::new();
    let other = Bed::at(bed.temp.clone(), TestAgent::default(), |_| ());
    let id = bed.create().await;
    let error = soon(other.plane.delete(&id, None)).await.unwrap_err();
    assert!(matches!(error, PlaneError::Locked(_)), "{error}");
    assert!(bed.transcript(&id).exists());
}
