//! What a client is told when a call fails: a code, one line that helps, and the cause where a store or an agent gave one.
//! The log gets the whole chain; a failure never holds a secret. Clauses: C02, C03.

use crate::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A failed call, as it goes on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// What the client can do about it.
    pub code: ErrorCode,
    /// One line for people.
    pub message: String,
    /// The store's, agent's or driver's own message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Failure {
    /// A failure without a cause.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None }
    }

    /// The same, with the message of whatever stood behind it.
    #[must_use]
    pub fn because(mut self, cause: impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The one place where a row that is declared, but not built, answers.
    pub fn not_built(row: &str) -> Self {
        Self::new(ErrorCode::Unsupported, format!("`{row}` is not built yet"))
    }
}
