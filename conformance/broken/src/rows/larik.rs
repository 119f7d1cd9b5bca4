//! Breaks of larik's clauses.

use super::row;
use crate::act::{
    Act::{Event, Request, Response, Start},
    Break, Message, drop_member, list, set, text,
};
use serde_json::{Value, json};
use triplane_conformance::cases::{HTTP, TCP};

/// The rows.
pub(super) const ROWS: &[Break] = &[
    row(
        "picks-its-own-address",
        HTTP,
        "H01",
        "h01-addr-is-taken",
        &[Start(|start| {
            start.without("--addr");
            start.with(&["--addr", "127.0.0.1:0"]);
        })],
    ),
    row(
        "has-its-own-defaults",
        HTTP,
        "H01",
        "h01-defaults-of-new-sessions",
        &[Start(|start| start.without("--effort"))],
    ),
    row(
        "reads-no-token-in-a-query",
        HTTP,
        "H02",
        "h02-events-take-the-token-in-the-query",
        &[Request(|_, request| {
            request.path = request.place().to_owned();
        })],
    ),
    row(
        "shows-its-figures-to-all",
        HTTP,
        "H02",
        "h02-figures-are-behind-the-token",
        &[Request(|mem, request| {
            if request.is("GET", "/metrics") {
                request.set("Authorization", &format!("Bearer {}", mem.token));
            }
        })],
    ),
    row(
        "insists-on-a-content-type",
        HTTP,
        "H03",
        "h03-any-content-type",
        &[Request(|_, request| {
            if !request.body.is_empty() && request.header("content-type") != Some("application/json") {
                request.refuse(415, "unsupported_media");
            }
        })],
    ),
    row(
        "is-up",
        HTTP,
        "H04",
        "h04-health",
        &[Response(|_, request, response| {
            if request.is("GET", "/v1/health") {
                response.edit(|body| set(body, "/status", json!("up")));
            }
        })],
    ),
    row(
        "tells-no-sandbox",
        HTTP,
        "H05",
        "h05-info",
        &[Response(|_, request, response| {
            if request.is("GET", "/v1/info") {
                response.edit(|body| drop_member(body, "sandbox"));
            }
        })],
    ),
    row(
        "calls-everything-loaded",
        HTTP,
        "H06",
        "h06-list-shows-loaded-and-busy",
        &[Response(|_, request, response| {
            if request.is("GET", "/v1/sessions") {
                response.edit(|body| {
                    for row in list(body, "/sessions").into_iter().flatten() {
                        set(row, "/loaded", json!(true));
                    }
                });
            }
        })],
    ),
    row(
        "skips-a-row-between-pages",
        HTTP,
        "H06",
        "h06-pages",
        &[Response(|_, request, response| {
            if request.path.contains("cursor=") {
                response.edit(|body| {
                    if let Some(rows) = list(body, "/sessions").filter(|rows| rows.len() > 1) {
                        rows.remove(0);
                    }
                });
            }
        })],
    ),
    row(
        "creates-with-200",
        HTTP,
        "H07",
        "h07-create-takes-settings",
        &[Response(|_, _, response| {
            if response.status == 201 {
                response.status = 200;
            }
        })],
    ),
    row(
        "resumes-under-another-id",
        HTTP,
        "H07",
        "h07-resume-loads-under-its-own-id",
        &[Response(|_, request, response| {
            if request.json().get("resume").is_some() {
                response.edit(|body| set(body, "/id", json!("01890000-0000-7000-8000-000000000000")));
            }
        })],
    ),
    row(
        "tells-no-usage",
        HTTP,
        "H08",
        "h08-get-tells-everything",
        &[Response(|_, request, response| {
            if request.method == "GET" {
                response.edit(|body| set(body, "/usage/output", json!(0)));
            }
        })],
    ),
    row(
        "patches-what-it-can",
        HTTP,
        "H09",
        "h09-patch-of-the-unknown-changes-nothing",
        &[
            Request(|mem, request| {
                let body = request.json();
                if request.method == "PATCH" && body.get("mode") == Some(&json!("plan")) && body.get("effort").is_some()
                {
                    mem.note("partly", json!(true));
                    request.body = json!({"mode": "plan"}).to_string().into_bytes();
                }
            }),
            Response(|mem, request, response| {
                if request.method == "PATCH" && mem.notes.remove("partly").is_some() {
                    *response = crate::proxy::http::Response::error(400, "invalid_params");
                }
            }),
        ],
    ),
    row(
        "deletes-the-transcript",
        HTTP,
        "H10",
        "h10-delete-unloads-and-keeps-the-transcript",
        &[Response(|mem, request, _| {
            if request.method == "DELETE" {
                let _ = std::fs::remove_file(mem.here.transcript(&request.session()));
            }
        })],
    ),
    row(
        "shows-half-a-transcript",
        HTTP,
        "H11",
        "h11-messages-are-the-transcript",
        &[Response(|_, request, response| {
            if request.is("GET", "/messages") {
                response.edit(|body| drop(list(body, "/messages").and_then(Vec::pop)));
            }
        })],
    ),
    row(
        "forks-everything",
        HTTP,
        "H12",
        "h12-fork-at-a-prompt",
        &[Request(|_, request| {
            if request.is("POST", "/fork") {
                request.body = b"{}".to_vec();
            }
        })],
    ),
    row(
        "changes-what-it-forks-too",
        HTTP,
        "H12",
        "h12-fork-of-everything",
        &[Response(|mem, request, response| {
            if request.is("POST", "/fork") {
                mem.note("forked", json!(request.session()));
            }
            if request.is("GET", "/messages") && mem.notes.get("forked") == Some(&json!(request.session())) {
                response.edit(|body| drop(list(body, "/messages").and_then(Vec::pop)));
            }
        })],
    ),
    row(
        "leaves-the-seq-out",
        HTTP,
        "H13",
        "h13-every-stream-gets-every-event",
        &[Event(|_, _, mut message, out| {
            let mut data = message.data();
            drop_member(&mut data, "seq");
            if !data.is_null() {
                message.set_data(&data);
            }
            out.push(message);
        })],
    ),
    row(
        "streams-every-session",
        HTTP,
        "H13",
        "h13-only-its-own-session",
        &[Event(|_, _, mut message, out| {
            let mut data = message.data();
            set(&mut data, "/session", json!("01890000-0000-7000-8000-000000000000"));
            if !data.is_null() {
                message.set_data(&data);
            }
            out.push(message);
        })],
    ),
    row(
        "tells-no-status",
        HTTP,
        "H14",
        "h14-the-servers-own-events",
        &[Event(|_, _, message, out| {
            if message.kind() != "status" {
                out.push(message);
            }
        })],
    ),
    row(
        "calls-a-refusal-expired",
        HTTP,
        "H14",
        "h21-deny-with-a-reason",
        &[Event(|_, _, mut message, out| {
            if message.kind() == "permission_resolved" {
                let mut data = message.data();
                set(&mut data, "/outcome", json!("expired"));
                message.set_data(&data);
            }
            out.push(message);
        })],
    ),
    row("tells-no-hole-after-a-kill", HTTP, "H16", "h16-a-kill-leaves-a-gap-that-is-told", &[Event(no_gap)]),
    row(
        "doubles-an-event-at-the-seam",
        HTTP,
        "H15",
        "h15-no-hole-and-no-repeat-at-the-seam-under-load",
        &[Event(|mem, request, message, out| {
            if request.header("last-event-id").is_some() && message.field("id").is_some() && mem.count("replayed") == 50
            {
                out.push(message.clone());
            }
            out.push(message);
        })],
    ),
    row(
        "drops-an-event-at-the-seam",
        HTTP,
        "H15",
        "h15-no-seam-between-replay-and-live",
        &[Event(|mem, request, message, out| {
            let replays = request.header("last-event-id").is_some() || request.path.contains("after=");
            if !(replays && message.field("id").is_some() && mem.count("replayed") == 5) {
                out.push(message);
            }
        })],
    ),
    row(
        "prefers-the-query",
        HTTP,
        "H15",
        "h15-the-header-wins",
        &[Request(|_, request| {
            if request.path.contains("after=") {
                request.without("last-event-id");
            }
        })],
    ),
    row(
        "takes-any-cursor",
        HTTP,
        "H15",
        "h15-malformed-cursors-are-400",
        &[Request(|_, request| {
            let cursor = request.header("last-event-id").unwrap_or_default();
            if cursor.parse::<u64>().is_err() {
                request.without("last-event-id");
            }
        })],
    ),
    row(
        "replays-half",
        HTTP,
        "H15",
        "h15-past-the-buffer",
        &[Event(|mem, request, message, out| {
            if request.header("last-event-id").is_none() || message.field("id").is_none() || mem.count("replayed") > 500
            {
                out.push(message);
            }
        })],
    ),
    row("tells-no-gap-ahead", HTTP, "H15", "h15-ahead-of-the-session-is-a-gap", &[Event(no_gap)]),
    row(
        "counts-from-1-after-a-restart",
        HTTP,
        "H16",
        "h16-seq-goes-on-after-a-restart",
        &[
            Start(|start| {
                for suffix in [".events", ".lock", ".holder"] {
                    for path in crate::act::Here::files(&start.here.sessions, suffix) {
                        let _ = std::fs::remove_file(path);
                    }
                }
                if start.here.sessions.join("order.log").exists() {
                    start.env.push(("RESTARTED".to_owned(), "1".to_owned()));
                }
            }),
            Event(|mem, _, mut message, out| {
                let mut data = message.data();
                if let Some(seq) = data.get("seq").and_then(Value::as_u64) {
                    let base = mem.notes.entry("base".to_owned()).or_insert(json!(seq - 1)).as_u64().unwrap_or(0);
                    let seq = seq.saturating_sub(base);
                    set(&mut data, "/seq", json!(seq));
                    message.set_data(&data);
                    message.set_field("id", &seq.to_string());
                }
                out.push(message);
            }),
        ],
    ),
    row(
        "keeps-no-stream-alive",
        HTTP,
        "H17",
        "h17-comments-and-one-retry",
        &[Event(|_, _, message, out| {
            if !message.lines.iter().all(|line| line.starts_with(':')) {
                out.push(message);
            }
        })],
    ),
    row(
        "tells-retry-again",
        HTTP,
        "H17",
        "h17-retry-is-sent-once",
        &[Event(|_, _, message, out| {
            if message.field("id").is_some() {
                out.push(Message { lines: vec!["retry: 1000".to_owned()] });
            }
            out.push(message);
        })],
    ),
    row(
        "accepts-while-busy",
        HTTP,
        "H18",
        "h18-busy-is-409",
        &[Response(|_, request, response| {
            if request.is("POST", "/prompt") && response.status == 409 {
                response.status = 202;
                response.body = json!({"run_id": "r", "seq": 1}).to_string().into_bytes();
            }
        })],
    ),
    row(
        "waits-where-nobody-asked-it-to",
        HTTP,
        "H18",
        "h18-prompt-is-202-at-once",
        &[Response(|_, request, response| {
            if request.is("POST", "/prompt") && response.status == 202 {
                response.status = 200;
            }
        })],
    ),
    row(
        "cancels-what-is-not-there",
        HTTP,
        "H19",
        "h19-cancel-of-nothing",
        &[Response(|_, request, response| {
            if request.is("POST", "/cancel") {
                response.edit(|body| set(body, "/cancelled", json!(true)));
            }
        })],
    ),
    row(
        "lists-nothing-pending",
        HTTP,
        "H20",
        "h20-pending-requests-are-listed",
        &[Response(|_, request, response| {
            if request.is("GET", "/permissions") {
                response.edit(|body| list(body, "/permissions").into_iter().for_each(Vec::clear));
            }
        })],
    ),
    row(
        "takes-a-second-answer",
        HTTP,
        "H21",
        "h21-second-answer-is-404",
        &[Response(|_, request, response| {
            if request.method == "POST" && request.path.contains("/permissions/") && response.status == 404 {
                response.status = 204;
                response.body.clear();
            }
        })],
    ),
    row(
        "forgets-always",
        HTTP,
        "H21",
        "h21-always-saves-a-rule",
        &[
            Request(|_, request| {
                if request.path.contains("/permissions/") && request.json().get("always").is_some() {
                    request.body = json!({"allow": true}).to_string().into_bytes();
                }
            }),
            Response(|_, request, response| {
                if request.path.contains("/permissions/") && response.status == 204 {
                    response.status = 200;
                    response.set("content-type", "application/json");
                    response.body = json!({"allowed": true, "persisted": true}).to_string().into_bytes();
                }
            }),
        ],
    ),
    row(
        "undoes-words-alone",
        HTTP,
        "H22",
        "h22-undo-takes-back-a-prompt-and-its-files",
        &[
            Request(|mem, request| {
                if request.is("POST", "/undo") {
                    for path in crate::act::Here::files(&mem.here.work, ".txt") {
                        let content = std::fs::read_to_string(&path).unwrap_or_default();
                        mem.note("undo", json!([path, content]));
                    }
                }
            }),
            Response(|mem, request, _| {
                if let Some(kept) = mem.notes.remove("undo").filter(|_| request.is("POST", "/undo")) {
                    let _ = std::fs::write(text(&kept, "/0"), text(&kept, "/1"));
                }
            }),
        ],
    ),
    row(
        "hides-a-clear",
        HTTP,
        "H11",
        "h22-clear-is-shown-where-it-happened",
        &[Response(|_, request, response| {
            if request.is("GET", "/messages") {
                response.edit(|body| {
                    list(body, "/messages")
                        .into_iter()
                        .for_each(|all| all.retain(|one| one.get("role") != Some(&json!("system"))));
                });
            }
        })],
    ),
    row(
        "hides-tasks",
        HTTP,
        "H23",
        "h23-tasks-are-listed-and-stopped",
        &[Response(|_, request, response| {
            if request.is("GET", "/tasks") {
                response.edit(|body| list(body, "/tasks").into_iter().for_each(Vec::clear));
            }
        })],
    ),
    row(
        "says-that-a-person-asked",
        HTTP,
        "H24",
        "h24-ended-tasks-start-a-turn",
        &[Event(|_, _, mut message, out| {
            if message.kind() == "user_message" {
                let mut data = message.data();
                set(&mut data, "/origin", json!("client"));
                message.set_data(&data);
            }
            out.push(message);
        })],
    ),
    row(
        "runs-one-session-at-a-time",
        HTTP,
        "H25",
        "h25-sessions-run-at-once",
        &[Request(|mem, request| {
            if request.is("POST", "/prompt") && mem.count("prompt") > 1 {
                request.refuse(409, "busy");
            }
        })],
    ),
    row(
        "checks-hosts-nevertheless",
        TCP,
        "H26",
        "h26-allow-remote",
        &[Request(|_, request| {
            let host = request.header("host").unwrap_or_default();
            if !host.starts_with("127.0.0.1") && !host.starts_with("localhost") {
                request.refuse(403, "forbidden");
            }
        })],
    ),
    row(
        "names-no-methods",
        HTTP,
        "H27",
        "h27-wrong-methods-tell-the-right-ones",
        &[Response(|_, _, response| {
            if response.status == 405 {
                response.without("allow");
            }
        })],
    ),
    row(
        "lets-caches-keep-answers",
        HTTP,
        "H27",
        "h27-answers-say-what-they-are",
        &[Response(|_, _, response| {
            response.without("cache-control");
        })],
    ),
    row(
        "lets-every-page-in",
        HTTP,
        "H28",
        "h28-answer-carries-the-origin",
        &[Response(|_, _, response| {
            response.set("Access-Control-Allow-Origin", "*");
        })],
    ),
    row(
        "forbids-headers",
        HTTP,
        "H28",
        "h28-preflight",
        &[Response(|_, _, response| {
            response.without("access-control-allow-headers");
        })],
    ),
];

fn no_gap(_: &mut crate::act::Mem, _: &crate::proxy::http::Request, message: Message, out: &mut Vec<Message>) {
    if message.kind() != "replay_gap" {
        out.push(message);
    }
}
