//! Replay: `Last-Event-ID`, `?after`, gaps, the joint between replay and live. Clause: H15.

use super::{create, get, wait};
use crate::{
    cases,
    cases::HTTP,
    client::http::{Events, Fact, Http},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::json;

cases! {
    "h15-last-event-id-replays" on HTTP [H15] needs [Script] => last_event_id;
    "h15-after-replays" on HTTP [H15] needs [Script] => after;
    "h15-the-header-wins" on HTTP [H15] needs [Script] => header_wins;
    "h15-without-a-cursor-only-new-events" on HTTP [H15] needs [Script] => only_new;
    "h15-malformed-cursors-are-400" on HTTP [H15] => malformed;
    "h15-ahead-of-the-session-is-a-gap" on HTTP [H15] needs [Script] => ahead;
    "h15-past-the-buffer" on HTTP [H15, H16] needs [Script] => past_the_buffer;
    "h15-no-seam-between-replay-and-live" on HTTP [H15] needs [Script] => no_seam;
    "h15-replay-is-the-same-each-time" on HTTP [H15] needs [Script] => same_each_time;
    "h15-cut-and-reconnect" on HTTP [H15, H13] needs [Script] => reconnect;
}

fn path(id: &str, query: &str) -> String {
    format!("/v1/sessions/{id}/events{query}")
}

/// A session with some runs; its last seq.
async fn seasoned(http: &Http) -> Outcome<(String, u64)> {
    let id = create(http).await?;
    for text in ["one two three", "four five six"] {
        wait(http, &id, text).await?;
    }
    // The idle event may follow the reply of a waiting prompt.
    let mut events = http.events(&path(&id, ""), &[("Last-Event-ID", "0")]).await?;
    let mut last = 0;
    for _ in 0..2 {
        let facts = events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
        last = facts.last().and_then(|fact| fact.seq).unwrap_or_default();
    }
    Ok((id, last))
}

/// Reads the events up to this seq.
async fn up_to(events: &mut Events, seq: u64) -> Outcome<Vec<Fact>> {
    events.until_fact(&format!("seq {seq}"), |fact| fact.seq == Some(seq)).await
}

fn seqs(facts: &[Fact]) -> Vec<u64> {
    facts.iter().filter_map(|fact| fact.seq).collect()
}

async fn last_event_id(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, last) = seasoned(&http).await?;
    for from in [0, 1, 5, last - 1] {
        let mut events = http.events(&path(&id, ""), &[("Last-Event-ID", &from.to_string())]).await?;
        expect_eq!(
            seqs(&up_to(&mut events, last).await?),
            (from + 1..=last).collect::<Vec<_>>(),
            "replayed after {from}"
        );
    }
    Ok(())
}

async fn after(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, last) = seasoned(&http).await?;
    let mut events = http.events(&path(&id, "?after=3"), &[]).await?;
    expect_eq!(seqs(&up_to(&mut events, last).await?), (4..=last).collect::<Vec<_>>(), "replayed after 3");
    Ok(())
}

async fn header_wins(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, last) = seasoned(&http).await?;
    let mut events = http.events(&path(&id, "?after=1"), &[("Last-Event-ID", "5")]).await?;
    expect_eq!(
        seqs(&up_to(&mut events, last).await?),
        (6..=last).collect::<Vec<_>>(),
        "replayed with header 5 and ?after=1"
    );
    Ok(())
}

async fn only_new(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, last) = seasoned(&http).await?;
    let mut events = http.events(&path(&id, ""), &[]).await?;
    wait(&http, &id, "new").await?;
    expect_eq!(events.fact().await?.seq, Some(last + 1), "the first event of a stream without a cursor");
    Ok(())
}

async fn malformed(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    for cursor in ["x", "-1", "1.5", "1e3", "0x1", "99999999999999999999999", " ", "1,2"] {
        let encoded: String = cursor.bytes().map(|byte| format!("%{byte:02X}")).collect();
        http.get(&path(&id, &format!("?after={encoded}"))).await?.fails(400, "invalid_params")?;
        if cursor != " " {
            http.send(&http.request("GET", &path(&id, "")).header("Last-Event-ID", cursor))
                .await?
                .fails(400, "invalid_params")?;
        }
    }
    Ok(())
}

