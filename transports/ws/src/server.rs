//! Listening: accepts, judges the handshake, and hands the stream to a socket's task.
//! Invariant: a stream leaves HTTP only with a 101 of ours; every task is tracked, and ends with the server. HTTP is spoken by
//! hyper's own connection, timer installed, and every answer but a 101 closes. Clauses: C06, C09, L21, L22.

use crate::{
    WsLimits,
    handshake::{self, Gate},
    outbox::Outbox,
    socket::{self, Front},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::{
    guard::Guard,
    listen::{self, Place},
    token::Token,
};

/// Bytes of a request's head. Browsers send the cookies of everything else on localhost along, so it is not the least possible.
const HEAD_BYTES: usize = 16 << 10;
/// Headers of a request.
const HEADERS: usize = 64;
/// What the server waits for sockets beyond their own deadlines.
const SLACK: Duration = Duration::from_secs(2);

/// A bound server, not yet accepting.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    gate: Gate,
    limits: WsLimits,
}

impl Server {
    /// Binds. Errors: a host that is not loopback without `allow_remote`; a port that is taken.
    pub async fn bind(host: &str, port: u16, guard: Guard, token: Token, limits: WsLimits) -> io::Result<Self> {
        let listener = listen::bind(host, port, guard.allow_remote).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, gate: Gate { guard, token }, limits })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts until `stop`; then every socket may end its calls, and is closed.
    pub async fn run<F: Front>(self, front: F, stop: CancellationToken) {
        let Self { listener, address: _, gate, limits } = self;
        let tracker = TaskTracker::new();
        let connections = limits.connections;
        let shared = Arc::new(Shared { gate, front, limits, stop: stop.clone(), tracker: tracker.clone() });
        let serve = |stream, place| connection(shared.clone(), stream, place);
        listen::accept(listener, connections, &tracker, &stop, serve).await;
        tracker.close();
        let patience = shared.limits.drain + shared.limits.closing + shared.limits.closing + SLACK;
        if timeout(patience, tracker.wait()).await.is_err() {
            tracing::warn!("{} sockets were left behind", tracker.len());
        }
    }
}

struct Shared<F> {
    gate: Gate,
    front: F,
    limits: WsLimits,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// One connection as far as its handshake.
async fn connection<F: Front>(shared: Arc<Shared<F>>, stream: TcpStream, place: Place) {
    let handshake = tokio::select! {
        biased;
        // Nothing has been promised yet.
        () = shared.stop.cancelled() => return,
        done = timeout(shared.limits.handshake, upgrade(&shared, stream)) => done,
    };
    let Ok(Some((stream, early))) = handshake else { return };
    let task = shared.clone();
    // A task of its own: this one's future still has the room of a HTTP connection.
    shared.tracker.spawn(async move {
        let _place = place;
        let outbox = Outbox::new(task.limits.event_bytes);
        let peer = task.front.open(outbox.clone());
        socket::run(stream, early, peer, outbox, &task.limits, &task.stop).await;
    });
}

/// Speaks HTTP until the stream is ours, with the bytes that came behind the head. `None`: it was turned away.
async fn upgrade<F: Front>(shared: &Shared<F>, stream: TcpStream) -> Option<(TcpStream, Vec<u8>)> {
    let upgrade: Mutex<Option<OnUpgrade>> = Mutex::default();
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let response = match shared.gate.judge(&request) {
            Ok(accept) => {
                *upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(hyper::upgrade::on(&mut request));
                handshake::switch(&accept)
            }
            Err(refusal) => *refusal,
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.handshake)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(err) = served {
        tracing::debug!(error = %err, "a handshake failed");
        return None;
    }
    let upgraded = upgrade.into_inner().unwrap_or_else(PoisonError::into_inner)?.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().ok()?;
    // A copy: the room that hyper read into is not kept for as long as the socket lives.
    Some((parts.io.into_inner(), parts.read_buf.to_vec()))
}
