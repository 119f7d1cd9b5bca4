//! Sessions: list, create, load, change, unload. Clauses: H06–H10, C17.

use super::{create, get, wait};
use crate::{
    cases,
    cases::{FOREVER, HTTP, blame},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};

cases! {
    "h06-list-shows-loaded-and-busy" on HTTP [H06] needs [Script] => loaded_and_busy;
    "h06-pages" on HTTP [H06, C13] needs [Fresh] => pages;
    "h06-bad-pages-are-400" on HTTP [H06, C04] => bad_pages;
    "h07-create-takes-settings" on HTTP [H07] => create_settings;
    "h07-unknown-settings-make-nothing" on HTTP [H07, C03] needs [Fresh] => unknown_settings;
    "h07-resume-loads-under-its-own-id" on HTTP [H07] needs [Script] => resume_loads;
    "h07-continue-loads-the-newest" on HTTP [H07, C13] needs [Script] => continue_newest;
    "h07-resume-and-continue-of-nothing" on HTTP [H07] needs [Process] => resume_nothing;
    "h08-get-tells-everything" on HTTP [H08] needs [Script] => get_tells;
    "h09-patch-changes-settings" on HTTP [H09] => patch_changes;
    "h09-patch-of-the-unknown-changes-nothing" on HTTP [H09] => patch_unknown;
    "h10-delete-unloads-and-keeps-the-transcript" on HTTP [H10, H11] needs [Script] => delete_keeps;
    "h10-delete-of-a-busy-session" on HTTP [H10, H14] needs [Script] => delete_busy;
    "c17-prompt-loads-a-stored-session" on HTTP [C17, H18] needs [Process, Script] => prompt_loads;
    "c17-cancel-and-tasks-of-an-unloaded-session" on HTTP [C17, H19, H20, H23] needs [Script] => unloaded_has_nothing;
    "h01-defaults-of-new-sessions" on HTTP [H01, H07] needs [Process] => defaults;
}

/// A session's row in the list.
fn row(listed: &Value, id: &str) -> Outcome<Value> {
    let found = listed.list("/sessions")?.iter().find(|row| row.get("id") == Some(&json!(id)));
    found.cloned().ok_or_else(|| crate::Stop::broke(format!("{id} is not in {listed}")))
}

async fn list(http: &crate::client::http::Http) -> Outcome<Value> {
    http.get("/v1/sessions").await?.want(200)
}

async fn loaded_and_busy(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let http = on.http()?;
    let id = front.create_session().await?;
    let idle = row(&list(&http).await?, &id)?;
    expect_eq!((idle.flag("/loaded")?, idle.flag("/busy")?), (true, false), "`loaded` and `busy` of a new session");
    front.start(&id, FOREVER).await?;
    let busy = row(&list(&http).await?, &id)?;
    expect_eq!((busy.flag("/loaded")?, busy.flag("/busy")?), (true, true), "`loaded` and `busy` in a run");
    front.cancel(&id).await?;
    front.finish(&id).await?;
    let after = row(&list(&http).await?, &id)?;
    expect_eq!(after.flag("/busy")?, false, "`busy` after `status` idle");
    http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    let unloaded = row(&list(&http).await?, &id)?;
    expect_eq!(
        (unloaded.flag("/loaded")?, unloaded.flag("/busy")?),
        (false, false),
        "`loaded` and `busy` after DELETE"
    );
    Ok(())
}

async fn pages(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(create(&http).await?);
    }
    let whole: Vec<String> =
        list(&http).await?.list("/sessions")?.iter().map(|row| row.text("/id")).collect::<Outcome<_>>()?;
    let (mut paged, mut query) = (Vec::new(), "?limit=3".to_owned());
    for page in 0..10 {
        let body = http.get(&format!("/v1/sessions{query}")).await?.want(200)?;
        let rows = body.list("/sessions")?;
        expect!(rows.len() <= 3, "page {page} has {} rows of 3", rows.len());
        paged.extend(rows.iter().map(|row| row.text("/id")).collect::<Outcome<Vec<_>>>()?);
        let Some(next) = body.get("next").and_then(Value::as_str) else { break };
        query = format!("?limit=3&cursor={}", encode(next));
    }
    expect_eq!(paged, whole, "the pages, joined");
    let mut sorted = paged.clone();
    sorted.sort();
    made.sort();
    expect_eq!(sorted, made, "the sessions that were made");
    Ok(())
}

