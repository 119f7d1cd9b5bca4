//! The tables `[mcp.NAME]` and `[lsp.NAME]`: servers of tools, and language servers.
//! Invariant: a checkout may name MCP servers, which are not started before a person approves them, and may switch a language
//! server off; it cannot say which language server is started, nor that a tool only looks.

use super::{beside, file::Owner};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

/// `[mcp.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpTable {
    /// The program; of this and `url` exactly one.
    pub(crate) command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variables that it sees besides the basic ones.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Its directory; else the one that triplane runs in.
    pub(crate) cwd: Option<PathBuf>,
    /// The address of a server that is reached over HTTP.
    pub(crate) url: Option<String>,
    /// Headers for it.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether it is used.
    pub(crate) enabled: Option<bool>,
    /// How long a start may take.
    pub(crate) start_timeout_ms: Option<NonZeroU64>,
    /// How long nothing may come of a call.
    pub(crate) call_timeout_ms: Option<NonZeroU64>,
    /// How long a call may take in all.
    pub(crate) max_call_ms: Option<NonZeroU64>,
    /// Tools that only look, and so do not ask.
    #[serde(default)]
    pub(crate) read_only: Vec<String>,
}

/// `[lsp.NAME]`. What is absent stays as the table that is built in has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LspTable {
    /// The program.
    pub(crate) command: Option<String>,
    /// Its arguments.
    pub(crate) args: Option<Vec<String>>,
    /// Variables besides those of triplane.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Endings of its files.
    pub(crate) extensions: Option<Vec<String>>,
    /// `initializationOptions` of the protocol.
    pub(crate) init_options: Option<toml::Table>,
    /// Its configuration, by section.
    pub(crate) settings: Option<toml::Table>,
    /// Whether it is used.
    pub(crate) enabled: Option<bool>,
    /// How long a start may take.
    pub(crate) start_timeout_ms: Option<NonZeroU64>,
    /// How long a change waits for its problems.
    pub(crate) diagnostics_wait_ms: Option<NonZeroU64>,
    /// How long any other question waits.
    pub(crate) request_timeout_ms: Option<NonZeroU64>,
    /// After how long without use it is stopped.
    pub(crate) idle_ms: Option<NonZeroU64>,
}

/// Both, of one file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct ServerSettings {
    #[serde(default)]
    pub(crate) mcp: BTreeMap<String, McpTable>,
    #[serde(default)]
    pub(crate) lsp: BTreeMap<String, LspTable>,
}

impl ServerSettings {
    /// What a file must not say. Errors: the table's name and what is wrong with it.
    pub(super) fn check(&self, owner: Owner) -> Result<(), (&'static str, String)> {
        for (name, table) in &self.mcp {
            if table.command.is_some() == table.url.is_some() {
                return Err(("mcp", format!("[mcp.{name}] must have `command` or `url`, and not both")));
            }
            if owner == Owner::Project && !table.read_only.is_empty() {
                return Err((
                    "mcp",
                    format!("[mcp.{name}] `read_only` may not come from a project; use the home's file"),
                ));
            }
        }
        for (name, table) in &self.lsp {
            let bare = LspTable { enabled: table.enabled, ..LspTable::default() };
            if owner == Owner::Project && *table != bare {
                let what = "only `enabled` may come from a project; use the home's file for the rest";
                return Err(("lsp", format!("[lsp.{name}] {what}")));
            }
        }
        Ok(())
    }

    /// Paths are relative to the file.
    pub(super) fn beside(mut self, file: &Path) -> Self {
        for table in self.mcp.values_mut() {
            table.cwd = table.cwd.take().map(|path| beside(file, path));
        }
        self
    }
}
