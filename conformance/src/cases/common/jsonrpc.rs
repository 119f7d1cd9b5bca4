//! JSON-RPC 2.0 as C02 reads it, the same on lich and sepia: the specification's own exchanges with our method names, ids,
//! batches, notifications, duplicate keys, depth and texts that are no JSON.

use crate::{
    case::Wire,
    cases,
    cases::{RPC, STDIO},
    client::rpc::{Frame, Rpc, read_reply},
    ctx::Ctx,
    expect, expect_eq,
    verdict::{Blame, Outcome, Stop, shorten},
};
use serde_json::{Value, json};

cases! {
    "c02-table-of-exchanges" on RPC [C02] => table;
    "c02-exchanges-have-the-same-verdicts-on-both-wires" on STDIO [C02] needs [Process] => agree;
    "c02-ids-come-back-as-they-were" on RPC [C02] => ids;
    "c02-notifications-are-never-answered" on RPC [C02] => notifications;
    "c02-batches" on RPC [C02] => batches;
    "c02-batch-caps" on RPC [C02] => batch_caps;
    "c02-a-key-given-twice-is-refused" on RPC [C02] => twice;
    "c02-depth-is-refused-not-fatal" on RPC [C02, C05] => depth;
    "c15-lone-surrogates-are-refused" on RPC [C15, C02] => surrogates;
    "c02-same-id-twice-gets-two-answers" on RPC [C02] => same_id;
    "c02-text-survives" on RPC [C02, C15] needs [Script] => text_survives;
}

/// A method that every plane answers, without params.
fn probe(wire: Wire) -> &'static str {
    if wire == Wire::Ws { "session.list" } else { "agents.list" }
}

/// Sends a text and ends the case unless its one answer is this error with this id.
async fn refused(rpc: &mut Rpc, wire: Wire, text: &str, id: &Value, number: i64) -> Outcome {
    let frame = answer(rpc, wire, text).await?;
    if number_of(&frame) != Some(number) || frame.json.get("id") != Some(id) {
        return Err(Stop::broke(format!("{} → {frame}, want {number} with id {id}", shorten(text))));
    }
    Ok(())
}

/// The number of an error answer.
fn number_of(frame: &Frame) -> Option<i64> {
    frame.json.pointer("/error/code").and_then(Value::as_i64)
}

/// The one frame that a text is answered with.
async fn answer(rpc: &mut Rpc, wire: Wire, text: &str) -> Outcome<Frame> {
    rpc.raw(text).await?;
    let frame = rpc.next().await.map_err(|stop| match stop {
        Stop::Broke { clause, seen } => Stop::Broke { clause, seen: format!("{} → {seen}", shorten(text)) },
        other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
    })?;
    match unasked(rpc, wire).await?.as_slice() {
        [] => Ok(frame),
        more => Err(Stop::broke(format!("{} → {frame}, and then {more:?}", shorten(text)))),
    }
}

/// The frames that came before the answer to a probe.
async fn unasked(rpc: &mut Rpc, wire: Wire) -> Outcome<Vec<Frame>> {
    rpc.ask(probe(wire), json!({})).await?.ok()?;
    Ok(rpc.unread())
}

/// Sends a text that needs no answer; the frames that it is answered with nevertheless.
async fn unanswered(rpc: &mut Rpc, wire: Wire, text: &str) -> Outcome<Vec<Frame>> {
    rpc.raw(text).await?;
    unasked(rpc, wire).await
}

