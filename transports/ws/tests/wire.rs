//! The methods of lich over a real plane, as a client sees them.
//! Clauses: L02–L06, L12–L20, C02, C09, C10. Faults: JR-01 to JR-14, CR-02 to CR-04, WS-09, SL-09.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "support/plane.rs"]
#[allow(unreachable_pub, dead_code, reason = "each test file uses its own part")]
mod plane;
#[allow(unreachable_pub, dead_code, reason = "each test file uses its own part")]
mod support;

use plane::Lich;
use serde_json::{Value, json};
use support::{Client, TOKEN, within};
use triplane_protocol::{AgentEvent, SessionId, Stop};

/// Replies of the given ids in the order in which they come.
async fn outcomes(client: &mut Client, count: usize) -> Vec<(Value, Value)> {
    let mut out = Vec::new();
    for _ in 0..count {
        let mut reply = client.reply().await;
        let outcome = match reply.get("result") {
            Some(result) => result.get("stopped_reason").or(result.get("aborted")).unwrap_or(result).clone(),
            None => reply["error"]["data"]["code"].take(),
        };
        out.push((reply["id"].take(), outcome));
    }
    out
}

#[tokio::test]
async fn the_ready_line_has_the_port_and_the_token() {
    let lich = Lich::start().await;
    assert_eq!(lich.ready, json!({"port": lich.address.port(), "token": TOKEN}));
    lich.end().await;
}

#[tokio::test]
async fn health_and_list_take_no_params_in_any_form() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    for params in ["", r#","params":{}"#, r#","params":{"x":1}"#] {
        for method in ["health", "session.list"] {
            client.send(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}"#)).await;
            assert!(client.reply().await.get("result").is_some(), "{method} {params}");
        }
    }
    assert_eq!(client.ask("health", json!({})).await.unwrap()["status"], "ok");
    for params in ["[]", "null", "\"x\""] {
        client.send(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"health","params":{params}}}"#)).await;
        assert_eq!(client.reply().await["error"]["code"], -32602, "{params}");
    }
    lich.end().await;
}

#[tokio::test]
async fn a_new_session_is_on_disk_and_in_the_list_before_its_reply() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let (first, second) = (client.create().await, client.create().await);
    for id in [&first, &second] {
        let path = lich.sessions.join(format!("{id}.jsonl"));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "{path:?}");
    }
    let listed = client.ask("session.list", json!({})).await.unwrap();
    let ids: Vec<&str> = listed["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&second, &first]);
    assert!(listed["sessions"][0]["mtime_ms"].as_i64().unwrap() > 1_600_000_000_000);
    lich.end().await;
}

#[tokio::test]
async fn a_submit_gives_all_events_in_order_and_then_its_reply() {
    let lich = Lich::start().await;
    let (mut client, mut other) = (lich.client().await, lich.client().await);
    let id = client.create().await;
    for round in 0..2 {
        client.submit(7, &id, "say 1000").await;
        let mut kinds = Vec::new();
        let mut deltas = Vec::new();
        let reply = loop {
            let message = client.json().await;
            if message.get("id").is_some() {
                break message;
            }
            assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!("event")));
            assert_eq!(message["params"]["session_id"], id.as_str());
            let event = &message["params"]["event"];
            match event["type"].as_str().unwrap() {
                "llm_delta" => deltas.push(event["text"].as_str().unwrap().parse::<usize>().unwrap()),
                kind => kinds.push(kind.to_owned()),
            }
        };
        assert_eq!(deltas, (0..1000).collect::<Vec<_>>(), "round {round}");
        assert_eq!(kinds, ["turn_start", "llm_end", "final"]);
        let result = &reply["result"];
        assert_eq!(result["reply"], "say 1000");
        assert_eq!(result["stopped_reason"], "completed");
        assert_eq!(result["turns_used"], 1);
        assert!(result["usage"].is_object() && result["run_id"].is_string());
        let path = std::path::Path::new(result["session_path"].as_str().unwrap());
        assert!(path.is_absolute() && path.ends_with(format!(".triplane/sessions/{id}.jsonl")), "{path:?}");
    }
    // The other socket heard nothing of it.
    other.request(1, "health", json!({})).await;
    assert_eq!(other.json().await["id"], 1);
    lich.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_submit_is_named() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    let rows = [
        (json!({"session_id": id, "text": ""}), "invalid_params", "text"),
        (json!({"session_id": id, "text": ["x"]}), "invalid_params", "text"),
        (json!({"text": "x"}), "invalid_params", "session_id"),
        (json!({"session_id": "../x", "text": "x"}), "invalid_params", "session_id"),
        (json!({"session_id": 5, "text": "x"}), "invalid_params", "session_id"),
        (json!({"session_id": "nobody", "text": "x"}), "not_found", "nobody"),
    ];
    for (params, code, named) in rows {
        let error = client.ask("prompt.submit", params).await.unwrap_err();
        assert_eq!(error["data"]["code"], code);
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
    let long = "x".repeat(1_048_000);
    let done = client.ask("prompt.submit", json!({"session_id": id, "text": long})).await.unwrap();
    assert_eq!(done["reply"].as_str().unwrap().len(), long.len());
    lich.end().await;
}

