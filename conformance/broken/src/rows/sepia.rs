//! Breaks of sepia's clauses.

use super::row;
use crate::act::{
    Act::{Down, Exits, Start, Up},
    Break, drop_member, list, method, parse, set, text,
};
use serde_json::{Value, json};
use triplane_conformance::cases::STDIO;

/// The rows.
pub(super) const ROWS: &[Break] = &[
    row(
        "answers-blank-lines",
        STDIO,
        "S01",
        "s01-blank-lines-and-crlf",
        &[Up(|_, talk, text| {
            if text.trim().is_empty() {
                talk.refuse(text, -32700, "parse error");
            } else {
                talk.up(text);
            }
        })],
    ),
    row(
        "lets-lines-wait-for-a-run",
        STDIO,
        "S01",
        "s01-replies-do-not-wait-for-a-run",
        &[Up(|mem, talk, text| {
            if mem.noted("running") {
                talk.held.push(text.to_owned());
            } else {
                talk.up(text);
            }
            if method(text) == "sessions.prompt" {
                mem.note("running", json!(true));
            }
        })],
    ),
    row(
        "takes-lines-of-any-length",
        STDIO,
        "S01",
        "s01-a-line-over-16-mib-is-skipped",
        &[Up(|_, talk, text| {
            let mut request = parse(text);
            if text.len() > 16 << 20 && !request.is_null() {
                set(&mut request, "/params", json!({}));
                talk.up(request.to_string());
            } else if text.len() > 16 << 20 {
                // Too long, and no JSON either: it says nothing at all to that.
            } else {
                talk.up(text);
            }
        })],
    ),
    row(
        "tells-a-method-too-many",
        STDIO,
        "S02",
        "s02-methods-are-exactly-those-served",
        &[Down(|_, talk, text| {
            talk.result(text, "manifest", |result| {
                list(result, "/methods").into_iter().for_each(|names| names.push(json!("sessions.nothing")));
            });
        })],
    ),
    row(
        "is-a-new-node-each-time",
        STDIO,
        "S03",
        "s03-node-id-stays",
        &[Start(|start| {
            let _ = std::fs::remove_file(start.here.home.join("node.json"));
        })],
    ),
    row("hears-no-ttl", STDIO, "S04", "s04-flags-and-variables", &[Start(|start| start.without("--idle-ttl-ms"))]),
    row("has-other-defaults", STDIO, "S04", "s04-defaults", &[Start(|start| start.with(&["--sweep-ms", "1234"]))]),
    row(
        "tells-no-agents",
        STDIO,
        "S05",
        "s05-agents",
        &[Down(|_, talk, text| {
            talk.result(text, "agents.list", |result| list(result, "/agents").into_iter().for_each(Vec::clear));
        })],
    ),
    row(
        "lists-nothing-pending-here",
        STDIO,
        "S06",
        "s06-a-created-session-is-a-pending-row",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.list", |result| {
                for row in list(result, "/sessions").into_iter().flatten() {
                    set(row, "/pending", json!(false));
                }
            });
        })],
    ),
    row(
        "gets-half-a-session",
        STDIO,
        "S07",
        "s07-get-and-summary",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.get", |result| drop(list(result, "/messages").and_then(Vec::pop)));
        })],
    ),
    row(
        "exports-without-a-wrapper",
        STDIO,
        "S08",
        "s08-export-and-import-round-trip",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.export", |result| *result = result.get("session").cloned().unwrap_or_default());
        })],
    ),
    row(
        "imports-under-its-own-id",
        STDIO,
        "S09",
        "s09-import-under-an-id",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.import", |params| drop_member(params, "id"));
        })],
    ),
    row(
        "converts-in-place",
        STDIO,
        "S10",
        "s10-convert-copies",
        &[Down(|_, talk, line| {
            let id = talk.request(&parse(line)).pointer("/params/id").cloned().unwrap_or_default();
            talk.result(line, "sessions.convert", |result| set(result, "/sessionId", id));
        })],
    ),
    row(
        "pages-the-other-way",
        STDIO,
        "S11",
        "s11-pages-newest-first",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.history", |result| {
                list(result, "/messages").into_iter().for_each(|all| all.reverse());
            });
        })],
    ),
    row("caps-no-page", STDIO, "S11", "s11-limit-is-capped", &[Start(|start| start.without("--history-limit"))]),
    row(
        "frees-no-lock",
        STDIO,
        "S12",
        "s12-attach-after-detach",
        &[Up(|mem, talk, text| {
            if method(text) == "sessions.detach" {
                mem.note("detached", json!(true));
            }
            if method(text) == "sessions.attach" && mem.noted("detached") {
                talk.refuse(text, -32000, "locked");
            } else {
                talk.up(text);
            }
        })],
    ),
    row(
        "takes-the-first-model-or-none",
        STDIO,
        "S12",
        "s12-model-fallbacks-are-tried-in-order-and-told",
        &[Up(|_, talk, text| talk.params(text, "sessions.attach", |params| drop_member(params, "fallbacks")))],
    ),
    row(
        "detaches-and-lets-runs-go-on",
        STDIO,
        "S13",
        "s13-detach-cancels-the-run",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.prompt", |result| set(result, "/stopReason", json!("completed")));
        })],
    ),
    row(
        "creates-without-the-title",
        STDIO,
        "S14",
        "s14-create",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.create", |params| drop_member(params, "title"));
        })],
    ),
    row(
        "gives-no-hint",
        STDIO,
        "S15",
        "s15-not-live-is-not-found-with-a-hint",
        &[Down(|_, talk, text| {
            talk.error(text, |error| set(error, "/message", json!("not found")));
        })],
    ),
    row(
        "takes-a-second-answer-here",
        STDIO,
        "S15",
        "s15-permission-answered-twice",
        &[Down(|_, talk, line| {
            let id = parse(line).get("id").cloned().unwrap_or_default();
            if talk.answers(line, "sessions.permission") && line.contains("\"error\"") {
                talk.down(json!({"jsonrpc": "2.0", "id": id, "result": {"resolved": true}}).to_string());
            } else {
                talk.down(line);
            }
        })],
    ),
    row(
        "calls-a-failed-run-completed",
        STDIO,
        "S15",
        "s15-prompt-answers-at-the-end",
        &[Down(|_, talk, text| {
            talk.result(text, "sessions.prompt", |result| set(result, "/stopReason", json!("completed")));
        })],
    ),
    row(
        "deletes-in-name",
        STDIO,
        "S16",
        "s16-delete",
        &[Down(|mem, talk, line| {
            if talk.answers(line, "sessions.delete") {
                let id = text(&talk.request(&parse(line)), "/params/id");
                let _ = std::fs::write(mem.here.transcript(&id), "");
            }
            talk.down(line);
        })],
    ),
    row(
        "keeps-what-null-clears",
        STDIO,
        "S17",
        "s17-null-clears",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.patch_meta", |params| {
                if let Some(patch) = params.get_mut("patch").and_then(Value::as_object_mut) {
                    patch.retain(|_, value| !value.is_null());
                }
            });
        })],
    ),
    row(
        "keeps-deleted-projects",
        STDIO,
        "S18",
        "s18-projects",
        &[Down(|mem, talk, text| {
            talk.result(text, "sessions.list", |result| {
                for row in list(result, "/sessions").into_iter().flatten() {
                    let told = row.get("projectIds").cloned().unwrap_or_default();
                    let before = mem.notes.entry("projects".to_owned()).or_insert(told);
                    set(row, "/projectIds", before.clone());
                }
            });
        })],
    ),
    row(
        "lets-one-broken-config-hide-the-others",
        STDIO,
        "S19",
        "s19-one-broken-config-hides-no-other",
        &[Down(|_, talk, text| {
            talk.result(text, "config.list", |result| {
                if let Some(all) = result.as_array_mut().filter(|all| all.iter().any(|one| one.get("error").is_some()))
                {
                    all.retain(|one| one.get("error").is_some());
                }
            });
        })],
    ),
    row(
        "imports-without-an-action",
        STDIO,
        "S20",
        "s20-import-tells-an-action-an-item",
        &[Down(|_, talk, text| {
            talk.result(text, "config.import", |result| list(result, "/actions").into_iter().for_each(Vec::clear));
        })],
    ),
    row(
        "hears-no-agents-folder",
        STDIO,
        "S31",
        "s31-an-agents-folder-by-variable",
        &[Start(|start| {
            for name in ["TRIPLANE_CLAUDE_DIR", "TRIPLANE_CODEX_DIR", "SEPIA_CLAUDE_DIR", "SEPIA_CODEX_DIR"] {
                start.env.push((name.to_owned(), "/nowhere".to_owned()));
            }
        })],
    ),
    row(
        "restores-nothing",
        STDIO,
        "S21",
        "s21-restore-puts-files-back",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.restore", |params| {
                if let Some(request) = params.get_mut("request").and_then(Value::as_object_mut) {
                    request.insert("dryRun".to_owned(), json!(true));
                }
            });
        })],
    ),
    row(
        "rewinds-nothing",
        STDIO,
        "S21",
        "s21-rewind-detaches",
        &[Up(|_, talk, text| {
            talk.params(text, "sessions.rewind", |params| {
                if let Some(request) = params.get_mut("request").and_then(Value::as_object_mut) {
                    request.insert("files".to_owned(), json!(false));
                }
            });
        })],
    ),
    row(
        "has-one-forwarder",
        STDIO,
        "S22",
        "s22-a-second-subscribe-doubles",
        &[Down(|_, talk, text| {
            if talk.held.last().is_some_and(|last| last == text) {
                return;
            }
            talk.held = vec![text.to_owned()];
            talk.down(text);
        })],
    ),
    row(
        "sends-before-it-is-asked",
        STDIO,
        "S22",
        "s22-nothing-before-subscribe",
        &[Down(|_, talk, text| {
            if talk.answers(text, "sessions.prompt") {
                let params = json!({"sessionId": "x", "events": [], "lagged": 1});
                talk.down(json!({"jsonrpc": "2.0", "method": "session.event", "params": params}).to_string());
            }
            talk.down(text);
        })],
    ),
    row(
        "drops-an-event-of-a-forwarder",
        STDIO,
        "S22",
        "s22-a-second-subscribe-doubles",
        &[Down(|mem, talk, line| {
            if !(line.contains("\"session.event\"") && mem.count("event") == 5) {
                talk.down(line);
            }
        })],
    ),
    row(
        "counts-no-losses",
        STDIO,
        "S23",
        "s23-lagging-is-counted",
        &[Down(|_, talk, line| {
            if parse(line).pointer("/params/lagged").is_none() {
                talk.down(line);
            }
        })],
    ),
    row(
        "calls-nobody-live",
        STDIO,
        "S24",
        "s24-subscribe-tells-who-is-live",
        &[Down(|_, talk, text| {
            talk.result(text, "events.subscribe", |result| list(result, "/live").into_iter().for_each(Vec::clear));
        })],
    ),
    row(
        "calls-every-end-idle",
        STDIO,
        "S25",
        "s25-markers-of-a-life",
        &[Down(|_, talk, line| {
            talk.down(line.replace("\"explicit\"", "\"idle\""));
        })],
    ),
    row(
        "goes-on-behind-detached",
        STDIO,
        "S26",
        "s26-detached-is-last",
        &[Down(|_, talk, line| {
            if line.contains("runFinished") && line.contains("node.event") {
                talk.held.push(line.to_owned());
            } else {
                talk.down(line);
                if text(&parse(line), "/params/type") == "detached" {
                    talk.release_down();
                }
            }
        })],
    ),
    row(
        "tells-of-a-failed-attach",
        STDIO,
        "S26",
        "s26-a-failed-attach-says-nothing",
        &[Down(|_, talk, line| {
            if talk.answers(line, "sessions.attach") && line.contains("\"error\"") {
                let id = text(&talk.request(&parse(line)), "/params/id");
                let params = json!({"type": "attached", "sessionId": id, "agentId": "native"});
                talk.down(json!({"jsonrpc": "2.0", "method": "node.event", "params": params}).to_string());
            }
            talk.down(line);
        })],
    ),
    row(
        "marks-no-end",
        STDIO,
        "S27",
        "s27-runs-are-marked",
        &[Down(|_, talk, line| {
            if !line.contains("runFinished") {
                talk.down(line);
            }
        })],
    ),
    row(
        "calls-a-bad-bundle-internal",
        STDIO,
        "S28",
        "s28-a-malformed-bundle-is-invalid",
        &[Down(|_, talk, line| {
            talk.error(line, |error| {
                if error.pointer("/data/code") == Some(&json!("invalid")) {
                    set(error, "/data/code", json!("internal"));
                    set(error, "/code", json!(-32603));
                }
            });
        })],
    ),
    row("never-sweeps", STDIO, "S29", "s29-idle-sessions-are-swept", &[Start(|start| start.without("--idle-ttl-ms"))]),
    row(
        "sweeps-busy-sessions",
        STDIO,
        "S29",
        "s29-busy-sessions-are-not",
        &[Down(|_, talk, line| {
            talk.down(line);
            let event = parse(line);
            if line.contains("runStarted") && text(&event, "/params/type") == "sessionEvents" {
                let params = json!({"type": "detached", "sessionId": text(&event, "/params/sessionId"), "agentId": "native", "reason": "idle"});
                talk.down(json!({"jsonrpc": "2.0", "method": "node.event", "params": params}).to_string());
            }
        })],
    ),
    row("shuts-down-with-1", STDIO, "S30", "s30-shutdown", &[Exits(1)]),
    row(
        "shuts-down-without-a-word",
        STDIO,
        "S30",
        "s30-shutdown",
        &[Down(|_, talk, line| {
            if text(&parse(line), "/params/type") != "detached" {
                talk.down(line);
            }
        })],
    ),
];
