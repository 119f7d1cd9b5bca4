//! The server's own face: health, info, paths, verbs, bodies, limits and headers. Clauses: H02–H05, H27.

use super::create;
use crate::{
    cases,
    cases::HTTP,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, shorten},
};
use serde_json::{Value, json};

cases! {
    "h02-everything-but-health-needs-the-token" on HTTP [H02] => needs_token;
    "h02-events-take-the-token-in-the-query" on HTTP [H02] => token_in_query;
    "h03-any-content-type" on HTTP [H03] => any_content_type;
    "h03-no-body-is-an-empty-object" on HTTP [H03] => no_body;
    "h04-health" on HTTP [H04] => health;
    "h05-info" on HTTP [H05] => info;
    "h27-unknown-paths" on HTTP [H27] => unknown_paths;
    "h27-wrong-methods-tell-the-right-ones" on HTTP [H27] => wrong_methods;
    "h27-head-has-no-body" on HTTP [H27] => head;
    "h27-options" on HTTP [H27] => options;
    "h27-bad-json-is-400" on HTTP [H27, C03, C15] => bad_json;
    "h27-over-8-mib-is-413" on HTTP [H27, C05] => too_large;
    "h27-unknown-coding-is-415" on HTTP [H27] => unknown_coding;
    "c03-every-refusal-has-the-shape" on HTTP [C03, H27] => refusals;
    "h27-head-limits" on HTTP [H27, C05] => head_limits;
    "h27-keep-alive-and-pipelining" on HTTP [H27] => pipelining;
    "h27-smuggled-requests-are-not-run" on HTTP [H27, C05] needs [Fresh] => smuggled;
    "h27-a-short-body-runs-nothing" on HTTP [H27, C05] needs [Fresh] => short_body;
    "h27-answers-say-what-they-are" on HTTP [H27] => hygiene;
}

async fn needs_token(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    http.send(&http.bare("GET", "/v1/health")).await?.want(200)?;
    let paths = [
        "/v1/info",
        "/v1/sessions",
        "/v1/permissions",
        "/v1/openapi.json",
        "/v1/sessions/x",
        "/v1/sessions/x/events",
        "/v1/nope",
        "/",
    ];
    for path in paths {
        http.send(&http.bare("GET", path)).await?.fails(401, "unauthorized")?;
    }
    http.send(&http.bare("POST", "/v1/health")).await?.fails(401, "unauthorized")?;
    Ok(())
}

async fn token_in_query(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let events = format!("/v1/sessions/{id}/events");
    http.stream(&http.bare("GET", &format!("{events}?token={}", http.token))).await?;
    http.stream(&http.bare("GET", &format!("{events}?after=0&token={}", http.token))).await?;
    http.send(&http.bare("GET", &format!("{events}?token=x"))).await?.fails(401, "unauthorized")?;
    http.send(&http.bare("GET", &format!("/v1/sessions/{id}/messages?token={}", http.token)))
        .await?
        .fails(401, "unauthorized")?;
    Ok(())
}

async fn any_content_type(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for kind in [
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/json",
        "application/json; charset=utf-8",
        "nonsense",
    ] {
        let request = http.request("POST", "/v1/sessions").header("Content-Type", kind).json(&json!({"mode": "plan"}));
        let session = http.send(&request).await?.want(201)?;
        expect_eq!(session.text("/mode")?, "plan", "the mode of a session made with content type {kind}");
    }
    let session = http.post("/v1/sessions", &json!({"mode": "plan"})).await?.want(201)?;
    expect_eq!(session.text("/mode")?, "plan", "the mode of a session made without a content type");
    Ok(())
}

async fn no_body(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    http.send(&http.request("POST", "/v1/sessions")).await?.want(201)?;
    http.send(&http.request("POST", "/v1/sessions").body("")).await?.want(201)?;
    let id = create(&http).await?;
    http.send(&http.request("POST", &format!("/v1/sessions/{id}/cancel")).body("")).await?.want(200)?;
    Ok(())
}

