//! The dispatcher over a made-up wire: order, batches, queues, cancel and panics.

use super::*;
use schemars::JsonSchema;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Notify;

const DEADLINE: Duration = Duration::from_secs(5);

fn nothing(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::default()
}

static KEYED: Row = row("keyed", Queue::BySession);
static FREE: Row = row("free", Queue::None);
static STARTS: Row = row("starts", Queue::Start);

const fn row(name: &'static str, queue: Queue) -> Row {
    Row { name, doc: "", clauses: &[], queue, errors: &[], built: true, params: nothing, result: nothing }
}

/// `free` answers at once, `keyed` and `starts` when `gate` opens; all with what they were given. `starts` passes its turn on
/// at once when it says "pass".
#[derive(Default)]
struct Echo {
    gate: Notify,
    sent: Arc<Mutex<Vec<String>>>,
}

#[derive(serde::Deserialize, JsonSchema)]
struct Params {
    session: Option<String>,
    say: Option<Value>,
}

fn params(text: Option<&str>) -> Params {
    serde_json::from_str(text.unwrap_or("{}")).unwrap()
}

impl Wire for Echo {
    type Method = bool;

    fn lookup(&self, name: &str) -> Option<(bool, &'static Row)> {
        match name {
            "keyed" => Some((true, &KEYED)),
            "starts" => Some((true, &STARTS)),
            "free" => Some((false, &FREE)),
            _ => None,
        }
    }

    fn key(&self, _: bool, text: Option<&str>) -> Option<String> {
        params(text).session
    }

    fn lasts(&self, _: bool) -> bool {
        false
    }

    fn arms(&self, _: bool) -> bool {
        true
    }

    async fn call(self: Arc<Self>, keyed: bool, call: Call) -> Result<Reply, Failure> {
        let say = params(call.params.as_deref()).say.unwrap_or_default();
        if say == "pass" {
            call.turn.pass_on();
        }
        if keyed {
            self.gate.notified().await;
        }
        assert_ne!(say, "panic");
        let sent = self.sent.clone();
        let text = say.to_string();
        let result = RawValue::from_string(text.clone()).unwrap();
        let then: Then = Box::new(move || sent.lock().unwrap().push(text));
        Ok(Reply { result, then: Some(then) })
    }
}

fn peer() -> (Arc<Echo>, SessionQueues, Peer<Echo>) {
    let wire = Arc::new(Echo::default());
    let queues = SessionQueues::new(3);
    (wire.clone(), queues.clone(), Peer::new(wire, queues))
}

