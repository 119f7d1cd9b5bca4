//! The smallest request over HTTP and over WebSocket: one after another on a kept connection, and 32 connections at once.

use super::{Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server, TOKEN},
    sock::Socket,
    stats::Spread,
    wire::Connection,
};
use anyhow::{Context, Result};
use std::time::Instant;

pub(super) const ROW: Row = Row { name: "rpc", about: "time and CPU of a small request, HTTP and WebSocket", run };

/// Requests a round.
const REQUESTS: usize = 2000;
/// Connections that ask at once.
const MANY: usize = 32;
const HEALTH: &str = r#"{"jsonrpc":"2.0","id":1,"method":"health","params":{}}"#;

/// A kept connection that can ask for `health`.
trait Ask: Sized {
    fn open(server: &Server) -> Result<Self>;
    fn ask(&mut self) -> Result<()>;
    fn answer(&mut self) -> Result<()>;
}

impl Ask for Connection {
    fn open(server: &Server) -> Result<Self> {
        Self::open(server.addr)
    }

    fn ask(&mut self) -> Result<()> {
        self.send("GET", "/v1/health", "Content-Length: 0\r\n", "")
    }

    fn answer(&mut self) -> Result<()> {
        self.response("GET /v1/health").map(drop)
    }
}

impl Ask for Socket {
    fn open(server: &Server) -> Result<Self> {
        Self::open(server.addr, &format!("/?token={TOKEN}"))
    }

    fn ask(&mut self) -> Result<()> {
        self.send(HEALTH)
    }

    fn answer(&mut self) -> Result<()> {
        self.frame().map(drop)
    }
}

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let mut figures = wire::<Connection>(setup, "HTTP", (Kind::Http, Kind::Bare), 1.3)?;
    figures.extend(wire::<Socket>(setup, "WebSocket", (Kind::Ws, Kind::BareWs), 1.5)?);
    Ok(figures)
}

fn wire<A: Ask>(setup: &Setup, name: &str, (ours, bare): (Kind, Kind), most: f64) -> Result<Vec<Figure>> {
    let (here, there) = (Place::new()?, Place::new()?);
    let ours = Server::start(&setup.programs, ours, &here)?;
    let bare = Server::start(&setup.programs, bare, &there)?;
    let (mut on_ours, mut on_bare) = (A::open(&ours)?, A::open(&bare)?);
    let (mut time, mut cpu, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=setup.pairs {
        let (a, b) = (one(&ours, &mut on_ours)?, one(&bare, &mut on_bare)?);
        // The first round warms both.
        if pair > 0 {
            time.push((a.0, b.0));
            cpu.push((a.1, b.1));
        }
    }
    // Opened only now: what a lone connection costs depends on which thread watches the others.
    let open = |server: &Server| (0..MANY).map(|_| A::open(server)).collect::<Result<Vec<A>>>();
    let (mut on_ours, mut on_bare) = (open(&ours)?, open(&bare)?);
    for _ in 0..setup.pairs {
        many.push((all(&ours, &mut on_ours)?, all(&bare, &mut on_bare)?));
    }
    let figures = [
        Figure::of_pairs(format!("health over {name}, median time"), "us", &time, Target::Ratio(1.5)),
        Figure::of_pairs(format!("health over {name}, CPU a request"), "us", &cpu, Target::Ratio(most)),
        Figure::of_pairs(
            format!("health over {name}, {MANY} at once, CPU a request"),
            "us",
            &many,
            Target::Ratio(most),
        ),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// Median time and mean CPU of a request, in microseconds.
fn one<A: Ask>(server: &Server, connection: &mut A) -> Result<(f64, f64)> {
    let cpu = server.cpu_ns()?;
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        connection.ask()?;
        connection.answer()?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let cpu = (server.cpu_ns()? - cpu) as f64 / 1e3 / REQUESTS as f64;
    Ok((Spread::of(&times).context("no request")?.median, cpu))
}

/// Mean CPU of a request when all connections ask at once, in microseconds.
fn all<A: Ask>(server: &Server, connections: &mut [A]) -> Result<f64> {
    let cpu = server.cpu_ns()?;
    for _ in 0..REQUESTS / MANY {
        connections.iter_mut().try_for_each(Ask::ask)?;
        connections.iter_mut().try_for_each(Ask::answer)?;
    }
    Ok((server.cpu_ns()? - cpu) as f64 / 1e3 / (REQUESTS / MANY * MANY) as f64)
}
