//! Background tasks. Clauses: H23, H24.

use super::{create, wait};
use crate::{cases, cases::HTTP, ctx::Ctx, expect_eq, json::Json, verdict::Outcome};
use serde_json::json;

cases! {
    "h23-tasks-are-listed-and-stopped" on HTTP [H23] needs [Script] => listed_and_stopped;
    "h24-ended-tasks-start-a-turn" on HTTP [H24] needs [Script] => start_a_turn;
}

async fn listed_and_stopped(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;
    wait(&http, &id, "/task 60000 never").await?;
    let tasks = http.get(&format!("/v1/sessions/{id}/tasks")).await?.want(200)?;
    expect_eq!(tasks.list("/tasks")?.len(), 1, "tasks");
    expect_eq!(tasks.text("/tasks/0/state")?, "running", "the task's state");
    let task = tasks.text("/tasks/0/id")?;
    http.delete(&format!("/v1/sessions/{id}/tasks/nonsense")).await?.fails(404, "not_found")?;
    http.delete(&format!("/v1/sessions/{id}/tasks/{task}")).await?.want(204)?;
    let ended = events.until("task_end").await?;
    let state = ended.last().map(|fact| fact.data.text("/state")).transpose()?;
    expect_eq!(state.as_deref(), Some("stopped"), "the state of a task that was stopped");
    Ok(())
}

async fn start_a_turn(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": "/task 300 result"})).await?.want(202)?;
    let idle = |fact: &crate::client::http::Fact| fact.data.get("busy") == Some(&json!(false));
    events.until_fact("idle", idle).await?;
    events.until("task_end").await?;
    let facts = events.until_fact("idle after a turn of its own", idle).await?;
    let said: Vec<String> = facts
        .iter()
        .filter(|fact| fact.kind == "user_message")
        .map(|fact| fact.data.text("/origin"))
        .collect::<Outcome<_>>()?;
    expect_eq!(said, ["task"], "who said what started the turn");
    Ok(())
}
