//! Permissions: pending ones are listed, the first answer wins, `always` saves a rule. Clauses: H20, H21.

use super::{create, get};
use crate::{
    cases,
    cases::{HTTP, write},
    client::http::{Events, Http},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "h20-pending-requests-are-listed" on HTTP [H20, H08] needs [Process, Script] => listed;
    "h20-a-request-waits-without-readers" on HTTP [H20] needs [Process, Script] => waits;
    "h21-second-answer-is-404" on HTTP [H21] needs [Process, Script] => second_answer;
    "h21-one-of-many-answers-wins" on HTTP [H21] needs [Process, Script] => one_wins;
    "h21-foreign-and-bad-answers-leave-it-pending" on HTTP [H21, C04] needs [Process, Script] => bad_answers;
    "h21-always-saves-a-rule" on HTTP [H21] needs [Process, Script, Files] => always;
    "h21-always-that-cannot-be-saved" on HTTP [H21] needs [Process, Script, Files] => always_unsaved;
    "h21-deny-with-a-reason" on HTTP [H21, H14] needs [Process, Script] => deny_with_reason;
    "h21-plan-mode-changes-nothing" on HTTP [H21] needs [Process, Script] => plan_mode;
}

/// A run that waits: its session, its stream and its request.
async fn asking(http: &Http) -> Outcome<(String, Events, String)> {
    let id = create(http).await?;
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": write("a.txt", "x")})).await?.want(202)?;
    let facts = events.until("permission_request").await?;
    let request = facts.last().map(|fact| fact.data.text("/request_id")).transpose()?.unwrap_or_default();
    Ok((id, events, request))
}

fn path(id: &str, request: &str) -> String {
    format!("/v1/sessions/{id}/permissions/{request}")
}

async fn listed(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    let pending = http.get(&format!("/v1/sessions/{id}/permissions")).await?.want(200)?;
    let ids: Vec<String> =
        pending.list("/permissions")?.iter().map(|one| one.text("/request_id")).collect::<Outcome<_>>()?;
    expect_eq!(ids, std::slice::from_ref(&request), "the pending requests");
    let view = get(&http, &id).await?;
    expect_eq!("H08": view.list("/permissions")?, pending.list("/permissions")?, "the session's own list");
    let all = http.get("/v1/permissions").await?.want(200)?;
    expect_eq!(all.text("/permissions/0/session")?, id, "the node's list");
    http.post(&path(&id, &request), &json!({"allow": true})).await?.want(204)?;
    events.until("final").await?;
    for list in [format!("/v1/sessions/{id}/permissions"), "/v1/permissions".to_owned()] {
        expect_eq!(http.get(&list).await?.want(200)?, json!({"permissions": []}), "{list} after the answer");
    }
    Ok(())
}

async fn waits(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, events, request) = asking(&http).await?;
    drop(events);
    let pending = http.get(&format!("/v1/sessions/{id}/permissions")).await?.want(200)?;
    expect_eq!(pending.text("/permissions/0/request_id")?, request, "the request after its reader went");
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;
    http.post(&path(&id, &request), &json!({"allow": true})).await?.want(204)?;
    events.until("final").await?;
    expect!(ctx.work().join("a.txt").exists(), "the tool did not run");
    Ok(())
}

async fn second_answer(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    http.post(&path(&id, &request), &json!({"allow": true})).await?.want(204)?;
    http.post(&path(&id, &request), &json!({"allow": false})).await?.fails(404, "not_found")?;
    let facts = events.until("final").await?;
    let outcomes: Vec<String> = facts
        .iter()
        .filter(|fact| fact.kind == "permission_resolved")
        .map(|fact| fact.data.text("/outcome"))
        .collect::<Outcome<_>>()?;
    expect_eq!(outcomes, ["allowed"], "`permission_resolved`");
    Ok(())
}

