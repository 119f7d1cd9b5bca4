//! Lines. Clause: S01.

use super::{create, prompt};
use crate::{
    cases,
    cases::{FOREVER, STDIO},
    client::{
        rpc::{Pipe, Rpc},
        stdio::Lines,
    },
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::time::Duration;

cases! {
    "s01-blank-lines-and-crlf" on STDIO [S01] => blank_lines;
    "s01-lines-may-be-cut-anywhere" on STDIO [S01] => cut_anywhere;
    "s01-lines-end-at-lf-alone" on STDIO [S01] needs [Script] => lf_alone;
    "s01-byte-order-mark" on STDIO [S01] => byte_order_mark;
    "s01-a-line-over-16-mib-is-skipped" on STDIO [S01, C05] => too_long;
    "s01-a-line-just-under-16-mib-is-taken" on STDIO [S01] => just_fits;
    "s01-replies-do-not-wait-for-a-run" on STDIO [S01, S15] needs [Script] => interleaved;
    "s01-thousands-of-requests-without-reading" on STDIO [S01, C14] => without_reading;
    "s01-a-batch-is-one-line" on STDIO [S01, C02] => batch_line;
}

fn lines(rpc: &mut Rpc) -> Outcome<&mut Lines> {
    match rpc.pipe() {
        Pipe::Stdio(lines) => Ok(lines),
        Pipe::Ws(_) => Err(Stop::harness("sepia runs over lines")),
    }
}

/// A manifest request with this id.
fn request(id: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "manifest", "params": {"x": "é😀"}}).to_string()
}

async fn answered(rpc: &mut Rpc, id: &str) -> Outcome {
    let frame = rpc.take(&format!("answer to {id}"), |frame| frame.json.get("id") == Some(&json!(id))).await?;
    expect!(frame.json.get("result").is_some(), "{frame}");
    Ok(())
}