#[tokio::test]
async fn an_abort_reaches_the_run_and_the_submits_that_wait_behind_it_on_the_socket() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    client.submit(1, &id, "wait").await;
    client.until_event(&id).await;
    client.submit(2, &id, "two").await;
    client.request(4, "prompt.abort", json!({"session_id": id})).await;
    client.submit(5, &id, "five").await;
    let mut got = outcomes(&mut client, 4).await;
    let abort = got.iter().position(|(reply, _)| *reply == json!(4)).unwrap();
    assert_eq!(got.remove(abort).1, json!(true));
    let expected = [(json!(1), json!("aborted")), (json!(2), json!("cancelled")), (json!(5), json!("completed"))];
    assert_eq!(got, expected);
    let idle = client.ask("prompt.abort", json!({"session_id": id})).await.unwrap();
    assert_eq!(idle, json!({"session_id": id, "aborted": false}));
    let nobody = client.ask("prompt.abort", json!({"session_id": "nobody"})).await.unwrap();
    assert_eq!(nobody["aborted"], false);
    lich.end().await;
}

#[tokio::test]
async fn a_burst_of_submits_and_an_abort_needs_no_pause_in_between() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    client.submit(1, &id, "wait").await;
    client.submit(2, &id, "wait").await;
    client.request(3, "prompt.abort", json!({"session_id": id})).await;
    client.submit(4, &id, "four").await;
    let mut got = outcomes(&mut client, 4).await;
    let abort = got.iter().position(|(reply, _)| *reply == json!(3)).unwrap();
    assert_eq!(got.remove(abort).1, json!(true));
    let ends: Vec<&Value> = got.iter().map(|(_, outcome)| outcome).collect();
    assert!(*ends[0] == json!("aborted") || *ends[0] == json!("cancelled"), "{got:?}");
    assert_eq!(ends[1..], [&json!("cancelled"), &json!("completed")]);
    lich.end().await;
}

#[tokio::test]
async fn other_sessions_and_calls_that_name_none_do_not_wait_for_a_run() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let (a, b) = (client.create().await, client.create().await);
    client.submit("a1", &a, "wait").await;
    client.submit("a2", &a, "next").await;
    client.request("health", "health", json!({})).await;
    client.request("list", "session.list", json!({})).await;
    client.submit("b", &b, "hello").await;
    client.request("create", "session.create", json!({"source": "test"})).await;
    let mut first: Vec<Value> = outcomes(&mut client, 4).await.into_iter().map(|(id, _)| id).collect();
    first.sort_by_key(Value::to_string);
    assert_eq!(first, ["b", "create", "health", "list"]);
    lich.gate.add_permits(1);
    let last = outcomes(&mut client, 2).await;
    assert_eq!(last, [(json!("a1"), json!("completed")), (json!("a2"), json!("completed"))]);
    lich.end().await;
}

