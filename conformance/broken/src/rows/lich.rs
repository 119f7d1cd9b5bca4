//! Breaks of lich's clauses.

use super::row;
use crate::act::{
    Act::{Down, Frame, Request, Start, Up},
    Break, add, list, method, parse, set, text,
};
use serde_json::{Value, json};
use triplane_conformance::cases::WS;

/// The rows.
pub(super) const ROWS: &[Break] = &[
    row(
        "takes-binary-frames",
        WS,
        "L01",
        "l01-binary-frames-close-with-1003",
        &[Frame(|frame| {
            if frame.up && frame.head == 0x82 {
                frame.head = 0x81;
            }
        })],
    ),
    row(
        "has-an-eighth-method",
        WS,
        "L02",
        "l02-exactly-seven-methods",
        &[Up(|_, talk, text| {
            let id = parse(text).get("id").cloned().unwrap_or_default();
            if method(text) == "session.delete" {
                talk.down(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
            } else {
                talk.up(text);
            }
        })],
    ),
    row(
        "is-well",
        WS,
        "L03",
        "l03-health",
        &[Down(|_, talk, text| {
            talk.result(text, "health", |result| set(result, "/status", json!("well")));
        })],
    ),
    row(
        "insists-on-params",
        WS,
        "L04",
        "l04-params-may-be-absent",
        &[Up(|_, talk, text| {
            if parse(text).get("params").is_none() {
                talk.refuse(text, -32602, "invalid_params")
            } else {
                talk.up(text)
            }
        })],
    ),
    row(
        "creates-without-a-transcript",
        WS,
        "L05",
        "l05-create-makes-empty-transcript",
        &[Down(|mem, talk, line| {
            if talk.answers(line, "session.create") {
                let _ = std::fs::remove_file(mem.here.transcript(&text(&parse(line), "/result/session_id")));
            }
            talk.down(line);
        })],
    ),
    row(
        "tells-times-in-seconds",
        WS,
        "L06",
        "l06-list-has-id-and-mtime",
        &[Down(|_, talk, text| {
            talk.result(text, "session.list", |result| {
                for row in list(result, "/sessions").into_iter().flatten() {
                    let seconds = row.get("mtime_ms").and_then(Value::as_i64).unwrap_or(0) / 1000;
                    set(row, "/mtime_ms", json!(seconds));
                }
            });
        })],
    ),
    row(
        "clears-the-file-too",
        WS,
        "L07",
        "l07-clear-keeps-the-bytes",
        &[Down(|mem, talk, line| {
            if talk.answers(line, "session.clear") {
                let _ = std::fs::write(mem.here.transcript(&text(&parse(line), "/result/session_id")), "");
            }
            talk.down(line);
        })],
    ),
    row(
        "takes-whole-ids-alone",
        WS,
        "L08",
        "l08-resume-by-id-prefix-and-latest",
        &[Up(|_, talk, line| {
            let id = text(&parse(line), "/params/id");
            if method(line) == "session.resume" && id.len() < 36 {
                talk.refuse(line, -32000, "not_found")
            } else {
                talk.up(line)
            }
        })],
    ),
    row(
        "changes-what-it-forks",
        WS,
        "L09",
        "l09-resume-forks-and-leaves-the-original",
        &[Down(|mem, talk, line| {
            if talk.answers(line, "session.resume") {
                let source = mem.here.transcript(&text(&parse(line), "/result/resumed_id"));
                let bytes = std::fs::read(&source).unwrap_or_default();
                let _ = std::fs::write(source, [&bytes[..], b"{\"type\":\"resumed\"}\n"].concat());
            }
            talk.down(line);
        })],
    ),
    row(
        "keeps-trailing-user-messages",
        WS,
        "L09",
        "l09-trailing-user-messages-are-dropped",
        &[Down(|_, talk, text| {
            talk.result(text, "session.resume", |result| {
                let count = result.get("message_count").and_then(Value::as_u64).unwrap_or(0);
                set(result, "/message_count", json!(count + 3));
            });
        })],
    ),
    row(
        "gives-up-on-a-torn-transcript",
        WS,
        "L09",
        "l09-a-torn-transcript-costs-a-line",
        &[Up(|mem, talk, line| {
            let path = mem.here.transcript(&text(&parse(line), "/params/id"));
            let stored = std::fs::read_to_string(path).unwrap_or_default();
            if method(line) == "session.resume" && stored.lines().any(|line| parse(line).is_null()) {
                talk.refuse(line, -32603, "internal");
            } else {
                talk.up(line);
            }
        })],
    ),
    row(
        "forgets-what-a-fork-said",
        WS,
        "L10",
        "l10-resume-again-after-a-restart",
        &[Start(|start| {
            start.here.rewrite(|mut lines| {
                if lines.iter().filter(|line| line.contains("\"assistant\"")).count() > 1 {
                    let at = lines.iter().rposition(|line| line.contains("\"user\"")).unwrap_or(lines.len());
                    lines.truncate(at);
                }
                lines
            });
        })],
    ),
    row(
        "finds-a-deleted-transcript-empty",
        WS,
        "L11",
        "l11-a-deleted-transcript-is-not-found",
        &[Down(|_, talk, line| {
            let id = parse(line).get("id").cloned().unwrap_or_default();
            if talk.answers(line, "session.resume") && line.contains("not_found") {
                let nobody = "01890000-0000-7000-8000-000000000000";
                let result = json!({"session_id": nobody, "resumed_id": nobody, "message_count": 0});
                talk.down(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
            } else {
                talk.down(line);
            }
        })],
    ),
    row(
        "reads-half-of-a-deleted-transcript",
        WS,
        "L11",
        "l11-deleted-while-it-is-resumed",
        &[Down(|mem, talk, line| {
            let id = parse(line).get("id").cloned().unwrap_or_default();
            if talk.answers(line, "session.resume") && mem.count("resumed") == 40 {
                let nobody = "01890000-0000-7000-8000-000000000000";
                let result = json!({"session_id": nobody, "resumed_id": nobody, "message_count": 1});
                talk.down(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
            } else {
                talk.down(line);
            }
        })],
    ),
    row(
        "keeps-every-bag",
        WS,
        "L12",
        "l12-oldest-bag-is-evicted",
        &[Start(|start| start.without("--max-session-bags"))],
    ),
    row(
        "evicts-busy-bags",
        WS,
        "L12",
        "l12-busy-bags-stay",
        &[Down(|_, talk, text| {
            talk.result(text, "prompt.abort", |result| set(result, "/aborted", json!(false)));
        })],
    ),
    row(
        "creates-behind-the-end",
        WS,
        "L13",
        "l13-shutdown-in-the-middle-of-calls",
        &[Down(|mem, talk, line| {
            if mem.ending && talk.answers(line, "session.create") {
                let id = parse(line).get("id").cloned().unwrap_or_default();
                let result = json!({"session_id": "01890000-0000-7000-8000-000000000000"});
                talk.down(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
            } else {
                talk.down(line);
            }
        })],
    ),
    row(
        "calls-every-end-completed",
        WS,
        "L14",
        "l14-every-end-is-a-result",
        &[Down(|_, talk, text| {
            talk.result(text, "prompt.submit", |result| set(result, "/stopped_reason", json!("completed")));
        })],
    ),
    row(
        "runs-two-at-once",
        WS,
        "L15",
        "l15-runs-of-one-session-are-serial",
        &[Down(|_, talk, line| match text(&parse(line), "/params/event/type").as_str() {
            "final" if talk.held.is_empty() && !line.contains("three") => talk.held.push(line.to_owned()),
            "turn_start" => {
                talk.down(line);
                talk.release_down();
            }
            _ => talk.down(line),
        })],
    ),
    row(
        "sends-events-behind-the-reply",
        WS,
        "L16",
        "l16-events-before-the-reply",
        &[Down(|_, talk, line| {
            if text(&parse(line), "/params/event/type") == "final" {
                talk.held.push(line.to_owned());
            } else {
                talk.down(line);
                if talk.answers(line, "prompt.submit") {
                    talk.release_down();
                }
            }
        })],
    ),
    row(
        "doubles-an-event",
        WS,
        "L17",
        "l17-one-to-one-with-the-stream-of-larik",
        &[Down(|mem, talk, line| {
            if text(&parse(line), "/params/event/type") == "llm_delta" && mem.count("delta") == 100 {
                talk.down(line);
            }
            talk.down(line);
        })],
    ),
    row(
        "drops-an-event",
        WS,
        "L17",
        "l17-one-to-one-with-the-stream-of-larik",
        &[Down(|mem, talk, line| {
            if text(&parse(line), "/params/event/type") != "llm_delta" || mem.count("delta") != 100 {
                talk.down(line);
            }
        })],
    ),
    row(
        "sends-lariks-own-events",
        WS,
        "L17",
        "l17-only-the-agents-own-events",
        &[Down(|_, talk, line| {
            let mut event = parse(line);
            if text(&event, "/params/event/type") == "turn_start" {
                set(&mut event, "/params/event", json!({"type": "status", "busy": true}));
                talk.down(event.to_string());
            }
            talk.down(line);
        })],
    ),
    row(
        "aborts-what-is-not-there",
        WS,
        "L18",
        "l18-abort-of-nothing",
        &[Down(|_, talk, text| {
            talk.result(text, "prompt.abort", |result| set(result, "/aborted", json!(true)));
        })],
    ),
    row(
        "queues-aborts",
        WS,
        "L18",
        "l18-abort-in-flight",
        &[
            Up(
                |_, talk, text| {
                    if method(text) == "prompt.abort" { talk.held.push(text.to_owned()) } else { talk.up(text) }
                },
            ),
            Down(|_, talk, text| {
                if talk.answers(text, "prompt.submit") {
                    talk.release_up();
                }
                talk.down(text);
            }),
        ],
    ),
    row(
        "reorders-replies",
        WS,
        "L19",
        "l19-replies-of-each-session-in-order",
        &[Down(|mem, talk, text| {
            if talk.answers(text, "prompt.submit") && parse(text).get("id") == Some(&json!("0.0")) {
                talk.held.push(text.to_owned());
                return;
            }
            talk.down(text);
            if talk.answers(text, "prompt.submit") && mem.count("reply") == 20 {
                talk.release_down();
            }
        })],
    ),
    row(
        "lets-everything-wait-for-a-run",
        WS,
        "L19",
        "l19-nothing-waits-for-another-session",
        &[Up(|mem, talk, text| {
            if mem.noted("running") {
                talk.held.push(text.to_owned());
            } else {
                talk.up(text);
            }
            if method(text) == "prompt.submit" {
                mem.note("running", json!(true));
            }
        })],
    ),
    row("finds-an-agent-anyway", WS, "L20", "l20-without-an-agent", &[Start(|start| start.without("--agent"))]),
    row("picks-its-own-port", WS, "L21", "l21-port-is-taken", &[Start(|start| start.without("--port"))]),
    row(
        "knows-one-path",
        WS,
        "L22",
        "l22-any-path",
        &[Request(|_, request| {
            if request.path != "/" {
                request.refuse(404, "not_found");
            }
        })],
    ),
    row(
        "refuses-a-plain-request",
        WS,
        "L22",
        "l22-a-plain-request-gets-426",
        &[Request(|_, request| {
            if request.header("upgrade").is_none() {
                request.refuse(400, "invalid_params");
            }
        })],
    ),
    row(
        "wants-the-token-in-a-header",
        WS,
        "L22",
        "l22-token-places",
        &[Request(|_, request| {
            request.path = request.place().to_owned();
        })],
    ),
    row(
        "agrees-to-compress",
        WS,
        "L22",
        "l22-no-extension-is-agreed",
        &[crate::act::Act::Response(|_, _, response| {
            response.set("Sec-WebSocket-Extensions", "permessage-deflate");
        })],
    ),
    row(
        "closes-without-a-reason",
        WS,
        "L23",
        "l23-over-1-mib-closes-with-1009",
        &[Frame(|frame| {
            if !frame.up && frame.head == 0x88 {
                frame.payload = vec![0x03, 0xe8];
            }
        })],
    ),
    row(
        "takes-any-size",
        WS,
        "L23",
        "l23-over-1-mib-closes-with-1009",
        &[Up(|_, talk, text| {
            let mut request = parse(text);
            if text.len() > 1 << 20 && !request.is_null() {
                add(&mut request, "params", json!({}));
                talk.up(request.to_string());
            } else {
                talk.up(text);
            }
        })],
    ),
    row("stores-where-it-likes", WS, "L24", "l24-session-dir-flag", &[Start(|start| start.without("--session-dir"))]),
];
