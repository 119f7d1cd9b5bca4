//! The process around the wire: its stdout under verbose logs, its node identity, its end and its parent's.
//! Clauses: S01, S03, S30, C07, C09.

use super::{create, prompt};
use crate::{
    cases,
    cases::{FOREVER, STDIO, blame, tool},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    target::process::{self, MARKER},
    verdict::{Outcome, Stop},
};
use rustix::process::Signal;
use serde_json::json;
use std::{
    collections::BTreeSet,
    process::Stdio,
    time::{Duration, Instant},
};

cases! {
    "c07-verbose-logs-leave-stdout-alone" on STDIO [C07, S01] needs [Process, Script] => verbose;
    "s03-processes-that-start-at-once-mint-one-node" on STDIO [S03] needs [Process] => one_node;
    "c09-sigterm-in-a-run-tells-and-ends-it" on STDIO [C09, S25, S26] needs [Process, Script, Files] => sigterm_in_a_run;
    "c09-a-killed-parent-leaves-nothing" on STDIO [C09, S30] needs [Process, Script, Files] => killed_parent;
}

/// Longest time that an end with a run may take: 5 s for the run, and some for the rest.
const SHUTDOWN: Duration = Duration::from_secs(9);

async fn verbose(ctx: &mut Ctx) -> Outcome {
    // A line of a log among the frames is no JSON-RPC; what it breaks is that stdout is the wire's alone.
    blame(logging(ctx).await, "C07")
}

async fn logging(ctx: &mut Ctx) -> Outcome {
    for name in ["RUST_LOG", "TRIPLANE_LOG"] {
        let launch = ctx.launch().args(["--mode", "bypass"]).env(name, "trace");
        let mut on = ctx.start(&launch).await?;
        let mut rpc = on.stdio()?;
        let id = create(&mut rpc, ctx).await?;
        for text in ["hello", "/fail unavailable", &tool("bash", &json!({"command": "echo out; echo err >&2"}))] {
            rpc.call("sessions.prompt", prompt(&id, text)).await?;
        }
        for bad in ["{", "[]", r#"{"jsonrpc":"2.0","id":"z","method":"no.such"}"#] {
            rpc.raw(bad).await?;
            let frame = rpc.next().await?;
            expect!(frame.json.get("error").is_some(), "{bad} → {frame}");
        }
        rpc.ask("sessions.create", json!({"cwd": ctx.scratch("missing")})).await?;
        rpc.call("shutdown", json!({})).await?;
        // Every frame up to the end has been held against JSON-RPC, whatever came.
        rpc.end().await?;
        let server = on.server()?;
        server.exited(Duration::from_secs(3)).await?;
        expect!(!server.stderr().is_empty(), "${name}=trace logs nothing");
    }
    Ok(())
}

async fn one_node(ctx: &mut Ctx) -> Outcome {
    for round in 0..8 {
        let mut launch = ctx.launch();
        launch.home = ctx.scratch(&format!("home-{round}"));
        std::fs::create_dir(&launch.home).map_err(Stop::harness)?;
        // A start does not wait for anything on this wire, so these run beside each other.
        let mut servers = Vec::new();
        for _ in 0..4 {
            servers.push(ctx.start(&launch).await?);
        }
        let mut ids = BTreeSet::new();
        for on in &mut servers {
            ids.insert(on.stdio()?.call("manifest", json!({})).await?.text("/node/id")?);
        }
        expect_eq!(ids.len(), 1, "node ids of four processes that started at once: {ids:?}");
        let file = launch.home.join(".triplane").join("node.json");
        let text = std::fs::read_to_string(file).map_err(Stop::harness)?;
        expect!(ids.iter().all(|id| text.contains(id)), "node.json holds another id than {ids:?}: {text}");
    }
    Ok(())
}

