//! larik: HTTP and server-sent events.

mod bag;
pub mod cancels;
pub mod corners;
pub mod document;
pub mod events;
pub mod history;
pub mod load;
pub mod permissions;
pub mod prompts;
pub mod readers;
pub mod reloads;
pub mod replay;
pub mod restarts;
pub mod server;
pub mod sessions;
pub mod tasks;

use crate::{
    case::Case,
    client::http::Http,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};

/// The files of this topic.
pub const FILES: &[&[Case]] = &[
    server::CASES,
    sessions::CASES,
    events::CASES,
    replay::CASES,
    prompts::CASES,
    permissions::CASES,
    history::CASES,
    tasks::CASES,
    document::CASES,
    cancels::CASES,
    readers::CASES,
    load::CASES,
    restarts::CASES,
    reloads::CASES,
    corners::CASES,
];

/// Makes a session; its id.
pub(super) async fn create(http: &Http) -> Outcome<String> {
    http.post("/v1/sessions", &json!({})).await?.want(201).of("H07")?.text("/id")
}

/// Runs a prompt to its end; the answer.
pub(super) async fn wait(http: &Http, id: &str, text: &str) -> Outcome<Value> {
    http.post(&format!("/v1/sessions/{id}/prompt"), &json!({"text": text, "wait": true})).await?.want(200).of("H18")
}

/// The session as `GET` tells it.
pub(super) async fn get(http: &Http, id: &str) -> Outcome<Value> {
    http.get(&format!("/v1/sessions/{id}")).await?.want(200).of("H08")
}
