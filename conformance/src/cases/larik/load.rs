//! The seam between replay and live, under load: clients that come and go while a run publishes. Clauses: H15, H16, H13.

use super::bag::Bag;
use crate::{
    cases,
    cases::HTTP,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use futures_util::future::try_join_all;
use std::time::Duration;

cases! {
    "h15-no-hole-and-no-repeat-at-the-seam-under-load" on HTTP [H15, H16, H13] needs [Script] => seam;
}

const CLIENTS: u64 = 8;
const EVENTS: u64 = 20_000;

async fn seam(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut bag = Bag::create(&on).await?;
    // A schema check of each of 160,000 events would only measure the checker.
    (bag.http.deadline, bag.http.book) = (Duration::from_secs(20), None);
    let readers = (0..CLIENTS).map(|seed| read(bag.clone(), seed));
    let script = format!("/repeat {EVENTS} x");
    let (started, seen) = tokio::join!(bag.start(&script), try_join_all(readers));
    let run = started?.text("/run_id")?;
    let seen = seen?;
    let first = seen.first().cloned().unwrap_or_default();
    expect!(first.0 > EVENTS, "{} events, {EVENTS} deltas were published", first.0);
    expect!(seen.iter().all(|other| *other == first), "clients saw different ends: {seen:?}");
    expect_eq!(first.1, run, "the run that ended");
    Ok(())
}

/// Reads the session from its start, coming back again and again, each time where it left off; how many events there were, and
/// whose `final` was the last.
async fn read(bag: Bag, seed: u64) -> Outcome<(u64, String)> {
    let mut last = 0;
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for visit in 0..100_000 {
        let mut stream = bag.after(last).await?;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        for _ in 0..=random % 700 {
            let fact = stream.fact().await?;
            let where_ = || format!("client {seed}, visit {visit}");
            expect!(fact.seq.is_some(), "{}: {} after {last}: {}", where_(), fact.kind, fact.data);
            expect_eq!(fact.seq, Some(last + 1), "{}: the next seq", where_());
            last += 1;
            if fact.kind == "final" {
                return Ok((last, fact.data.text("/run_id")?));
            }
        }
    }
    Err(Stop::broke(format!("client {seed} saw no end")))
}
