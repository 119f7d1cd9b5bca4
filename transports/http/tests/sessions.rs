//! Sessions, runs, permissions and tasks, as a client holds them. Clauses: H05–H11, H18–H21, H23, C10, C17.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use serde_json::json;
use std::time::Duration;
use support::{DEADLINE, Server, TOKEN};
use tokio::{io::AsyncWriteExt, time::timeout};
use triplane_protocol::{SessionId, event::CloseReason};

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

/// What a session's path answers, as status and body.
async fn at(server: &Server, method: &str, id: &str, rest: &str, body: &str) -> (u16, serde_json::Value) {
    let answer = server.call(method, &format!("/v1/sessions/{id}{rest}"), body).await;
    (answer.status, if answer.body.is_empty() { json!(null) } else { answer.json() })
}

#[tokio::test]
async fn a_session_is_made_listed_looked_at_and_unloaded() {
    let server = Server::start().await;
    let made =
        server.call("POST", "/v1/sessions", r#"{"model":"puppet/two","mode":"plan","effort":"low","title":"T"}"#).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let s = made["id"].as_str().unwrap();
    for (member, value) in [
        ("agent", json!("puppet")),
        ("title", json!("T")),
        ("model", json!("puppet/two")),
        ("mode", json!("plan")),
        ("effort", json!("low")),
        ("loaded", json!(true)),
        ("busy", json!(false)),
        ("permissions", json!([])),
        ("tasks", json!([])),
        ("usage", json!({"input": 0, "output": 0, "cached": 0, "reasoning": 0})),
    ] {
        assert_eq!(made[member], value, "{member}");
    }
    assert_eq!(at(&server, "GET", s, "", "").await, (200, made.clone()));
    let list = server.call("GET", "/v1/sessions", "").await.json();
    let row = &list["sessions"][0];
    assert_eq!((&row["id"], &row["loaded"], &row["title"]), (&made["id"], &json!(true), &json!("T")));
    assert_eq!(list.get("next"), None);
    assert_eq!(at(&server, "DELETE", s, "", "").await, (204, json!(null)));
    assert_eq!(at(&server, "GET", s, "", "").await.1["loaded"], false);
    assert_eq!(at(&server, "DELETE", s, "", "").await.0, 204, "a stored one is left as it is");
    assert_eq!(at(&server, "DELETE", "none", "", "").await.0, 404);
    server.end().await;
}

#[tokio::test]
async fn lists_are_paged() {
    let server = Server::start().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(server.create().await);
    }
    made.reverse();
    let (mut seen, mut path) = (Vec::new(), "/v1/sessions?limit=2".to_owned());
    loop {
        let page = server.call("GET", &path, "").await.json();
        seen.extend(page["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=2&cursor={next}");
    }
    assert_eq!(seen, made, "newest first, each once");
    assert_eq!(server.call("GET", "/v1/sessions?cursor=zzz", "").await.status, 400);
    server.end().await;
}

#[tokio::test]
async fn stored_sessions_are_resumed_under_their_own_id() {
    let server = Server::start().await;
    let (old, new) = (server.create().await, server.create().await);
    server.run(&old, "hi").await;
    server.run(&new, "hi").await;
    for s in [&old, &new] {
        at(&server, "DELETE", s, "", "").await;
    }
    let resumed = server.call("POST", "/v1/sessions", &json!({"resume": old, "mode": "plan"}).to_string()).await;
    assert_eq!((resumed.status, &resumed.json()["id"], &resumed.json()["mode"]), (200, &json!(old), &json!("plan")));
    at(&server, "DELETE", &old, "", "").await;
    server.run(&new, "again").await;
    let newest = server.call("POST", "/v1/sessions", r#"{"continue":true}"#).await;
    assert_eq!((newest.status, &newest.json()["id"]), (200, &json!(new)));
    assert_eq!(server.call("POST", "/v1/sessions", r#"{"resume":"none"}"#).await.code(), "not_found");
    assert_eq!(server.call("POST", "/v1/sessions", r#"{"agent":"nobody"}"#).await.code(), "unknown_agent");
    let both = json!({"resume": old, "agent": "puppet"}).to_string();
    assert_eq!(server.call("POST", "/v1/sessions", &both).await.code(), "invalid_params");
    server.end().await;
}

#[tokio::test]
async fn a_patch_changes_all_or_nothing_and_loads() {
    let server = Server::start().await;
    let s = server.create().await;
    let (status, view) = at(&server, "PATCH", &s, "", r#"{"model":"puppet/two","effort":"high"}"#).await;
    assert_eq!((status, &view["model"], &view["effort"]), (200, &json!("puppet/two"), &json!("high")));
    for bad in [r#"{"model":"x/y","mode":"bypass"}"#, r#"{"mode":"yolo","effort":"low"}"#, r#"{"effort":"max"}"#] {
        assert_eq!(at(&server, "PATCH", &s, "", bad).await.0, 400, "{bad}");
    }
    let view = at(&server, "GET", &s, "", "").await.1;
    assert_eq!((&view["mode"], &view["effort"]), (&json!("default"), &json!("high")));
    at(&server, "DELETE", &s, "", "").await;
    assert_eq!(at(&server, "PATCH", &s, "", r#"{"mode":"plan"}"#).await.1["loaded"], true);
    assert_eq!(at(&server, "PATCH", "none", "", "{}").await.0, 404);
    server.end().await;
}

#[tokio::test]
async fn a_prompt_is_accepted_or_waited_for() {
    let server = Server::start().await;
    let s = server.create().await;
    let done = server.run(&s, "hello there").await;
    assert_eq!(
        (&done["text"], &done["stopped_reason"], &done["turns_used"], done.get("error")),
        (&json!("hello there"), &json!("completed"), &json!(1), None)
    );
    assert_eq!(at(&server, "GET", &s, "", "").await.1["busy"], false, "idle before the reply");
    let failed = server.run(&s, "fail").await;
    assert_eq!(failed["stopped_reason"], "error");
    assert_eq!(failed["error"], json!({"code": "unavailable", "message": "the model is away"}));

    let (status, accepted) = at(&server, "POST", &s, "/prompt", r#"{"text":"hold"}"#).await;
    assert_eq!(status, 202);
    assert!(accepted["seq"].as_u64().unwrap() > 1 && accepted["run_id"].is_string(), "{accepted}");
    assert_eq!(at(&server, "POST", &s, "/prompt", r#"{"text":"more"}"#).await.1["error"]["code"], "busy");
    assert_eq!(at(&server, "GET", &s, "", "").await.1["busy"], true);
    assert_eq!(at(&server, "POST", &s, "/cancel", "").await, (200, json!({"cancelled": true})));
    assert_eq!(at(&server, "POST", &s, "/cancel", "{}").await, (200, json!({"cancelled": false})));
    assert_eq!(at(&server, "POST", &s, "/prompt", r#"{"text":""}"#).await.0, 400);
    assert_eq!(at(&server, "POST", "none", "/prompt", r#"{"text":"x"}"#).await.0, 404);
    assert_eq!(at(&server, "POST", "none", "/cancel", "").await.0, 404);

    let roles = |view: serde_json::Value| -> Vec<String> {
        let messages = view["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    let before = at(&server, "GET", &s, "/messages", "").await.1;
    assert_eq!(roles(before.clone())[..2], ["user", "assistant"]);
    at(&server, "DELETE", &s, "", "").await;
    assert_eq!(at(&server, "GET", &s, "/messages", "").await.1, before, "unloaded sessions have theirs too");
    server.end().await;
}

#[tokio::test]
async fn only_a_prompt_loads_a_session_and_the_rest_answers_nothing() {
    let server = Server::start().await;
    let s = server.create().await;
    server.run(&s, "hi").await;
    at(&server, "DELETE", &s, "", "").await;
    assert_eq!(at(&server, "POST", &s, "/cancel", "").await, (200, json!({"cancelled": false})));
    assert_eq!(at(&server, "GET", &s, "/permissions", "").await, (200, json!({"permissions": []})));
    assert_eq!(at(&server, "GET", &s, "/tasks", "").await, (200, json!({"tasks": []})));
    assert_eq!(at(&server, "DELETE", &s, "/tasks/t", "").await.0, 404);
    assert!(!server.plane.is_live(&id(&s)));
    server.run(&s, "again").await;
    assert!(server.plane.is_live(&id(&s)));
    for rest in ["/permissions", "/tasks", "/messages", "/events", ""] {
        assert_eq!(at(&server, "GET", "none", rest, "").await.0, 404, "{rest}");
    }
    server.end().await;
}

#[tokio::test]
async fn permissions_are_listed_and_the_first_answer_wins() {
    let server = Server::start().await;
    let s = server.create().await;
    for (answer, status, reply, resolved) in [
        (json!({"allow": true}), 204, "allowed", "allowed"),
        (json!({"allow": false, "reason": "not now"}), 204, "denied: not now", "denied"),
        (json!({"allow": true, "always": true}), 200, "allowed", "allowed"),
    ] {
        let mut events = server.events(&s, "", "").await;
        assert_eq!(at(&server, "POST", &s, "/prompt", r#"{"text":"ask"}"#).await.0, 202);
        let asked = events.until("permission_request").await.pop().unwrap();
        let pending = at(&server, "GET", &s, "/permissions", "").await.1;
        let request = &pending["permissions"][0];
        assert_eq!(request["request_id"], asked.data["request_id"]);
        assert_eq!((&request["tool"], &request["title"]), (&json!("bash"), &json!("ls")));
        let all = server.call("GET", "/v1/permissions", "").await.json();
        assert_eq!(all["permissions"][0]["session"], json!(s));
        assert_eq!(at(&server, "GET", &s, "", "").await.1["permissions"], pending["permissions"]);

        let path = format!("/permissions/{}", request["request_id"].as_str().unwrap());
        assert_eq!(at(&server, "POST", &s, "/permissions/none", &answer.to_string()).await.0, 404);
        let (told, body) = at(&server, "POST", &s, &path, &answer.to_string()).await;
        assert_eq!(told, status, "{body}");
        if status == 200 {
            assert_eq!((&body["allowed"], body["persisted"].is_boolean()), (&json!(true), true), "{body}");
        }
        assert_eq!(at(&server, "POST", &s, &path, &answer.to_string()).await.0, 404, "answered already");
        let rest = events.until("status").await;
        let outcome = rest.iter().find(|event| event.kind == "permission_resolved").unwrap();
        assert_eq!((&outcome.data["outcome"], &outcome.data["by"]), (&json!(resolved), &json!("http")));
        assert_eq!(rest.iter().find(|event| event.kind == "final").unwrap().data["reply"], reply);
    }
    server.end().await;
}

#[tokio::test]
async fn tasks_are_listed_and_stopped() {
    let server = Server::start().await;
    let s = server.create().await;
    server.run(&s, "task").await;
    let tasks = at(&server, "GET", &s, "/tasks", "").await.1;
    let task = &tasks["tasks"][0];
    assert_eq!((&task["title"], &task["state"], task.get("ended")), (&json!("sleeps"), &json!("running"), None));
    let path = format!("/tasks/{}", task["id"].as_str().unwrap());
    let mut events = server.events(&s, "", "").await;
    assert_eq!(at(&server, "DELETE", &s, &path, "").await, (204, json!(null)));
    events.until("task_end").await;
    assert_eq!(at(&server, "GET", &s, "/tasks", "").await.1["tasks"][0]["state"], "stopped");
    assert_eq!(at(&server, "DELETE", &s, "/tasks/none", "").await.0, 404);
    server.end().await;
}

/// A client that waits for a run and goes away when the run has begun.
async fn wait_and_go(server: &Server, s: &str) -> support::Events {
    let mut events = server.events(s, "", "").await;
    let mut client = server.connect().await;
    let body = r#"{"text":"hold","wait":true}"#;
    let head = format!("POST /v1/sessions/{s}/prompt HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    client.write_all(request.as_bytes()).await.unwrap();
    events.until("user_message").await;
    events
}

#[tokio::test]
async fn a_run_outlives_the_client_that_waits_for_it() {
    let server = Server::start().await;
    let s = server.create().await;
    drop(wait_and_go(&server, &s).await);
    assert_eq!(at(&server, "GET", &s, "", "").await.1["busy"], true);
    assert_eq!(at(&server, "POST", &s, "/cancel", "").await.1["cancelled"], true);
    server.end().await;
}

#[tokio::test]
async fn a_run_ends_with_the_client_that_waits_for_it_where_that_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::of(support::config(), support::plane(home.path(), true), home).await;
    let s = server.create().await;
    let mut events = wait_and_go(&server, &s).await;
    let end = events.until("final").await.pop().unwrap();
    assert_eq!(end.data["stopped_reason"], "aborted");
    server.end().await;
}

#[tokio::test]
async fn a_panic_fails_its_request_alone() {
    let server = Server::start().await;
    for _ in 0..3 {
        let answer = server.call("POST", "/v1/sessions", r#"{"model":"puppet/panic"}"#).await;
        assert_eq!(answer.code(), "internal");
    }
    let s = server.create().await;
    assert_eq!(server.run(&s, "hi").await["text"], "hi");
    server.end().await;
}

#[tokio::test]
async fn a_fork_keeps_what_is_before_a_prompt_or_all_and_leaves_its_parent() {
    let server = Server::start().await;
    let s = server.create().await;
    server.run(&s, "one").await;
    server.run(&s, "two").await;
    let before = at(&server, "GET", &s, "/messages", "").await.1;
    at(&server, "DELETE", &s, "", "").await;
    for (body, kept, prompt) in
        [("", 4, json!(null)), (r#"{"at":2}"#, 2, json!("two")), (r#"{"at":0}"#, 0, json!("one"))]
    {
        let (status, fork) = at(&server, "POST", &s, "/fork", body).await;
        assert_eq!((status, &fork["prompt"], &fork["loaded"]), (201, &prompt, &json!(true)), "{body}");
        let id = fork["id"].as_str().unwrap();
        assert_ne!(id, s);
        let messages = at(&server, "GET", id, "/messages", "").await.1["messages"].as_array().unwrap().clone();
        assert_eq!(messages[..], before["messages"].as_array().unwrap()[..kept], "{body}");
    }
    for bad in [r#"{"at":1}"#, r#"{"at":99}"#, r#"{"at":-1}"#, r#"{"at":18446744073709551615}"#] {
        assert_eq!(at(&server, "POST", &s, "/fork", bad).await.0, 400, "{bad}");
    }
    assert_eq!(at(&server, "POST", "none", "/fork", "").await.0, 404);
    assert_eq!(at(&server, "GET", &s, "/messages", "").await.1, before);
    server.end().await;
}

#[tokio::test]
async fn history_is_summarised_taken_back_and_emptied() {
    let server = Server::start().await;
    let s = server.create().await;
    server.run(&s, "one").await;
    server.run(&s, "two").await;
    let (status, undone) = at(&server, "POST", &s, "/undo", "").await;
    assert_eq!((status, undone), (200, json!({"prompt": "two", "restored": [], "skipped": []})));
    assert_eq!(at(&server, "GET", &s, "/messages", "").await.1["messages"].as_array().unwrap().len(), 2);

    at(&server, "DELETE", &s, "", "").await;
    let (status, compacted) = at(&server, "POST", &s, "/compact", "").await;
    assert_eq!(status, 200, "{compacted}");
    assert!(compacted["before_tokens"].is_u64() && compacted["after_tokens"].is_u64(), "{compacted}");
    assert_eq!(at(&server, "GET", &s, "", "").await.1["loaded"], true, "a stored one is loaded");
    assert_eq!(at(&server, "POST", &s, "/clear", "").await, (200, json!({})));
    let messages = at(&server, "GET", &s, "/messages", "").await.1["messages"].as_array().unwrap().clone();
    let whys: Vec<_> = messages.iter().filter_map(|message| message["parts"][0].get("why")).collect();
    assert_eq!(whys, ["compact", "clear"], "{messages:?}");
    assert_eq!(at(&server, "POST", &s, "/undo", "").await.1["error"]["code"], "invalid");

    at(&server, "POST", &s, "/prompt", r#"{"text":"hold"}"#).await;
    for verb in ["/compact", "/undo", "/clear", "/fork"] {
        assert_eq!(at(&server, "POST", &s, verb, "").await.1["error"]["code"], "busy", "{verb}");
        assert_eq!(at(&server, "POST", "none", verb, "").await.0, 404, "{verb}");
    }
    server.end().await;
}

#[tokio::test]
async fn info_tells_the_directory_and_the_agents() {
    let server = Server::start().await;
    let info = server.call("GET", "/v1/info", "").await.json();
    assert_eq!(
        (&info["version"], &info["sandbox"]["kind"], &info["transports"]),
        (&json!("1.2.3"), &json!("none"), &json!(["http"]))
    );
    assert_eq!(info["cwd"], json!(server.home.path()));
    assert_eq!(
        (&info["agents"][0]["id"], &info["agents"][0]["capabilities"]["prompt"]),
        (&json!("puppet"), &json!(true))
    );
    let document = server.call("GET", "/v1/openapi.json", "").await.json();
    assert_eq!(document, triplane_protocol::larik::openapi("1.2.3").unwrap());
    server.end().await;
}

#[tokio::test]
async fn a_stop_lets_a_request_in_flight_have_its_answer() {
    let server = Server::start().await;
    let s = server.create().await;
    let (stop, plane) = (server.stop.clone(), server.plane.clone());
    let mut events = server.events(&s, "", "").await;
    let body = r#"{"text":"hold","wait":true}"#;
    let path = format!("/v1/sessions/{s}/prompt");
    let waiting = server.call("POST", &path, body);
    let stopping = async {
        events.until("user_message").await;
        stop.cancel();
        plane.shutdown(Duration::from_millis(200)).await;
    };
    let (answer, ()) = timeout(DEADLINE, async { tokio::join!(waiting, stopping) }).await.unwrap();
    assert_eq!((answer.status, &answer.json()["stopped_reason"]), (200, &json!("aborted")));
    assert!(!plane.detach(&id(&s), CloseReason::Explicit).await.unwrap());
    server.end().await;
}

#[tokio::test]
async fn a_cancel_of_a_run_that_is_over_reaches_no_later_one() {
    let server = Server::start().await;
    let s = server.create().await;
    let first = at(&server, "POST", &s, "/prompt", r#"{"text":"hi","wait":true}"#).await.1;
    let second = at(&server, "POST", &s, "/prompt", r#"{"text":"hold"}"#).await.1;
    let run = |told: &serde_json::Value| triplane_protocol::RunId::from(told["run_id"].as_str().unwrap());
    assert!(!server.plane.cancel_run(&id(&s), &run(&first)).await.unwrap());
    assert_eq!(at(&server, "GET", &s, "", "").await.1["busy"], true);
    assert!(server.plane.cancel_run(&id(&s), &run(&second)).await.unwrap());
    assert_eq!(at(&server, "GET", &s, "", "").await.1["busy"], false);
    server.end().await;
}

#[tokio::test]
async fn figures_tell_what_happened() {
    let server = Server::start().await;
    let s = server.create().await;
    let mut events = server.events(&s, "&after=1000", "").await;
    server.run(&s, "hi").await;
    events.until_idle().await;
    server.call("POST", &format!("/v1/sessions/{s}/prompt"), r#"{"text":"ask"}"#).await;
    events.until("permission_request").await;
    server.call("GET", "/v1/nope", "").await;
    assert_eq!(server.ask("GET", "/metrics", &[], "").await.code(), "unauthorized");
    let figures = server.call("GET", "/metrics", "").await;
    assert_eq!(figures.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = String::from_utf8(figures.body).unwrap();
    for line in [
        "triplane_sessions_loaded 1",
        "triplane_sessions_busy 1",
        "triplane_permissions_pending 1",
        "triplane_subscribers 1",
        "triplane_http_streams 1",
        "triplane_gaps_total 1",
        r#"triplane_runs_total{stopped_reason="completed"} 1"#,
        r#"triplane_runs_total{stopped_reason="aborted"} 0"#,
        r#"triplane_http_requests_total{method="POST",route="/v1/sessions",status="201"} 1"#,
        r#"triplane_http_requests_total{method="GET",route="/v1/sessions/{id}/events",status="200"} 1"#,
        r#"triplane_http_requests_total{method="GET",route="/metrics",status="401"} 1"#,
        r#"triplane_http_requests_total{method="",route="-",status="404"} 1"#,
    ] {
        assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
    }
    let figure = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("{name} in\n{text}"))
    };
    assert!(figure("triplane_events_total") > 5);
    assert!(figure(r#"triplane_store_append_seconds_count{acknowledged="true"}"#) >= 3, "two starts and an end");
    assert!(!text.contains(TOKEN) && !text.contains(&s));
    server.end().await;
}
