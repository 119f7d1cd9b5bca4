//! Messages that are no HTTP, or could be read in two ways: each is refused or has one reading, and nothing that hides in one
//! is ever answered as a request of its own. Clauses: H27, C05, C06.

mod support;

use std::time::Duration;
use support::{Server, TOKEN};
use triplane_http::HttpLimits;

/// The statuses of all answers until the server closes. A health check that is hidden in a message would answer 200.
async fn check(server: &Server, name: &str, message: &[u8], expected: &[u16]) -> Option<String> {
    let answers = server.send(message).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    (statuses != expected).then(|| format!("{name}: {statuses:?}, expected {expected:?}"))
}

/// `{H}`: a good Host line; `{A}`: a good Authorization line; `{S}`: a smuggled request that would be answered 200.
fn cases() -> Vec<(&'static str, String, &'static [u16])> {
    let long = "a".repeat(1 << 20);
    let many: String = (0..101).map(|n| format!("x{n}: y\r\n")).collect();
    fn plain(name: &'static str, text: &str, expected: &'static [u16]) -> (&'static str, String, &'static [u16]) {
        (name, text.to_owned(), expected)
    }
    let mut cases: Vec<(&'static str, String, &'static [u16])> = vec![
        plain("a good one", "GET /v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n", &[200]),
        // the request line
        plain("no version", "GET /v1/health\r\n{H}\r\n", &[400]),
        plain("no target", "GET HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("two spaces", "GET  /v1/health HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("a tab between", "GET\t/v1/health\tHTTP/1.1\r\n{H}\r\n", &[400]),
        plain("version 1.2", "GET /v1/health HTTP/1.2\r\n{H}\r\n", &[400]),
        plain("version 9", "GET /v1/health HTTP/9\r\n{H}\r\n", &[400]),
        plain("lower case http", "GET /v1/health http/1.1\r\n{H}\r\n", &[400]),
        plain("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[]),
        plain("a TLS hello", "\u{16}\u{3}\u{1}\u{2}\0\u{1}", &[400]),
        plain("no HTTP at all", "hello\r\n\r\n", &[400]),
        plain("a target with a raw space", "GET /v1/he alth HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("a target with a NUL", "GET /v1/\0health HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("a target with a bare CR", "GET /v1/\rhealth HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("a method with a colon", "GE:T /v1/health HTTP/1.1\r\n{H}\r\n", &[400]),
        plain("a target without a slash", "GET v1/health HTTP/1.1\r\n{H}\r\n", &[400]),
        // Host
        plain("no Host", "GET /v1/health HTTP/1.1\r\nconnection: close\r\n\r\n", &[400]),
        plain("no Host, HTTP/1.0", "GET /v1/health HTTP/1.0\r\n\r\n", &[400]),
        plain("two Hosts", "GET /v1/health HTTP/1.1\r\n{H}{H}connection: close\r\n\r\n", &[400]),
        plain("an empty Host", "GET /v1/health HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n", &[403]),
        plain("a foreign Host", "GET /v1/health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", &[403]),
        plain("a foreign target", "GET http://evil.example/v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n", &[403]),
        plain("a loopback target", "GET http://localhost/v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n", &[200]),
        plain("CONNECT elsewhere", "CONNECT evil.example:80 HTTP/1.1\r\n{H}connection: close\r\n\r\n", &[403]),
        // header fields
        plain("a space before the colon", "GET /v1/health HTTP/1.1\r\nhost : localhost\r\n\r\n", &[400]),
        plain("a folded line", "GET /v1/health HTTP/1.1\r\n{H}x: a\r\n b\r\n\r\n", &[400]),
        plain("a space before the first name", "GET /v1/health HTTP/1.1\r\n {H}\r\n", &[400]),
        plain("no colon", "GET /v1/health HTTP/1.1\r\n{H}nothing\r\n\r\n", &[400]),
        plain("an empty name", "GET /v1/health HTTP/1.1\r\n{H}: x\r\n\r\n", &[400]),
        plain("a NUL in a value", "GET /v1/health HTTP/1.1\r\n{H}x: a\0b\r\n\r\n", &[400]),
        plain("a bare CR in a value", "GET /v1/health HTTP/1.1\r\n{H}x: a\rb\r\n\r\n", &[400]),
        plain("a name with a space", "GET /v1/health HTTP/1.1\r\n{H}a b: x\r\n\r\n", &[400]),
        plain("a name with a bracket", "GET /v1/health HTTP/1.1\r\n{H}a[b]: x\r\n\r\n", &[400]),
        ("101 headers", format!("GET /v1/health HTTP/1.1\r\n{{H}}{many}\r\n"), &[431]),
        ("a header of 1 MiB", format!("GET /v1/health HTTP/1.1\r\n{{H}}x: {long}\r\n\r\n"), &[431]),
        ("a target of 1 MiB", format!("GET /{long} HTTP/1.1\r\n{{H}}\r\n"), &[431]),
        // lengths
        plain(
            "two lengths",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 2\r\ncontent-length: 3\r\n\r\n{}x{S}",
            &[400],
        ),
        plain("a list of lengths", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 2, 2\r\n\r\n{}{S}", &[400]),
        plain("a signed length", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: +2\r\n\r\n{}{S}", &[400]),
        plain("a negative length", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: -1\r\n\r\n{}{S}", &[400]),
        plain("a hexadecimal length", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 0x2\r\n\r\n{}{S}", &[400]),
        plain("an empty length", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length:\r\n\r\n{}{S}", &[400]),
        plain("a length with a word", "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 2 x\r\n\r\n{}{S}", &[400]),
        plain(
            "a length of 20 digits",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 99999999999999999999\r\n\r\n{}",
            &[400],
        ),
        plain(
            "a length over the cap",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 8388609\r\n\r\n{}{S}",
            &[413],
        ),
        // transfer codings
        plain(
            "an unknown coding",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "chunked not last",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "chunked under HTTP/1.0",
            "POST /v1/sessions HTTP/1.0\r\n{H}{A}transfer-encoding: chunked\r\n\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "a chunk size past 64 bits",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "a chunk size that is no number",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "a signed chunk size",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "an empty chunk size",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\n\r\n{}\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "chunks with bare LF",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\n2\n{}\n0\n\n{S}",
            &[400],
        ),
        plain(
            "a chunk longer than its size",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "a chunked body over the cap",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\n\r\n{BIG}{S}",
            &[413],
        ),
        // One reading, and the hidden request is part of a body.
        plain("a GET with a body", "GET /v1/health HTTP/1.1\r\n{H}content-length: 44\r\n\r\n{S}", &[200]),
        plain("a HEAD with a body", "HEAD /v1/health HTTP/1.1\r\n{H}content-length: 44\r\n\r\n{S}", &[200]),
        plain("a DELETE with a body", "DELETE /v1/health HTTP/1.1\r\n{H}{A}content-length: 44\r\n\r\n{S}", &[405]),
        plain("a body before the token", "POST /v1/sessions HTTP/1.1\r\n{H}content-length: 44\r\n\r\n{S}", &[401]),
        plain(
            "a length and chunks: chunks win, and the connection ends",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "chunks and a length: chunks win, and the connection ends",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}transfer-encoding: chunked\r\ncontent-length: 40\r\n\r\n2\r\n[]\r\n0\r\n\r\n{S}",
            &[400],
        ),
        plain(
            "equal lengths are one",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}connection: close\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n[]",
            &[400],
        ),
        plain(
            "a chunk extension is skipped",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}connection: close\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\n[]\r\n0\r\n\r\n",
            &[400],
        ),
        plain("a line break before the request", "\r\nGET /v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n", &[200]),
        plain("HTTP/1.0", "GET /v1/health HTTP/1.0\r\n{H}\r\n", &[200]),
        plain(
            "two requests in a row",
            "GET /v1/health HTTP/1.1\r\n{H}\r\nGET /v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n",
            &[200, 200],
        ),
        plain("a request after one that closes", "GET /v1/health HTTP/1.1\r\n{H}connection: close\r\n\r\n{S}", &[200]),
        plain(
            "a gzip body",
            "POST /v1/sessions HTTP/1.1\r\n{H}{A}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}{S}",
            &[415],
        ),
    ];
    for (_, text, _) in &mut cases {
        *text = text
            .replace("{A}", &format!("authorization: Bearer {TOKEN}\r\n"))
            .replace("{S}", "GET /v1/health HTTP/1.1\r\n{H}\r\n")
            .replace("{H}", "host: localhost\r\n")
            .replace("{BIG}", &format!("900000\r\n{}\r\n0\r\n\r\n", " ".repeat(0x90_0000)));
    }
    cases
}

#[tokio::test]
async fn malformed_messages_are_refused_and_hide_nothing() {
    let limits = HttpLimits { head_timeout: Duration::from_secs(1), ..HttpLimits::default() };
    let server = Server::with(limits).await;
    let mut wrong = Vec::new();
    for (name, message, expected) in cases() {
        wrong.extend(check(&server, name, message.as_bytes(), expected).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.end().await;
}
