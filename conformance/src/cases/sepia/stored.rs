//! What is done to stored sessions: export, import, convert, delete, the overlay, projects, rewind. Clauses: S08–S10, S16–S18,
//! S21, S28. Rows may not be built yet; a case on one that says so is skipped.

use super::{create, prompt, row};
use crate::{
    cases,
    cases::{STDIO, write},
    client::{front::text_of, rpc::Rpc},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "s08-export-and-import-round-trip" on STDIO [S08, S09, C15] needs [Script] => round_trip;
    "s09-import-refuses-bad-payloads" on STDIO [S09, S28, C16] needs [Script] => bad_imports;
    "s28-a-malformed-bundle-is-invalid" on STDIO [S28, S09, S10] needs [Script] => malformed;
    "s10-convert-copies" on STDIO [S10] needs [Script] => convert;
    "s16-delete" on STDIO [S16, S26] needs [Files, Script] => delete;
    "s17-patch-meta" on STDIO [S17, S06] needs [Script] => patch_meta;
    "s18-projects" on STDIO [S18] needs [Script] => projects;
    "s19-config-list" on STDIO [S19] => config_list;
    "s21-rewind-detaches" on STDIO [S21, S25] needs [Process, Script] => rewind;
    "s21-restore-puts-files-back" on STDIO [S21] needs [Process, Script] => restore;
    "c15-unknown-records-survive" on STDIO [C15, S08, S09] needs [Process, Files, Script] => unknown_records;
    "s09-import-under-an-id" on STDIO [S09, S28] needs [Script] => import_as;
}

/// A session with one prompt.
async fn one(rpc: &mut Rpc, ctx: &Ctx) -> Outcome<String> {
    let id = create(rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, "hello")).await?;
    Ok(id)
}

/// The agent that sessions are made with.
async fn agent(rpc: &mut Rpc, id: &str) -> Outcome<String> {
    row(rpc, id).await?.ok_or_else(|| Stop::broke(format!("{id} is not listed")))?.text("/agentId")
}

async fn round_trip(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let agent = agent(&mut rpc, &id).await?;
    let mut session = rpc.call("sessions.export", json!({"id": id})).await?.at("/session")?.clone();
    if let Some(parts) = session.pointer_mut("/messages/0/parts").and_then(Value::as_array_mut) {
        parts.push(json!({"type": "from_the_future", "x": {"y": [1]}}));
    }
    let imported = rpc.call("sessions.import", json!({"agent": agent, "session": session})).await.of("S09")?;
    let copy = imported.text("/id")?;
    expect!("S09": copy != id, "an import without an id has the original's");
    let whole = rpc.call("sessions.get", json!({"id": copy})).await?;
    expect_eq!("C15": whole.get("messages"), session.get("messages"), "the messages, a part of an unknown type included");
    Ok(())
}

async fn bad_imports(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let agent = agent(&mut rpc, &id).await?;
    let session = rpc.call("sessions.export", json!({"id": id})).await?.at("/session")?.clone();
    rpc.fails("sessions.import", json!({"agent": "nobody", "session": session}), "unknown_agent").await?;
    for bad in [json!({}), json!({"version": 1, "messages": 1}), json!("x")] {
        rpc.fails("sessions.import", json!({"agent": agent, "session": bad}), "invalid").await?;
    }
    for id in ["../../x", "a/b", ""] {
        let reply = rpc.ask("sessions.import", json!({"agent": agent, "session": session, "id": id})).await?;
        let code = reply.result.as_ref().err().and_then(|error| error.code.clone());
        expect!("C16": matches!(code.as_deref(), Some("invalid_params" | "invalid")), "import as {id:?} → {}", reply.text);
    }
    Ok(())
}

async fn malformed(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let agent = agent(&mut rpc, &id).await?;
    for bad in [json!({}), json!([]), json!({"version": 1, "messages": "x"})] {
        let refused = rpc.ask("sessions.import", json!({"agent": agent, "session": bad})).await.of("S28")?;
        let code = refused.result.as_ref().err().and_then(|error| error.code.clone());
        expect_eq!(code.as_deref(), Some("invalid"), "an import of {bad} → {}", refused.text);
    }
    rpc.fails("sessions.convert", json!({"id": id, "agent": "nobody"}), "unknown_agent").await?;
    Ok(())
}

async fn convert(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let agent = agent(&mut rpc, &id).await?;
    let made = rpc.call("sessions.convert", json!({"id": id, "agent": agent})).await?;
    let copy = made.text("/sessionId")?;
    expect!(copy != id, "a copy has the original's id");
    expect_eq!(made.text("/agentId")?, agent, "the agent");
    let whole = rpc.call("sessions.get", json!({"id": copy})).await?;
    expect_eq!(
        whole.list("/messages")?.iter().map(text_of).collect::<Vec<_>>(),
        ["hello", "hello"],
        "the copy's messages"
    );
    rpc.fails("sessions.convert", json!({"id": id, "agent": "nobody"}), "unknown_agent").await.of("S28")?;
    Ok(())
}

