//! Nothing that a client sends ends the process or harms another session. Clause: C05.

use crate::{
    case::Wire,
    cases,
    cases::{ALL, HTTP, STDIO, WS, say_after},
    client::{rpc::Pipe, ws::frame_head},
    ctx::Ctx,
    expect, expect_eq,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::json;
use std::time::Duration;

cases! {
    "c05-garbage-leaves-the-others-alone" on ALL [C05] needs [Process, Script] => garbage;
    "c05-malformed-http-is-400-and-closed" on HTTP [C05, H27] => malformed_http;
    "c05-half-a-request-is-not-waited-for-by-others" on HTTP [C05] => half_requests;
    "c05-broken-frames-close-one-socket" on WS [C05, L23] => broken_frames;
    "c05-bytes-that-are-no-utf8" on STDIO [C05, C02, S01] => no_utf8;
}

/// Bytes of no protocol at all, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state: u32 = 0x2545_f491;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        // A line of noise should end somewhere.
        if state.is_multiple_of(97) { b'\n' } else { state.to_le_bytes()[0] }
    };
    (0..length).map(step).collect()
}

async fn garbage(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(Wire::ALL);
    let mut on = ctx.start(&launch).await?;
    let mut watcher = on.front_on(Wire::Http).await?;
    let session = watcher.create_session().await?;
    watcher.start(&session, &say_after(300, "fine")).await?;
    watcher.until(&session, "turn_start").await?;
    match ctx.wire {
        Wire::Ws => {
            let addr = on.ws_addr()?;
            for size in [1, 100, 100_000] {
                let mut raw = addr.http().conn().await?;
                raw.write(&noise(size)).await?;
                let mut socket = addr.open().await?;
                socket.bytes(&noise(size)).await?;
                drop((raw, socket));
            }
            on.ws().await?.call("health", json!({})).await?;
        }
        Wire::Http => {
            let http = on.http()?;
            for size in [1, 100, 100_000] {
                http.conn().await?.write(&noise(size)).await?;
            }
            http.get("/v1/health").await?.want(200)?;
        }
        Wire::Stdio => {
            let mut rpc = on.stdio()?;
            let Pipe::Stdio(lines) = rpc.pipe() else { return Err(Stop::harness("stdio is lines")) };
            lines.bytes(&noise(100_000)).await?;
            lines.bytes(b"\n").await?;
            rpc.call("manifest", json!({})).await?;
        }
    }
    let run = watcher.finish(&session).await?;
    expect_eq!(run.reply, "fine", "the other session's run");
    Ok(())
}

async fn malformed_http(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let host = http.addr;
    let head = format!("GET /v1/health HTTP/1.1\r\nHost: {host}\r\n");
    let post = format!("POST /v1/sessions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n", http.token);
    let texts = [
        "GET\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        format!("GET /v1/health HTTP/1.1\r\nHost : {host}\r\n\r\n"),
        format!("GET /v1/health HTTP/9.9\r\nHost: {host}\r\n\r\n"),
        format!("GET /v1/hea lth HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("{head}X\r\n\r\n"),
        format!("{head}X: a\0b\r\n\r\n"),
        format!("{post}Content-Length: +2\r\n\r\n{{}}"),
        format!("{post}Content-Length: -1\r\n\r\n"),
        format!("{post}Content-Length: 2, 2\r\n\r\n{{}}"),
        format!("{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}} "),
        format!("{post}Content-Length: 99999999999999999999\r\n\r\n"),
        format!("{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"),
    ];
    for text in texts {
        let mut conn = http.conn().await?;
        conn.write(text.as_bytes()).await?;
        let response = conn.response("GET", &format!("{text:?}")).await?;
        expect!(
            (400..500).contains(&response.status) || matches!(response.status, 501 | 505),
            "{response}, want a 4xx"
        );
        expect!(conn.closes().await?, "{response}: the connection stays open after a malformed request");
    }
    http.get("/v1/health").await?.want(200)?;
    Ok(())
}

async fn half_requests(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut held = Vec::new();
    for part in ["", "G", "GET /v1/health HTTP/1.1\r\n", "POST /v1/sessions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"]
        .repeat(20)
    {
        let mut conn = http.conn().await?;
        conn.write(part.as_bytes()).await?;
        held.push(conn);
    }
    http.get("/v1/health").await?.want(200)?;
    Ok(())
}

async fn broken_frames(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let addr = on.ws_addr()?;
    let mut other = on.ws().await?;
    let unmasked = vec![0x81, 0x02, b'{', b'}'];
    let reserved = vec![0xf1, 0x80, 0, 0, 0, 0];
    let unknown = frame_head(3, 0);
    let long_ping = [frame_head(9, 126), vec![0; 126]].concat();
    let continued = frame_head(0, 0);
    let bad_text = [frame_head(1, 1), vec![0xff]].concat();
    for bytes in [unmasked, reserved, unknown, long_ping, continued, bad_text] {
        let mut socket = addr.open().await?;
        socket.bytes(&bytes).await?;
        socket.end().await.map_err(|stop| match stop {
            Stop::Broke { clause, seen } => Stop::Broke { clause, seen: format!("after {bytes:02x?}: {seen}") },
            harness @ (Stop::Skip(_) | Stop::Harness(_)) => harness,
        })?;
        other.call("health", json!({})).await?;
    }
    // A length of 2^63 is refused before anything is set aside for it.
    let mut socket = addr.open().await?;
    socket.bytes(&frame_head(1, 1 << 63)).await?;
    socket.end().await.of("L23")?;
    other.call("health", json!({})).await?;
    Ok(())
}

async fn no_utf8(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let Pipe::Stdio(lines) = rpc.pipe() else { return Err(Stop::harness("stdio is lines")) };
    lines.bytes(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"manifest\xff\"}\n").await?;
    let frame = rpc.next().await?;
    expect_eq!(frame.json.pointer("/error/code").and_then(serde_json::Value::as_i64), Some(-32700), "{frame}");
    expect!(frame.json.get("id") == Some(&serde_json::Value::Null), "{frame}: the id is null");
    rpc.call("manifest", json!({})).await?;
    rpc.quiet(Duration::from_millis(50)).await
}
