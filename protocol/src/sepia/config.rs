//! Agents, projects and config. Clauses: S05, S18–S20.

pub use crate::config::*;
use crate::ir::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The registered agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// In order of preference.
    pub agents: Vec<AgentView>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its short name.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its version, where it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it can be started here.
    pub installed: bool,
    /// What it can do.
    pub capabilities: CapabilitiesView,
}

/// What an agent can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilitiesView {
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
    /// The permission modes that it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// The models that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// The projects of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Projects {
    /// By age, oldest first.
    pub projects: Vec<Project>,
}

/// Sessions that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Unique on this node.
    pub id: String,
    /// For people.
    pub name: String,
    /// Milliseconds since the epoch.
    pub created_at: i64,
}

/// A new project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreateProjectParams {
    /// For people; not empty.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// A new name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenameProjectParams {
    /// The project.
    pub id: String,
    /// For people; not empty.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Names a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectRef {
    /// The project.
    pub id: String,
}

/// Whose config to count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigListParams {
    /// One agent; all that have config otherwise.
    #[serde(default)]
    pub agent: Option<String>,
    /// The config root that the agent expects; its own default otherwise.
    #[serde(default)]
    pub dir: Option<String>,
}

/// Whose config to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigParams {
    /// The agent.
    pub agent: String,
    /// The config root that the agent expects; its own default otherwise.
    #[serde(default)]
    pub dir: Option<String>,
}

/// What to install for whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigImportParams {
    /// The agent.
    pub agent: String,
    /// The config root that the agent expects; its own default otherwise.
    #[serde(default)]
    pub dir: Option<String>,
    /// An export, or what `config.get` gave. Malformed, it is `invalid`.
    pub config: Value,
    /// Tells what would be done, and does nothing.
    #[serde(default, rename = "dryRun")]
    pub dry_run: bool,
}

/// What one agent's config holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ConfigEntry {
    /// It could be read.
    Counted {
        /// The agent.
        agent: String,
        /// Items of each kind.
        counts: BTreeMap<ConfigKind, u64>,
    },
    /// It could not.
    Failed {
        /// The agent.
        agent: String,
        /// Why, in one line.
        error: String,
    },
}
