//! Frames, the upgrade, limits and the locked set of methods. Clauses: L01–L04, L22, L23.

use crate::{
    cases,
    cases::{WS, say_after},
    client::{
        rpc::{Pipe, Rpc},
        ws::{End, Socket},
    },
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::{Value, json};
use std::time::Duration;

cases! {
    "l01-binary-frames-close-with-1003" on WS [L01] => binary;
    "l01-one-message-a-text-frame" on WS [L01, C02] => one_message;
    "l02-exactly-seven-methods" on WS [L02] => seven_methods;
    "l03-health" on WS [L03] => health;
    "l04-params-may-be-absent" on WS [L04] => absent_params;
    "l22-a-plain-request-gets-426" on WS [L22] => plain_request;
    "l22-any-path" on WS [L22] => any_path;
    "l22-bad-handshakes-never-switch" on WS [L22] => bad_handshakes;
    "l22-no-extension-is-agreed" on WS [L22, L23] => no_extension;
    "l23-over-1-mib-closes-with-1009" on WS [L23, C05] needs [Script] => over_the_limit;
    "l23-just-under-1-mib-is-taken" on WS [L23] => under_the_limit;
    "l23-fragments-count-together" on WS [L23] => fragments;
    "l01-fragmented-text-is-one-message" on WS [L01] => fragmented;
    "l01-pings-are-answered" on WS [L01] => pings;
    "l22-closing-handshake" on WS [L22] => closing;
}

fn socket(rpc: &mut Rpc) -> Outcome<&mut Socket> {
    match rpc.pipe() {
        Pipe::Ws(socket) => Ok(socket),
        Pipe::Stdio(_) => Err(Stop::harness("lich runs over sockets")),
    }
}

async fn binary(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut other = on.ws().await?;
    let mut rpc = on.ws().await?;
    socket(&mut rpc)?.binary(br#"{"jsonrpc":"2.0","id":1,"method":"health"}"#).await?;
    expect_eq!(rpc.end().await?, End::Close(1003), "how a socket that sent a binary frame ends");
    expect!(rpc.unread().is_empty(), "a binary frame was answered");
    other.call("health", json!({})).await.of("C05")?;
    Ok(())
}

async fn one_message(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for text in [
        "",
        " ",
        "{}\n{}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"health\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"health\"}",
    ] {
        rpc.raw(text).await?;
        let frame = rpc.next().await?;
        expect_eq!(frame.json.pointer("/error/code").and_then(Value::as_i64), Some(-32700), "{text:?} → {frame}");
    }
    // White space around one message is JSON's own.
    rpc.raw(" \n{\"jsonrpc\":\"2.0\",\"id\":\"w\",\"method\":\"health\"}\r\n").await?;
    let frame = rpc.next().await?;
    expect!(frame.json.get("result").is_some(), "{frame}");
    Ok(())
}

async fn seven_methods(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for method in
        ["health", "session.create", "session.list", "session.clear", "session.resume", "prompt.submit", "prompt.abort"]
    {
        if let Err(error) = rpc.ask(method, json!({"session_id": 1, "id": 1})).await?.result {
            expect!(error.number != -32601, "{method} is not known: {}", error.message);
        }
    }
    for method in
        ["manifest", "sessions.list", "session.Create", "session.delete", "prompt", "health/", "event", "rpc.on", ""]
    {
        let reply = rpc.ask(method, json!({})).await?;
        expect!(reply.result.as_ref().is_err_and(|error| error.number == -32601), "{method:?} → {}", reply.text);
        expect!(reply.text.len() < 1000, "{method:?}: a long answer");
    }
    let reply = rpc.ask(&"x".repeat(10_000), json!({})).await?;
    expect!(reply.text.len() < 1000, "a long name is echoed whole: {} bytes", reply.text.len());
    Ok(())
}

async fn health(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let result = on.ws().await?.call("health", json!({})).await?;
    expect_eq!(result.text("/status")?, "ok", "the status");
    expect!(!result.text("/version")?.is_empty(), "an empty version: {result}");
    Ok(())
}

async fn absent_params(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for method in ["health", "session.list"] {
        rpc.raw(&json!({"jsonrpc": "2.0", "id": "a", "method": method}).to_string()).await?;
        let without = rpc.next().await?;
        expect!(without.json.get("result").is_some(), "{method} without params → {without}");
        let with = rpc.call(method, json!({})).await?;
        expect_eq!(without.json.get("result"), Some(&with), "{method} with and without params");
        // ◇ `null` and `[]` mean the same for both.
    }
    let mut outcomes = Vec::new();
    for params in [Value::Null, json!([])] {
        for method in ["health", "session.list"] {
            outcomes.push(rpc.ask(method, params.clone()).await?.result.map(drop).map_err(|error| error.number));
        }
    }
    expect!(
        outcomes.chunks(2).all(|pair| pair.first() == pair.last()),
        "null and [] are not the same to both: {outcomes:?}"
    );
    Ok(())
}

async fn plain_request(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let addr = on.ws_addr()?;
    for path in ["/", "/v1/health", "/x?y=1"] {
        let request = addr.http().bare("GET", path).header("x-lich-token", &addr.token);
        let response = addr.shake(&request).await?;
        expect_eq!(response.status, 426, "a plain request → {response}");
        let upgrade = response.header("upgrade").unwrap_or_default();
        expect!(upgrade.eq_ignore_ascii_case("websocket"), "{response}: Upgrade is {upgrade:?}");
        expect_eq!(response.json()?.text("/error/code").of("C03")?, "upgrade_required", "the code of {}", response.to);
    }
    Ok(())
}

async fn any_path(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut addr = on.ws_addr()?;
    for path in ["/", "/ws", "/a/b/c?x=y", "/v1/health"] {
        addr.path = path.to_owned();
        addr.open().await?;
    }
    Ok(())
}

async fn bad_handshakes(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let addr = on.ws_addr()?;
    let good = addr.upgrade("/").header("x-lich-token", &addr.token);
    let without = |name: &str| {
        let mut request = good.clone();
        request.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        request
    };
    let rows = [
        ("no version", without("sec-websocket-version"), None),
        ("version 8", without("sec-websocket-version").header("Sec-WebSocket-Version", "8"), Some(426)),
        ("no key", without("sec-websocket-key"), None),
        ("a short key", without("sec-websocket-key").header("Sec-WebSocket-Key", "AAAA"), None),
        ("another protocol", without("upgrade").header("Upgrade", "h2c"), Some(426)),
        (
            "a POST",
            {
                let mut request = good.clone();
                request.method = "POST".into();
                request
            },
            None,
        ),
    ];
    for (what, request, status) in rows {
        let response = addr.shake(&request).await?;
        expect!((400..500).contains(&response.status), "{what} → {response}, want a 4xx");
        if let Some(status) = status {
            expect_eq!(response.status, status, "{what} → {response}");
        }
        if what == "version 8" {
            expect_eq!(response.header("sec-websocket-version"), Some("13"), "the version that is offered");
        }
    }
    // The verdicts on the Host and the token come first.
    let mut request = without("sec-websocket-key");
    request.headers.retain(|(name, _)| name != "x-lich-token");
    expect_eq!(addr.shake(&request).await?.status, 401, "no key and no token");
    Ok(())
}

async fn no_extension(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let addr = on.ws_addr()?;
    let request = addr
        .upgrade("/")
        .header("x-lich-token", &addr.token)
        .header("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits");
    let response = addr.shake(&request).await?;
    expect_eq!(response.status, 101, "an offer of compression → {response}");
    expect_eq!(response.header("sec-websocket-extensions"), None, "the extensions that were agreed");
    expect!(response.header("set-cookie").is_none(), "a cookie");
    Ok(())
}

/// A health request of exactly this many bytes.
fn sized(bytes: usize) -> String {
    let head = r#"{"jsonrpc":"2.0","id":"big","method":"health","params":{"x":""#;
    let tail = r#""}}"#;
    format!("{head}{}{tail}", "a".repeat(bytes - head.len() - tail.len()))
}

async fn over_the_limit(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &say_after(500, "fine")).await?;
    for bytes in [(1 << 20) + 1, 4 << 20] {
        let mut rpc = on.ws().await?;
        rpc.raw(&sized(bytes)).await?;
        expect_eq!(rpc.end().await?, End::Close(1009), "how a socket that sent {bytes} bytes ends");
        expect!(rpc.unread().is_empty(), "a message over the limit was answered");
    }
    expect_eq!(front.finish(&session).await?.reply, "fine", "the run of another socket");
    Ok(())
}

async fn under_the_limit(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for bytes in [1 << 20, (1 << 20) - 1] {
        rpc.raw(&sized(bytes)).await?;
        let frame = rpc.next().await?;
        expect!(frame.json.get("result").is_some(), "a message of {bytes} bytes → {frame}");
    }
    Ok(())
}

/// A fragment: masked with zeros, not final.
fn fragment(opcode: u8, payload: &[u8], last: bool) -> Vec<u8> {
    let mut bytes = crate::client::ws::frame_head(opcode, payload.len() as u64);
    if let Some(first) = bytes.first_mut().filter(|_| !last) {
        *first &= 0x7f;
    }
    bytes.extend_from_slice(payload);
    bytes
}

async fn fragments(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let text = sized((1 << 20) + 1);
    let half = text.len() / 2;
    let (first, second) = text.as_bytes().split_at(half);
    let both = [fragment(1, first, false), fragment(0, second, true)].concat();
    socket(&mut rpc)?.bytes(&both).await?;
    expect_eq!(rpc.end().await?, End::Close(1009), "how a socket ends that sent 1 MiB and a byte in two fragments");
    Ok(())
}

async fn fragmented(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let text = r#"{"jsonrpc":"2.0","id":"é😀","method":"health"}"#.as_bytes();
    let mut bytes = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        bytes.extend(fragment(u8::from(at == 0), &[*byte], at + 1 == text.len()));
        if at == 10 {
            // A ping may stand between fragments.
            bytes.extend(crate::client::ws::frame_head(9, 0));
        }
    }
    socket(&mut rpc)?.bytes(&bytes).await?;
    let frame = rpc.next().await?;
    expect_eq!(frame.json.get("id"), Some(&json!("é😀")), "{frame}");
    Ok(())
}

async fn pings(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let ping = [crate::client::ws::frame_head(9, 4), b"ping".to_vec()].concat();
    socket(&mut rpc)?.bytes(&ping.repeat(1000)).await?;
    rpc.call("health", json!({})).await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn closing(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    for (payload, want) in [
        (vec![0x03, 0xe8], Some(End::Close(1000))),
        (vec![], None),
        (vec![0x03, 0xe7], Some(End::Close(1002))),
        (vec![0x03], Some(End::Close(1002))),
    ] {
        let mut rpc = on.ws().await?;
        let frame = [crate::client::ws::frame_head(8, payload.len() as u64), payload.clone()].concat();
        socket(&mut rpc)?.bytes(&frame).await?;
        let end = rpc.end().await?;
        if let Some(want) = want {
            expect_eq!(end, want, "the answer to a close of {payload:02x?}");
        }
    }
    on.ws().await?.call("health", json!({})).await.of("C05")?;
    Ok(())
}
