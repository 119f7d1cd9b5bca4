//! Models over the network, through `genai`, behind our own trait so that the library can be changed.
//! Invariants: nothing is opened, read or resolved before the first turn; a key is in no log, event, transcript, error or
//! `Debug`; a turn that does not end as its protocol says is a failure, never a short answer.
//!
//! Reading order:
//! - [`config`]: which provider, where, with which key. [`key`]: the key.
//! - [`client`]: the connection pool, made at first use.
//! - [`request`]: the history in the library's words. [`reply`]: its stream as our pieces. [`trouble`]: its errors as ours.

mod client;
mod config;
mod key;
mod reply;
mod request;
mod trouble;

pub use config::{Protocol, ProviderConfig, UnknownProtocol};
pub use key::{Key, KeySource};

use super::{Model, ModelError, ModelOut, ModelRequest, Provider, Retries, TurnEnd};
use async_trait::async_trait;
use client::Line;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The longest model name that is taken.
const NAME_BYTES: usize = 256;

/// One provider.
#[derive(Debug)]
pub struct NetProvider {
    line: Arc<Line>,
}

impl NetProvider {
    /// Starts nothing. Errors: an address that is none; one line, without the key.
    pub fn new(config: ProviderConfig) -> Result<Self, String> {
        Ok(Self { line: Arc::new(Line::new(config)?) })
    }
}

impl Provider for NetProvider {
    fn id(&self) -> &str {
        &self.line.config.id
    }

    fn names(&self) -> Vec<String> {
        self.line.config.models.clone()
    }

    fn model(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let id = self.id();
        if name.len() > NAME_BYTES || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("model: `{id}` has no model of such a name"));
        }
        if let KeySource::Missing { help } = &self.line.config.key {
            return Err(format!("model: no key for `{id}`: {help}"));
        }
        Ok(Arc::new(NetModel { line: Arc::clone(&self.line), name: name.to_owned() }))
    }
}

/// One model of a provider.
#[derive(Debug)]
struct NetModel {
    line: Arc<Line>,
    name: String,
}

#[async_trait]
impl Model for NetModel {
    fn prompted(&self) -> bool {
        true
    }

    fn context(&self) -> Option<u64> {
        self.line.config.context.or_else(|| config::usual_context(&self.name))
    }

    fn retries(&self) -> Retries {
        self.line.config.retries
    }

    async fn turn(
        &self,
        request: ModelRequest<'_>,
        out: &mut dyn ModelOut,
        _cancel: &CancellationToken,
    ) -> Result<TurnEnd, ModelError> {
        let open = self.line.open().await?;
        let notes = Arc::<reply::Notes>::default();
        let options = request::options(&self.line.config, &self.name, &request, &open, Arc::clone(&notes));
        let chat = request::chat(&self.line.config, &request);
        let target = open.target(self.line.config.protocol, &self.name);
        let trouble = trouble::Trouble::new(&self.line, &open);
        let stream = open.client.exec_chat_stream(target, chat, Some(&options)).await;
        let stream = stream.map_err(|error| trouble.of(error))?.stream;
        reply::take(self.line.config.protocol, stream, &notes, &trouble, out).await
    }
}

#[cfg(test)]
mod tests;
