//! Paths, methods, bodies and limits, as any client sees them. Clauses: H03, H04, H27, C03, C04, C05.

mod support;

use std::time::{Duration, Instant};
use support::{Answer, DEADLINE, Server, TOKEN};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use triplane_http::HttpLimits;

fn auth() -> String {
    format!("authorization: Bearer {TOKEN}\r\n")
}

#[tokio::test]
async fn health_is_open_and_every_answer_is_kept_to_itself() {
    let server = Server::start().await;
    let answer = server.ask("GET", "/v1/health", &[], "").await;
    assert_eq!((answer.status, answer.json()), (200, serde_json::json!({"status": "ok", "version": "1.2.3"})));
    for answer in [answer, server.call("GET", "/v1/nope", "").await, server.call("OPTIONS", "/v1/sessions", "").await] {
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    }
    server.end().await;
}

#[tokio::test]
async fn paths_and_methods_are_answered_as_http_asks() {
    let server = Server::start().await;
    for (method, path, status, allow) in [
        ("GET", "/v1/nope", 404, None),
        ("GET", "/", 404, None),
        ("POST", "/v1/sessions/", 404, None),
        ("PUT", "/v1/sessions", 405, Some("GET, HEAD, POST, OPTIONS")),
        ("POST", "/v1/health", 405, Some("GET, HEAD, OPTIONS")),
        ("TRACE", "/v1/health", 405, Some("GET, HEAD, OPTIONS")),
        ("BREW", "/v1/sessions/x", 405, Some("GET, HEAD, PATCH, DELETE, OPTIONS")),
        ("GET", "/v1/sessions/x/cancel", 405, Some("POST, OPTIONS")),
        ("HEAD", "/v1/sessions/x/prompt", 405, Some("POST, OPTIONS")),
        ("OPTIONS", "/v1/sessions", 204, Some("GET, HEAD, POST, OPTIONS")),
        ("OPTIONS", "*", 204, Some("GET, HEAD, POST, PATCH, DELETE, OPTIONS")),
        ("POST", "/metrics", 405, Some("GET, HEAD, OPTIONS")),
    ] {
        let answer = server.call(method, path, "").await;
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{method} {path}");
        if status >= 400 && method != "HEAD" {
            answer.code();
        }
    }
    let head = server.ask("HEAD", "/v1/health", &[], "").await;
    let get = server.ask("GET", "/v1/health", &[], "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    server.end().await;
}

#[tokio::test]
async fn ids_that_can_name_nothing_are_not_found() {
    let server = Server::start().await;
    for id in
        ["..%2f..%2fetc%2fpasswd", "a%00b", "%2e%2e", ".hidden", "a%5Cb", "%ff", "a%0a", "%252e", &"a".repeat(129)]
    {
        for (method, rest) in
            [("GET", ""), ("GET", "/messages"), ("GET", "/events"), ("POST", "/prompt"), ("DELETE", "")]
        {
            let body = if method == "POST" { r#"{"text":"x"}"# } else { "" };
            let answer = server.call(method, &format!("/v1/sessions/{id}{rest}"), body).await;
            assert_eq!(answer.code(), "not_found", "{method} {id}{rest}");
        }
    }
    let started = Instant::now();
    assert_eq!(server.call("GET", &format!("/v1/sessions/{}", "%25".repeat(10_000)), "").await.code(), "not_found");
    assert!(started.elapsed() < Duration::from_secs(2), "linear");
    server.end().await;
}

#[tokio::test]
async fn bodies_are_read_as_json_whatever_their_type() {
    let server = Server::start().await;
    for kind in ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8", "nonsense"] {
        let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", kind)];
        let answer = server.ask("POST", "/v1/sessions", &headers, r#"{"effort":"loud"}"#).await;
        assert_eq!(answer.code(), "invalid_params", "{kind}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("effort: "), "{kind}");
    }
    server.end().await;
}

#[tokio::test]
async fn bad_bodies_say_what_is_wrong() {
    let server = Server::start().await;
    for (path, body, says) in [
        ("/v1/sessions", r#"{"resume":"a","continue":true}"#, "give `resume` or `continue`"),
        ("/v1/sessions", r#"{"resume":"../x"}"#, "resume: a session id has"),
        ("/v1/sessions", r#"{"mode":"yolo"}"#, "mode: unknown variant"),
        ("/v1/sessions", r#"{"model":7}"#, "model: invalid type: integer"),
        ("/v1/sessions", r#"{"title":"a","title":"b"}"#, "the key `title` is given twice"),
        ("/v1/sessions", r#"{"x":"\ud800"}"#, ""),
        ("/v1/sessions", r#"{"title":"hi""#, "EOF"),
        ("/v1/sessions", "[]", "the body must be a JSON object"),
        ("/v1/sessions", "null", "the body must be a JSON object"),
        ("/v1/sessions", "nonsense", "expected"),
        ("/v1/sessions", "{} {}", "trailing"),
        ("/v1/sessions", &"[".repeat(100_000), ""),
        ("/v1/sessions/a/prompt", "", "missing field `text`"),
        ("/v1/sessions/a/prompt", r#"{"text":["x"]}"#, "text: invalid type: sequence"),
        ("/v1/sessions/a/prompt", r#"{"text":"x","wait":"yes"}"#, "wait: invalid type"),
        ("/v1/sessions/a/permissions/r", "{}", "missing field `allow`"),
    ] {
        let answer = server.call("POST", path, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_params"), "{body:.40}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{body:.40}: {message}");
        assert!(message.len() < 400, "{message}");
    }
    server.end().await;
}

#[tokio::test]
async fn queries_are_checked_too() {
    let server = Server::start().await;
    for (path, says) in [
        ("/v1/sessions?limit=x", "limit: "),
        ("/v1/sessions?limit=0", "limit: "),
        ("/v1/sessions?limit=-1", "limit: "),
        ("/v1/sessions?limit=1&limit=2", "duplicate field `limit`"),
        ("/v1/sessions?limit=4294967296", "limit: "),
        ("/v1/sessions?cursor=%ff", "the query is not UTF-8"),
        ("/v1/sessions/a/events?after=abc", "after: "),
        ("/v1/sessions/a/events?after=-1", "after: "),
        ("/v1/sessions/a/events?after=", "after: "),
        ("/v1/sessions/a/events?after=18446744073709551616", "after: "),
    ] {
        let answer = server.call("GET", path, "").await;
        assert_eq!(answer.code(), "invalid_params", "{path}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with(says), "{path}: {answer:?}");
    }
    let bearer = format!("Bearer {TOKEN}");
    for cursor in ["", "x", "-1", "1,2", "18446744073709551616", &"9".repeat(10_000)] {
        let headers = [("authorization", &*bearer), ("last-event-id", cursor)];
        let answer = server.ask("GET", "/v1/sessions/a/events?after=1", &headers, "").await;
        assert_eq!(answer.code(), "invalid_params", "{cursor:.20}");
    }
    let many: String = (0..5_000).map(|n| format!("&k{n}=v")).collect();
    assert_ne!(server.call("GET", &format!("/v1/sessions?a=b{many}"), "").await.status, 400);
    server.end().await;
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_at_once_and_its_sender_sees_why() {
    let server = Server::start().await;
    let stream = server.connect().await;
    let (mut read, mut write) = stream.into_split();
    let head = format!("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n{}content-length: 100000000\r\n\r\n", auth());
    write.write_all(head.as_bytes()).await.unwrap();
    // A client that writes all it has before it reads anything.
    let writer = tokio::spawn(async move {
        let chunk = vec![b' '; 1 << 16];
        while write.write_all(&chunk).await.is_ok() {}
    });
    let mut got = Vec::new();
    let _ = timeout(DEADLINE, read.read_to_end(&mut got)).await.unwrap();
    writer.abort();
    let answers = Answer::all(&got);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].code().as_str(), answers[0].header("connection")), ("too_large", Some("close")));
    server.end().await;
}

#[tokio::test]
async fn slow_clients_are_given_up_on() {
    let limits = HttpLimits {
        head_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        ..HttpLimits::default()
    };
    let server = Server::with(limits).await;
    let body = format!("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n{}content-length: 9\r\n\r\n{{", auth());
    let answers = server.send(body.as_bytes()).await;
    assert_eq!((answers.len(), answers[0].code().as_str()), (1, "timeout"));
    // Nothing, half a head, and a connection that is kept and not used.
    for start in ["", "GET /v1/hea", "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        let started = Instant::now();
        let answers = server.send(start.as_bytes()).await;
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 408)), "{start:?}: {answers:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{start:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_body_that_is_cut_short_does_nothing() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let head = format!("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n{}content-length: 20\r\n\r\n{{}}", auth());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    let _ = timeout(DEADLINE, stream.read_to_end(&mut got)).await.unwrap();
    assert!(Answer::all(&got).iter().all(|answer| answer.status == 400));
    assert_eq!(server.call("GET", "/v1/sessions", "").await.json()["sessions"], serde_json::json!([]));
    server.end().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let health = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let post = format!("POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n{}content-length: 2\r\n\r\n[]", auth());
    let last = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers =
        server.send([&health.repeat(500), post.as_str(), &health.repeat(499), last].concat().as_bytes()).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [vec![200; 500], vec![400], vec![200; 500]].concat());
    server.end().await;
}

#[tokio::test]
async fn a_stop_ends_idle_connections_and_leaves_nothing() {
    let server = Server::start().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    timeout(DEADLINE, idle.read_exact(&mut first)).await.unwrap().unwrap();
    let _silent = server.connect().await;
    let started = Instant::now();
    server.end().await;
    assert!(started.elapsed() < Duration::from_secs(4), "well before what is in flight would be cut off");
    let mut rest = Vec::new();
    timeout(DEADLINE, idle.read_to_end(&mut rest)).await.unwrap().unwrap();
}
