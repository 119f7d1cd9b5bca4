//! Echoes every message on the very stack and limits of the lich wire, for suites that test WebSocket framing.
//! Prints the ready line; ends on SIGINT. An argument is the largest message in bytes, for cases that need more than the wire's own.

#![allow(clippy::expect_used, reason = "a tool for tests")]

use bytes::Bytes;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes, protocol::CloseFrame};
use tokio_util::sync::CancellationToken;
use triplane_common::{guard::Guard, ready::ReadyLine, token::Token};
use triplane_ws::{
    WsLimits,
    outbox::Outbox,
    server::Server,
    socket::{Front, Peer},
};

struct Echo;
struct Echoing(Outbox);

impl Front for Echo {
    type Peer = Echoing;

    fn open(&self, outbox: Outbox) -> Echoing {
        Echoing(outbox)
    }
}

impl Peer for Echoing {
    fn text(&mut self, text: Utf8Bytes) {
        self.0.push(Message::Text(text));
    }

    fn binary(&mut self, bytes: Bytes) -> Result<(), CloseFrame> {
        self.0.push(Message::Binary(bytes));
        Ok(())
    }

    fn gone(&mut self) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let token = Token::from_flag_or_env(None).expect("a token");
    let mut limits = WsLimits::default();
    if let Some(bytes) = std::env::args().nth(1) {
        limits.message_bytes = bytes.parse().expect("a number of bytes");
        limits.reply_bytes = limits.message_bytes;
    }
    let server = Server::bind("127.0.0.1", 0, Guard::default(), token.clone(), limits).await.expect("a free port");
    let line = serde_json::json!({ "port": server.address().port(), "token": token.expose() });
    ReadyLine::stdout().announce(&line).expect("stdout");
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let signal = tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stopping.cancel();
    });
    server.run(Echo, stop).await;
    signal.abort();
}