async fn one_wins(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    let place = path(&id, &request);
    let bodies = [json!({"allow": true}), json!({"allow": false})];
    let asks = (0..10).zip(bodies.iter().cycle()).map(|(_, body)| http.post(&place, body));
    let mut statuses = Vec::new();
    for answer in futures_util::future::join_all(asks).await {
        statuses.push(answer?.status);
    }
    let winner = statuses.iter().position(|status| *status == 204);
    statuses.sort_unstable();
    expect_eq!(
        statuses,
        std::iter::once(204).chain(std::iter::repeat_n(404, 9)).collect::<Vec<u16>>(),
        "ten answers at once"
    );
    let facts = events.until("permission_resolved").await?;
    let outcome = facts.last().map(|fact| fact.data.text("/outcome")).transpose()?;
    let want = if winner.is_some_and(|at| at % 2 == 0) { "allowed" } else { "denied" };
    expect_eq!(outcome.as_deref(), Some(want), "the outcome is the winner's");
    events.until("final").await.map(drop)
}

async fn bad_answers(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, _events, request) = asking(&http).await?;
    let other = create(&http).await?;
    http.post(&path(&other, &request), &json!({"allow": true})).await?.fails(404, "not_found")?;
    http.post(&path(&id, "nonsense"), &json!({"allow": true})).await?.fails(404, "not_found")?;
    for body in [json!({}), json!({"allow": "yes"}), json!({"allow": null}), json!({"allow": true, "always": 1})] {
        http.post(&path(&id, &request), &body).await?.fails(400, "invalid_params")?;
    }
    let pending = http.get(&format!("/v1/sessions/{id}/permissions")).await?.want(200)?;
    expect_eq!(pending.text("/permissions/0/request_id")?, request, "the request after bad answers");
    Ok(())
}

async fn always(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    let answer = http.post(&path(&id, &request), &json!({"allow": true, "always": true})).await?.want(200)?;
    expect_eq!(answer, json!({"allowed": true, "persisted": true}), "the answer to `always`");
    events.until("final").await?;
    let rules = ctx.work().join(".triplane").join("permissions.toml");
    let text = std::fs::read_to_string(&rules).map_err(|err| Stop::broke(format!("no rule was saved: {err}")))?;
    expect!(text.contains("write"), "the rule does not name the tool: {text}");
    // It holds for the next call, and after a restart.
    for round in 0..2 {
        if round == 1 {
            on.server()?.kill().await?;
            on = ctx.serve().await?;
        }
        let http = on.http()?;
        let id = create(&http).await?;
        let answer = super::wait(&http, &id, &write("a.txt", &format!("y{round}"))).await?;
        expect_eq!(answer.text("/stopped_reason")?, "completed", "round {}: a call that a rule allows", round);
        let stored = std::fs::read_to_string(ctx.work().join("a.txt")).unwrap_or_default();
        expect_eq!(stored, format!("y{round}"), "round {}: the file", round);
    }
    Ok(())
}

async fn always_unsaved(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    // A directory stands where the rules' file should be, so that saving fails whoever runs this.
    let rules = ctx.work().join(".triplane").join("permissions.toml");
    std::fs::create_dir_all(rules.join("x")).map_err(Stop::harness)?;
    let answer = http.post(&path(&id, &request), &json!({"allow": true, "always": true})).await?.want(200)?;
    expect_eq!(
        (answer.flag("/allowed")?, answer.flag("/persisted")?),
        (true, false),
        "the answer to `always`: {answer}"
    );
    expect!(!answer.text("/error")?.is_empty(), "no error in {answer}");
    events.until("final").await?;
    expect!(ctx.work().join("a.txt").exists(), "the call was allowed, saved or not");
    Ok(())
}

async fn deny_with_reason(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (id, mut events, request) = asking(&http).await?;
    http.post(&path(&id, &request), &json!({"allow": false, "reason": "not on a Monday"})).await?.want(204)?;
    let facts = events.until("final").await?;
    let resolved =
        facts.iter().find(|fact| fact.kind == "permission_resolved").map(|fact| fact.data.clone()).unwrap_or_default();
    expect_eq!("H14": resolved.text("/outcome")?, "denied", "the outcome of a refusal");
    expect_eq!(resolved.get("reason").and_then(Value::as_str), Some("not on a Monday"), "the reason in {resolved}");
    Ok(())
}

async fn plan_mode(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = http.post("/v1/sessions", &json!({"mode": "plan"})).await?.want(201)?.text("/id")?;
    super::wait(&http, &id, &write("a.txt", "x")).await?;
    expect!(!ctx.work().join("a.txt").exists(), "a tool changed a file in plan mode");
    Ok(())
}
