//! Background tasks: listed, stopped, and handed over by a turn that the server starts. Clauses: H23, H24.

use super::Bag;
use crate::{
    cases,
    cases::{FOREVER, HTTP},
    client::http::{Events, Fact},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::json;

cases! {
    "h23-tasks-are-listed-and-stopped" on HTTP [H23] needs [Script] => stopped;
    "h23-a-task-that-is-none-is-404" on HTTP [H23] => none;
    "h24-a-finished-task-starts-a-turn" on HTTP [H24, H23, H14] needs [Script] => handed_over;
    "h24-no-turn-starts-while-one-runs" on HTTP [H24] needs [Script] => while_busy;
}

/// Reads to the user message that the server itself wrote, and its run to the end.
async fn own_turn(live: &mut Events) -> Outcome<Vec<Fact>> {
    let by_server = |fact: &Fact| fact.kind == "user_message" && fact.data.get("origin") == Some(&json!("task"));
    let mut seen = live.until_fact("a turn of the server's own", by_server).await?;
    seen.extend(live.until("final").await?);
    Ok(seen)
}

async fn stopped(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.run("/task 60000 slow\n/say ok").await?;
    let told = bag.get("/tasks").await?;
    expect_eq!(told.list("/tasks")?.len(), 1, "tasks: {told}");
    expect_eq!(told.text("/tasks/0/state")?, "running", "its state");
    expect!(told.int("/tasks/0/started")? > 0 && told.pointer("/tasks/0/ended").is_none(), "its times: {told}");
    let id = told.text("/tasks/0/id")?;
    bag.http.delete(&bag.path(&format!("/tasks/{id}"))).await?.want(204)?;
    let end = live.until("task_end").await?;
    let end = end.last().map(|fact| fact.data.clone()).unwrap_or_default();
    expect_eq!((end.text("/task_id")?, end.text("/state")?), (id, "stopped".to_owned()), "`task_end`");
    let told = bag.get("/tasks").await?;
    expect_eq!(told.text("/tasks/0/state")?, "stopped", "its state in the list");
    expect!(told.int("/tasks/0/ended")? >= told.int("/tasks/0/started")?, "its times: {told}");
    Ok(())
}

async fn none(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.http.delete(&bag.path("/tasks/nobody")).await?.fails(404, "not_found")?;
    expect_eq!(bag.get("/tasks").await?, json!({"tasks": []}), "the tasks of a session without any");
    Ok(())
}

async fn handed_over(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    let run = bag.run("/task 200 the figures are in\n/say ok").await?;
    expect_eq!(run.text("/text")?.trim(), "ok", "the run does not wait for its task");
    let seen = own_turn(&mut live).await?;
    let end = seen.iter().find(|fact| fact.kind == "task_end").map(|fact| fact.data.clone()).unwrap_or_default();
    let want = ("done".to_owned(), "the figures are in".to_owned());
    expect_eq!("H23": (end.text("/state")?, end.text("/text")?), want, "`task_end`");
    let busy: Vec<bool> =
        seen.iter().filter(|f| f.kind == "status").map(|f| f.data.flag("/busy")).collect::<Outcome<_>>()?;
    expect_eq!("H14": busy.last().copied(), Some(true), "`status` before the server's own turn");
    let said = bag.said().await?;
    let told = said.iter().rfind(|(role, _)| role == "user").map(|(_, text)| text.as_str()).unwrap_or_default();
    expect!(told.contains("the figures are in"), "the model is not told the result: {said:?}");
    // Once.
    bag.run("next").await?;
    let rest = live.until("final").await?;
    let origins: Vec<_> = rest.iter().filter(|fact| fact.kind == "user_message").collect();
    expect_eq!(origins.len(), 1, "turns after the hand-over");
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
