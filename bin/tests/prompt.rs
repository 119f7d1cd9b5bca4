//! `triplane prompt` and `triplane sessions` as a script sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use support::{Ended, Fixture, Served, run};

async fn check(args: &[&str], code: i32, stdout: &str) -> Ended {
    let ended = Fixture::new().run(args).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), stdout), "{ended:?}");
    ended
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_reply_goes_to_stdout_and_a_completed_run_is_zero() {
    let ended = check(&["prompt", "hello there"], 0, "hello there\n").await;
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn a_failed_run_is_one_and_says_why_on_stderr() {
    let ended = check(&["prompt", "/fail overloaded"], 1, "").await;
    assert!(ended.stderr.contains("error (overloaded)"), "{ended:?}");
}

#[tokio::test]
async fn without_a_terminal_a_tool_that_asks_is_refused() {
    let fixture = Fixture::new();
    let script = "/tool write {\"path\":\"x\",\"content\":\"y\"}\n/say done";
    let ended = fixture.run(&["prompt", script]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
    assert!(ended.stderr.contains("denied"), "{ended:?}");
    assert!(!fixture.work().join("x").exists());
}

#[tokio::test]
async fn a_mode_that_asks_nothing_lets_it_through() {
    let fixture = Fixture::new();
    let script = "/tool write {\"path\":\"x\",\"content\":\"y\"}\n/say done";
    let ended = fixture.run(&["prompt", "--mode", "accept-edits", script]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("+y"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(fixture.work().join("x")).unwrap(), "y");
}

#[tokio::test]
async fn json_is_one_event_a_line_from_busy_to_idle() {
    let ended = Fixture::new().run(&["prompt", "--json", "hi"]).await;
    let events = lines(&ended);
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["busy"], true);
    let last = &events[events.len() - 2..];
    assert_eq!((&last[0]["type"], &last[0]["reply"]), (&"final".into(), &"hi".into()));
    assert_eq!((&last[1]["type"], &last[1]["busy"]), (&"status".into(), &false.into()));
}

#[tokio::test]
async fn a_dash_reads_stdin() {
    let fixture = Fixture::new();
    let ended = run(fixture.command(&["prompt", "-"]), "from a pipe").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "from a pipe\n"), "{ended:?}");
    let ended = run(fixture.command(&["prompt", "-"]), "\n").await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[tokio::test]
async fn escapes_of_a_model_do_not_reach_the_terminal() {
    check(&["prompt", "/say a\u{1b}[31mb\u{7}"], 0, "a\\u{1b}[31mb\\u{7}\n").await;
}

#[tokio::test]
async fn an_interrupt_cancels_the_run_and_leaves_a_transcript() {
    let fixture = Fixture::new();
    let mut served = Served::start(fixture.command(&["prompt", "--json", "/say begun\n/sleep 60000"]));
    while served.line().await["type"] != "llm_delta" {}
    served.signal(Signal::INT);
    let ended = served.end().await;
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let last = lines(&ended);
    assert!(last.iter().any(|event| event["stopped_reason"] == "aborted"), "{last:?}");
    let shown = fixture.run(&["sessions", "show", "latest", "--json"]).await;
    assert_eq!(lines(&shown)[0]["messages"][0]["role"], "user", "{shown:?}");
}

#[tokio::test]
async fn sessions_are_listed_shown_and_gone_on_with() {
    let fixture = Fixture::new();
    fixture.run(&["prompt", "first"]).await;
    let went_on = fixture.run(&["prompt", "--session", "latest", "second"]).await;
    assert_eq!(went_on.stdout, "second\n", "{went_on:?}");
    let listed = fixture.run(&["sessions", "list", "--json"]).await;
    let rows = lines(&listed);
    assert_eq!(rows.len(), 1, "{listed:?}");
    let id = rows[0]["id"].as_str().unwrap();
    let shown = fixture.run(&["sessions", "show", &id[..30]]).await;
    let told = ["user:\n  first", "assistant:\n  first", "user:\n  second", "assistant:\n  second"];
    assert!(told.iter().all(|part| shown.stdout.contains(part)), "{shown:?}");
    let nothing = fixture.run(&["sessions", "show", "no-such"]).await;
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(1), ""), "{nothing:?}");
    assert!(nothing.stderr.contains("no session `no-such`"), "{nothing:?}");
}
