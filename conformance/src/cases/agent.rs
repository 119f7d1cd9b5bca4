//! The built-in agent behind a wire: the same conversation with the scripted model in process and over the protocol of each
//! provider, against the scripted model as an endpoint. Clauses: H18, H19, H20, H21, H25.

use crate::{
    cases,
    cases::{FOREVER, HTTP, tool, write},
    client::http::Http,
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

cases! {
    "h18-agent-in-process" on HTTP [H18, H19, H20, H21] needs [Process, Script] => in_process;
    "h18-agent-over-openai" on HTTP [H18, H19, H20, H21] needs [Process, Script] => openai;
    "h18-agent-over-openai-responses" on HTTP [H18, H19, H20, H21] needs [Process, Script] => openai_responses;
    "h18-agent-over-anthropic" on HTTP [H18, H19, H20, H21] needs [Process, Script] => anthropic;
    "h18-agent-over-gemini" on HTTP [H18, H19, H20, H21] needs [Process, Script] => gemini;
    "h18-agent-over-ollama" on HTTP [H18, H19, H20, H21] needs [Process, Script] => ollama;
    "h25-agents-share-a-provider" on HTTP [H25, H18] needs [Process, Script] => shared;
}

/// What stands for a key; it must not be seen anywhere.
const KEY: &str = "sk-conformance-secret";

async fn in_process(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    conversation(&mut on, "script/echo").await
}

async fn openai(ctx: &mut Ctx) -> Outcome {
    over(ctx, "openai", "OPENAI_BASE_URL", "OPENAI_API_KEY").await
}

async fn openai_responses(ctx: &mut Ctx) -> Outcome {
    over(ctx, "openai-responses", "OPENAI_BASE_URL", "OPENAI_API_KEY").await
}

async fn anthropic(ctx: &mut Ctx) -> Outcome {
    over(ctx, "anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY").await
}

async fn gemini(ctx: &mut Ctx) -> Outcome {
    over(ctx, "gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY").await
}

async fn ollama(ctx: &mut Ctx) -> Outcome {
    over(ctx, "ollama", "OLLAMA_HOST", "NOBODY_WANTS_A_KEY").await
}

/// The endpoint; killed when it is dropped.
async fn endpoint(ctx: &Ctx) -> Outcome<(Child, String)> {
    let mut command = Command::new(ctx.program()?);
    command.args(["script-model", "--port", "0"]).current_dir(ctx.work()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(Stop::harness)?;
    let stdout = child.stdout.take().ok_or_else(|| Stop::skip("the endpoint has no stdout"))?;
    let mut line = String::new();
    let mut reader = BufReader::new(stdout);
    timeout(ctx.options.deadline, reader.read_line(&mut line)).await.map_err(Stop::harness)?.map_err(Stop::harness)?;
    let ready: Value = serde_json::from_str(&line).map_err(Stop::harness)?;
    Ok((child, ready.text("/url")?))
}

async fn over(ctx: &mut Ctx, provider: &str, address: &str, key: &str) -> Outcome {
    let (_endpoint, url) = endpoint(ctx).await?;
    let model = format!("{provider}/echo");
    let launch = ctx.launch().args(["--model", model.as_str()]).env(address, &url).env(key, KEY);
    let mut on = ctx.start(&launch.env("TRIPLANE_LOG", "trace")).await?;
    let info = on.http()?.get("/v1/info").await?.want(200)?;
    let named = info.list("/providers")?.iter().any(|one| one.get("name") == Some(&json!(provider)));
    expect!(named, "info.providers does not name {provider}: {info}");
    conversation(&mut on, &model).await?;
    let log = on.server()?.stderr();
    expect!(!log.contains(KEY), "the key is in the log");
    Ok(())
}

async fn prompt(http: &Http, id: &str, text: &str) -> Outcome<Value> {
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": text, "wait": true})).await?.want(200)
}

/// Text, tools with and without a question, a failure and a cancel.
async fn conversation(on: &mut On, model: &str) -> Outcome {
    let http = on.http()?;
    let made = http.post("/v1/sessions", &json!({"model": model})).await?.want(201)?;
    let id = made.text("/id")?;
    let mut events = http.events(&format!("/v1/sessions/{id}/events"), &[]).await?;

    // Words come one by one, and are counted.
    let told = prompt(&http, &id, "/think hm\n/say hello big world").await?;
    expect_eq!(told.text("/text")?, "hello big world", "the reply");
    expect!(told.int("/usage/input")? > 0 && told.int("/usage/output")? > 0, "no tokens are counted: {told}");
    let facts = events.until("final").await?;
    let deltas: String =
        facts.iter().filter(|f| f.kind == "llm_delta").map(|f| f.data.text("/text")).collect::<Outcome<_>>()?;
    expect_eq!(deltas, "hello big world", "the deltas together");

    // A tool that asks; what it made is read by one that does not.
    let script = format!("{}\n{}", write("a.txt", "alpha"), tool("read", &json!({"path": "a.txt"})));
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": script})).await?.want(202)?;
    let asked = events.until("permission_request").await?;
    let request = asked.last().map(|fact| fact.data.text("/request_id")).transpose()?.unwrap_or_default();
    let answer = format!("/v1/sessions/{id}/permissions/{request}");
    http.post(&answer, &json!({"allow": true})).await?.want(204)?;
    let facts = events.until("final").await?;
    let ends: Vec<bool> =
        facts.iter().filter(|f| f.kind == "tool_call_end").map(|f| f.data.flag("/error")).collect::<Outcome<_>>()?;
    expect_eq!(ends, [false, false], "whether the calls failed");
    let text = facts.last().map(|fact| fact.data.text("/reply")).transpose()?.unwrap_or_default();
    expect!(text.ends_with("tool read: alpha"), "the model did not see what its tools answered: {text}");

    // What a model gets wrong is told to it.
    let told = prompt(&http, &id, &tool("nope", &json!({}))).await?;
    expect!(told.text("/text")?.contains("there is no tool `nope`"), "an unknown tool: {told}");
    events.until("final").await?;

    // A refusal ends the run with its status or text, and the session goes on.
    let told = prompt(&http, &id, "/fail 400").await?;
    expect_eq!(told.text("/stopped_reason")?, "error", "how a refused request ends");
    events.until("final").await?;

    // A cancel ends a request in flight.
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": FOREVER})).await?.want(202)?;
    events.until("llm_start").await?;
    http.post(&format!("/v1/sessions/{id}/cancel"), &json!({})).await?.want(200)?;
    let last = events.until("final").await?;
    let stop = last.last().map(|fact| fact.data.text("/stopped_reason")).transpose()?.unwrap_or_default();
    expect_eq!(stop, "aborted", "how a cancelled run ends");
    let told = prompt(&http, &id, "/say still here").await?;
    expect_eq!(told.text("/text")?, "still here", "the reply after all that");
    let seen = http.get(&format!("/v1/sessions/{id}/messages")).await?.want(200)?;
    expect!(!seen.to_string().contains(KEY), "the key is in the history");
    Ok(())
}

async fn shared(ctx: &mut Ctx) -> Outcome {
    let (_endpoint, url) = endpoint(ctx).await?;
    let launch = ctx.launch().args(["--model", "openai/echo"]).env("OPENAI_BASE_URL", &url).env("OPENAI_API_KEY", KEY);
    let on = ctx.start(&launch).await?;
    let http = on.http()?;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(http.post("/v1/sessions", &json!({})).await?.want(201)?.text("/id")?);
    }
    let all = ids.iter().enumerate().map(|(n, id)| {
        let http = &http;
        async move {
            let told = prompt(http, id, &format!("/sleep 50\n/say number {n}")).await?;
            expect_eq!(told.text("/text")?, format!("number {n}"), "the reply of session {n}");
            Ok(())
        }
    });
    futures_util::future::try_join_all(all).await?;
    Ok(())
}
