//! Sessions of other programs: listed, read, copied both ways, deleted, and never run without their agent.
//! Clauses: S06–S12, S16, S17, S28, S31.

use super::{create, prompt, row};
use crate::{
    cases,
    cases::STDIO,
    client::rpc::Rpc,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};

cases! {
    "s06-foreign-sessions-are-listed" on STDIO [S06, S17, S31] needs [Process, Files] => listed;
    "s07-foreign-sessions-are-read" on STDIO [S07, S08, S11, S12] needs [Process, Files] => read;
    "s10-conversion-to-a-foreign-store-and-back" on STDIO [S10, S09, S16, S28] needs [Process, Files, Script] => converted;
    "s07-one-id-in-two-stores-is-ambiguous" on STDIO [S07, S08, S16] needs [Process, Files, Script] => ambiguous;
    "s06-a-bad-store-costs-its-rows" on STDIO [S06, C15] needs [Process, Files, Script] => bad_store;
}

const ID: &str = "4dd32a1c-0a1f-4c6e-9d61-0d5f2b6c7a10";

/// Where the agent's sessions of the case's directory lie.
fn project(ctx: &Ctx) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let slug: String = ctx.work().to_string_lossy().chars().map(plain).collect();
    ctx.scratch("claude").join("projects").join(slug)
}

/// A session as Claude Code leaves it, with a line that nobody can read.
fn plant(ctx: &Ctx, id: &str) -> Outcome {
    let record = |at: u32, parent: Value, kind: &str, message: Value| {
        json!({
            "parentUuid": parent, "isSidechain": false, "type": kind, "uuid": format!("u{at}"), "cwd": ctx.work(),
            "timestamp": format!("2026-11-30T10:00:0{at}.000Z"), "sessionId": id, "version": "2.1.0", "message": message,
        })
    };
    let answer = |content: Value| {
        json!({"role": "assistant", "type": "message", "id": "msg_1", "model": "m", "content": [content],
            "usage": {"input_tokens": 3, "output_tokens": 2}})
    };
    let lines = [
        record(0, Value::Null, "user", json!({"role": "user", "content": "what is the word?"})),
        record(1, json!("u0"), "assistant", answer(json!({"type": "text", "text": "Let me look."}))),
        record(
            2,
            json!("u1"),
            "assistant",
            answer(json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "cat word"}})),
        ),
        record(
            3,
            json!("u2"),
            "user",
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "zebra"}]}),
        ),
        json!({"type": "custom-title", "customTitle": "The word", "sessionId": id}),
    ];
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.push_str("{\"type\": \"user\", cut off");
    let dir = project(ctx);
    fs::create_dir_all(&dir).map_err(Stop::harness)?;
    fs::write(dir.join(format!("{id}.jsonl")), text).map_err(Stop::harness)
}

async fn serve(ctx: &mut Ctx) -> Outcome<(crate::ctx::On, Rpc)> {
    let dir = ctx.scratch("claude").to_string_lossy().into_owned();
    let codex = ctx.scratch("codex").to_string_lossy().into_owned();
    let launch = ctx.launch().env("TRIPLANE_CLAUDE_DIR", &dir).env("SEPIA_CODEX_DIR", &codex);
    let mut on = ctx.start(&launch).await?;
    let rpc = on.stdio()?;
    Ok((on, rpc))
}

async fn listed(ctx: &mut Ctx) -> Outcome {
    plant(ctx, ID)?;
    let (_on, mut rpc) = serve(ctx).await?;
    let found = row(&mut rpc, ID).await?.ok_or_else(|| Stop::broke("the foreign session is not listed"))?;
    expect_eq!("S06": found.text("/agentId")?.as_str(), "claude", "its agent");
    expect_eq!("S06": found.text("/title")?.as_str(), "The word", "its title");
    expect_eq!("S06": found.get("cwd"), Some(&json!(ctx.work())), "its directory");
    expect!("S06": !found.flag("/live")? && !found.flag("/pending")?, "it is neither live nor pending: {found}");
    let patch = json!({"id": ID, "patch": {"title": "Mine", "pinned": true}});
    let patched = rpc.call("sessions.patch_meta", patch).await.of("S17")?;
    expect_eq!("S17": patched.text("/title")?.as_str(), "Mine", "the overlay's title");
    let again = row(&mut rpc, ID).await?.unwrap_or_default();
    expect!("S17": again.flag("/pinned")?, "the pin is not in the list: {again}");
    Ok(())
}

async fn read(ctx: &mut Ctx) -> Outcome {
    plant(ctx, ID)?;
    let (_on, mut rpc) = serve(ctx).await?;
    let whole = rpc.call("sessions.get", json!({"id": ID})).await.of("S07")?;
    let roles: Vec<String> = whole.list("/messages")?.iter().filter_map(|one| one.text("/role").ok()).collect();
    expect_eq!("S07": roles, ["user", "assistant", "tool"], "records of one message are one message");
    expect_eq!("S07": whole.at("/messages/1/parts/1/name")?, &json!("Bash"), "the call");
    expect_eq!("S07": whole.at("/messages/2/parts/0/output/0/text")?, &json!("zebra"), "the result");
    expect_eq!("S07": whole.at("/usage/input")?, &json!(3), "usage counts once a message");
    let named = rpc.call("sessions.export", json!({"id": ID, "agent": "claude"})).await.of("S08")?;
    expect_eq!("S08": named.at("/session/messages")?, whole.at("/messages")?, "the export");
    let summary = rpc.call("sessions.summary", json!({"id": ID})).await.of("S07")?;
    expect_eq!("S07": summary.int("/messageCount")?, 3, "messages of the summary");
    let page = rpc.call("sessions.history", json!({"id": ID, "limit": 2})).await.of("S11")?;
    expect_eq!("S11": page.list("/messages")?.len(), 2, "a page");
    let before = page.text("/before")?;
    let rest = rpc.call("sessions.history", json!({"id": ID, "limit": 2, "before": before})).await.of("S11")?;
    expect_eq!("S11": rest.list("/messages")?.len(), 1, "the page before");
    let attached = rpc.call("sessions.attach", json!({"id": ID})).await.of("S12")?;
    expect!("S12": attached.flag("/readOnly")?, "its agent cannot run it here: {attached}");
    rpc.fails("sessions.prompt", prompt(ID, "more"), "not_found").await.of("S15")?;
    rpc.fails("sessions.get", json!({"id": ID, "agent": "nobody"}), "unknown_agent").await.of("S28")?;
    Ok(())
}

