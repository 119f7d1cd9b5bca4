//! Driver processes: found by name, started when needed, and what their deaths cost. The drivers are small Python programs; without
//! python3 the cases are skipped. Clauses: S31, S32.

use super::prompt;
use crate::{
    cases,
    cases::STDIO,
    client::rpc::Rpc,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    target::Launch,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

cases! {
    "s31-drivers-are-found-by-name" on STDIO [S31, S05] needs [Process] => found;
    "s31-the-example-of-the-documents" on STDIO [S31, S15] needs [Process] => example;
    "s31-a-driver-sees-the-settings-and-no-token" on STDIO [S31, C08] needs [Process] => environment;
    "s32-a-death-is-unavailable-and-the-next-call-works" on STDIO [S32, S28] needs [Process] => death;
    "s32-a-run-in-flight-learns-of-the-death" on STDIO [S32, S15] needs [Process] => death_in_a_run;
    "s32-other-calls-do-not-hang" on STDIO [S32, S19] needs [Process] => others;
    "s32-a-cancel-that-is-not-heard" on STDIO [S32, S15] needs [Process] => not_heard;
    "s32-what-a-driver-says-beyond-the-types" on STDIO [S32, S22] needs [Process] => extension;
}

/// The driver of these cases.
const CASE: &str = include_str!("../../../fixtures/driver.py");

/// The driver that the documents show.
const EXAMPLE: &str = include_str!("../../../../docs/driver-example.py");

/// Where python3 is; the case is skipped without it.
fn python() -> Outcome {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|dir| dir.join("python3").is_file()) {
        true => Ok(()),
        false => Err(Stop::skip("python3 is not installed")),
    }
}

fn install(dir: &Path, name: &str, text: &str) -> Outcome {
    python()?;
    fs::create_dir_all(dir).map_err(Stop::harness)?;
    let path = dir.join(name);
    fs::write(&path, text).map_err(Stop::harness)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Stop::harness)
}

/// A server that knows the driver `case`.
fn with_driver(ctx: &Ctx) -> Outcome<Launch> {
    let dir = ctx.scratch("drivers");
    install(&dir, "triplane-driver-case", CASE)?;
    Ok(ctx.launch().env("TRIPLANE_DRIVER_DIR", &dir.to_string_lossy()))
}

async fn agents(rpc: &mut Rpc) -> Outcome<Vec<Value>> {
    Ok(rpc.call("agents.list", json!({})).await?.list("/agents")?.clone())
}

async fn session(rpc: &mut Rpc, ctx: &Ctx, agent: &str) -> Outcome<String> {
    rpc.call("sessions.create", json!({"cwd": ctx.work(), "agent": agent})).await?.text("/id")
}

/// What the driver says of its process.
async fn pid(rpc: &mut Rpc) -> Outcome<i64> {
    rpc.call("config.get", json!({"agent": "case"})).await?.int("/items/0/meta/value")
}

fn read(how: &str) -> Value {
    json!({"agent": "case", "dir": format!("/{how}")})
}

/// Waits for the driver's first word in a run that is watched.
async fn begun(rpc: &mut Rpc) -> Outcome {
    let said =
        |params: &Value| params["events"].as_array().into_iter().flatten().any(|event| event["type"] == "textDelta");
    rpc.notified("session.event", "the driver's first word", said).await.map(drop)
}

async fn found(ctx: &mut Ctx) -> Outcome {
    let (own, older, path) = (ctx.scratch("own"), ctx.scratch("older"), ctx.scratch("path"));
    install(&own, "triplane-driver-one", CASE)?;
    install(&own, "sepia-driver-two", CASE)?;
    install(&own, "triplane-driver-claude", CASE)?;
    install(&older, "triplane-driver-three", CASE)?;
    install(&path, "sepia-driver-four", CASE)?;
    fs::write(own.join("triplane-driver-text"), CASE).map_err(Stop::harness)?;
    let all: PathBuf = std::env::var_os("PATH").unwrap_or_default().into();
    let on_path = format!("{}:{}", path.display(), all.display());
    for (variables, expected) in [
        (vec![("TRIPLANE_DRIVER_DIR", &own), ("SEPIA_DRIVER_DIR", &older)], vec!["one", "two", "four"]),
        (vec![("SEPIA_DRIVER_DIR", &older)], vec!["three", "four"]),
        (vec![], vec!["four"]),
    ] {
        let launch = variables
            .iter()
            .fold(ctx.launch().env("PATH", &on_path), |launch, (name, dir)| launch.env(name, &dir.to_string_lossy()));
        let mut on = ctx.start(&launch).await?;
        let mut rpc = on.stdio()?;
        let drivers: Vec<Value> =
            agents(&mut rpc).await?.into_iter().filter(|agent| agent.get("name") == Some(&json!("Case"))).collect();
        let names: Vec<String> = drivers.iter().map(|agent| agent.text("/id")).collect::<Outcome<_>>()?;
        expect_eq!(names, expected, "the drivers with {variables:?}");
        for agent in drivers {
            let can = agent.at("/capabilities")?;
            expect_eq!(
                (can.flag("/prompt")?, can.flag("/config")?, can.flag("/read")?),
                (true, true, false),
                "what it can do"
            );
        }
        let id = session(&mut rpc, ctx, "four").await?;
        let outcome = rpc.call("sessions.prompt", prompt(&id, "hello")).await?;
        expect_eq!(outcome.text("/reply")?, "you said hello", "the reply of a driver");
    }
    Ok(())
}

