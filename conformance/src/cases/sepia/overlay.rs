//! What people say of sessions: titles, pins, projects, the preferred model; and what the list tells of locks and lives.
//! Clauses: S06, S17, S18, S28.

use super::{create, prompt, row};
use crate::{
    cases,
    cases::STDIO,
    client::rpc::Rpc,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "s17-null-clears" on STDIO [S17, S06] needs [Script] => null_clears;
    "s17-the-next-attach-takes-the-model" on STDIO [S17, S12] needs [Script] => preferred_model;
    "s17-bad-patches-change-nothing" on STDIO [S17, C04] needs [Script] => bad_patches;
    "s17-the-overlay-outlives-the-process" on STDIO [S17, S18, C12] needs [Process, Script] => outlives;
    "s18-projects-one-by-one" on STDIO [S18, C04] => projects;
    "s06-locks-as-they-stand" on STDIO [S06] needs [Process, Script] => locks;
    "s06-spans-tell-its-lives" on STDIO [S06] needs [Script] => spans;
    "s06-a-pending-row-after-a-kill" on STDIO [S06, S14, C12] needs [Process] => pending_after_kill;
    "s28-without-an-overlay" on STDIO [S28, S06] needs [Process, Script] => without_overlay;
}

/// The row, which must be there.
async fn must(rpc: &mut Rpc, id: &str) -> Outcome<Value> {
    row(rpc, id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed")))
}

async fn patch(rpc: &mut Rpc, id: &str, patch: Value) -> Outcome<Value> {
    let told = rpc.call("sessions.patch_meta", json!({"id": id, "patch": patch})).await?;
    expect_eq!(told, must(rpc, id).await?, "the result of a patch, and the row");
    Ok(told)
}

async fn null_clears(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let made = rpc.call("sessions.create", json!({"cwd": ctx.work(), "title": "its own"})).await?;
    let id = made.text("/id")?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    let patched = patch(&mut rpc, &id, json!({"title": "said", "pinned": true})).await?;
    expect_eq!((patched.text("/title")?.as_str(), patched.flag("/pinned")?), ("said", true), "the row");
    let kept = patch(&mut rpc, &id, json!({})).await?;
    expect_eq!(kept, patched, "the row after an empty patch");
    let cleared = patch(&mut rpc, &id, json!({"title": null})).await?;
    expect_eq!((cleared.text("/title")?.as_str(), cleared.flag("/pinned")?), ("its own", true), "the row after null");
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.text("/title")?, "its own", "the session's own title");
    Ok(())
}

/// Two models that can be used here.
async fn two_models(rpc: &mut Rpc) -> Outcome<(String, String)> {
    let agents = rpc.call("agents.list", json!({})).await?;
    let names = agents.pointer("/agents/0/capabilities/models").and_then(Value::as_array).cloned().unwrap_or_default();
    match names.iter().filter_map(Value::as_str).collect::<Vec<_>>().as_slice() {
        [one, two, ..] => Ok(((*one).to_owned(), (*two).to_owned())),
        _ => Err(Stop::skip("needs two models")),
    }
}

async fn preferred_model(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let (one, two) = two_models(&mut rpc).await?;
    let id = rpc.call("sessions.create", json!({"cwd": ctx.work(), "model": one})).await?.text("/id")?;
    patch(&mut rpc, &id, json!({"model": two})).await?;
    expect_eq!(must(&mut rpc, &id).await?.text("/model")?, one, "the model of a live session after a patch");
    rpc.call("sessions.detach", json!({"id": id})).await?;
    expect_eq!(must(&mut rpc, &id).await?.text("/model")?, two, "the model that the next attach takes");
    expect_eq!(rpc.call("sessions.attach", json!({"id": id})).await?.text("/model")?, two, "the model after an attach");
    rpc.call("sessions.detach", json!({"id": id})).await?;
    patch(&mut rpc, &id, json!({"model": null})).await?;
    let given = rpc.call("sessions.attach", json!({"id": id, "model": one})).await?;
    expect_eq!(given.text("/model")?, one, "the model that the attach names");
    Ok(())
}

async fn bad_patches(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let before = patch(&mut rpc, &id, json!({"title": "t", "pinned": true})).await?;
    for bad in [
        json!({"pinned": 1, "title": "u"}),
        json!({"title": 7}),
        json!({"projectIds": ["no-such-project"], "title": "u"}),
        json!({"projectIds": [1]}),
        json!({"model": "", "title": "u"}),
        json!({"model": "nobody/nothing", "title": "u"}),
    ] {
        rpc.fails("sessions.patch_meta", json!({"id": id, "patch": bad}), "invalid_params").await?;
    }
    expect_eq!(must(&mut rpc, &id).await?, before, "the row after patches that were refused");
    let none = json!({"id": "01890000-0000-7000-8000-000000000000", "patch": {"title": "x"}});
    rpc.fails("sessions.patch_meta", none, "not_found").await?;
    Ok(())
}

async fn outlives(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let project = rpc.call("projects.create", json!({"name": "é"})).await?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    let said = json!({"title": "é", "archived": true, "projectIds": [project.text("/id")?]});
    let before = patch(&mut rpc, &id, said).await?;
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let after = must(&mut rpc, &id).await?;
    for member in ["title", "pinned", "archived", "projectIds", "updatedAt"] {
        expect_eq!(after.get(member), before.get(member), "`{member}` after a kill");
    }
    expect_eq!(
        rpc.call("projects.list", json!({})).await?,
        json!({"projects": [project]}),
        "the projects after a kill"
    );
    Ok(())
}

