//! Prompts and cancels. Clauses: H18, H19.

use super::{create, get, wait};
use crate::{
    cases,
    cases::{FOREVER, HTTP, say_after},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::{Value, json};

cases! {
    "h18-prompt-is-202-at-once" on HTTP [H18] needs [Script] => accepted;
    "h18-busy-is-409" on HTTP [H18, C03] needs [Script] => busy;
    "h18-wait-gives-the-answer" on HTTP [H18] needs [Script] => waits;
    "h18-a-failed-run-is-200" on HTTP [H18] needs [Script] => failed;
    "h18-one-of-many-prompts-wins" on HTTP [H18, C05] needs [Script] => one_wins;
    "h18-empty-text-is-refused" on HTTP [H18, C04] => empty_text;
    "h18-a-waiting-prompt-tells-of-a-cancel" on HTTP [H18, H19] needs [Script] => wait_cancelled;
    "h19-cancel-of-nothing" on HTTP [H19] => cancel_nothing;
    "h19-cancel-never-reaches-a-later-run" on HTTP [H19] needs [Script] => cancel_is_not_for_later;
}

fn path(id: &str) -> String {
    format!("/v1/sessions/{id}/prompt")
}

async fn accepted(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;
    let answer = http.post(&path(&id), &json!({"text": say_after(200, "x")})).await?.want(202)?;
    expect!(!answer.text("/run_id")?.is_empty(), "an empty run id");
    let first = events.fact().await?;
    expect_eq!(first.seq, answer.int("/seq")?.try_into().ok(), "`seq` of the answer and of the run's first event");
    let last = events.until("final").await?;
    let run = last.last().map(|fact| fact.data.text("/run_id")).transpose()?;
    expect_eq!(run, Some(answer.text("/run_id")?), "the run's id in `final`");
    Ok(())
}

async fn busy(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    http.post(&path(&id), &json!({"text": FOREVER})).await?.want(202)?;
    http.post(&path(&id), &json!({"text": "x"})).await?.fails(409, "busy")?;
    http.post(&path(&id), &json!({"text": "x", "wait": true})).await?.fails(409, "busy")?;
    expect_eq!(get(&http, &id).await?.flag("/busy")?, true, "`busy`");
    http.post(&format!("/v1/sessions/{id}/cancel"), &json!({})).await?.want(200)?;
    Ok(())
}

async fn waits(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let answer = wait(&http, &id, "hello world").await?;
    expect_eq!(
        (answer.text("/text")?.as_str(), answer.text("/stopped_reason")?.as_str()),
        ("hello world", "completed"),
        "the answer"
    );
    expect_eq!(answer.int("/turns_used")?, 1, "turns");
    expect!(answer.int("/usage/output")? > 0, "usage: {answer}");
    expect_eq!(get(&http, &id).await?.flag("/busy")?, false, "`busy` when the answer is in hand");
    Ok(())
}

async fn failed(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let answer = wait(&http, &id, "/fail unavailable").await?;
    expect_eq!(answer.text("/stopped_reason")?, "error", "the stopped reason");
    expect!(
        !answer.text("/error/message")?.is_empty() && !answer.text("/error/code")?.is_empty(),
        "no error in {answer}"
    );
    expect_eq!(wait(&http, &id, "after").await?.text("/text")?, "after", "the next prompt");
    Ok(())
}

async fn one_wins(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let (prompt, body) = (path(&id), json!({"text": say_after(1000, "x")}));
    let asks = (0..50).map(|_| http.post(&prompt, &body));
    let mut statuses = Vec::new();
    for answer in futures_util::future::join_all(asks).await {
        statuses.push(answer?.status);
    }
    statuses.sort_unstable();
    let want: Vec<u16> = std::iter::once(202).chain(std::iter::repeat_n(409, 49)).collect();
    expect_eq!(statuses, want, "50 prompts at once");
    let mut events = http.events(&format!("/v1/sessions/{id}/events?after=0"), &[]).await?;
    let facts = events.until("final").await?;
    let said = facts.iter().filter(|fact| fact.kind == "user_message").count();
    expect_eq!(said, 1, "user messages of one run");
    Ok(())
}

async fn empty_text(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    http.post(&path(&id), &json!({"text": ""})).await?.fails(400, "invalid_params")?;
    expect_eq!(get(&http, &id).await?.flag("/busy")?, false, "`busy`");
    Ok(())
}

async fn wait_cancelled(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let http = on.http()?;
    let id = front.create_session().await?;
    let (prompt, body) = (path(&id), json!({"text": FOREVER, "wait": true}));
    let cancel = async {
        front.until(&id, "turn_start").await?;
        front.cancel(&id).await
    };
    let (answer, cancelled) = futures_util::join!(http.post(&prompt, &body), cancel);
    expect_eq!(cancelled?, true, "`cancelled`");
    expect_eq!(answer?.want(200)?.text("/stopped_reason")?, "aborted", "the answer of a prompt that was cancelled");
    Ok(())
}

async fn cancel_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let answer = http.post(&format!("/v1/sessions/{id}/cancel"), &json!({})).await?.want(200)?;
    expect_eq!(answer, json!({"cancelled": false}), "the cancel of an idle session");
    Ok(())
}

async fn cancel_is_not_for_later(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    for round in 0..20 {
        http.post(&format!("/v1/sessions/{id}/cancel"), &json!({})).await?.want(200)?;
        let answer: Value = wait(&http, &id, "later").await?;
        expect_eq!(answer.text("/stopped_reason")?, "completed", "round {}: a prompt after a cancel", round);
    }
    Ok(())
}
