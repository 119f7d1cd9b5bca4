//! Prompts: the result, the order of runs and replies, events on the submitting socket alone, aborts. Clauses: L14–L19.

use crate::{
    cases,
    cases::{FOREVER, WS, say_after, write},
    client::{lich::read_event, rpc::Rpc},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

cases! {
    "l14-submit-result" on WS [L14] needs [Script] => submit_result;
    "l14-every-end-is-a-result" on WS [L14] needs [Script] => every_end;
    "l14-empty-text-is-refused" on WS [L14, C04] => empty_text;
    "l14-long-text-is-taken" on WS [L14, L23] needs [Script] => long_text;
    "l15-runs-of-one-session-are-serial" on WS [L15, L19] needs [Script] => serial;
    "l15-runs-of-two-sockets-are-serial" on WS [L15] needs [Script] => serial_over_sockets;
    "l15-sessions-run-at-once" on WS [L15, L19] needs [Script] => at_once;
    "l16-events-only-on-the-submitting-socket" on WS [L16] needs [Script] => submitting_socket;
    "l16-events-before-the-reply" on WS [L16, L17] needs [Script] => before_the_reply;
    "l17-only-the-agents-own-events" on WS [L17] needs [Script, Process] => own_events;
    "l18-abort-in-flight" on WS [L18] needs [Script] => abort_in_flight;
    "l18-abort-from-another-socket" on WS [L18] needs [Script] => abort_elsewhere;
    "l18-abort-reaches-waiting-submits" on WS [L18, L19] needs [Script] => abort_waiting;
    "l18-abort-spares-other-sockets-queues" on WS [L18] needs [Script] => abort_spares;
    "l18-abort-does-not-reach-a-later-submit" on WS [L18] needs [Script] => abort_is_not_for_later;
    "l18-abort-of-nothing" on WS [L18] => abort_of_nothing;
    "l19-nothing-waits-for-another-session" on WS [L19] needs [Script] => nothing_waits;
}

async fn create(rpc: &mut Rpc) -> Outcome<String> {
    rpc.call("session.create", json!({"source": "conformance"})).await.of("L05")?.text("/session_id")
}

/// Params of a submit.
fn submit(session: &str, text: &str) -> Value {
    json!({"session_id": session, "text": text})
}

/// Waits for a session's next event of this type.
async fn event(rpc: &mut Rpc, session: &str, kind: &str) -> Outcome<Value> {
    let fits = |params: &Value| {
        params.get("session_id").and_then(Value::as_str) == Some(session)
            && params.pointer("/event/type").and_then(Value::as_str) == Some(kind)
    };
    let frame = rpc.notified("event", kind, fits).await.of("L16")?;
    frame.json.at("/params/event").cloned()
}

async fn submit_result(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let result = rpc.call("prompt.submit", submit(&id, "hello world")).await?;
    expect_eq!(result.text("/reply")?, "hello world", "the reply");
    expect_eq!(result.text("/stopped_reason")?, "completed", "the stopped reason");
    expect_eq!(result.int("/turns_used")?, 1, "turns");
    for member in ["input", "output", "cached", "reasoning"] {
        result.int(&format!("/usage/{member}"))?;
    }
    expect!(!result.text("/run_id")?.is_empty(), "an empty run id");
    Ok(())
}

async fn every_end(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    for (text, stopped) in [
        ("/fail refused", "refused"),
        ("/fail max_tokens", "max_tokens"),
        ("/fail unavailable", "error"),
        ("x", "completed"),
    ] {
        let result = rpc.call("prompt.submit", submit(&id, text)).await?;
        expect_eq!(result.text("/stopped_reason")?, stopped, "the stopped reason of {text:?}");
    }
    Ok(())
}

async fn empty_text(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    rpc.fails("prompt.submit", submit(&id, ""), "invalid_params").await?;
    Ok(())
}

async fn long_text(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let text = format!("/say {}", "a".repeat(1_000_000));
    let result = rpc.call("prompt.submit", submit(&id, &text)).await?;
    expect_eq!(result.text("/reply")?.len(), 1_000_000, "bytes of the reply");
    Ok(())
}

async fn serial(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let mut sent = Vec::new();
    for word in ["one", "two", "three"] {
        sent.push(rpc.send("prompt.submit", submit(&id, &say_after(30, word))).await?);
    }
    let mut replies = Vec::new();
    for id in sent {
        replies.push(rpc.reply(id).await?);
    }
    let order: Vec<usize> = replies.iter().map(|reply| reply.at).collect();
    expect!(order.is_sorted(), "replies of one session out of order: {order:?}");
    let frames = rpc.arrived("event");
    let mut words = Vec::new();
    for frame in &frames {
        let event = read_event(frame.json.at("/params")?)?;
        if event.kind == "final" {
            words.push(event.data.text("/reply")?);
        }
        // Between two finals no other run speaks: a run's `turn_start` comes after the `final` before it.
        if event.kind == "turn_start" {
            words.push("start".to_owned());
        }
    }
    expect_eq!(words, ["start", "one", "start", "two", "start", "three"], "starts and ends of the runs");
    Ok(())
}

async fn serial_over_sockets(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = create(&mut one).await?;
    let first = one.send("prompt.submit", submit(&id, &say_after(300, "one"))).await?;
    event(&mut one, &id, "turn_start").await?;
    let result = two.call("prompt.submit", submit(&id, "two")).await?;
    expect_eq!(result.text("/reply")?, "two", "the reply of the second socket");
    // The first run had ended by then, so its reply is there, or on its way.
    expect_eq!(one.reply(first).await?.ok()?.text("/reply")?, "one", "the reply of the first socket");
    Ok(())
}

async fn at_once(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let (one, two) = (create(&mut rpc).await?, create(&mut rpc).await?);
    let long = rpc.send("prompt.submit", submit(&one, FOREVER)).await?;
    event(&mut rpc, &one, "turn_start").await?;
    let result = rpc.call("prompt.submit", submit(&two, "quick")).await?;
    expect_eq!(result.text("/reply")?, "quick", "the other session's reply");
    rpc.call("prompt.abort", json!({"session_id": one})).await?;
    rpc.reply(long).await?.ok()?;
    Ok(())
}

async fn submitting_socket(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = create(&mut one).await?;
    // Both have spoken of the session; only one submits.
    two.call("prompt.abort", json!({"session_id": id})).await?;
    one.call("prompt.submit", submit(&id, "hello")).await?;
    two.call("health", json!({})).await?;
    expect!(!one.arrived("event").is_empty(), "no events on the socket that submitted");
    let stray = two.arrived("event");
    expect!(stray.is_empty(), "events on another socket: {stray:?}");
    Ok(())
}

async fn before_the_reply(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let sent = rpc.send("prompt.submit", submit(&id, "/repeat 300 word")).await?;
    let reply = rpc.reply(sent).await?;
    rpc.call("health", json!({})).await?;
    let frames = rpc.arrived("event");
    let late = frames.iter().find(|frame| frame.at > reply.at);
    expect!(late.is_none(), "an event after the reply: {late:?}");
    let mut deltas = 0;
    let mut last = String::new();
    for frame in &frames {
        last = frame.json.text("/params/event/type")?;
        deltas += usize::from(last == "llm_delta");
        expect!(frame.json.get("id").is_none(), "an event with an id: {frame}");
        expect_eq!(frame.json.text("/params/session_id")?, id, "whose event it is");
    }
    expect_eq!(deltas, 300, "deltas");
    expect_eq!("L17": last, "final", "the last event");
    Ok(())
}

async fn own_events(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve_bypass().await?;
    let mut front = on.front().await?;
    let id = front.create_session().await?;
    let run = front.prompt(&id, &format!("/think hm\n{}\n/fail unavailable", write("a.txt", "x"))).await?;
    for kind in ["turn_start", "llm_start", "llm_thinking_delta", "tool_call_start", "tool_call_end", "error", "final"]
    {
        expect!(!run.all(kind).is_empty(), "no `{kind}` in {:?}", run.shape());
    }
    for kind in ["status", "user_message", "permission_resolved", "session_closed"] {
        expect!(run.all(kind).is_empty(), "`{kind}` is larik's own: {:?}", run.shape());
    }
    Ok(())
}

async fn abort_in_flight(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let sent = rpc.send("prompt.submit", submit(&id, FOREVER)).await?;
    event(&mut rpc, &id, "turn_start").await?;
    let start = Instant::now();
    let result = rpc.call("prompt.abort", json!({"session_id": id})).await?;
    expect_eq!(result, json!({"session_id": id, "aborted": true}), "the abort's result");
    let reply = rpc.reply(sent).await?.ok()?;
    expect_eq!(reply.text("/stopped_reason")?, "aborted", "the stopped reason");
    expect!(start.elapsed() < Duration::from_secs(2), "an abort took {:?}", start.elapsed());
    Ok(())
}

async fn abort_elsewhere(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = create(&mut one).await?;
    let sent = one.send("prompt.submit", submit(&id, FOREVER)).await?;
    event(&mut one, &id, "turn_start").await?;
    let result = two.call("prompt.abort", json!({"session_id": id})).await?;
    expect_eq!(result.flag("/aborted")?, true, "the abort of another socket");
    expect_eq!(one.reply(sent).await?.ok()?.text("/stopped_reason")?, "aborted", "the stopped reason");
    Ok(())
}

/// A submit that was cancelled before it began: the error `cancelled`; or, begun and aborted, a result that says so.
fn was_aborted(reply: crate::client::rpc::Reply) -> Outcome {
    let told = reply.text.clone();
    match reply.result {
        Err(error) if error.code.as_deref() == Some("cancelled") => Ok(()),
        Ok(result) if result.get("stopped_reason") == Some(&json!("aborted")) => Ok(()),
        _ => Err(Stop::broke(format!("a submit that an abort should have reached → {told}"))),
    }
}

async fn abort_waiting(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    // No waiting in between: the abort is written right behind the submits.
    let mut submits = Vec::new();
    for _ in 0..3 {
        submits.push(rpc.send("prompt.submit", submit(&id, FOREVER)).await?);
    }
    let abort = rpc.send("prompt.abort", json!({"session_id": id})).await?;
    let after = rpc.send("prompt.submit", submit(&id, "after")).await?;
    let abort = rpc.reply(abort).await?;
    let abort_at = abort.at;
    expect_eq!(abort.ok()?.flag("/aborted")?, true, "the abort");
    let mut at = Vec::new();
    for sent in submits {
        let reply = rpc.reply(sent).await?;
        at.push(reply.at);
        was_aborted(reply)?;
    }
    let last = rpc.reply(after).await?;
    at.push(last.at);
    expect_eq!(last.ok()?.text("/reply")?, "after", "the submit behind the abort");
    expect!("L19": at.is_sorted(), "replies of one session out of order: {at:?}");
    expect!(at.last().is_some_and(|last| abort_at < *last), "the abort waited for a submit behind it");
    Ok(())
}

async fn abort_spares(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = create(&mut one).await?;
    let running = one.send("prompt.submit", submit(&id, FOREVER)).await?;
    event(&mut one, &id, "turn_start").await?;
    let waiting = one.send("prompt.submit", submit(&id, "waited")).await?;
    // The socket has read the submit once it has answered what came behind it.
    one.call("health", json!({})).await?;
    expect_eq!(
        two.call("prompt.abort", json!({"session_id": id})).await?.flag("/aborted")?,
        true,
        "the abort of another socket"
    );
    was_aborted(one.reply(running).await?)?;
    expect_eq!(one.reply(waiting).await?.ok()?.text("/reply")?, "waited", "the submit that waited on the first socket");
    Ok(())
}

async fn abort_is_not_for_later(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    for round in 0..20 {
        let abort = rpc.send("prompt.abort", json!({"session_id": id})).await?;
        let sent = rpc.send("prompt.submit", submit(&id, "later")).await?;
        rpc.reply(abort).await?.ok()?;
        let reply = rpc.reply(sent).await?.ok()?;
        expect_eq!(reply.text("/stopped_reason")?, "completed", "round {}: a submit behind an abort", round);
    }
    Ok(())
}

async fn abort_of_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let result = rpc.call("prompt.abort", json!({"session_id": id})).await?;
    expect_eq!(result, json!({"session_id": id, "aborted": false}), "the abort of an idle session");
    Ok(())
}

async fn nothing_waits(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let (busy, other) = (create(&mut rpc).await?, create(&mut rpc).await?);
    let long = rpc.send("prompt.submit", submit(&busy, FOREVER)).await?;
    let behind = rpc.send("prompt.submit", submit(&busy, "behind")).await?;
    for (method, params) in [
        ("health", json!({})),
        ("session.list", json!({})),
        ("session.create", json!({"source": "conformance"})),
        ("prompt.submit", submit(&other, "x")),
    ] {
        rpc.call(method, params).await.map_err(|stop| match stop {
            Stop::Broke { clause, seen } => {
                Stop::Broke { clause, seen: format!("{method} behind a run of another session: {seen}") }
            }
            harness @ (Stop::Skip(_) | Stop::Harness(_)) => harness,
        })?;
    }
    rpc.call("prompt.abort", json!({"session_id": busy})).await?;
    was_aborted(rpc.reply(long).await?)?;
    was_aborted(rpc.reply(behind).await?)
}
