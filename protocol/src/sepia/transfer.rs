//! Moving sessions between stores, and taking back what was done. Clauses: S08–S10, S21.

use crate::{MessageId, SessionId, ir::Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session on its way to another store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// The whole session.
    pub session: Session,
}

/// What to write where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportParams {
    /// The agent whose store it goes to.
    pub agent: String,
    /// The whole session, as an export gave it. Malformed, it is `invalid`.
    pub session: Value,
    /// The id that it gets; a fresh one otherwise.
    #[serde(default)]
    pub id: Option<SessionId>,
    /// Stands for the session's directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Stands for its title.
    #[serde(default)]
    pub title: Option<String>,
    /// Stands for its model.
    #[serde(default)]
    pub model: Option<String>,
}

/// Where it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// The session.
    pub id: SessionId,
    /// The agent whose store has it.
    pub agent_id: String,
    /// What the store's format cannot hold, one line each; absent when all of it went in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// What to copy where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConvertParams {
    /// A stored session.
    pub id: SessionId,
    /// The agent whose store gets the copy.
    pub agent: String,
    /// The agent that owns it.
    #[serde(default)]
    pub from: Option<String>,
}

/// The copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Converted {
    /// The copy's id.
    pub session_id: SessionId,
    /// The agent whose store has it.
    pub agent_id: String,
    /// What the store's format cannot hold, one line each; absent when all of it went in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// Which files to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreParams {
    /// The session.
    pub id: SessionId,
    /// What to restore.
    pub request: RestoreRequest,
}

/// What to restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreRequest {
    /// The last message that stays; null: as before the first.
    pub to: Option<MessageId>,
    /// Only these files.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
    /// Tells what would be done, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// Absolute paths of the files that were put back.
    pub restored: Vec<String>,
    /// Those that were not.
    pub skipped: Vec<Skipped>,
}

/// A file that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Absolute path.
    pub path: String,
    /// Why, in one line.
    pub reason: String,
}

/// How far to go back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewindParams {
    /// The session.
    pub id: SessionId,
    /// What to take back.
    pub request: RewindRequest,
}

/// What to take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RewindRequest {
    /// The last message that stays; null: none stays.
    pub to: Option<MessageId>,
    /// Whether files are put back too.
    #[serde(default)]
    pub files: bool,
    /// Tells what would be done, and does nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rewound {
    /// How many messages.
    pub removed: u64,
    /// The text of the first prompt that was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What became of the files.
    #[serde(flatten)]
    pub files: Restored,
}
