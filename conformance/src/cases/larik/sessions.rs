//! Sessions: listed, made, loaded, looked at, changed, unloaded, read. Clauses: H06–H11, H25, C17.

use super::{Bag, pairs};
use crate::{
    cases,
    cases::{FOREVER, HTTP, write},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};

cases! {
    "h06-list-tells-loaded-and-busy" on HTTP [H06] needs [Script] => list;
    "h06-list-is-paged" on HTTP [H06, C13] => paged;
    "h07-create-takes-settings" on HTTP [H07] => create;
    "h07-create-refuses-what-makes-no-sense" on HTTP [H07, C04] => create_refuses;
    "h07-resume-and-continue-load-a-stored-one" on HTTP [H07, C13] needs [Script] => resume;
    "h08-a-session-tells-its-state" on HTTP [H08, H20, H23] needs [Script, Process] => state;
    "h09-patch-changes" on HTTP [H09] needs [Script] => patch;
    "h09-patch-is-all-or-nothing" on HTTP [H09] => patch_or_nothing;
    "h09-a-new-mode-holds-for-the-next-call" on HTTP [H09] needs [Script, Process] => patched_mode;
    "h10-delete-stops-and-unloads" on HTTP [H10, H14] needs [Script] => delete;
    "h10-unload-and-reload-under-the-same-id" on HTTP [H10, H07, H13, H16] needs [Script] => reload;
    "h11-messages-of-an-unloaded-session" on HTTP [H11] needs [Script] => messages;
    "h25-sessions-run-at-once" on HTTP [H25] needs [Script] => at_once;
    "c17-what-loads-a-stored-session-and-what-does-not" on HTTP [C17, H19, H20, H23] needs [Script] => loads;
}

async fn list(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (busy, idle, stored) = (Bag::create(&on).await?, Bag::create(&on).await?, Bag::create(&on).await?);
    stored.run("hi").await?;
    stored.unload().await?;
    busy.start(FOREVER).await?;
    let listed = busy.http.get("/v1/sessions").await?.want(200)?;
    for (bag, loaded, running) in [(&busy, true, true), (&idle, true, false), (&stored, false, false)] {
        let mut rows = listed.list("/sessions")?.iter().filter(|row| row.get("id") == Some(&json!(bag.id)));
        let (Some(row), None) = (rows.next(), rows.next()) else {
            return Err(crate::Stop::broke(format!("{} is not listed once: {listed}", bag.id)));
        };
        expect_eq!((row.flag("/loaded")?, row.flag("/busy")?), (loaded, running), "loaded and busy of {row}");
        expect!(row.int("/created")? > 0 && row.int("/updated")? >= row.int("/created")?, "times of {row}");
        row.at("/title")?;
    }
    busy.cancel().await?;
    Ok(())
}

async fn paged(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(Bag::create(&on).await?.id);
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/sessions?limit=3".to_owned());
    loop {
        let page = http.get(&path).await?.want(200)?;
        let rows = page.list("/sessions")?;
        expect!(rows.len() <= 3, "{} rows with limit=3", rows.len());
        seen.extend(rows.iter().map(|row| row.text("/id")).collect::<Outcome<Vec<_>>>()?);
        let Ok(next) = page.text("/next") else { break };
        expect!(seen.len() <= 100, "pages without an end");
        path = format!("/v1/sessions?limit=3&cursor={next}");
    }
    let ours: Vec<&String> = seen.iter().filter(|id| made.contains(id)).collect();
    expect_eq!(ours.len(), made.len(), "each session once, over the pages {seen:?}");
    for bad in ["limit=0", "limit=x", "limit=-1", "cursor=nonsense"] {
        http.get(&format!("/v1/sessions?{bad}")).await?.fails(400, "invalid_params")?;
    }
    Ok(())
}

async fn create(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let body = json!({"effort": "low", "mode": "plan", "title": "A title", "later": 1});
    let made = http.post("/v1/sessions", &body).await?.want(201)?;
    for (pointer, want) in [("/effort", "low"), ("/mode", "plan"), ("/title", "A title")] {
        expect_eq!(made.text(pointer)?, want, "{pointer}");
    }
    expect_eq!((made.flag("/loaded")?, made.flag("/busy")?), (true, false), "loaded and busy");
    let got = http.get(&format!("/v1/sessions/{}", made.text("/id")?)).await?.want(200)?;
    expect_eq!(got, made, "what GET tells, beside what POST told");
    // No body at all asks for nothing.
    http.send(&http.request("POST", "/v1/sessions").body("")).await?.want(201)?;
    Ok(())
}

async fn create_refuses(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for (body, field) in [
        (json!({"mode": "yolo"}), "mode"),
        (json!({"effort": "loud"}), "effort"),
        (json!({"model": 7}), "model"),
        (json!({"resume": "../x"}), "resume"),
        (json!({"resume": "x", "continue": true}), "resume"),
    ] {
        let message = http.post("/v1/sessions", &body).await?.fails(400, "invalid_params")?;
        expect!("C04": message.contains(field), "{field} is not named: {message}");
    }
    http.post("/v1/sessions", &json!({"agent": "nobody"})).await?.fails(404, "unknown_agent")?;
    let nobody = json!({"resume": "01890000-0000-7000-8000-000000000000"});
    http.post("/v1/sessions", &nobody).await?.fails(404, "not_found")?;
    Ok(())
}

