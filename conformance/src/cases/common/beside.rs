//! What the common clauses say of TCP listeners, and of front ends, beside stdio. Clauses: C06, C08, C10, C11, C17.

use crate::{
    case::Wire,
    cases,
    cases::{STDIO, TCP, say_after, write},
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

cases! {
    "c06-listeners-beside-stdio-are-guarded" on STDIO [C06, C08] needs [Process] => guarded;
    "c08-never-in-the-log-beside-stdio" on STDIO [C08, C07] needs [Process, Script] => never_logged;
    "c10-a-run-of-another-wire-outlives-its-socket" on STDIO [C10] needs [Process, Script] => outlives;
    "c11-asked-over-lich-answered-over-stdio" on STDIO [C11, S15] needs [Process, Script] => answered;
    "c17-the-sweep-drops-only-sepias-hold" on STDIO [C17, S29] needs [Process, Script] => swept;
}

/// A server that speaks stdio, and these.
async fn beside(ctx: &mut Ctx, wires: &[Wire], args: &[&str]) -> Outcome<On> {
    let launch = ctx.launch().wires(&[&[Wire::Stdio], wires].concat()).args(args);
    ctx.start(&launch).await
}

async fn guarded(ctx: &mut Ctx) -> Outcome {
    let mut on = beside(ctx, TCP, &[]).await?;
    let mut rpc = on.stdio()?;
    let (http, lich) = (on.http()?, on.ws_addr()?);
    expect!("C08": http.token.len() >= 43 && http.token == lich.token, "the tokens: {:?} and {:?}", http.token, lich.token);
    for (host, origin, token, status) in [
        ("evil.example", None, true, 403),
        ("localhost", Some("https://evil.example"), true, 403),
        ("localhost", None, false, 401),
        ("localhost", None, true, 0),
    ] {
        let plain = crate::client::http::Request::new("GET", "/v1/info");
        for (wire, request) in [(Wire::Http, plain), (Wire::Ws, lich.upgrade_without_host("/"))] {
            let mut request = request.header("Host", host);
            if let Some(origin) = origin {
                request = request.header("Origin", origin);
            }
            let word = if token { http.token.as_str() } else { "wrong" };
            request = request.header("Authorization", &format!("Bearer {word}"));
            let (answer, welcome) =
                if wire == Wire::Ws { (lich.shake(&request).await?, 101) } else { (http.send(&request).await?, 200) };
            let want = if status == 0 { welcome } else { status };
            expect_eq!(answer.status, want, "{wire}: Host {host}, Origin {origin:?}, right token {token} → {answer}");
        }
    }
    rpc.call("manifest", json!({})).await.map(drop)
}

const SECRET: &str = "s3cret-0123456789-abcdefghijklmnop";

async fn never_logged(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(Wire::ALL).env("RUST_LOG", "trace").env("TRIPLANE_TOKEN", SECRET);
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    rpc.call("manifest", json!({})).await?;
    let mut front = on.front_on(Wire::Http).await?;
    let session = front.create_session().await?;
    front.prompt(&session, "hello").await?;
    let http = on.http()?;
    http.send(&http.bare("GET", &format!("/v1/sessions/{session}/messages?token={SECRET}"))).await?;
    on.ws().await?.call("health", json!({})).await?;
    rpc.call("shutdown", json!({})).await?;
    on.server()?.exited(ctx.options.deadline * 2).await?;
    // The ready lines hold it, as they must, and nothing else does.
    let log = on.server()?.stderr();
    let ready = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line.get("token").is_some());
    let line = log.lines().find(|line| line.contains(SECRET) && !ready(line));
    expect!(line.is_none(), "the token is in the log: {}", line.unwrap_or_default());
    Ok(())
}

async fn outlives(ctx: &mut Ctx) -> Outcome {
    let mut on = beside(ctx, &[Wire::Ws], &[]).await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await.of("S24")?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    lich.start(&id, &say_after(400, "done")).await?;
    lich.until(&id, "turn_start").await?;
    drop(lich);
    let ends = |params: &Value| params.to_string().contains("runFinished");
    let end = rpc.notified("node.event", "runFinished", ends).await?;
    expect!(end.text.contains("\"completed\""), "the run whose socket went: {end}");
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages")?.len(), 2, "its messages");
    Ok(())
}

async fn answered(ctx: &mut Ctx) -> Outcome {
    let mut on = beside(ctx, &[Wire::Ws], &[]).await?;
    let mut rpc = on.stdio()?;
    let mut lich = on.front_on(Wire::Ws).await?;
    let id = lich.create_session().await?;
    rpc.call("sessions.attach", json!({"id": id})).await.of("S12")?;
    rpc.call("sessions.subscribe", json!({"id": id})).await.of("S22")?;
    lich.start(&id, &write("a.txt", "x")).await?;
    let asks = |params: &Value| params.to_string().contains("permissionRequest");
    let asked = rpc.notified("session.event", "permissionRequest", asks).await?;
    let events = asked.json.list("/params/events")?;
    let request = events.iter().find_map(|event| event.get("requestId").and_then(Value::as_str)).unwrap_or_default();
    rpc.call("sessions.permission", json!({"id": id, "request": request, "option": "allow_once"})).await?;
    expect_eq!(lich.finish(&id).await?.stopped, "completed", "the run that asked");
    expect!(ctx.work().join("a.txt").exists(), "the allowed call did not run");
    Ok(())
}

async fn swept(ctx: &mut Ctx) -> Outcome {
    let mut on = beside(ctx, &[Wire::Http], &["--idle-ttl-ms", "200", "--sweep-ms", "50"]).await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await.of("S24")?;
    let http = on.http()?;
    let own = http.post("/v1/sessions", &json!({})).await?.want(201)?.text("/id")?;
    let shared = rpc.call("sessions.create", json!({"cwd": ctx.work()})).await?.text("/id")?;
    http.post("/v1/sessions", &json!({"resume": shared})).await?.want(200)?;
    // One that stdio alone holds tells when the sweep has been.
    let alone = rpc.call("sessions.create", json!({"cwd": ctx.work()})).await?.text("/id")?;
    let began = Instant::now();
    let gone = |params: &Value| params.get("type") == Some(&json!("detached"));
    let first = rpc.notified("node.event", "detached", gone).await?;
    expect_eq!(first.json.text("/params/sessionId")?, alone, "who was swept");
    while began.elapsed() < Duration::from_millis(600) {
        for id in [&own, &shared] {
            let told = http.get(&format!("/v1/sessions/{id}")).await?.want(200)?;
            expect!(told.flag("/loaded")?, "a session that larik holds was swept: {told}");
        }
        // Longer than the TTL; there is nothing to wait for, since nothing should happen.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
