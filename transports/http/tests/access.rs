//! Who may call, in which order that is judged, and what browsers are told. Clauses: H02, H28, C06, C08.

mod support;

use support::{Answer, Server, TOKEN, config};
use triplane_http::HttpConfig;
use triplane_protocol::{larik, rest::Kind};

/// A path of the row with something in its parameters.
fn path(row: &triplane_protocol::rest::RestRow) -> String {
    row.path.replace("{id}", "s1").replace("{request_id}", "r1").replace("{task_id}", "t1")
}

#[tokio::test]
async fn every_row_but_health_asks_for_the_token_whatever_is_shown_instead() {
    let server = Server::start().await;
    let wrong: Vec<Vec<String>> = [
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        format!("Bearer {}", &TOKEN[1..]),
        format!("Bearer {TOKEN}x"),
        format!("Bearer {}", TOKEN.to_uppercase()),
        format!("Bearer  {TOKEN}"),
        format!("bearer {TOKEN}"),
        format!("Basic {TOKEN}"),
        format!("Token {TOKEN}"),
        TOKEN.into(),
        format!("Bearer {TOKEN}, Bearer {TOKEN}"),
        format!("Bearer \"{TOKEN}\""),
    ]
    .into_iter()
    .map(|value| vec![value])
    .chain([vec![], vec![format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}")]])
    .collect();
    for row in larik::ROWS {
        for values in &wrong {
            let headers: Vec<(&str, &str)> = values.iter().map(|value| ("authorization", value.as_str())).collect();
            let answer = server.ask(row.verb.as_str(), &path(row), &headers, "").await;
            if row.kind == Kind::Public {
                assert_eq!(answer.status, 200, "{} {values:?}", row.name);
            } else {
                assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{} {values:?}", row.name);
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
        }
        let others = [("x-lich-token", TOKEN), ("x-triplane-token", TOKEN), ("cookie", "token=0123456789abcdef")];
        for header in others {
            let answer = server.ask(row.verb.as_str(), &path(row), &[header], "").await;
            assert_eq!(answer.status == 401, row.kind != Kind::Public, "{} {header:?}", row.name);
        }
        assert_ne!(server.call(row.verb.as_str(), &path(row), "").await.status, 401, "{}", row.name);
    }
    server.end().await;
}

#[tokio::test]
async fn a_token_in_the_query_opens_event_streams_only() {
    let server = Server::start().await;
    for row in larik::ROWS.iter().filter(|row| row.kind != Kind::Public) {
        let status = async |query: &str, headers: &[(&str, &str)]| {
            server.ask(row.verb.as_str(), &format!("{}?{query}", path(row)), headers, "").await.status
        };
        assert_eq!(status(&format!("token={TOKEN}"), &[]).await == 401, row.kind != Kind::Stream, "{}", row.name);
        for wrong in ["token=", "token", "token=x", &format!("Token={TOKEN}"), &format!("token={TOKEN}&token={TOKEN}")]
        {
            assert_eq!(status(wrong, &[]).await, 401, "{} {wrong}", row.name);
        }
        let header = [("authorization", "Bearer wrong")];
        assert_eq!(status(&format!("token={TOKEN}"), &header).await, 401, "a wrong header decides alone: {}", row.name);
    }
    server.end().await;
}

#[tokio::test]
async fn host_is_judged_first_then_origin_then_the_token() {
    let server = Server::start().await;
    let ask = async |host: &str, origin: &str, token: bool, path: &str| {
        let auth = if token { format!("authorization: Bearer {TOKEN}\r\n") } else { String::new() };
        let origin = if origin.is_empty() { String::new() } else { format!("origin: {origin}\r\n") };
        let text = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{origin}{auth}\r\n");
        server.send(text.as_bytes()).await.remove(0).status
    };
    for (host, origin, token, path, status) in [
        ("evil.example", "http://evil.example", false, "/v1/sessions", 403),
        ("evil.example", "", true, "/v1/sessions", 403),
        ("evil.example", "", true, "/v1/health", 403),
        ("evil.example", "", true, "/nowhere", 403),
        ("localhost", "http://evil.example", false, "/v1/sessions", 403),
        ("localhost", "http://evil.example", true, "/v1/sessions", 403),
        ("localhost", "http://evil.example", false, "/v1/health", 403),
        ("localhost", "", false, "/v1/sessions", 401),
        ("localhost", "", false, "/nowhere", 401),
        ("localhost", "", true, "/nowhere", 404),
        ("LOCALHOST.:1", "null", false, "/v1/health", 200),
        ("[::1]:9", "file://", false, "/v1/health", 200),
        ("127.0.0.1", "http://localhost:5173", false, "/v1/health", 200),
        ("127.0.0.1", "https://app.example", false, "/v1/health", 200),
    ] {
        assert_eq!(ask(host, origin, token, path).await, status, "{host} {origin} {token} {path}");
    }
    server.end().await;
}

#[tokio::test]
async fn pages_that_are_let_in_are_told_so_and_others_are_told_nothing() {
    fn granted(answer: &Answer) -> Vec<(&str, &str)> {
        let cors = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control-") || *name == "vary");
        cors.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
    let server = Server::start().await;
    let preflight = [("access-control-request-method", "POST"), ("access-control-request-private-network", "true")];
    for origin in ["http://localhost:5173", "https://app.example"] {
        let simple = server.ask("GET", "/v1/health", &[("origin", origin)], "").await;
        assert_eq!(granted(&simple), [("access-control-allow-origin", origin), ("vary", "Origin")]);
        let refused = server.ask("GET", "/v1/sessions", &[("origin", origin)], "").await;
        assert_eq!((refused.status, granted(&refused).len()), (401, 2), "the page may read why");
        let asked =
            server.ask("OPTIONS", "/v1/sessions/x", &[&[("origin", origin)], &preflight[..]].concat(), "").await;
        assert_eq!(asked.status, 204);
        assert_eq!(
            granted(&asked),
            [
                ("access-control-allow-headers", "authorization, content-type, last-event-id"),
                ("access-control-allow-methods", "GET, HEAD, PATCH, DELETE, OPTIONS"),
                ("access-control-allow-origin", origin),
                ("access-control-max-age", "600"),
                ("vary", "Origin"),
            ]
        );
        let lost = server.ask("OPTIONS", "/nowhere", &[&[("origin", origin)], &preflight[..]].concat(), "").await;
        assert_eq!(lost.code(), "not_found");
    }
    for origin in ["https://evil.example", "null", "file://", "app://x", "http://app.example"] {
        for (method, path) in [("GET", "/v1/health"), ("POST", "/v1/sessions"), ("OPTIONS", "/v1/sessions")] {
            let answer = server.ask(method, path, &[&[("origin", origin)], &preflight[..]].concat(), "").await;
            assert_eq!(granted(&answer), [], "{origin} {method}");
            assert!(method == "GET" || matches!(answer.status, 401 | 403), "{origin} {method} {}", answer.status);
        }
    }
    server.end().await;
}

#[tokio::test]
async fn remote_servers_take_any_host_but_still_ask_for_the_token() {
    let server = Server::configured(HttpConfig { allow_remote: true, ..config() }).await;
    let ask = async |extra: &str| {
        let text = format!("GET /v1/tasks HTTP/1.1\r\nhost: box.example\r\nconnection: close\r\n{extra}\r\n");
        server.send(text.as_bytes()).await.remove(0).status
    };
    assert_eq!(ask("").await, 401);
    assert_eq!(ask(&format!("authorization: Bearer {TOKEN}\r\n")).await, 404);
    assert_eq!(ask("host: box.example\r\n").await, 400, "two Hosts");
    server.end().await;
}

#[tokio::test]
async fn only_loopback_addresses_are_bound_unless_remote_is_allowed() {
    for (addr, remote, ok) in [
        ("127.0.0.1:0", false, true),
        ("localhost:0", false, true),
        ("127.0.0.2:0", false, true),
        ("0.0.0.0:0", false, false),
        ("[::]:0", false, false),
        ("0.0.0.0:0", true, true),
        ("127.0.0.1", true, false),
        ("127.0.0.1:70000", true, false),
        ("127.0.0.1:-1", true, false),
        (":0", true, false),
        ("::1:0", true, false),
    ] {
        let config = HttpConfig { addr: addr.into(), allow_remote: remote, ..config() };
        let bound = triplane_http::bind(config).await;
        assert_eq!(bound.is_ok(), ok, "{addr}: {bound:?}");
    }
}

#[tokio::test]
async fn the_ready_line_has_the_url_and_the_token() {
    let server = Server::start().await;
    assert_eq!(server.ready, serde_json::json!({"url": format!("http://{}", server.addr), "token": TOKEN}));
    server.end().await;
}
