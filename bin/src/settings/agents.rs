//! The tables `[agents.NAME]`: agents beside those that are known, or known ones started otherwise.
//! Invariant: they name programs that are started without asking, so only the home's file may have them.

use serde::Deserialize;
use std::collections::BTreeMap;
use triplane_acp::Known;

/// `[agents.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentTable {
    /// Program and arguments; a known agent has its own.
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// Added to its environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// How it is spoken to.
    #[serde(default)]
    pub(crate) kind: AgentKind,
    /// Name for people; else the table's.
    pub(crate) name: Option<String>,
}

/// How an agent is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentKind {
    /// The Agent Client Protocol, on its stdio.
    #[default]
    Acp,
}

/// All of them, of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct AgentSettings {
    #[serde(default)]
    pub(crate) agents: BTreeMap<String, AgentTable>,
}

impl AgentSettings {
    /// What is wrong with them, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, table) in &self.agents {
            if matches!(name.as_str(), "native" | "none") || name.is_empty() || name.contains(['/', ' ']) {
                return Err(format!("[agents.{name}]: this name cannot be given to an agent"));
            }
            let known = Known::of(name).is_some() && table.command.is_empty();
            if !known && table.command.first().is_none_or(String::is_empty) {
                return Err(format!(
                    "[agents.{name}]: `command` must name a program, as in [\"program\", \"argument\"]"
                ));
            }
        }
        Ok(())
    }
}
