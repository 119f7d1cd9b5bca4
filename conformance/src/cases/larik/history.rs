//! A history as a whole: forked, compacted, taken back, emptied. Clauses: H11, H12, H22.

use super::{Bag, pairs};
use crate::{
    cases,
    cases::{FOREVER, HTTP, write},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::json;

cases! {
    "h12-fork-keeps-everything" on HTTP [H12] needs [Script] => fork;
    "h12-fork-at-a-prompt" on HTTP [H12] needs [Script] => fork_at;
    "h12-fork-refuses-what-is-no-prompt" on HTTP [H12, C04] needs [Script] => fork_refuses;
    "h22-undo-takes-back-a-prompt-and-its-files" on HTTP [H22, H11] needs [Script, Process] => undo;
    "h22-undo-skips-what-changed-meanwhile" on HTTP [H22] needs [Script, Process] => undo_skips;
    "h22-undo-of-nothing-is-invalid" on HTTP [H22] => undo_nothing;
    "h22-clear-empties-and-is-shown" on HTTP [H22, H11] needs [Script] => clear;
    "h22-compact-summarises-and-is-shown" on HTTP [H22, H11] needs [Script] => compact;
    "h22-busy-is-409" on HTTP [H22, H18, H12] needs [Script] => busy;
    "h22-all-of-it-survives-a-reload" on HTTP [H22, H11] needs [Script] => survives;
}

const TWO: &[(&str, &str)] = &[("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two")];

async fn two(ctx: &mut Ctx) -> Outcome<(crate::ctx::On, Bag)> {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for text in ["one", "two"] {
        bag.run(text).await?;
    }
    Ok((on, bag))
}

async fn fork(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    let made = bag.post("/fork", &json!({}), 201).await?;
    let branch = Bag { http: bag.http.clone(), id: made.text("/id")? };
    expect!(branch.id != bag.id, "the fork has its parent's id");
    expect!(made.flag("/loaded")?, "a fork that is not loaded: {made}");
    expect!(made.get("prompt").is_none(), "a fork of everything stops before a prompt: {made}");
    expect_eq!(branch.said().await?, pairs(TWO), "the fork's history");
    branch.run("three").await?;
    expect_eq!(branch.said().await?.len(), 6, "the fork's messages after a prompt");
    expect_eq!(bag.said().await?, pairs(TWO), "the parent's history");
    Ok(())
}

async fn fork_at(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    for (at, prompt, kept) in [(0, "one", 0), (2, "two", 2)] {
        let made = bag.post("/fork", &json!({"at": at}), 201).await?;
        expect_eq!(made.text("/prompt")?, prompt, "the prompt that a fork at {at} stops before");
        let branch = Bag { http: bag.http.clone(), id: made.text("/id")? };
        let want: Vec<_> = pairs(TWO).into_iter().take(kept).collect();
        expect_eq!(branch.said().await?, want, "the history of a fork at {at}");
    }
    Ok(())
}

async fn fork_refuses(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    for at in [json!(1), json!(3), json!(4), json!(1_000_000), json!(-1), json!("0"), json!(0.5)] {
        let message = bag.http.post(&bag.path("/fork"), &json!({"at": at})).await?.fails(400, "invalid_params")?;
        expect!("C04": message.contains("at"), "`at` is not named: {message}");
    }
    let listed = bag.http.get("/v1/sessions").await?.want(200)?;
    expect_eq!(listed.list("/sessions")?.len(), 1, "sessions after forks that were refused");
    Ok(())
}

async fn undo(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve_bypass().await?;
    let bag = Bag::create(&on).await?;
    let (made, changed) = (ctx.work().join("made.txt"), ctx.work().join("changed.txt"));
    std::fs::write(&changed, "before").map_err(Stop::harness)?;
    bag.run("one").await?;
    let script = format!("{}\n{}", write("made.txt", "x"), write("changed.txt", "after"));
    bag.run(&script).await?;
    expect_eq!(std::fs::read_to_string(&changed).unwrap_or_default(), "after", "the file after the run");
    let undone = bag.post("/undo", &json!({}), 200).await?;
    expect_eq!(undone.text("/prompt")?, script, "the prompt that was taken back");
    expect_eq!((undone.list("/restored")?.len(), undone.list("/skipped")?.len()), (2, 0), "files: {undone}");
    expect!(!made.exists(), "a file that the run made is still there");
    expect_eq!(std::fs::read_to_string(&changed).unwrap_or_default(), "before", "a file that the run changed");
    expect_eq!("H11": bag.said().await?, pairs(&[("user", "one"), ("assistant", "one")]), "the history");
    let undone = bag.post("/undo", &json!({}), 200).await?;
    expect_eq!(undone.text("/prompt")?, "one", "the prompt before");
    expect_eq!("H11": bag.said().await?, vec![], "the history, all taken back");
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

async fn clear(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    expect_eq!(bag.post("/clear", &json!({}), 200).await?, json!({}), "the answer of clear");
    bag.run("three").await?;
    let mut want = pairs(TWO);
    want.extend(pairs(&[("system", "clear"), ("user", "three"), ("assistant", "three")]));
    expect_eq!("H11": bag.said().await?, want, "the transcript, with the clear where it happened");
    // What the model sees begins after it: a summary counts what is there to be summed up.
    bag.post("/compact", &json!({}), 200).await?;
    let told = bag.get("/messages").await?.to_string();
    expect!(told.contains("summary of 2 messages"), "the model still sees what was cleared: {told}");
    Ok(())
}

async fn compact(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    let mut live = bag.live().await?;
    let done = bag.post("/compact", &json!({}), 200).await?;
    expect!(done.int("/before_tokens")? > 0 && done.int("/after_tokens")? > 0, "tokens: {done}");
    let told = live.until("compaction").await?;
    let summary = told.last().map(|fact| fact.data.text("/summary")).transpose()?.unwrap_or_default();
    expect_eq!(summary, "summary of 4 messages", "the summary");
    let messages = bag.get("/messages").await?;
    let last = messages.list("/messages")?.last().cloned().unwrap_or_default();
    expect_eq!("H11": last.text("/parts/0/why")?, "compact", "the last message");
    expect_eq!("H11": last.text("/parts/0/summary")?, summary, "its summary");
    expect_eq!("H11": bag.said().await?.len(), 5, "messages: what was before stays in the transcript");
    bag.run("three").await?;
    Ok(())
}

async fn busy(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
    bag.start(FOREVER).await?;
    for (rest, body) in [
        ("/compact", json!({})),
        ("/undo", json!({})),
        ("/clear", json!({})),
        ("/fork", json!({})),
        ("/prompt", json!({"text": "x"})),
        ("/prompt", json!({"text": "x", "wait": true})),
    ] {
        bag.http.post(&bag.path(rest), &body).await?.fails(409, "busy")?;
    }
    expect!(bag.cancel().await?, "the run was gone");
    expect_eq!(bag.said().await?.len(), 5, "messages: two runs and a prompt that was cancelled");
    bag.post("/undo", &json!({}), 200).await?;
    expect_eq!(bag.said().await?, pairs(TWO), "the history");
    Ok(())
}

async fn survives(ctx: &mut Ctx) -> Outcome {
    let (_on, bag) = two(ctx).await?;
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
