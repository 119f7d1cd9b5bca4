//! The rows as one: the token before each, the document that tells them, and the figures of them. Clauses: H02, H05, H27.

use super::bag::Bag;
use crate::{cases, cases::HTTP, client::http::Response, ctx::Ctx, expect, expect_eq, json::Json, verdict::Outcome};
use serde_json::json;
use std::collections::BTreeSet;
use triplane_protocol::{larik, rest::Kind};

cases! {
    "h02-every-row-but-health-needs-the-token" on HTTP [H02, C03] => every_row;
    "h27-the-document-tells-what-is-served" on HTTP [H27, H05] => document;
    "h27-a-connection-is-kept-after-errors" on HTTP [H27] => kept;
    "h02-figures-are-behind-the-token" on HTTP [H02] needs [Script, Fresh] => figures;
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

/// A path of a row with something in its braces.
fn filled(path: &str) -> String {
    path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/")
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

fn words(list: &str) -> BTreeSet<String> {
    list.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
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
        let answer: Response = conn.send(&request).await?;
        expect_eq!(answer.status, status, "{answer}");
    }
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
