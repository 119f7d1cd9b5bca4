//! Event streams: what is sent, where a stream begins, what is told of a loss, and how it ends. Clauses: H13–H17, C14.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::{DEADLINE, Event, Server, TOKEN, config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use triplane_http::{HttpConfig, HttpLimits};

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

fn ids(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.id.unwrap()).collect()
}

#[tokio::test]
async fn the_head_comes_at_once_and_says_what_it_is() {
    let server = Server::start().await;
    let s = server.create().await;
    let started = Instant::now();
    let mut events = server.events(&s, "", "origin: http://localhost:1\r\n").await;
    assert!(started.elapsed() < Duration::from_millis(500), "before the first event");
    assert_eq!(events.head.status, 200);
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("access-control-allow-origin", "http://localhost:1"),
    ] {
        assert_eq!(events.head.header(name), Some(value), "{name}");
    }
    assert!(events.fill().await, "`retry:`");
    let head = server.call("HEAD", &format!("/v1/sessions/{s}/events"), "").await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    server.end().await;
}

#[tokio::test]
async fn a_runs_events_come_in_order_each_with_its_seq() {
    let server = Server::start().await;
    let s = server.create().await;
    let (mut one, mut two) = (server.events(&s, "", "").await, server.events(&s, "", "").await);
    server.run(&s, "say 200").await;
    let seen = one.until_idle().await;
    assert_eq!(kinds(&seen)[..2], ["status", "user_message"]);
    assert_eq!(kinds(&seen)[seen.len() - 2..], ["final", "status"]);
    assert_eq!(seen.iter().filter(|event| event.kind == "llm_delta").count(), 200);
    let first = seen[0].id.unwrap();
    assert_eq!(ids(&seen), (first..first + seen.len() as u64).collect::<Vec<_>>());
    for event in &seen {
        assert_eq!((&event.data["seq"], &event.data["session"]), (&json!(event.id), &json!(s)));
        assert_eq!(event.data["type"], json!(event.kind));
    }
    assert_eq!(two.until_idle().await, seen, "every reader sees the same");
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice() {
    let server = Server::start().await;
    let s = server.create().await;
    let mut live = server.events(&s, "", "").await;
    server.run(&s, "say 20").await;
    let all = live.until_idle().await;
    let middle = all[7].id.unwrap();
    let rest = all[8..].to_vec();
    for (query, header) in [
        (format!("&after={middle}"), String::new()),
        (String::new(), format!("last-event-id: {middle}\r\n")),
        ("&after=1".to_owned(), format!("last-event-id: {middle}\r\n")),
    ] {
        let mut again = server.events(&s, &query, &header).await;
        assert_eq!(again.until_idle().await, rest, "{query} {header}");
    }
    let mut fresh = server.events(&s, "", "").await;
    server.run(&s, "say 1").await;
    assert!(fresh.until_idle().await[0].id > all.last().unwrap().id, "without a cursor only new events come");
    server.end().await;
}

#[tokio::test]
async fn a_loss_is_told_once_without_an_id() {
    let server = Server::start().await;
    let s = server.create().await;
    server.run(&s, "hi").await;
    let view = server.call("GET", &format!("/v1/sessions/{s}"), "").await.json();
    let last = view["seq"].as_u64().unwrap();
    let mut ahead = server.events(&s, "&after=1000000", "").await;
    let gap = ahead.next().await.unwrap();
    assert_eq!((gap.id, gap.kind.as_str()), (None, "replay_gap"));
    assert_eq!(gap.data, json!({"from": last + 1, "to": 1_000_000, "epoch": view["epoch"]}));
    server.run(&s, "more").await;
    assert_eq!(ids(&ahead.until_idle().await)[0], last + 1);
    server.end().await;
}

#[tokio::test]
async fn a_stream_stays_open_over_unload_and_load() {
    let server = Server::start().await;
    let s = server.create().await;
    let mut events = server.events(&s, "", "").await;
    server.run(&s, "hi").await;
    events.until_idle().await;
    server.call("DELETE", &format!("/v1/sessions/{s}"), "").await;
    let closed = events.until("session_closed").await.pop().unwrap();
    assert_eq!(closed.data["reason"], "explicit");
    let mut unloaded = server.events(&s, "", "").await;
    server.run(&s, "again").await;
    let after = events.until_idle().await;
    assert!(after[0].id > closed.id);
    assert_eq!(unloaded.until_idle().await, after, "one opened while it was unloaded sees the same");
    server.end().await;
}

#[tokio::test]
async fn the_servers_end_is_the_streams_end() {
    let server = Server::start().await;
    let (busy, idle, stored) = (server.create().await, server.create().await, server.create().await);
    server.call("DELETE", &format!("/v1/sessions/{stored}"), "").await;
    server.call("POST", &format!("/v1/sessions/{busy}/prompt"), r#"{"text":"hold"}"#).await;
    let mut streams = Vec::new();
    for s in [&busy, &idle, &stored] {
        streams.push(server.events(s, "", "").await);
    }
    let started = Instant::now();
    let ends = async {
        let mut last = Vec::new();
        for stream in &mut streams {
            let mut kind = String::new();
            while let Some(event) = stream.next().await {
                kind = event.kind;
            }
            last.push((kind, started.elapsed()));
        }
        last
    };
    let (last, ()) = tokio::join!(ends, server.end());
    assert_eq!(last[1].0, "session_closed", "the idle session's last word");
    assert!(last.iter().all(|(_, at)| *at < Duration::from_secs(3)), "{last:?}");
}

#[tokio::test]
async fn comments_keep_a_stream_alive() {
    let limits = HttpLimits { heartbeat: Duration::from_millis(50), ..HttpLimits::default() };
    let server = Server::with(limits).await;
    let s = server.create().await;
    let mut events = server.events(&s, "", "").await;
    let reading = async {
        server.call("POST", &format!("/v1/sessions/{s}/prompt"), r#"{"text":"hold"}"#).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.call("POST", &format!("/v1/sessions/{s}/cancel"), "").await;
    };
    let (seen, ()) = tokio::join!(events.until_idle(), reading);
    assert!(events.comments >= 3, "{}", events.comments);
    assert!(seen.iter().all(|event| event.id.is_some()));
    server.end().await;
}

#[tokio::test]
async fn streams_over_the_cap_are_refused_and_a_closed_one_makes_room() {
    let limits = HttpLimits { streams: 2, ..HttpLimits::default() };
    let server = Server::with(limits).await;
    let s = server.create().await;
    let _one = server.events(&s, "", "").await;
    let two = server.events(&s, "", "").await;
    let refused = server.call("GET", &format!("/v1/sessions/{s}/events"), "").await;
    assert_eq!(refused.code(), "overloaded");
    drop(two);
    let again = async {
        while server.events(&s, "", "").await.head.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, again).await.expect("room again");
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off_and_delays_nobody() {
    let limits = HttpLimits { stall_timeout: Duration::from_millis(300), ..HttpLimits::default() };
    let server = Server::configured(HttpConfig { limits, ..config() }).await;
    let s = server.create().await;
    let mut stalled = server.connect().await;
    let head =
        format!("GET /v1/sessions/{s}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    stalled.write_all(head.as_bytes()).await.unwrap();
    let mut reading = server.events(&s, "", "").await;
    // More than the sockets' buffers take.
    for _ in 0..6 {
        let drained = async {
            let seen = reading.until_idle().await;
            assert!(seen.iter().all(|event| event.kind != "replay_gap"));
        };
        tokio::join!(server.run(&s, "big 300"), drained);
    }
    let mut got = Vec::new();
    let ended = async {
        // The server has cut it off while it slept.
        tokio::time::sleep(Duration::from_millis(900)).await;
        stalled.read_to_end(&mut got).await
    };
    let _ = timeout(DEADLINE, ended).await.expect("the stream is over");
    assert!(!got.ends_with(b"0\r\n\r\n"), "cut off, not ended");
    server.end().await;
}
