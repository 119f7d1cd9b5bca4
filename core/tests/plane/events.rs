//! Events: their order and numbers over runs and lives, replay by cursor, and the node's feed. Clauses: H13–H16, S22–S27, SR-12.

use crate::support::{Bed, TestAgent, is_detached, kinds, node_until, seqs, soon};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use triplane_core::plane::{Created, Prompt, WhenBusy};
use triplane_protocol::{AgentEvent, event::CloseReason};

#[tokio::test]
async fn h14_a_run_tells_busy_first_and_idle_last() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    let run = bed.start(&id, "two words").await;
    assert_eq!(run.seq, 1);
    let result = soon(run.finished()).await.unwrap();
    let read = reader.until_idle().await;
    assert_eq!(kinds(&read), ["status", "user_message", "llm_delta", "llm_delta", "final", "status"]);
    assert!(matches!(read[0].event, AgentEvent::Status { busy: true, .. }));
    assert_eq!(seqs(&read), [1, 2, 3, 4, 5, 6]);
    assert_eq!(result.last_seq, 6);
}

#[tokio::test]
async fn sr12_whoever_hears_idle_can_prompt_at_once() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    let (plane, task_id) = (bed.plane.clone(), id.clone());
    let eager = tokio::spawn(async move {
        for _ in 0..50 {
            reader.until_idle().await;
            assert!(!plane.get(&task_id).await.unwrap().row.busy);
            plane.prompt(&task_id, Prompt::text("again", WhenBusy::Refuse)).await.unwrap();
        }
    });
    bed.start(&id, "first").await;
    soon(eager).await.unwrap();
}

#[tokio::test]
async fn h16_seqs_count_over_runs_detach_attach_and_a_clean_restart() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    bed.run(&id, "one").await;
    bed.run(&id, "two").await;
    // The same reader reads on over unload and load (H13).
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    bed.run(&id, "three").await;
    for _ in 0..3 {
        reader.until_idle().await;
    }
    assert_eq!(reader.gaps, []);
    let (last, epoch) = (reader.subscription.position(), reader.subscription.epoch());
    assert_eq!(last, 5 + 5 + 1 + 5);
    drop(reader);
    let bed = bed.restart().await;
    assert_eq!(soon(bed.plane.get(&id)).await.unwrap().seq, last + 1, "its session_closed came last");
    // All of it again, from another life, and on into this one.
    let mut reader = bed.reader(&id).await;
    reader.subscription.seek(0);
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    bed.run(&id, "four").await;
    let mut read = Vec::new();
    for _ in 0..4 {
        read.extend(seqs(&reader.until_idle().await));
    }
    assert_eq!(read, (1..=last + 1 + 5).collect::<Vec<_>>());
    assert_eq!((reader.gaps, reader.subscription.epoch()), (vec![], epoch));
}

/// The process dies in the middle of a run: nothing of it gets to say goodbye.
#[test]
fn h16_after_an_unclean_end_no_seq_is_used_twice_and_the_hole_is_told() {
    let temp = Arc::new(TempDir::new().unwrap());
    let first = tokio::runtime::Runtime::new().unwrap();
    let (id, last) = first.block_on(async {
        let bed = Bed::at(temp.clone(), TestAgent::default(), |_| ());
        let id = bed.create().await;
        let mut reader = bed.reader(&id).await;
        bed.run(&id, "one").await;
        reader.until_idle().await;
        bed.start(&id, "two\nwait").await;
        let last = reader.to("llm_delta").await.seq;
        (id, last)
    });
    first.shutdown_timeout(Duration::from_secs(10));
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        let bed = Bed::at(temp, TestAgent::default(), |_| ());
        let mut reader = bed.reader(&id).await;
        reader.subscription.seek(3);
        let detail = soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
        assert!(!detail.row.busy);
        let run = bed.start(&id, "three").await;
        assert!(run.seq > last, "{} was used already", run.seq);
        let begun = run.seq;
        soon(run.finished()).await.unwrap();
        let old = reader.until(|event| matches!(event, AgentEvent::LlmDelta { text } if text == "two")).await;
        assert_eq!(seqs(&old), (4..=last).collect::<Vec<_>>());
        let new = reader.until_idle().await;
        assert_eq!(new[0].seq, begun);
        assert_eq!(reader.gaps.len(), 1, "one hole, told exactly");
        assert_eq!((reader.gaps[0].from, reader.gaps[0].to), (last + 1, begun - 1));
        soon(bed.plane.shutdown(Duration::ZERO)).await;
    });
}

