//! How a server is set up, and every bound of it with its reason.

use std::time::Duration;
use triplane_common::{guard::WebOrigin, token::Token};
use triplane_protocol::larik::{Node, Provider, Sandbox};

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `host:port`; port 0 takes a free one. Clause: H01.
    pub addr: String,
    /// What every request but the health check must show.
    pub token: Token,
    /// Lifts the loopback bind and the Host check. Clause: H26.
    pub allow_remote: bool,
    /// Origins beside loopback. Clause: C06.
    pub allow_origins: Vec<WebOrigin>,
    /// What the plane does not know of the server.
    pub info: ServerInfo,
    /// Every bound.
    pub limits: HttpLimits,
}

/// The parts of `GET /v1/info` that the plane does not know.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// Version of the command.
    pub version: String,
    /// Model providers that are set up.
    pub providers: Vec<Provider>,
    /// How commands are kept in.
    pub sandbox: Sandbox,
    /// This machine.
    pub node: Node,
    /// Transports that this process serves.
    pub transports: Vec<String>,
}

/// The bounds of one server.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Connections at once; further ones wait in the system's backlog.
    pub connections: usize,
    /// Event streams at once, fewer than `connections` so that they cannot keep requests out; further ones are `overloaded`.
    pub streams: usize,
    /// Bytes of one body. Clause: H27.
    pub body_bytes: usize,
    /// Bytes of a request's line and headers; also what is buffered for writing on one connection.
    pub head_bytes: usize,
    /// How long a connection may take for a request's line and headers, and may idle before it.
    pub head_timeout: Duration,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long a client may take nothing of what is written to it. Clause: C14.
    pub stall_timeout: Duration,
    /// How often a stream says that it is alive. Clause: H17.
    pub heartbeat: Duration,
    /// How long streams wait for a session's last word when the server stops.
    pub linger: Duration,
    /// How long requests in flight may take when the server stops. Clause: C09.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            streams: 3072,
            body_bytes: 8 << 20,
            head_bytes: 32 << 10,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            linger: Duration::from_millis(800),
            drain: Duration::from_secs(5),
        }
    }
}
