//! Language servers: shared by a directory, heard after a change, asked, dying.

use super::house::{Case, House, Told, fake_lsp, living, mark, results, until_living};
use serde_json::json;
use std::time::Duration;
use triplane_native::lsp::LspServer;
use triplane_protocol::ir::Mode;

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        vec![$((concat!("lsp::", stringify!($case)), (|| Box::pin($case())) as Case)),*]
    };
}

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    cases![
        h25_sessions_of_a_directory_share_one_server,
        a_change_tells_the_problems_that_are_there_now,
        the_tools_ask_the_server,
        a_server_that_dies_or_talks_nonsense_fails_no_edit,
        a_server_that_is_silent_costs_a_bounded_wait,
        an_idle_server_is_stopped,
        starting_a_server_for_a_look_asks,
    ]
}

fn ok(told: &Told) -> &str {
    assert!(!told.error, "{told:?}");
    &told.text
}

async fn write(session: &mut super::house::Session, path: &str, content: &str) -> Told {
    session.call("write", json!({"path": path, "content": content})).await
}

async fn h25_sessions_of_a_directory_share_one_server() {
    let mark = mark();
    let house = House::new(Vec::new(), vec![fake_lsp("plain", &mark)]);
    let (mut a, mut b) = (house.session(Mode::Bypass).await, house.session(Mode::Bypass).await);
    let (one, other) = tokio::join!(write(&mut a, "a.x", "BAD"), write(&mut b, "b.x", "fine"));
    assert!(one.text.contains("error 1:1: it is bad") && !other.text.contains("error"), "{one:?} {other:?}");
    let symbols = json!({"path": "a.x"});
    let (one, other) = tokio::join!(a.call("symbols", symbols.clone()), b.call("symbols", symbols));
    assert_eq!((ok(&one), living(&mark)), (ok(&other), 1));
    let mut elsewhere = house.session_in(&house.dir("other"), Mode::Bypass).await;
    write(&mut elsewhere, "a.x", "").await;
    assert_eq!(living(&mark), 2, "another directory has its own");
    drop((a, b, elsewhere));
    house.close().await;
    until_living(&mark, 0).await;
}

async fn a_change_tells_the_problems_that_are_there_now() {
    let house = House::new(Vec::new(), vec![fake_lsp("plain", &mark())]);
    let mut session = house.session(Mode::Bypass).await;
    let told = write(&mut session, "a.x", "one\n  BAD\n").await;
    assert_eq!(ok(&told), "made a.x (10 bytes)\nproblems that fake finds in it now:\nerror 2:3: it is bad");
    let told = session.call("edit", json!({"path": "a.x", "old": "  BAD", "new": "good"})).await;
    assert_eq!(ok(&told), "changed a.x");
    assert_eq!(ok(&write(&mut session, "a.y", "BAD").await), "made a.y (3 bytes)");
    assert_eq!(ok(&write(&mut session, "../other/a.x", "BAD").await).lines().count(), 1);
}

async fn the_tools_ask_the_server() {
    let house = House::new(Vec::new(), vec![fake_lsp("plain", &mark())]);
    std::fs::write(house.dir("work").join("a.x"), "first\nlet sym = BAD\n").unwrap();
    let mut session = house.session(Mode::Bypass).await;
    assert_eq!(ok(&session.call("diagnostics", json!({"path": "a.x"})).await), "error 2:11: it is bad");
    assert_eq!(ok(&session.call("diagnostics", json!({})).await), "a.x\nerror 2:11: it is bad\n");
    let told = session.call("definition", json!({"path": "a.x", "symbol": "sym"})).await;
    assert_eq!(ok(&told), "a.x:2:5: let sym = BAD");
    assert!(ok(&session.call("symbols", json!({"path": "a.x"})).await).contains("function pid"));
    for (tool, input, part) in [
        ("definition", json!({"path": "a.x", "symbol": "zz"}), "symbol: it does not stand in the file"),
        ("definition", json!({"path": "a.x", "symbol": "sym", "line": 1}), "symbol: it does not stand in line 1"),
        ("diagnostics", json!({"path": "a.y"}), "no language server knows files of the kind `y`"),
        ("diagnostics", json!({"path": "../other/a.x"}), "lies outside the session's directory"),
        ("diagnostics", json!({"path": "none.x"}), "none.x"),
        ("symbols", json!({"path": "a.x", "query": "nothing"}), "found no symbols"),
        ("symbols", json!({}), "missing field `path`"),
    ] {
        let told = session.call(tool, input).await;
        assert!(told.error && told.text.contains(part), "{told:?}");
    }
    // The file changes behind the server's back: it is told before it is asked.
    std::fs::write(house.dir("work").join("a.x"), "fine\n").unwrap();
    assert_eq!(ok(&session.call("diagnostics", json!({"path": "a.x"})).await), "no problems");
}