async fn ahead(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, last) = seasoned(&http).await?;
    let mut events = http.events(&path(&id, ""), &[("Last-Event-ID", "1000000")]).await?;
    let gap = events.fact().await?;
    expect_eq!(gap.kind, "replay_gap", "the first event of a reader that is ahead");
    expect_eq!(gap.data.text("/epoch")?, get(&http, &id).await?.text("/epoch")?, "the epoch in a gap");
    gap.data.int("/from")?;
    gap.data.int("/to")?;
    wait(&http, &id, "new").await?;
    let facts = events.until("final").await?;
    expect!(facts.iter().all(|fact| fact.seq.is_some()), "a second gap: {facts:?}");
    expect!(seqs(&facts).iter().all(|seq| *seq <= last + 100), "numbers of another session: {:?}", seqs(&facts));
    Ok(())
}

async fn past_the_buffer(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "/repeat 5000 x").await?;
    let last = u64::try_from(get(&http, &id).await?.int("/seq")?).unwrap_or_default();
    expect!(last > 5000, "{last} events of a run of 5000 deltas");
    let mut events = http.events(&path(&id, ""), &[("Last-Event-ID", "0")]).await?;
    let facts = up_to(&mut events, last).await?;
    // What is gone from the buffer may come from the disk, or is told as a gap; nothing is silently missing.
    let mut next = 1;
    for fact in &facts {
        if fact.kind == "replay_gap" {
            expect_eq!(fact.data.int("/from")?.try_into().ok(), Some(next), "where the gap begins: {}", fact.data);
            next = u64::try_from(fact.data.int("/to")?).unwrap_or_default() + 1;
        } else {
            expect_eq!(fact.seq, Some(next), "the seq of `{}`", fact.kind);
            next += 1;
        }
    }
    let kept = facts.iter().filter(|fact| fact.seq.is_some()).count();
    expect!(kept >= 4096, "{kept} events replayed of a buffer of 4096");
    Ok(())
}

async fn no_seam(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "/repeat 3000 x"})).await?.want(202)?;
    // Readers come in while events flow.
    let mut readers = Vec::new();
    for _ in 0..10 {
        readers.push(http.events(&path(&id, ""), &[("Last-Event-ID", "0")]).await?);
    }
    for (at, events) in readers.iter_mut().enumerate() {
        let facts = events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
        let count = facts.len() as u64;
        expect_eq!(seqs(&facts), (1..=count).collect::<Vec<_>>(), "what reader {at} was told");
    }
    Ok(())
}

async fn same_each_time(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut live = http.events(&path(&id, ""), &[]).await?;
    wait(&http, &id, "one two three").await?;
    let told = |facts: Vec<Fact>| facts.iter().map(|fact| fact.data.to_string()).collect::<Vec<_>>();
    let live = told(live.until("final").await?);
    for _ in 0..2 {
        let mut again = http.events(&path(&id, "?after=0"), &[]).await?;
        expect_eq!(told(again.until("final").await?), live, "a replay");
    }
    Ok(())
}

async fn reconnect(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&path(&id, ""), &[]).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "/repeat 1000 x"})).await?.want(202)?;
    let mut all = Vec::new();
    loop {
        // Some events, then the connection is cut, as a bad network would.
        for _ in 0..97 {
            all.push(events.fact().await?);
            if all.last().is_some_and(|fact| fact.kind == "final") {
                break;
            }
        }
        if all.last().is_some_and(|fact| fact.kind == "final") {
            break;
        }
        drop(events);
        let last = all.last().and_then(|fact| fact.seq).unwrap_or_default();
        events = http.events(&path(&id, ""), &[("Last-Event-ID", &last.to_string())]).await.of("H15")?;
    }
    let count = all.len() as u64;
    expect_eq!(seqs(&all), (1..=count).collect::<Vec<_>>(), "the events over all connections");
    Ok(())
}