async fn example(ctx: &mut Ctx) -> Outcome {
    let dir = ctx.scratch("drivers");
    install(&dir, "triplane-driver-notes", EXAMPLE)?;
    let launch = ctx.launch().env("TRIPLANE_DRIVER_DIR", &dir.to_string_lossy());
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let notes = agents(&mut rpc).await?.into_iter().find(|agent| agent.get("id") == Some(&json!("notes")));
    let can = notes.unwrap_or_default();
    expect!(can.flag("/capabilities/prompt")? && can.flag("/capabilities/write")?, "what the example can do: {can}");
    let id = session(&mut rpc, ctx, "notes").await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let outcome = rpc.call("sessions.prompt", prompt(&id, "hello there")).await?;
    expect_eq!(
        (outcome.text("/reply")?.as_str(), outcome.text("/stopReason")?.as_str()),
        ("hello there", "completed"),
        "a run"
    );
    for (kind, expected) in [("allow_once", "do it"), ("reject_once", "as you like")] {
        let sent = rpc.send("sessions.prompt", prompt(&id, "ask do it")).await?;
        let asked = rpc
            .notified("session.event", "a permission request", |params| {
                params["events"].as_array().into_iter().flatten().any(|event| event["type"] == "permissionRequest")
            })
            .await?;
        let events = asked.json.list("/params/events")?;
        let request = events.iter().find(|event| event["type"] == "permissionRequest").cloned().unwrap_or_default();
        let answer = json!({"id": id, "request": request.text("/requestId")?, "option": kind});
        rpc.call("sessions.permission", answer).await?;
        let outcome = rpc.reply(sent).await?.ok()?;
        expect_eq!(outcome.text("/reply")?, expected, "a run after `{kind}`");
    }
    let history = rpc.call("sessions.history", json!({"id": id})).await?;
    expect_eq!(history.list("/messages")?.len(), 6, "messages of three runs");
    Ok(())
}

async fn environment(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?.env("TRIPLANE_TOKEN", "a-secret-that-is-long-enough");
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let config = rpc.call("config.get", json!({"agent": "case"})).await?;
    expect_eq!(config.at("/items/1/meta/value")?, &Value::Null, "the token, as a driver sees it");
    expect_eq!(config.text("/dir")?, "own", "the root that only the driver knows");
    let there = rpc.call("config.get", json!({"agent": "case", "dir": "/there"})).await?;
    expect_eq!(there.text("/dir")?, "/there", "a root that was given");
    let listed = rpc.call("config.list", json!({"agent": "case"})).await?;
    expect_eq!(listed.int("/0/counts/setting")?, 2, "the counts of a driver's config");
    let items = json!({"items": [{"kind": "rule", "name": "r", "body": "x"}]});
    let done = rpc.call("config.import", json!({"agent": "case", "config": items})).await?;
    expect_eq!(done.text("/actions/0/action")?, "created", "the action of a driver");
    let error = rpc.fails("config.get", read("refuse"), "invalid").await?;
    expect_eq!(error.cause.as_deref(), Some("line 3 is no config"), "the driver's own cause");
    Ok(())
}