/// A query value with everything escaped that is no letter or digit.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

async fn bad_pages(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for query in ["limit=x", "limit=-1", "limit=0", "cursor=nonsense%00"] {
        http.get(&format!("/v1/sessions?{query}")).await?.fails(400, "invalid_params")?;
    }
    http.get("/v1/sessions?unknown=1").await?.want(200)?;
    Ok(())
}

async fn create_settings(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let body = json!({"effort": "high", "mode": "plan", "title": "é\u{1b}[31m title"});
    let made = http.post("/v1/sessions", &body).await?.want(201)?;
    let id = made.text("/id")?;
    for (member, want) in [("effort", "high"), ("mode", "plan"), ("title", "é\u{1b}[31m title")] {
        expect_eq!(made.text(&format!("/{member}"))?, want, "`{member}` in the answer");
        expect_eq!(get(&http, &id).await?.text(&format!("/{member}"))?, want, "`{member}` afterwards");
    }
    expect_eq!(made.flag("/loaded")?, true, "`loaded`");
    expect_eq!(made.int("/seq")?, 0, "`seq` of a new session");
    Ok(())
}

async fn unknown_settings(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    http.post("/v1/sessions", &json!({"mode": "nonsense"})).await?.fails(400, "invalid_params")?;
    http.post("/v1/sessions", &json!({"model": "nonsense/nothing"})).await?.fails(400, "invalid_params")?;
    http.post("/v1/sessions", &json!({"agent": "nobody"})).await?.fails(404, "unknown_agent")?;
    expect_eq!(list(&http).await?.list("/sessions")?.len(), 0, "sessions after refused creates");
    Ok(())
}

async fn resume_loads(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    let resumed = http.post("/v1/sessions", &json!({"resume": id})).await?.want(200)?;
    expect_eq!(resumed.text("/id")?, id, "the id of a session that was loaded already");
    http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    let resumed = http.post("/v1/sessions", &json!({"resume": id})).await?.want(200)?;
    expect_eq!((resumed.text("/id")?, resumed.flag("/loaded")?), (id.clone(), true), "id and `loaded` after a resume");
    let answer = wait(&http, &id, "two").await?;
    expect_eq!(answer.text("/text")?, "two", "a prompt after a resume");
    let messages = http.get(&format!("/v1/sessions/{id}/messages")).await?.want(200)?;
    expect_eq!("H11": messages.list("/messages")?.len(), 4, "messages after a resume and a prompt");
    Ok(())
}

async fn continue_newest(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (first, second) = (create(&http).await?, create(&http).await?);
    wait(&http, &second, "x").await?;
    wait(&http, &first, "x").await?;
    for id in [&second, &first] {
        http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    }
    let resumed = http.post("/v1/sessions", &json!({"continue": true})).await?.want(200)?;
    expect_eq!(resumed.text("/id")?, first, "the session that was last written to");
    Ok(())
}

async fn resume_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    http.post("/v1/sessions", &json!({"resume": "nope"})).await?.fails(404, "not_found")?;
    http.post("/v1/sessions", &json!({"continue": true})).await?.fails(404, "not_found")?;
    let id = create(&http).await?;
    http.post("/v1/sessions", &json!({"continue": true, "resume": id})).await?.fails(400, "invalid_params")?;
    Ok(())
}

async fn get_tells(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let http = on.http()?;
    let id = front.create_session().await?;
    front.prompt(&id, "hello world").await?;
    let idle = get(&http, &id).await?;
    expect_eq!(idle.flag("/busy")?, false, "`busy` after the run");
    expect!(idle.int("/usage/output")? > 0, "usage after a run: {idle}");
    expect!(idle.int("/seq")? > 0, "`seq` after a run: {idle}");
    expect!(!idle.text("/epoch")?.is_empty(), "an empty epoch");
    expect_eq!((idle.list("/permissions")?.len(), idle.list("/tasks")?.len()), (0, 0), "permissions and tasks");
    front.start(&id, FOREVER).await?;
    expect_eq!(get(&http, &id).await?.flag("/busy")?, true, "`busy` in a run");
    front.cancel(&id).await?;
    front.finish(&id).await.map(drop)
}

