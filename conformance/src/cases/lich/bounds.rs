//! Bounds on what one socket may cost: sizes declared and fragmented, large replies, readers that do not read.
//! Clauses: L23, C05, C14.

use crate::{
    cases,
    cases::WS,
    client::{
        rpc::{Pipe, Rpc},
        ws::{End, Got, Socket, frame_head},
    },
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::json;
use std::time::{Duration, Instant};

cases! {
    "l23-a-declared-length-is-refused-at-once" on WS [L23] => declared;
    "l23-one-byte-over-in-many-fragments" on WS [L23, C05] => many_fragments;
    "l23-a-message-that-never-ends" on WS [L23, C05] => never_ends;
    "l23-a-reply-over-1-mib-comes-whole" on WS [L23, L14] needs [Script] => large_reply;
    "c14-a-slow-reader-loses-nothing" on WS [C14, L16] needs [Script] => slow_reader;
    "c14-a-stalled-reader-is-cut-off" on WS [C14] needs [Process, Script] => cut_off_soon;
    "c14-a-stalled-reader-is-cut-off-after-30-s" on WS [C14] needs [Script, Slow] => cut_off_after_30_s;
}

/// The largest message that is taken.
const MIB: usize = 1 << 20;

fn socket(rpc: &mut Rpc) -> Outcome<&mut Socket> {
    match rpc.pipe() {
        Pipe::Ws(socket) => Ok(socket),
        Pipe::Stdio(_) => Err(Stop::harness("lich runs over sockets")),
    }
}

/// A frame that more may follow.
fn open_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = frame_head(opcode, payload.len() as u64);
    if let Some(first) = bytes.first_mut() {
        *first &= 0x7f;
    }
    bytes.extend_from_slice(payload);
    bytes
}

async fn declared(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut other = on.ws().await?;
    for length in [MIB as u64 + 1, 1 << 40, u64::MAX >> 1] {
        let mut rpc = on.ws().await?;
        // The head alone: nothing of the message ever comes.
        socket(&mut rpc)?.bytes(&frame_head(1, length)).await?;
        expect_eq!(rpc.end().await?, End::Close(1009), "how a socket ends that declares {} bytes", length);
        other.call("health", json!({})).await.of("C05")?;
    }
    Ok(())
}

async fn many_fragments(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut other = on.ws().await?;
    let mut rpc = on.ws().await?;
    let part = vec![b' '; MIB / 64];
    let mut bytes = open_frame(1, &part);
    for _ in 1..64 {
        bytes.extend(open_frame(0, &part));
    }
    bytes.extend(open_frame(0, b" "));
    socket(&mut rpc)?.bytes(&bytes).await?;
    expect_eq!(
        rpc.end().await?,
        End::Close(1009),
        "how a socket ends that sent 1 MiB and a byte in fragments, none the last"
    );
    other.call("health", json!({})).await.of("C05")?;
    Ok(())
}

async fn never_ends(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut other = on.ws().await?;
    let mut rpc = on.ws().await?;
    socket(&mut rpc)?.bytes(&open_frame(1, b" ")).await?;
    let part = open_frame(0, b"").repeat(10_000);
    // 48 MB of fragments that hold nothing. Whoever listens to all of them never closes.
    let mut end = None;
    for _ in 0..800 {
        socket(&mut rpc)?.bytes(&part).await?;
        if let Some(Got::End(ended)) = socket(&mut rpc)?.next(Duration::from_millis(1)).await? {
            end = Some(ended);
            break;
        }
    }
    expect_eq!(end, Some(End::Close(1009)), "how a socket ends whose message never does");
    other.call("health", json!({})).await.of("C05")?;
    Ok(())
}

async fn large_reply(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = rpc.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let text = format!("/repeat 6 {}", "é".repeat(200_000));
    let sent = rpc.send("prompt.submit", json!({"session_id": id, "text": text})).await?;
    // Pings while it is written: their pongs must not come between its bytes.
    for _ in 0..50 {
        socket(&mut rpc)?.bytes(&[frame_head(9, 4), b"ping".to_vec()].concat()).await?;
        rpc.call("health", json!({})).await?;
    }
    let reply = rpc.reply(sent).await?.ok()?.text("/reply")?;
    expect!(reply == "é".repeat(1_200_000), "a reply of 2.4 MB came as {} bytes", reply.len());
    Ok(())
}

/// Events and bytes enough to fill every buffer on the way, the system's own included.
const FLOOD: u32 = 60_000;

fn flood() -> String {
    format!("/repeat {FLOOD} {}", "x".repeat(300))
}

async fn slow_reader(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let mut slow = on.ws().await?;
    let id = slow.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let sent = slow.send("prompt.submit", json!({"session_id": id, "text": "/repeat 3000 word"})).await?;
    // It reads nothing for a while; all of this fits in the buffers that a socket has.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let reply = slow.reply(sent).await?.ok()?;
    expect_eq!(reply.text("/stopped_reason")?, "completed", "the run of a slow reader");
    let deltas = slow.arrived("event");
    let deltas = deltas.iter().filter(|frame| frame.json.pointer("/params/event/type") == Some(&json!("llm_delta")));
    expect_eq!(deltas.count(), 3000, "deltas");
    Ok(())
}

async fn cut_off_soon(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--stall-timeout-ms", "1500"]);
    let on = ctx.start(&launch).await?;
    stalled_reader(&on, Duration::from_millis(3500)).await
}

async fn cut_off_after_30_s(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    stalled_reader(&on, Duration::from_secs(33)).await
}

/// A reader that takes nothing for so long is cut off; others notice nothing.
async fn stalled_reader(on: &On, patience: Duration) -> Outcome {
    let mut stalled = on.ws().await?;
    let id = stalled.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    stalled.send("prompt.submit", json!({"session_id": id, "text": flood()})).await?;
    let mut other = on.ws().await?;
    let own = other.call("session.create", json!({"source": "conformance"})).await?.text("/session_id")?;
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < patience {
        let asked = Instant::now();
        let result = other.call("prompt.submit", json!({"session_id": own, "text": "x"})).await?;
        expect_eq!(result.text("/reply")?, "x", "the other socket's reply");
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    expect!(slowest < Duration::from_secs(2), "the other socket waited {slowest:?} for a prompt");
    // The run did not wait for its reader.
    let again = other.call("prompt.submit", json!({"session_id": id, "text": "x"})).await?;
    expect_eq!(again.text("/reply")?, "x", "the next prompt in the stalled reader's session");
    let end = socket(&mut stalled)?.end().await?;
    expect_eq!(end, End::Close(1013), "how the stalled reader's socket ends");
    Ok(())
}
