//! Every built method over a real plane. Clauses: S02–S30.

mod support;

use serde_json::{Value, json};
use std::time::Duration;
use support::{Scene, code, prompt, types};
use triplane_core::plane::HoldPolicy;
use triplane_protocol::SessionId;
use triplane_stdio::Ended;

#[tokio::test]
async fn the_manifest_tells_what_is_served() {
    let mut scene = Scene::with(|_, config| {
        config.idle_ttl = None;
        config.listeners = vec![json!({"port": 1, "token": "t"})];
    })
    .await;
    let manifest = scene.ask("manifest", json!({})).await.unwrap();
    assert_eq!(
        (&manifest["name"], &manifest["version"], &manifest["protocol"]),
        (&json!("triplane"), &json!("1.2.3"), &json!(1))
    );
    let config = json!({"idleTtlMs": null, "sweepMs": 30000, "historyLimit": 500, "probeIdleMs": 60000});
    assert_eq!((&manifest["config"], &manifest["listeners"]), (&config, &json!([{"port": 1, "token": "t"}])));
    assert_eq!(manifest["node"]["id"], scene.plane.node().id);
    for method in manifest["methods"].as_array().unwrap().clone() {
        let method = method.as_str().unwrap();
        if method == "shutdown" {
            continue;
        }
        let outcome =
            scene.ask(method, json!({"id": "none", "request": "r", "option": "o", "parts": [], "cwd": "x"})).await;
        assert_ne!(outcome.err().map_or_else(String::new, |error| code(&error).to_owned()), "unsupported", "{method}");
    }
}

#[tokio::test]
async fn agents_and_sessions_are_listed() {
    let mut scene = Scene::start().await;
    let agents = scene.ask("agents.list", json!({})).await.unwrap();
    let agent = &agents["agents"][0];
    assert_eq!((&agent["id"], &agent["capabilities"]["prompt"]), (&json!("puppet"), &json!(true)));

    let cwd = scene.cwd.clone();
    let params = json!({"cwd": cwd, "title": "T", "model": "nope/x", "fallbacks": ["nope/y", "puppet/two"]});
    let made = scene.ask("sessions.create", params).await.unwrap();
    assert_eq!(
        (&made["agentId"], &made["readOnly"], &made["model"]),
        (&json!("puppet"), &json!(false), &json!("puppet/two"))
    );
    let sessions = scene.ask("sessions.list", json!({})).await.unwrap();
    let row = &sessions["sessions"][0];
    assert_eq!(
        (&row["id"], &row["live"], &row["pending"], &row["projectIds"], &row["cwd"]),
        (&made["id"], &json!(true), &json!(true), &json!([]), &json!(cwd))
    );
    let summary = scene.ask("sessions.summary", json!({"id": made["id"]})).await.unwrap();
    assert_eq!((&summary["messageCount"], &summary["title"]), (&json!(0), &json!("T")));
}

#[tokio::test]
async fn a_prompt_is_answered_with_its_outcome_after_its_events() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    let subscribed = scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    assert_eq!(subscribed, json!({"subscribed": true, "sessionId": id}));
    let outcome = scene.ask("sessions.prompt", prompt(&id, "say 2")).await.unwrap();
    assert_eq!(
        (&outcome["stopReason"], &outcome["reply"], &outcome["turns"]),
        (&json!("completed"), &json!("say 2"), &json!(1))
    );
    let told: Vec<Value> = std::mem::take(&mut scene.told).into();
    assert_eq!(
        types(&told),
        [
            "runStarted",
            "userMessage",
            "turnStarted",
            "textDelta",
            "textDelta",
            "messageFinished",
            "final",
            "runFinished"
        ]
    );
    let seqs: Vec<u64> = told
        .iter()
        .flat_map(|message| message["params"]["events"].as_array().unwrap())
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=8).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_second_subscription_doubles_and_both_end_with_the_session() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    for _ in 0..2 {
        scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    }
    scene.ask("sessions.prompt", prompt(&id, "hi")).await.unwrap();
    assert_eq!(scene.ask("sessions.detach", json!({"id": id})).await.unwrap(), json!({"detached": true}));
    let (rest, _) = scene.close().await;
    let types = types(&rest);
    for name in ["runStarted", "runFinished", "sessionClosed"] {
        assert_eq!(types.iter().filter(|one| *one == name).count(), 2, "{name}: {types:?}");
    }
}

