//! Streams: a session's events, and the node's feed. Clauses: S22–S26.

use super::{create, prompt};
use crate::{
    cases,
    cases::{FOREVER, STDIO},
    client::rpc::{Frame, Rpc},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::{Value, json};
use std::time::Duration;

cases! {
    "s22-subscribe" on STDIO [S22] needs [Script] => subscribe;
    "s22-a-second-subscribe-doubles" on STDIO [S22] needs [Script] => doubles;
    "s22-nothing-before-subscribe" on STDIO [S22, S24] needs [Script] => nothing_before;
    "s22-forwarders-end-with-detach" on STDIO [S22, S15] needs [Script] => ends_with_detach;
    "s23-lagging-is-counted" on STDIO [S23, C14] needs [Process, Script] => lagging;
    "s24-subscribe-tells-who-is-live" on STDIO [S24] => who_is_live;
    "s25-markers-of-a-life" on STDIO [S25, S26] needs [Script] => life;
    "s25-session-events-on-the-feed" on STDIO [S25, S22] needs [Script] => on_the_feed;
    "s26-a-failed-attach-says-nothing" on STDIO [S26] => failed_attach;
    "s26-detached-is-last" on STDIO [S26] needs [Script] => detached_is_last;
    "s26-attach-of-a-live-session-says-nothing" on STDIO [S26] => attach_twice;
}

async fn subscribe(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let result = rpc.call("sessions.subscribe", json!({"id": id})).await?;
    expect_eq!(result, json!({"subscribed": true, "sessionId": id}), "the result");
    rpc.call("sessions.prompt", prompt(&id, "hello world")).await?;
    let first = rpc.notification("session.event").await?;
    expect_eq!(first.json.text("/params/sessionId")?, id, "whose events these are");
    expect_eq!(first.json.text("/params/events/0/type")?, "runStarted", "the first event");
    Ok(())
}

/// The seqs of a session's events up to `runFinished`, `count` times over.
async fn seqs(rpc: &mut Rpc, count: usize) -> Outcome<Vec<i64>> {
    let (mut seqs, mut ends) = (Vec::new(), 0);
    while ends < count {
        let frame = rpc.notification("session.event").await?;
        for event in frame.json.list("/params/events")? {
            seqs.push(event.int("/seq")?);
            ends += usize::from(event.get("type") == Some(&json!("runFinished")));
        }
    }
    Ok(seqs)
}

async fn doubles(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    for _ in 0..2 {
        rpc.call("sessions.subscribe", json!({"id": id})).await?;
    }
    rpc.call("sessions.prompt", prompt(&id, "one two three")).await?;
    let mut all = seqs(&mut rpc, 2).await?;
    all.sort_unstable();
    let want: Vec<i64> = (1..).take(all.len() / 2).flat_map(|seq| [seq, seq]).collect();
    expect_eq!(all, want, "every event twice");
    rpc.quiet(Duration::from_millis(50)).await
}

async fn nothing_before(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn ends_with_detach(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let closed =
        rpc.notified("session.event", "sessionClosed", |params| params.to_string().contains("sessionClosed")).await?;
    let last = closed.json.list("/params/events")?.last().cloned().unwrap_or_default();
    expect_eq!(last.text("/reason")?, "explicit", "the last event: {last}");
    rpc.call("sessions.attach", json!({"id": id})).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn lagging(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    // More than the window of 512 and more bytes than a pipe holds, while nobody reads.
    rpc.send("sessions.prompt", prompt(&id, &format!("/repeat 8000 {}", "x".repeat(400)))).await?;
    let transcript = on.server()?.transcript(&id);
    let end = std::time::Instant::now() + ctx.options.deadline;
    while !std::fs::read_to_string(&transcript).is_ok_and(|text| text.contains("\"ended\"")) {
        expect!("C14": std::time::Instant::now() < end, "a reader that does not read holds up the run");
        // There is no event for what another process writes to a file.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A server may forgive a burst; a reader that does not read at all has to be told in the end.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (mut next, mut lost, mut finished) = (1, 0, false);
    while !finished {
        let frame = rpc.notification("session.event").await?;
        if let Some(lagged) = frame.json.pointer("/params/lagged").and_then(Value::as_i64) {
            expect_eq!(frame.json.list("/params/events")?.len(), 0, "events beside `lagged` in {frame}");
            expect!(lagged > 0, "lagged by nothing: {frame}");
            lost += lagged;
            next += lagged;
            continue;
        }
        for event in frame.json.list("/params/events")? {
            expect_eq!(event.int("/seq")?, next, "the seq of an event; {lost} were told to be lost");
            next += 1;
            finished = event.get("type") == Some(&json!("runFinished"));
        }
    }
    expect!(lost > 0, "nothing was lost in {next} events that nobody read; the window is 512");
    Ok(())
}

async fn who_is_live(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let (one, two) = (create(&mut rpc, ctx).await?, create(&mut rpc, ctx).await?);
    rpc.call("sessions.detach", json!({"id": two})).await?;
    let result = rpc.call("events.subscribe", json!({})).await?;
    expect_eq!(result, json!({"subscribed": true, "live": [one]}), "the result");
    Ok(())
}

/// The markers that came, in order, without the session's events.
fn markers(frames: &[Frame]) -> Vec<(String, String)> {
    let text =
        |frame: &Frame, pointer: &str| frame.json.pointer(pointer).and_then(Value::as_str).unwrap_or("?").to_owned();
    let all = frames.iter().map(|frame| (text(frame, "/params/type"), text(frame, "/params/sessionId")));
    all.filter(|(kind, _)| kind != "sessionEvents").collect()
}

/// Everything on the feed up to a marker of a session that is made for this alone.
async fn so_far(rpc: &mut Rpc, ctx: &Ctx) -> Outcome<Vec<Frame>> {
    let fence = create(rpc, ctx).await?;
    let mut frames = Vec::new();
    loop {
        let frame = rpc.notification("node.event").await?;
        if frame.json.pointer("/params/sessionId") == Some(&json!(fence)) {
            return Ok(frames);
        }
        frames.push(frame);
    }
}

async fn life(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let frames = so_far(&mut rpc, ctx).await?;
    let kinds: Vec<String> = markers(&frames).into_iter().map(|(kind, _)| kind).collect();
    expect_eq!(kinds, ["created", "detached", "attached", "detached"], "the markers");
    for frame in &frames {
        let params = frame.json.at("/params")?;
        match params.text("/type")?.as_str() {
            "created" => {
                params.text("/cwd")?;
                params.text("/agentId")?;
            }
            "detached" => {
                expect_eq!(params.text("/reason")?, "explicit", "the reason");
                params.text("/agentId")?;
            }
            "attached" => {
                params.text("/agentId")?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn on_the_feed(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    rpc.call("sessions.prompt", prompt(&id, "hello world")).await?;
    let own = seqs(&mut rpc, 1).await?;
    let mut told = Vec::new();
    for frame in so_far(&mut rpc, ctx).await? {
        if frame.json.pointer("/params/type") == Some(&json!("sessionEvents")) {
            expect_eq!(frame.json.text("/params/sessionId")?, id, "whose events these are");
            for event in frame.json.list("/params/events")? {
                told.push(event.int("/seq")?);
            }
        }
    }
    expect_eq!(told, own, "the events on the feed and those of the session");
    Ok(())
}

async fn failed_attach(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    rpc.fails("sessions.attach", json!({"id": "01890000-0000-7000-8000-000000000000"}), "not_found").await?;
    rpc.ask("sessions.create", json!({"cwd": ctx.work(), "agent": "nobody"})).await?;
    let frames = so_far(&mut rpc, ctx).await?;
    expect!(frames.is_empty(), "a failed attach and a failed create told: {frames:?}");
    Ok(())
}

async fn detached_is_last(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let id = create(&mut rpc, ctx).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    rpc.notified("node.event", "a run", |params| params.to_string().contains("runStarted")).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    rpc.reply(run).await?;
    let frames = so_far(&mut rpc, ctx).await?;
    let kinds: Vec<String> = frames.iter().map(|frame| frame.json.text("/params/type")).collect::<Outcome<_>>()?;
    expect_eq!(
        kinds.iter().position(|kind| kind == "detached"),
        Some(kinds.len().saturating_sub(1)),
        "`detached` is last in {kinds:?}"
    );
    let text = frames.iter().map(|frame| frame.text.as_str()).collect::<String>();
    expect!(text.contains("runFinished"), "the end of the run is not on the feed: {}", crate::verdict::shorten(&text));
    Ok(())
}

async fn attach_twice(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("events.subscribe", json!({})).await?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    let told = markers(&so_far(&mut rpc, ctx).await?);
    expect!(told.is_empty(), "an attach of a live session told: {told:?}");
    Ok(())
}
