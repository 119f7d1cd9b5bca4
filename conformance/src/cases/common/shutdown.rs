//! The end of the process: SIGTERM, SIGINT, the end of stdin; runs get 5 s, children end, exit 0. Clauses: C09, S30, L13.

use crate::{
    cases,
    cases::{ALL, FOREVER, HTTP, STDIO, TCP, WS, say_after, tool},
    client::rpc::Pipe,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    target::process,
    verdict::{Blame, Outcome, Stop},
};
use rustix::process::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

cases! {
    "c09-sigterm-when-idle-exits-0" on ALL [C09] needs [Process] => when_idle;
    "c09-sigint-when-idle-exits-0" on TCP [C09] needs [Process] => when_interrupted;
    "c09-a-short-run-may-finish" on ALL [C09] needs [Process, Script, Files] => short_run;
    "c09-a-long-run-is-aborted-and-stored" on TCP [C09] needs [Process, Script, Files] => long_run;
    "c09-a-second-signal-exits-at-once" on TCP [C09] needs [Process, Script] => second_signal;
    "c09-end-of-stdin-exits-0" on STDIO [C09] needs [Process] => end_of_stdin;
    "c09-end-of-stdin-before-anything" on STDIO [C09] needs [Process] => end_of_stdin_at_once;
    "c09-end-of-stdin-lets-a-run-finish" on STDIO [C09] needs [Process, Script, Files] => end_of_stdin_in_a_run;
    "c09-streams-end-and-sockets-close" on HTTP [C09] needs [Process] => streams_end;
    "c09-sockets-are-told" on WS [C09] needs [Process] => sockets_close;
    "c09-children-end-with-the-server" on TCP [C09] needs [Process, Script] => children_end;
    "c09-children-end-with-a-killed-server" on HTTP [C09] needs [Process, Script] => children_of_a_killed_server;
    "c09-the-port-is-free-again" on TCP [C09] needs [Process] => port_free;
}

/// Longest time that a shutdown with a run may take: 5 s for the run, and some for the rest.
const SHUTDOWN: Duration = Duration::from_secs(9);

async fn idle_end(ctx: &mut Ctx, signal: Signal) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    front.create_session().await?;
    let server = on.server()?;
    server.signal(signal);
    let status = server.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status after {signal:?}: {status}");
    drop(front);
    Ok(())
}

async fn when_idle(ctx: &mut Ctx) -> Outcome {
    idle_end(ctx, Signal::TERM).await
}

async fn when_interrupted(ctx: &mut Ctx) -> Outcome {
    idle_end(ctx, Signal::INT).await
}

async fn short_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &say_after(700, "finished")).await?;
    front.until(&session, "turn_start").await?;
    let server = on.server()?;
    server.signal(Signal::TERM);
    let status = server.exited(SHUTDOWN).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    let stored = std::fs::read_to_string(server.transcript(&session)).unwrap_or_default();
    expect!(stored.contains("finished"), "the run that was in flight is not stored: {stored}");
    Ok(())
}

async fn long_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, FOREVER).await?;
    front.until(&session, "turn_start").await?;
    let (server, start) = (on.server()?, Instant::now());
    server.signal(Signal::TERM);
    let status = server.exited(SHUTDOWN).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    expect!(start.elapsed() > Duration::from_secs(3), "a run got {:?} of its 5 s", start.elapsed());
    let stored = std::fs::read_to_string(server.transcript(&session)).unwrap_or_default();
    expect!(stored.contains("aborted"), "the run's end is not stored: {stored}");
    Ok(())
}

async fn second_signal(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, FOREVER).await?;
    front.until(&session, "turn_start").await?;
    let server = on.server()?;
    server.signal(Signal::TERM);
    expect!(server.exited(Duration::from_millis(300)).await.is_err(), "the run got no time");
    server.signal(Signal::TERM);
    server.exited(Duration::from_secs(1)).await.map(drop)
}

