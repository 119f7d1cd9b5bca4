//! The token reaches no log, whatever is logged and however it was shown. Clauses: C08, H02.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::{
    io::Write,
    sync::{Arc, Mutex},
};
use support::{Server, TOKEN};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_line_has_the_token_or_a_query() {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let server = Server::start().await;
    let s = server.create().await;
    drop(server.events(&s, "&after=secretcursor", "").await);
    drop(server.events(&s, "", "").await);
    server.call("GET", &format!("/v1/nope?token={TOKEN}"), "").await;
    server.call("GET", &format!("/v1/sessions/{TOKEN}"), "").await;
    server.ask("GET", "/v1/sessions", &[("authorization", &format!("Basic {TOKEN}"))], "").await;
    server.send(format!("GET /v1/{TOKEN}\r\n\r\n").as_bytes()).await;
    server.call("POST", "/v1/sessions", &format!(r#"{{"model":"puppet/panic","token":"{TOKEN}"}}"#)).await;
    server.end().await;
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("route=\"/v1/sessions/{id}/events\"") && text.contains("status=400"), "{text}");
    assert!(!text.contains(TOKEN) && !text.contains("secretcursor"), "{text}");
}