#[tokio::test]
async fn what_is_not_live_says_so_and_history_is_read_all_the_same() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    for text in ["one", "two", "three"] {
        scene.ask("sessions.prompt", prompt(&id, text)).await.unwrap();
    }
    scene.ask("sessions.detach", json!({"id": id})).await.unwrap();
    for (method, params) in [
        ("sessions.prompt", prompt(&id, "x")),
        ("sessions.cancel", json!({"id": id})),
        ("sessions.permission", json!({"id": id, "request": "r", "option": "allow_once"})),
        ("sessions.subscribe", json!({"id": id})),
        ("sessions.detach", json!({"id": id})),
    ] {
        let error = scene.ask(method, params).await.unwrap_err();
        assert_eq!((code(&error), &error["code"]), ("not_found", &json!(-32000)), "{method}");
        assert!(error["message"].as_str().unwrap().contains("attach"), "{method}: {error}");
    }
    let page = scene.ask("sessions.history", json!({"id": id, "limit": 4})).await.unwrap();
    let texts = |page: &Value| {
        let messages = page["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&page), ["two", "two", "three", "three"]);
    let page = scene.ask("sessions.history", json!({"id": id, "limit": 4, "before": page["before"]})).await.unwrap();
    assert_eq!((texts(&page), &page["before"]), (vec!["one".to_owned(), "one".to_owned()], &Value::Null));
    let whole = scene.ask("sessions.get", json!({"id": id, "agent": "puppet"})).await.unwrap();
    assert_eq!((&whole["version"], whole["messages"].as_array().unwrap().len()), (&json!(1), 6));
    let other = scene.ask("sessions.get", json!({"id": id, "agent": "other"})).await.unwrap_err();
    assert_eq!(code(&other), "unknown_agent");

    let attached =
        scene.ask("sessions.attach", json!({"id": id, "model": "nope", "fallbacks": ["puppet/two"]})).await.unwrap();
    assert_eq!(attached, json!({"id": id, "agentId": "puppet", "readOnly": false, "model": "puppet/two"}));
    scene.ask("sessions.prompt", prompt(&id, "four")).await.unwrap();
}

#[tokio::test]
async fn a_session_is_exported_imported_converted_and_deleted() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    scene.ask("sessions.prompt", prompt(&id, "one")).await.unwrap();
    let mut session = scene.ask("sessions.export", json!({"id": id})).await.unwrap()["session"].take();
    session["later"] = json!({"kept": true});
    let params = json!({"agent": "puppet", "session": session, "title": "copy"});
    let imported = scene.ask("sessions.import", params).await.unwrap();
    assert_eq!(imported["agentId"], "puppet");
    let copy = scene.ask("sessions.get", json!({"id": imported["id"]})).await.unwrap();
    assert_eq!(
        (&copy["messages"], &copy["title"], &copy["later"]),
        (&session["messages"], &json!("copy"), &session["later"])
    );
    let converted = scene.ask("sessions.convert", json!({"id": imported["id"], "agent": "puppet"})).await.unwrap();
    assert_ne!(converted["sessionId"], imported["id"]);

    for (session, message) in [
        (json!({"version": 1}), "session: missing field `id`"),
        (
            json!({"version": 2, "id": "x", "agent": "a", "cwd": "/", "created": 0, "updated": 0, "messages": []}),
            "session.version: is 2; this server reads 1",
        ),
        (json!(7), "session: invalid type: integer `7`, expected struct Session"),
    ] {
        let error = scene.ask("sessions.import", json!({"agent": "puppet", "session": session})).await.unwrap_err();
        assert_eq!((code(&error), &error["message"]), ("invalid", &json!(message)));
    }
    let params = json!({"agent": "nobody", "session": session});
    assert_eq!(code(&scene.ask("sessions.import", params).await.unwrap_err()), "unknown_agent");

    scene.ask("events.subscribe", json!({})).await.unwrap();
    assert_eq!(scene.ask("sessions.delete", json!({"id": id})).await.unwrap(), json!({"deleted": true}));
    assert_eq!(code(&scene.ask("sessions.get", json!({"id": id})).await.unwrap_err()), "not_found");
    let (rest, _) = scene.close().await;
    let markers: Vec<&Value> =
        rest.iter().map(|told| &told["params"]).filter(|params| params["sessionId"] == id.as_str()).collect();
    let kinds: Vec<&Value> =
        markers.iter().map(|params| &params["type"]).filter(|kind| *kind != "sessionEvents").collect();
    assert_eq!(kinds, ["deleted", "detached"]);
    assert_eq!(markers.last().unwrap()["reason"], "deleted");
}

