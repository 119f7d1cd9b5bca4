//! From the start of the process to its ready line, with an empty store.

use super::{Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server},
};
use anyhow::Result;

pub(super) const ROW: Row = Row { name: "ready", about: "from spawn to the ready line", run };

/// Starts a pair: one start of a few milliseconds says little.
const STARTS: usize = 3;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let (ours, bare) = (Place::new()?, Place::new()?);
    // The first start makes the node's identity and brings the program into the page cache.
    fastest(setup, Kind::Http, &ours)?;
    fastest(setup, Kind::Bare, &bare)?;
    let mut pairs = Vec::new();
    for _ in 0..setup.pairs {
        pairs.push((fastest(setup, Kind::Http, &ours)?, fastest(setup, Kind::Bare, &bare)?));
    }
    Ok(Figure::of_pairs("spawn to ready, no session stored", "ms", &pairs, Target::Ratio(2.0)).into_iter().collect())
}

/// The fastest of a few starts: load only ever adds.
fn fastest(setup: &Setup, kind: Kind, place: &Place) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..STARTS {
        best = best.min(Server::start(&setup.programs, kind, place)?.ready.as_secs_f64() * 1e3);
    }
    Ok(best)
}