async fn delete(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    rpc.call("events.subscribe", json!({})).await?;
    expect_eq!(rpc.call("sessions.delete", json!({"id": id})).await?, json!({"deleted": true}), "the result");
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("detached") {
        kinds.push(rpc.notification("node.event").await?.json.text("/params/type")?);
    }
    kinds.retain(|kind| kind != "sessionEvents");
    expect_eq!("S26": kinds, ["deleted", "detached"], "the markers of a delete");
    expect_eq!(row(&mut rpc, &id).await?, None, "the row of a deleted session");
    expect!(!on.server()?.transcript(&id).exists(), "the transcript of a deleted session is there");
    rpc.fails("sessions.get", json!({"id": id}), "not_found").await?;
    Ok(())
}

async fn patch_meta(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    rpc.call("sessions.patch_meta", json!({"id": id, "patch": {"title": "t", "pinned": true}})).await?;
    rpc.call("sessions.patch_meta", json!({"id": id, "patch": {"archived": true}})).await?;
    let patched = row(&mut rpc, &id).await?.unwrap_or_default();
    expect_eq!(
        (patched.text("/title")?.as_str(), patched.flag("/pinned")?, patched.flag("/archived")?),
        ("t", true, true),
        "the row after two patches"
    );
    rpc.fails("sessions.patch_meta", json!({"id": id, "patch": {"pinned": "yes", "title": "u"}}), "invalid_params")
        .await?;
    expect_eq!(row(&mut rpc, &id).await?.unwrap_or_default(), patched, "the row after a patch that was refused");
    Ok(())
}

async fn projects(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let project = rpc.call("projects.create", json!({"name": "é"})).await?.text("/id")?;
    let id = one(&mut rpc, ctx).await?;
    rpc.call("sessions.patch_meta", json!({"id": id, "patch": {"projectIds": [project]}})).await?;
    expect_eq!(
        row(&mut rpc, &id).await?.unwrap_or_default().list("/projectIds")?,
        &vec![json!(project)],
        "the session's projects"
    );
    rpc.call("projects.rename", json!({"id": project, "name": "e"})).await?;
    expect_eq!(rpc.call("projects.list", json!({})).await?.text("/projects/0/name")?, "e", "the name");
    rpc.call("projects.delete", json!({"id": project})).await?;
    expect_eq!(
        row(&mut rpc, &id).await?.unwrap_or_default().list("/projectIds")?.len(),
        0,
        "projects of the session afterwards"
    );
    rpc.fails("projects.delete", json!({"id": project}), "not_found").await?;
    Ok(())
}

async fn config_list(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let listed = rpc.call("config.list", json!({})).await?;
    for entry in listed.as_array().ok_or_else(|| Stop::broke(format!("no array: {listed}")))? {
        entry.text("/agent")?;
        expect!(entry.get("counts").is_some() != entry.get("error").is_some(), "either counts or an error: {entry}");
    }
    rpc.fails("config.get", json!({"agent": "nobody"}), "unknown_agent").await.of("S28")?;
    Ok(())
}

async fn rewind(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--mode", "bypass"]);
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    rpc.call("sessions.prompt", prompt(&id, &write("a.txt", "x"))).await?;
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    let to = whole.text("/messages/1/id")?;
    rpc.call("events.subscribe", json!({})).await?;
    let dry =
        rpc.call("sessions.rewind", json!({"id": id, "request": {"to": to, "files": true, "dryRun": true}})).await?;
    expect!(dry.int("/removed")? > 0, "a dry run removes nothing: {dry}");
    expect!(ctx.work().join("a.txt").exists(), "a dry run changed files");
    let done = rpc.call("sessions.rewind", json!({"id": id, "request": {"to": to, "files": true}})).await?;
    expect_eq!(done.int("/removed")?, dry.int("/removed")?, "`removed`");
    let gone = rpc.notified("node.event", "detached", |params| params.get("type") == Some(&json!("detached"))).await?;
    expect_eq!("S25": gone.json.text("/params/reason")?, "rewind", "the reason");
    expect!(!ctx.work().join("a.txt").exists(), "a file that was made after the message is there");
    rpc.call("sessions.attach", json!({"id": id})).await?;
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages")?.len(), 2, "messages after a rewind");
    Ok(())
}

