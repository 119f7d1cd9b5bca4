//! An agent's config as data: instructions, rules, commands, skills, subagents, MCP servers, hooks and settings, each with its
//! place. What an agent says beyond that is kept in `meta`. Clauses: S19, S20.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a config item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigKind {
    /// Text that every session begins with.
    Instructions,
    /// A rule.
    Rule,
    /// A command for people.
    Command,
    /// A skill.
    Skill,
    /// A subagent.
    Subagent,
    /// An MCP server.
    McpServer,
    /// A hook.
    Hook,
    /// A setting.
    Setting,
}

/// An agent's config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentConfig {
    /// The agent.
    pub agent: String,
    /// The config root that was read.
    pub dir: String,
    /// Everything in it.
    pub items: Vec<ConfigItem>,
}

/// One item of a config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigItem {
    /// What it is.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
    /// Whom it is for.
    pub scope: ConfigScope,
    /// Absolute path of the file that has it.
    pub path: String,
    /// What its agent says of it, as it came.
    pub meta: Map<String, Value>,
    /// Its text.
    pub body: String,
}

/// Whom a config item is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigScope {
    /// One project.
    Project,
    /// Everything of this user.
    User,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigImported {
    /// One an item.
    pub actions: Vec<ConfigAction>,
}

/// What an import did with one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigAction {
    /// What was done.
    pub action: ConfigVerb,
    /// What the item is.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
    /// Absolute path of the file that has it now.
    pub path: String,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was done with a config item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfigVerb {
    /// It is new.
    Created,
    /// It was changed.
    Updated,
    /// It was there already.
    Unchanged,
    /// It was left out.
    Skipped,
}
