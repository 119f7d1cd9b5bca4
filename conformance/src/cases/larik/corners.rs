//! Rules that refuse, requests that outlive their readers, files that somebody else changed, tasks that end at a bad time.
//! Clauses: H20–H24.

use super::bag::Bag;
use crate::{
    cases,
    cases::{FOREVER, HTTP, write},
    client::http::{Events, Fact, Response},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "h20-a-request-survives-its-readers" on HTTP [H20, H15] needs [Script, Process] => survives;
    "h21-always-refused-saves-a-rule" on HTTP [H21] needs [Script, Process] => always_refused;
    "h22-undo-skips-what-changed-meanwhile" on HTTP [H22] needs [Script, Process] => undo_skips;
    "h22-undo-of-nothing-is-invalid" on HTTP [H22] => undo_nothing;
    "h23-a-task-that-is-none-is-404" on HTTP [H23] => none;
    "h24-no-turn-starts-while-one-runs" on HTTP [H24] needs [Script] => while_busy;
}

/// Starts a run that asks for one permission.
async fn asking(bag: &Bag, file: &str) -> Outcome<(Events, Value)> {
    let mut live = bag.live().await?;
    bag.start(&write(file, "x")).await?;
    let asked = live.until("permission_request").await?;
    let request = asked.last().map(|fact| fact.data.clone()).unwrap_or_default();
    Ok((live, request))
}

async fn answer(bag: &Bag, request: &Value, body: &Value) -> Outcome<Response> {
    bag.http.post(&bag.path(&format!("/permissions/{}", request.text("/request_id")?)), body).await
}

async fn survives(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (live, request) = asking(&bag, "a.txt").await?;
    let seq = u64::try_from(request.int("/seq")?).unwrap_or_default();
    drop(live);
    // Somebody who was not there before finds it, in the replay and in the list.
    let mut again = bag.after(seq - 1).await?;
    let told = again.fact().await?;
    expect_eq!(told.data, request, "the request, replayed");
    expect!(bag.get("").await?.flag("/busy")?, "the run went with its reader");
    answer(&bag, &request, &json!({"allow": true})).await?.want(204)?;
    let end = again.until("final").await?;
    let stop = end.last().map(|fact| fact.data.text("/stopped_reason")).transpose()?;
    expect_eq!(stop.as_deref(), Some("completed"), "the run");
    expect!(ctx.work().join("a.txt").exists(), "the allowed call did not run");
    Ok(())
}

async fn always_refused(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (mut live, request) = asking(&bag, "a.txt").await?;
    let told = answer(&bag, &request, &json!({"allow": false, "always": true})).await?.want(200)?;
    expect_eq!(told, json!({"allowed": false, "persisted": true}), "the answer to `always`");
    live.until("final").await?;
    bag.run(&write("a.txt", "y")).await?;
    expect!(!ctx.work().join("a.txt").exists(), "a call that a rule refuses ran");
    Ok(())
}

async fn undo_skips(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve_bypass().await?;
    let bag = Bag::create(&on).await?;
    let path = ctx.work().join("a.txt");
    bag.run(&write("a.txt", "theirs")).await?;
    std::fs::write(&path, "mine").map_err(Stop::harness)?;
    let undone = bag.post("/undo", &json!({}), 200).await?;
    let skipped = undone.list("/skipped")?;
    expect_eq!(skipped.len(), 1, "files that changed meanwhile: {undone}");
    expect!(undone.text("/skipped/0/path")?.ends_with("a.txt"), "which: {undone}");
    expect!(!undone.text("/skipped/0/reason")?.is_empty(), "no reason: {undone}");
    expect_eq!(std::fs::read_to_string(&path).unwrap_or_default(), "mine", "what somebody else wrote");
    Ok(())
}

async fn undo_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.http.post(&bag.path("/undo"), &json!({})).await?.fails(422, "invalid")?;
    Ok(())
}

/// Reads to the user message that the server itself wrote, and its run to the end.
async fn own_turn(live: &mut Events) -> Outcome<Vec<Fact>> {
    let by_server = |fact: &Fact| fact.kind == "user_message" && fact.data.get("origin") == Some(&json!("task"));
    let mut seen = live.until_fact("a turn of the server's own", by_server).await?;
    seen.extend(live.until("final").await?);
    Ok(seen)
}

async fn none(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.http.delete(&bag.path("/tasks/nobody")).await?.fails(404, "not_found")?;
    expect_eq!(bag.get("/tasks").await?, json!({"tasks": []}), "the tasks of a session without any");
    Ok(())
}

async fn while_busy(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.start(&format!("/task 100 early\n{FOREVER}")).await?;
    let seen = live.until("task_end").await?;
    expect!(seen.iter().all(|fact| fact.kind != "final"), "the run ended with its task");
    expect!(bag.get("").await?.flag("/busy")?, "the run ended with its task");
    bag.cancel().await?;
    live.until("final").await?;
    own_turn(&mut live).await?;
    let roles: Vec<String> = bag.said().await?.into_iter().map(|(role, _)| role).collect();
    expect_eq!(roles.iter().filter(|role| *role == "user").count(), 2, "prompts in {roles:?}");
    Ok(())
}