async fn health(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let body = http.send(&http.bare("GET", "/v1/health")).await?.want(200)?;
    expect_eq!(body.text("/status")?, "ok", "the status");
    expect!(!body.text("/version")?.is_empty(), "an empty version");
    Ok(())
}

async fn info(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let info = on.http()?.get("/v1/info").await?.want(200)?;
    info.text("/version")?;
    for member in ["/providers", "/sandbox", "/agents", "/node/id", "/transports"] {
        info.at(member)?;
    }
    expect!(info.list("/transports")?.contains(&json!("http")), "transports: {info}");
    if on.server().is_ok() {
        let cwd = info.text("/cwd")?;
        let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        expect_eq!(real(cwd.as_ref()), real(&ctx.work()), "the cwd");
    }
    Ok(())
}

async fn unknown_paths(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for path in [
        "/",
        "/v1",
        "/v1/nope",
        "/v1/sessions/",
        "//v1//sessions",
        "/v1/./sessions",
        "/v2/sessions",
        "/V1/sessions",
        "/v1/sessions/a/nope",
        "/v1/sessions/a/b/c/d/e",
    ] {
        http.get(path).await?.fails(404, "not_found")?;
    }
    http.send(&http.bare("GET", "//v1/health")).await?.fails(401, "unauthorized")?;
    Ok(())
}

async fn wrong_methods(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let rows: &[(&str, &str, &[&str])] = &[
        ("PUT", "/v1/sessions", &["GET", "POST"]),
        ("DELETE", "/v1/sessions", &["GET", "POST"]),
        ("POST", "/v1/health", &["GET"]),
        ("PUT", "/v1/sessions/x", &["GET", "PATCH", "DELETE"]),
        ("POST", "/v1/sessions/x/events", &["GET"]),
        ("GET", "/v1/sessions/x/prompt", &["POST"]),
        ("GET", "/v1/sessions/x/cancel", &["POST"]),
        ("NONSENSE", "/v1/sessions", &["GET", "POST"]),
    ];
    for (method, path, allowed) in rows {
        let response = http.send(&http.request(method, path)).await?;
        response.fails(405, "method_not_allowed")?;
        let told = response.header("allow").unwrap_or_default().to_owned();
        for verb in *allowed {
            expect!(told.split(',').any(|one| one.trim() == *verb), "{response}: {verb} is not in Allow: {told:?}");
        }
    }
    Ok(())
}

async fn head(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut conn = http.conn().await?;
    for path in ["/v1/health", "/v1/info", "/v1/sessions"] {
        let got = conn.send(&http.request("GET", path)).await?;
        let head = conn.send(&http.request("HEAD", path)).await?;
        expect_eq!(
            (head.status, head.header("content-type")),
            (got.status, got.header("content-type")),
            "HEAD {}",
            path
        );
        expect!(head.body.is_empty(), "HEAD {path} has a body");
    }
    let missing = conn.send(&http.request("HEAD", "/v1/nope")).await?;
    expect_eq!(missing.status, 404, "HEAD of an unknown path");
    Ok(())
}

async fn options(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let response = http.send(&http.request("OPTIONS", "/v1/sessions")).await?;
    expect!(matches!(response.status, 200 | 204), "OPTIONS with a token → {response}");
    let told = response.header("allow").unwrap_or_default();
    expect!(told.contains("GET") && told.contains("POST"), "{response}: Allow is {told:?}");
    let response = http.send(&http.request("OPTIONS", "/v1/nope")).await?;
    expect_eq!(response.status, 404, "OPTIONS of an unknown path → {response}");
    Ok(())
}

