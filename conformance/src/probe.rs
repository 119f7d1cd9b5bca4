//! Before any case: is there a server of the wire at all, and does a prompt reach the scripted model? What is dead, or only sends
//! back what it is sent, is given up on at once. Nothing here judges a clause.

use crate::{
    case::Wire,
    client::{
        rpc::Pipe,
        stdio::Line,
        ws::{End, Got},
    },
    ctx::{Ctx, On},
    lacks::Lacks,
    runner::Options,
    target::Target,
    verdict::{Stop, shorten},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long a server may take for its first answer: a command may be an interpreter that has to start.
const FIRST: Duration = Duration::from_secs(5);
/// How long the first prompt may take.
const PROMPT: Duration = Duration::from_secs(10);

/// Codes of a server that has nobody to answer a prompt (C03).
const AGENTLESS: &[&str] = &["\"no_agent\"", "\"unknown_agent\""];

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// What the server calls itself.
    pub server: String,
    /// Methods that it says it serves, where the wire has a way.
    pub methods: Option<Vec<String>>,
    /// Why prompts are not scripts here; `None` when they are.
    pub no_script: Option<String>,
}

/// Looks at a target. Errors: why it is no server of this wire, in one line for a person.
pub async fn probe(target: &Target, wire: Wire, options: &Options) -> Result<Found, String> {
    // What answers `unsupported` has said enough.
    let mut lenient = Lacks::default();
    lenient.by_answer = true;
    let options = Options { deadline: FIRST, lacks: Arc::new(lenient), ..options.clone() };
    let mut ctx = Ctx::new(target, wire, &options).map_err(plain)?;
    let mut on = ctx.serve().await.map_err(plain)?;
    let mut found = match wire {
        Wire::Ws => lich(&on).await?,
        Wire::Http => larik(&on).await?,
        Wire::Stdio => sepia(&mut on).await?,
    };
    drop(on);
    // A prompt that goes wrong in any other way is for the cases to judge.
    found.no_script = match timeout(PROMPT, script(&mut ctx)).await {
        Ok(Err(Stop::Skip(why))) => Some(why),
        Ok(Err(Stop::Broke { seen, .. })) if AGENTLESS.iter().any(|code| seen.contains(code)) => Some(seen),
        Ok(Ok(()) | Err(Stop::Broke { .. } | Stop::Harness(_))) | Err(_) => None,
    };
    Ok(found)
}

/// What a stop says, whatever it is.
fn plain(stop: Stop) -> String {
    match stop {
        Stop::Broke { seen, .. } => seen,
        Stop::Skip(what) | Stop::Harness(what) => what,
    }
}

async fn lich(on: &On) -> Result<Found, String> {
    let addr = on.ws_addr().map_err(plain)?;
    let at = addr.addr;
    let socket = addr.open().await.map_err(|stop| {
        let what = plain(stop);
        if what.contains("401") {
            format!("{what}: give the server's token with --token or $TRIPLANE_TOKEN")
        } else {
            what
        }
    })?;
    let mut pipe = Pipe::Ws(Box::new(socket));
    let health = greet(&mut pipe, "health", &format!("ws://{at}")).await?;
    Ok(Found { server: health.pointer("/result/version").map_or_else(String::new, shown), ..Found::default() })
}

async fn sepia(on: &mut On) -> Result<Found, String> {
    let lines = on.lines().map_err(plain)?;
    let mut pipe = Pipe::Stdio(Box::new(lines));
    let manifest = match greet(&mut pipe, "manifest", "the command").await {
        Ok(manifest) => manifest,
        Err(what) => {
            // Its last words, if it has ended.
            drop(pipe);
            let (status, stderr) = on.last_words().await;
            let status = status.map_or_else(String::new, |status| format!("; it ended with {status}"));
            let stderr = if stderr.is_empty() { stderr } else { format!("; its stderr: {stderr}") };
            return Err(format!("{what}{status}{stderr}"));
        }
    };
    let text = |pointer: &str| manifest.pointer(pointer).map_or_else(String::new, shown);
    let methods = manifest
        .pointer("/result/methods")
        .and_then(Value::as_array)
        .map(|methods| methods.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    Ok(Found { server: format!("{} {}", text("/result/name"), text("/result/version")), methods, no_script: None })
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Asks one thing: something with our id must come back, and it must not be our own text.
async fn greet(pipe: &mut Pipe, method: &str, who: &str) -> Result<Value, String> {
    let id = format!("probe-{}", std::process::id());
    let ask = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}).to_string();
    let sent = match pipe {
        Pipe::Ws(socket) => socket.text(&ask).await,
        Pipe::Stdio(lines) => lines.line(&ask).await,
    };
    sent.map_err(plain)?;
    let got = match pipe {
        Pipe::Ws(socket) => socket.next(FIRST).await,
        Pipe::Stdio(lines) => lines.next(FIRST).await.map(|line| {
            line.map(|line| match line {
                Line::Text(text) => Got::Text(text),
                Line::End => Got::End(End::Silent),
            })
        }),
    };
    let text = match got.map_err(plain)? {
        Some(Got::Text(text)) => text,
        Some(Got::End(_)) => return Err(format!("{who} ended the connection instead of answering `{method}`")),
        None => return Err(format!("{who} did not answer `{method}` within {FIRST:?}")),
    };
    if text.trim() == ask {
        return Err(format!("{who} only sends back what it is sent; that is no server of this wire"));
    }
    let json: Value = serde_json::from_str(&text)
        .map_err(|_| format!("{who} does not speak JSON-RPC: to `{method}` it said {:?}", shorten(&text)))?;
    let answers = json.get("id") == Some(&json!(id)) && (json.get("result").is_some() || json.get("error").is_some());
    if answers { Ok(json) } else { Err(format!("{who} does not answer `{method}`: {}", shorten(&text))) }
}

async fn larik(on: &On) -> Result<Found, String> {
    let mut http = on.http().map_err(plain)?;
    http.book = None;
    let health = http.get("/v1/health").await.map_err(plain)?;
    let body: Value = serde_json::from_slice(&health.body).unwrap_or_default();
    if health.status != 200 || body.get("status").is_none() {
        return Err(format!("no larik server: {health}"));
    }
    let info = http.get("/v1/info").await.map_err(plain)?;
    if info.status == 401 {
        return Err(format!("{info}: give the server's token with --token or $TRIPLANE_TOKEN"));
    }
    Ok(Found { server: body.get("version").map_or_else(String::new, shown), ..Found::default() })
}

/// Whether a prompt is a script: `/say` of a word is answered with the word.
async fn script(ctx: &mut Ctx) -> Result<(), Stop> {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let word = format!("probe-{}", std::process::id());
    let run = front.prompt(&session, &format!("/say {word}")).await?;
    if run.reply.trim() == word {
        return Ok(());
    }
    Err(Stop::skip(format!("`/say {word}` was answered with {:?}", shorten(&run.reply))))
}