async fn blank_lines(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    lines(&mut rpc)?.bytes(format!("\n\r\n   \n\t\n{}\r\n\n{}\n", request("a"), request("b")).as_bytes()).await?;
    answered(&mut rpc, "a").await?;
    answered(&mut rpc, "b").await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn cut_anywhere(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    for byte in format!("{}\n", request("a")).as_bytes() {
        lines(&mut rpc)?.bytes(&[*byte]).await?;
        tokio::task::yield_now().await;
    }
    answered(&mut rpc, "a").await?;
    lines(&mut rpc)?.bytes(format!("{}\n{}\n", request("b"), request("c")).as_bytes()).await?;
    answered(&mut rpc, "b").await?;
    answered(&mut rpc, "c").await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn lf_alone(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    // serde_json writes these as they are; JSON allows all but the control characters to stand unescaped.
    let text = "a\u{2028}b\u{2029}c\u{85}d";
    let line =
        json!({"jsonrpc": "2.0", "id": "u", "method": "sessions.prompt", "params": prompt(&id, text)}).to_string();
    expect!(line.contains('\u{2028}') || line.contains("\\u2028"), "the line holds the separators");
    lines(&mut rpc)?.line(&line).await?;
    let frame = rpc.take("answer to u", |frame| frame.json.get("id") == Some(&json!("u"))).await?;
    expect_eq!(frame.json.text("/result/reply")?, text, "the text, echoed");
    Ok(())
}

async fn byte_order_mark(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    lines(&mut rpc)?.bytes(&[b"\xef\xbb\xbf", request("a").as_bytes(), b"\n"].concat()).await?;
    let first = rpc.next().await?;
    let refused = first.json.pointer("/error/code").and_then(Value::as_i64) == Some(-32700);
    expect!(refused || first.json.get("result").is_some(), "a BOM at the start → {first}, want an answer or -32700");
    lines(&mut rpc)?.bytes(&[b"\xef\xbb\xbf", request("b").as_bytes(), b"\n"].concat()).await?;
    let later = rpc.next().await?;
    expect_eq!(
        later.json.pointer("/error/code").and_then(Value::as_i64),
        Some(-32700),
        "a BOM on a later line → {later}"
    );
    lines(&mut rpc)?.line(&request("c")).await?;
    answered(&mut rpc, "c").await
}

/// Writes a line of this many bytes in pieces, as a pipe would take it.
async fn long_line(rpc: &mut Rpc, head: &str, bytes: usize, tail: &str) -> Outcome {
    let lines = lines(rpc)?;
    lines.bytes(head.as_bytes()).await?;
    let mut left = bytes - head.len() - tail.len();
    let piece = vec![b'a'; 1 << 20];
    while left > 0 {
        let take = left.min(piece.len());
        lines.bytes(piece.get(..take).unwrap_or_default()).await?;
        left -= take;
    }
    lines.bytes(tail.as_bytes()).await?;
    lines.bytes(b"\n").await
}

async fn too_long(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let rpc = &mut on.stdio()?;
    long_line(rpc, r#"{"jsonrpc":"2.0","id":"long","method":"manifest","params":{"x":""#, 40 << 20, r#""}}"#).await?;
    let frame = rpc.next().await?;
    let code = frame.json.pointer("/error/code").and_then(Value::as_i64);
    expect!(code.is_some(), "a line of 40 MiB → {frame}, want an error");
    expect_eq!(frame.json.get("id"), Some(&Value::Null), "the id of {frame}");
    lines(rpc)?.line(&request("after")).await?;
    answered(rpc, "after").await?;
    rpc.quiet(Duration::from_millis(50)).await
}

async fn just_fits(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let rpc = &mut on.stdio()?;
    long_line(rpc, r#"{"jsonrpc":"2.0","id":"fits","method":"manifest","params":{"x":""#, (16 << 20) - 1, r#""}}"#)
        .await?;
    answered(rpc, "fits").await
}

async fn interleaved(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let rpc = &mut on.stdio()?;
    let id = create(rpc, ctx).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    for _ in 0..3 {
        rpc.call("manifest", json!({})).await?;
    }
    while !rpc.call("sessions.cancel", json!({"id": id})).await?.flag("/cancelled")? {
        // The prompt may not have begun: both are on their way.
        tokio::task::yield_now().await;
    }
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the stop reason");
    Ok(())
}

async fn without_reading(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let rpc = &mut on.stdio()?;
    // The output is read by nobody while these are written, so the server has to hold back or to hold little.
    let many: String = (0..5000)
        .map(|n| format!("{}\n", json!({"jsonrpc": "2.0", "id": n.to_string(), "method": "manifest"})))
        .collect();
    let Pipe::Stdio(pipe) = rpc.pipe() else { return Err(Stop::harness("sepia runs over lines")) };
    let (mut seen, mut sent) = (vec![false; 5000], 0);
    let bytes = many.as_bytes();
    // Written in pieces, reading only once the server takes no more.
    while seen.contains(&false) {
        if sent < bytes.len() {
            let end = (sent + 4096).min(bytes.len());
            let piece = bytes.get(sent..end).unwrap_or_default();
            let taken = pipe.some_bytes(piece, Duration::from_millis(200)).await?;
            sent += taken;
            if taken > 0 {
                continue;
            }
        }
        let Some(crate::client::stdio::Line::Text(line)) = pipe.next(ctx.options.deadline).await? else {
            let missing = seen.iter().filter(|seen| !**seen).count();
            return Err(Stop::broke(format!(
                "{missing} of 5000 requests were not answered, {sent} of {} bytes taken",
                bytes.len()
            )));
        };
        let frame: Value = serde_json::from_str(&line).map_err(|err| Stop::broke(format!("{err}: {line}")))?;
        let id: usize =
            frame.text("/id")?.parse().map_err(|_| Stop::broke(format!("an id that was not sent: {line}")))?;
        match seen.get_mut(id) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Stop::broke(format!("answered twice: {line}"))),
        }
    }
    Ok(())
}

async fn batch_line(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let rpc = &mut on.stdio()?;
    lines(rpc)?.line(&format!("[{},{}]", request("a"), request("b"))).await?;
    let frame = rpc.next().await?;
    expect_eq!(frame.json.as_array().map(Vec::len), Some(2), "the answers of a batch in one line: {frame}");
    Ok(())
}