#[tokio::test]
async fn a_rewind_takes_messages_back_and_detaches() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    for text in ["one", "two"] {
        scene.ask("sessions.prompt", prompt(&id, text)).await.unwrap();
    }
    let page = scene.ask("sessions.history", json!({"id": id})).await.unwrap();
    let to = page["messages"][1]["id"].clone();
    let mut request = json!({"to": to, "files": true, "dryRun": true});
    let expected = json!({"removed": 2, "prompt": "two", "restored": [], "skipped": []});
    assert_eq!(scene.ask("sessions.rewind", json!({"id": id, "request": request})).await.unwrap(), expected);
    assert!(scene.plane.is_live(&SessionId::parse(&id).unwrap()));
    request["dryRun"] = json!(false);
    assert_eq!(scene.ask("sessions.rewind", json!({"id": id, "request": request})).await.unwrap(), expected);
    assert_eq!(code(&scene.ask("sessions.cancel", json!({"id": id})).await.unwrap_err()), "not_found");
    let page = scene.ask("sessions.history", json!({"id": id})).await.unwrap();
    assert_eq!(page["messages"].as_array().unwrap().len(), 2);
    let restored = scene.ask("sessions.restore", json!({"id": id, "request": {"to": null}})).await.unwrap();
    assert_eq!(restored, json!({"restored": [], "skipped": []}));
    let error = scene.ask("sessions.rewind", json!({"id": id, "request": {"to": "nowhere"}})).await.unwrap_err();
    assert_eq!(code(&error), "invalid_params");
}

#[tokio::test]
async fn a_session_of_an_agent_that_is_not_here_is_attached_read_only() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    scene.ask("sessions.prompt", prompt(&id, "one")).await.unwrap();
    scene.ask("sessions.detach", json!({"id": id})).await.unwrap();
    let path = scene.cwd.join(format!(".triplane/sessions/{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"agent\":\"puppet\"", "\"agent\":\"gone\"", 1)).unwrap();
    scene.ask("events.subscribe", json!({})).await.unwrap();
    let attached = scene.ask("sessions.attach", json!({"id": id})).await.unwrap();
    assert_eq!((&attached["agentId"], &attached["readOnly"]), (&json!("gone"), &json!(true)));
    assert_eq!(code(&scene.ask("sessions.prompt", prompt(&id, "x")).await.unwrap_err()), "not_found");
    let (rest, _) = scene.close().await;
    assert_eq!(rest, Vec::<Value>::new());
}

#[tokio::test]
async fn one_run_at_a_time_and_a_cancel_ends_it() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    assert_eq!(scene.ask("sessions.cancel", json!({"id": id})).await.unwrap(), json!({"cancelled": false}));
    scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    let running = scene.prompt(&id, "wait").await;
    while !types(&scene.told).contains(&"textDelta".to_owned()) {
        let message = scene.line().await.unwrap();
        scene.told.push_back(message);
    }
    assert_eq!(code(&scene.ask("sessions.prompt", prompt(&id, "x")).await.unwrap_err()), "busy");
    let cancel = scene.request("sessions.cancel", json!({"id": id})).await;
    let (first, second) = (scene.reply().await, scene.reply().await);
    let (run, cancelled) = if first["id"] == running { (first, second) } else { (second, first) };
    assert_eq!((&cancelled["id"], &cancelled["result"]), (&json!(cancel), &json!({"cancelled": true})));
    assert_eq!((&run["id"], &run["result"]["stopReason"]), (&json!(running), &json!("aborted")));
}

#[tokio::test]
async fn a_permission_is_asked_and_answered_once() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    let running = scene.prompt(&id, "ask").await;
    let request = loop {
        let message = scene.notification().await;
        let events = message["params"]["events"].as_array().unwrap().clone();
        if let Some(event) = events.into_iter().find(|event| event["type"] == "permissionRequest") {
            break event;
        }
    };
    assert_eq!((&request["tool"], &request["callId"]), (&json!("bash"), &json!("call")));
    let params = |option: &str| json!({"id": id, "request": request["requestId"], "option": option});
    assert_eq!(code(&scene.ask("sessions.permission", params("maybe")).await.unwrap_err()), "invalid_params");
    let answer = scene.request("sessions.permission", params("allow_once")).await;
    let (first, second) = (scene.reply().await, scene.reply().await);
    let (run, resolved) = if first["id"] == running { (first, second) } else { (second, first) };
    assert_eq!((&resolved["id"], &resolved["result"]), (&json!(answer), &json!({"resolved": true})));
    assert_eq!(run["result"]["reply"], "allowed allow_once");
    assert_eq!(code(&scene.ask("sessions.permission", params("allow_once")).await.unwrap_err()), "not_found");
}