async fn converted(ctx: &mut Ctx) -> Outcome {
    let (_on, mut rpc) = serve(ctx).await?;
    let id = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "hello")).await?;
    let copy = rpc.call("sessions.convert", json!({"id": id, "agent": "claude"})).await.of("S10")?;
    expect_eq!("S10": copy.text("/agentId")?.as_str(), "claude", "whose store has the copy");
    expect!("S10": !copy.list("/lost")?.is_empty(), "the mode has no place there, and that is not told: {copy}");
    let there = copy.text("/sessionId")?;
    expect!("S10": project(ctx).join(format!("{there}.jsonl")).is_file(), "the copy is not where the agent looks");
    let own = row(&mut rpc, &id).await?.unwrap_or_default().text("/agentId")?;
    let back = rpc.call("sessions.convert", json!({"id": there, "agent": own, "from": "claude"})).await.of("S10")?;
    expect!("S10": back.get("lost").is_none(), "nothing is lost on the way back: {back}");
    let said = |whole: &Value| -> Outcome<Vec<Value>> {
        Ok(whole
            .list("/messages")?
            .iter()
            .map(|one| json!([one.get("role"), one.get("parts"), one.get("at")]))
            .collect())
    };
    let first = rpc.call("sessions.get", json!({"id": id})).await?;
    let second = rpc.call("sessions.get", json!({"id": back.text("/sessionId")?})).await?;
    expect_eq!("S10": said(&second)?, said(&first)?, "the messages, there and back");
    let session = first.clone();
    let taken = json!({"agent": "claude", "session": session, "id": there});
    let error = rpc.fails("sessions.import", taken, "invalid").await.of("S28")?;
    expect!("S28": error.cause.is_some(), "the store's own message is not told: {error:?}");
    rpc.fails("sessions.import", json!({"agent": "claude", "session": session, "id": "mine"}), "invalid")
        .await
        .of("S28")?;
    rpc.call("sessions.delete", json!({"id": there})).await.of("S16")?;
    expect!("S16": !project(ctx).join(format!("{there}.jsonl")).exists(), "the file of a deleted session is there");
    rpc.fails("sessions.get", json!({"id": there}), "not_found").await.of("S16")?;
    Ok(())
}

async fn ambiguous(ctx: &mut Ctx) -> Outcome {
    plant(ctx, ID)?;
    let (_on, mut rpc) = serve(ctx).await?;
    let made = create(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&made, "hello")).await?;
    let own = row(&mut rpc, &made).await?.unwrap_or_default().text("/agentId")?;
    rpc.call("sessions.convert", json!({"id": made, "agent": own})).await?;
    let session = rpc.call("sessions.get", json!({"id": made})).await?;
    rpc.call("sessions.import", json!({"agent": own, "session": session, "id": ID})).await?;
    for method in ["sessions.get", "sessions.summary", "sessions.history", "sessions.attach", "sessions.delete"] {
        rpc.fails(method, json!({"id": ID}), "ambiguous").await.of("S07")?;
    }
    let theirs = rpc.call("sessions.get", json!({"id": ID, "agent": "claude"})).await.of("S07")?;
    let ours = rpc.call("sessions.get", json!({"id": ID, "agent": own})).await.of("S07")?;
    expect_eq!("S07": theirs.list("/messages")?.len(), 3, "the foreign one");
    expect_eq!("S07": ours.get("messages"), session.get("messages"), "the own one");
    rpc.call("sessions.delete", json!({"id": ID, "agent": "claude"})).await.of("S16")?;
    rpc.call("sessions.get", json!({"id": ID})).await.of("S16")?;
    Ok(())
}

async fn bad_store(ctx: &mut Ctx) -> Outcome {
    let projects = ctx.scratch("claude").join("projects");
    fs::create_dir_all(projects.join("x").join("a-directory.jsonl")).map_err(Stop::harness)?;
    fs::write(projects.join("x").join("empty.jsonl"), "").map_err(Stop::harness)?;
    fs::write(projects.join("x").join("noise.jsonl"), [0xff, 0xfe, b'\n', b'{']).map_err(Stop::harness)?;
    let home = ctx.scratch("codex");
    fs::create_dir_all(&home).map_err(Stop::harness)?;
    fs::write(home.join("sessions"), "no directory").map_err(Stop::harness)?;
    plant(ctx, ID)?;
    let (_on, mut rpc) = serve(ctx).await?;
    let made = create(&mut rpc, ctx).await?;
    let listed = rpc.call("sessions.list", json!({})).await.of("S06")?;
    let mut ids: Vec<String> = listed.list("/sessions")?.iter().filter_map(|row| row.text("/id").ok()).collect();
    ids.sort();
    let mut wanted = vec![ID.to_owned(), made];
    wanted.sort();
    expect_eq!("S06": ids, wanted, "the sessions that can be read");
    Ok(())
}
