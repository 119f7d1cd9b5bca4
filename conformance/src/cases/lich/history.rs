//! Clear and resume: what a session remembers, and what stays on disk. Clauses: L07–L11. The rows may not be built yet; a case
//! on one that says so is skipped.

use crate::{
    cases,
    cases::WS,
    client::{Front, LichFront, rpc::Rpc},
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "l07-clear-keeps-the-bytes" on WS [L07] needs [Files, Script] => clear_keeps_bytes;
    "l07-clear-of-an-unknown-session" on WS [L07] => clear_unknown;
    "l08-resume-by-id-prefix-and-latest" on WS [L08, C13] needs [Script] => resume_names;
    "l08-resume-of-what-is-no-name" on WS [L08, C16] => resume_hostile;
    "l08-resume-of-nothing" on WS [L08] needs [Process] => resume_nothing;
    "l09-resume-forks-and-leaves-the-original" on WS [L09] needs [Files, Script] => resume_forks;
    "l09-trailing-user-messages-are-dropped" on WS [L09] needs [Process, Files, Script] => trailing_dropped;
    "l10-resume-again-after-a-restart" on WS [L10, L07] needs [Process, Files, Script] => resume_after_restart;
}

async fn start(ctx: &mut Ctx) -> Outcome<(On, LichFront, Rpc)> {
    let mut on = ctx.serve().await?;
    let dir = on.server.as_ref().map(crate::target::Server::session_dir);
    let front = LichFront::new(on.ws().await?, dir);
    let rpc = on.rpc().await?;
    Ok((on, front, rpc))
}

async fn resume(rpc: &mut Rpc, id: &str) -> Outcome<Value> {
    rpc.call("session.resume", json!({"id": id, "source": "conformance"})).await
}

async fn clear_keeps_bytes(ctx: &mut Ctx) -> Outcome {
    let (mut on, mut front, mut rpc) = start(ctx).await?;
    let id = front.create_session().await?;
    front.prompt(&id, "before").await?;
    let path = on.server()?.transcript(&id);
    let before = std::fs::read(&path).map_err(Stop::harness)?;
    let result = rpc.call("session.clear", json!({"session_id": id})).await?;
    expect_eq!(result, json!({"session_id": id}), "the clear's result");
    expect!(std::fs::read(&path).map_err(Stop::harness)? == before, "a clear touched the transcript");
    front.prompt(&id, "after").await?;
    let after = std::fs::read(&path).map_err(Stop::harness)?;
    expect!(after.starts_with(&before), "a prompt after a clear rewrote the transcript");
    let resumed = resume(&mut rpc, &id).await?;
    expect_eq!("L10": resumed.int("/message_count")?, 2, "messages that a resume sees after clear and one prompt");
    Ok(())
}

async fn clear_unknown(ctx: &mut Ctx) -> Outcome {
    let (_on, _front, mut rpc) = start(ctx).await?;
    let reply = rpc.ask("session.clear", json!({"session_id": "01890000-0000-7000-8000-000000000000"})).await?;
    if reply.result.as_ref().is_err_and(|error| error.code.as_deref() == Some("unsupported")) {
        return reply.ok().map(drop);
    }
    reply.fails("not_found").map(drop)
}

async fn resume_names(ctx: &mut Ctx) -> Outcome {
    let (_on, mut front, mut rpc) = start(ctx).await?;
    let (old, new) = (front.create_session().await?, front.create_session().await?);
    front.prompt(&new, "x").await?;
    front.prompt(&old, "x").await?;
    let whole = resume(&mut rpc, &new).await?;
    expect_eq!(whole.text("/resumed_id")?, new, "what a whole id resolves to");
    expect_eq!(whole.int("/message_count")?, 2, "messages");
    expect!(whole.text("/session_id")? != new, "a resume is bound to the original");
    let latest = resume(&mut rpc, "latest").await?;
    let known = [old.clone(), whole.text("/session_id")?];
    expect!("C13": known.contains(&latest.text("/resumed_id")?), "latest is {latest}, the last writes were to {known:?}");
    let shared = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let (common, own) = (old.get(..shared).unwrap_or_default(), old.get(..=shared).unwrap_or_default());
    rpc.fails("session.resume", json!({"id": common}), "ambiguous").await?;
    let by_prefix = rpc.ask("session.resume", json!({"id": own})).await?;
    // The forks may share the prefix: their ids are younger, but begin alike.
    match by_prefix.result {
        Ok(result) => expect_eq!(result.text("/resumed_id")?, old, "what a unique prefix resolves to"),
        Err(error) => expect_eq!(error.code.as_deref(), Some("ambiguous"), "a prefix: {}", error.message),
    }
    Ok(())
}