#[tokio::test]
async fn runs_of_one_session_go_one_after_another_over_two_sockets_and_an_abort_takes_only_its_own_waiters() {
    let lich = Lich::start().await;
    let (mut one, mut two) = (lich.client().await, lich.client().await);
    let id = one.create().await;
    one.submit(1, &id, "wait").await;
    one.until_event(&id).await;
    one.submit(2, &id, "mine waits").await;
    let aborted = two.ask("prompt.abort", json!({"session_id": id})).await.unwrap();
    assert_eq!(aborted["aborted"], true);
    let got = outcomes(&mut one, 2).await;
    assert_eq!(got, [(json!(1), json!("aborted")), (json!(2), json!("completed"))]);
    lich.end().await;
}

#[tokio::test]
async fn a_run_goes_on_without_its_connection_and_ends_with_it_where_that_is_set() {
    for abort in [false, true] {
        let lich = Lich::with(|plane, _| plane.abort_on_disconnect = abort).await;
        let mut client = lich.client().await;
        let id = client.create().await;
        let mut events = lich.plane.subscribe(&SessionId::parse(&id).unwrap()).await.unwrap();
        client.submit(1, &id, "wait").await;
        client.until_event(&id).await;
        drop(client);
        if !abort {
            lich.gate.add_permits(1);
        }
        let stopped = within(async {
            loop {
                for entry in events.next(64).await.entries {
                    if let AgentEvent::Final { stopped_reason, .. } = &entry.event {
                        return *stopped_reason;
                    }
                }
            }
        });
        assert_eq!(stopped.await, if abort { Stop::Aborted } else { Stop::Completed });
        lich.end().await;
    }
}

#[tokio::test]
async fn without_an_agent_prompts_say_so_and_the_rest_works() {
    let lich = Lich::without_agent().await;
    let mut client = lich.client().await;
    for method in ["prompt.submit", "prompt.abort"] {
        let error = client.ask(method, json!({"session_id": "s", "text": "x"})).await.unwrap_err();
        assert_eq!(error["data"]["code"], "no_agent", "{method}");
    }
    assert!(client.ask("session.list", json!({})).await.is_ok());
    lich.end().await;
}

#[tokio::test]
async fn json_rpc_is_followed_whole() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let rows = [
        ("{", "[-32700,null]"),
        ("1", "[-32600,null]"),
        ("[]", "[-32600,null]"),
        ("[1]", "[[-32600,null]]"),
        (r#"{"foo":"boo"}"#, "[-32600,null]"),
        (r#"{"jsonrpc":"2.0","id":3,"method":1}"#, "[-32600,3]"),
        (r#"{"jsonrpc":"1.0","id":3,"method":"health"}"#, "[-32600,3]"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"health"}"#, "[-32600,null]"),
        (r#"{"jsonrpc":"2.0","id":"1e2","method":"rpc.discover"}"#, "[-32601,\"1e2\"]"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompt.submit","params":{"session_id":"a","session_id":"b"}}"#,
            "[-32602,1]",
        ),
        ("[1,{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}]", "[[-32600,null],[-32601,1]]"),
    ];
    for (sent, expected) in rows {
        client.send(sent).await;
        let code = |reply: &Value| json!([reply["error"]["code"], reply["id"]]);
        let reply = client.json().await;
        let got = match reply.as_array() {
            Some(replies) => Value::Array(replies.iter().map(code).collect()),
            None => code(&reply),
        };
        assert_eq!(got.to_string(), expected, "{sent}");
    }
    // None of these is answered: the next reply is that of the request behind them.
    for silent in [
        r#"{"jsonrpc":"2.0","method":"health"}"#,
        r#"{"jsonrpc":"2.0","method":"nothing"}"#,
        r#"[{"jsonrpc":"2.0","method":"health"},{"jsonrpc":"2.0","method":"nothing"}]"#,
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
    ] {
        client.send(silent).await;
    }
    client.send(r#"{"jsonrpc":"2.0","id":1.50,"method":"health"}"#).await;
    assert!(client.text().await.contains("\"id\":1.50"));
    lich.end().await;
}

#[tokio::test]
async fn the_number_of_requests_that_wait_is_bounded_and_an_abort_still_gets_through() {
    let lich = Lich::with(|_, ws| ws.limits.queued_requests = 4).await;
    let mut client = lich.client().await;
    let id = client.create().await;
    for n in 0..6 {
        client.submit(n, &id, "wait").await;
    }
    let refused = outcomes(&mut client, 2).await;
    assert_eq!(refused, [(json!(4), json!("overloaded")), (json!(5), json!("overloaded"))]);
    client.request("abort", "prompt.abort", json!({"session_id": id})).await;
    let got = outcomes(&mut client, 5).await;
    assert!(got.contains(&(json!("abort"), json!(true))), "{got:?}");
    lich.end().await;
}

#[tokio::test]
async fn a_clear_leaves_the_bytes_and_waits_its_turn() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    let path = lich.sessions.join(format!("{id}.jsonl"));
    client.submit(1, &id, "wait").await;
    client.until_event(&id).await;
    client.request(2, "session.clear", json!({"session_id": id})).await;
    client.request(3, "session.list", json!({})).await;
    assert_eq!(client.reply().await["id"], 3);
    lich.gate.add_permits(1);
    let got = outcomes(&mut client, 2).await;
    assert_eq!(got, [(json!(1), json!("completed")), (json!(2), json!({"session_id": id}))]);
    let bytes = std::fs::read(&path).unwrap();
    client.ask("session.clear", json!({"session_id": id})).await.unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes);
    // A prompt after it is all that a resume then sees, beside the boundary.
    client.ask("prompt.submit", json!({"session_id": id, "text": "after"})).await.unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(&bytes));
    let error = client.ask("session.clear", json!({"session_id": "nobody"})).await.unwrap_err();
    assert_eq!(error["data"]["code"], "not_found");
    lich.end().await;
}

