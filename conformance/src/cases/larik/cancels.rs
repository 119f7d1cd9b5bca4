//! Cancels: which run they reach, what they answer, and a client that goes. Clauses: H19, C10.

use super::bag::Bag;
use crate::{
    cases,
    cases::{FOREVER, HTTP, say_after, write},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::json;

cases! {
    "h19-cancel-that-meets-the-end-spares-the-next-run" on HTTP [H19] needs [Script] => later;
    "h19-cancel-expires-what-was-asked" on HTTP [H19, H14, H20] needs [Script, Process] => expires;
    "h19-cancel-answers-after-the-end" on HTTP [H19] needs [Script] => after_the_end;
    "c10-abort-takes-only-its-own-run" on HTTP [C10, H19] needs [Script, Process] => abort;
}

async fn later(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for round in 0..20 {
        // However the two meet, the run after them is nobody's to cancel.
        let text = format!("round {round}");
        let (cancelled, answer) = tokio::join!(bag.cancel(), bag.run(&text));
        let (cancelled, answer) = (cancelled?, answer?);
        let aborted = answer.text("/stopped_reason")? == "aborted";
        expect!(cancelled || !aborted, "round {round}: an aborted run whose cancel says that there was none");
        let next = bag.run("next").await?;
        expect_eq!(next.text("/stopped_reason")?, "completed", "round {round}: the run after a cancel");
    }
    Ok(())
}

async fn expires(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.start(&write("a.txt", "x")).await?;
    let asked = live.until("permission_request").await?;
    let request = asked.last().map(|fact| fact.data.text("/request_id")).transpose()?.unwrap_or_default();
    expect!(bag.cancel().await?, "nothing was cancelled");
    let rest = live.until("final").await?;
    let told: Vec<_> = rest.iter().filter(|fact| fact.kind == "permission_resolved").collect();
    expect_eq!("H14": told.len(), 1, "`permission_resolved` after a cancel");
    for resolved in told {
        expect_eq!(resolved.data.text("/outcome")?, "expired", "its outcome");
        expect_eq!(resolved.data.text("/request_id")?, request, "whose outcome");
    }
    expect_eq!("H20": bag.get("/permissions").await?, json!({"permissions": []}), "what is pending");
    let late = bag.http.post(&bag.path(&format!("/permissions/{request}")), &json!({"allow": true})).await?;
    late.fails(404, "not_found")?;
    expect!(!ctx.work().join("a.txt").exists(), "the call ran");
    Ok(())
}

async fn after_the_end(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.start(FOREVER).await?;
    expect!(bag.cancel().await?, "nothing was cancelled");
    expect!(!bag.get("").await?.flag("/busy")?, "busy after the cancel's answer");
    expect!(!bag.cancel().await?, "a second cancel says that there was a run");
    bag.run("next").await?;
    Ok(())
}

async fn abort(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--on-disconnect", "abort"]);
    let on = ctx.start(&launch).await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    let mut conn = bag.http.conn().await?;
    let body = json!({"text": FOREVER, "wait": true}).to_string();
    let (path, addr, token) = (bag.path("/prompt"), bag.http.addr, &bag.http.token);
    let head = format!("POST {path} HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\n");
    conn.write(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    live.until("turn_start").await?;
    drop(conn);
    let end = live.until("final").await?;
    let stop = end.last().map(|fact| fact.data.text("/stopped_reason")).transpose()?;
    expect_eq!(stop.as_deref(), Some("aborted"), "the run whose client went");
    // A client that only started its run is no part of it.
    let run = bag.start(&say_after(300, "done")).await?;
    let end = live.until_fact("its `final`", |fact| fact.data.get("run_id") == run.get("run_id")).await?;
    let stop = end.last().map(|fact| fact.data.text("/stopped_reason")).transpose()?;
    expect_eq!("H19": stop.as_deref(), Some("completed"), "the run after it");
    Ok(())
}