async fn resume(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (old, new) = (Bag::create(&on).await?, Bag::create(&on).await?);
    old.run("one").await?;
    new.run("two").await?;
    old.unload().await?;
    new.unload().await?;
    let newest = http.post("/v1/sessions", &json!({"continue": true})).await?.want(200)?;
    expect_eq!(newest.text("/id")?, new.id, "the id of `continue`");
    expect!(newest.flag("/loaded")?, "not loaded: {newest}");
    let resumed = http.post("/v1/sessions", &json!({"resume": old.id, "mode": "plan"})).await?.want(200)?;
    expect_eq!(resumed.text("/id")?, old.id, "the id of `resume`");
    expect_eq!((resumed.flag("/loaded")?, resumed.text("/mode")?), (true, "plan".to_owned()), "loaded and mode");
    expect_eq!(old.said().await?, pairs(&[("user", "one"), ("assistant", "one")]), "its history");
    Ok(())
}

async fn state(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.start(&format!("/task 60000 slow\n{}", write("a.txt", "x"))).await?;
    let asked = live.until("permission_request").await?;
    let request = asked.last().map(|fact| fact.data.text("/request_id")).transpose()?;
    let told = bag.get("").await?;
    expect!(told.flag("/busy")?, "busy: {told}");
    expect_eq!(told.list("/permissions")?.len(), 1, "pending permissions");
    expect_eq!("H20": Some(told.text("/permissions/0/request_id")?), request, "whose request");
    expect_eq!("H23": told.list("/tasks")?.len(), 1, "tasks");
    expect_eq!("H23": told.text("/tasks/0/state")?, "running", "the task's state");
    for pointer in ["/model", "/mode"] {
        told.text(pointer)?;
    }
    told.int("/usage/input")?;
    expect!(told.int("/seq")? > 0 && !told.text("/epoch")?.is_empty(), "seq and epoch: {told}");
    bag.cancel().await?;
    let told = bag.get("").await?;
    expect_eq!((told.flag("/busy")?, told.list("/permissions")?.len()), (false, 0), "busy and pending after a cancel");
    Ok(())
}

async fn patch(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    let body = json!({"mode": "plan", "effort": "high", "title": "New"});
    let told = bag.http.patch(&bag.path(""), &body).await?.want(200)?;
    for (pointer, want) in [("/mode", "plan"), ("/effort", "high"), ("/title", "New")] {
        expect_eq!(told.text(pointer)?, want, "{pointer}");
    }
    let changed = live.until("settings_changed").await?;
    expect!(changed.iter().any(|fact| fact.data.get("mode") == Some(&json!("plan"))), "no event tells the mode");
    expect_eq!(bag.get("").await?, told, "what GET tells, beside what PATCH told");
    bag.run("hi").await?;
    bag.unload().await?;
    let stored = bag.http.post("/v1/sessions", &json!({"resume": bag.id})).await?.want(200)?;
    expect_eq!(
        (stored.text("/mode")?, stored.text("/effort")?, stored.text("/title")?),
        ("plan".to_owned(), "high".to_owned(), "New".to_owned()),
        "settings after an unload"
    );
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

async fn delete(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let mut live = bag.live().await?;
    bag.start(FOREVER).await?;
    live.until("turn_start").await?;
    bag.unload().await?;
    let end = live.until("session_closed").await.of("H14")?;
    let last = end.last().map(|fact| fact.data.text("/reason")).transpose()?;
    expect_eq!("H14": last.as_deref(), Some("explicit"), "session_closed.reason");
    let stop =
        end.iter().find(|fact| fact.kind == "final").map(|fact| fact.data.text("/stopped_reason")).transpose()?;
    expect_eq!(stop.as_deref(), Some("aborted"), "the run that was in flight");
    let told = bag.get("").await?;
    expect_eq!((told.flag("/loaded")?, told.flag("/busy")?), (false, false), "loaded and busy");
    expect_eq!(bag.said().await?.first().cloned(), Some(("user".into(), FOREVER.into())), "the transcript");
    bag.unload().await?;
    Ok(())
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

async fn messages(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    expect_eq!(bag.said().await?, vec![], "a new session's history");
    bag.run("one").await?;
    let loaded = bag.get("/messages").await?;
    bag.unload().await?;
    expect_eq!(bag.get("/messages").await?, loaded, "the transcript, unloaded");
    expect!(!bag.get("").await?.flag("/loaded")?, "reading has loaded it");
    let ids: Vec<Value> = loaded.list("/messages")?.iter().filter_map(|message| message.get("id").cloned()).collect();
    expect!(ids.len() == 2 && ids.first() != ids.last(), "message ids: {ids:?}");
    Ok(())
}

async fn at_once(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let (first, second) = (Bag::create(&on).await?, Bag::create(&on).await?);
    first.start(FOREVER).await?;
    let run = second.run("meanwhile").await?;
    expect_eq!(run.text("/text")?, "meanwhile", "a run beside another session's");
    expect!(first.get("").await?.flag("/busy")?, "the first run is over");
    expect!(first.cancel().await?, "the first run could not be cancelled");
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
