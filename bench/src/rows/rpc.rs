//! The smallest request over HTTP, one after another on a kept connection: its time, and what the server pays.

use super::{Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server},
    stats::Spread,
    wire::Connection,
};
use anyhow::{Context, Result};
use std::time::Instant;

pub(super) const ROW: Row = Row { name: "rpc", about: "time and CPU of a small request over HTTP", run };

/// Requests a round.
const REQUESTS: usize = 2000;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let (here, there) = (Place::new()?, Place::new()?);
    let ours = Server::start(&setup.programs, Kind::Http, &here)?;
    let bare = Server::start(&setup.programs, Kind::Bare, &there)?;
    let (mut on_ours, mut on_bare) = (Connection::open(ours.addr)?, Connection::open(bare.addr)?);
    round(&ours, &mut on_ours)?;
    round(&bare, &mut on_bare)?;
    let (mut time, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..setup.pairs {
        let (ours, bare) = (round(&ours, &mut on_ours)?, round(&bare, &mut on_bare)?);
        time.push((ours.0, bare.0));
        cpu.push((ours.1, bare.1));
    }
    let figures = [
        Figure::of_pairs("health over HTTP, median time", "us", &time, Target::Ratio(1.5)),
        Figure::of_pairs("health over HTTP, CPU a request", "us", &cpu, Target::Ratio(1.3)),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// Median time and mean CPU of a request, in microseconds.
fn round(server: &Server, connection: &mut Connection) -> Result<(f64, f64)> {
    let cpu = server.cpu_ns()?;
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        connection.call("GET", "/v1/health", "")?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let cpu = (server.cpu_ns()? - cpu) as f64 / 1e3 / REQUESTS as f64;
    Ok((Spread::of(&times).context("no request")?.median, cpu))
}
