//! The settings of the transport, and every bound on a socket, each with its reason.

use std::time::Duration;
use triplane_common::{guard::Guard, token::Token};

/// How the transport is set up.
#[derive(Debug, Clone)]
pub struct WsConfig {
    /// Name or address to bind, without a port (`--host`).
    pub host: String,
    /// 0 takes a free one (`--port`).
    pub port: u16,
    /// Host and Origin; its `allow_remote` lifts the loopback bind too.
    pub guard: Guard,
    /// What every upgrade must show.
    pub token: Token,
    /// Sessions that lich may hold at a time (`--max-session-bags`). Clause: L12.
    pub max_session_bags: usize,
    /// Bounds on sockets.
    pub limits: WsLimits,
}

impl WsConfig {
    /// The document's defaults: a free port on 127.0.0.1, 32 bags.
    pub fn new(token: Token) -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 0,
            guard: Guard::default(),
            token,
            max_session_bags: 32,
            limits: WsLimits::default(),
        }
    }
}

/// Bounds on sockets.
#[derive(Debug, Clone)]
pub struct WsLimits {
    /// Connections at a time; further ones wait in the system's backlog. Below the usual 4096 descriptors of a desktop session.
    pub connections: usize,
    /// From the accepted connection to the upgrade's answer; a handshake that never finishes is cut.
    pub handshake: Duration,
    /// Bytes of one message, and of one frame. Clause: L23.
    pub message_bytes: usize,
    /// Replies that wait for a slow reader, in bytes; above it the socket is not read.
    pub reply_bytes: usize,
    /// Events that wait for a slow reader, in bytes; above it their forwarder waits, and the run does not.
    pub event_bytes: usize,
    /// Requests of one connection that wait for a run or run themselves; above it they are `overloaded`. Clause: L19.
    pub queued_requests: usize,
    /// Requests of one connection that wait for the disk; above it the socket is not read.
    pub open_requests: usize,
    /// Silence after which the server asks whether the client is still there.
    pub ping_after: Duration,
    /// Silence after which the connection is dropped.
    pub silence: Duration,
    /// How long a write may stand still before the reader is cut off. Clause: C14.
    pub stall: Duration,
    /// How long the last bytes and the close frame are offered to a reader that was cut off.
    pub parting: Duration,
    /// How long the closing handshake may take.
    pub closing: Duration,
    /// How long calls in flight may take once the server stops: the plane's 5 s for runs, and a second for their replies. Clause: C09.
    pub drain: Duration,
}

impl Default for WsLimits {
    fn default() -> Self {
        Self {
            connections: 4000,
            handshake: Duration::from_secs(10),
            message_bytes: 1 << 20,
            reply_bytes: 1 << 20,
            event_bytes: 64 << 10,
            queued_requests: 256,
            open_requests: 64,
            ping_after: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            parting: Duration::from_secs(30),
            closing: Duration::from_secs(1),
            drain: Duration::from_secs(6),
        }
    }
}
