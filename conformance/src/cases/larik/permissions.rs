//! Permission requests as objects: listed, answered by whoever is first, kept as rules, and outliving connections.
//! Clauses: H20, H21, H14.

use super::Bag;
use crate::{
    cases,
    cases::{HTTP, write},
    client::http::Events,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

cases! {
    "h20-pending-requests-are-listed" on HTTP [H20, H13] needs [Script, Process] => listed;
    "h20-a-request-survives-its-readers" on HTTP [H20, H15] needs [Script, Process] => survives;
    "h21-the-first-answer-wins" on HTTP [H21] needs [Script, Process] => first_wins;
    "h21-a-refusal-reaches-the-model" on HTTP [H21, H14] needs [Script, Process] => refusal;
    "h21-always-saves-a-rule" on HTTP [H21] needs [Script, Process] => always;
    "h21-always-refused-saves-a-rule" on HTTP [H21] needs [Script, Process] => always_refused;
    "h21-a-rule-that-cannot-be-saved-is-told" on HTTP [H21] needs [Script, Process] => unsaved;
    "h21-an-answer-to-nothing-is-404" on HTTP [H21, C04] => nothing;
}

/// Starts a run that asks for one permission.
async fn asking(bag: &Bag, file: &str) -> Outcome<(Events, Value)> {
    let mut live = bag.live().await?;
    bag.start(&write(file, "x")).await?;
    let asked = live.until("permission_request").await?;
    let request = asked.last().map(|fact| fact.data.clone()).unwrap_or_default();
    Ok((live, request))
}

async fn answer(bag: &Bag, request: &Value, body: &Value) -> Outcome<crate::client::http::Response> {
    bag.http.post(&bag.path(&format!("/permissions/{}", request.text("/request_id")?)), body).await
}

async fn listed(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (bag, other) = (Bag::create(&on).await?, Bag::create(&on).await?);
    let (_live, request) = asking(&bag, "a.txt").await?;
    let (_live, _) = asking(&other, "b.txt").await?;
    let pending = bag.get("/permissions").await?;
    let [one] = pending.list("/permissions")?.as_slice() else {
        return Err(Stop::broke(format!("one request is pending: {pending}")));
    };
    for member in ["request_id", "call_id", "tool", "title", "input", "options"] {
        expect_eq!(one.get(member), request.get(member), "`{member}`, beside the event's");
    }
    let all = bag.http.get("/v1/permissions").await?.want(200)?;
    let mut whose: Vec<String> =
        all.list("/permissions")?.iter().map(|one| one.text("/session")).collect::<Outcome<_>>()?;
    whose.sort();
    let mut want = vec![bag.id.clone(), other.id.clone()];
    want.sort();
    expect_eq!(whose, want, "the sessions of all pending requests");
    answer(&bag, &request, &json!({"allow": true})).await?.want(204)?;
    expect_eq!(bag.get("/permissions").await?, json!({"permissions": []}), "what is pending after the answer");
    Ok(())
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

async fn first_wins(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for round in 0..5 {
        let file = format!("{round}.txt");
        let (mut live, request) = asking(&bag, &file).await?;
        let asks = (0..8).map(|client| {
            let (bag, request) = (&bag, &request);
            async move { answer(bag, request, &json!({"allow": client % 2 == 0})).await.map(|told| (client, told)) }
        });
        let answers = try_join_all(asks).await?;
        let won: Vec<_> = answers.iter().filter(|(_, told)| told.status == 204).map(|(client, _)| *client).collect();
        let [winner] = won.as_slice() else {
            return Err(Stop::broke(format!("round {round}: {} of 8 answers were taken", won.len())));
        };
        for (_, late) in answers.iter().filter(|(client, _)| client != winner) {
            late.fails(404, "not_found")?;
        }
        let end = live.until("final").await?;
        let told: Vec<_> = end.iter().filter(|fact| fact.kind == "permission_resolved").collect();
        let outcome = told.first().map(|fact| fact.data.text("/outcome")).transpose()?;
        let want = if winner % 2 == 0 { "allowed" } else { "denied" };
        expect_eq!((told.len(), outcome.as_deref()), (1, Some(want)), "round {round}: the outcome that is told");
        expect_eq!(ctx.work().join(&file).exists(), winner % 2 == 0, "round {round}: whether the call ran");
    }
    Ok(())
}

async fn refusal(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (mut live, request) = asking(&bag, "a.txt").await?;
    answer(&bag, &request, &json!({"allow": false, "reason": "not on a Sunday"})).await?.want(204)?;
    let end = live.until("final").await?;
    let resolved = end.iter().find(|fact| fact.kind == "permission_resolved");
    let (outcome, reason) = resolved.map_or((None, None), |f| (f.data.get("outcome"), f.data.get("reason")));
    expect_eq!("H14": (outcome, reason), (Some(&json!("denied")), Some(&json!("not on a Sunday"))), "what is told");
    let call = end.iter().find(|fact| fact.kind == "tool_call_end").map(|fact| fact.data.clone()).unwrap_or_default();
    expect!(call.flag("/error")?, "a refused call is no failure: {call}");
    expect!(call.at("/output")?.to_string().contains("not on a Sunday"), "the model is not told why: {call}");
    expect!(!ctx.work().join("a.txt").exists(), "the call ran");
    Ok(())
}

async fn always(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (mut live, request) = asking(&bag, "a.txt").await?;
    let told = answer(&bag, &request, &json!({"allow": true, "always": true})).await?.want(200)?;
    expect_eq!(told, json!({"allowed": true, "persisted": true}), "the answer to `always`");
    live.until("final").await?;
    let rules = ctx.work().join(".triplane").join("permissions.toml");
    expect!(std::fs::read_to_string(&rules).is_ok_and(|text| text.contains("write")), "no rule in {rules:?}");
    // The same call asks no more, in this session and in the next.
    for again in [bag.clone(), Bag::create(&on).await?] {
        let run = again.run(&write("a.txt", "y")).await?;
        expect_eq!(run.text("/stopped_reason")?, "completed", "a call that a rule allows");
    }
    expect_eq!(std::fs::read_to_string(ctx.work().join("a.txt")).unwrap_or_default(), "y", "the file");
    // A call that is not like it does.
    let (_live, other) = asking(&bag, "b.txt").await?;
    answer(&bag, &other, &json!({"allow": false, "always": false})).await?.want(204)?;
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

async fn unsaved(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let (mut live, request) = asking(&bag, "a.txt").await?;
    // A directory stands where the rules would be written.
    let rules = ctx.work().join(".triplane").join("permissions.toml");
    std::fs::create_dir_all(rules.join("x")).map_err(Stop::harness)?;
    let told = answer(&bag, &request, &json!({"allow": true, "always": true})).await?.want(200)?;
    expect_eq!((told.flag("/allowed")?, told.flag("/persisted")?), (true, false), "allowed and persisted: {told}");
    expect!(!told.text("/error")?.is_empty(), "no error: {told}");
    live.until("final").await?;
    expect!(ctx.work().join("a.txt").exists(), "the allowed call did not run");
    Ok(())
}

async fn nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let path = bag.path("/permissions/nobody");
    bag.http.post(&path, &json!({"allow": true})).await?.fails(404, "not_found")?;
    for body in [json!({}), json!({"allow": "yes"}), json!({"allow": true, "always": 1})] {
        bag.http.post(&path, &body).await?.fails(400, "invalid_params")?;
    }
    Ok(())
}
