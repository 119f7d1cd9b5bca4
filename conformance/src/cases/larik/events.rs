//! The event stream: its head, its messages, what the server adds, unload and load, keep-alive. Clauses: H13, H14, H16, H17.
//! That every message's `id`, `event` and `data` agree is looked at by the client, with every message.

use super::{create, get, wait};
use crate::{
    cases,
    cases::{HTTP, write},
    client::{http::Fact, sse::Item},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::json;
use std::time::{Duration, Instant};

cases! {
    "h13-head-comes-before-any-event" on HTTP [H13, H17] => head_first;
    "h13-events-of-a-stored-session" on HTTP [H13] needs [Script] => stored_session;
    "h13-stream-stays-open-over-unload-and-load" on HTTP [H13, H14] needs [Script] => over_unload;
    "h13-subscription-stands-before-its-200" on HTTP [H13] needs [Script] => stands_at_once;
    "h13-every-stream-gets-every-event" on HTTP [H13, C14] needs [Script] => every_stream;
    "h13-only-its-own-session" on HTTP [H13] needs [Script] => own_session;
    "h13-text-cannot-forge-events" on HTTP [H13] needs [Script] => no_forging;
    "h14-idle-means-idle" on HTTP [H14, H18] needs [Script] => idle_means_idle;
    "h14-patch-is-told" on HTTP [H14, H09] => patch_is_told;
    "h16-seq-counts-by-one-over-runs" on HTTP [H16] needs [Script] => seq_over_runs;
    "h16-seq-goes-on-after-a-restart" on HTTP [H16, C09] needs [Process, Script] => seq_after_restart;
    "h16-seq-is-never-used-twice-after-a-kill" on HTTP [H16, H15] needs [Process, Script] => seq_after_kill;
    "h17-retry-is-sent-once" on HTTP [H17] => retry_once;
    "h17-a-comment-keeps-it-alive" on HTTP [H17] needs [Slow] => keep_alive;
    "h17-a-stalled-reader-blocks-nobody" on HTTP [H17, C14] needs [Script, Slow] => stalled_reader;
}

/// The path of a session's stream.
fn stream(id: &str) -> String {
    format!("/v1/sessions/{id}/events")
}

/// The types of facts.
fn kinds(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(|fact| fact.kind.as_str()).collect()
}

async fn head_first(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let start = Instant::now();
    let events = http.events(&stream(&id), &[]).await?;
    expect!(start.elapsed() < Duration::from_secs(1), "the head of an idle stream took {:?}", start.elapsed());
    let cache = events.head.header("cache-control").unwrap_or_default();
    expect!(cache.contains("no-store") || cache.contains("no-cache"), "cache-control is {cache:?}");
    Ok(())
}

async fn stored_session(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    let mut events = http.events(&stream(&id), &[("Last-Event-ID", "0")]).await?;
    let facts = events.until("session_closed").await?;
    expect_eq!(kinds(&facts).first(), Some(&"status"), "the first event of a stored session");
    expect_eq!(get(&http, &id).await?.flag("/loaded")?, false, "`loaded`: a stream loads nothing");
    Ok(())
}

async fn over_unload(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    wait(&http, &id, "one").await?;
    http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    events.until("session_closed").await?;
    wait(&http, &id, "two").await?;
    let facts = events.until("final").await?;
    expect_eq!(
        facts.last().map(|fact| fact.data.text("/reply")).transpose()?,
        Some("two".to_owned()),
        "the run after a load"
    );
    Ok(())
}

async fn stands_at_once(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for round in 0..10 {
        let id = create(&http).await?;
        let mut events = http.events(&stream(&id), &[]).await?;
        http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "x"})).await?.want(202)?;
        let first = events.fact().await?;
        expect_eq!((first.kind.as_str(), first.seq), ("status", Some(1)), "round {}: the first event", round);
    }
    Ok(())
}

