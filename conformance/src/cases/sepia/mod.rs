//! sepia: JSON-RPC, a line each, over stdio.

pub mod config;
pub mod drivers;
pub mod feed;
pub mod foreign;
pub mod framing;
pub mod history;
pub mod live;
pub mod manifest;
pub mod mirror;
pub mod order;
pub mod overlay;
pub mod process;
pub mod prompts;
pub mod stored;
pub mod texts;

use crate::{
    case::Case,
    client::rpc::Rpc,
    ctx::Ctx,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};

/// The files of this topic.
pub const FILES: &[&[Case]] = &[
    framing::CASES,
    texts::CASES,
    manifest::CASES,
    live::CASES,
    order::CASES,
    prompts::CASES,
    feed::CASES,
    mirror::CASES,
    history::CASES,
    stored::CASES,
    foreign::CASES,
    overlay::CASES,
    config::CASES,
    drivers::CASES,
    process::CASES,
];

/// Makes a session in the server's directory; its id.
pub(super) async fn create(rpc: &mut Rpc, ctx: &Ctx) -> Outcome<String> {
    rpc.call("sessions.create", json!({"cwd": ctx.work()})).await.of("S14")?.text("/id")
}

/// Params of a prompt.
pub(super) fn prompt(id: &str, text: &str) -> Value {
    json!({"id": id, "parts": [{"type": "text", "text": text}]})
}

/// A session's row in the list.
pub(super) async fn row(rpc: &mut Rpc, id: &str) -> Outcome<Option<Value>> {
    let listed = rpc.call("sessions.list", json!({})).await.of("S06")?;
    Ok(listed.list("/sessions")?.iter().find(|row| row.get("id") == Some(&json!(id))).cloned())
}
