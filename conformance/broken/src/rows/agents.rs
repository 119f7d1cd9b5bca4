//! Breaks of what sepia promises of other agents: their config, and driver processes.

use super::row;
use crate::act::{
    Act::{Down, Start, Up},
    Break, drop_member, list, method, set,
};
use serde_json::json;
use triplane_conformance::cases::STDIO;

/// The rows.
pub(super) const ROWS: &[Break] = &[
    row(
        "hides-a-broken-config",
        STDIO,
        "S19",
        "s19-one-broken-config-hides-no-other",
        &[Down(|_, talk, text| {
            talk.result(text, "config.list", |result| {
                list(result, "").into_iter().for_each(|entries| entries.retain(|entry| entry.get("error").is_none()));
            });
        })],
    ),
    row(
        "counts-nothing",
        STDIO,
        "S19",
        "s19-one-broken-config-hides-no-other",
        &[Down(|_, talk, text| {
            talk.result(text, "config.list", |result| {
                for entry in list(result, "").into_iter().flatten() {
                    set(entry, "/counts/instructions", json!(0));
                }
            });
        })],
    ),
    row(
        "reads-another-body",
        STDIO,
        "S20",
        "s20-the-files-of-a-project",
        &[Down(|_, talk, text| talk.result(text, "config.get", |result| set(result, "/items/1/body", json!("x"))))],
    ),
    row(
        "writes-in-a-dry-run",
        STDIO,
        "S20",
        "s20-import-tells-an-action-an-item",
        &[Up(|_, talk, text| talk.params(text, "config.import", |params| set(params, "/dryRun", json!(false))))],
    ),
    row(
        "tells-created-of-what-is-there",
        STDIO,
        "S20",
        "s20-import-tells-an-action-an-item",
        &[Down(|_, talk, text| {
            talk.result(text, "config.import", |result| {
                for action in list(result, "/actions").into_iter().flatten() {
                    set(action, "/action", json!("created"));
                }
            });
        })],
    ),
    row(
        "skips-without-a-reason",
        STDIO,
        "S20",
        "s20-import-keeps-and-reaches-nothing-else",
        &[Down(|_, talk, text| {
            talk.result(text, "config.import", |result| {
                for action in list(result, "/actions").into_iter().flatten() {
                    drop_member(action, "reason");
                }
            });
        })],
    ),
    row(
        "leaves-servers-out-of-a-copy",
        STDIO,
        "S20",
        "s20-a-copy-from-agent-to-agent",
        &[Up(|_, talk, text| {
            talk.params(text, "config.import", |params| {
                let items = list(params, "/config/items");
                items.into_iter().for_each(|items| items.retain(|item| item["kind"] != "mcp_server"));
            });
        })],
    ),
    row(
        "hears-no-driver-dir",
        STDIO,
        "S31",
        "s31-drivers-are-found-by-name",
        &[Start(|start| start.env.push(("TRIPLANE_DRIVER_DIR".into(), "/nowhere".into())))],
    ),
    row(
        "hears-no-agent-dir",
        STDIO,
        "S31",
        "s31-an-agents-folder-by-variable",
        &[Start(|start| start.env.push(("TRIPLANE_CLAUDE_DIR".into(), "/nowhere".into())))],
    ),
    row(
        "calls-a-dead-driver-internal",
        STDIO,
        "S32",
        "s32-a-death-is-unavailable-and-the-next-call-works",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                set(error, "/data/code", json!("internal"));
                set(error, "/code", json!(-32603));
            });
        })],
    ),
    row(
        "keeps-a-death-to-itself",
        STDIO,
        "S32",
        "s32-a-death-is-unavailable-and-the-next-call-works",
        &[Down(|_, talk, text| {
            talk.error(text, |error| {
                error.pointer_mut("/data").into_iter().for_each(|data| drop_member(data, "cause"));
            });
        })],
    ),
    row(
        "stands-with-a-driver-that-hangs",
        STDIO,
        "S32",
        "s32-other-calls-do-not-hang",
        &[Up(|mem, talk, text| {
            if mem.noted("hung") {
                talk.held.push(text.to_owned());
            } else {
                talk.up(text);
            }
            if method(text) == "config.get" {
                mem.note("hung", json!(true));
            }
        })],
    ),
    row(
        "drops-what-a-driver-says-beyond-the-types",
        STDIO,
        "S32",
        "s32-what-a-driver-says-beyond-the-types",
        &[Down(|_, talk, text| {
            if !text.contains("\"extension\"") {
                talk.down(text);
            }
        })],
    ),
];
