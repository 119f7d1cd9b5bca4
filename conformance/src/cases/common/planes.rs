//! Several transports, one plane: a session of one wire is listed, prompted, watched, cancelled and answered over any other.

use crate::{
    case::Wire,
    cases,
    cases::{ALL, FOREVER, HTTP, STDIO, WS, blame, say_after, write},
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::json;

cases! {
    "c01-one-plane-lists-every-session" on ALL [C01, C17] needs [Process] => lists_every_session;
    "c01-comma-list-of-transports" on HTTP [C01] needs [Process] => comma_list;
    "c01-prompt-over-another-wire" on ALL [C01, C17] needs [Process, Script] => prompt_over_another_wire;
    "c01-cancel-over-another-wire" on WS [C01, L18] needs [Process, Script] => cancel_over_another_wire;
    "c01-permission-answered-over-another-wire" on WS [C01, C11, H21] needs [Process, Script] => answered_over_another_wire;
    "c01-node-feed-tells-of-every-wire" on STDIO [C01, S24, S25] needs [Process, Script] => node_feed;
    "c10-run-outlives-its-connection" on WS [C10] needs [Process, Script] => run_outlives;
    "c10-abort-on-disconnect" on WS [C10] needs [Process, Script] => abort_on_disconnect;
    "c10-waiting-request-that-goes-leaves-the-run" on HTTP [C10] needs [Process, Script] => waiting_request_goes;
    "c11-nobody-can-answer-so-denied-at-once" on WS [C11] needs [Process, Script] => denied_at_once;
}

/// A server that speaks all three.
async fn all_three(ctx: &mut Ctx, args: &[&str]) -> Outcome<On> {
    let launch = ctx.launch().wires(Wire::ALL).args(args);
    ctx.start(&launch).await
}

async fn lists_every_session(ctx: &mut Ctx) -> Outcome {
    let mut on = all_three(ctx, &[]).await?;
    let wire = ctx.wire;
    // Kept: the end of stdin would end the server.
    let mut front = on.front_on(wire).await?;
    let id = front.create_session().await?;
    for other in Wire::ALL.iter().filter(|other| **other != wire) {
        let listed = on.front_on(*other).await?.list().await?;
        expect!(listed.contains(&id), "a session made over {wire} is not listed over {other}: {listed:?}");
    }
    Ok(())
}

async fn comma_list(ctx: &mut Ctx) -> Outcome {
    let repeated = ctx.launch().wires(&[Wire::Ws, Wire::Http]);
    let on = ctx.start(&repeated).await?;
    on.ws().await?.call("health", json!({})).await?;
    on.http()?.get("/v1/info").await?.want(200)?;
    drop(on);
    let launch = ctx.launch().wires(&[]).args(["--transport", "ws,http", "--addr", "127.0.0.1:0"]);
    let mut on = ctx.start(&launch).await?;
    let server = on.server()?;
    server.says_on_stdout(2).await?;
    let text = server.stdout();
    expect!(text.contains("\"port\"") && text.contains("\"url\""), "ready lines of `--transport ws,http`: {text}");
    Ok(())
}

async fn prompt_over_another_wire(ctx: &mut Ctx) -> Outcome {
    let mut on = all_three(ctx, &[]).await?;
    let wire = ctx.wire;
    let mut front = on.front_on(wire).await?;
    let id = front.create_session().await?;
    let other = if wire == Wire::Http { Wire::Ws } else { Wire::Http };
    let mut second = on.front_on(other).await?;
    second.watch(&id).await?;
    if other == Wire::Http {
        let run = front.prompt(&id, "across").await?;
        let told = second.finish(&id).await?;
        expect_eq!(told.reply, run.reply, "the run as {other} tells it");
    } else {
        second.start(&id, "across").await?;
        let told = front.finish(&id).await?;
        expect_eq!(told.reply, second.finish(&id).await?.reply, "the run as {wire} tells it");
    }
    Ok(())
}

async fn cancel_over_another_wire(ctx: &mut Ctx) -> Outcome {
    let mut on = all_three(ctx, &[]).await?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    lich.start(&id, FOREVER).await?;
    lich.until(&id, "turn_start").await?;
    let answer = on.http()?.post(&format!("/v1/sessions/{id}/cancel"), &json!({})).await?.want(200)?;
    expect!(answer.flag("/cancelled")?, "larik found nothing to cancel: {answer}");
    expect_eq!(lich.finish(&id).await?.stopped, "aborted", "the stopped reason");
    Ok(())
}

async fn answered_over_another_wire(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]);
    let mut on = ctx.start(&launch).await?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    lich.start(&id, &write("a.txt", "x")).await?;
    let asked = lich.until(&id, "permission_request").await?;
    let request = asked.data.text("/request_id")?;
    let http = on.http()?;
    let pending = http.get("/v1/permissions").await?.want(200)?;
    let listed = pending.list("/permissions")?.iter().any(|one| one.get("request_id") == Some(&json!(request)));
    expect!("H20": listed, "the request is not listed for the node: {pending}");
    http.post(&format!("/v1/sessions/{id}/permissions/{request}"), &json!({"allow": true})).await?.want(204)?;
    expect_eq!(lich.finish(&id).await?.stopped, "completed", "the stopped reason");
    expect!(ctx.work().join("a.txt").exists(), "the tool did not run");
    Ok(())
}

