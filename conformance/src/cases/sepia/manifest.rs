//! The manifest, the node, the settings, the agents. Clauses: S02–S05.

use crate::{
    cases,
    cases::STDIO,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

cases! {
    "s02-manifest" on STDIO [S02] => manifest;
    "s02-methods-are-exactly-those-served" on STDIO [S02] => methods;
    "s03-node-id-stays" on STDIO [S03, C16] needs [Process] => node_stays;
    "s03-sepia-home-is-honoured" on STDIO [S03] needs [Process] => sepia_home;
    "s03-a-broken-node-file" on STDIO [S03, C05] needs [Process] => broken_node;
    "s04-defaults" on STDIO [S04] needs [Process] => defaults;
    "s04-flags-and-variables" on STDIO [S04] needs [Process] => settings;
    "s04-bad-values-are-a-failed-start" on STDIO [S04] needs [Process] => bad_values;
    "s05-agents" on STDIO [S05] => agents;
}

async fn manifest(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let manifest = on.stdio()?.call("manifest", json!({})).await?;
    for member in ["/name", "/version", "/node/id", "/node/name"] {
        expect!(!manifest.text(member)?.is_empty(), "an empty `{member}`: {manifest}");
    }
    expect_eq!(manifest.int("/protocol")?, 1, "the wire's version");
    expect_eq!(
        manifest.get("listeners").is_none_or(|list| list == &json!([])),
        true,
        "listeners of a server without TCP"
    );
    Ok(())
}

async fn methods(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let told = rpc.call("manifest", json!({})).await?;
    let told: Vec<String> = told.list("/methods")?.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect();
    for row in triplane_protocol::sepia::ROWS {
        if row.name == "shutdown" {
            continue;
        }
        let reply = rpc.ask(row.name, json!({"id": 1, "agent": 1, "cwd": 1, "name": 1, "config": 1})).await?;
        let missing = reply
            .result
            .as_ref()
            .is_err_and(|error| error.number == -32601 || error.code.as_deref() == Some("unsupported"));
        expect_eq!(
            told.iter().any(|name| name == row.name),
            !missing,
            "{} is in the manifest; it answers {}",
            row.name,
            reply.text
        );
    }
    for name in &told {
        expect!(
            triplane_protocol::sepia::ROWS.iter().any(|row| row.name == name),
            "`{name}` is told, but is no method of the wire"
        );
    }
    Ok(())
}

/// The node id of a fresh server.
async fn node(ctx: &mut Ctx) -> Outcome<String> {
    let mut on = ctx.serve().await?;
    on.stdio()?.call("manifest", json!({})).await?.text("/node/id")
}

async fn node_stays(ctx: &mut Ctx) -> Outcome {
    let first = node(ctx).await?;
    let file = ctx.home().join(".triplane").join("node.json");
    let text = std::fs::read_to_string(&file).map_err(|err| Stop::broke(format!("{}: {err}", file.display())))?;
    expect!(text.contains(&first), "node.json does not hold {first}: {text}");
    let mode = std::fs::metadata(&file).map_err(Stop::harness)?.permissions().mode() & 0o777;
    expect_eq!("C16": format!("{mode:o}"), "600", "the mode of node.json");
    expect_eq!(node(ctx).await?, first, "the node's id after a restart");
    Ok(())
}

async fn sepia_home(ctx: &mut Ctx) -> Outcome {
    let home = ctx.scratch("sepia-home");
    let mut launch = ctx.launch().env("SEPIA_HOME", &home.to_string_lossy());
    launch.triplane_home = false;
    let mut on = ctx.start(&launch).await?;
    let id = on.stdio()?.call("manifest", json!({})).await?.text("/node/id")?;
    let text = std::fs::read_to_string(home.join("node.json")).unwrap_or_default();
    expect!(text.contains(&id), "$SEPIA_HOME/node.json does not hold {id}: {text:?}");
    Ok(())
}

async fn broken_node(ctx: &mut Ctx) -> Outcome {
    let file = ctx.home().join(".triplane").join("node.json");
    std::fs::create_dir_all(ctx.home().join(".triplane")).map_err(Stop::harness)?;
    std::fs::write(&file, "{\"id\":").map_err(Stop::harness)?;
    let launch = ctx.launch();
    // Either is stated: it refuses to start and says why, or it mints a new one.
    if let Ok(mut server) = ctx.try_start(&launch).await? {
        let ended = server.exited(std::time::Duration::from_millis(500)).await;
        match ended {
            Ok(status) => {
                expect!(!status.success(), "a broken node.json: {status}");
                expect!(server.stderr().contains("node.json"), "stderr does not name the file: {}", server.stderr());
            }
            Err(_) => server.kill().await?,
        }
    }
    Ok(())
}

/// Flags of a start.
type Flags<'a> = &'a [&'a str];
/// Variables of a start.
type Variables<'a> = &'a [(&'a str, &'a str)];

async fn config(ctx: &mut Ctx, args: &[&str], env: &[(&str, &str)]) -> Outcome<Value> {
    let launch = env.iter().fold(ctx.launch().args(args), |launch, (name, value)| launch.env(name, value));
    let mut on = ctx.start(&launch).await?;
    on.stdio()?.call("manifest", json!({})).await?.at("/config").cloned()
}

async fn defaults(ctx: &mut Ctx) -> Outcome {
    let want = json!({"idleTtlMs": 600_000, "sweepMs": 30_000, "historyLimit": 500, "probeIdleMs": 60_000});
    expect_eq!(config(ctx, &[], &[]).await?, want, "config without settings");
    Ok(())
}

async fn settings(ctx: &mut Ctx) -> Outcome {
    let rows: &[(Flags, Variables, &str, Value)] = &[
        (&["--idle-ttl-ms", "0"], &[], "idleTtlMs", Value::Null),
        (&["--idle-ttl-ms", "1"], &[], "idleTtlMs", json!(1)),
        (&[], &[("TRIPLANE_IDLE_TTL_MS", "7000")], "idleTtlMs", json!(7000)),
        (&[], &[("SEPIA_IDLE_TTL_MS", "8000")], "idleTtlMs", json!(8000)),
        (&[], &[("SEPIA_IDLE_TTL_MS", "8000"), ("TRIPLANE_IDLE_TTL_MS", "7000")], "idleTtlMs", json!(7000)),
        (&["--idle-ttl-ms", "9000"], &[("TRIPLANE_IDLE_TTL_MS", "7000")], "idleTtlMs", json!(9000)),
        (&["--sweep-ms", "50"], &[], "sweepMs", json!(50)),
        (&[], &[("SEPIA_SWEEP_MS", "60")], "sweepMs", json!(60)),
        (&["--history-limit", "3"], &[], "historyLimit", json!(3)),
        (&[], &[("SEPIA_HISTORY_LIMIT", "4")], "historyLimit", json!(4)),
        (&["--lock-ttl-ms", "1000"], &[], "probeIdleMs", json!(60_000)),
        (&["--lock-ttl-ms", "10000"], &[], "probeIdleMs", json!(100_000)),
        (&[], &[("SEPIA_LOCK_TTL_MS", "20000")], "probeIdleMs", json!(200_000)),
        (&["--lock-ttl-ms", "10000", "--probe-idle-ms", "5"], &[], "probeIdleMs", json!(5)),
    ];
    for (args, env, member, want) in rows {
        let config = config(ctx, args, env).await?;
        expect_eq!(config.get(*member), Some(want), "{member} with {args:?} {env:?}");
    }
    Ok(())
}

async fn bad_values(ctx: &mut Ctx) -> Outcome {
    let rows: &[(Flags, Variables)] = &[
        (&["--idle-ttl-ms", "abc"], &[]),
        (&["--sweep-ms", "-1"], &[]),
        (&[], &[("TRIPLANE_IDLE_TTL_MS", "abc")]),
        (&[], &[("SEPIA_IDLE_TTL_MS", "abc")]),
    ];
    for (args, env) in rows {
        let launch = env.iter().fold(ctx.launch().args(*args), |launch, (name, value)| launch.env(name, value));
        let mut server = match ctx.try_start(&launch).await? {
            Ok(server) => server,
            Err(_) => continue,
        };
        let status = server.exited(ctx.options.deadline).await?;
        expect!(!status.success(), "{args:?} {env:?}: the server ends with {status}");
        expect!(!server.stderr().trim().is_empty(), "{args:?} {env:?}: stderr is empty");
    }
    Ok(())
}

async fn agents(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let listed = on.stdio()?.call("agents.list", json!({})).await?;
    let agents = listed.list("/agents")?;
    expect!(!agents.is_empty(), "no agents: {listed}");
    let runs = |agent: &Value| agent.pointer("/capabilities/prompt") == Some(&json!(true));
    expect!(agents.iter().any(runs), "no agent can run a prompt: {listed}");
    for agent in agents {
        for member in ["prompt", "read", "write", "delete", "config"] {
            agent.flag(&format!("/capabilities/{member}"))?;
        }
    }
    Ok(())
}