async fn restore(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve_bypass().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let (a, b) = (ctx.work().join("a.txt"), ctx.work().join("b.txt"));
    std::fs::write(&a, "before").map_err(Stop::harness)?;
    for (file, text) in [("a.txt", "after"), ("b.txt", "made")] {
        rpc.call("sessions.prompt", prompt(&id, &write(file, text))).await?;
    }
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    let (to, count) = (whole.text("/messages/1/id")?, whole.list("/messages")?.len());
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let restore = |more: Value| {
        let mut request = json!({"to": to});
        if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
            request.extend(more.clone());
        }
        json!({"id": id, "request": request})
    };
    let dry = rpc.call("sessions.restore", restore(json!({"dryRun": true}))).await?;
    expect_eq!((read(&a), dry.list("/restored")?.len()), ("after".into(), 2), "a dry run");
    let some = rpc.call("sessions.restore", restore(json!({"paths": ["a.txt"]}))).await?;
    expect_eq!((read(&a), read(&b)), ("before".into(), "made".into()), "the files after one was put back: {some}");
    std::fs::write(&b, "by somebody else").map_err(Stop::harness)?;
    let rest = rpc.call("sessions.restore", restore(json!({}))).await?;
    expect_eq!(read(&b), "by somebody else", "a file that somebody else changed");
    expect!(!rest.list("/skipped")?.is_empty(), "what was left is not told: {rest}");
    // Messages stay, and the session stays live.
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages")?.len(), count, "messages after a restore");
    rpc.call("sessions.prompt", prompt(&id, "x")).await?;
    rpc.fails("sessions.restore", json!({"id": id, "request": {"to": "nonsense"}}), "invalid_params").await?;
    Ok(())
}

async fn unknown_records(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    rpc.call("sessions.detach", json!({"id": id})).await?;
    let transcript = on.server()?.transcript(&id);
    let strange = r#"{"type":"from_the_future","x":{"y":[1, 2.50]},"é":"\u2028"}"#;
    let message = json!({"type": "message", "role": "user", "id": "m-1", "at": 1, "mood": "fine",
        "parts": [{"type": "text", "text": "kept", "weight": 7}, {"type": "hologram", "data": [1]}]});
    let mut text = std::fs::read_to_string(&transcript).map_err(Stop::harness)?;
    text.push_str(&format!("{strange}\nnonsense\n{message}\n"));
    std::fs::write(&transcript, &text).map_err(Stop::harness)?;
    rpc.call("sessions.attach", json!({"id": id})).await?;
    rpc.call("sessions.prompt", prompt(&id, "more")).await?;
    let after = std::fs::read_to_string(&transcript).map_err(Stop::harness)?;
    expect!(after.starts_with(&text), "what was there before is no longer: {after}");
    let bundle = rpc.call("sessions.export", json!({"id": id})).await.of("S08")?.at("/session")?.clone();
    let kept = bundle.list("/messages")?.iter().find(|message| message.get("id") == Some(&json!("m-1"))).cloned();
    let kept = kept.ok_or_else(|| Stop::broke(format!("the message after a bad line is lost: {bundle}")))?;
    expect_eq!(kept.get("mood"), message.get("mood"), "a member that is not known");
    expect_eq!(kept.get("parts"), message.get("parts"), "parts that are not known");
    let mut bundle = bundle;
    if let Some(bundle) = bundle.as_object_mut() {
        bundle.insert("fromTheFuture".into(), json!({"z": 1}));
    }
    let agent = bundle.text("/agent")?;
    let copy = rpc.call("sessions.import", json!({"agent": agent, "session": bundle})).await.of("S09")?.text("/id")?;
    let again = rpc.call("sessions.export", json!({"id": copy})).await?.at("/session")?.clone();
    expect_eq!(again.get("fromTheFuture"), bundle.get("fromTheFuture"), "a member of the session that is not known");
    expect_eq!(again.get("messages"), bundle.get("messages"), "the messages after export and import");
    Ok(())
}

async fn import_as(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = one(&mut rpc, ctx).await?;
    let agent = agent(&mut rpc, &id).await?;
    let session = rpc.call("sessions.export", json!({"id": id})).await?.at("/session")?.clone();
    let wanted = "01890000-0000-7000-8000-000000000009";
    let params = json!({"agent": agent, "session": session, "id": wanted, "cwd": ctx.home(), "title": "é"});
    let told = rpc.call("sessions.import", params.clone()).await?;
    expect_eq!(told, json!({"id": wanted, "agentId": agent}), "the result");
    let made = row(&mut rpc, wanted).await?.unwrap_or_default();
    expect_eq!(
        (made.get("cwd"), made.text("/title")?.as_str(), made.flag("/live")?),
        (Some(&json!(ctx.home())), "é", false),
        "the row of an import with its own directory and title"
    );
    rpc.fails("sessions.import", params, "invalid").await.of("S28")?;
    let mut relative = json!({"agent": agent, "session": session});
    if let Some(params) = relative.as_object_mut() {
        params.insert("cwd".into(), json!("relative"));
    }
    rpc.fails("sessions.import", relative, "invalid").await.of("S28")?;
    Ok(())
}
