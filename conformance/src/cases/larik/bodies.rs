//! Paths, methods, bodies and what the server says of itself. Clauses: H01–H05, H27, C03, C15.

use super::Bag;
use crate::{
    cases,
    cases::HTTP,
    client::http::Request,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use triplane_protocol::{larik, rest::Kind};

cases! {
    "h01-flags-are-the-defaults-of-new-sessions" on HTTP [H01] needs [Process] => flags;
    "h02-every-row-but-health-needs-the-token" on HTTP [H02, C03] => every_row;
    "h02-events-take-the-token-in-the-query" on HTTP [H02] => query_token;
    "h03-a-body-is-json-whatever-its-type" on HTTP [H03] => whatever_type;
    "h04-health" on HTTP [H04, H02] => health;
    "h05-info" on HTTP [H05] => info;
    "h27-unknown-paths-and-methods" on HTTP [H27, C03] => paths;
    "h27-the-document-tells-what-is-served" on HTTP [H27, H05] => document;
    "h27-head-is-get-without-a-body" on HTTP [H27] => head;
    "h27-a-body-over-the-limit-is-413-unread" on HTTP [H27, C05] => too_large;
    "h27-bad-json-is-400-with-its-place" on HTTP [H27, C04] => bad_json;
    "h27-a-connection-is-kept-after-errors" on HTTP [H27] => kept;
    "c15-a-lone-surrogate-is-400-and-never-stored" on HTTP [C15] => surrogate;
    "h02-figures-are-behind-the-token" on HTTP [H02] needs [Script] => figures;
}

async fn flags(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--model", "script/echo", "--mode", "accept-edits", "--effort", "high"]);
    let on = ctx.start(&launch).await?;
    let http = on.http()?;
    let made = http.post("/v1/sessions", &json!({})).await?.want(201)?;
    for (pointer, want) in [("/model", "script/echo"), ("/mode", "accept-edits"), ("/effort", "high")] {
        expect_eq!(made.text(pointer)?, want, "{pointer} of a session that asked for nothing");
    }
    let made = http.post("/v1/sessions", &json!({"mode": "plan"})).await?.want(201)?;
    expect_eq!(made.text("/mode")?, "plan", "the mode of a session that asked for one");
    Ok(())
}

/// A path of a row with something in its braces.
fn filled(path: &str) -> String {
    path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/")
}

async fn every_row(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for row in larik::ROWS {
        let path = filled(row.path);
        let mut request = http.bare(row.verb.as_str(), &path);
        if row.body.is_some() {
            request = request.json(&json!({}));
        }
        let answer = http.send(&request).await?;
        if row.kind == Kind::Public {
            answer.want(200)?;
        } else {
            answer.fails(401, "unauthorized")?;
            expect!(answer.header("www-authenticate").is_some(), "{answer}: no WWW-Authenticate");
        }
    }
    http.send(&http.bare("GET", "/v1/nothing")).await?.fails(401, "unauthorized")?;
    Ok(())
}

async fn query_token(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let with = |path: &str| bag.http.bare("GET", &format!("{}?token={}", bag.path(path), bag.http.token));
    bag.http.stream(&with("/events")).await?;
    for path in ["", "/messages", "/tasks"] {
        bag.http.send(&with(path)).await?.fails(401, "unauthorized")?;
    }
    let wrong = bag.http.bare("GET", &bag.path("/events?token=nonsense"));
    bag.http.send(&wrong).await?.fails(401, "unauthorized")?;
    Ok(())
}

async fn whatever_type(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let kinds = ["application/x-www-form-urlencoded", "text/plain", "application/json", "nonsense"];
    for kind in kinds {
        let request = http.request("POST", "/v1/sessions").header("Content-Type", kind).json(&json!({"mode": "plan"}));
        expect_eq!(http.send(&request).await?.want(201)?.text("/mode")?, "plan", "with {kind}");
    }
    let untyped = http.request("POST", "/v1/sessions").json(&json!({"mode": "plan"}));
    expect_eq!(http.send(&untyped).await?.want(201)?.text("/mode")?, "plan", "without a type");
    Ok(())
}

async fn health(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for request in [http.bare("GET", "/v1/health"), http.request("GET", "/v1/health")] {
        let answer = http.send(&request).await?.want(200)?;
        expect_eq!(answer.text("/status")?, "ok", "status");
        expect!(!answer.text("/version")?.is_empty(), "an empty version");
    }
    Ok(())
}

async fn info(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let info = http.get("/v1/info").await?.want(200)?;
    let version = http.get("/v1/health").await?.want(200)?.text("/version")?;
    expect_eq!(info.text("/version")?, version, "version, as health tells it");
    expect!(info.list("/transports")?.contains(&json!("http")), "transports: {info}");
    expect!(!info.text("/node/id")?.is_empty(), "node.id: {info}");
    expect!(!info.list("/agents")?.is_empty(), "no agent: {info}");
    for pointer in ["/providers", "/sandbox"] {
        info.at(pointer)?;
    }
    if on.server.is_some() {
        let work = ctx.work().canonicalize().map_err(Stop::harness)?;
        expect_eq!(info.text("/cwd")?, work.to_string_lossy().into_owned(), "cwd");
    }
    Ok(())
}

async fn paths(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for path in ["/", "/v1", "/v2/health", "/v1/health/", "//v1/health", "/v1/sessions/", "/v1/sessions/a/b/c/d"] {
        http.get(path).await?.fails(404, "not_found")?;
    }
    for (method, path, allow) in [
        ("PUT", "/v1/sessions", "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/v1/health", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/sessions/x/prompt", "POST, OPTIONS"),
        ("POST", "/v1/sessions/x", "GET, HEAD, PATCH, DELETE, OPTIONS"),
    ] {
        let answer = http.send(&http.request(method, path)).await?;
        answer.fails(405, "method_not_allowed")?;
        expect_eq!(words(answer.header("allow").unwrap_or_default()), words(allow), "Allow of {path}");
    }
    Ok(())
}

fn words(list: &str) -> BTreeSet<String> {
    list.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

async fn document(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let document = http.get("/v1/openapi.json").await?.want(200)?;
    expect!(document.text("/openapi")?.starts_with("3.1"), "not OpenAPI 3.1");
    let paths = document.at("/paths")?.as_object().cloned().unwrap_or_default();
    for row in larik::ROWS {
        let told = paths.get(row.path).and_then(|path| path.get(row.verb.as_str().to_lowercase()));
        expect!(told.is_some(), "the document does not tell {} {}", row.verb.as_str(), row.path);
    }
    for (path, methods) in paths {
        let mut want: BTreeSet<String> =
            methods.as_object().into_iter().flat_map(|all| all.keys()).map(|name| name.to_uppercase()).collect();
        if want.contains("GET") {
            want.insert("HEAD".into());
        }
        want.insert("OPTIONS".into());
        let answer = http.send(&http.request("OPTIONS", &filled(&path))).await?;
        answer.want(204)?;
        expect_eq!(words(answer.header("allow").unwrap_or_default()), want, "Allow of {path}, beside the document");
    }
    Ok(())
}

async fn head(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for path in ["/v1/health", "/v1/sessions", "/v1/nothing"] {
        let mut conn = http.conn().await?;
        let get = conn.send(&http.request("GET", path)).await?;
        let head = conn.send(&http.request("HEAD", path)).await?;
        expect_eq!(head.status, get.status, "HEAD {path}");
        for name in ["content-type", "content-length"] {
            expect_eq!(head.header(name), get.header(name), "{name} of HEAD {path}");
        }
        // A body after a HEAD would be read as the next response.
        conn.send(&http.request("GET", "/v1/health")).await?.want(200)?;
    }
    Ok(())
}

async fn too_large(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let head = |length: &str| {
        let (addr, token) = (http.addr, &http.token);
        format!("POST /v1/sessions HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\n{length}\r\n\r\n")
    };
    // Told by its length: answered before a byte of it was sent.
    http.raw(head("Content-Length: 8388609").as_bytes()).await?.fails(413, "too_large")?;
    // Found out while it comes.
    let mut chunked = head("Transfer-Encoding: chunked").into_bytes();
    let chunk = [b"100000\r\n".to_vec(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..9 {
        chunked.extend_from_slice(&chunk);
    }
    http.raw(&chunked).await?.fails(413, "too_large")?;
    // The limit itself is no excess.
    let mut body = b"{}".to_vec();
    body.resize(8 << 20, b' ');
    http.send(&http.request("POST", "/v1/sessions").body(body)).await?.want(201)?;
    Ok(())
}

async fn bad_json(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for body in ["{", "{\"mode\":}", "nonsense", "{} {}", "[1,", "\u{feff}{}"] {
        let answer = http.send(&http.request("POST", "/v1/sessions").body(body)).await?;
        let message = answer.fails(400, "invalid_params")?;
        expect!(message.contains("line") || message.contains("column"), "{answer}: no place");
    }
    for body in ["[]", "null", "7", "\"x\""] {
        http.send(&http.request("POST", "/v1/sessions").body(body)).await?.fails(400, "invalid_params")?;
    }
    let twice = http.request("POST", "/v1/sessions").body(r#"{"mode":"plan","mode":"default"}"#);
    let message = http.send(&twice).await?.fails(400, "invalid_params")?;
    expect!("C04": message.contains("mode"), "a key given twice is not named: {message}");
    Ok(())
}

async fn kept(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut conn = http.conn().await?;
    for (request, status) in [
        (http.request("GET", "/v1/nothing"), 404),
        (http.request("PUT", "/v1/health"), 405),
        (http.request("POST", "/v1/sessions").body("{"), 400),
        (http.bare("GET", "/v1/info"), 401),
        (http.request("GET", "/v1/health"), 200),
    ] {
        let answer: crate::client::http::Response = conn.send(&request).await?;
        expect_eq!(answer.status, status, "{answer}");
    }
    Ok(())
}

async fn surrogate(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    for text in [r#"{"text":"\ud800"}"#, r#"{"text":"\udc00x"}"#, r#"{"text":"\ud800\u0041"}"#] {
        let request: Request = bag.http.request("POST", &bag.path("/prompt")).body(text);
        bag.http.send(&request).await?.fails(400, "invalid_params")?;
    }
    expect_eq!(bag.said().await?, vec![], "the messages after prompts that were no text");
    let pair: Value = json!({"text": "\u{1f600}", "wait": true});
    expect_eq!(bag.post("/prompt", &pair, 200).await?.text("/text")?, "\u{1f600}", "a whole pair");
    Ok(())
}

async fn figures(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let bag = Bag::create(&on).await?;
    let _watching = bag.live().await?;
    bag.run("hello").await?;
    bag.http.send(&bag.http.bare("GET", "/metrics")).await?.fails(401, "unauthorized")?;
    let answer = bag.http.get("/metrics").await?;
    expect_eq!(answer.status, 200, "GET /metrics");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    for line in [
        "triplane_sessions_loaded 1",
        "triplane_sessions_busy 0",
        "triplane_subscribers 1",
        "triplane_runs_total{stopped_reason=\"completed\"} 1",
        "triplane_http_requests_total{method=\"POST\",route=\"/v1/sessions\",status=\"201\"} 1",
    ] {
        expect!(text.lines().any(|got| got == line), "no `{line}` in {text}");
    }
    expect!(!text.contains(&bag.http.token), "the token is in the figures");
    Ok(())
}
