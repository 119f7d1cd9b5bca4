//! Error codes and params, the same on all wires: unknown members ignored, wrong ones named, ids that are no ids refused.

use crate::{
    case::Wire,
    cases,
    cases::{HTTP, RPC},
    ctx::Ctx,
    expect,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};

cases! {
    "c03-unknown-session-is-not-found" on RPC [C03, L12, S15] => unknown_session;
    "c03-unknown-session-is-404" on HTTP [C03] => unknown_session_http;
    "c04-wrong-params-are-named" on RPC [C04] => wrong_params;
    "c04-wrong-body-is-named" on HTTP [C04, H03] => wrong_body;
    "c04-unknown-members-are-ignored" on RPC [C04] => unknown_members;
    "c16-ids-never-reach-a-path" on RPC [C16, L08] needs [Process] => hostile_ids;
    "c16-ids-in-a-url-never-reach-a-path" on HTTP [C16, H27] needs [Process] => hostile_ids_http;
}

/// An id that fits the grammar and names nothing.
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

async fn unknown_session(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.rpc().await?;
    let asks: Vec<(&str, Value)> = match ctx.wire {
        Wire::Ws => vec![("prompt.submit", json!({"session_id": NOBODY, "text": "x"}))],
        Wire::Http | Wire::Stdio => vec![
            ("sessions.get", json!({"id": NOBODY})),
            ("sessions.summary", json!({"id": NOBODY})),
            ("sessions.history", json!({"id": NOBODY})),
            ("sessions.attach", json!({"id": NOBODY})),
            ("sessions.prompt", json!({"id": NOBODY, "parts": [{"type": "text", "text": "x"}]})),
            ("sessions.cancel", json!({"id": NOBODY})),
            ("sessions.permission", json!({"id": NOBODY, "request": "r", "option": "allow_once"})),
            ("sessions.subscribe", json!({"id": NOBODY})),
        ],
    };
    for (method, params) in asks {
        rpc.fails(method, params, "not_found").await?;
    }
    Ok(())
}

async fn unknown_session_http(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let base = format!("/v1/sessions/{NOBODY}");
    for path in ["", "/messages", "/events", "/permissions", "/tasks"] {
        http.get(&format!("{base}{path}")).await?.fails(404, "not_found")?;
    }
    http.post(&format!("{base}/prompt"), &json!({"text": "x"})).await?.fails(404, "not_found")?;
    http.post(&format!("{base}/cancel"), &json!({})).await?.fails(404, "not_found")?;
    http.post(&format!("{base}/permissions/r"), &json!({"allow": true})).await?.fails(404, "not_found")?;
    http.patch(&base, &json!({"mode": "plan"})).await?.fails(404, "not_found")?;
    http.delete(&base).await?.fails(404, "not_found")?;
    Ok(())
}

async fn wrong_params(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.rpc().await?;
    let asks: Vec<(&str, Value, &str)> = match ctx.wire {
        Wire::Ws => vec![
            ("session.create", json!({}), "source"),
            ("session.create", json!({"source": 1}), "source"),
            ("session.create", json!({"source": "x", "label": []}), "label"),
            ("prompt.submit", json!({"text": "x"}), "session_id"),
            ("prompt.submit", json!({"session_id": NOBODY, "text": ["x"]}), "text"),
            ("prompt.submit", json!({"session_id": NOBODY}), "text"),
            ("prompt.submit", json!({"session_id": NOBODY, "text": ""}), "text"),
            ("prompt.abort", json!({"session_id": null}), "session_id"),
        ],
        Wire::Http | Wire::Stdio => vec![
            ("sessions.create", json!({}), "cwd"),
            ("sessions.create", json!({"cwd": 1}), "cwd"),
            ("sessions.attach", json!({}), "id"),
            ("sessions.attach", json!({"id": 1}), "id"),
            ("sessions.list", json!({"withLocks": "yes"}), "withLocks"),
            ("sessions.prompt", json!({"id": NOBODY, "parts": "x"}), "parts"),
            ("sessions.history", json!({"id": NOBODY, "limit": "x"}), "limit"),
        ],
    };
    for (method, params, field) in asks {
        let error = rpc.fails(method, params.clone(), "invalid_params").await?;
        expect!(
            error.message.contains(field),
            "{method} {params}: the message does not name `{field}`: {:?}",
            error.message
        );
    }
    Ok(())
}