async fn node_feed(ctx: &mut Ctx) -> Outcome {
    let mut on = all_three(ctx, &[]).await?;
    let mut sepia = on.stdio()?;
    sepia.call("events.subscribe", json!({})).await.of("S24")?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    let created = sepia
        .notified("node.event", "created", |params| params.get("type") == Some(&json!("created")))
        .await
        .of("S25")?;
    expect_eq!("S25": created.json.text("/params/sessionId")?, id, "the session that was created");
    lich.prompt(&id, "hello").await?;
    let ends = |params: &serde_json::Value| {
        let events = params.get("events").and_then(serde_json::Value::as_array);
        events.is_some_and(|events| events.iter().any(|event| event.get("type") == Some(&json!("runFinished"))))
    };
    sepia.notified("node.event", "runFinished", ends).await.of("S25")?;
    Ok(())
}

async fn run_outlives(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]);
    let mut on = ctx.start(&launch).await?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    let mut watcher = on.front_on(Wire::Http).await?;
    watcher.watch(&id).await?;
    lich.start(&id, &say_after(500, "done")).await?;
    lich.until(&id, "turn_start").await?;
    drop(lich);
    let run = watcher.finish(&id).await?;
    expect_eq!((run.stopped.as_str(), run.reply.as_str()), ("completed", "done"), "the run whose socket went");
    Ok(())
}

async fn abort_on_disconnect(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]).args(["--on-disconnect", "abort"]);
    let mut on = ctx.start(&launch).await?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    let mut watcher = on.front_on(Wire::Http).await?;
    watcher.watch(&id).await?;
    lich.start(&id, FOREVER).await?;
    lich.until(&id, "turn_start").await?;
    drop(lich);
    let run = blame(watcher.finish(&id).await, "C10")?;
    expect_eq!(run.stopped, "aborted", "the run whose socket went");
    Ok(())
}

async fn waiting_request_goes(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let id = front.create_session().await?;
    let http = on.http()?;
    let mut conn = http.conn().await?;
    let body = json!({"text": say_after(500, "done"), "wait": true}).to_string();
    let head = format!(
        "POST /v1/sessions/{id}/prompt HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n",
        http.addr, http.token
    );
    conn.write(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    front.until(&id, "turn_start").await?;
    drop(conn);
    let run = front.finish(&id).await?;
    expect_eq!((run.stopped.as_str(), run.reply.as_str()), ("completed", "done"), "the run whose request went");
    Ok(())
}

async fn denied_at_once(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut lich = on.front().await?;
    let id = lich.create_session().await?;
    let run = blame(lich.prompt(&id, &write("a.txt", "x")).await, "C11")?;
    expect!(!ctx.work().join("a.txt").exists(), "the tool ran although nobody could allow it");
    let ends = run.all("tool_call_end");
    expect_eq!(ends.len(), 1, "tool calls that ended, in {:?}", run.shape());
    for end in ends {
        expect!(end.data.flag("/error")?, "a refused call is no failure: {}", end.data);
        let told = end.data.at("/output")?.to_string().to_lowercase();
        expect!(
            told.contains("permission") || told.contains("allow") || told.contains("denied"),
            "no reason in {}",
            end.data
        );
    }
    Ok(())
}
