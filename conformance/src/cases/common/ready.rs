//! Ready lines: one JSON line for each TCP transport, on stdout, or on stderr when stdout is a wire. Clauses: C07, L21, H01.
//! That stdout holds nothing else is looked at after every case.

use crate::{
    case::Wire,
    cases,
    cases::{HTTP, STDIO, TCP, WS},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::process::Stdio;

cases! {
    "c07-ready-line-has-two-members" on TCP [C07, L21, H01] needs [Process] => two_members;
    "c07-both-ready-lines-on-stdout" on HTTP [C07, C01] needs [Process] => both;
    "c07-with-stdio-ready-lines-are-on-stderr" on STDIO [C07, S02] needs [Process] => on_stderr;
    "c07-port-in-use-is-a-failed-start" on TCP [C07] needs [Process] => port_in_use;
    "c07-bad-flags-are-a-failed-start" on TCP [C07] needs [Process] => bad_flags;
    "c07-stdout-that-is-closed" on TCP [C07] needs [Process] => closed_stdout;
    "l21-port-is-taken" on WS [L21] needs [Process] => port_is_taken;
    "h01-addr-is-taken" on HTTP [H01] needs [Process] => addr_is_taken;
}

async fn two_members(ctx: &mut Ctx) -> Outcome {
    let wire = ctx.wire;
    let mut on = ctx.serve().await?;
    let server = on.server()?;
    let line = server.ready_line(wire)?.clone();
    let members: Vec<&str> =
        line.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default();
    let want = if wire == Wire::Ws { ["port", "token"] } else { ["url", "token"] };
    expect_eq!(members, want, "the members of the ready line");
    // It accepts connections by then.
    match wire {
        Wire::Ws => {
            on.ws().await?.call("health", json!({})).await?;
        }
        Wire::Http | Wire::Stdio => {
            on.http()?.get("/v1/health").await?.want(200)?;
        }
    }
    Ok(())
}

async fn both(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]);
    let mut on = ctx.start(&launch).await?;
    let server = on.server()?;
    expect_eq!(server.stdout().lines().count(), 2, "lines on stdout: {:?}", server.stdout());
    let (ws, http) = (on.ws_addr()?, on.http()?);
    expect_eq!(ws.token, http.token, "the token of both");
    on.ws().await?.call("health", json!({})).await?;
    http.get("/v1/health").await?.want(200)?;
    Ok(())
}

async fn on_stderr(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(Wire::ALL).env("RUST_LOG", "trace");
    let mut on = ctx.start(&launch).await?;
    let (ws, http) = (on.ws_addr()?, on.http()?);
    let mut rpc = on.stdio()?;
    let manifest = rpc.call("manifest", json!({})).await?;
    let listeners = manifest.at("/listeners").of("C07")?.to_string();
    expect!(listeners.contains(&ws.addr.port().to_string()), "the ws port is not in manifest.listeners: {listeners}");
    expect!(listeners.contains(&http.addr.to_string()), "the http address is not in manifest.listeners: {listeners}");
    expect!(listeners.contains(&http.token), "the ready lines' token is not in manifest.listeners: {listeners}");
    on.ws().await?.call("health", json!({})).await?;
    http.get("/v1/health").await?.want(200)?;
    Ok(())
}

async fn port_in_use(ctx: &mut Ctx) -> Outcome {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").map_err(Stop::harness)?;
    let addr = taken.local_addr().map_err(Stop::harness)?;
    let launch = ctx.launch().without_addr();
    let launch = match ctx.wire {
        Wire::Ws => launch.args(["--port".to_owned(), addr.port().to_string()]),
        Wire::Http | Wire::Stdio => launch.args(["--addr".to_owned(), addr.to_string()]),
    };
    failed_start(ctx, &launch, "a port in use").await
}

/// Ends the case unless the server ends by itself, says why on stderr, and writes no ready line.
async fn failed_start(ctx: &mut Ctx, launch: &crate::target::Launch, what: &str) -> Outcome {
    match ctx.try_start(launch).await? {
        Ok(server) => Err(Stop::broke(format!("{what}: the server is up: {:?}", server.ready))),
        Err(failed) => {
            let code = failed.status.and_then(|status| status.code());
            expect!(code.is_some_and(|code| code != 0), "{what}: it ended with {:?}", failed.status);
            expect!(failed.stdout.is_empty(), "{what}: stdout holds {:?}", failed.stdout);
            expect!(!failed.stderr.trim().is_empty(), "{what}: stderr is empty");
            Ok(())
        }
    }
}

async fn bad_flags(ctx: &mut Ctx) -> Outcome {
    let rows: &[&[&str]] = match ctx.wire {
        Wire::Ws => &[&["--port", "70000"], &["--port", "-1"], &["--mode", "nonsense"], &["--no-such-flag"]],
        Wire::Http | Wire::Stdio => {
            &[&["--addr", "127.0.0.1:70000"], &["--addr", "nonsense"], &["--effort", "nonsense"], &["--token", ""]]
        }
    };
    for row in rows {
        let launch = ctx.launch().args(row.iter().copied());
        let launch = if row.contains(&"--addr") { launch.without_addr() } else { launch };
        failed_start(ctx, &launch, &row.join(" ")).await?;
    }
    Ok(())
}

async fn closed_stdout(ctx: &mut Ctx) -> Outcome {
    let program = ctx.program()?.to_owned();
    let mut command = tokio::process::Command::new(program);
    command.args(["serve", "--transport", ctx.wire.flag()]).env_clear().env("HOME", ctx.home()).current_dir(ctx.work());
    if ctx.wire == Wire::Http {
        command.args(["--addr", "127.0.0.1:0"]);
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").map_err(Stop::harness)?;
    command.stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(Stop::harness)?;
    let ended = tokio::time::timeout(ctx.options.deadline, child.wait()).await;
    let status =
        ended.map_err(|_| Stop::broke("a server that cannot say where it listens goes on"))?.map_err(Stop::harness)?;
    expect!(!status.success(), "a server that cannot say where it listens ends with {status}");
    Ok(())
}

async fn port_is_taken(ctx: &mut Ctx) -> Outcome {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(Stop::harness)?;
    let launch =
        ctx.launch().args(["--host".to_owned(), "127.0.0.1".to_owned(), "--port".to_owned(), free.port().to_string()]);
    let mut on = ctx.start(&launch).await?;
    expect_eq!(on.server()?.ready_line(Wire::Ws)?.get("port"), Some(&json!(free.port())), "the port");
    on.ws().await?.call("health", json!({})).await?;
    let launch = ctx.launch().args(["--host", "localhost"]);
    let mut on = ctx.start(&launch).await?;
    expect!(on.server()?.ready_line(Wire::Ws)?.get("port").is_some_and(Value::is_u64), "a name as --host");
    Ok(())
}

async fn addr_is_taken(ctx: &mut Ctx) -> Outcome {
    let free =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(Stop::harness)?;
    let launch = ctx.launch().without_addr().args(["--addr".to_owned(), free.to_string()]);
    let mut on = ctx.start(&launch).await?;
    expect_eq!(on.http()?.addr, free, "the address");
    on.server()?.kill().await?;
    for addr in ["localhost:0", "[::1]:0"] {
        let launch = ctx.launch().without_addr().args(["--addr", addr]);
        let mut on = ctx.start(&launch).await?;
        let ready = on.server()?.ready_line(Wire::Http)?.clone();
        expect!(ready.text("/url")?.starts_with("http://"), "--addr {addr}: {ready}");
    }
    Ok(())
}
