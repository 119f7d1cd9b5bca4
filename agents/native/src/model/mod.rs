//! What a model looks like from the loop, and which models there are.
//! Invariant: a model writes no history and runs no tool; it puts pieces out, in order, and says how its turn ended.

#[cfg(feature = "providers")]
pub mod net;
mod script;

pub use script::ScriptProvider;

use async_trait::async_trait;
use serde_json::Value;
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{CallId, ErrorCode, Message, Stop, Usage, ir::Effort};

/// What is asked of a model.
#[derive(Debug)]
pub struct ModelRequest<'a> {
    /// What it is asked for.
    pub purpose: Purpose,
    /// What it is told before the conversation; only for models that are [`Model::prompted`].
    pub system: Option<&'a str>,
    /// What it sees, oldest first.
    pub history: &'a [Arc<Message>],
    /// Reasoning effort, where it was chosen.
    pub effort: Option<Effort>,
    /// Tools that it may call; none for a summary.
    pub tools: &'a [ToolSpec],
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The next turn of the conversation.
    Turn,
    /// A summary of the conversation, to stand for it.
    Summary,
}

/// A tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it does and how it is used well.
    pub description: Cow<'static, str>,
    /// JSON Schema of its input.
    pub schema: Value,
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Says something.
    Text(String),
    /// Shows reasoning.
    Thinking(String),
    /// Signs the first reasoning that is not signed yet; it has to be handed back as it is.
    Signature(String),
    /// Reasoning that is not shown and has to be handed back as it is.
    Sealed(Value),
    /// Calls a tool; it runs when the turn is over.
    Call {
        /// The provider's id; `None`: one is made.
        id: Option<CallId>,
        /// The tool.
        name: String,
        /// Its input; a text where it was not JSON.
        input: Value,
        /// The provider's signature of the call; it has to be handed back as it is.
        signature: Option<String>,
    },
    /// Starts a background task that ends after `ms` with `text`; only the scripted model does.
    Task {
        /// Milliseconds.
        ms: u64,
        /// Its closing text.
        text: String,
    },
}

/// Where a model puts its pieces.
#[async_trait]
pub trait ModelOut: Send {
    /// Takes one piece; waits while the session's queue is full.
    async fn put(&mut self, piece: Piece);
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnd {
    /// `Completed`, `MaxTokens` or `Refused`.
    pub stop: Stop,
    /// Tokens of the turn.
    pub usage: Usage,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// One line that helps; no secret.
    pub message: String,
    /// Whether the same request may work later.
    pub retryable: bool,
    /// When the provider says how long to wait before.
    pub retry_after: Option<Duration>,
}

/// How often a model is asked again, and after how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// After the first; 0: never again.
    pub attempts: u32,
    /// The wait before the first of them; it doubles.
    pub base: Duration,
}

impl Retries {
    /// Never again.
    pub const NONE: Self = Self { attempts: 0, base: Duration::ZERO };
}

/// A model.
#[async_trait]
pub trait Model: Send + Sync {
    /// Whether it wants a system prompt; making one reads files.
    fn prompted(&self) -> bool {
        false
    }

    /// Tokens that it takes in all; `None`: not known.
    fn context(&self) -> Option<u64> {
        None
    }

    /// How often a turn that failed and is retryable is tried again.
    fn retries(&self) -> Retries {
        Retries::NONE
    }

    /// Asks the model once. Pieces go to `out` as they come.
    /// Cancel: the loop drops the future; `cancel` is there for work that is not ended by that.
    async fn turn(
        &self,
        request: ModelRequest<'_>,
        out: &mut dyn ModelOut,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, ModelError>;
}

/// Who has models.
pub trait Provider: Send + Sync {
    /// What stands before the `/`.
    fn id(&self) -> &str;

    /// Names of models for people, without the provider; may be only the usual ones.
    fn names(&self) -> Vec<String>;

    /// The model of this name; starts nothing. The error is one line for the client.
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, String>;
}

/// Every provider; a seam for those that need a network.
#[derive(Clone)]
pub struct Models {
    providers: Vec<Arc<dyn Provider>>,
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for Models {
    fn default() -> Self {
        Self { providers: vec![Arc::new(ScriptProvider)] }
    }
}

impl Models {
    /// One more provider, in front of the others: its first name becomes the default model.
    #[must_use]
    pub fn with(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.insert(0, provider);
        self
    }

    /// Every `provider/name` that is known by name.
    pub fn names(&self) -> Vec<String> {
        let rows = self.providers.iter();
        rows.flat_map(|p| p.names().into_iter().map(move |name| format!("{}/{name}", p.id()))).collect()
    }

    /// The model of `provider/name`. The error is one line for the client, and names what there is.
    pub fn find(&self, model: &str) -> Result<Arc<dyn Model>, String> {
        let known = || self.names().join(", ");
        let Some((provider, name)) = model.split_once('/').filter(|(p, n)| !p.is_empty() && !n.is_empty()) else {
            return Err(format!("model must be `provider/name`; known here: {}", known()));
        };
        match self.providers.iter().find(|p| p.id() == provider) {
            Some(found) => found.model(name).map_err(|err| format!("{err}; known here: {}", known())),
            None => Err(format!("model: no provider `{}`; known here: {}", shown(provider), known())),
        }
    }
}

/// A client's text inside an error: short and on one line.
fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_model_names_the_known_ones() {
        let models = Models::default();
        assert!(models.find("script/echo").is_ok());
        for bad in ["", "echo", "/echo", "script/", "nope/x", "script/other", "-p/x\n"] {
            let err = models.find(bad).err().unwrap();
            assert!(err.contains("script/echo") && !err.contains('\n'), "{bad:?}: {err}");
        }
    }
}