#[tokio::test]
async fn the_nodes_feed_tells_every_change_of_the_live_map() {
    let mut scene = Scene::start().await;
    let before = scene.create().await;
    let subscribed = scene.ask("events.subscribe", json!({})).await.unwrap();
    assert_eq!(subscribed, json!({"subscribed": true, "live": [before]}));
    let id = scene.create().await;
    scene.ask("sessions.prompt", prompt(&id, "hi")).await.unwrap();
    scene.ask("sessions.detach", json!({"id": id})).await.unwrap();
    scene.ask("sessions.attach", json!({"id": id})).await.unwrap();
    scene.ask("shutdown", json!({})).await.unwrap();
    let (rest, ended) = scene.rest().await;
    assert_eq!(ended, Ended::Shutdown);
    let mut lines: Vec<String> = Vec::new();
    for message in rest.iter().filter(|message| message["method"] == "node.event") {
        let params = &message["params"];
        if params["sessionId"] != id.as_str() {
            continue;
        }
        match params["type"].as_str().unwrap() {
            "sessionEvents" => lines.extend(types([message])),
            kind => lines.push(format!("{kind} {}", params["reason"]).replace(" null", "")),
        }
    }
    let of_the_map: Vec<&String> = lines.iter().filter(|line| line.contains("tached") || *line == "created").collect();
    assert_eq!(of_the_map, ["created", "detached \"explicit\"", "attached", "detached \"shutdown\""]);
    for name in ["runStarted", "runFinished", "sessionClosed"] {
        assert!(lines.iter().any(|line| line == name), "{name}: {lines:?}");
    }
    assert_eq!(lines.last().unwrap(), "detached \"shutdown\"");
}

#[tokio::test]
async fn shutdown_writes_its_reply_and_every_detached_and_ends_runs() {
    let mut scene = Scene::start().await;
    scene.ask("events.subscribe", json!({})).await.unwrap();
    let ids = [scene.create().await, scene.create().await];
    let running = scene.prompt(&ids[0], "wait").await;
    let shutdown = scene.request("shutdown", json!({})).await;
    let plane = scene.plane.clone();
    let (rest, ended) = scene.rest().await;
    assert_eq!(ended, Ended::Shutdown);
    let reply = |id: u64| rest.iter().find(|message| message["id"] == id).unwrap();
    assert_eq!(reply(shutdown)["result"], json!({}));
    assert_eq!(reply(running)["result"]["stopReason"], "aborted");
    for id in &ids {
        let expected = json!({"type": "detached", "sessionId": id, "agentId": "puppet", "reason": "shutdown"});
        assert!(rest.iter().any(|message| message["params"] == expected), "{id}: {rest:?}");
        assert!(!plane.is_live(&SessionId::parse(id).unwrap()));
    }
}

#[tokio::test]
async fn an_idle_session_is_let_go_and_one_that_another_party_holds_is_not() {
    let mut scene = Scene::with(|_, config| {
        config.idle_ttl = Some(Duration::from_millis(30));
        config.sweep = Duration::from_millis(10);
    })
    .await;
    let other = scene.plane.hold(HoldPolicy { name: "other", ..HoldPolicy::default() });
    scene.ask("events.subscribe", json!({})).await.unwrap();
    let (mine, shared) = (scene.create().await, scene.create().await);
    let shared_id = SessionId::parse(&shared).unwrap();
    scene.plane.attach(&other, &shared_id).await.unwrap();
    loop {
        let told = scene.notification().await;
        if told["params"]["type"] == "detached" {
            assert_eq!((&told["params"]["sessionId"], &told["params"]["reason"]), (&json!(mine), &json!("idle")));
            break;
        }
    }
    assert!(scene.plane.is_live(&shared_id));
}

#[tokio::test]
async fn errors_name_the_field() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    for (method, params, message) in [
        ("sessions.create", json!({}), "missing field `cwd`"),
        ("sessions.create", json!({"cwd": "relative"}), "cwd: must be an absolute path"),
        (
            "sessions.prompt",
            json!({"id": id, "parts": "hi"}),
            "parts: invalid type: string \"hi\", expected a sequence",
        ),
        ("sessions.prompt", json!({"id": id, "parts": []}), "parts: must have at least one part"),
        ("sessions.history", json!({"id": id, "limit": 0}), "limit: must be at least 1"),
        ("sessions.list", json!({"withLocks": 1}), "withLocks: invalid type: integer `1`, expected a boolean"),
    ] {
        let error = scene.ask(method, params).await.unwrap_err();
        assert_eq!(
            (code(&error), &error["code"], &error["message"]),
            ("invalid_params", &json!(-32602), &json!(message))
        );
    }
    let error = scene.ask("sessions.create", json!({"cwd": "/", "agent": "nobody"})).await.unwrap_err();
    assert_eq!(code(&error), "unknown_agent");
}
