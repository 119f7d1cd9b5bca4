//! Prompts, cancels and permissions. Clauses: S15, S27.

use super::{create, prompt};
use crate::{
    cases,
    cases::{FOREVER, STDIO, say_after, write},
    client::rpc::Rpc,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "s15-prompt-answers-at-the-end" on STDIO [S15] needs [Script] => prompt_result;
    "s15-busy-while-one-runs" on STDIO [S15, C03] needs [Script] => busy;
    "s15-parts" on STDIO [S15, C04] needs [Script] => parts;
    "s15-no-parts-are-refused" on STDIO [S15, C04] => no_parts;
    "s15-idle-before-the-reply" on STDIO [S15, S27] needs [Script] => idle_before_reply;
    "s15-permission-with-an-option-not-offered" on STDIO [S15, C04] needs [Process, Script] => not_offered;
    "s15-permission-answered-twice" on STDIO [S15] needs [Process, Script] => twice;
    "s27-runs-are-marked" on STDIO [S27, S22] needs [Script] => runs_are_marked;
    "s27-run-finished-tells-the-outcome" on STDIO [S27] needs [Script] => finished_tells;
}

async fn prompt_result(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let result = rpc.call("sessions.prompt", prompt(&id, "hello world")).await?;
    expect_eq!(result.text("/reply")?, "hello world", "the reply");
    expect_eq!(
        (result.text("/stopReason")?.as_str(), result.int("/turns")?),
        ("completed", 1),
        "stop reason and turns"
    );
    expect!(result.int("/usage/output")? > 0, "usage: {result}");
    expect!(!result.text("/runId")?.is_empty(), "an empty run id");
    let failed = rpc.call("sessions.prompt", prompt(&id, "/fail unavailable")).await?;
    expect_eq!(failed.text("/stopReason")?, "error", "the stop reason of a failed run");
    Ok(())
}

/// Starts a run that waits, and returns once it is in flight.
async fn running(rpc: &mut Rpc, id: &str, text: &str) -> Outcome<i64> {
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(id, text)).await?;
    rpc.notified("session.event", "turnStarted", |params| params.to_string().contains("turnStarted")).await?;
    Ok(run)
}

async fn busy(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let run = running(&mut rpc, &id, FOREVER).await?;
    rpc.fails("sessions.prompt", prompt(&id, "x"), "busy").await?;
    let other = create(&mut rpc, ctx).await?;
    expect_eq!(
        rpc.call("sessions.prompt", prompt(&other, "x")).await?.text("/reply")?,
        "x",
        "another session meanwhile"
    );
    expect_eq!(rpc.call("sessions.cancel", json!({"id": id})).await?, json!({"cancelled": true}), "the cancel");
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the stop reason");
    expect_eq!(rpc.call("sessions.cancel", json!({"id": id})).await?, json!({"cancelled": false}), "a second cancel");
    Ok(())
}

async fn parts(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let parts = json!([
        {"type": "text", "text": "hello", "from": "somebody"},
        {"type": "file", "path": "a.txt", "text": "x"},
        {"type": "image", "mime": "image/png", "data": "iVBORw0KGgo="},
    ]);
    rpc.call("sessions.prompt", json!({"id": id, "parts": parts})).await?;
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages/0/parts")?, parts.as_array().unwrap_or(&Vec::new()), "the parts, as they came");
    Ok(())
}

async fn no_parts(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    for parts in [
        json!([]),
        json!([{"type": "nonsense"}]),
        json!([{"type": "text"}]),
        json!([{"type": "text", "text": 1}]),
        json!([1]),
    ] {
        rpc.fails("sessions.prompt", json!({"id": id, "parts": parts}), "invalid_params").await?;
    }
    Ok(())
}

async fn idle_before_reply(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    for round in 0..30 {
        rpc.call("sessions.prompt", prompt(&id, "x")).await.map_err(|stop| match stop {
            Stop::Broke { clause, seen } => {
                Stop::Broke { clause, seen: format!("round {round}, right after a reply: {seen}") }
            }
            other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
        })?;
    }
    Ok(())
}

/// A run that waits on a permission: its reply's id and the request.
async fn asking(rpc: &mut Rpc, id: &str) -> Outcome<(i64, String)> {
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(id, &write("a.txt", "x"))).await?;
    let asked = rpc
        .notified("session.event", "permissionRequest", |params| params.to_string().contains("permissionRequest"))
        .await?;
    let events = asked.json.list("/params/events")?;
    let request = events.iter().find_map(|event| event.get("requestId").and_then(Value::as_str)).map(str::to_owned);
    Ok((run, request.ok_or_else(|| Stop::broke(format!("no requestId in {asked}")))?))
}

async fn not_offered(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let (run, request) = asking(&mut rpc, &id).await?;
    rpc.fails("sessions.permission", json!({"id": id, "request": request, "option": "nonsense"}), "invalid_params")
        .await?;
    rpc.fails("sessions.permission", json!({"id": id, "request": "nonsense", "option": "allow_once"}), "not_found")
        .await?;
    // It is still pending.
    let answer =
        rpc.call("sessions.permission", json!({"id": id, "request": request, "option": "reject_once"})).await?;
    expect_eq!(answer, json!({"resolved": true}), "the answer");
    rpc.reply(run).await?.ok()?;
    expect!(!ctx.work().join("a.txt").exists(), "the tool ran although it was refused");
    Ok(())
}

async fn twice(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let (run, request) = asking(&mut rpc, &id).await?;
    let answer = json!({"id": id, "request": request, "option": "allow_once"});
    rpc.call("sessions.permission", answer.clone()).await?;
    rpc.fails("sessions.permission", answer, "not_found").await?;
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "completed", "the stop reason");
    Ok(())
}

/// The events of a run, in this wire's own words.
async fn events_of(rpc: &mut Rpc, id: &str, text: &str) -> Outcome<Vec<Value>> {
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    rpc.call("sessions.prompt", prompt(id, text)).await?;
    let mut events: Vec<Value> = Vec::new();
    while events.last().and_then(|event| event.get("type")) != Some(&json!("runFinished")) {
        let frame = rpc.notification("session.event").await?;
        events.extend(frame.json.list("/params/events")?.iter().cloned());
    }
    Ok(events)
}

async fn runs_are_marked(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let events = events_of(&mut rpc, &id, &say_after(10, "x")).await?;
    let kinds: Vec<String> = events.iter().map(|event| event.text("/type")).collect::<Outcome<_>>()?;
    let marks: Vec<&str> = kinds.iter().map(String::as_str).filter(|kind| kind.starts_with("run")).collect();
    expect_eq!(marks, ["runStarted", "runFinished"], "the marks of a run in {kinds:?}");
    expect_eq!(kinds.first().map(String::as_str), Some("runStarted"), "the first event");
    let seqs: Vec<i64> = events.iter().map(|event| event.int("/seq")).collect::<Outcome<_>>()?;
    expect_eq!("S22": seqs, (1..).take(seqs.len()).collect::<Vec<i64>>(), "the seqs");
    Ok(())
}

async fn finished_tells(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let events = events_of(&mut rpc, &id, "x").await?;
    let last = events.last().cloned().unwrap_or_default();
    expect!(last.to_string().contains("completed"), "`runFinished` does not tell the outcome: {last}");
    Ok(())
}
