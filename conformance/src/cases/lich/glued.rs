//! Frames that arrive together: what an abort reaches, what waits for what, and the order of the replies; and what a run tells
//! here beside what it tells over another wire. Clauses: L15, L17–L20, C02.

use crate::{
    case::Wire,
    cases,
    cases::{FOREVER, WS, say_after, tool, write},
    client::{
        Front, LichFront,
        rpc::{Frame, Pipe, Reply, Rpc, read_reply},
        ws::frame_head,
    },
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

cases! {
    "l18-an-abort-glued-behind-its-submits" on WS [L18, L19] needs [Script] => glued;
    "l18-an-abort-in-the-batch-of-its-submit" on WS [L18, C02] needs [Script] => in_a_batch;
    "l18-an-abort-behind-a-waiting-clear" on WS [L18, L19] needs [Script] => behind_a_clear;
    "l18-an-abort-ends-a-tool" on WS [L18, C09] needs [Script, Process] => ends_a_tool;
    "l19-replies-of-each-session-in-order" on WS [L19, L15] needs [Script] => in_order;
    "l17-one-to-one-with-the-stream-of-larik" on WS [L17, L16] needs [Script, Process] => one_to_one;
    "l20-without-an-agent" on WS [L20] needs [Process] => without_an_agent;
}

async fn create(rpc: &mut Rpc) -> Outcome<String> {
    rpc.call("session.create", json!({"source": "conformance"})).await.of("L05")?.text("/session_id")
}

/// A request with an id of the case's own.
fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Writes the texts, a frame each, in one go.
async fn together(rpc: &mut Rpc, texts: &[Value]) -> Outcome {
    let mut bytes = Vec::new();
    for text in texts {
        let text = text.to_string();
        bytes.extend(frame_head(1, text.len() as u64));
        bytes.extend_from_slice(text.as_bytes());
    }
    match rpc.pipe() {
        Pipe::Ws(socket) => socket.bytes(&bytes).await,
        Pipe::Stdio(_) => Err(Stop::harness("lich runs over sockets")),
    }
}

async fn reply(rpc: &mut Rpc, id: &str) -> Outcome<Reply> {
    let fits = |frame: &Frame| frame.json.get("id") == Some(&json!(id));
    Ok(read_reply(&rpc.take(&format!("the reply to {id}"), fits).await?))
}

/// Cancelled before it began, or begun and aborted.
fn was_aborted(reply: &Reply) -> Outcome {
    match &reply.result {
        Err(error) if error.code.as_deref() == Some("cancelled") => Ok(()),
        Ok(result) if result.get("stopped_reason") == Some(&json!("aborted")) => Ok(()),
        _ => Err(Stop::broke(format!("a submit that an abort should have reached → {}", reply.text))),
    }
}

async fn glued(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for round in 0..10 {
        let id = create(&mut rpc).await?;
        let submit = |text: &str| json!({"session_id": id, "text": text});
        let frames = [
            request("one", "prompt.submit", &submit(FOREVER)),
            request("two", "prompt.submit", &submit(FOREVER)),
            request("clear", "session.clear", &json!({"session_id": id})),
            request("abort", "prompt.abort", &json!({"session_id": id})),
            request("five", "prompt.submit", &submit("after")),
            request("health", "health", &json!({})),
        ];
        let began = Instant::now();
        together(&mut rpc, &frames).await?;
        let mut at = Vec::new();
        for name in ["one", "two"] {
            let reply = reply(&mut rpc, name).await?;
            was_aborted(&reply)?;
            at.push(reply.at);
        }
        let took = began.elapsed();
        expect!(took < Duration::from_secs(2), "round {round}: aborted submits answered after {took:?}");
        let cleared = reply(&mut rpc, "clear").await?;
        at.push(cleared.at);
        expect_eq!(cleared.ok()?, json!({"session_id": id}), "the clear between them");
        let last = reply(&mut rpc, "five").await?;
        let last_at = last.at;
        at.push(last_at);
        expect_eq!(last.ok()?.text("/reply")?, "after", "round {}: the submit behind the abort", round);
        expect!("L19": at.is_sorted(), "round {round}: replies of one session out of order: {at:?}");
        let abort = reply(&mut rpc, "abort").await?;
        expect_eq!(abort.result.as_ref().ok().and_then(|r| r.get("aborted")), Some(&json!(true)), "the abort");
        // The submits that it ended may answer a moment before it does; the one behind them must not.
        expect!(abort.at < last_at, "round {round}: the abort waited for a run or the queue");
        reply(&mut rpc, "health").await?.ok()?;
    }
    Ok(())
}

async fn in_a_batch(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let batch = json!([
        request("submit", "prompt.submit", &json!({"session_id": id, "text": FOREVER})),
        request("abort", "prompt.abort", &json!({"session_id": id})),
    ]);
    together(&mut rpc, &[batch]).await?;
    let frame = rpc.take("the batch's answer", |frame| frame.json.is_array()).await?;
    let items = frame.json.as_array().cloned().unwrap_or_default();
    let item = |id: &str| {
        let found = items.iter().find(|item| item.get("id") == Some(&json!(id)));
        let found = found.ok_or_else(|| Stop::broke(format!("no answer to {id} in {frame}")))?;
        Ok(read_reply(&Frame { at: frame.at, text: found.to_string(), json: found.clone() }))
    };
    was_aborted(&item("submit")?)?;
    expect_eq!(item("abort")?.ok()?.flag("/aborted")?, true, "an abort behind its submit in one batch");
    Ok(())
}

async fn behind_a_clear(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = create(&mut one).await?;
    // Another socket's run keeps this socket's clear waiting, and with it the submit behind the clear.
    let running = two.send("prompt.submit", json!({"session_id": id, "text": say_after(400, "first")})).await?;
    two.notified("event", "of the run", |_| true).await?;
    let frames = [
        request("clear", "session.clear", &json!({"session_id": id})),
        request("submit", "prompt.submit", &json!({"session_id": id, "text": FOREVER})),
        request("abort", "prompt.abort", &json!({"session_id": id})),
    ];
    together(&mut one, &frames).await?;
    expect!(
        reply(&mut one, "abort").await?.ok()?.flag("/aborted")?,
        "an abort of a run and of a waiting submit found nothing"
    );
    let cleared = reply(&mut one, "clear").await?;
    let submitted = reply(&mut one, "submit").await?;
    expect!("L19": cleared.at < submitted.at, "the submit was answered before the clear in front of it");
    was_aborted(&submitted)?;
    two.reply(running).await?;
    Ok(())
}

async fn ends_a_tool(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve_bypass().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let command = tool("bash", &json!({"command": "trap '' TERM INT; sleep 300 & wait; sleep 300"}));
    let sent = rpc.send("prompt.submit", json!({"session_id": id, "text": command})).await?;
    let started = |params: &Value| params.pointer("/event/type") == Some(&json!("tool_call_start"));
    rpc.notified("event", "tool_call_start", started).await?;
    let began = Instant::now();
    let aborted = rpc.send("prompt.abort", json!({"session_id": id})).await?;
    rpc.set_deadline(Duration::from_secs(8));
    let submit = rpc.reply(sent).await?;
    let end = began.elapsed();
    was_aborted(&submit)?;
    expect!(rpc.reply(aborted).await?.ok()?.flag("/aborted")?, "the abort found nothing");
    let late = began.elapsed().saturating_sub(end);
    expect!(late < Duration::from_millis(500), "the abort was answered {late:?} after the run's end");
    expect!(end < Duration::from_secs(6), "a command that ignores signals took {end:?} to end");
    on.server()?;
    Ok(())
}

async fn in_order(ctx: &mut Ctx) -> Outcome {
    const SESSIONS: usize = 6;
    const EACH: usize = 5;
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(create(&mut rpc).await?);
    }
    let mut frames = Vec::new();
    for n in 0..EACH {
        for (s, id) in sessions.iter().enumerate() {
            let text = say_after(((s * 7 + n * 11) % 20) as u64, &format!("{s}.{n}"));
            frames.push(request(&format!("{s}.{n}"), "prompt.submit", &json!({"session_id": id, "text": text})));
        }
    }
    together(&mut rpc, &frames).await?;
    for s in 0..SESSIONS {
        let mut before = None;
        for n in 0..EACH {
            let reply = reply(&mut rpc, &format!("{s}.{n}")).await?;
            expect!(Some(reply.at) > before, "session {s}: reply {n} overtook the one before it");
            before = Some(reply.at);
            expect_eq!("L15": reply.ok()?.text("/reply")?, format!("{s}.{n}"), "whose reply it is");
        }
    }
    Ok(())
}

