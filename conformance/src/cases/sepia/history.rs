//! The history in pages, and the whole session. Clauses: S07, S11.

use super::{create, prompt};
use crate::{
    cases,
    cases::STDIO,
    client::{front::text_of, rpc::Rpc},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::{Value, json};

cases! {
    "s07-get-and-summary" on STDIO [S07] needs [Script] => get_and_summary;
    "s07-stored-sessions-are-read-too" on STDIO [S07] needs [Script] => stored;
    "s11-pages-newest-first" on STDIO [S11] needs [Script] => pages;
    "s11-limit-is-capped" on STDIO [S11, S04] needs [Process, Script] => capped;
    "s11-bad-pages" on STDIO [S11, C04] needs [Script] => bad_pages;
}

/// A session with three prompts.
async fn three(rpc: &mut Rpc, ctx: &Ctx) -> Outcome<String> {
    let id = create(rpc, ctx).await?;
    for text in ["one", "two", "three"] {
        rpc.call("sessions.prompt", prompt(&id, text)).await?;
    }
    Ok(id)
}

async fn get_and_summary(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = three(&mut rpc, ctx).await?;
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!((whole.text("/id")?, whole.int("/version")?), (id.clone(), 1), "id and version");
    let texts: Vec<String> = whole.list("/messages")?.iter().map(text_of).collect();
    expect_eq!(texts, ["one", "one", "two", "two", "three", "three"], "the messages");
    let summary = rpc.call("sessions.summary", json!({"id": id})).await?;
    expect_eq!(summary.int("/messageCount")?, 6, "`messageCount`");
    expect_eq!(summary.get("messages"), None, "messages in a summary");
    expect_eq!(summary.text("/id")?, id, "the id in a summary");
    Ok(())
}

async fn stored(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = three(&mut rpc, ctx).await?;
    let live = rpc.call("sessions.get", json!({"id": id})).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let stored = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(stored.get("messages"), live.get("messages"), "the messages, live and stored");
    expect_eq!(rpc.call("sessions.summary", json!({"id": id})).await?.int("/messageCount")?, 6, "`messageCount`");
    rpc.fails("sessions.get", json!({"id": id, "agent": "nobody"}), "unknown_agent").await?;
    Ok(())
}

async fn pages(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = three(&mut rpc, ctx).await?;
    let (mut pages, mut before): (Vec<Vec<String>>, Value) = (Vec::new(), Value::Null);
    for _ in 0..10 {
        let mut params = json!({"id": id, "limit": 4});
        if let (Some(object), false) = (params.as_object_mut(), before.is_null()) {
            object.insert("before".to_owned(), before.clone());
        }
        let page = rpc.call("sessions.history", params).await?;
        pages.push(page.list("/messages")?.iter().map(text_of).collect());
        before = page.at("/before")?.clone();
        if before.is_null() {
            break;
        }
    }
    let want = vec![vec!["two", "two", "three", "three"], vec!["one", "one"]];
    expect_eq!(pages, want, "the pages, newest first, oldest first within one");
    let whole = rpc.call("sessions.history", json!({"id": id})).await?;
    expect_eq!((whole.list("/messages")?.len(), whole.at("/before")?), (6, &Value::Null), "one page of everything");
    Ok(())
}

async fn capped(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--history-limit", "2"]);
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let id = three(&mut rpc, ctx).await?;
    for params in [json!({"id": id}), json!({"id": id, "limit": 100}), json!({"id": id, "limit": 4_000_000_000_u64})] {
        let page = rpc.call("sessions.history", params.clone()).await?;
        expect_eq!(page.list("/messages")?.len(), 2, "messages of a page with {params} and a cap of 2");
        expect!(!page.at("/before")?.is_null(), "the next page is not told");
    }
    Ok(())
}

async fn bad_pages(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = three(&mut rpc, ctx).await?;
    for params in [json!({"limit": -1}), json!({"limit": "x"}), json!({"limit": 1.5}), json!({"before": 1})] {
        let mut params = params;
        if let Some(object) = params.as_object_mut() {
            object.insert("id".to_owned(), json!(id));
        }
        rpc.fails("sessions.history", params, "invalid_params").await?;
    }
    let reply = rpc.ask("sessions.history", json!({"id": id, "before": "nonsense"})).await?;
    let code = reply.result.as_ref().err().and_then(|error| error.code.clone());
    expect!(matches!(code.as_deref(), Some("not_found" | "invalid_params")), "`before` of no message → {}", reply.text);
    Ok(())
}