#[tokio::test]
async fn a_resume_forks_by_id_prefix_or_latest_and_leaves_the_original_alone() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    client.ask("prompt.submit", json!({"session_id": id, "text": "one"})).await.unwrap();
    let path = lich.sessions.join(format!("{id}.jsonl"));
    let bytes = std::fs::read(&path).unwrap();
    for name in ["latest", &id, &id[..id.len() - 1]] {
        let resumed = client.ask("session.resume", json!({"id": name, "source": "test"})).await.unwrap();
        let fork = resumed["session_id"].as_str().unwrap().to_owned();
        assert_ne!(fork, id);
        assert_eq!((&resumed["resumed_id"], &resumed["message_count"]), (&json!(id), &json!(2)), "{name}");
        let done = client.ask("prompt.submit", json!({"session_id": fork, "text": "two"})).await.unwrap();
        assert_eq!(done["reply"], "two");
        // The newest is the fork now; it goes, so that `latest` and the prefix mean the original again.
        std::fs::remove_file(lich.sessions.join(format!("{fork}.jsonl"))).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == bytes);
    for (wrong, code) in
        [("", "invalid_params"), ("../x", "invalid_params"), ("a\0b", "invalid_params"), ("zzz", "not_found")]
    {
        let error = client.ask("session.resume", json!({"id": wrong})).await.unwrap_err();
        assert_eq!(error["data"]["code"], code, "{wrong:?}");
    }
    lich.end().await;
}

#[tokio::test]
async fn the_bag_cap_lets_the_least_recently_used_one_go() {
    let lich = Lich::with(|_, ws| ws.max_session_bags = 2).await;
    let mut client = lich.client().await;
    let (first, second) = (client.create().await, client.create().await);
    client.ask("prompt.submit", json!({"session_id": first, "text": "used"})).await.unwrap();
    client.create().await;
    let evicted = client.ask("prompt.submit", json!({"session_id": second, "text": "x"})).await.unwrap_err();
    assert_eq!(evicted["data"]["code"], "not_found");
    assert!(client.ask("prompt.submit", json!({"session_id": first, "text": "x"})).await.is_ok());
    lich.end().await;
}

#[tokio::test]
async fn a_stop_lets_the_run_in_flight_answer_and_takes_no_more() {
    let lich = Lich::start().await;
    let mut client = lich.client().await;
    let id = client.create().await;
    client.submit(1, &id, "wait").await;
    client.until_event(&id).await;
    let ending = tokio::spawn(lich.end());
    let got = outcomes(&mut client, 1).await;
    assert_eq!(got, [(json!(1), json!("aborted"))]);
    assert_eq!(client.close_code().await, Some(1001));
    within(ending).await.unwrap();
}