fn request(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// The reply in short: an array of `id=result` and `id!code`.
fn short(answer: &Answer) -> String {
    let one = |reply: &Value| match reply.get("result") {
        Some(result) => format!("{}={result}", reply["id"]),
        None => format!("{}!{}", reply["id"], reply["error"]["data"]["code"].as_str().unwrap()),
    };
    match answer.bytes.as_deref().map(|bytes| serde_json::from_slice(bytes).unwrap()) {
        None => "-".into(),
        Some(Value::Array(replies)) => format!("[{}]", replies.iter().map(one).collect::<Vec<_>>().join(" ")),
        Some(reply) => one(&reply),
    }
}

async fn ask(peer: &Peer<Echo>, text: &str) -> String {
    match peer.take(text) {
        None => "nothing".into(),
        Some(work) => short(&tokio::time::timeout(DEADLINE, work.run()).await.unwrap()),
    }
}

#[tokio::test]
async fn one_message_one_answer() {
    let (_, _, peer) = peer();
    let table = [
        (request(1, "free", r#"{"say":1}"#), "1=1"),
        (request(1, "gone", "{}"), "1!unsupported"),
        (request(1, "free", r#"{"say":"panic"}"#), "1!internal"),
        (r#"{"jsonrpc":"2.0","method":"gone"}"#.into(), "nothing"),
        (r#"{"jsonrpc":"2.0","method":"free"}"#.into(), "-"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1}"#.into(), "nothing"),
        ("{".into(), "null!invalid"),
        (
            format!("[{},1,{}]", request(1, "free", r#"{"say":1}"#), request(2, "gone", "{}")),
            "[1=1 null!invalid 2!unsupported]",
        ),
        (r#"[{"jsonrpc":"2.0","method":"free"},{"jsonrpc":"2.0","method":"gone"}]"#.into(), "-"),
    ];
    for (text, expected) in table {
        assert_eq!(ask(&peer, &text).await, expected, "{text}");
    }
}

#[tokio::test]
async fn what_follows_a_reply_waits_until_it_was_sent() {
    let (wire, _, peer) = peer();
    let answer = peer.take(&request(1, "free", r#"{"say":7}"#)).unwrap().run().await;
    assert!(wire.sent.lock().unwrap().is_empty());
    answer.sent();
    assert_eq!(*wire.sent.lock().unwrap(), ["7"]);
}

#[tokio::test]
async fn a_line_keeps_order_until_the_reply_is_sent_and_others_pass() {
    let (wire, queues, peer) = peer();
    let keyed = |id, session: &str| request(id, "keyed", &format!(r#"{{"session":"{session}","say":{id}}}"#));
    let first = peer.take(&keyed(1, "a")).unwrap();
    let second = tokio::spawn(peer.take(&keyed(2, "a")).unwrap().run());
    assert_eq!(ask(&peer, &request(3, "free", "{}")).await, "3=null");

    wire.gate.notify_one();
    let first = tokio::time::timeout(DEADLINE, first.run()).await.unwrap();
    assert_eq!(short(&first), "1=1");
    wire.gate.notify_one();
    tokio::task::yield_now().await;
    assert!(!second.is_finished(), "its turn comes when the reply before it was sent");
    first.sent();
    let second = tokio::time::timeout(DEADLINE, second).await.unwrap().unwrap();
    assert_eq!(short(&second), "2=2");
    second.sent();
    assert!(queues.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_dropped_place_in_the_middle_does_not_let_the_next_one_pass() {
    let (wire, queues, peer) = peer();
    let keyed = |id| request(id, "keyed", &format!(r#"{{"session":"a","say":{id}}}"#));
    let first = tokio::spawn(peer.take(&keyed(1)).unwrap().run());
    let second = peer.take(&keyed(2)).unwrap();
    let third = tokio::spawn(peer.take(&keyed(3)).unwrap().run());
    assert_eq!(ask(&peer, &keyed(4)).await, "4!overloaded");
    drop(second);
    tokio::task::yield_now().await;
    wire.gate.notify_one();
    assert_eq!(short(&tokio::time::timeout(DEADLINE, first).await.unwrap().unwrap()), "1=1");
    wire.gate.notify_one();
    assert_eq!(short(&tokio::time::timeout(DEADLINE, third).await.unwrap().unwrap()), "3=3");
    assert!(queues.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_cancel_reaches_those_that_wait() {
    let (wire, queues, peer) = peer();
    let keyed = |id| request(id, "keyed", &format!(r#"{{"session":"a","say":{id}}}"#));
    let first = peer.take(&keyed(1)).unwrap();
    if let Kind::Single(job) = &first.0 {
        job.call.armed.begun();
    }
    let second = peer.take(&keyed(2)).unwrap();
    assert_eq!(queues.cancel_waiting("a"), 1);
    assert_eq!(queues.cancel_waiting("a"), 0);
    assert_eq!(queues.cancel_waiting("b"), 0);
    wire.gate.notify_one();
    let first = tokio::time::timeout(DEADLINE, first.run()).await.unwrap();
    assert_eq!(short(&first), "1=1");
    first.sent();
    assert_eq!(short(&tokio::time::timeout(DEADLINE, second.run()).await.unwrap()), "2!cancelled");
}

#[tokio::test]
async fn a_batch_runs_beside_itself_and_in_line_with_itself() {
    let (wire, queues, peer) = peer();
    let keyed = |id, session: &str| request(id, "keyed", &format!(r#"{{"session":"{session}","say":{id}}}"#));
    let batch = format!("[{},{},{}]", keyed(1, "a"), keyed(2, "a"), keyed(3, "b"));
    for _ in 0..3 {
        let wire = wire.clone();
        tokio::spawn(async move { wire.gate.notify_one() });
    }
    let work = peer.take(&batch).unwrap();
    let running = tokio::spawn(work.run());
    while !running.is_finished() {
        wire.gate.notify_one();
        tokio::task::yield_now().await;
    }
    assert_eq!(short(&running.await.unwrap()), "[1=1 2=2 3=3]");
    assert!(queues.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_replies_to_a_batch_have_a_limit() {
    let (_, _, peer) = peer();
    let big = format!(r#"{{"say":"{}"}}"#, "x".repeat(9 << 20));
    let batch =
        format!("[{},{},{}]", request(1, "free", &big), request(2, "free", &big), request(3, "free", r#"{"say":3}"#));
    let answer = ask(&peer, &batch).await;
    assert!(answer.starts_with("[1=\"xxx"));
    assert!(answer.ends_with("\" 2!too_large 3=3]"), "{}", &answer[answer.len() - 40..]);
}

/// Three calls of one session and one of another; which have started by the time that all have had a chance to.
#[tokio::test]
async fn starts_wait_for_the_end_of_the_call_before_unless_it_passes_its_turn_on() {
    let (wire, queues, peer) = peer();
    let starts = |id, session: &str, say: &str| {
        let params = format!(r#"{{"session":"{session}","say":"{say}"}}"#);
        tokio::spawn(peer.take(&request(id, "starts", &params)).unwrap().run())
    };
    let calls = [starts(1, "a", "pass"), starts(2, "a", "x"), starts(3, "a", "y")];
    for expected in ["1=\"pass\"", "2=\"x\"", "3=\"y\""] {
        tokio::task::yield_now().await;
        assert_eq!(ask(&peer, &request(4, "free", r#"{"session":"a"}"#)).await, "4=null");
        let at = expected[..1].parse::<usize>().unwrap() - 1;
        assert!(!calls[at].is_finished());
        wire.gate.notify_one();
        while !calls[at].is_finished() {
            tokio::task::yield_now().await;
        }
    }
    let mut answers = Vec::new();
    for call in calls {
        // Kept unsent: a turn does not last until the reply is on its way.
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers.iter().map(short).collect::<Vec<_>>(), ["1=\"pass\"", "2=\"x\"", "3=\"y\""]);
    assert!(queues.lines.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_of_starts_does_not_wait_for_its_own_reply() {
    let (wire, queues, peer) = peer();
    let starts = |id| request(id, "starts", &format!(r#"{{"session":"a","say":{id}}}"#));
    let running = tokio::spawn(peer.take(&format!("[{},{}]", starts(1), starts(2))).unwrap().run());
    while !running.is_finished() {
        wire.gate.notify_one();
        tokio::task::yield_now().await;
    }
    let answer = running.await.unwrap();
    assert_eq!(short(&answer), "[1=1 2=2]");
    assert!(queues.lines.lock().unwrap().is_empty());
}