/// The specification's exchanges, with a method of ours: text, id and number of the error.
fn exchanges(name: &str) -> Vec<(String, Value, i64)> {
    let none = Value::Null;
    vec![
        (r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#.into(), none.clone(), -32700),
        ("nonsense".into(), none.clone(), -32700),
        (r#"{"jsonrpc":"2.0","id":1"#.into(), none.clone(), -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"}{"jsonrpc":"2.0","id":2,"method":"x"}"#.into(), none.clone(), -32700),
        ("1".into(), none.clone(), -32600),
        (r#""text""#.into(), none.clone(), -32600),
        ("null".into(), none.clone(), -32600),
        ("true".into(), none.clone(), -32600),
        ("[]".into(), none.clone(), -32600),
        ("{}".into(), none.clone(), -32600),
        (r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#.into(), none.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":"a","method":1}"#.into(), json!("a"), -32600),
        (format!(r#"{{"id":5,"method":"{name}"}}"#), json!(5), -32600),
        (format!(r#"{{"jsonrpc":"1.0","id":6,"method":"{name}"}}"#), json!(6), -32600),
        (format!(r#"{{"jsonrpc":2.0,"id":7,"method":"{name}"}}"#), json!(7), -32600),
        (format!(r#"{{"jsonrpc":"2.0","id":{{}},"method":"{name}"}}"#), none.clone(), -32600),
        (format!(r#"{{"jsonrpc":"2.0","id":[1],"method":"{name}"}}"#), none.clone(), -32600),
        (format!(r#"{{"jsonrpc":"2.0","id":true,"method":"{name}"}}"#), none.clone(), -32600),
        (r#"{"jsonrpc":"2.0","id":"z","method":"foobar"}"#.into(), json!("z"), -32601),
        (r#"{"jsonrpc":"2.0","id":"z","method":"rpc.discover"}"#.into(), json!("z"), -32601),
        (format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name} "}}"#), json!("z"), -32601),
        (format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{}"}}"#, name.to_uppercase()), json!("z"), -32601),
        (format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}\u0000"}}"#), json!("z"), -32601),
    ]
}

async fn table(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    for (text, id, number) in &exchanges(name) {
        refused(&mut rpc, wire, text, id, *number).await?;
    }
    // Params by position fit no method; the specification leaves open which of the two codes says so.
    for params in ["[1]", "\"bar\"", "1"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","params":{params}}}"#);
        let frame = answer(&mut rpc, wire, &text).await?;
        expect!(matches!(number_of(&frame), Some(-32600 | -32602)), "{text} → {frame}, want -32602 or -32600");
    }
    // An extra member is ignored.
    let text = format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","foo":1}}"#);
    let frame = answer(&mut rpc, wire, &text).await?;
    expect!(frame.json.get("result").is_some(), "{text} → {frame}, want a result");
    // A stray answer is ignored.
    let stray = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    let frames = unanswered(&mut rpc, wire, stray).await?;
    let ignored = frames.iter().all(|frame| number_of(frame) == Some(-32600));
    expect!(ignored && frames.len() <= 1, "{stray} → {frames:?}, want silence or -32600");
    Ok(())
}

/// Answers that the table leaves some room have none here: both wires say the same.
async fn agree(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Stdio]);
    let mut on = ctx.start(&launch).await?;
    let (mut lines, mut frames) = (on.stdio()?, on.ws().await?);
    let (here, there) = (probe(Wire::Stdio), probe(Wire::Ws));
    let mut texts: Vec<String> = exchanges("NAME").into_iter().map(|(text, ..)| text).collect();
    for params in ["[1]", "\"bar\"", "1", "null", "[]"] {
        texts.push(format!(r#"{{"jsonrpc":"2.0","id":"z","method":"NAME","params":{params}}}"#));
    }
    texts.push(r#"{"jsonrpc":"2.0","id":"z","method":"NAME","params":{"x":1,"x":2}}"#.to_owned());
    for text in texts {
        // The upper case of a name is none of the names.
        let (asked_here, asked_there) = (text.replace("NAME", here), text.replace("NAME", there));
        let one = answer(&mut lines, Wire::Stdio, &asked_here).await?;
        let two = answer(&mut frames, Wire::Ws, &asked_there).await?;
        let verdict = |frame: &Frame| (number_of(frame), frame.json.get("id").cloned());
        expect_eq!(verdict(&one), verdict(&two), "{} over stdio, and over ws", asked_here);
    }
    Ok(())
}

async fn ids(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    for id in ["0", "-1", "1.5", "9007199254740993", "\"\"", "\"7\"", "\"é😀\"", "\"\\u0041\"", "null"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}","params":{{}}}}"#);
        let frame = answer(&mut rpc, wire, &text).await?;
        let want: Value = serde_json::from_str(id).map_err(Stop::harness)?;
        expect_eq!(frame.json.get("id").cloned().unwrap_or(json!("absent")), want, "the id of {}", frame);
        expect!(frame.json.get("result").is_some(), "{text} → {frame}, want a result");
        if want.is_number() {
            // The text, not the value alone: 1.5 must not come back as 1.50, nor a long number rounded.
            expect!(
                frame.text.contains(&format!("\"id\":{id}")) || frame.text.contains(&format!("\"id\": {id}")),
                "id {id} → {frame}"
            );
        }
    }
    Ok(())
}

async fn notifications(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    for text in [
        format!(r#"{{"jsonrpc":"2.0","method":"{name}","params":{{}}}}"#),
        r#"{"jsonrpc":"2.0","method":"no.such","params":{}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","method":"{name}","params":{{"limit":"x"}}}}"#),
        r#"{"jsonrpc":"2.0","method":"prompt.submit","params":{"text":1}}"#.to_owned(),
        format!(r#"[{{"jsonrpc":"2.0","method":"{name}"}},{{"jsonrpc":"2.0","method":"no.such"}}]"#),
    ] {
        let frames = unanswered(&mut rpc, wire, &text).await?;
        expect!(frames.is_empty(), "{text} → {frames:?}, want no answer");
    }
    Ok(())
}

/// The answers of a batch.
async fn batch(rpc: &mut Rpc, text: &str) -> Outcome<Vec<Value>> {
    rpc.raw(text).await?;
    let frame = rpc.next().await?;
    match frame.json {
        Value::Array(items) => Ok(items),
        _ => Err(Stop::broke(format!("{} → {frame}, want a batch", shorten(text)))),
    }
}

async fn batches(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    let outcome = |items: &[Value]| -> Vec<(Value, Option<i64>)> {
        let mut all: Vec<_> = items
            .iter()
            .map(|item| {
                (item.get("id").cloned().unwrap_or_default(), item.pointer("/error/code").and_then(Value::as_i64))
            })
            .collect();
        all.sort_by_key(|(id, code)| (id.to_string(), *code));
        all
    };
    let one = batch(&mut rpc, "[1]").await?;
    expect_eq!(outcome(&one), [(Value::Null, Some(-32600))], "[1]");
    let three = batch(&mut rpc, "[1,2,3]").await?;
    expect_eq!(outcome(&three), vec![(Value::Null, Some(-32600)); 3], "[1,2,3]");
    let mixed = format!(
        r#"[{{"jsonrpc":"2.0","method":"{name}","id":"1"}},{{"jsonrpc":"2.0","method":"{name}"}},{{"foo":"boo"}},{{"jsonrpc":"2.0","method":"no.such","id":"5"}},{{"jsonrpc":"2.0","method":"{name}","params":{{}},"id":"9"}}]"#
    );
    let items = batch(&mut rpc, &mixed).await?;
    let want = [(json!("1"), None), (json!("5"), Some(-32601)), (json!("9"), None), (Value::Null, Some(-32600))];
    expect_eq!(outcome(&items), want, "a mixed batch");
    let half = "[{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":\"1\"},{\"jsonrpc\":\"2.0\",\"method\"]";
    refused(&mut rpc, wire, half, &Value::Null, -32700).await?;
    refused(&mut rpc, wire, "[]", &Value::Null, -32600).await
}

async fn batch_caps(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let items = |count: usize| {
        let all: Vec<String> = (0..count)
            .map(|id| format!(r#"{{"jsonrpc":"2.0","id":"b{id}","method":"{}","params":{{}}}}"#, probe(wire)))
            .collect();
        format!("[{}]", all.join(","))
    };
    expect_eq!(batch(&mut rpc, &items(100)).await?.len(), 100, "answers to a batch of 100");
    rpc.raw(&items(101)).await?;
    let frame = rpc.next().await?;
    let refusal = frame.json.as_array().map_or(Some(&frame.json), |items| items.first().filter(|_| items.len() == 1));
    let code = refusal.and_then(|refusal| refusal.pointer("/error/code")).and_then(Value::as_i64);
    expect!(code.is_some(), "a batch of 101 → {frame}, want one error");
    Ok(())
}

async fn twice(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    for envelope in [
        format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","method":"{name}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","jsonrpc":"2.0","id":"z","method":"{name}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","params":{{}},"params":{{}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","m\u0065thod":"{name}"}}"#),
    ] {
        let frame = answer(&mut rpc, wire, &envelope).await?;
        expect_eq!(number_of(&frame), Some(-32600), "{envelope} → {frame}");
    }
    let (method, key) = if wire == Wire::Ws { ("prompt.abort", "session_id") } else { ("sessions.cancel", "id") };
    let text = format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{method}","params":{{"{key}":"a","{key}":"b"}}}}"#);
    refused(&mut rpc, wire, &text, &json!("z"), -32602).await?;
    let text = format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","params":{{"x":{{"y":1,"y":2}}}}}}"#);
    refused(&mut rpc, wire, &text, &json!("z"), -32602).await
}

async fn depth(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for text in [
        nested(100_000),
        "[".repeat(100_000),
        "{\"a\":".repeat(50_000),
        format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","params":{{"x":{}}}}}"#, nested(50_000)),
    ] {
        let frame = answer(&mut rpc, wire, &text).await.of("C05")?;
        expect!(
            matches!(number_of(&frame), Some(-32700 | -32600 | -32602)),
            "{} → {frame}, want an error",
            shorten(&text)
        );
    }
    Ok(())
}

async fn surrogates(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let name = probe(wire);
    for escape in [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud83d", r"\ude00\ud83d"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{name}","params":{{"x":"{escape}"}}}}"#);
        refused(&mut rpc, wire, &text, &Value::Null, -32700).await?;
    }
    Ok(())
}

async fn same_id(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let text = format!(r#"{{"jsonrpc":"2.0","id":"same","method":"{}","params":{{}}}}"#, probe(wire));
    rpc.raw(&text).await?;
    rpc.raw(&text).await?;
    for nth in ["first", "second"] {
        let frame = rpc.take("answer to id `same`", |frame| frame.json.get("id") == Some(&json!("same"))).await?;
        let reply = read_reply(&frame);
        expect!(
            reply.result.is_ok() || reply.result.is_err_and(|err| err.number == -32600),
            "the {nth} answer: {frame}"
        );
    }
    rpc.ask(probe(wire), json!({})).await?.ok()?;
    expect!(rpc.unread().is_empty(), "more than two answers to two requests");
    Ok(())
}

async fn text_survives(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let text = "\u{2028}\u{2029}\u{85}\u{b}\u{c}|\r|\u{1}\u{7f}\u{fffe}\u{10ffff}\u{feff}|é😀|\\ud800 as text|\"";
    let run = front.prompt(&session, text).await?;
    expect_eq!(run.reply, text, "the text, echoed");
    Ok(())
}
