//! Forwarders over a made-up log: order, batches, exact losses, and their ends.

use super::*;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use triplane_core::feed::Gap;
use triplane_protocol::event::CloseReason;

/// A log without a bound.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Arc<Entry>>>>, Arc<Notify>);

struct Reader {
    log: Log,
    position: u64,
    gap: Option<Gap>,
}

impl Log {
    fn entries(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.0.lock().unwrap()
    }

    fn publish(&self, event: AgentEvent) {
        let mut entries = self.entries();
        let seq = entries.len() as u64 + 1;
        entries.push(Arc::new(Entry::new(seq, event)));
        self.1.notify_waiters();
    }

    fn deltas(&self, count: usize) {
        (0..count).for_each(|_| self.publish(AgentEvent::LlmDelta { text: "x".repeat(100) }));
    }
}

impl Cursor for Reader {
    async fn next(&mut self, max: usize) -> Batch {
        loop {
            let log = self.log.clone();
            let published = log.1.notified();
            let batch = self.try_next(max);
            if !batch.is_empty() {
                return batch;
            }
            published.await;
        }
    }

    fn try_next(&mut self, max: usize) -> Batch {
        let gap = self.gap.take();
        self.position = gap.map_or(self.position, |gap| gap.to);
        let from = self.position as usize;
        let entries: Vec<_> = self.log.entries().iter().skip(from).take(max).cloned().collect();
        self.position += entries.len() as u64;
        Batch { gap, entries }
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn last(&self) -> u64 {
        self.log.entries().len() as u64
    }

    fn seek(&mut self, after: u64) {
        self.position = after;
    }
}

struct Scene {
    log: Log,
    outbox: Arc<Outbox>,
    drain: CancellationToken,
    progress: watch::Receiver<u64>,
    task: tokio::task::JoinHandle<()>,
}

fn scene(gap: Option<Gap>) -> Scene {
    let (log, drain) = (Log::default(), CancellationToken::new());
    let outbox = Arc::new(Outbox::new(1 << 20, 16 << 10));
    let reader = Reader { log: log.clone(), position: 0, gap };
    let id = SessionId::parse("s").unwrap();
    let (forward, progress) = SessionForward::new(id, reader, outbox.clone(), drain.clone());
    Scene { log, outbox, drain, progress, task: tokio::spawn(forward.run()) }
}

impl Scene {
    /// What can be read now: seqs, and `lost N` where something is missing.
    fn read(&self) -> Vec<String> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let mut piece = Vec::new();
            self.outbox.take(&mut piece);
            bytes.extend(piece);
            if bytes.len() == before {
                break;
            }
        }
        let mut out = Vec::new();
        for line in String::from_utf8(bytes).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["method"], &line["params"]["sessionId"]), (&"session.event".into(), &"s".into()));
            out.extend(line["params"]["events"].as_array().unwrap().iter().map(|event| event["seq"].to_string()));
            out.extend(line["params"]["lagged"].as_u64().map(|lost| format!("lost {lost}")));
        }
        out
    }

    /// Reads until `last` was told, in virtual time.
    async fn read_to(&mut self, last: u64) -> Vec<String> {
        let mut out = Vec::new();
        while *self.progress.borrow() < last {
            out.extend(self.read());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        out.extend(self.read());
        out
    }
}

fn seqs(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
    range.map(|seq| seq.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_gets_all_however_large_the_burst() {
    let mut scene = scene(None);
    scene.log.deltas(5000);
    assert_eq!(scene.read_to(5000).await, seqs(1..=5000));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_is_told_exactly_what_it_lost_and_where() {
    let mut scene = scene(None);
    scene.log.deltas(2000);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let delivered = *scene.progress.borrow();
    assert!(delivered < 2000 - WINDOW, "{delivered}");

    let lost = 2000 - WINDOW - delivered;
    let mut expected = seqs(1..=delivered);
    expected.push(format!("lost {lost}"));
    expected.extend(seqs(2000 - WINDOW + 1..=2000));
    assert_eq!(scene.read_to(2000).await, expected);

    scene.log.deltas(3);
    assert_eq!(scene.read_to(2003).await, seqs(2001..=2003));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_within_the_window_loses_nothing() {
    let mut scene = scene(None);
    scene.log.deltas(500);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.read_to(500).await, seqs(1..=500));
}

#[tokio::test(start_paused = true)]
async fn what_the_log_itself_lost_is_told_too() {
    let mut scene = scene(Some(Gap { from: 1, to: 4 }));
    scene.log.deltas(6);
    assert_eq!(scene.read_to(6).await, ["lost 4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_session_even_if_it_goes_on() {
    let scene = scene(None);
    scene.log.deltas(1);
    scene.log.publish(AgentEvent::SessionClosed { reason: CloseReason::Idle });
    scene.log.deltas(1);
    scene.task.await.unwrap();
    assert_eq!(Scene { task: tokio::spawn(async {}), ..scene }.read(), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_it_hands_in_what_is_there() {
    let mut scene = scene(None);
    scene.log.deltas(2);
    scene.drain.cancel();
    assert_eq!(scene.read_to(2).await, ["1", "2"]);
    scene.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_nobody_reads_any_more() {
    let scene = scene(None);
    scene.log.deltas(2000);
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.outbox.close();
    scene.task.await.unwrap();
}

#[test]
fn items_of_the_node_share_a_line_while_they_are_of_one_session() {
    let id = |text: &str| SessionId::parse(text).unwrap();
    let event = |text: &str, seq| {
        NodeItem::Event(id(text), Arc::new(Entry::new(seq, AgentEvent::Status { busy: true, outcome: None })))
    };
    let marker = NodeItem::Marker(Marker::Detached { id: id("a"), agent: "n".into(), reason: CloseReason::Explicit });
    let items =
        [event("a", 1), event("a", 2), event("b", 1), event("a", 3), marker, NodeItem::Lagged { id: None, count: 7 }];
    let mut lines = Vec::new();
    node_lines(&items, |line| {
        let line: Value = serde_json::from_slice(&line).unwrap();
        let params = &line["params"];
        let seqs: Vec<String> =
            params["events"].as_array().into_iter().flatten().map(|event| event["seq"].to_string()).collect();
        lines.push(format!(
            "{} {} {}{}",
            params["type"].as_str().unwrap(),
            params["sessionId"],
            seqs.join(","),
            params["count"]
        ));
    });
    assert_eq!(
        lines,
        [
            "sessionEvents \"a\" 1,2null",
            "sessionEvents \"b\" 1null",
            "sessionEvents \"a\" 3null",
            "detached \"a\" null",
            "lagged null 7",
        ]
    );
}
