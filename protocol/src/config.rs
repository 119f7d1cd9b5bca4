//! An agent's config as data: instructions, rules, commands, skills, subagents, MCP servers, hooks and settings, each with its
//! place. What an agent says beyond that is kept in `meta`. Clauses: S19, S20.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

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

impl ConfigKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Instructions,
        Self::Rule,
        Self::Command,
        Self::Skill,
        Self::Subagent,
        Self::McpServer,
        Self::Hook,
        Self::Setting,
    ];

    /// The kind as it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Rule => "rule",
            Self::Command => "command",
            Self::Skill => "skill",
            Self::Subagent => "subagent",
            Self::McpServer => "mcp_server",
            Self::Hook => "hook",
            Self::Setting => "setting",
        }
    }
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

impl AgentConfig {
    /// How many items there are of each kind, zeros included.
    pub fn counts(&self) -> BTreeMap<ConfigKind, u64> {
        let mut counts: BTreeMap<ConfigKind, u64> = ConfigKind::ALL.iter().map(|kind| (*kind, 0)).collect();
        for item in &self.items {
            *counts.entry(item.kind).or_default() += 1;
        }
        counts
    }

    /// Reads what an import is given: a serialized [`AgentConfig`], or one wrapped as `{config}`. Members that only say where
    /// an item came from may be missing; without `agent` it is `agent`'s own. The error is one line that names the member.
    pub fn parse(given: Value, agent: &str) -> Result<Self, String> {
        let mut given = given;
        if let Some(inner) = given.get_mut("config").filter(|inner| inner.is_object()) {
            given = inner.take();
        }
        // A list would be taken for the members in their order.
        if !given.is_object() {
            return Err("must be an object with `items`".into());
        }
        let items = given.get("items").and_then(Value::as_array).into_iter().flatten();
        if let Some(index) = items.into_iter().position(|item| !item.is_object()) {
            return Err(format!("items[{index}]: must be an object"));
        }
        let given: Given = serde_path_to_error::deserialize(given).map_err(|error| {
            let path = error.path().to_string();
            if path == "." { error.inner().to_string() } else { format!("{path}: {}", error.inner()) }
        })?;
        let item = |item: GivenItem| {
            let GivenItem { kind, name, scope, path, meta, body } = item;
            ConfigItem { kind, name, scope: scope.unwrap_or(ConfigScope::Project), path, meta, body }
        };
        Ok(Self {
            agent: given.agent.unwrap_or_else(|| agent.to_owned()),
            dir: given.dir,
            items: given.items.into_iter().map(item).collect(),
        })
    }
}

#[derive(Deserialize)]
struct Given {
    agent: Option<String>,
    #[serde(default)]
    dir: String,
    items: Vec<GivenItem>,
}

#[derive(Deserialize)]
struct GivenItem {
    kind: ConfigKind,
    name: String,
    scope: Option<ConfigScope>,
    #[serde(default)]
    path: String,
    #[serde(default)]
    meta: Map<String, Value>,
    #[serde(default)]
    body: String,
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
    /// Why it was skipped, or what of it was left out.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_import_takes_an_export_and_says_what_is_wrong() {
        let whole = json!({"agent": "a", "dir": "/d", "items": [
            {"kind": "rule", "name": "r", "scope": "user", "path": "/d/r.md", "meta": {"x": 1}, "body": "b"}
        ]});
        let config = AgentConfig::parse(whole.clone(), "z").unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), whole);
        assert_eq!(AgentConfig::parse(json!({"config": whole}), "z").unwrap(), config);
        let short = AgentConfig::parse(json!({"items": [{"kind": "rule", "name": "r"}]}), "z").unwrap();
        assert_eq!((short.agent.as_str(), short.counts()[&ConfigKind::Rule]), ("z", 1));
        for (wrong, told) in [
            (json!({}), "missing field `items`"),
            (json!([]), "must be an object"),
            (json!({"items": [["rule", "x"]]}), "items[0]: must be an object"),
            (json!({"items": [{"kind": "spell", "name": "x"}]}), "items[0].kind: unknown variant `spell`"),
            (json!({"items": [{"kind": "rule"}]}), "items[0]: missing field `name`"),
            (json!({"items": [{"kind": "rule", "name": "x", "meta": []}]}), "items[0].meta: invalid type"),
            (json!({"config": 1, "items": 2}), "items: invalid type"),
        ] {
            let error = AgentConfig::parse(wrong, "z").unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn kinds_are_named_as_on_the_wire() {
        for kind in ConfigKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