async fn resume_hostile(ctx: &mut Ctx) -> Outcome {
    let (_on, mut front, mut rpc) = start(ctx).await?;
    let id = front.create_session().await?;
    resume(&mut rpc, &id).await?;
    for id in ["", "..", "../x", "a/b", "a\\b", "a\0b", "/etc/passwd"] {
        rpc.fails("session.resume", json!({"id": id}), "invalid_params").await?;
    }
    for id in ["zzzz", "latest2", "01890000-0000-7000-8000-000000000000"] {
        rpc.fails("session.resume", json!({"id": id}), "not_found").await?;
    }
    Ok(())
}

async fn resume_nothing(ctx: &mut Ctx) -> Outcome {
    let (_on, _front, mut rpc) = start(ctx).await?;
    let reply = rpc.ask("session.resume", json!({"id": "latest"})).await?;
    if reply.result.as_ref().is_err_and(|error| error.code.as_deref() == Some("unsupported")) {
        return reply.ok().map(drop);
    }
    reply.fails("not_found").map(drop)
}

async fn resume_forks(ctx: &mut Ctx) -> Outcome {
    let (mut on, mut front, mut rpc) = start(ctx).await?;
    let id = front.create_session().await?;
    front.prompt(&id, "one").await?;
    let original = on.server()?.transcript(&id);
    let before = std::fs::read(&original).map_err(Stop::harness)?;
    let (first, second) = (resume(&mut rpc, &id).await?, resume(&mut rpc, &id).await?);
    let (first, second) = (first.text("/session_id")?, second.text("/session_id")?);
    expect!(first != second, "two resumes gave one fork");
    front.prompt(&first, "two").await?;
    expect!(std::fs::read(&original).map_err(Stop::harness)? == before, "the original was changed by a resume");
    let count = |messages: Vec<Value>| messages.len();
    expect_eq!("L10": count(front.messages(&first).await?), 4, "messages of the fork that was prompted");
    expect_eq!(count(front.messages(&second).await?), 2, "messages of the fork that was not");
    let header = std::fs::read_to_string(on.server()?.transcript(&first)).map_err(Stop::harness)?;
    let header: Value = serde_json::from_str(header.lines().next().unwrap_or_default())
        .map_err(|err| Stop::broke(format!("no header: {err}")))?;
    expect_eq!(header.text("/id")?, first, "the id in the fork's header");
    Ok(())
}

async fn trailing_dropped(ctx: &mut Ctx) -> Outcome {
    let (mut on, mut front, _rpc) = start(ctx).await?;
    let id = front.create_session().await?;
    front.prompt(&id, "one").await?;
    let path = on.server()?.transcript(&id);
    on.server()?.kill().await?;
    let mut text = std::fs::read_to_string(&path).map_err(Stop::harness)?;
    for n in 0..3 {
        text += &json!({"type": "message", "id": format!("u{n}"), "role": "user", "parts": [{"type": "text", "text": "trailing"}], "at": 1}).to_string();
        text.push('\n');
    }
    std::fs::write(&path, text).map_err(Stop::harness)?;
    let (_on, mut front, mut rpc) = start(ctx).await?;
    let resumed = resume(&mut rpc, &id).await?;
    expect_eq!(resumed.int("/message_count")?, 2, "messages without the trailing user messages");
    let fork = resumed.text("/session_id")?;
    let stored = front.messages(&fork).await?;
    expect_eq!(stored.len(), 2, "messages in the fork's transcript");
    expect_eq!(front.prompt(&fork, "next").await?.reply, "next", "the fork's next prompt");
    Ok(())
}

async fn resume_after_restart(ctx: &mut Ctx) -> Outcome {
    let (mut on, mut front, mut rpc) = start(ctx).await?;
    let id = front.create_session().await?;
    front.prompt(&id, "one").await?;
    let fork = resume(&mut rpc, &id).await?.text("/session_id")?;
    front.prompt(&fork, "two").await?;
    on.server()?.kill().await?;
    let (_on, mut front, mut rpc) = start(ctx).await?;
    let again = resume(&mut rpc, &fork).await?;
    expect_eq!(again.int("/message_count")?, 4, "messages of a fork that is resumed after a restart");
    let latest = resume(&mut rpc, "latest").await?;
    expect_eq!(latest.int("/message_count")?, 4, "messages of `latest`");
    front.prompt(&again.text("/session_id")?, "three").await?;
    Ok(())
}
