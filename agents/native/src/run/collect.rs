//! What a model puts out becomes deltas at once and a message at the end.
//! Invariant: the deltas that went out are the message's text, or a beginning of it when the model's future was dropped midway.

use crate::{
    host::Host,
    model::{ModelOut, Piece},
};
use async_trait::async_trait;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use triplane_protocol::{
    AgentEvent, CallId, MessageId, Part,
    ir::{Extra, KnownPart},
};

/// Member of a thinking part: reasoning that is not shown, as the provider gave it.
pub(crate) const SEALED: &str = "sealed";
/// Member of a call part: the provider's signature.
pub(crate) const SIGNATURE: &str = "signature";

/// A call that waits for the end of its turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) input: Value,
}

/// A message in the making.
pub(super) struct Reply {
    pub(super) id: MessageId,
    pub(super) parts: Vec<Part>,
    pub(super) calls: Vec<Call>,
}

/// Takes a turn's pieces.
pub(super) struct Collector {
    host: Arc<dyn Host>,
    reply: Reply,
}

impl Collector {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        let id = host.message_id();
        Self { host, reply: Reply { id, parts: Vec::new(), calls: Vec::new() } }
    }

    pub(super) fn finish(self) -> Reply {
        self.reply
    }

    async fn say(&mut self, text: String) {
        if let Some(Part::Known(KnownPart::Text { text: before, .. })) = self.reply.parts.last_mut() {
            before.push_str(&text);
        } else {
            self.reply.parts.push(Part::text(text.clone()));
        }
        self.host.emit(AgentEvent::LlmDelta { text }).await;
    }

    async fn think(&mut self, text: String) {
        if let Some(Part::Known(KnownPart::Thinking { text: before, signature: None, .. })) =
            self.reply.parts.last_mut()
        {
            before.push_str(&text);
        } else {
            self.reply.parts.push(Part::thinking(text.clone(), None));
        }
        self.host.emit(AgentEvent::LlmThinkingDelta { text }).await;
    }

    fn sign(&mut self, signature: String) {
        let open = self.reply.parts.iter_mut().find_map(|part| match part {
            Part::Known(KnownPart::Thinking { signature, extra, .. }) if signature.is_none() && extra.is_empty() => {
                Some(signature)
            }
            Part::Known(_) | Part::Other(_) => None,
        });
        match open {
            Some(place) => *place = Some(signature),
            None => self.reply.parts.push(Part::thinking("", Some(signature))),
        }
    }

    fn seal(&mut self, sealed: Value) {
        let extra = Extra::from_iter([(SEALED.to_owned(), sealed)]);
        self.reply.parts.push(Part::Known(KnownPart::Thinking { text: String::new(), signature: None, extra }));
    }

    fn call(&mut self, id: Option<CallId>, name: String, input: Value, signature: Option<String>) {
        let made = || CallId::from(format!("{}-{}", self.reply.id, self.reply.calls.len() + 1));
        let id = id.unwrap_or_else(made);
        let extra = signature.map(|signature| (SIGNATURE.to_owned(), Value::from(signature))).into_iter().collect();
        let part = KnownPart::Call { id: id.clone(), name: name.clone(), input: input.clone(), extra };
        self.reply.parts.push(Part::Known(part));
        self.reply.calls.push(Call { id, name, input });
    }

    async fn start_task(&mut self, ms: u64, text: String) {
        let title: String = text.chars().take(80).collect();
        let work = self.host.spawn_task(
            title,
            Box::new(move |_, cancel| {
                Box::pin(async move {
                    tokio::select! {
                        () = cancel.cancelled() => (false, String::new()),
                        () = tokio::time::sleep(Duration::from_millis(ms)) => (true, text),
                    }
                })
            }),
        );
        if let Err(err) = work.await {
            self.say(format!("no task was started: {err}\n")).await;
        }
    }
}

#[async_trait]
impl ModelOut for Collector {
    async fn put(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.say(text).await,
            Piece::Thinking(text) => self.think(text).await,
            Piece::Signature(signature) => self.sign(signature),
            Piece::Sealed(sealed) => self.seal(sealed),
            Piece::Call { id, name, input, signature } => self.call(id, name, input, signature),
            Piece::Task { ms, text } => self.start_task(ms, text).await,
        }
    }
}

/// Keeps the text and nothing else: for a summary.
#[derive(Debug, Default)]
pub(super) struct TextOnly(pub(super) String);

#[async_trait]
impl ModelOut for TextOnly {
    async fn put(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.0.push_str(&text),
            Piece::Thinking(_) | Piece::Signature(_) | Piece::Sealed(_) | Piece::Call { .. } | Piece::Task { .. } => {}
        }
    }
}

/// Whether `part` is the call with this id.
pub(super) fn is_call(part: &Part, call: &CallId) -> bool {
    matches!(part, Part::Known(KnownPart::Call { id, .. }) if id == call)
}
