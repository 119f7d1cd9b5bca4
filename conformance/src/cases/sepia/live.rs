//! The live map: create, attach, detach, locks, the idle sweep, shutdown. Clauses: S06, S12–S14, S26, S29, S30, C17.

use super::{create, prompt, row};
use crate::{
    cases,
    cases::{FOREVER, STDIO, say_after, write},
    client::rpc::Rpc,
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

cases! {
    "s14-create" on STDIO [S14] => creates;
    "s14-create-refuses-what-cannot-work" on STDIO [S14, C03] => create_refuses;
    "s06-a-created-session-is-a-pending-row" on STDIO [S06, C12] needs [Process] => pending_row;
    "s06-a-flushed-session-is-not-pending" on STDIO [S06] needs [Script] => flushed_row;
    "s12-attach-after-detach" on STDIO [S12, S13] needs [Script] => attach_after_detach;
    "s12-attach-of-a-live-session" on STDIO [S12, C17] needs [Script] => attach_live;
    "s12-held-elsewhere-is-locked" on STDIO [S12, S06] needs [Process, Script] => locked;
    "s12-takeover" on STDIO [S12, S25] needs [Process, Script] => takeover;
    "s12-a-killed-holder-holds-nothing" on STDIO [S12, C09] needs [Process, Script] => killed_holder;
    "s12-model-fallbacks-are-tried-in-order-and-told" on STDIO [S12, S14] needs [Script] => fallbacks;
    "s13-detach-cancels-the-run" on STDIO [S13] needs [Script] => detach_cancels;
    "s13-detach-of-what-is-not-live" on STDIO [S13, S15] => detach_nothing;
    "s15-not-live-is-not-found-with-a-hint" on STDIO [S15, S22] needs [Script] => not_live;
    "s29-idle-sessions-are-swept" on STDIO [S29, S25] needs [Process, Script] => swept;
    "s29-busy-sessions-are-not" on STDIO [S29] needs [Process, Script] => not_swept;
    "s29-a-waiting-permission-is-not-idle" on STDIO [S29] needs [Process, Script] => waiting_is_not_idle;
    "s30-shutdown" on STDIO [S30, S25, S26] needs [Process] => shutdown;
    "s30-shutdown-with-a-run" on STDIO [S30, C09] needs [Process, Script] => shutdown_in_a_run;
}

async fn creates(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let made = rpc.call("sessions.create", json!({"cwd": ctx.work(), "title": "é title"})).await?;
    expect_eq!(made.flag("/readOnly")?, false, "`readOnly` of a new session");
    expect!(!made.text("/agentId")?.is_empty(), "no agent: {made}");
    let id = made.text("/id")?;
    let row = row(&mut rpc, &id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed")))?;
    expect_eq!((row.flag("/live")?, row.text("/title")?.as_str()), (true, "é title"), "the new session's row");
    expect_eq!(row.text("/agentId")?, made.text("/agentId")?, "its agent");
    Ok(())
}

async fn create_refuses(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.fails("sessions.create", json!({"cwd": ctx.work(), "agent": "nobody"}), "unknown_agent").await?;
    let file = ctx.scratch("file");
    std::fs::write(&file, "x").map_err(Stop::harness)?;
    for cwd in [json!(""), json!("relative"), json!(ctx.scratch("missing")), json!(file), json!("/a\0b")] {
        let reply = rpc.ask("sessions.create", json!({"cwd": cwd})).await?;
        let code = reply.result.as_ref().err().and_then(|error| error.code.clone());
        expect!(matches!(code.as_deref(), Some("invalid_params" | "invalid")), "cwd {cwd} → {}", reply.text);
    }
    let listed = rpc.call("sessions.list", json!({})).await?;
    expect_eq!(listed.list("/sessions")?.len(), 0, "sessions after refused creates: {listed}");
    Ok(())
}

async fn pending_row(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let before = row(&mut rpc, &id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed")))?;
    expect_eq!(before.flag("/pending")?, true, "`pending` of a session that was never prompted");
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let after = row(&mut rpc, &id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed after a kill")))?;
    expect_eq!((after.flag("/pending")?, after.flag("/live")?), (true, false), "`pending` and `live` after a kill");
    expect_eq!(after.get("cwd"), before.get("cwd"), "the cwd that create was given");
    rpc.call("sessions.attach", json!({"id": id})).await.of("S12")?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    Ok(())
}

async fn flushed_row(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    let row = row(&mut rpc, &id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed")))?;
    expect_eq!(row.flag("/pending")?, false, "`pending` after a prompt");
    expect_eq!(
        (row.flag("/pinned")?, row.flag("/archived")?, row.list("/projectIds")?.len()),
        (false, false, 0),
        "the overlay: {row}"
    );
    expect!(row.int("/updatedAt")? >= row.int("/createdAt")?, "times: {row}");
    Ok(())
}

async fn attach_after_detach(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "one")).await?;
    expect_eq!("S13": rpc.call("sessions.detach", json!({"id": id})).await?, json!({"detached": true}), "detach");
    let detached = row(&mut rpc, &id).await?.ok_or_else(|| Stop::broke("a detached session is not listed"))?;
    expect_eq!("S13": detached.flag("/live")?, false, "`live` after detach");
    let attached = rpc.call("sessions.attach", json!({"id": id})).await?;
    expect_eq!((attached.text("/id")?, attached.flag("/readOnly")?), (id.clone(), false), "attach");
    expect_eq!(rpc.call("sessions.prompt", prompt(&id, "two")).await?.text("/reply")?, "two", "a prompt after attach");
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages")?.len(), 4, "messages over detach and attach");
    Ok(())
}

async fn attach_live(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    while !rpc.call("sessions.cancel", json!({"id": id})).await?.flag("/cancelled")? {
        tokio::task::yield_now().await;
    }
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "one live session, and its run");
    Ok(())
}

/// Two servers on one directory; the first holds a session.
async fn two_servers(ctx: &mut Ctx) -> Outcome<(On, Rpc, On, Rpc, String)> {
    let mut first = ctx.serve().await?;
    let mut holder = first.stdio()?;
    let id = create(&mut holder, ctx).await?;
    holder.call("sessions.prompt", prompt(&id, "one")).await?;
    let mut second = ctx.serve().await?;
    let other = second.stdio()?;
    Ok((first, holder, second, other, id))
}

async fn locked(ctx: &mut Ctx) -> Outcome {
    let (mut first, _holder, _second, mut other, id) = two_servers(ctx).await?;
    let error = other.fails("sessions.attach", json!({"id": id}), "locked").await?;
    let pid = first.server()?.pid().to_string();
    let told = format!("{} {}", error.message, error.cause.unwrap_or_default());
    expect!(told.contains(&pid), "`locked` does not name its holder {pid}: {told}");
    let listed = other.call("sessions.list", json!({"withLocks": true})).await?;
    let row =
        listed.list("/sessions")?.iter().find(|row| row.get("id") == Some(&json!(id))).cloned().unwrap_or_default();
    expect_eq!("S06": row.text("/lock/state")?, "held", "the lock of {row}");
    expect_eq!("S06": row.int("/lock/holder/pid")?.to_string(), pid, "its holder");
    expect_eq!(row.flag("/live")?, false, "`live` in the other process");
    // Reading needs no lock.
    expect_eq!("S07": other.call("sessions.get", json!({"id": id})).await?.list("/messages")?.len(), 2, "messages that the other process reads");
    Ok(())
}

async fn takeover(ctx: &mut Ctx) -> Outcome {
    let (_first, mut holder, _second, mut other, id) = two_servers(ctx).await?;
    holder.call("events.subscribe", json!({})).await?;
    let run = holder.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    holder.notified("node.event", "a run", |params| params.to_string().contains("runStarted")).await?;
    let start = Instant::now();
    other.call("sessions.attach", json!({"id": id, "takeover": true})).await?;
    expect!(start.elapsed() < Duration::from_secs(3), "a takeover took {:?}", start.elapsed());
    let gone =
        holder.notified("node.event", "detached", |params| params.get("type") == Some(&json!("detached"))).await?;
    expect_eq!("S25": gone.json.text("/params/reason")?, "explicit", "the reason at the former holder");
    expect_eq!(holder.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the former holder's run");
    holder.fails("sessions.prompt", prompt(&id, "x"), "not_found").await?;
    expect_eq!(
        other.call("sessions.prompt", prompt(&id, "two")).await?.text("/reply")?,
        "two",
        "a prompt at the new holder"
    );
    Ok(())
}

async fn killed_holder(ctx: &mut Ctx) -> Outcome {
    let (mut first, holder, _second, mut other, id) = two_servers(ctx).await?;
    first.server()?.kill().await?;
    drop(holder);
    other.call("sessions.attach", json!({"id": id})).await?;
    expect_eq!(
        other.call("sessions.prompt", prompt(&id, "two")).await?.text("/reply")?,
        "two",
        "a prompt after the holder's death"
    );
    Ok(())
}

async fn fallbacks(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let models = json!({"cwd": ctx.work(), "model": "nobody/one", "fallbacks": ["nobody/two", "script/echo"]});
    let made = rpc.call("sessions.create", models).await?;
    expect_eq!("S14": made.text("/model")?, "script/echo", "the first model that can be used");
    let id = made.text("/id")?;
    let told = |params: &Value| {
        let events = params.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
        let told = |event: &Value| event.get("type") == Some(&json!("settingsChanged"));
        events.iter().any(|event| told(event) && event.get("model") == Some(&json!("script/echo")))
    };
    rpc.notified("node.event", "the model that create fell back to", told).await.of("S14")?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let attach = json!({"id": id, "model": "nobody/one", "fallbacks": ["nobody/two", "script/echo"]});
    expect_eq!(rpc.call("sessions.attach", attach).await?.text("/model")?, "script/echo", "the model after an attach");
    rpc.notified("node.event", "the model that attach fell back to", told).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let none = json!({"id": id, "model": "nobody/one", "fallbacks": ["nobody/two"]});
    rpc.fails("sessions.attach", none, "invalid_params").await?;
    let row = row(&mut rpc, &id).await?.unwrap_or_default();
    expect_eq!("S26": row.flag("/live")?, false, "`live` after an attach without a model that can be used");
    Ok(())
}

async fn detach_cancels(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    rpc.notified("session.event", "turnStarted", |params| params.to_string().contains("turnStarted")).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the run of a session that was detached");
    Ok(())
}

async fn detach_nothing(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    rpc.fails("sessions.detach", json!({"id": id}), "not_found").await?;
    Ok(())
}

async fn not_live(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "one")).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let asks = [
        ("sessions.prompt", prompt(&id, "x")),
        ("sessions.cancel", json!({"id": id})),
        ("sessions.permission", json!({"id": id, "request": "r", "option": "allow_once"})),
        ("sessions.subscribe", json!({"id": id})),
    ];
    for (method, params) in asks {
        let error = rpc.fails(method, params, "not_found").await?;
        expect!(error.message.contains("attach"), "{method}: no hint to attach it: {}", error.message);
    }
    Ok(())
}

/// A server whose sweep is quick.
async fn sweeping(ctx: &mut Ctx) -> Outcome<On> {
    let launch = ctx.launch().args(["--idle-ttl-ms", "300", "--sweep-ms", "50"]);
    ctx.start(&launch).await
}

async fn swept(ctx: &mut Ctx) -> Outcome {
    let mut on = sweeping(ctx).await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    let start = Instant::now();
    let gone = rpc.notified("node.event", "detached", |params| params.get("type") == Some(&json!("detached"))).await?;
    expect_eq!("S25": gone.json.text("/params/reason")?, "idle", "the reason");
    expect!(start.elapsed() > Duration::from_millis(200), "swept {:?} after its run", start.elapsed());
    rpc.call("sessions.attach", json!({"id": id})).await.map(drop)
}

async fn not_swept(ctx: &mut Ctx) -> Outcome {
    let mut on = sweeping(ctx).await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let id = create(&mut rpc, ctx).await?;
    let reply = rpc.call("sessions.prompt", prompt(&id, &say_after(1200, "whole"))).await?;
    expect_eq!(reply.text("/reply")?, "whole", "a run four times as long as the TTL");
    let gone = |frame: &crate::client::rpc::Frame| frame.json.pointer("/params/type") == Some(&json!("detached"));
    let early: Vec<_> = rpc.arrived("node.event").into_iter().filter(gone).collect();
    expect!(early.is_empty(), "a busy session was swept: {early:?}");
    Ok(())
}

async fn waiting_is_not_idle(ctx: &mut Ctx) -> Outcome {
    let mut on = sweeping(ctx).await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, &write("a.txt", "x"))).await?;
    let asked = rpc
        .notified("session.event", "permissionRequest", |params| params.to_string().contains("permissionRequest"))
        .await?;
    let events = asked.json.list("/params/events")?;
    let request =
        events.iter().find_map(|event| event.get("requestId").and_then(Value::as_str)).unwrap_or_default().to_owned();
    // Longer than the TTL; there is nothing to wait for, since nothing should happen.
    tokio::time::sleep(Duration::from_millis(900)).await;
    rpc.call("sessions.permission", json!({"id": id, "request": request, "option": "allow_once"})).await?;
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "completed", "a run that waited for a person");
    Ok(())
}

async fn shutdown(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let mut ids = vec![create(&mut rpc, ctx).await?, create(&mut rpc, ctx).await?];
    expect_eq!(rpc.call("shutdown", json!({})).await?, json!({}), "the reply");
    rpc.end().await?;
    let mut gone = Vec::new();
    for frame in rpc.unread() {
        if frame.json.pointer("/params/type") == Some(&json!("detached")) {
            expect_eq!("S25": frame.json.text("/params/reason")?, "shutdown", "the reason");
            gone.push(frame.json.text("/params/sessionId")?);
        }
    }
    gone.sort();
    ids.sort();
    expect_eq!(gone, ids, "`detached` before the end");
    let status = on.server()?.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}

async fn shutdown_in_a_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, &say_after(500, "finished"))).await?;
    rpc.notified("session.event", "turnStarted", |params| params.to_string().contains("turnStarted")).await?;
    let stop = rpc.send("shutdown", json!({})).await?;
    let reply = rpc.reply(run).await?.ok()?;
    expect_eq!("C09": reply.text("/stopReason")?, "completed", "a short run in flight at shutdown: {reply}");
    rpc.reply(stop).await?.ok()?;
    let status = on.server()?.exited(Duration::from_secs(9)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}
