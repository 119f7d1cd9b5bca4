//! Memory of a server that does nothing: alone, and for each subscriber that waits.

use super::{Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server, TOKEN},
    wire::Connection,
};
use anyhow::Result;
use std::{net::TcpStream, thread::sleep, time::Duration};

pub(super) const ROW: Row = Row { name: "idle", about: "resident memory, alone and for each idle subscriber", run };

/// Subscribers that are weighed together.
const SUBSCRIBERS: usize = 1000;
/// Sizes do not move with load: a few fresh processes are enough.
const RUNS: usize = 3;
/// How long a server may settle before it is weighed.
const SETTLE: Duration = Duration::from_millis(500);

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    super::allow_sockets()?;
    let (mut alone, mut sse, mut ws) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS.min(setup.pairs.max(1)) {
        let (ours, bare) = (weigh(setup, Kind::Http)?, weigh(setup, Kind::Bare)?);
        alone.push((ours.alone_kib / 1024.0, bare.alone_kib / 1024.0));
        sse.push((ours.subscriber_kib, bare.subscriber_kib));
        ws.push((weigh(setup, Kind::Ws)?.subscriber_kib, weigh(setup, Kind::BareWs)?.subscriber_kib));
    }
    let figures = [
        Figure::of_pairs("idle, resident", "MiB", &alone, Target::Size(8.0)),
        Figure::of_pairs("idle SSE subscriber", "KiB", &sse, Target::Size(13.0)),
        Figure::of_pairs("idle WebSocket subscriber", "KiB", &ws, Target::Size(8.0)),
    ];
    Ok(figures.into_iter().flatten().collect())
}

struct Weight {
    alone_kib: f64,
    subscriber_kib: f64,
}

fn weigh(setup: &Setup, kind: Kind) -> Result<Weight> {
    let place = Place::new()?;
    let server = Server::start(&setup.programs, kind, &place)?;
    sleep(SETTLE);
    let alone_kib = server.rss_kib()?;
    // The session and the first connection are not the subscribers' weight.
    let path = path(&server, kind)?;
    let first = subscribe(&server, kind, &path)?;
    sleep(SETTLE);
    let before = server.rss_kib()?;
    let subscribers: Vec<TcpStream> =
        (0..SUBSCRIBERS).map(|_| subscribe(&server, kind, &path)).collect::<Result<_>>()?;
    sleep(SETTLE);
    let after = server.rss_kib()?;
    drop((first, subscribers));
    Ok(Weight { alone_kib, subscriber_kib: (after - before) / SUBSCRIBERS as f64 })
}

/// What a subscriber asks for.
fn path(server: &Server, kind: Kind) -> Result<String> {
    match kind {
        Kind::Bare => Ok("/events".into()),
        Kind::Ws | Kind::BareWs => Ok(format!("/?token={TOKEN}")),
        Kind::Http => {
            let id = super::session(&mut Connection::open(server.addr)?)?;
            Ok(format!("/v1/sessions/{id}/events"))
        }
    }
}

fn subscribe(server: &Server, kind: Kind, path: &str) -> Result<TcpStream> {
    let connection = Connection::open(server.addr)?;
    match kind {
        Kind::Bare | Kind::Http => connection.stream(path),
        Kind::Ws | Kind::BareWs => connection.upgrade(path),
    }
}
