//! The upgrade by its bytes: which requests become a socket, which answer the others get, and in which order it is judged.
//! Clauses: C03, C06, L22. Faults: AH-01 to AH-04, AH-06, WS-03, WS-04, RL-01.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[allow(unreachable_pub, dead_code, reason = "each test file uses its own part")]
mod support;

use std::time::Duration;
use support::{Running, TOKEN, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use triplane_ws::WsLimits;

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

/// An upgrade with these headers before the usual ones; a socket is closed again at once.
async fn upgrade(server: &Running, target: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{headers}{UPGRADE}\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let count = within(stream.read(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[tokio::test]
async fn a_right_token_opens_a_socket_at_any_path() {
    let server = Running::echo(WsLimits::default()).await;
    let shown = [
        (format!("/?token={TOKEN}"), String::new()),
        (format!("/any/path?x=1&token={TOKEN}"), String::new()),
        ("/".into(), format!("x-lich-token: {TOKEN}\r\n")),
        ("/".into(), format!("X-Triplane-Token: {TOKEN}\r\n")),
        ("/".into(), format!("Authorization: Bearer {TOKEN}\r\n")),
        ("/?token=a-token%2Dfor-tests-only".into(), String::new()),
        (format!("http://localhost/?token={TOKEN}"), String::new()),
    ];
    for (target, header) in shown {
        let answer = upgrade(&server, &target, &format!("Host: localhost\r\n{header}")).await;
        assert_eq!(status(&answer), "101", "{target} {header}");
        let lower = answer.to_ascii_lowercase();
        assert!(lower.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{answer}");
        assert!(!lower.contains("sec-websocket-extensions"), "{answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_unauthorized() {
    let server = Running::echo(WsLimits::default()).await;
    let wrong = [
        ("/".into(), String::new()),
        ("/?token=".into(), String::new()),
        (format!("/?token={TOKEN}x"), String::new()),
        (format!("/?token={}", &TOKEN[..5]), String::new()),
        (format!("/?token={}", TOKEN.to_uppercase()), String::new()),
        (format!("/?Token={TOKEN}"), String::new()),
        (format!("/?token={TOKEN}&token=wrong"), String::new()),
        (format!("/?token={TOKEN}"), "x-lich-token: wrong\r\n".into()),
        ("/".into(), format!("Authorization: Bearer  {TOKEN}\r\n")),
        ("/".into(), format!("Authorization: bearer {TOKEN}\r\n")),
        ("/".into(), format!("Authorization: Basic {TOKEN}\r\n")),
        ("/".into(), format!("Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}\r\n")),
        ("/".into(), format!("Cookie: token={TOKEN}\r\n")),
    ];
    for (target, header) in wrong {
        let answer = upgrade(&server, &target, &format!("Host: localhost\r\n{header}")).await;
        assert_eq!(status(&answer), "401", "{target} {header}");
        assert!(!answer.contains(TOKEN), "{answer}");
    }
    server.end().await;
}

#[tokio::test]
async fn host_is_judged_before_origin_and_origin_before_the_token() {
    let server = Running::echo(WsLimits::default()).await;
    let good = format!("/?token={TOKEN}");
    let (evil, local) = ("Host: evil.example\r\n", "Host: localhost\r\n");
    let rows = [
        (good.as_str(), evil, "", "403"),
        ("/", evil, "", "403"),
        ("/", local, "", "401"),
        (&good, local, "Origin: https://evil.example\r\n", "403"),
        ("/", local, "Origin: https://evil.example\r\n", "403"),
        ("/", local, "Origin: http://localhost:5173\r\n", "401"),
        (&good, local, "Origin: http://localhost:5173\r\n", "101"),
        (&good, local, "Origin: file://\r\n", "101"),
        (&good, local, "Origin: null\r\n", "101"),
        (&good, "", "", "400"),
        (&good, "Host: localhost\r\nHost: localhost\r\n", "", "400"),
        (&good, "Host: localhost\r\nHost: evil.example\r\n", "", "400"),
        (&good, "Host: localhost.evil.example\r\n", "", "403"),
    ];
    for (target, host, origin, expected) in rows {
        let answer = upgrade(&server, target, &format!("{host}{origin}")).await;
        assert_eq!(status(&answer), expected, "{target} {host} {origin}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_refusal_has_the_common_shape() {
    let server = Running::echo(WsLimits::default()).await;
    let answer = server.raw("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], "forbidden");
    for header in ["content-type: application/json", "cache-control: no-store", "connection: close"] {
        assert!(head.to_ascii_lowercase().contains(header), "{head}");
    }
    server.end().await;
}

#[tokio::test]
async fn what_is_no_valid_upgrade_never_becomes_a_socket() {
    let server = Running::echo(WsLimits::default()).await;
    let host = format!("Host: localhost:{{port}}\r\nx-lich-token: {TOKEN}\r\n");
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let ws = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let rows = [
        ("GET / HTTP/1.1", String::new(), "426"),
        ("GET /health HTTP/1.1", String::new(), "426"),
        ("POST / HTTP/1.1", "Content-Length: 0\r\n".into(), "426"),
        ("GET / HTTP/1.0", format!("{ws}{key}Sec-WebSocket-Version: 13\r\n"), "426"),
        ("GET / HTTP/1.1", format!("Upgrade: websocket\r\n{key}Sec-WebSocket-Version: 13\r\n"), "426"),
        ("GET / HTTP/1.1", format!("Upgrade: h2c\r\nConnection: Upgrade\r\n{key}Sec-WebSocket-Version: 13\r\n"), "426"),
        ("GET / HTTP/1.1", format!("{ws}{key}Sec-WebSocket-Version: 8\r\n"), "426"),
        ("GET / HTTP/1.1", format!("{ws}{key}"), "426"),
        ("POST / HTTP/1.1", format!("{ws}{key}Sec-WebSocket-Version: 13\r\n"), "405"),
        ("GET / HTTP/1.1", format!("{ws}Sec-WebSocket-Version: 13\r\n"), "400"),
        ("GET / HTTP/1.1", format!("{ws}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n"), "400"),
        ("GET / HTTP/1.1", format!("{ws}{key}{key}Sec-WebSocket-Version: 13\r\n"), "400"),
        ("GET / HTTP/1.1", format!("{ws}{key}Sec-WebSocket-Version: 13\r\nContent-Length: 5\r\n"), "400"),
    ];
    for (line, headers, expected) in rows {
        let answer = server.raw(&format!("{line}\r\n{host}{headers}\r\n")).await;
        assert_eq!(status(&answer), expected, "{line} {headers}");
        if expected == "426" {
            let lower = answer.to_ascii_lowercase();
            assert!(lower.contains("sec-websocket-version: 13") && lower.contains("upgrade: websocket"), "{answer}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn an_oversize_head_is_refused_and_a_slow_one_is_cut() {
    let limits = WsLimits { handshake: Duration::from_millis(300), ..WsLimits::default() };
    let server = Running::echo(limits).await;
    let huge = "x".repeat(1 << 20);
    assert_eq!(status(&server.raw(&format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {huge}\r\n\r\n")).await), "431");
    let many = "X: 1\r\n".repeat(101);
    assert_eq!(status(&server.raw(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")).await), "431");
    // Neither of these ever ends its head; the read returns once the server gives up.
    server.raw("").await;
    server.raw("GET / HTTP/1.1\r\nHost: loc").await;
    assert_eq!(server.client().await.0.get_ref().peer_addr().unwrap(), server.address);
    server.end().await;
}
