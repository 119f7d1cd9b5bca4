//! sepia over stdin and stdout: one JSON object a line. Clauses: S01–S32, C07, C09, C14.
//! Stdout carries the wire and nothing else.
//!
//! Reading order:
//! - `lines`: bytes to lines, whatever way reads are cut.
//! - `outbox`: what waits to be written.
//! - `connection`: the one loop that reads, answers and writes, and how it ends.
//! - `handlers`: one handler a row. `views`: the plane's types in this wire's words.
//! - `forward`: subscriptions.
//! - `pipes`: stdin and stdout without a thread, where they are pipes or sockets.

mod connection;
mod forward;
mod handlers;
mod lines;
mod outbox;
mod pipes;
mod views;

use std::{io, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use triplane_core::Plane;

/// How the wire is set up.
#[derive(Debug, Clone)]
pub struct StdioConfig {
    /// Version of the program, told in the manifest.
    pub version: String,
    /// How long a session that this wire opened may idle; `None`: for ever. Clause: S29.
    pub idle_ttl: Option<Duration>,
    /// How often that is looked at.
    pub sweep: Duration,
    /// How long the state of a lock that was probed is kept.
    pub probe_idle: Duration,
    /// The ready lines of this process's other transports, as they were written. Clause: C07.
    pub listeners: Vec<serde_json::Value>,
    /// How long runs may go on after the wire's end. Clause: C09.
    pub grace: Duration,
    /// Every bound.
    pub limits: StdioLimits,
}

/// The bounds of the wire, with their reasons.
#[derive(Debug, Clone)]
pub struct StdioLimits {
    /// Bytes of one line; whole sessions travel here (S01).
    pub line_bytes: usize,
    /// Units of calls at work that end by themselves; a call takes one, and one more for each 64 KiB of its text.
    /// Full: reading stops until one ends.
    pub calls: u32,
    /// The same of calls that may wait for what the client sends next (prompts). Full: refused with `overloaded`.
    pub lasting_calls: u32,
    /// Calls that may wait for their turn to start on one session. Full: refused with `overloaded`.
    pub line_calls: usize,
    /// Bytes of output that may wait before reading stops.
    pub reply_bytes: usize,
    /// Bytes of output that may wait before event forwarders do.
    pub event_bytes: usize,
    /// Subscriptions of the connection. Full: refused with `overloaded`.
    pub subscriptions: usize,
    /// How long output may stand still at the end before it is given up.
    pub drain: Duration,
}

impl Default for StdioLimits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            calls: 1024,
            lasting_calls: 2048,
            line_calls: 1024,
            reply_bytes: 4 << 20,
            event_bytes: 64 << 10,
            subscriptions: 1024,
            drain: Duration::from_secs(1),
        }
    }
}

impl StdioConfig {
    /// The defaults of S04, for a program of this version.
    pub fn new(version: impl Into<String>) -> Self {
        Self {
            version: version.into(),
            idle_ttl: Some(Duration::from_millis(600_000)),
            sweep: Duration::from_millis(30_000),
            probe_idle: Duration::from_millis(60_000),
            listeners: Vec::new(),
            grace: Duration::from_secs(5),
            limits: StdioLimits::default(),
        }
    }
}

/// Why the wire ended. In every case the plane is shut down and what could be written was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Stdin came to its end.
    Eof,
    /// Nobody reads stdout any more.
    Broken,
    /// A client asked for it.
    Shutdown,
    /// `stop` fired.
    Stopped,
}

/// Serves the process's stdin and stdout until one of them ends, a client says `shutdown`, or `stop` fires; then shuts the
/// plane down, writes what is left and returns. Errors: stdin or stdout cannot be used at all.
pub async fn serve(plane: Plane, config: StdioConfig, stop: CancellationToken) -> io::Result<Ended> {
    let (reader, writer) = (pipes::stdin()?, pipes::stdout()?);
    Ok(serve_on(plane, config, stop, reader, writer).await)
}

/// The same over any pair of byte streams.
pub async fn serve_on<R, W>(plane: Plane, config: StdioConfig, stop: CancellationToken, reader: R, writer: W) -> Ended
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    connection::Connection::new(plane, config, reader, writer).serve(stop).await
}