async fn wrong_body(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let id = crate::json::Json::text(&http.post("/v1/sessions", &json!({})).await?.want(201)?, "/id")?;
    let base = format!("/v1/sessions/{id}");
    let asks = [
        ("/v1/sessions".to_owned(), json!({"mode": 1}), "mode"),
        ("/v1/sessions".to_owned(), json!({"mode": "nonsense"}), "mode"),
        ("/v1/sessions".to_owned(), json!({"effort": "nonsense"}), "effort"),
        (format!("{base}/prompt"), json!({}), "text"),
        (format!("{base}/prompt"), json!({"text": 1}), "text"),
        (format!("{base}/prompt"), json!({"text": "x", "wait": "yes"}), "wait"),
        (format!("{base}/permissions/r"), json!({"allow": "yes"}), "allow"),
        (format!("{base}/permissions/r"), json!({}), "allow"),
    ];
    for (path, body, field) in asks {
        let message = http.post(&path, &body).await?.fails(400, "invalid_params")?;
        expect!(message.contains(field), "POST {path} {body}: the message does not name `{field}`: {message:?}");
    }
    Ok(())
}

async fn unknown_members(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.rpc().await?;
    let asks: Vec<(&str, Value)> = match ctx.wire {
        Wire::Ws => vec![
            ("health", json!({"x": 1})),
            ("session.list", json!({"x": {"y": [1]}})),
            ("session.create", json!({"source": "x", "x": 1})),
        ],
        Wire::Http | Wire::Stdio => vec![("manifest", json!({"x": 1})), ("sessions.list", json!({"x": {"y": [1]}}))],
    };
    for (method, params) in asks {
        rpc.call(method, params).await?;
    }
    Ok(())
}

/// Ids that would leave the store if they were taken for names of files.
const HOSTILE: &[&str] =
    &["../x", "..", ".", "a/b", "a\\b", "/etc/passwd", "a\0b", "", "x.jsonl", "a\nb", "latest/../x", "‥/x"];

async fn hostile_ids(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let bait = ctx.work().join(".triplane").join("x.jsonl");
    std::fs::create_dir_all(ctx.work().join(".triplane")).map_err(Stop::harness)?;
    std::fs::write(&bait, "{}\n").map_err(Stop::harness)?;
    let mut rpc = on.rpc().await?;
    let long = "a".repeat(4096);
    for id in HOSTILE.iter().copied().chain([long.as_str()]) {
        let asks: Vec<(&str, Value)> = match ctx.wire {
            Wire::Ws => vec![
                ("prompt.submit", json!({"session_id": id, "text": "x"})),
                ("prompt.abort", json!({"session_id": id})),
            ],
            Wire::Http | Wire::Stdio => vec![
                ("sessions.get", json!({"id": id})),
                ("sessions.history", json!({"id": id})),
                ("sessions.attach", json!({"id": id})),
                ("sessions.prompt", json!({"id": id, "parts": [{"type": "text", "text": "x"}]})),
                ("sessions.subscribe", json!({"id": id})),
            ],
        };
        for (method, params) in asks {
            let reply = rpc.ask(method, params.clone()).await?;
            let code = reply.result.as_ref().err().and_then(|error| error.code.clone());
            let refused = matches!(code.as_deref(), Some("invalid_params" | "not_found"));
            // An abort of an id that could be one finds nothing to cancel.
            let nothing = reply.result.as_ref().is_ok_and(|result| result.get("aborted") == Some(&json!(false)));
            let fits = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
                && !id.starts_with('.');
            expect!(
                refused || nothing && fits && !id.is_empty(),
                "{method} {params} → {}, want invalid_params or not_found",
                reply.text
            );
        }
    }
    expect!(std::fs::read_to_string(&bait).is_ok_and(|text| text == "{}\n"), "a file outside of the store was changed");
    Ok(())
}

async fn hostile_ids_http(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for id in [
        "..%2fx",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "a%00b",
        "a%5cb",
        "%F0%9F%98%80",
        "%ff",
        "x.jsonl",
        "%0a",
        ".",
    ] {
        for suffix in ["", "/messages", "/events"] {
            let response = http.get(&format!("/v1/sessions/{id}{suffix}")).await?;
            expect!(matches!(response.status, 400 | 404), "{response}, want 404 or 400");
            response.json()?;
        }
    }
    Ok(())
}
