//! History: messages, fork, compact, undo, clear. Clauses: H11, H12, H22. Rows may not be built yet; a case on one that says
//! so is skipped.

use super::{create, wait};
use crate::{
    cases,
    cases::{FOREVER, HTTP, write},
    client::{front::text_of, http::Http},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::{Value, json};

cases! {
    "h11-messages-are-the-transcript" on HTTP [H11] needs [Process, Script] => messages_are_whole;
    "h12-fork-at-a-prompt" on HTTP [H12] needs [Script] => fork_at;
    "h12-fork-elsewhere-is-400" on HTTP [H12] needs [Script] => fork_elsewhere;
    "h12-fork-of-everything" on HTTP [H12] needs [Script] => fork_all;
    "h22-undo-takes-back-a-prompt-and-its-files" on HTTP [H22] needs [Process, Script] => undo;
    "h22-clear-is-shown-where-it-happened" on HTTP [H22, H11] needs [Script] => clear;
    "h22-compact-summarises" on HTTP [H22, H11] needs [Script] => compact;
    "h22-busy-is-409" on HTTP [H22] needs [Script] => busy;
}

async fn messages(http: &Http, id: &str) -> Outcome<Vec<Value>> {
    http.get(&format!("/v1/sessions/{id}/messages")).await?.want(200)?.list("/messages").cloned()
}

fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().map(text_of).collect()
}

async fn messages_are_whole(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve_bypass().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, &format!("/think hm\n{}", write("a.txt", "x"))).await?;
    let all = messages(&http, &id).await?;
    let roles: Vec<String> = all.iter().map(|message| message.text("/role")).collect::<Outcome<_>>()?;
    expect_eq!(roles, ["user", "assistant", "tool", "assistant"], "the roles");
    let kinds: Vec<Vec<String>> = all
        .iter()
        .map(|message| message.list("/parts")?.iter().map(|part| part.text("/type")).collect())
        .collect::<Outcome<_>>()?;
    expect!(
        kinds.get(1).is_some_and(|kinds| kinds.contains(&"thinking".into()) && kinds.contains(&"call".into())),
        "parts: {kinds:?}"
    );
    expect_eq!(kinds.get(2).map(Vec::as_slice), Some(["result".to_owned()].as_slice()), "the tool's parts");
    let mut ids: Vec<String> = all.iter().map(|message| message.text("/id")).collect::<Outcome<_>>()?;
    ids.sort();
    ids.dedup();
    expect_eq!(ids.len(), all.len(), "ids that differ");
    Ok(())
}

async fn three(http: &Http) -> Outcome<String> {
    let id = create(http).await?;
    for text in ["one", "two", "three"] {
        wait(http, &id, text).await?;
    }
    Ok(id)
}

async fn fork_at(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = three(&http).await?;
    for (at, prompt) in [(0, "one"), (2, "two"), (4, "three")] {
        let fork = http.post(&format!("/v1/sessions/{id}/fork"), &json!({"at": at})).await?.want(201)?;
        expect_eq!(fork.text("/prompt")?, prompt, "the prompt at {at}");
        let forked = fork.text("/id")?;
        expect!(forked != id, "a fork has the id of its parent");
        expect_eq!(fork.flag("/loaded")?, true, "`loaded` of a fork");
        expect_eq!(messages(&http, &forked).await?.len(), at, "messages before {at}");
        let answer = wait(&http, &forked, "other").await?;
        expect_eq!(answer.text("/text")?, "other", "a prompt to the fork");
    }
    expect_eq!(texts(&messages(&http, &id).await?), ["one", "one", "two", "two", "three", "three"], "the parent");
    Ok(())
}

async fn fork_elsewhere(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = three(&http).await?;
    let path = format!("/v1/sessions/{id}/fork");
    let before = http.get("/v1/sessions").await?.want(200)?.list("/sessions")?.len();
    http.post(&path, &json!({"at": 1})).await?.fails(400, "invalid_params")?;
    for at in [json!(6), json!(-1), json!(1_000_000_000), json!(1.5), json!("0")] {
        http.post(&path, &json!({"at": at})).await?.fails(400, "invalid_params")?;
    }
    expect_eq!(
        http.get("/v1/sessions").await?.want(200)?.list("/sessions")?.len(),
        before,
        "sessions after refused forks"
    );
    Ok(())
}

async fn fork_all(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = three(&http).await?;
    let fork = http.post(&format!("/v1/sessions/{id}/fork"), &json!({})).await?.want(201)?;
    expect_eq!(fork.get("prompt"), None, "the prompt of a whole fork");
    let forked = fork.text("/id")?;
    expect_eq!(texts(&messages(&http, &forked).await?), texts(&messages(&http, &id).await?), "the fork's messages");
    Ok(())
}

async fn undo(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve_bypass().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let file = ctx.work().join("a.txt");
    wait(&http, &id, &write("a.txt", "one")).await?;
    let second = write("a.txt", "two");
    wait(&http, &id, &second).await?;
    let undone = http.post(&format!("/v1/sessions/{id}/undo"), &json!({})).await?.want(200)?;
    expect_eq!(undone.text("/prompt")?, second, "the prompt that was taken back");
    expect_eq!(std::fs::read_to_string(&file).unwrap_or_default(), "one", "the file after one undo");
    expect_eq!(messages(&http, &id).await?.len(), 4, "messages after one undo");
    http.post(&format!("/v1/sessions/{id}/undo"), &json!({})).await?.want(200)?;
    expect!(!file.exists(), "a file that the first prompt made is there after its undo");
    expect_eq!(messages(&http, &id).await?.len(), 0, "messages after two undos");
    http.post(&format!("/v1/sessions/{id}/undo"), &json!({})).await?.fails(422, "invalid")?;
    Ok(())
}

/// The indexes of messages with a boundary of this kind.
fn boundaries(messages: &[Value], why: &str) -> Vec<usize> {
    let is = |message: &Value| message.pointer("/parts/0/why").and_then(Value::as_str) == Some(why);
    messages.iter().enumerate().filter(|(_, message)| is(message)).map(|(at, _)| at).collect()
}

async fn clear(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    let path = format!("/v1/sessions/{id}/clear");
    expect_eq!(http.post(&path, &json!({})).await?.want(200)?, json!({}), "the answer to clear");
    wait(&http, &id, "two").await?;
    let all = messages(&http, &id).await?;
    expect_eq!("H11": boundaries(&all, "clear"), [2], "where the clear is shown: {all:?}");
    expect_eq!(all.len(), 5, "messages around a clear");
    Ok(())
}

async fn compact(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = three(&http).await?;
    let answer = http.post(&format!("/v1/sessions/{id}/compact"), &json!({})).await?.want(200)?;
    answer.int("/before_tokens")?;
    answer.int("/after_tokens")?;
    let all = messages(&http, &id).await?;
    let at = boundaries(&all, "compact");
    expect_eq!("H11": at.len(), 1, "compactions shown: {all:?}");
    let summary = at.first().and_then(|at| all.get(*at)).map(|message| message.text("/parts/0/summary")).transpose()?;
    expect!(summary.as_deref().is_some_and(|text| text.starts_with("summary of ")), "the summary: {summary:?}");
    expect_eq!(wait(&http, &id, "after").await?.text("/text")?, "after", "a prompt after a compaction");
    Ok(())
}

async fn busy(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": FOREVER})).await?.want(202)?;
    for verb in ["clear", "undo", "compact", "fork"] {
        http.post(&format!("/v1/sessions/{id}/{verb}"), &json!({})).await?.fails(409, "busy")?;
    }
    Ok(())
}