/// Waits for a file that a child writes; there is no event for that.
async fn written(ctx: &Ctx, path: &std::path::Path) -> Outcome {
    let end = Instant::now() + ctx.options.deadline * 2;
    while !path.exists() {
        expect!(Instant::now() < end, "{} was never written", path.display());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A command that stays, with a child in the background that does too.
fn stays() -> String {
    tool("bash", &json!({"command": "sleep 300 & echo started > up; sleep 301"}))
}

async fn sigterm_in_a_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve_bypass().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let (id, idle) = (create(&mut rpc, ctx).await?, create(&mut rpc, ctx).await?);
    let run = rpc.send("sessions.prompt", prompt(&id, &stays())).await?;
    written(ctx, &ctx.work().join("up")).await?;
    let start = Instant::now();
    on.server()?.signal(Signal::TERM);
    rpc.set_deadline(SHUTDOWN);
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the run");
    expect!(start.elapsed() > Duration::from_secs(3), "a run got {:?} of its 5 s", start.elapsed());
    rpc.end().await?;
    let mut gone = BTreeSet::new();
    for frame in rpc.unread() {
        let id = frame.json.text("/params/sessionId")?;
        expect!("S26": !gone.contains(&id), "something after `detached`: {frame}");
        if frame.json.pointer("/params/type") == Some(&json!("detached")) {
            expect_eq!("S25": frame.json.text("/params/reason")?, "shutdown", "the reason");
            gone.insert(id);
        }
    }
    expect_eq!("S25": gone, BTreeSet::from([id.clone(), idle]), "who was told to be detached");
    let server = on.server()?;
    let status = server.exited(Duration::from_secs(3)).await?;
    expect_eq!(status.code(), Some(0), "the exit status: {status}");
    let stored = std::fs::read_to_string(server.transcript(&id)).unwrap_or_default();
    expect!(stored.contains("aborted"), "the run's end is not stored: {stored}");
    process::none_left(&server.trail().mark, Duration::from_secs(1)).await
}

/// The parent holds the only writing end of our stdin, starts a run, and is killed.
async fn killed_parent(ctx: &mut Ctx) -> Outcome {
    let (input, mark) = (ctx.scratch("input"), format!("parent-{}-{}", std::process::id(), ctx.work().display()));
    let id = "01890000-0000-7000-8000-000000000001";
    let session = json!({"version": 1, "id": id, "agent": "native", "cwd": ctx.work(), "created": 1, "updated": 1, "messages": []});
    let calls = [
        ("sessions.import", json!({"agent": "native", "session": session, "id": id})),
        ("sessions.attach", json!({"id": id})),
        ("sessions.prompt", prompt(id, &stays())),
    ];
    let line = |(n, (method, params)): (usize, &(&str, serde_json::Value))| {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": n, "method": method, "params": params}))
    };
    std::fs::write(&input, calls.iter().enumerate().map(line).collect::<String>()).map_err(Stop::harness)?;
    // The server is started before the writing end is, so that the server does not inherit it.
    let script = r#"mkfifo "$2" && { "$0" serve --transport stdio --mode bypass < "$2" > "$3" 2> "$3.err" & } && exec 9> "$2" && cat "$1" >&9 && wait"#;
    let output = ctx.scratch("output");
    let mut parent = tokio::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(script)
        .arg(ctx.program()?)
        .args([&input, &ctx.scratch("fifo"), &output])
        .env("HOME", ctx.home())
        .env("TRIPLANE_HOME", ctx.home().join(".triplane"))
        .env(MARKER, &mark)
        .current_dir(ctx.work())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(Stop::harness)?;
    let up = written(ctx, &ctx.work().join("up")).await;
    parent.kill().await.map_err(Stop::harness)?;
    let told = std::fs::read_to_string(&output).unwrap_or_default();
    let left = process::none_left(&mark, SHUTDOWN).await;
    up.map_err(|stop| match stop {
        Stop::Broke { clause, seen } => Stop::Broke { clause, seen: format!("{seen}; the server said {told}") },
        other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
    })?;
    left?;
    let transcript = ctx.work().join(".triplane").join("sessions").join(format!("{id}.jsonl"));
    let stored = std::fs::read_to_string(transcript).unwrap_or_default();
    expect!(stored.contains("\"ended\""), "the run's end is not stored: {stored}");
    // Whoever comes next finds nothing held.
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    let run = rpc.send("sessions.prompt", prompt(id, FOREVER)).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    rpc.reply(run).await.map(drop)
}
