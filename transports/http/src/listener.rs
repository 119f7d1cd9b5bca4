//! The listening socket, a connection's life, and a stop that leaves nothing behind.
//! Invariants: every task is tracked, and is gone when [`Bound::serve`] returns; a connection that sends nothing, or half a
//! head, is closed by the head's timer. Only HTTP/1.1 is served. Clauses: H01, C06, C07, C09.

use crate::{
    config::{HttpConfig, HttpLimits},
    service::{Connection, Server},
    stall::Stall,
    worded::Worded,
};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{future::poll_fn, io, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::{
    listen::{self, Place},
    ready::ReadyLine,
    token::Token,
};
use triplane_core::Plane;

/// How long a client that was refused in the middle of its body may go on sending, so that it sees the answer.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of it is taken and dropped.
const LAST_BYTES: u64 = 16 << 20;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// `addr` is not `host:port`.
    #[error("--addr {0}: write host:port, with port 0 for a free one")]
    Addr(String),
    /// It could not be bound.
    #[error("cannot listen on {addr}: {source}")]
    Bind {
        /// What was asked for.
        addr: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The ready line could not be written: whoever started us is gone.
    #[error("the ready line could not be written: {0}")]
    Ready(#[source] io::Error),
    /// A defect of the wire's table.
    #[error("the wire's table is broken: {0}")]
    Table(String),
}

/// A server that is bound, and accepts once it serves.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    url: String,
    config: HttpConfig,
}

/// Binds. Errors: an address that is none, is not loopback (without `allow_remote`), or is taken.
pub async fn bind(config: HttpConfig) -> Result<Bound, ServeError> {
    let wrong = || ServeError::Addr(config.addr.clone());
    let (host, port) = config.addr.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
        return Err(wrong());
    }
    let failed = |source| ServeError::Bind { addr: config.addr.clone(), source };
    let listener = listen::bind(host, port, config.allow_remote).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, url: format!("http://{local}"), config })
}

/// Binds, says so on `ready`, and serves until `stop`.
pub async fn serve(
    plane: Plane,
    config: HttpConfig,
    ready: ReadyLine,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    bind(config).await?.serve(plane, ready, stop).await
}

/// The ready line. Clause: H01.
#[derive(serde::Serialize)]
struct Ready<'a> {
    url: &'a str,
    token: &'a str,
}

impl Bound {
    /// `http://host:port`, the port being the one that was bound.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token that clients show.
    pub fn token(&self) -> &Token {
        &self.config.token
    }

    /// Serves until `stop`: then nothing is accepted, streams end, and what is in flight has `drain` to end by itself.
    /// Returns when no task of it is left.
    pub async fn serve(self, plane: Plane, ready: ReadyLine, stop: CancellationToken) -> Result<(), ServeError> {
        let Self { listener, url, config } = self;
        let tracker = TaskTracker::new();
        let ending = stop.child_token();
        let server = Arc::new(Server::new(plane.clone(), &config, tracker.clone(), ending.clone())?);
        ready.announce(&Ready { url: &url, token: config.token.expose() }).map_err(ServeError::Ready)?;
        tracing::info!("listening on {url}");

        let abort = CancellationToken::new();
        let connection = {
            let (server, stop, abort) = (server, stop.clone(), abort.clone());
            move |stream, place| connection(server.clone(), stream, place, stop.clone(), abort.clone())
        };
        let accepting = listen::accept(listener, config.limits.connections, &tracker, &stop, connection);
        // A plane that closes ends the streams even while nobody has stopped this server.
        let closing = async {
            tokio::select! {
                () = plane.closing() => ending.cancel(),
                () = stop.cancelled() => {}
            }
        };
        tokio::join!(accepting, closing);

        tracker.close();
        if timeout(config.limits.drain, tracker.wait()).await.is_err() {
            tracing::info!("{} requests did not end in time and are cut off", tracker.len());
            abort.cancel();
            tracker.wait().await;
        }
        Ok(())
    }
}

/// One connection from its first byte to its last.
async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    place: Place,
    stop: CancellationToken,
    abort: CancellationToken,
) {
    let _place = place;
    let service = Connection::new(server.clone());
    let unread = service.unread();
    let io = TokioIo::new(Worded::new(Stall::new(stream, server.limits.stall_timeout)));
    let mut conn = http1(&server.limits).serve_connection(io, service);
    let ended = {
        let mut work = poll_fn(|cx| conn.poll_without_shutdown(cx));
        tokio::select! {
            biased;
            () = abort.cancelled() => return,
            ended = &mut work => Some(ended),
            () = stop.cancelled() => None,
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::new(&mut conn).graceful_shutdown();
            tokio::select! {
                biased;
                () = abort.cancelled() => return,
                ended = poll_fn(|cx| conn.poll_without_shutdown(cx)) => ended,
            }
        }
    };
    if let Err(err) = ended {
        tracing::debug!(error = %err, "a connection ended badly");
    }
    let mut io = conn.into_parts().io.into_inner();
    // An error means that the peer is gone already.
    let _ = io.shutdown().await;
    if unread.get() {
        // Closing with bytes unread would reset the connection, and the client might never see why it was refused.
        let drop_rest = async { tokio::io::copy(&mut io.take(LAST_BYTES), &mut tokio::io::sink()).await };
        let _ = tokio::select! {
            () = abort.cancelled() => return,
            dropped = timeout(LAST_WORDS, drop_rest) => dropped,
        };
    }
}

fn http1(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Without a timer hyper's head timeout does nothing.
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head_bytes);
    builder
}