async fn patch_changes(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let before = get(&http, &id).await?;
    for (member, value) in [("mode", "plan"), ("effort", "low"), ("mode", "accept-edits")] {
        let patched = http.patch(&format!("/v1/sessions/{id}"), &json!({member: value})).await?.want(200)?;
        expect_eq!(patched.text(&format!("/{member}"))?, value, "`{member}` in the answer");
        expect_eq!(get(&http, &id).await?.text(&format!("/{member}"))?, value, "`{member}` afterwards");
    }
    let after = get(&http, &id).await?;
    expect_eq!(after.get("model"), before.get("model"), "the model, which was not given");
    expect_eq!(after.text("/effort")?, "low", "the effort, which the last PATCH did not give");
    Ok(())
}

async fn patch_unknown(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let settings = |view: &Value| (view.get("model").cloned(), view.get("mode").cloned(), view.get("effort").cloned());
    let before = settings(&get(&http, &id).await?);
    for body in [
        json!({"mode": "nonsense"}),
        json!({"effort": "nonsense"}),
        json!({"model": "nonsense/nothing"}),
        json!({"mode": "plan", "effort": "nonsense"}),
        json!({"mode": "plan", "model": "nonsense/nothing"}),
        json!({"mode": 1}),
    ] {
        http.patch(&format!("/v1/sessions/{id}"), &body).await?.fails(400, "invalid_params")?;
        expect_eq!(settings(&get(&http, &id).await?), before, "the settings after {body}");
    }
    Ok(())
}

async fn delete_keeps(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    let path = format!("/v1/sessions/{id}");
    http.delete(&path).await?.want(204)?;
    expect_eq!(blame(get(&http, &id).await, "H10")?.flag("/loaded")?, false, "`loaded` after DELETE");
    let messages = http.get(&format!("{path}/messages")).await?.want(200)?;
    expect_eq!("H11": messages.list("/messages")?.len(), 2, "messages of an unloaded session");
    // Once more is no failure: it is unloaded already.
    http.delete(&path).await?.want(204)?;
    Ok(())
}

async fn delete_busy(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let http = on.http()?;
    let id = front.create_session().await?;
    front.start(&id, FOREVER).await?;
    front.until(&id, "turn_start").await?;
    http.delete(&format!("/v1/sessions/{id}")).await?.want(204)?;
    let run = front.finish(&id).await?;
    expect_eq!(run.stopped, "aborted", "the run of a session that was deleted");
    let closed = front.event(&id).await?;
    expect_eq!("H14": closed.kind, "session_closed", "the event after the run");
    expect_eq!("H14": closed.data.text("/reason")?, "explicit", "its reason");
    Ok(())
}

async fn prompt_loads(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    on.server()?.kill().await?;
    let on = ctx.serve().await?;
    let http = on.http()?;
    expect_eq!(get(&http, &id).await?.flag("/loaded")?, false, "`loaded` after a restart");
    expect_eq!(blame(wait(&http, &id, "two").await, "C17")?.text("/text")?, "two", "a prompt to a stored session");
    expect_eq!(get(&http, &id).await?.flag("/loaded")?, true, "`loaded` after a prompt");
    Ok(())
}

async fn unloaded_has_nothing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    wait(&http, &id, "one").await?;
    let path = format!("/v1/sessions/{id}");
    http.delete(&path).await?.want(204)?;
    expect_eq!(
        http.post(&format!("{path}/cancel"), &json!({})).await?.want(200)?,
        json!({"cancelled": false}),
        "cancel"
    );
    expect_eq!(http.get(&format!("{path}/permissions")).await?.want(200)?, json!({"permissions": []}), "permissions");
    expect_eq!(http.get(&format!("{path}/tasks")).await?.want(200).of("H23")?, json!({"tasks": []}), "tasks");
    expect_eq!(get(&http, &id).await?.flag("/loaded")?, false, "`loaded`: none of these loads it");
    Ok(())
}

async fn defaults(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--mode", "accept-edits", "--effort", "low"]);
    let on = ctx.start(&launch).await?;
    let http = on.http()?;
    let made = http.post("/v1/sessions", &json!({})).await?.want(201)?;
    expect_eq!(
        (made.text("/mode")?.as_str(), made.text("/effort")?.as_str()),
        ("accept-edits", "low"),
        "mode and effort by flags"
    );
    let made = http.post("/v1/sessions", &json!({"mode": "plan"})).await?.want(201)?;
    expect_eq!((made.text("/mode")?.as_str(), made.text("/effort")?.as_str()), ("plan", "low"), "a mode of its own");
    Ok(())
}