#[tokio::test]
async fn h15_a_cursor_is_replayed_from_the_spool_and_the_ring_without_a_joint() {
    let bed = Bed::with(|config| config.limits.ring_events = 8);
    let id = bed.create().await;
    bed.run(&id, "repeat 300").await;
    bed.run(&id, "done").await;
    let total = 300 + 4 + 5;
    for after in [0, 1, 5, total - 9, total - 8, total - 7, total - 1] {
        let mut reader = bed.reader(&id).await;
        reader.subscription.seek(after);
        let read = reader.until(|event| event.kind() == "status" && after < total).await;
        let mut all = seqs(&read);
        while *all.last().unwrap() < total {
            all.extend(seqs(&reader.until(|event| event.kind() == "status").await));
        }
        assert_eq!((all.len() as u64, all[0], reader.gaps), (total - after, after + 1, vec![]), "after {after}");
    }
    // Ahead of the log: told, then live.
    let mut reader = bed.reader(&id).await;
    reader.subscription.seek(total + 100);
    let gap = soon(reader.subscription.next(9)).await.gap.unwrap();
    assert_eq!((gap.from, gap.to), (total + 1, total + 100));
    bed.run(&id, "next").await;
    assert_eq!(soon(reader.subscription.next(1)).await.entries[0].seq, total + 1);
}

#[tokio::test]
async fn h15_a_reader_that_reads_while_it_is_written_misses_nothing() {
    let bed = Bed::with(|config| config.limits.ring_events = 16);
    let id = bed.create().await;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut reader = bed.reader(&id).await;
        readers.spawn(async move {
            let read = reader.until_idle().await;
            (read.len(), reader.gaps.len())
        });
    }
    bed.run(&id, "repeat 2000").await;
    for (count, gaps) in soon(readers.join_all()).await {
        assert_eq!((count, gaps), (2004, 0));
    }
}

#[tokio::test]
async fn s24_s26_the_nodes_markers_mirror_the_live_map_and_detached_comes_last() {
    let bed = Bed::new();
    let early = bed.create().await;
    let (mut feed, live) = bed.plane.subscribe_node();
    assert_eq!(live, std::slice::from_ref(&early));
    let id = bed.create().await;
    bed.run(&id, "hi").await;
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    let words = node_until(&mut feed, is_detached(&id)).await;
    let run = ["status", "user_message", "llm_delta", "final", "status"];
    let mut expected = vec![format!("created {id}")];
    expected.extend(run.iter().map(|word| format!("{word} {id}")));
    expected.extend([format!("session_closed {id}"), format!("detached Explicit {id}")]);
    assert_eq!(words, expected);
    // A load that fails is no marker; one that works is.
    std::fs::write(
        bed.transcript(&id),
        "{\"type\":\"session\",\"v\":99,\"id\":\"x\",\"agent\":\"test\",\"cwd\":\"/\",\"created\":1}\n",
    )
    .unwrap();
    assert!(soon(bed.plane.attach(&bed.hold, &id)).await.is_err());
    soon(bed.plane.detach(&early, CloseReason::Explicit)).await.unwrap();
    soon(bed.plane.attach(&bed.hold, &early)).await.unwrap();
    soon(bed.plane.detach(&early, CloseReason::Idle)).await.unwrap();
    let mut words = node_until(&mut feed, is_detached(&early)).await;
    words.extend(node_until(&mut feed, is_detached(&early)).await);
    let markers: Vec<&String> = words.iter().filter(|word| !word.starts_with("session_closed")).collect();
    assert_eq!(
        markers,
        [&format!("detached Explicit {early}"), &format!("attached {early}"), &format!("detached Idle {early}")]
    );
    assert_eq!(bed.plane.subscribe_node().1, []);
}

#[tokio::test]
async fn s25_a_fork_is_created_and_its_source_untouched() {
    let bed = Bed::new();
    let id = soon(bed.plane.create(&bed.hold, Created::default())).await.unwrap().row.id;
    bed.run(&id, "x").await;
    let (mut feed, _) = bed.plane.subscribe_node();
    let fork = soon(bed.plane.fork(&bed.hold, &id, None)).await.unwrap().session;
    soon(bed.plane.detach(&fork.row.id, CloseReason::Explicit)).await.unwrap();
    let words = node_until(&mut feed, is_detached(&fork.row.id)).await;
    assert_eq!(words[0], format!("created {}", fork.row.id));
    assert!(words.iter().all(|word| !word.ends_with(id.as_str())), "{words:?}");
    assert_eq!(fork.seq, 0, "a fork's events are its own");
}
