//! The exchange on each wire's page, run line by line against the real server; every frame is held against its row too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use serde_json::Value;
use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
};
use triplane_conformance::{
    Options, Stop, Target, Wire,
    client::{
        http::{Events, Http},
        rpc::Rpc,
    },
    ctx::Ctx,
};

/// Values that the server chose, by the name that the page has for them.
type Names = HashMap<String, Value>;

fn lines(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, block) = text.split_once("```exchange\n").expect("an exchange");
    let (block, _) = block.split_once("```").expect("its end");
    block.lines().map(str::to_owned).collect()
}

fn ctx(wire: Wire) -> Ctx {
    let program = Target::Spawn(PathBuf::from(env!("CARGO_BIN_EXE_triplane")));
    Ctx::new(&program, wire, &Options::default()).unwrap()
}

/// Puts in what is known by now.
fn fill(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("<{name}>"), value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str())
    })
}

/// Whether a value is what the page shows; names are taken the first time.
fn fits(shown: &Value, got: &Value, names: &mut Names) -> bool {
    match (shown, got) {
        (Value::String(text), _) if text.starts_with('<') && text.ends_with('>') => {
            let name = text[1..text.len() - 1].to_owned();
            *names.entry(name).or_insert_with(|| got.clone()) == *got
        }
        (Value::Object(shown), Value::Object(got)) => {
            let whole = !shown.contains_key("…");
            let told = shown.iter().filter(|(name, _)| *name != "…");
            let all = told.clone().all(|(name, value)| got.get(name).is_some_and(|got| fits(value, got, names)));
            all && (!whole || told.count() == got.len())
        }
        (Value::Array(shown), Value::Array(got)) => {
            shown.len() == got.len() && shown.iter().zip(got).all(|(shown, got)| fits(shown, got, names))
        }
        (shown, got) => shown == got,
    }
}

fn hold(line: &str, got: &Value, names: &mut Names) {
    let shown: Value = serde_json::from_str(line).unwrap_or_else(|err| panic!("{err}: {line}"));
    assert!(fits(&shown, got, names), "the page says\n  {line}\nthe server said\n  {got}\nnames: {names:?}");
}

#[test]
fn what_is_shown_fits_only_what_it_says() {
    let check = |shown: &str, got: &str| {
        let mut names = Names::new();
        fits(&serde_json::from_str(shown).unwrap(), &serde_json::from_str(got).unwrap(), &mut names)
    };
    assert!(check(r#"{"a":"<x>","b":["<x>"]}"#, r#"{"a":1,"b":[1]}"#));
    assert!(!check(r#"{"a":"<x>","b":["<x>"]}"#, r#"{"a":1,"b":[2]}"#));
    assert!(!check(r#"{"a":1}"#, r#"{"a":1,"b":2}"#));
    assert!(check(r#"{"a":1,"…":"…"}"#, r#"{"a":1,"b":2}"#));
    assert!(!check(r#"{"a":1,"…":"…"}"#, r#"{"b":2}"#));
    assert!(!check(r#"[1]"#, r#"[1,2]"#));
}

#[tokio::test]
async fn lich() {
    rpc(Wire::Ws, "wire-lich.md").await.unwrap();
}

#[tokio::test]
async fn sepia() {
    rpc(Wire::Stdio, "wire-sepia.md").await.unwrap();
}

async fn rpc(wire: Wire, page: &str) -> Result<(), Stop> {
    let mut ctx = ctx(wire);
    let mut on = ctx.serve().await?;
    let mut rpc = on.rpc().await?;
    let mut names = Names::from([("cwd".to_owned(), ctx.work().to_str().unwrap().into())]);
    let mut events = VecDeque::new();
    for line in lines(page) {
        if let Some(line) = line.strip_prefix("→ ") {
            let request: Value = serde_json::from_str(&fill(line, &names)).unwrap();
            let params = request.get("params").cloned().unwrap_or_else(|| serde_json::json!({}));
            let id = rpc.send(request["method"].as_str().unwrap(), params).await?;
            assert_eq!(request["id"], id, "ids on the page count from 1");
        } else if let Some(line) = line.strip_prefix("← ") {
            let shown: Value = serde_json::from_str(line).unwrap();
            let got = match shown["method"].as_str() {
                Some(name) => notification(&mut rpc, name, &mut events).await?,
                None => serde_json::from_str(&rpc.reply(shown["id"].as_i64().unwrap()).await?.text).unwrap(),
            };
            hold(line, &got, &mut names);
        } else {
            panic!("{line}");
        }
    }
    Ok(())
}

/// The next notification, one event each.
async fn notification(rpc: &mut Rpc, name: &str, events: &mut VecDeque<Value>) -> Result<Value, Stop> {
    if events.is_empty() {
        let frame = rpc.notification(name).await?.json;
        match frame.pointer("/params/events").and_then(Value::as_array) {
            None => events.push_back(frame),
            Some(batch) => events.extend(batch.iter().map(|event| {
                let mut one = frame.clone();
                one["params"]["events"] = Value::Array(vec![event.clone()]);
                one
            })),
        }
    }
    Ok(events.pop_front().unwrap())
}

#[tokio::test]
async fn larik() {
    http().await.unwrap();
}

async fn http() -> Result<(), Stop> {
    let mut ctx = ctx(Wire::Http);
    let on = ctx.serve().await?;
    let http = on.http()?;
    let (mut names, mut stream, mut answer) = (Names::new(), None::<Events>, (0, Value::Null));
    for line in lines("wire-larik.md") {
        if let Some(line) = line.strip_prefix("→ ") {
            let line = fill(line, &names);
            if line.ends_with("/events") {
                stream = Some(http.events(line.trim_start_matches("GET "), &[]).await?);
                answer = (200, "text/event-stream".into());
            } else {
                answer = ask(&http, &line).await?;
            }
        } else if let Some(line) = line.strip_prefix("← ") {
            let (status, body) = line.split_once(' ').unwrap_or((line, "null"));
            assert_eq!(status, answer.0.to_string(), "{line}: {}", answer.1);
            let body = if body == "text/event-stream" { "\"text/event-stream\"" } else { body };
            hold(body, &answer.1, &mut names);
        } else if let Some((kind, data)) = line.strip_prefix("⇐ ").and_then(|line| line.split_once(' ')) {
            let fact = stream.as_mut().expect("a stream").fact().await?;
            assert_eq!(fact.kind, kind, "{}", fact.data);
            hold(data, &fact.data, &mut names);
        } else {
            panic!("{line}");
        }
    }
    Ok(())
}

async fn ask(http: &Http, line: &str) -> Result<(u16, Value), Stop> {
    let mut parts = line.splitn(3, ' ');
    let (verb, path) = (parts.next().unwrap(), parts.next().unwrap());
    let mut request = http.request(verb, path);
    if let Some(body) = parts.next() {
        request = request.json(&serde_json::from_str(body).unwrap());
    }
    let response = http.send(&request).await?;
    let body = if response.body.is_empty() { Value::Null } else { response.json()? };
    Ok((response.status, body))
}