async fn end_of_stdin(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("manifest", json!({})).await?;
    close(rpc.pipe())?;
    let status = on.server()?.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}

fn close(pipe: &mut Pipe) -> Outcome {
    match pipe {
        Pipe::Stdio(lines) => {
            lines.close();
            Ok(())
        }
        Pipe::Ws(_) => Err(Stop::harness("stdio is lines")),
    }
}

async fn end_of_stdin_at_once(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    close(on.stdio()?.pipe())?;
    let status = on.server()?.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}

async fn end_of_stdin_in_a_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let session = rpc.call("sessions.create", json!({"cwd": ctx.work()})).await?.text("/id")?;
    let id = rpc
        .send(
            "sessions.prompt",
            json!({"id": session, "parts": [{"type": "text", "text": say_after(500, "finished")}]}),
        )
        .await?;
    rpc.call("manifest", json!({})).await?;
    close(rpc.pipe())?;
    // Its reader is still there, so the reply of the run comes.
    let reply = rpc.reply(id).await?.ok()?;
    expect_eq!(reply.text("/stopReason")?, "completed", "the run that was in flight: {reply}");
    let status = on.server()?.exited(SHUTDOWN).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}

async fn streams_end(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let id = http.post("/v1/sessions", &json!({})).await?.want(201)?.text("/id")?;
        streams.push(http.events(&format!("/v1/sessions/{id}/events"), &[]).await?);
    }
    let mut idle = http.conn().await?;
    idle.send(&http.bare("GET", "/v1/health")).await?;
    on.server()?.signal(Signal::TERM);
    for stream in &mut streams {
        let mut last = None;
        while let Some(fact) = stream.next().await.of("C09")? {
            last = Some(fact);
        }
        let reason = last.as_ref().and_then(|fact| fact.data.get("reason").cloned());
        expect_eq!("H14": reason, Some(json!("shutdown")), "the last event is `session_closed`: {last:?}");
    }
    let status = on.server()?.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status with streams open: {status}");
    Ok(())
}

async fn sockets_close(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    rpc.call("session.create", json!({"source": "x"})).await?;
    on.server()?.signal(Signal::TERM);
    let end = rpc.end().await?;
    expect_eq!(end, crate::client::ws::End::Close(1001), "how the socket ended");
    let status = on.server()?.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    Ok(())
}

/// A run with a child, and a grandchild in the background, that both stay; returns once both are there.
async fn with_children(ctx: &mut Ctx) -> Outcome<(crate::ctx::On, Box<dyn crate::client::Front>)> {
    let mut on = ctx.serve_bypass().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &tool("bash", &json!({"command": "sleep 300 & echo started > up; sleep 301"}))).await?;
    front.until(&session, "tool_call_start").await?;
    let up = ctx.work().join("up");
    let end = Instant::now() + ctx.options.deadline;
    while !up.exists() {
        expect!(Instant::now() < end, "the command did not start");
        // There is no event for a file that a child writes.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok((on, front))
}

async fn children_end(ctx: &mut Ctx) -> Outcome {
    let (mut on, front) = with_children(ctx).await?;
    let server = on.server()?;
    server.signal(Signal::TERM);
    let status = server.exited(SHUTDOWN).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    let mark = server.trail().mark;
    drop(front);
    process::none_left(&mark, Duration::from_secs(1)).await
}

async fn children_of_a_killed_server(ctx: &mut Ctx) -> Outcome {
    let (mut on, front) = with_children(ctx).await?;
    drop(front);
    on.server()?.kill().await
}

async fn port_free(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let addr = if ctx.wire == crate::Wire::Ws { on.ws_addr()?.addr } else { on.http()?.addr };
    on.front().await?.create_session().await?;
    let server = on.server()?;
    server.signal(Signal::TERM);
    server.exited(Duration::from_secs(3)).await?;
    expect!(std::net::TcpListener::bind(addr).is_ok(), "{addr} is still taken");
    Ok(())
}
