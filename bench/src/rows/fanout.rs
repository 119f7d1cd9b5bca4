//! One run to many subscribers: what the server pays for each delivery, and whether all of it arrives.

use super::{Fed, Row, Setup};
use crate::{
    report::{Figure, Target},
    server::Kind,
};
use anyhow::Result;

pub(super) const ROW: Row = Row { name: "fanout", about: "CPU a delivery of one run to many SSE subscribers", run };

const DELTAS: usize = 1000;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    super::allow_sockets()?;
    let mut figures = Vec::new();
    for subscribers in [50, 500] {
        let mut ours = Fed::start(setup, Kind::Http, "", subscribers)?;
        let mut bare = Fed::start(setup, Kind::Bare, "", subscribers)?;
        ours.run(DELTAS)?;
        bare.run(DELTAS)?;
        let (mut cpu, mut time) = (Vec::new(), Vec::new());
        for _ in 0..setup.pairs {
            let (ours, bare) = (ours.run(DELTAS)?, bare.run(DELTAS)?);
            let deliveries = (DELTAS * subscribers) as f64;
            cpu.push((ours.cpu_ns / 1e3 / deliveries, bare.cpu_ns / 1e3 / deliveries));
            time.push((ours.time.as_secs_f64() * 1e3, bare.time.as_secs_f64() * 1e3));
        }
        let name = format!("fan-out to {subscribers} SSE");
        figures.extend(Figure::of_pairs(format!("{name}, CPU a delivery"), "us", &cpu, Target::Ratio(1.5)));
        figures.extend(Figure::of_pairs(format!("{name}, prompt to last event"), "ms", &time, Target::Information));
    }
    Ok(figures)
}