async fn a_server_that_dies_or_talks_nonsense_fails_no_edit() {
    let mark = mark();
    let house = House::new(Vec::new(), vec![fake_lsp("plain", &mark)]);
    let mut session = house.session(Mode::Bypass).await;
    write(&mut session, "a.x", "").await;
    assert_eq!(ok(&write(&mut session, "a.x", "DIE").await), "replaced a.x (3 bytes)");
    until_living(&mark, 0).await;
    // Started again with the next file that needs it.
    let told = write(&mut session, "b.x", "BAD").await;
    assert!(ok(&told).contains("error 1:1"), "{told:?}");
    let house = House::new(Vec::new(), vec![fake_lsp("garbage", &mark)]);
    let mut session = house.session(Mode::Bypass).await;
    assert_eq!(ok(&write(&mut session, "a.x", "BAD").await), "made a.x (3 bytes)");
    let told = session.call("diagnostics", json!({"path": "a.x"})).await;
    assert!(told.error && told.text.contains("broke the protocol: something that is no header"), "{told:?}");
    let absent = LspServer::new("absent", "no-such-server-here", &[], &["x"]);
    let house = House::new(Vec::new(), vec![absent]);
    let mut session = house.session(Mode::Bypass).await;
    assert_eq!(ok(&write(&mut session, "a.x", "BAD").await), "made a.x (3 bytes)");
    let told = session.call("diagnostics", json!({"path": "a.x"})).await;
    assert!(told.error && told.text.contains("is not installed (no-such-server-here)"), "{told:?}");
}

async fn a_server_that_is_silent_costs_a_bounded_wait() {
    let mut server = fake_lsp("plain", &mark());
    server.diagnostics_wait = Duration::from_millis(300);
    server.request_timeout = Duration::from_millis(300);
    let house = House::new(Vec::new(), vec![server]);
    let mut session = house.session(Mode::Bypass).await;
    write(&mut session, "warm.x", "").await;
    let told = write(&mut session, "a.x", "QUIET sym").await;
    assert!(told.ms < 2000 && ok(&told) == "made a.x (9 bytes)", "{told:?}");
    let told = session.call("references", json!({"path": "a.x", "symbol": "sym"})).await;
    assert!(told.error && told.text == "fake: no answer within 0.3 s", "{told:?}");
    // A cancelled question is over at once.
    session.start("/tool diagnostics {\"path\":\"a.x\"}").await;
    session.until(|event| matches!(event, triplane_protocol::AgentEvent::ToolCallStart { .. })).await;
    session.cancel().await;
    assert_eq!(results(&session.idle().await)[0].text, "cancelled");
}

async fn an_idle_server_is_stopped() {
    let mark = mark();
    let mut server = fake_lsp("plain", &mark);
    server.idle = Duration::from_millis(500);
    let house = House::new(Vec::new(), vec![server]);
    let mut session = house.session(Mode::Bypass).await;
    write(&mut session, "a.x", "").await;
    until_living(&mark, 0).await;
    assert!(ok(&write(&mut session, "a.x", "BAD").await).contains("error"));
}

async fn starting_a_server_for_a_look_asks() {
    let mark = mark();
    let house = House::new(Vec::new(), vec![fake_lsp("plain", &mark)]);
    std::fs::write(house.dir("work").join("a.x"), "BAD").unwrap();
    let mut session = house.session(Mode::Plan).await;
    session.start("/tool diagnostics {\"path\":\"a.x\"}\n/tool diagnostics {\"path\":\"a.x\"}").await;
    let request = session.answer("allow_once").await;
    assert_eq!(request.title, "diagnostics a.x (starts a language server)");
    let told = results(&session.idle().await);
    assert_eq!(told.iter().map(ok).collect::<Vec<_>>(), ["error 1:1: it is bad", "error 1:1: it is bad"]);
}
