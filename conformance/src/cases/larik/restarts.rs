//! Cursors, sessions and settings over a restart, clean and not. Clauses: H15, H16, H11, C12.

use super::bag::{Bag, pairs};
use crate::{
    cases,
    cases::{FOREVER, HTTP},
    client::http::Fact,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

cases! {
    "h15-replay-from-a-cursor-after-a-restart" on HTTP [H15, H16, C12] needs [Script, Process] => clean;
    "h16-a-kill-leaves-a-gap-that-is-told" on HTTP [H16, H15, C12] needs [Script, Process] => killed;
    "h16-a-run-that-was-cut-off-is-no-run" on HTTP [H16, H18, H08] needs [Script, Process] => cut_off;
    "h11-history-settings-and-titles-after-a-restart" on HTTP [H11, H09, H22] needs [Script, Process] => everything;
}

fn idle(fact: &Fact) -> bool {
    fact.data.get("busy") == Some(&json!(false))
}

async fn clean(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.run("/repeat 40 x").await?;
    let all = bag.after(0).await?.until_fact("idle", idle).await?;
    let epoch = bag.get("").await?.text("/epoch")?;
    on.server()?.signal(Signal::TERM);
    on.server()?.exited(Duration::from_secs(6)).await?;
    let on = ctx.serve().await?;
    let bag = bag.on(&on)?;
    let told = bag.get("").await?;
    expect_eq!((told.text("/epoch")?, told.flag("/loaded")?), (epoch, false), "epoch and loaded after a restart");
    let mut stream = bag.after(10).await?;
    let rest: Vec<_> = all.iter().skip(10).map(|fact| (fact.seq, fact.data.clone())).collect();
    let got: Vec<_> = stream.until_fact("idle", idle).await?.into_iter().map(|f| (f.seq, f.data)).collect();
    expect_eq!(got, rest, "what follows 10, after a restart");
    // The session's own end comes next, and then the new life, on the same stream and by one.
    bag.run("more").await?;
    let more = stream.until("final").await?;
    for (next, fact) in (rest.len() as u64 + 11..).zip(more) {
        expect_eq!("H16": fact.seq, Some(next), "the next seq ({})", fact.kind);
    }
    Ok(())
}

async fn killed(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.run("/repeat 40 x").await?;
    let all = bag.after(0).await?.until_fact("idle", idle).await?;
    let last = all.last().and_then(|fact| fact.seq).unwrap_or_default();
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let bag = bag.on(&on)?;
    expect_eq!("C12": bag.said().await?.len(), 2, "messages after a kill");
    let mut stream = bag.after(5).await?;
    bag.run("more").await?;
    let (mut next, mut gap) = (6, None);
    for fact in stream.until_fact("the new `final`", |fact| fact.kind == "final" && fact.seq > Some(last)).await? {
        if fact.kind == "replay_gap" {
            expect!(gap.is_none(), "a second gap: {}", fact.data);
            let (from, to) = (fact.data.int("/from")?, fact.data.int("/to")?);
            expect_eq!(u64::try_from(from).unwrap_or_default(), last + 1, "where the gap begins");
            next = u64::try_from(to).unwrap_or_default() + 1;
            gap = Some(next);
            continue;
        }
        expect_eq!(fact.seq, Some(next), "the next seq ({})", fact.kind);
        next += 1;
    }
    expect!(gap.is_some_and(|first| first > last), "no gap was told although seqs may have been lost");
    Ok(())
}

async fn cut_off(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.start(FOREVER).await?;
    let seen = live.until("turn_start").await?;
    let last = seen.last().and_then(|fact| fact.seq).unwrap_or_default();
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let bag = bag.on(&on)?;
    expect!("H08": !bag.get("").await?.flag("/busy")?, "a run of a process that is dead is still told");
    let mut stream = bag.after(last).await?;
    let run = bag.run("more").await.of("H18")?;
    expect_eq!(run.text("/stopped_reason")?, "completed", "the run after");
    let first = stream.until("final").await?.into_iter().find_map(|fact| fact.seq).unwrap_or_default();
    expect!(first > last, "seq {first} was used before the kill (last seen: {last})");
    expect_eq!(bag.said().await?, pairs(&[("user", FOREVER), ("user", "more"), ("assistant", "more")]), "the history");
    Ok(())
}

async fn everything(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.run("one").await?;
    bag.http.patch(&bag.path(""), &json!({"title": "T", "mode": "plan", "effort": "low"})).await?.want(200)?;
    bag.run("two").await?;
    bag.post("/undo", &json!({}), 200).await?;
    bag.post("/clear", &json!({}), 200).await?;
    bag.run("three").await?;
    let (messages, session) = (bag.get("/messages").await?, bag.get("").await?);
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let bag = bag.on(&on)?;
    expect_eq!(bag.get("/messages").await?, messages, "the transcript after a kill");
    let again = bag.http.post("/v1/sessions", &json!({"resume": bag.id})).await?.want(200)?;
    for member in ["title", "mode", "effort", "model", "agent", "cwd", "created"] {
        expect_eq!("H09": again.get(member), session.get(member), "{member} after a kill");
    }
    let listed = bag.http.get("/v1/sessions").await?.want(200)?;
    expect_eq!(listed.list("/sessions")?.len(), 1, "sessions listed");
    Ok(())
}
