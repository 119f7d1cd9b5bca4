//! Lines, limits, back-pressure and ends: WF-01 to WF-11, and the JSON-RPC table over the transport.

mod support;

use serde_json::{Value, json};
use std::time::Duration;
use support::{Scene, code, prompt, within};
use tokio::io::AsyncWriteExt;
use triplane_stdio::Ended;

/// The replies to `bytes`, in short: `id` and `ok` or a code; a batch in brackets.
async fn replies(bytes: &[u8]) -> Vec<String> {
    let mut scene = Scene::start().await;
    scene.write(bytes).await;
    let (rest, ended) = scene.close().await;
    assert_eq!(ended, Ended::Eof);
    rest.iter().map(short).collect()
}

fn short(reply: &Value) -> String {
    if let Some(replies) = reply.as_array() {
        return format!("[{}]", replies.iter().map(short).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(reply["jsonrpc"], "2.0");
    match reply.get("error") {
        None => format!("{} ok", reply["id"]),
        Some(error) => format!("{} {}", reply["id"], error["code"]),
    }
}

#[tokio::test]
async fn lines_end_at_0x0a_and_what_is_no_message_is_told() {
    let good = r#"{"jsonrpc":"2.0","id":1,"method":"manifest"}"#;
    let table: Vec<(Vec<u8>, Vec<&str>)> = vec![
        (format!("{good}\n").into(), vec!["1 ok"]),
        (good.into(), vec!["1 ok"]),
        (format!("\n\r\n   \n{good}\r\n").into(), vec!["1 ok"]),
        (format!("{good}\n{good}\n").into(), vec!["1 ok", "1 ok"]),
        (format!("\u{feff}{good}\n{good}\n").into(), vec!["null -32700", "1 ok"]),
        (
            [&b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"manifest\xff\"}\n"[..], good.as_bytes()].concat(),
            vec!["null -32700", "1 ok"],
        ),
        (format!("{good}{good}\n{good}").into(), vec!["null -32700", "1 ok"]),
        ("{\"jsonrpc\":\"2.0\",\n\"id\":1}".into(), vec!["null -32700", "null -32700"]),
        (
            format!("[]\n[1]\n[{good},{{\"foo\":1}}]\n").into(),
            vec!["null -32600", "[null -32600]", "[1 ok null -32600]"],
        ),
        (r#"{"jsonrpc":"2.0","id":"x","method":"manifest\u0000"}"#.into(), vec!["\"x\" -32601"]),
        (r#"{"jsonrpc":"2.0","method":"nothing"}"#.into(), vec![]),
        (r#"{"jsonrpc":"2.0","method":"sessions.list"}"#.into(), vec![]),
        (r#"{"jsonrpc":"2.0","id":null,"method":"agents.list","params":{}}"#.into(), vec!["null ok"]),
        (r#"{"jsonrpc":"2.0","id":1e2,"method":"agents.list","params":{"x":1}}"#.into(), vec!["1e2 ok"]),
        (r#"{"jsonrpc":"2.0","id":1,"method":"agents.list","params":[]}"#.into(), vec!["1 -32602"]),
        (r#"{"jsonrpc":"2.0","id":1,"method":"sessions.get","params":{"id":"a","id":"b"}}"#.into(), vec!["1 -32602"]),
        (r#"{"jsonrpc":"2.0","id":1,"method":"sessions.get","params":{"id":"../x"}}"#.into(), vec!["1 -32602"]),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(), vec![]),
        (vec![], vec![]),
    ];
    for (bytes, expected) in table {
        let mut got = replies(&bytes).await;
        // Raw ids survive as text; a parsed 1e2 is told as 100.0.
        got.iter_mut().for_each(|reply| *reply = reply.replace("100.0", "1e2"));
        assert_eq!(got, expected, "{}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test]
async fn ids_go_back_byte_for_byte() {
    use tokio::io::AsyncBufReadExt;
    for id in ["-0", "1e2", "1.50", "18446744073709551617", r#""\u0041é""#, "null"] {
        let mut scene = Scene::start().await;
        scene.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"shutdown\"}}\n").as_bytes()).await;
        let mut line = String::new();
        within(scene.output.as_mut().unwrap().read_line(&mut line)).await.unwrap();
        assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
    }
}

#[tokio::test]
async fn text_with_every_line_end_but_0x0a_comes_back_unchanged() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\rg😀";
    let params = prompt(&id, text).to_string().replace("\\u000b", "\\u000B");
    // As raw as JSON lets it: the first three stand in the text themselves.
    assert!(params.contains('\u{2028}') && params.contains('\u{85}'));
    scene
        .write(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sessions.prompt\",\"params\":{params}}}\n").as_bytes(),
        )
        .await;
    assert_eq!(scene.reply().await["result"]["reply"], text);
}

#[tokio::test]
async fn one_byte_at_a_time_is_as_good() {
    let mut scene = Scene::start().await;
    for byte in "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"manifest\",\"params\":{\"x\":\"é😀\"}}\n".as_bytes() {
        scene.write(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(short(&scene.reply().await), "1 ok");
}

#[tokio::test]
async fn a_line_over_the_limit_is_refused_and_the_next_is_answered() {
    let mut scene = Scene::with(|_, config| config.limits.line_bytes = 1 << 20).await;
    let (mut input, long) = (scene.input.take().unwrap(), vec![b'a'; 4 << 20]);
    let feeder = tokio::spawn(async move {
        input.write_all(&long).await.unwrap();
        input.write_all(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"manifest\"}\n").await.unwrap();
        input
    });
    let refused = scene.reply().await;
    assert_eq!((short(&refused).as_str(), code(&refused["error"])), ("null -32600", "too_large"));
    assert_eq!(short(&scene.reply().await), "1 ok");
    within(feeder).await.unwrap();
}

#[tokio::test]
async fn a_client_that_writes_and_never_reads_is_waited_for_and_then_answered() {
    // Far more replies than all budgets and pipes together hold.
    let mut scene = Scene::with(|_, config| config.limits.reply_bytes = 64 << 10).await;
    let mut input = scene.input.take().unwrap();
    let feeder = tokio::spawn(async move {
        for id in 0..5000 {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"manifest\"}}\n");
            input.write_all(line.as_bytes()).await.unwrap();
        }
        input
    });
    // It stands still: neither side can go on.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!feeder.is_finished());
    for id in 0..5000 {
        assert_eq!(scene.reply().await["id"], id);
    }
    within(feeder).await.unwrap();
}

#[tokio::test]
async fn more_calls_than_the_budget_are_waited_for_and_all_answered() {
    let mut scene = Scene::with(|_, config| config.limits.calls = 2).await;
    let cwd = scene.cwd.clone();
    let ids: Vec<u64> = {
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(scene.request("sessions.create", json!({"cwd": cwd})).await);
        }
        ids
    };
    let mut answered = Vec::new();
    for _ in &ids {
        let reply = scene.reply().await;
        assert!(reply["result"]["id"].is_string(), "{reply}");
        answered.push(reply["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn reading_never_waits_for_a_run() {
    let mut scene = Scene::with(|_, config| config.limits.lasting_calls = 1).await;
    let id = scene.create().await;
    let running = scene.prompt(&id, "wait").await;
    let refused = scene.ask("sessions.prompt", prompt(&id, "more")).await.unwrap_err();
    assert_eq!(code(&refused), "overloaded");
    scene.ask("manifest", json!({})).await.unwrap();
    scene.gate.add_permits(1);
    let reply = scene.reply().await;
    assert_eq!((&reply["id"], &reply["result"]["reply"]), (&json!(running), &json!("wait")));
}

#[tokio::test]
async fn at_the_end_of_input_what_is_in_flight_is_answered() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    let running = scene.prompt(&id, "wait").await;
    let cwd = scene.cwd.clone();
    let made = scene.request("sessions.create", json!({"cwd": cwd})).await;
    let plane = scene.plane.clone();
    let (rest, ended) = scene.close().await;
    assert_eq!(ended, Ended::Eof);
    let reply =
        |id: u64| rest.iter().find(|reply| reply["id"] == id).unwrap_or_else(|| panic!("no reply to {id}: {rest:?}"));
    assert!(reply(made)["result"]["id"].is_string(), "{rest:?}");
    assert_eq!(reply(running)["result"]["stopReason"], "aborted");
    assert!(!plane.is_live(&triplane_protocol::SessionId::parse(&id).unwrap()));
}

#[tokio::test]
async fn a_run_may_end_within_the_grace() {
    let mut scene = Scene::with(|_, config| config.grace = Duration::from_secs(5)).await;
    let id = scene.create().await;
    let running = scene.prompt(&id, "wait").await;
    // Answered, so that the prompt has begun.
    scene.ask("manifest", json!({})).await.unwrap();
    let gate = scene.gate.clone();
    let plane = scene.plane.clone();
    tokio::spawn(async move {
        plane.closing().await;
        gate.add_permits(1);
    });
    let (rest, _) = scene.close().await;
    let reply = rest.iter().find(|reply| reply["id"] == running).unwrap();
    assert_eq!(reply["result"]["stopReason"], "completed");
}

#[tokio::test]
async fn a_closed_output_ends_the_wire_and_the_plane() {
    let mut scene = Scene::start().await;
    let id = scene.create().await;
    scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    scene.prompt(&id, "say 100000").await;
    scene.output = None;
    let plane = scene.plane.clone();
    assert_eq!(scene.ended().await, Ended::Broken);
    assert!(!plane.is_live(&triplane_protocol::SessionId::parse(&id).unwrap()));
}

#[tokio::test]
async fn an_output_that_nobody_reads_does_not_keep_the_end_away() {
    let mut scene = Scene::with(|_, config| config.limits.drain = Duration::from_millis(50)).await;
    let id = scene.create().await;
    scene.ask("sessions.subscribe", json!({"id": id})).await.unwrap();
    scene.prompt(&id, "say 5000").await;
    scene.stop.cancel();
    assert_eq!(scene.ended().await, Ended::Stopped);
}
