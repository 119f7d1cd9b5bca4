//! Listening: a loopback bind, and an accept loop that nothing a client does can end or overrun.
//! Invariant: a connection is accepted only with a permit in hand, and its task, which owns the permit, is tracked.
//! Clauses: C06, C09.

use crate::guard::is_loopback_bind;
use std::{future::Future, io, net::Ipv4Addr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long the loop rests when the system has no file descriptor left: long enough not to spin, short enough not to be felt.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Binds `host:port`; port 0 takes a free one. Without `allow_remote` only loopback names and addresses are taken.
///
/// Errors: `InvalidInput` for a host that is not loopback; else what the system said.
pub async fn bind(host: &str, port: u16, allow_remote: bool) -> io::Result<TcpListener> {
    if !allow_remote && !is_loopback_bind(host) {
        let why = format!("{host} is not a loopback address; give --allow-remote to serve other machines");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.eq_ignore_ascii_case("localhost") {
        // Not looked up: what a resolver says of it is not ours to trust.
        return TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    }
    TcpListener::bind((bare, port)).await
}

/// Holds one connection's place; dropped, the next one is accepted.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// Accepts until `stop`, at most `connections` at a time; each runs as a task of `tracker`. Beyond that clients wait in the
/// system's backlog. The place goes with the task: hand it on to whatever outlives it.
pub async fn accept<F, Fut>(
    listener: TcpListener,
    connections: usize,
    tracker: &TaskTracker,
    stop: &CancellationToken,
    serve: F,
) where
    F: Fn(TcpStream, Place) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let next = async {
            // The semaphore is never closed; if it were, the loop would end.
            let place = places.clone().acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = next => accepted,
        };
        match accepted {
            None => return,
            Some((Ok((stream, _peer)), place)) => {
                // Without it every small reply waits for the peer's delayed acknowledgement.
                if let Err(err) = stream.set_nodelay(true) {
                    tracing::debug!(error = %err, "TCP_NODELAY was refused");
                }
                tracker.spawn(serve(stream, Place(place)));
            }
            Some((Err(err), _place)) => {
                // A peer that was gone before it was accepted costs nothing; anything else is ours, and it may last.
                if !matches!(err.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    tracing::warn!(error = %err, "a connection could not be accepted");
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncReadExt, sync::mpsc, time::timeout};

    const DEADLINE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn only_loopback_is_bound_unless_remote_is_allowed() {
        for host in ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST"] {
            assert!(bind(host, 0, false).await.unwrap().local_addr().unwrap().ip().is_loopback(), "{host}");
        }
        for host in ["0.0.0.0", "[::]", "example.invalid"] {
            assert_eq!(bind(host, 0, false).await.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{host}");
        }
        assert!(bind("0.0.0.0", 0, true).await.unwrap().local_addr().unwrap().ip().is_unspecified());
    }

    #[tokio::test]
    async fn the_connection_over_the_cap_waits_for_a_place_and_stop_ends_the_loop() {
        let listener = bind("127.0.0.1", 0, false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let (accepted_tx, mut accepted) = mpsc::channel(4);
        let (loop_tracker, loop_stop) = (tracker.clone(), stop.clone());
        let accepting = tokio::spawn(async move {
            let serve = move |mut stream: TcpStream, place: Place| {
                let accepted_tx = accepted_tx.clone();
                async move {
                    let _place = place;
                    accepted_tx.send(stream.nodelay().unwrap()).await.unwrap();
                    let _ = stream.read(&mut [0]).await;
                }
            };
            accept(listener, 1, &loop_tracker, &loop_stop, serve).await;
        });
        let first = TcpStream::connect(address).await.unwrap();
        assert_eq!(timeout(DEADLINE, accepted.recv()).await.unwrap(), Some(true));
        let second = TcpStream::connect(address).await.unwrap();
        tokio::task::yield_now().await;
        assert!(accepted.try_recv().is_err());
        drop(first);
        assert_eq!(timeout(DEADLINE, accepted.recv()).await.unwrap(), Some(true));
        stop.cancel();
        timeout(DEADLINE, accepting).await.unwrap().unwrap();
        drop(second);
        tracker.close();
        timeout(DEADLINE, tracker.wait()).await.unwrap();
    }
}