async fn bad_json(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = create(&http).await?;
    let deep = "[".repeat(100_000);
    let bodies: Vec<Vec<u8>> = vec![
        b"{".to_vec(),
        b"nonsense".to_vec(),
        b"[]".to_vec(),
        b"1".to_vec(),
        b"null".to_vec(),
        b"{\"text\":\"hi\"".to_vec(),
        b"{\"text\":\"hi\"} x".to_vec(),
        b"{\"text\":\"hi\"}{}".to_vec(),
        b"{\"text\":\"a\",\"text\":\"b\"}".to_vec(),
        b"{\"text\":\"\xff\"}".to_vec(),
        b"{\"text\":\"\\ud800\"}".to_vec(),
        b"\xef\xbb\xbf{}x".to_vec(),
        format!("{{\"text\":{deep}").into_bytes(),
    ];
    for body in bodies {
        let response = http.send(&http.request("POST", &format!("/v1/sessions/{id}/prompt")).body(body)).await?;
        response.fails(400, "invalid_params")?;
    }
    expect_eq!(super::get(&http, &id).await?.int("/seq")?, 0, "events after bad bodies");
    Ok(())
}

async fn too_large(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let body = |bytes: usize| format!("{{\"title\":\"x\",\"pad\":\"{}\"}}", "a".repeat(bytes - 22));
    let limit = 8 << 20;
    http.send(&http.request("POST", "/v1/sessions").body(body(limit))).await?.want(201)?;
    http.send(&http.request("POST", "/v1/sessions").body(body(limit + 1))).await?.fails(413, "too_large")?;
    // Said beforehand, it is refused before anything is read.
    let head = format!("POST /v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n", http.addr, http.token);
    http.raw(format!("{head}Content-Length: 99999999999\r\n\r\n").as_bytes()).await?.fails(413, "too_large")?;
    // Not said, it is counted.
    let mut conn = http.conn().await?;
    conn.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await?;
    let chunk = [b"100000\r\n".to_vec(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..9 {
        conn.write(&chunk).await?;
    }
    conn.response("POST", "a chunked body without an end").await?.fails(413, "too_large")?;
    Ok(())
}

async fn unknown_coding(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for coding in ["gzip", "br", "nonsense"] {
        let request = http.request("POST", "/v1/sessions").header("Content-Encoding", coding).body("{}");
        http.send(&request).await?.fails(415, "unsupported_media")?;
    }
    http.send(&http.request("POST", "/v1/sessions").header("Content-Encoding", "identity").body("{}"))
        .await?
        .want(201)?;
    Ok(())
}

/// Also where the server never gets to see a request that it could answer.
async fn refusals(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let head = format!("GET /v1/health HTTP/1.1\r\nHost: {}\r\n", http.addr);
    let many: String = (0..300).map(|n| format!("X-{n}: y\r\n")).collect();
    for (text, statuses) in [
        ("nonsense\r\n\r\n".to_owned(), &[400][..]),
        (format!("{head}X : y\r\n\r\n"), &[400]),
        (format!("{head}X: a\0b\r\n\r\n"), &[400]),
        (format!("{head}Transfer-Encoding: xchunked\r\n\r\n"), &[400, 501]),
        (format!("{head}{many}\r\n"), &[400, 431]),
    ] {
        let mut conn = http.conn().await?;
        conn.write(text.as_bytes()).await?;
        let response = conn.response("GET", &shorten(&format!("{text:?}"))).await?;
        expect!(statuses.contains(&response.status), "{response}, want one of {statuses:?}");
        let kind = response.header("content-type").unwrap_or_default();
        expect!(kind.starts_with("application/json"), "{response}: content-type {kind:?}");
        let body = response.json()?;
        expect!(!body.text("/error/code")?.is_empty() && !body.text("/error/message")?.is_empty(), "{response}");
    }
    Ok(())
}

async fn head_limits(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let many = (0..300).fold(http.bare("GET", "/v1/health"), |request, n| request.header(&format!("X-{n}"), "y"));
    let long = http.bare("GET", "/v1/health").header("X", &"y".repeat(1 << 20));
    let path = http.bare("GET", &format!("/v1/health?{}", "x".repeat(1 << 20)));
    for (what, request) in [("300 headers", many), ("a header of 1 MiB", long), ("a path of 1 MiB", path)] {
        let response = http.send_raw(&request).await?;
        expect!(matches!(response.status, 400 | 414 | 431), "{what} → {response}");
    }
    let percent = http.request("GET", &format!("/v1/sessions/{}", "%25".repeat(5_000)));
    let response = http.send_raw(&percent).await?;
    expect!((400..500).contains(&response.status), "a long path of escapes → {response}");
    http.get("/v1/health").await?.want(200)?;
    Ok(())
}

async fn pipelining(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut conn = http.conn().await?;
    for _ in 0..3 {
        conn.send(&http.request("GET", "/v1/info")).await?.want(200)?;
        conn.send(&http.request("GET", "/v1/nope")).await?.fails(404, "not_found")?;
        conn.send(&http.request("POST", "/v1/sessions").json(&json!({}))).await?.want(201)?;
    }
    let one = format!("GET /v1/health HTTP/1.1\r\nHost: {}\r\n\r\n", http.addr);
    let other = format!("GET /v1/nope HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n", http.addr, http.token);
    conn.write(format!("{one}{other}").repeat(50).as_bytes()).await?;
    for _ in 0..50 {
        conn.response("GET", "pipelined health").await?.want(200)?;
        conn.response("GET", "pipelined nope").await?.fails(404, "not_found")?;
    }
    Ok(())
}

async fn smuggled(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let auth = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", http.addr, http.token);
    let hidden = format!("POST /v1/sessions HTTP/1.1\r\n{auth}Content-Length: 2\r\n\r\n{{}}");
    let texts = [
        format!("GET /v1/info HTTP/1.1\r\n{auth}Content-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!(
            "POST /v1/sessions/x/cancel HTTP/1.1\r\n{auth}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("GET /v1/nope HTTP/1.1\r\n{auth}Content-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("GET /v1/nope HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
    ];
    for text in texts {
        let mut conn = http.conn().await?;
        conn.write(text.as_bytes()).await?;
        conn.response("GET", "a request with another in its body").await?;
        let closed = conn.closes().await?;
        if !closed {
            // The connection stays, so the body was read as a body: the next request is the next answer.
            let next = http.request("GET", "/v1/health");
            conn.send(&next).await?.want(200)?;
        }
    }
    let listed = http.get("/v1/sessions").await?.want(200)?;
    expect_eq!(listed.list("/sessions")?.len(), 0, "sessions made by requests inside of bodies");
    Ok(())
}

async fn short_body(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let mut conn = http.conn().await?;
    let head = format!("POST /v1/sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n", http.addr, http.token);
    conn.write(format!("{head}Content-Length: 10\r\n\r\n{{}}").as_bytes()).await?;
    conn.half_close().await?;
    conn.closes().await?;
    let listed = http.get("/v1/sessions").await?.want(200)?;
    expect_eq!(listed.list("/sessions")?.len(), 0, "sessions made by half a request");
    Ok(())
}

async fn hygiene(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for request in [
        http.request("GET", "/v1/info"),
        http.request("GET", "/v1/nope"),
        http.bare("GET", "/v1/info"),
        http.request("GET", "/v1/sessions"),
    ] {
        let response = http.send(&request).await?;
        let kind = response.header("content-type").unwrap_or_default();
        expect!(kind.starts_with("application/json"), "{response}: content-type {kind:?}");
        expect_eq!(response.header("x-content-type-options"), Some("nosniff"), "sniffing of {response}");
        let cache = response.header("cache-control").unwrap_or_default();
        expect!(cache.contains("no-store"), "{response}: cache-control {cache:?}");
        expect!(response.json().unwrap_or(Value::Null).is_object(), "{response}: no object");
    }
    Ok(())
}