async fn every_stream(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(http.events(&stream(&id), &[]).await?);
    }
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "/repeat 200 word"})).await?.want(202)?;
    let mut told = Vec::new();
    for events in &mut streams {
        let facts = events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
        told.push(facts.iter().map(|fact| fact.data.to_string()).collect::<Vec<_>>());
    }
    let first = told.first().cloned().unwrap_or_default();
    expect!(first.len() > 200, "{} events of a run of 200 deltas", first.len());
    let other = told.iter().position(|other| *other != first);
    expect!(other.is_none(), "stream {other:?} was told something else than the first");
    Ok(())
}

async fn own_session(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (one, two) = (create(&http).await?, create(&http).await?);
    let mut events = http.events(&stream(&one), &[("Last-Event-ID", "0")]).await?;
    wait(&http, &two, "other").await?;
    wait(&http, &one, "own").await?;
    for fact in events.until("final").await? {
        expect_eq!(fact.data.text("/session")?, one, "whose event it is");
    }
    Ok(())
}

async fn no_forging(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    let text = "a\n\nevent: final\nid: 999\ndata: {}\n\n: b\r\rdata: c\r\n\u{2028}\u{85}";
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": text})).await?.want(202)?;
    let facts = events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
    let said = facts.iter().find(|fact| fact.kind == "user_message").map(|fact| fact.data.text("/text")).transpose()?;
    expect_eq!(said.as_deref(), Some(text), "the text, as it was said");
    let replies: Vec<String> = facts
        .iter()
        .filter(|fact| fact.kind == "final")
        .map(|fact| fact.data.text("/reply"))
        .collect::<Outcome<_>>()?;
    expect_eq!(replies, [text], "the text, as it was echoed");
    Ok(())
}

async fn idle_means_idle(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    for round in 0..30 {
        let answer = http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "x"})).await?;
        answer.want(202).map_err(|stop| match stop {
            Stop::Broke { clause, seen } => {
                Stop::Broke { clause, seen: format!("round {round}, right after `status` idle: {seen}") }
            }
            other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
        })?;
        events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
        expect_eq!(get(&http, &id).await?.flag("/busy")?, false, "round {}: `busy` after `status` idle", round);
    }
    Ok(())
}

async fn patch_is_told(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    http.patch(&format!("/v1/sessions/{id}"), &json!({"mode": "plan"})).await?.want(200)?;
    let fact = events.fact().await?;
    expect_eq!(
        (fact.kind.as_str(), fact.data.text("/mode")?.as_str()),
        ("settings_changed", "plan"),
        "the event of a PATCH"
    );
    Ok(())
}

/// Ends the case unless the numbers count up by one from `first`.
fn contiguous(facts: &[Fact], first: u64) -> Outcome {
    for (fact, want) in facts.iter().zip(first..) {
        expect_eq!("H16": fact.seq, Some(want), "the seq of `{}`", fact.kind);
    }
    Ok(())
}

async fn seq_over_runs(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    let mut all = Vec::new();
    for text in ["one", "/fail unavailable", "/repeat 50 x"] {
        wait(&http, &id, text).await?;
        all.extend(events.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?);
    }
    contiguous(&all, 1)?;
    let last = all.last().and_then(|fact| fact.seq);
    expect_eq!(get(&http, &id).await?.int("/seq")?.try_into().ok(), last, "`seq` of the session");
    Ok(())
}

async fn seq_after_restart(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    let (seq, epoch) = {
        let view = get(&http, &id).await?;
        (view.int("/seq")?, view.text("/epoch")?)
    };
    on.server()?.signal(rustix::process::Signal::TERM);
    on.server()?.exited(Duration::from_secs(5)).await?;
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut events = http.events(&stream(&id), &[("Last-Event-ID", "0")]).await?;
    wait(&http, &id, "two").await?;
    let mut facts = Vec::new();
    for _ in 0..2 {
        facts.extend(events.until("final").await?);
    }
    // The shutdown closed the session, which is an event too; after a clean end nothing is missing.
    contiguous(&facts, 1)?;
    let view = get(&http, &id).await?;
    expect!(view.int("/seq")? > seq, "seq {seq} before a restart, {} after another run", view.int("/seq")?);
    expect_eq!(view.text("/epoch")?, epoch, "the epoch after a restart");
    Ok(())
}

