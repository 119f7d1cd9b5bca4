//! larik as a [`Front`]: one event stream a session, opened before anything is asked of it.

use super::{
    front::{Event, Front, Run},
    http::{Events, Fact, Http},
};
use crate::{
    case::Wire,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::HashMap;

/// A larik client.
#[derive(Debug)]
pub struct LarikFront {
    /// The address.
    pub http: Http,
    streams: HashMap<String, Events>,
}

impl LarikFront {
    /// Speaks to an address.
    pub fn new(http: Http) -> Self {
        Self { http, streams: HashMap::new() }
    }

    fn stream(&mut self, session: &str) -> Outcome<&mut Events> {
        self.streams.get_mut(session).ok_or_else(|| Stop::harness("the session is not watched"))
    }
}

impl From<Fact> for Event {
    fn from(fact: Fact) -> Self {
        Self { kind: fact.kind, data: fact.data }
    }
}

#[async_trait]
impl Front for LarikFront {
    fn wire(&self) -> Wire {
        Wire::Http
    }

    async fn create_session(&mut self) -> Outcome<String> {
        let id = self.http.post("/v1/sessions", &json!({})).await?.want(201).of("H07")?.text("/id")?;
        self.watch(&id).await?;
        Ok(id)
    }

    async fn watch(&mut self, session: &str) -> Outcome {
        let events = self.http.events(&format!("/v1/sessions/{session}/events"), &[]).await.of("H13")?;
        self.streams.insert(session.to_owned(), events);
        Ok(())
    }

    async fn list(&mut self) -> Outcome<Vec<String>> {
        let listed = self.http.get("/v1/sessions").await?.want(200).of("H06")?;
        listed.list("/sessions")?.iter().map(|row| row.text("/id")).collect()
    }

    async fn start(&mut self, session: &str, text: &str) -> Outcome {
        let started = self.http.post(&format!("/v1/sessions/{session}/prompt"), &json!({"text": text})).await?;
        started.want(202).of("H18")?;
        Ok(())
    }

    async fn event(&mut self, session: &str) -> Outcome<Event> {
        Ok(self.stream(session)?.fact().await?.into())
    }

    async fn finish(&mut self, session: &str) -> Outcome<Run> {
        let idle = |fact: &Fact| fact.kind == "status" && fact.data.get("busy") == Some(&Value::Bool(false));
        let facts = self.stream(session)?.until_fact("`status` idle", idle).await.of("H14")?;
        Run::of(facts.into_iter().map(Event::from).collect())
    }

    async fn cancel(&mut self, session: &str) -> Outcome<bool> {
        let answer = self.http.post(&format!("/v1/sessions/{session}/cancel"), &json!({})).await?;
        answer.want(200).of("H19")?.flag("/cancelled")
    }

    async fn answer(&mut self, session: &str, request: &str, allow: bool) -> Outcome {
        let path = format!("/v1/sessions/{session}/permissions/{request}");
        self.http.post(&path, &json!({"allow": allow})).await?.want(204).of("H21")?;
        Ok(())
    }

    async fn messages(&mut self, session: &str) -> Outcome<Vec<Value>> {
        let answer = self.http.get(&format!("/v1/sessions/{session}/messages")).await?.want(200).of("H11")?;
        answer.list("/messages").cloned()
    }
}