async fn death(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?;
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let mut before = pid(&mut rpc).await?;
    for (how, told) in [("die", "the disk is on fire"), ("kill", "signal 9"), ("garbage", "Traceback")] {
        let error = rpc.fails("config.get", read(how), "unavailable").await?;
        let cause = error.cause.unwrap_or_default();
        expect!(cause.contains(told), "the cause of `{how}` does not tell of `{told}`: {cause:?}");
        let after = pid(&mut rpc).await?;
        expect!(after != before, "the same process answers after `{how}`");
        before = after;
    }
    let listed = rpc.call("config.list", json!({"dir": "/die"})).await?;
    let entries = listed.as_array().cloned().unwrap_or_default();
    let broken = entries.iter().find(|entry| entry.get("agent") == Some(&json!("case"))).cloned().unwrap_or_default();
    expect!(broken.get("error").is_some() && entries.len() > 1, "one that dies, among the others: {listed}");
    Ok(())
}

async fn death_in_a_run(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?;
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let (one, two) = (session(&mut rpc, ctx, "case").await?, session(&mut rpc, ctx, "case").await?);
    rpc.call("sessions.prompt", prompt(&one, "hello")).await?;
    rpc.call("sessions.subscribe", json!({"id": two})).await?;
    let waiting = rpc.send("sessions.prompt", prompt(&two, "hang")).await?;
    begun(&mut rpc).await?;
    let dead = rpc.call("sessions.prompt", prompt(&one, "die")).await?;
    let waited = rpc.reply(waiting).await?.ok()?;
    for outcome in [&dead, &waited] {
        expect_eq!(
            (outcome.text("/stopReason")?.as_str(), outcome.text("/error/code")?.as_str()),
            ("error", "unavailable"),
            "a run whose driver died"
        );
        expect!(outcome.text("/error/message")?.contains("the disk is on fire"), "no cause: {outcome}");
    }
    for id in [&one, &two] {
        let outcome = rpc.call("sessions.prompt", prompt(id, "again")).await?;
        expect_eq!(outcome.text("/reply")?, "you said again", "the next prompt");
    }
    Ok(())
}

async fn others(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?;
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let (one, two) = (session(&mut rpc, ctx, "case").await?, session(&mut rpc, ctx, "case").await?);
    let hung = rpc.send("sessions.prompt", prompt(&one, "hang")).await?;
    let began = Instant::now();
    rpc.send("config.get", read("hang")).await?;
    let outcome = rpc.call("sessions.prompt", prompt(&two, "hello")).await?;
    expect_eq!(outcome.text("/reply")?, "you said hello", "a session beside one that hangs");
    pid(&mut rpc).await?;
    expect!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    rpc.call("sessions.cancel", json!({"id": one})).await?;
    let outcome = rpc.reply(hung).await?.ok()?;
    expect_eq!(outcome.text("/stopReason")?, "aborted", "a run that hung, and was cancelled");
    Ok(())
}

async fn not_heard(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?;
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let id = session(&mut rpc, ctx, "case").await?;
    let first = pid(&mut rpc).await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    let deaf = rpc.send("sessions.prompt", prompt(&id, "deaf")).await?;
    begun(&mut rpc).await?;
    let began = Instant::now();
    rpc.call("sessions.cancel", json!({"id": id})).await?;
    let outcome = rpc.reply(deaf).await?.ok()?;
    expect_eq!(outcome.text("/stopReason")?, "aborted", "the run");
    expect!(began.elapsed() < Duration::from_secs(6), "it ended after {:?}", began.elapsed());
    expect_eq!(
        rpc.call("sessions.prompt", prompt(&id, "hello")).await?.text("/reply")?,
        "you said hello",
        "the next run"
    );
    expect!(pid(&mut rpc).await? != first, "a driver that hears no cancel was kept");
    Ok(())
}

async fn extension(ctx: &mut Ctx) -> Outcome {
    let launch = with_driver(ctx)?;
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let id = session(&mut rpc, ctx, "case").await?;
    rpc.call("sessions.subscribe", json!({"id": id})).await?;
    rpc.call("sessions.prompt", prompt(&id, "odd")).await?;
    let mut seen = Vec::new();
    for frame in rpc.arrived("session.event") {
        seen.extend(frame.json.list("/params/events")?.iter().cloned());
    }
    let odd: Vec<&Value> = seen.iter().filter(|event| event["type"] == "extension").collect();
    let [mood, status] = odd.as_slice() else {
        return Err(Stop::broke(format!("two extensions, not {odd:?}")));
    };
    expect_eq!((mood.text("/name")?.as_str(), mood.at("/data")?), ("mood", &json!({"type": "mood", "level": 3})), "it");
    expect_eq!(status.text("/name")?, "status", "what is the plane's to say, from a driver");
    let idle = seen.iter().filter(|event| event["type"] == "runFinished").count();
    expect_eq!(idle, 1, "ends of the run");
    Ok(())
}