async fn seq_after_kill(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "/repeat 100 x\n/sleep 60000"}))
        .await?
        .want(202)?;
    let mut seen = Vec::new();
    while seen.iter().filter(|fact: &&Fact| fact.kind == "llm_delta").count() < 100 {
        seen.push(events.fact().await?);
    }
    let last = seen.last().and_then(|fact| fact.seq).unwrap_or_default();
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut events = http.events(&stream(&id), &[("Last-Event-ID", &last.to_string())]).await?;
    wait(&http, &id, "after").await?;
    let facts =
        events.until_fact("the final of the new run", |fact| fact.data.get("reply") == Some(&json!("after"))).await?;
    let mut next = last + 1;
    for fact in &facts {
        if fact.kind == "replay_gap" {
            let (from, to) = (fact.data.int("/from").of("H15")?, fact.data.int("/to").of("H15")?);
            expect_eq!("H15": from.try_into().ok(), Some(next), "where the gap begins: {}", fact.data);
            expect!("H15": to >= from, "a gap of nothing: {}", fact.data);
            next = u64::try_from(to).unwrap_or_default() + 1;
            continue;
        }
        expect_eq!(fact.seq, Some(next), "the seq of `{}` after a kill at {last}", fact.kind);
        next += 1;
    }
    Ok(())
}

async fn retry_once(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&stream(&id), &[]).await?;
    http.patch(&format!("/v1/sessions/{id}"), &json!({"mode": "plan"})).await?.want(200)?;
    let mut items = Vec::new();
    loop {
        let item = events.item().await?.ok_or_else(|| Stop::broke("the stream ended"))?;
        let done = matches!(item, Item::Message(_));
        items.push(item);
        if done {
            break;
        }
    }
    let retries = items.iter().filter(|item| matches!(item, Item::Retry(_))).count();
    expect_eq!(retries, 1, "`retry:` lines before the first message in {items:?}");
    Ok(())
}

async fn keep_alive(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut http = on.http()?;
    let id = create(&http).await?;
    http.deadline = Duration::from_secs(20);
    let mut events = http.events(&stream(&id), &[]).await?;
    let start = Instant::now();
    let mut comments = 0;
    while comments < 2 {
        match events.item().await?.ok_or_else(|| Stop::broke("the stream ended"))? {
            // One may come with the head, to open the stream.
            Item::Comment(_) if start.elapsed() > Duration::from_secs(5) => comments += 1,
            Item::Comment(_) | Item::Retry(_) => {}
            Item::Message(message) => return Err(Stop::broke(format!("an idle stream says {message:?}"))),
        }
    }
    let took = start.elapsed();
    expect!(
        (Duration::from_secs(25)..Duration::from_secs(36)).contains(&took),
        "two comments took {took:?}, want 30 s"
    );
    Ok(())
}

async fn stalled_reader(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    // Opened and never read.
    let _stalled = http.events(&stream(&id), &[]).await?;
    let mut reader = http.events(&stream(&id), &[]).await?;
    let text = format!("/repeat 4000 {}", "x".repeat(4000));
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": text})).await?.want(202)?;
    // `final` is told before the session is idle; `status` says that it is.
    reader.until_fact("`status` idle", |fact| fact.data.get("busy") == Some(&json!(false))).await?;
    expect_eq!(
        get(&http, &id).await?.flag("/busy")?,
        false,
        "`busy`: the run ended beside a reader that does not read"
    );
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": write("a", "x")})).await?.want(202).map(drop)
}
