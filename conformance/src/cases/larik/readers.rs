//! Readers that are idle, slow, or take nothing at all. Clauses: H14, H17, C14.

use super::bag::Bag;
use crate::{
    cases,
    cases::{FOREVER, HTTP},
    client::sse::Item,
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use std::time::Duration;

cases! {
    "h14-the-servers-own-events" on HTTP [H14] needs [Script] => own;
    "h17-comments-and-one-retry" on HTTP [H17] => comments;
    "c14-a-reader-that-does-not-read-is-told-what-it-lost" on HTTP [C14, H17, H15] needs [Script, Process] => stalled;
    "c14-a-reader-that-never-reads-is-cut-off" on HTTP [C14] needs [Script, Process] => cut_off_soon;
    "c14-a-reader-that-never-reads-is-cut-off-after-30-s" on HTTP [C14] needs [Script, Process, Slow] => cut_off_after_30_s;
}

/// More than a server keeps: deltas of 24 MB, and the whole text twice again at the end.
const FLOOD: usize = 600;
const CHUNK: usize = 40_000;

async fn own(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.run("hi").await?;
    bag.unload().await?;
    let seen = live.until("session_closed").await?;
    let busy: Vec<bool> =
        seen.iter().filter(|f| f.kind == "status").map(|f| f.data.flag("/busy")).collect::<Outcome<_>>()?;
    expect_eq!(busy, [true, false], "`status`");
    let said: Vec<_> = seen.iter().filter(|fact| fact.kind == "user_message").collect();
    expect_eq!(said.len(), 1, "`user_message`");
    for message in said {
        expect_eq!(message.data.text("/origin")?, "client", "its origin");
        let id = bag.get("/messages").await?.text("/messages/0/id")?;
        expect_eq!(message.data.text("/id")?, id, "its id, beside the transcript's");
    }
    let kinds: Vec<&str> = seen.iter().map(|fact| fact.kind.as_str()).collect();
    expect!(kinds.ends_with(&["final", "status", "session_closed"]), "the end: {kinds:?}");
    Ok(())
}

async fn comments(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut bag = Bag::create(&on).await?;
    bag.http.deadline = Duration::from_secs(20);
    let mut live = bag.live().await?;
    let first = live.item().await?;
    expect!(matches!(first, Some(Item::Retry(ms)) if ms > 0), "the first of a stream: {first:?}");
    let began = tokio::time::Instant::now();
    let next = live.item().await?;
    expect!(matches!(next, Some(Item::Comment(_))), "the next of an idle stream: {next:?}");
    let waited = began.elapsed();
    expect!((10..=17).contains(&waited.as_secs()), "a comment after {waited:?}, 15 s are due");
    bag.start(FOREVER).await?;
    bag.cancel().await?;
    loop {
        match live.item().await? {
            Some(Item::Retry(_)) => return Err(Stop::broke("a second `retry:`")),
            Some(Item::Message(message)) if message.event.as_deref() == Some("final") => return Ok(()),
            Some(_) => {}
            None => return Err(Stop::broke("the stream ended")),
        }
    }
}

async fn stalled(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut bag = Bag::create(&on).await?;
    bag.http.deadline = Duration::from_secs(25);
    bag.http.book = None;
    bag.run("hi").await?;
    let last = u64::try_from(bag.get("").await?.int("/seq")?).unwrap_or_default();
    let mut stream = bag.live().await?;
    let script = format!("/repeat {FLOOD} {}", "x".repeat(CHUNK));
    // Nobody reads: the run must not wait for that.
    bag.run(&script).await?;
    let end = bag.run("after").await?.text("/run_id")?;
    let (mut next, mut gaps) = (last + 1, 0);
    loop {
        let fact = stream.fact().await?;
        if fact.kind == "replay_gap" {
            let (from, to) = (fact.data.int("/from")?, fact.data.int("/to")?);
            expect_eq!(from, at(next, 0).0, "where a gap begins");
            expect!(to >= from, "a gap from {from} to {to}");
            (next, gaps) = (u64::try_from(to).unwrap_or_default() + 1, gaps + 1);
            continue;
        }
        expect_eq!(fact.seq, Some(next), "the next seq, after {gaps} gaps");
        next += 1;
        if fact.kind == "final" && fact.data.text("/run_id")? == end {
            break;
        }
    }
    expect!("H17": gaps > 0, "a reader that slept over {} MB lost nothing", FLOOD * CHUNK / 1_000_000);
    Ok(())
}

fn at(from: u64, to: u64) -> (i64, i64) {
    (i64::try_from(from).unwrap_or_default(), i64::try_from(to).unwrap_or_default())
}

async fn cut_off_soon(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--stall-timeout-ms", "1500"]);
    let on = ctx.start(&launch).await?;
    cut_off(&on, Duration::from_millis(3500)).await
}

async fn cut_off_after_30_s(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    cut_off(&on, Duration::from_secs(35)).await
}

async fn cut_off(on: &On, patience: Duration) -> Outcome {
    let mut bag = Bag::create(on).await?;
    (bag.http.deadline, bag.http.book) = (Duration::from_secs(60), None);
    let mut stream = bag.live().await?;
    bag.run(&format!("/repeat {FLOOD} {}", "x".repeat(CHUNK))).await?;
    // Nothing may be read meanwhile, so there is nothing to wait for.
    tokio::time::sleep(patience).await;
    let ended = async {
        loop {
            match stream.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(Stop::broke("the stream ended as if it were whole")),
                Err(_) => return Ok(()),
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    ended
        .unwrap_or_else(|_| Err(Stop::broke(format!("a reader that took nothing for {patience:?} is still connected"))))
}
