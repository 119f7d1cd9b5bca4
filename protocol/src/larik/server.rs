//! What a larik server says of itself.

use crate::ir::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::sync::Arc;

/// The server is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    /// Always `ok`.
    pub status: String,
    /// Version of the server.
    pub version: String,
}

/// The server, its directory and what it can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerDetails {
    /// Version of the server.
    pub version: String,
    /// Absolute directory that new sessions work in.
    pub cwd: String,
    /// Model providers that are set up.
    pub providers: Vec<Provider>,
    /// How commands are kept in.
    pub sandbox: Sandbox,
    /// Agents that are registered, in order of preference.
    pub agents: Vec<AgentInfo>,
    /// This machine, as other nodes know it.
    pub node: Node,
    /// Transports that this process serves: `ws`, `http`, `stdio`.
    pub transports: Vec<String>,
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provider {
    /// The part of a model's name before the slash.
    pub name: String,
    /// Models that it names, as `provider/name`; empty when any may be asked for.
    pub models: Vec<String>,
}

/// How commands of the built-in agent are kept in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// `none`, or the mechanism's name.
    pub kind: String,
    /// Whether it is really in force on this system.
    pub enforced: bool,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Minted once.
    pub id: String,
    /// For people.
    pub name: String,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// Short name, as in `agent` of a new session.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Its version, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it can be started here.
    pub installed: bool,
    /// What it can do.
    pub capabilities: AgentAbilities,
}

/// What an agent can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentAbilities {
    /// Runs prompts.
    pub prompt: bool,
    /// Its sessions can be read.
    pub read: bool,
    /// Sessions can be written into its store.
    pub write: bool,
    /// Its sessions can be deleted.
    pub delete: bool,
    /// Its config can be read and written.
    pub config: bool,
    /// Modes that it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// Models that it names, if it has a closed list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// A document that was made once and is sent as it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Document(#[schemars(with = "Map<String, Value>")] pub Arc<RawValue>);
