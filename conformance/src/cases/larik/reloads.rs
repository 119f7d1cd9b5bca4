//! Unloading and loading, and what holds over it; sessions that run beside each other. Clauses: H09, H10, H16, H22, H25, C17.

use super::bag::{Bag, pairs};
use crate::{
    cases,
    cases::{FOREVER, HTTP, blame, write},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::json;

cases! {
    "h10-unload-and-reload-under-the-same-id" on HTTP [H10, H07, H13, H16] needs [Script] => reload;
    "c17-what-loads-a-stored-session-and-what-does-not" on HTTP [C17, H19, H20, H23] needs [Script] => loads;
    "h25-sessions-run-at-once" on HTTP [H25] needs [Script] => at_once;
    "h09-a-new-mode-holds-for-the-next-call" on HTTP [H09] needs [Script, Process] => patched_mode;
    "h09-patch-is-all-or-nothing" on HTTP [H09] => patch_or_nothing;
    "h22-all-of-it-survives-a-reload" on HTTP [H22, H11] needs [Script] => survives;
}

async fn reload(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.run("one").await?;
    bag.unload().await?;
    let mut seen = live.until("session_closed").await?;
    bag.http.post("/v1/sessions", &json!({"resume": bag.id})).await?.want(200)?;
    let run = bag.run("two").await?;
    expect_eq!(run.text("/text")?, "two", "the run after a reload");
    // The stream stayed open over it all, and its seqs go on by one.
    seen.extend(live.until_fact("the second `final`", |fact| fact.kind == "final").await?);
    let seqs: Vec<Option<u64>> = seen.iter().map(|fact| fact.seq).collect();
    let first = seqs.first().copied().flatten().unwrap_or_default();
    let want: Vec<Option<u64>> = (first..).take(seqs.len()).map(Some).collect();
    expect_eq!("H16": seqs, want, "seqs over an unload");
    let want = pairs(&[("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")]);
    expect_eq!(bag.said().await?, want, "the history");
    Ok(())
}

async fn loads(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    bag.run("one").await?;
    bag.unload().await?;
    // These say that there is nothing, and load nothing.
    expect!("H19": !bag.cancel().await?, "a cancel of a stored session says that there was a run");
    expect_eq!("H20": bag.get("/permissions").await?, json!({"permissions": []}), "its permissions");
    expect_eq!("H23": bag.get("/tasks").await?, json!({"tasks": []}), "its tasks");
    bag.live().await?;
    expect!(!bag.get("").await?.flag("/loaded")?, "a look has loaded it");
    // These load it.
    for (rest, body) in [
        ("/prompt", json!({"text": "two", "wait": true})),
        ("/undo", json!({})),
        ("/compact", json!({})),
        ("/clear", json!({})),
        ("/fork", json!({})),
    ] {
        let answer = bag.http.post(&bag.path(rest), &body).await?;
        expect!(answer.status < 300, "{answer} on a stored session");
        expect!(bag.get("").await?.flag("/loaded")?, "{rest} has not loaded it");
        bag.unload().await?;
    }
    bag.http.patch(&bag.path(""), &json!({"mode": "plan"})).await?.want(200)?;
    expect!(bag.get("").await?.flag("/loaded")?, "PATCH has not loaded it");
    Ok(())
}

async fn at_once(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (first, second) = (Bag::create(&on).await?, Bag::create(&on).await?);
    first.start(FOREVER).await?;
    let run = blame(second.run("meanwhile").await, "H25")?;
    expect_eq!(run.text("/text")?, "meanwhile", "a run beside another session's");
    expect!(first.get("").await?.flag("/busy")?, "the first run is over");
    expect!(first.cancel().await?, "the first run could not be cancelled");
    Ok(())
}

async fn patched_mode(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.http.patch(&bag.path(""), &json!({"mode": "plan"})).await?.want(200)?;
    bag.run(&write("a.txt", "x")).await?;
    expect!(!ctx.work().join("a.txt").exists(), "plan mode changed a file");
    bag.http.patch(&bag.path(""), &json!({"mode": "bypass"})).await?.want(200)?;
    bag.run(&write("a.txt", "x")).await?;
    expect!(ctx.work().join("a.txt").exists(), "bypass mode did not write");
    // In the middle of a run: the second call of it is decided by the mode of that moment.
    bag.http.patch(&bag.path(""), &json!({"mode": "default"})).await?.want(200)?;
    bag.start(&format!("{}\n{}", write("b.txt", "x"), write("c.txt", "x"))).await?;
    let asked = live.until("permission_request").await?;
    bag.http.patch(&bag.path(""), &json!({"mode": "bypass"})).await?.want(200)?;
    let request = asked.last().map(|fact| fact.data.text("/request_id")).transpose()?.unwrap_or_default();
    bag.post(&format!("/permissions/{request}"), &json!({"allow": true}), 204).await.of("H21")?;
    let rest = live.until("final").await?;
    let calls = rest.iter().filter(|fact| fact.kind == "tool_call_end").count();
    expect!(calls >= 1 && ctx.work().join("b.txt").exists(), "the allowed call did not run");
    Ok(())
}

async fn patch_or_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let before = bag.get("").await?;
    for (body, field) in [
        (json!({"mode": "plan", "effort": "loud"}), "effort"),
        (json!({"effort": "high", "mode": "yolo"}), "mode"),
        (json!({"mode": "plan", "model": "nobody/nothing"}), "model"),
        (json!({"mode": "plan", "title": 7}), "title"),
    ] {
        let message = bag.http.patch(&bag.path(""), &body).await?.fails(400, "invalid_params")?;
        expect!("C04": message.contains(field), "{field} is not named: {message}");
        expect_eq!(bag.get("").await?, before, "the session after {body}");
    }
    expect_eq!(bag.http.patch(&bag.path(""), &json!({})).await?.want(200)?, before, "after an empty PATCH");
    Ok(())
}

async fn survives(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for text in ["one", "two"] {
        bag.run(text).await?;
    }
    bag.post("/undo", &json!({}), 200).await?;
    bag.post("/clear", &json!({}), 200).await?;
    bag.run("three").await?;
    bag.post("/compact", &json!({}), 200).await?;
    let before = bag.get("/messages").await?;
    bag.unload().await?;
    expect_eq!("H11": bag.get("/messages").await?, before, "the transcript, unloaded");
    bag.run("four").await?;
    let after = bag.said().await?;
    let kinds: Vec<&str> = after.iter().map(|(role, _)| role.as_str()).collect();
    let want = ["user", "assistant", "system", "user", "assistant", "system", "user", "assistant"];
    expect_eq!("H11": kinds, want, "roles after a reload");
    Ok(())
}
