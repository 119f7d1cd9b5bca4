//! One run to one subscriber: how long until its end is seen, and what one more chunk costs.
//! The bare server syncs nothing, so times are held to a target without syncs; with them they are told.

use super::{Fed, Row, Setup};
use crate::{
    report::{Figure, Target},
    server::Kind,
};
use anyhow::Result;

pub(super) const ROW: Row = Row { name: "relay", about: "prompt to final, and CPU a chunk, for one subscriber", run };

const SHORT: usize = 100;
const LONG: usize = 1000;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let mut flushed = Fed::start(setup, Kind::Http, "durability = 'flush'", 1)?;
    let mut synced = Fed::start(setup, Kind::Http, "durability = 'fsync'", 1)?;
    let mut bare = Fed::start(setup, Kind::Bare, "", 1)?;
    for fed in [&mut flushed, &mut synced, &mut bare] {
        fed.run(LONG)?;
    }
    let (mut short, mut long, mut sync, mut chunk) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.pairs {
        let (ours, theirs) = (flushed.run(SHORT)?, bare.run(SHORT)?);
        let (ours_long, theirs_long) = (flushed.run(LONG)?, bare.run(LONG)?);
        let ms = |fed: &super::Fed1| fed.time.as_secs_f64() * 1e3;
        short.push((ms(&ours), ms(&theirs)));
        long.push((ms(&ours_long), ms(&theirs_long)));
        sync.push(ms(&synced.run(SHORT)?));
        let more = |long: &super::Fed1, short: &super::Fed1| (long.cpu_ns - short.cpu_ns) / 1e3 / (LONG - SHORT) as f64;
        chunk.push((more(&ours_long, &ours), more(&theirs_long, &theirs)));
    }
    let figures = [
        Figure::of_pairs("relay of 100 chunks, prompt to end", "ms", &short, Target::Ratio(2.0)),
        Figure::of_pairs("relay of 1000 chunks, prompt to end", "ms", &long, Target::Ratio(2.0)),
        Figure::of_pairs("relay, CPU of one more chunk", "us", &chunk, Target::Ratio(2.0)),
        Figure::of_ours("relay of 100 chunks with syncs, prompt to end", "ms", &sync, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}