async fn projects(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    expect_eq!(rpc.call("projects.list", json!({})).await?, json!({"projects": []}), "projects of a new node");
    let (one, two) = (
        rpc.call("projects.create", json!({"name": "one"})).await?,
        rpc.call("projects.create", json!({"name": "two"})).await?,
    );
    expect!(one.text("/id")? != two.text("/id")?, "two projects with one id");
    expect_eq!(rpc.call("projects.list", json!({})).await?, json!({"projects": [one, two]}), "two projects");
    for name in [json!(""), json!(" "), json!(1), Value::Null] {
        rpc.fails("projects.create", json!({"name": name}), "invalid_params").await?;
        rpc.fails("projects.rename", json!({"id": one.text("/id")?, "name": name}), "invalid_params").await?;
    }
    let id = create(&mut rpc, ctx).await?;
    patch(&mut rpc, &id, json!({"projectIds": [two.text("/id")?, one.text("/id")?]})).await?;
    let renamed = rpc.call("projects.rename", json!({"id": one.text("/id")?, "name": "uno"})).await?;
    expect_eq!((renamed.get("id"), renamed.text("/name")?.as_str()), (one.get("id"), "uno"), "a project renamed");
    expect_eq!(
        rpc.call("projects.delete", json!({"id": one.text("/id")?})).await?,
        json!({"deleted": true}),
        "the result of a delete"
    );
    expect_eq!(
        must(&mut rpc, &id).await?.get("projectIds"),
        Some(&json!([two.text("/id")?])),
        "the projects of a session after one was deleted"
    );
    for (method, params) in [
        ("projects.delete", json!({"id": one.text("/id")?})),
        ("projects.rename", json!({"id": one.text("/id")?, "name": "x"})),
    ] {
        rpc.fails(method, params, "not_found").await?;
    }
    Ok(())
}

/// The lock of a session, asked for or not.
async fn lock(rpc: &mut Rpc, id: &str, with_locks: bool) -> Outcome<Option<Value>> {
    let listed = rpc.call("sessions.list", json!({"withLocks": with_locks})).await?;
    let row = listed.list("/sessions")?.iter().find(|row| row.get("id") == Some(&json!(id))).cloned();
    Ok(row.ok_or_else(|| Stop::broke(format!("{id} is not listed")))?.get("lock").cloned())
}

async fn locks(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    expect_eq!(lock(&mut rpc, &id, false).await?, None, "a lock that nobody asked for");
    let held = lock(&mut rpc, &id, true).await?.unwrap_or_default();
    let pid = i64::from(on.server()?.pid());
    expect_eq!((held.text("/state")?.as_str(), held.int("/holder/pid")?), ("held", pid), "our own lock");
    let node = rpc.call("manifest", json!({})).await?.text("/node/id")?;
    expect_eq!(held.text("/holder/node")?, node, "the holder's node");
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let free = lock(&mut rpc, &id, true).await?.unwrap_or_default();
    expect_eq!(free.text("/state")?, "free", "the lock after a detach");
    rpc.call("sessions.attach", json!({"id": id})).await?;
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let stale = lock(&mut rpc, &id, true).await?.unwrap_or_default();
    expect_eq!(
        (stale.text("/state")?.as_str(), stale.int("/holder/pid")?),
        ("stale", pid),
        "the lock of a killed holder"
    );
    Ok(())
}

async fn spans(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    let told = must(&mut rpc, &id).await?;
    let [first, second] = told.list("/spans")?.as_slice() else {
        return Err(Stop::broke(format!("two lives, one of them over: {told}")));
    };
    expect!(first.int("/startedAt")? <= first.int("/endedAt")?, "the first life: {first}");
    expect!(first.int("/endedAt")? <= second.int("/startedAt")?, "the second began before the first ended: {told}");
    expect_eq!(second.at("/endedAt")?, &Value::Null, "the end of a life that lasts");
    expect_eq!(first.text("/agentId")?, told.text("/agentId")?, "its agent");
    Ok(())
}

async fn pending_after_kill(ctx: &mut Ctx) -> Outcome {
    let elsewhere = ctx.scratch("elsewhere");
    std::fs::create_dir(&elsewhere).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let made = rpc.call("sessions.create", json!({"cwd": elsewhere, "title": "é title"})).await?;
    let id = made.text("/id")?;
    let before = must(&mut rpc, &id).await?;
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let after = must(&mut rpc, &id).await?;
    expect_eq!((after.flag("/pending")?, after.flag("/live")?), (true, false), "`pending` and `live`");
    for member in ["agentId", "cwd", "title", "model", "createdAt"] {
        expect_eq!(after.get(member), before.get(member), "`{member}` of a pending row after a kill");
    }
    rpc.call("sessions.attach", json!({"id": id})).await?;
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.get("cwd"), before.get("cwd"), "the directory after an attach");
    expect_eq!(whole.get("title"), before.get("title"), "the title after an attach");
    Ok(())
}

async fn without_overlay(ctx: &mut Ctx) -> Outcome {
    let home = ctx.home().join(".triplane");
    std::fs::create_dir_all(&home).map_err(Stop::harness)?;
    let file = home.join("plane.db");
    let text = "this is no database, and nothing that may be overwritten\n".repeat(200);
    std::fs::write(&file, &text).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    for (method, params) in [
        ("sessions.patch_meta", json!({"id": id, "patch": {"title": "x"}})),
        ("projects.list", json!({})),
        ("projects.create", json!({"name": "x"})),
        ("projects.rename", json!({"id": "x", "name": "x"})),
        ("projects.delete", json!({"id": "x"})),
    ] {
        rpc.fails(method, params, "invalid").await?;
    }
    let told = must(&mut rpc, &id).await?;
    expect_eq!("S06": (told.flag("/pinned")?, told.flag("/archived")?), (false, false), "a row without an overlay");
    expect_eq!(std::fs::read_to_string(&file).map_err(Stop::harness)?, text, "the file that is no overlay");
    Ok(())
}
