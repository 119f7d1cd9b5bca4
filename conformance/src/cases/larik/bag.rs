//! One session of a larik server, by its paths, for cases that speak of little else.

use crate::{
    client::http::{Events, Http},
    ctx::On,
    json::Json,
    verdict::{Blame, Outcome},
};
use serde_json::{Value, json};

/// One session, by its paths.
#[derive(Debug, Clone)]
pub(super) struct Bag {
    pub(super) http: Http,
    pub(super) id: String,
}

impl Bag {
    /// A new one.
    pub(super) async fn create(on: &On) -> Outcome<Self> {
        let http = on.http()?;
        let id = http.post("/v1/sessions", &json!({})).await?.want(201).of("H07")?.text("/id")?;
        Ok(Self { http, id })
    }

    /// The same session on another server.
    pub(super) fn on(&self, on: &On) -> Outcome<Self> {
        Ok(Self { http: on.http()?, id: self.id.clone() })
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// What `GET` answers with 200.
    pub(super) async fn get(&self, rest: &str) -> Outcome<Value> {
        self.http.get(&self.path(rest)).await?.want(200)
    }

    /// What `POST` answers with this status.
    pub(super) async fn post(&self, rest: &str, body: &Value, status: u16) -> Outcome<Value> {
        self.http.post(&self.path(rest), body).await?.want(status)
    }

    /// Unloads it.
    pub(super) async fn unload(&self) -> Outcome {
        self.http.delete(&self.path("")).await?.want(204).of("H10").map(drop)
    }

    /// Prompts and returns at once.
    pub(super) async fn start(&self, text: &str) -> Outcome<Value> {
        self.post("/prompt", &json!({"text": text}), 202).await.of("H18")
    }

    /// Prompts and waits for the run's end.
    pub(super) async fn run(&self, text: &str) -> Outcome<Value> {
        self.post("/prompt", &json!({"text": text, "wait": true}), 200).await.of("H18")
    }

    pub(super) async fn cancel(&self) -> Outcome<bool> {
        self.post("/cancel", &json!({}), 200).await.of("H19")?.flag("/cancelled")
    }

    /// Role and text of every message; of a boundary, `system` and why.
    pub(super) async fn said(&self) -> Outcome<Vec<(String, String)>> {
        let messages = self.get("/messages").await.of("H11")?;
        messages.list("/messages")?.iter().map(said).collect()
    }

    /// A stream of what comes from now on.
    pub(super) async fn live(&self) -> Outcome<Events> {
        self.http.events(&self.path("/events"), &[]).await.of("H13")
    }

    /// A stream of all that comes after a seq.
    pub(super) async fn after(&self, seq: u64) -> Outcome<Events> {
        self.http.events(&self.path("/events"), &[("Last-Event-ID", &seq.to_string())]).await.of("H15")
    }
}

fn said(message: &Value) -> Outcome<(String, String)> {
    let parts = message.list("/parts")?;
    let text = |part: &Value| {
        let of = |name| part.get(name).and_then(Value::as_str).unwrap_or_default();
        format!("{}{}", of("text"), of("why"))
    };
    Ok((message.text("/role")?, parts.iter().map(text).collect()))
}

/// Pairs, as they are compared.
pub(super) fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}
