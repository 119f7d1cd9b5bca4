//! Breaks of the common clauses, on each wire where the clause says something.

use super::row;
use crate::act::{
    Act::{
        Before, Child, Dies, Down, Event, Everywhere, Exits, Frame, Front, KeepsStdin, Logs, Mute, Prints, Ready,
        ReadyElsewhere, Request, Response, Signals, Start, Up,
    },
    Break, Here, Talk, add, drop_member, list, method, parse, set,
};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use triplane_conformance::{
    Wire,
    cases::{ALL, HTTP, RPC, STDIO, TCP, WS},
};

/// The rows.
pub(super) const ROWS: &[Break] = &[
    // C01
    row(
        "lists-all-but-one",
        ALL,
        "C01",
        "c01-create-is-listed",
        &[
            Down(|_, talk, text| lists(talk, text, |rows| drop(rows.pop()))),
            Response(|_, request, response| {
                if request.is("GET", "/v1/sessions") {
                    response.edit(|body| drop(list(body, "/sessions").and_then(Vec::pop)));
                }
            }),
        ],
    ),
    // C02
    row(
        "answers-notifications",
        RPC,
        "C02",
        "c02-notifications-are-never-answered",
        &[Up(|_, talk, text| {
            if !method(text).is_empty() && parse(text).get("id").is_none() {
                talk.down(json!({"jsonrpc": "2.0", "id": null, "result": {}}).to_string());
            }
            talk.up(text);
        })],
    ),
    row(
        "makes-texts-of-ids",
        RPC,
        "C02",
        "c02-ids-come-back-as-they-were",
        &[Down(|_, talk, text| {
            let mut answer = parse(text);
            match answer.get("id").filter(|id| id.is_f64()).map(Value::to_string) {
                Some(id) => {
                    set(&mut answer, "/id", json!(id));
                    talk.down(answer.to_string());
                }
                None => talk.down(text),
            }
        })],
    ),
    row(
        "calls-no-json-a-bad-request",
        RPC,
        "C02",
        "c02-table-of-exchanges",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                if error.get("code") == Some(&json!(-32700)) {
                    set(error, "/code", json!(-32600));
                }
            });
        })],
    ),
    row(
        "judges-texts-in-its-own-way",
        RPC,
        "C02",
        "c02-texts-of-json-test-suite",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                if error.get("code") == Some(&json!(-32700)) {
                    set(error, "/code", json!(-32600));
                }
            });
        })],
    ),
    row(
        "has-a-verdict-of-its-own-over-stdio",
        STDIO,
        "C02",
        "c02-texts-have-the-same-verdicts-on-both-wires",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                if error.get("code") == Some(&json!(-32700)) {
                    set(error, "/code", json!(-32600));
                }
            });
        })],
    ),
    row(
        "answers-a-batch-with-its-first",
        RPC,
        "C02",
        "c02-batches",
        &[Down(|_, talk, text| match parse(text) {
            Value::Array(items) if items.len() > 1 => {
                talk.down(Value::Array(items.into_iter().take(1).collect()).to_string())
            }
            _ => talk.down(text),
        })],
    ),
    row(
        "takes-batches-of-any-size",
        RPC,
        "C02",
        "c02-batch-caps",
        &[Up(|_, talk, text| match parse(text) {
            Value::Array(mut items) if items.len() > 100 => {
                items.truncate(100);
                talk.up(Value::Array(items).to_string());
            }
            _ => talk.up(text),
        })],
    ),
    row(
        "judges-exchanges-in-its-own-way",
        STDIO,
        "C02",
        "c02-exchanges-have-the-same-verdicts-on-both-wires",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                if error.get("code") == Some(&json!(-32602)) {
                    set(error, "/code", json!(-32600));
                }
            });
        })],
    ),
    row(
        "takes-the-last-of-two-keys",
        RPC,
        "C02",
        "c02-a-key-given-twice-is-refused",
        &[Up(|_, talk, text| match parse(text) {
            Value::Null => talk.up(text),
            value => talk.up(value.to_string()),
        })],
    ),
    // C03
    row(
        "calls-the-unknown-internal",
        RPC,
        "C03",
        "c03-unknown-session-is-not-found",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                if error.pointer("/data/code") == Some(&json!("not_found")) {
                    set(error, "/data/code", json!("internal"));
                    set(error, "/code", json!(-32603));
                }
            });
        })],
    ),
    row(
        "gives-errors-without-a-code",
        RPC,
        "C03",
        "c03-unknown-session-is-not-found",
        &[Down(|_, talk, text| {
            talk.error(text, |error| drop_member(error, "data"));
        })],
    ),
    row(
        "calls-the-unknown-a-bad-request",
        HTTP,
        "C03",
        "c03-unknown-session-is-404",
        &[Response(|_, _, response| {
            if response.status == 404 {
                response.status = 400;
            }
        })],
    ),
    row(
        "tells-errors-as-text",
        HTTP,
        "C03",
        "c03-unknown-session-is-404",
        &[Response(|_, _, response| {
            if response.status >= 400 {
                response.body = b"not found".to_vec();
                response.set("content-type", "text/plain");
            }
        })],
    ),
    row("refuses-without-a-word", HTTP, "C03", "c03-every-refusal-has-the-shape", &[Mute]),
    // C04
    row(
        "names-no-field",
        RPC,
        "C04",
        "c04-wrong-params-are-named",
        &[Down(|_, talk, text| {
            talk.error(text, |error| set(error, "/message", json!("it is wrong")));
        })],
    ),
    row(
        "names-no-field-of-a-body",
        HTTP,
        "C04",
        "c04-wrong-body-is-named",
        &[Response(|_, _, response| {
            response.edit(|body| set(body, "/error/message", json!("it is wrong")));
        })],
    ),
    row(
        "refuses-unknown-members",
        RPC,
        "C04",
        "c04-unknown-members-are-ignored",
        &[Up(|_, talk, text| {
            if parse(text).pointer("/params/x").is_some() {
                talk.refuse(text, -32602, "invalid_params")
            } else {
                talk.up(text)
            }
        })],
    ),
    // C05
    row("dies-of-garbage", ALL, "C05", "c05-garbage-leaves-the-others-alone", &[Dies]),
    // C06
    row(
        "takes-any-host",
        TCP,
        "C06",
        "c06-hosts",
        &[Request(|_, request| {
            if request.header("host").is_some() {
                request.set("Host", "localhost");
            }
        })],
    ),
    row(
        "takes-two-hosts",
        TCP,
        "C06",
        "c06-no-host-or-two-is-400",
        &[Request(|_, request| {
            let host = request.header("host").unwrap_or_default().to_owned();
            if !host.is_empty() {
                request.set("Host", &host);
            }
        })],
    ),
    row(
        "takes-any-origin",
        TCP,
        "C06",
        "c06-origins",
        &[Request(|_, request| {
            if request.header("origin").is_some_and(|origin| origin.starts_with("http")) {
                request.without("origin");
            }
        })],
    ),
    row(
        "takes-any-token",
        TCP,
        "C06",
        "c06-tokens",
        &[Request(|mem, request| {
            request.set("Authorization", &format!("Bearer {}", mem.token));
            request.without("x-lich-token");
        })],
    ),
    row(
        "asks-for-the-token-first",
        TCP,
        "C06",
        "c06-host-before-origin-before-token",
        &[Request(|mem, request| {
            if !request.headers.iter().any(|(_, value)| value.contains(&mem.token)) {
                request.refuse(401, "unauthorized");
            }
        })],
    ),
    row("listens-everywhere", TCP, "C06", "c06-binds-loopback-only", &[Everywhere]),
    row(
        "takes-any-token-beside-stdio",
        STDIO,
        "C06",
        "c06-listeners-beside-stdio-are-guarded",
        &[Front(Wire::Http), Request(|mem, request| request.set("Authorization", &format!("Bearer {}", mem.token)))],
    ),
    // C07
    row("says-more-on-stdout", TCP, "C07", "c07-ready-line-has-two-members", &[Prints("listening")]),
    row(
        "says-more-in-the-ready-line",
        TCP,
        "C07",
        "c07-ready-line-has-two-members",
        &[Ready(|line| add(line, "pid", json!(1)))],
    ),
    row("prints-ready-lines-on-the-wire", STDIO, "C07", "c07-with-stdio-ready-lines-are-on-stderr", &[ReadyElsewhere]),
    row(
        "logs-on-the-wire",
        STDIO,
        "C07",
        "c07-verbose-logs-leave-stdout-alone",
        &[Down(|mem, talk, text| {
            if mem.count("line") == 2 {
                talk.down("INFO a line of a log");
            }
            talk.down(text);
        })],
    ),
    // C08
    row("logs-the-token", TCP, "C08", "c08-never-in-the-log", &[Logs(|token| format!("INFO token={token}"))]),
    row(
        "prefers-the-environment",
        TCP,
        "C08",
        "c08-flag-before-environment-before-chance",
        &[Start(|start| {
            start.without("--token");
        })],
    ),
    row(
        "has-a-token-that-everybody-knows",
        TCP,
        "C08",
        "c08-random-tokens-are-long-and-differ",
        &[Start(|start| {
            start.with(&["--token", "0123456789abcdefghijklmnopqrstuvwxyz0123456789"]);
        })],
    ),
    row(
        "gives-the-token-to-children",
        TCP,
        "C08",
        "c08-never-in-a-childs-environment",
        &[Start(|start| {
            let token = std::env::var("TRIPLANE_TOKEN").unwrap_or_default();
            start.env.push(("COPY_OF_IT".to_owned(), token));
        })],
    ),
    row(
        "stores-the-token",
        TCP,
        "C08",
        "c08-never-on-disk",
        &[Start(|start| {
            let _ =
                std::fs::write(start.here.work.join("token.txt"), std::env::var("TRIPLANE_TOKEN").unwrap_or_default());
        })],
    ),
    row(
        "logs-the-token-beside-stdio",
        STDIO,
        "C08",
        "c08-never-in-the-log-beside-stdio",
        &[Front(Wire::Http), Logs(|token| format!("INFO token={token}"))],
    ),
    // C09
    row("ends-with-1", ALL, "C09", "c09-sigterm-when-idle-exits-0", &[Exits(1)]),
    row("cuts-runs-at-once", ALL, "C09", "c09-a-short-run-may-finish", &[Signals(|_, _| Some(9))]),
    row("leaves-a-child", TCP, "C09", "c09-the-port-is-free-again", &[Child]),
    row("leaves-a-child-of-stdio", STDIO, "C09", "c09-end-of-stdin-before-anything", &[Child]),
    row(
        "hears-one-signal",
        TCP,
        "C09",
        "c09-a-second-signal-exits-at-once",
        &[Signals(|nth, it| (nth == 1).then_some(it))],
    ),
    row("never-hears-the-end-of-stdin", STDIO, "C09", "c09-end-of-stdin-exits-0", &[KeepsStdin]),
    // C10
    row("ends-runs-with-their-client", WS, "C10", "c10-run-outlives-its-connection", &[Start(abort_on_disconnect)]),
    row(
        "ends-runs-with-their-request",
        HTTP,
        "C10",
        "c10-waiting-request-that-goes-leaves-the-run",
        &[Start(abort_on_disconnect)],
    ),
    row(
        "never-ends-runs-with-their-client",
        WS,
        "C10",
        "c10-abort-on-disconnect",
        &[Start(|start| {
            start.without("--on-disconnect");
        })],
    ),
    row(
        "ends-runs-with-stdin",
        STDIO,
        "C10",
        "c10-a-run-of-another-wire-outlives-its-socket",
        &[Start(abort_on_disconnect)],
    ),
    // C11
    row(
        "asks-where-nobody-answers",
        WS,
        "C11",
        "c11-nobody-can-answer-so-denied-at-once",
        &[Start(|start| {
            start.with(&["--transport", "http", "--addr", "127.0.0.1:0"]);
        })],
    ),
    row(
        "hides-what-is-asked",
        STDIO,
        "C11",
        "c11-asked-over-lich-answered-over-stdio",
        &[Down(|_, talk, text| {
            if !text.contains("permissionRequest") {
                talk.down(text);
            }
        })],
    ),
    // C12
    row(
        "loses-the-last-record",
        ALL,
        "C12",
        "c12-a-killed-process-loses-nothing",
        &[Start(|start| {
            start.here.rewrite(|mut lines| {
                if let Some(at) = lines.iter().rposition(|line| line.contains("\"assistant\"")) {
                    lines.truncate(at);
                }
                lines
            });
        })],
    ),
    row(
        "loses-what-was-never-prompted",
        ALL,
        "C12",
        "c12-a-created-session-survives-a-kill",
        &[Start(|start| {
            for path in Here::files(&start.here.sessions, ".jsonl") {
                let _ = std::fs::remove_file(path);
            }
        })],
    ),
    // C13
    row(
        "lists-the-oldest-first",
        ALL,
        "C13",
        "c13-newest-written-first",
        &[
            Down(|_, talk, text| lists(talk, text, |rows| rows.reverse())),
            Response(|_, request, response| {
                if request.is("GET", "/v1/sessions") {
                    response.edit(|body| list(body, "/sessions").into_iter().for_each(|rows| rows.reverse()));
                }
            }),
        ],
    ),
    // C14
    row(
        "keeps-quiet-about-losses",
        HTTP,
        "C14",
        "c14-a-reader-that-does-not-read-is-told-what-it-lost",
        &[Event(|_, _, message, out| {
            if message.kind() != "replay_gap" {
                out.push(message);
            }
        })],
    ),
    row(
        "lets-a-run-wait-for-its-reader",
        STDIO,
        "C14",
        "s23-lagging-is-counted",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.prompt", |params| set(params, "/parts/0/text", json!("/sleep 60000")));
        })],
    ),
    row(
        "cuts-readers-off-with-another-code",
        WS,
        "C14",
        "c14-a-stalled-reader-is-cut-off",
        &[Frame(|frame| {
            if !frame.up && frame.head == 0x88 {
                frame.payload = vec![0x03, 0xf3];
            }
        })],
    ),
    row(
        "waits-for-readers-for-ever",
        WS,
        "C14",
        "c14-a-stalled-reader-is-cut-off",
        &[Start(|start| {
            start.without("--stall-timeout-ms");
        })],
    ),
    // C15
    row(
        "mends-lone-surrogates",
        RPC,
        "C15",
        "c15-lone-surrogates-are-refused",
        &[Up(|_, talk, text| {
            talk.up(text.replace("\\ud8", "\\u20").replace("\\udc", "\\u20").replace("\\ude", "\\u20"));
        })],
    ),
    row(
        "sweeps-bad-lines-away",
        HTTP,
        "C15",
        "c15-text-from-an-unknown-writer-survives",
        &[Start(|start| {
            start.here.rewrite(|lines| lines.into_iter().filter(|line| !parse(line).is_null()).collect());
        })],
    ),
    row(
        "exports-what-it-knows",
        STDIO,
        "C15",
        "c15-unknown-records-survive",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.export", |result| {
                for message in list(result, "/session/messages").into_iter().flatten() {
                    drop_member(message, "mood");
                }
            });
        })],
    ),
    row(
        "forks-what-it-knows",
        WS,
        "C15",
        "c15-unknown-records-survive-a-fork",
        &[Down(|mem, talk, text| {
            if talk.answers(text, "session.resume") {
                mem.here.rewrite(|lines| lines.into_iter().filter(|line| !line.contains("from_the_future")).collect());
            }
            talk.down(text);
        })],
    ),
    // C16
    row(
        "lets-everybody-read",
        ALL,
        "C16",
        "c16-modes-whatever-the-umask",
        &[Before(|here| {
            for path in Here::files(&here.sessions, ".jsonl") {
                let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644));
            }
        })],
    ),
    row(
        "follows-links",
        ALL,
        "C16",
        "c16-links-and-pipes-are-no-transcripts",
        &[Start(|start| {
            for path in Here::files(&start.here.sessions, ".jsonl") {
                if path.is_symlink()
                    && let Ok(bytes) = std::fs::read(&path)
                {
                    let _ = std::fs::remove_file(&path);
                    let _ = std::fs::write(path, bytes);
                }
            }
        })],
    ),
    // C17
    row(
        "evicts-for-everybody",
        WS,
        "C17",
        "c17-eviction-drops-only-lichs-hold",
        &[Up(|mem, talk, text| {
            if method(text) == "session.create" {
                mem.count("created");
            }
            let second = mem.notes.get("created") == Some(&json!(2));
            if second && method(text) == "prompt.submit" {
                talk.refuse(text, -32000, "not_found")
            } else {
                talk.up(text)
            }
        })],
    ),
    row(
        "never-loads-for-a-prompt",
        HTTP,
        "C17",
        "c17-prompt-loads-a-stored-session",
        &[
            Response(|mem, request, _| {
                if request.is("POST", "/v1/sessions") {
                    mem.count("made");
                }
            }),
            Request(|mem, request| {
                if request.is("POST", "/prompt") && !mem.noted("made") {
                    request.refuse(404, "not_found");
                }
            }),
        ],
    ),
    row(
        "sweeps-for-everybody",
        STDIO,
        "C17",
        "c17-the-sweep-drops-only-sepias-hold",
        &[
            Front(Wire::Http),
            Response(|_, request, response| {
                if request.method == "GET" {
                    response.edit(|body| set(body, "/loaded", json!(false)));
                }
            }),
        ],
    ),
];

/// Changes the sessions that a list tells.
fn lists(talk: &mut Talk, text: &str, change: impl Fn(&mut Vec<Value>)) {
    let method = if talk.answers(text, "session.list") { "session.list" } else { "sessions.list" };
    talk.result(text, method, |result| list(result, "/sessions").into_iter().for_each(change));
}

fn abort_on_disconnect(start: &mut crate::act::Start) {
    if !start.has("--on-disconnect") {
        start.with(&["--on-disconnect", "abort"]);
    }
}
