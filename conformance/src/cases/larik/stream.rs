//! Event streams: what is in them, where they begin, what a loss looks like, and readers that are slow. Clauses: H13–H17, C14.

use super::Bag;
use crate::{
    cases,
    cases::{FOREVER, HTTP},
    client::{http::Fact, sse::Item},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::json;
use std::time::Duration;

cases! {
    "h13-no-payload-breaks-out" on HTTP [H13] needs [Script] => payloads;
    "h13-every-reader-sees-the-same" on HTTP [H13] needs [Script] => same;
    "h14-the-servers-own-events" on HTTP [H14] needs [Script] => own;
    "h15-replay-from-a-cursor" on HTTP [H15] needs [Script] => replay;
    "h15-without-a-cursor-only-new-events" on HTTP [H15] needs [Script] => only_new;
    "h15-the-header-wins" on HTTP [H15] needs [Script] => header_wins;
    "h15-a-malformed-cursor-is-400" on HTTP [H15] => malformed;
    "h15-ahead-of-the-session-is-a-gap" on HTTP [H15] needs [Script] => ahead;
    "h17-comments-and-one-retry" on HTTP [H17] => comments;
    "c14-a-reader-that-does-not-read-is-told-what-it-lost" on HTTP [C14, H17, H15] needs [Script, Process] => stalled;
    "c14-a-reader-that-never-reads-is-cut-off" on HTTP [C14] needs [Script, Process, Slow] => cut_off;
}

/// What a careless writer would break on.
const HOSTILE: &str = "a\rb\r\nc\n\nevent: final\ndata: {}\n\n\u{2028}\u{2029}\u{0}\u{feff}\u{1b}[2J id: 9\u{85}z";

async fn payloads(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    let run = bag.run(HOSTILE).await?;
    let seen = live.until("final").await?;
    let said: Vec<String> =
        seen.iter().filter(|f| f.kind == "user_message").map(|f| f.data.text("/text")).collect::<Outcome<_>>()?;
    expect_eq!(said, [HOSTILE], "the user message");
    let mut text = String::new();
    for delta in seen.iter().filter(|fact| fact.kind == "llm_delta") {
        text += &delta.data.text("/text")?;
    }
    expect_eq!(text, run.text("/text")?, "the deltas, joined");
    expect!(text.contains('\u{2028}') && text.contains('\u{0}') && text.contains('\r'), "not echoed: {text:?}");
    Ok(())
}

async fn same(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (mut first, mut second) = (bag.live().await?, bag.live().await?);
    bag.run("/repeat 50 x").await?;
    let facts = |seen: Vec<Fact>| seen.into_iter().map(|fact| (fact.seq, fact.data)).collect::<Vec<_>>();
    let (a, b) = (facts(first.until("final").await?), facts(second.until("final").await?));
    expect_eq!(a, b, "two readers of one run");
    // A session's stream has that session's events alone.
    let other = Bag::create(&on).await?;
    other.run("elsewhere").await?;
    bag.run("here").await?;
    for fact in first.until("final").await? {
        expect_eq!(fact.data.text("/session")?, bag.id, "whose event");
    }
    Ok(())
}

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

/// A run of some length, all of it.
async fn told(bag: &Bag) -> Outcome<Vec<Fact>> {
    let mut live = bag.live().await?;
    bag.run("/repeat 30 x").await?;
    live.until_fact("idle", |fact| fact.data.get("busy") == Some(&json!(false))).await
}

fn seqs(facts: &[Fact]) -> Vec<u64> {
    facts.iter().filter_map(|fact| fact.seq).collect()
}

async fn replay(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let all = told(&bag).await?;
    let idle = |fact: &Fact| fact.data.get("busy") == Some(&json!(false));
    for at in [0, 1, 7, 20, all.len() - 2] {
        let cursor = all.get(at).and_then(|fact| fact.seq).unwrap_or_default();
        let rest: Vec<_> = all.iter().skip(at + 1).map(|fact| (fact.seq, fact.data.clone())).collect();
        for (path, header) in [("/events".to_owned(), true), (format!("/events?after={cursor}"), false)] {
            let id = cursor.to_string();
            let headers: &[(&str, &str)] = if header { &[("Last-Event-ID", &id)] } else { &[] };
            let mut again = bag.http.events(&bag.path(&path), headers).await?;
            let got: Vec<_> = again.until_fact("idle", idle).await?.into_iter().map(|f| (f.seq, f.data)).collect();
            expect_eq!(got, rest, "what follows {cursor} ({path})");
        }
    }
    let mut whole = bag.after(0).await?;
    let got = whole.until_fact("idle", idle).await?;
    expect_eq!(got.first().and_then(|fact| fact.seq), Some(1), "the first of all events");
    // Live goes on where the replay ends.
    bag.run("more").await?;
    let more = whole.until("final").await?;
    let last = got.last().and_then(|fact| fact.seq).unwrap_or_default();
    expect_eq!(seqs(&more).first().copied(), Some(last + 1), "the first live event after a replay");
    Ok(())
}

async fn only_new(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let last = seqs(&told(&bag).await?).last().copied().unwrap_or_default();
    let mut live = bag.live().await?;
    bag.run("more").await?;
    expect_eq!(live.fact().await?.seq, Some(last + 1), "the first event of a stream without a cursor");
    Ok(())
}

async fn header_wins(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    told(&bag).await?;
    let mut stream = bag.http.events(&bag.path("/events?after=2"), &[("Last-Event-ID", "9")]).await?;
    expect_eq!(stream.fact().await?.seq, Some(10), "the first event after 9 (and `?after=2`)");
    Ok(())
}

async fn malformed(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for bad in ["", "-1", "+1", "1.5", "abc", "0x10", "1%202", "99999999999999999999", "1,2"] {
        bag.http.get(&bag.path(&format!("/events?after={bad}"))).await?.fails(400, "invalid_params")?;
    }
    for bad in ["-1", "abc", "1 2", "99999999999999999999"] {
        let request = bag.http.request("GET", &bag.path("/events")).header("Last-Event-ID", bad);
        bag.http.send(&request).await?.fails(400, "invalid_params")?;
    }
    Ok(())
}

async fn ahead(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let last = seqs(&told(&bag).await?).last().copied().unwrap_or_default();
    let mut stream = bag.after(last + 1000).await?;
    let gap = stream.fact().await?;
    expect_eq!(gap.kind, "replay_gap", "the first event of a stream ahead of its session");
    expect_eq!((gap.data.int("/from")?, gap.data.int("/to")?), at(last + 1, last + 1000), "what it says");
    expect_eq!(gap.data.text("/epoch")?, bag.get("").await?.text("/epoch")?, "its epoch");
    bag.run("more").await?;
    expect_eq!(stream.fact().await?.seq, Some(last + 1), "the event after it");
    Ok(())
}

fn at(from: u64, to: u64) -> (i64, i64) {
    (i64::try_from(from).unwrap_or_default(), i64::try_from(to).unwrap_or_default())
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

/// More than a server keeps: deltas of 24 MB, and the whole text twice again at the end.
const FLOOD: usize = 600;
const CHUNK: usize = 40_000;

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

async fn cut_off(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut bag = Bag::create(&on).await?;
    (bag.http.deadline, bag.http.book) = (Duration::from_secs(60), None);
    let mut stream = bag.live().await?;
    bag.run(&format!("/repeat {FLOOD} {}", "x".repeat(CHUNK))).await?;
    tokio::time::sleep(Duration::from_secs(35)).await;
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
    ended.unwrap_or_else(|_| Err(Stop::broke("a reader that took nothing for 35 s is still connected")))
}
