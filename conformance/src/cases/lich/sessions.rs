//! Sessions: create, list, where transcripts live, the cap on live bags. Clauses: L05, L06, L12, L24.

use crate::{
    cases,
    cases::{FOREVER, WS},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

cases! {
    "l05-create-makes-empty-transcript" on WS [L05, C16] needs [Files] => empty_transcript;
    "l05-create-burst" on WS [L05, L06, L13] needs [Files] => create_burst;
    "l05-label-may-be-absent-and-source-is-needed" on WS [L05, C04] => label_and_source;
    "l06-list-has-id-and-mtime" on WS [L06] => id_and_mtime;
    "l06-list-is-seen-by-every-socket" on WS [L06] => every_socket;
    "l06-list-of-nothing" on WS [L06] needs [Process] => list_of_nothing;
    "l06-list-after-a-restart" on WS [L06] needs [Process, Files] => after_restart;
    "l12-oldest-bag-is-evicted" on WS [L12] needs [Process, Script] => evicted;
    "l12-used-bags-stay" on WS [L12] needs [Process, Script] => used_bags_stay;
    "l12-busy-bags-stay" on WS [L12] needs [Process, Script] => busy_bags_stay;
    "l24-transcripts-below-the-work-dir" on WS [L24] needs [Process, Files, Script] => below_work_dir;
    "l24-session-dir-flag" on WS [L24] needs [Process, Files, Script] => session_dir_flag;
}

async fn empty_transcript(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = rpc.call("session.create", json!({"source": "conformance", "label": "x"})).await?.text("/session_id")?;
    let path = on.server()?.transcript(&id);
    let meta = std::fs::metadata(&path)
        .map_err(|err| Stop::broke(format!("no transcript after the reply: {}: {err}", path.display())))?;
    expect_eq!(meta.len(), 0, "bytes of the transcript of a session that was just made");
    expect_eq!("C16": format!("{:o}", meta.permissions().mode() & 0o777), "600", "its mode");
    Ok(())
}

async fn create_burst(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let mut sent = Vec::new();
    for _ in 0..20 {
        sent.push(rpc.send("session.create", json!({"source": "conformance"})).await?);
    }
    let mut ids = Vec::new();
    for id in sent {
        ids.push(rpc.reply(id).await?.ok()?.text("/session_id")?);
    }
    let made = ids.len();
    ids.sort();
    ids.dedup();
    expect_eq!(ids.len(), made, "ids that differ");
    let server = on.server()?;
    for id in &ids {
        expect!(server.transcript(id).exists(), "no transcript of {id}");
    }
    let listed = rpc.call("session.list", json!({})).await?;
    expect_eq!("L06": listed.list("/sessions")?.len(), made, "sessions in the list");
    Ok(())
}

async fn label_and_source(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    rpc.call("session.create", json!({"source": "conformance"})).await?;
    rpc.call("session.create", json!({"source": "conformance", "label": "é\u{1b}[31m"})).await?;
    rpc.fails("session.create", json!({"label": "x"}), "invalid_params").await?;
    Ok(())
}

async fn id_and_mtime(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let now =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let before = i64::try_from(now()).unwrap_or(0);
    let id = rpc.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let listed = rpc.call("session.list", json!({})).await?;
    let row = listed.list("/sessions")?.iter().find(|row| row.get("id") == Some(&json!(id)));
    let row = row.ok_or_else(|| Stop::broke(format!("{id} is not in {listed}")))?;
    let mtime = row.int("/mtime_ms")?;
    let after = i64::try_from(now()).unwrap_or(0);
    expect!((before - 2000..=after + 2000).contains(&mtime), "mtime_ms {mtime} is not between {before} and {after}");
    Ok(())
}

async fn every_socket(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (mut one, mut two) = (on.ws().await?, on.ws().await?);
    let id = one.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let listed = two.call("session.list", json!({})).await?.to_string();
    expect!(listed.contains(&id), "the other socket does not see {id}: {listed}");
    Ok(())
}

async fn list_of_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    expect_eq!(
        on.ws().await?.call("session.list", json!({})).await?,
        json!({"sessions": []}),
        "the list of a fresh directory"
    );
    Ok(())
}

async fn after_restart(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(rpc.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?);
    }
    let before = rpc.call("session.list", json!({})).await?;
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let after = on.ws().await?.call("session.list", json!({})).await?;
    expect_eq!(after.list("/sessions")?.len(), ids.len(), "sessions after a restart");
    expect_eq!(after, before, "the list after a restart");
    Ok(())
}

/// A server that keeps two bags.
async fn two_bags(ctx: &mut Ctx) -> Outcome<crate::ctx::On> {
    let launch = ctx.launch().args(["--max-session-bags", "2"]);
    ctx.start(&launch).await
}

async fn evicted(ctx: &mut Ctx) -> Outcome {
    let mut on = two_bags(ctx).await?;
    let mut front = on.front().await?;
    let (first, second, third) =
        (front.create_session().await?, front.create_session().await?, front.create_session().await?);
    let mut rpc = on.ws().await?;
    rpc.fails("prompt.submit", json!({"session_id": first, "text": "x"}), "not_found").await?;
    for kept in [&second, &third] {
        front.prompt(kept, "x").await?;
    }
    let listed = front.list().await?;
    expect!(listed.contains(&first), "the evicted transcript is not listed: {listed:?}");
    expect!(on.server()?.transcript(&first).exists(), "the evicted transcript is gone");
    Ok(())
}

async fn used_bags_stay(ctx: &mut Ctx) -> Outcome {
    let mut on = two_bags(ctx).await?;
    let mut front = on.front().await?;
    let (first, second) = (front.create_session().await?, front.create_session().await?);
    front.prompt(&first, "x").await?;
    let _third = front.create_session().await?;
    front.prompt(&first, "again").await?;
    let mut rpc = on.ws().await?;
    rpc.fails("prompt.submit", json!({"session_id": second, "text": "x"}), "not_found").await?;
    Ok(())
}

async fn busy_bags_stay(ctx: &mut Ctx) -> Outcome {
    let mut on = two_bags(ctx).await?;
    let mut front = on.front().await?;
    let busy = front.create_session().await?;
    front.start(&busy, FOREVER).await?;
    front.until(&busy, "turn_start").await?;
    for _ in 0..4 {
        front.create_session().await?;
    }
    expect!(front.cancel(&busy).await?, "the run in flight is gone");
    expect_eq!(front.finish(&busy).await?.stopped, "aborted", "how the run of the oldest bag ended");
    Ok(())
}

async fn below_work_dir(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = rpc.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let result = rpc.call("prompt.submit", json!({"session_id": id, "text": "x"})).await?;
    let told = result.text("/session_path").of("L14")?;
    let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    expect!(told.starts_with('/'), "session_path is not absolute: {told}");
    expect_eq!(real(told.as_ref()), real(&on.server()?.transcript(&id)), "session_path");
    let files: Vec<String> = std::fs::read_dir(on.server()?.session_dir())
        .map_err(Stop::harness)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    expect_eq!(files, [format!("{id}.jsonl")], "transcripts on disk");
    Ok(())
}

async fn session_dir_flag(ctx: &mut Ctx) -> Outcome {
    let dir = ctx.scratch("elsewhere");
    let launch = ctx.launch().args(["--session-dir".into(), dir.clone().into_os_string()]);
    let mut on = ctx.start(&launch).await?;
    let id = on.front().await?.create_session().await?;
    expect!(dir.join(format!("{id}.jsonl")).exists(), "no transcript in --session-dir");
    expect!(!on.server()?.transcript(&id).exists(), "a transcript below the work dir too");
    Ok(())
}