/// An event without what larik adds to it.
fn bare(mut data: Value) -> Value {
    if let Some(object) = data.as_object_mut() {
        for added in ["seq", "session"] {
            object.shift_remove(added);
        }
    }
    data
}

async fn one_to_one(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]).args(["--mode", "bypass"]);
    let mut on = ctx.start(&launch).await?;
    let mut lich = LichFront::new(on.ws().await?, None);
    let mut larik = on.front_on(Wire::Http).await?;
    let id = lich.create_session().await?;
    larik.watch(&id).await?;
    let text = format!("/think hm\nhello there\n{}\n/repeat 200 x\n/fail unavailable", write("a.txt", "x"));
    let here = lich.prompt(&id, &text).await?;
    let there = larik.finish(&id).await?;
    let own = ["status", "user_message", "permission_resolved", "session_closed"];
    let there: Vec<Value> = there
        .events
        .into_iter()
        .filter(|event| !own.contains(&event.kind.as_str()))
        .map(|event| bare(event.data))
        .collect();
    let here: Vec<Value> = here.events.into_iter().map(|event| event.data).collect();
    expect!(here.len() > 200, "only {} events", here.len());
    for (at, (here, there)) in here.iter().zip(&there).enumerate() {
        expect_eq!(here, there, "event {} over lich and over larik", at);
    }
    expect_eq!(here.len(), there.len(), "events over lich and over larik");
    Ok(())
}

async fn without_an_agent(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--agent", "none"]);
    let on = ctx.start(&launch).await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    for (method, params) in
        [("prompt.submit", json!({"session_id": id, "text": "x"})), ("prompt.abort", json!({"session_id": id}))]
    {
        let error = rpc.fails(method, params, "no_agent").await?;
        expect!(!error.message.is_empty(), "{method}: an error without a message");
    }
    expect!(rpc.arrived("event").is_empty(), "events of a run that never was");
    rpc.call("health", json!({})).await?;
    let listed = rpc.call("session.list", json!({})).await?.to_string();
    expect!(listed.contains(&id), "{id} is not listed: {listed}");
    let resumed = rpc.call("session.resume", json!({"id": id})).await?;
    expect_eq!(resumed.int("/message_count")?, 0, "messages of a session that was never prompted");
    rpc.call("session.clear", json!({"session_id": id})).await?;
    Ok(())
}
