//! Servers of tools and language servers, from settings. Starts none.

use crate::{exit::CommandError, settings::Settings};
#[cfg(feature = "lsp")]
pub(crate) use languages::lsp;
use std::{path::PathBuf, sync::Arc};
#[cfg(feature = "mcp")]
pub(crate) use tools::{mcp, mcp_config};

fn usage(what: String) -> CommandError {
    CommandError::Usage(what)
}

#[cfg(feature = "mcp")]
mod tools {
    use super::*;
    use crate::settings::McpTable;
    use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};
    use triplane_native::mcp::{Approvals, McpConfig, McpHub, McpServer, Reach};

    /// The MCP servers of this process. Errors: a table that is wrong.
    pub(crate) fn mcp(settings: &Settings, shim: Option<PathBuf>) -> Result<Arc<McpHub>, CommandError> {
        Ok(Arc::new(McpHub::new(mcp_config(settings, shim)?)))
    }

    pub(crate) fn mcp_config(settings: &Settings, shim: Option<PathBuf>) -> Result<McpConfig, CommandError> {
        let dir = &settings.place.cwd;
        let real = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        let of = |tables: &BTreeMap<String, McpTable>| -> Result<Vec<McpServer>, CommandError> {
            let used = tables.iter().filter(|(_, table)| table.enabled != Some(false));
            used.map(|(name, table)| server(name, table, &real)).collect()
        };
        Ok(McpConfig {
            servers: of(&settings.own_servers.mcp)?,
            project: Some((real.clone(), of(&settings.project_servers.mcp)?)),
            approvals: Some(Approvals::of(&settings.home)),
            shim,
        })
    }

    fn server(name: &str, table: &McpTable, dir: &std::path::Path) -> Result<McpServer, CommandError> {
        let reach = match (&table.command, &table.url) {
            (Some(command), _) => Reach::Stdio {
                command: command.clone(),
                args: table.args.clone(),
                env: table.env.clone(),
                cwd: table.cwd.as_ref().map_or_else(|| dir.to_owned(), |cwd| dir.join(cwd)),
            },
            (None, url) => Reach::Http { url: url.clone().unwrap_or_default(), headers: table.headers.clone() },
        };
        let mut server = McpServer::new(name, reach).map_err(|why| usage(format!("[mcp.{name}]: {why}")))?;
        let set = |limit: &mut Duration, ms: Option<NonZeroU64>| {
            if let Some(ms) = ms {
                *limit = Duration::from_millis(ms.get());
            }
        };
        set(&mut server.start_timeout, table.start_timeout_ms);
        set(&mut server.call_timeout, table.call_timeout_ms);
        set(&mut server.max_call, table.max_call_ms);
        server.read_only.clone_from(&table.read_only);
        Ok(server)
    }
}

#[cfg(feature = "lsp")]
mod languages {
    use super::*;
    use crate::settings::LspTable;
    use std::{num::NonZeroU64, time::Duration};
    use triplane_native::lsp::{LspConfig, LspHub, LspServer, builtin};

    /// The language servers of this process. Errors: a table that is wrong.
    pub(crate) fn lsp(
        settings: &Settings,
        shim: Option<PathBuf>,
        hidden: Vec<String>,
    ) -> Result<Arc<LspHub>, CommandError> {
        let mut servers = builtin();
        for (name, table) in &settings.own_servers.lsp {
            let at = servers.iter().position(|server| server.name == *name);
            let mut server = match at.map(|at| servers.remove(at)) {
                Some(server) => server,
                None => LspServer::new(name, "", &[], &[]),
            };
            set(&mut server, table).map_err(|why| usage(format!("[lsp.{name}]: {why}")))?;
            // The owner's come first where several know a file.
            servers.insert(0, server);
        }
        let off = |name: &str| {
            let tables = [&settings.own_servers.lsp, &settings.project_servers.lsp];
            tables.iter().any(|tables| tables.get(name).is_some_and(|table| table.enabled == Some(false)))
        };
        servers.retain(|server| !off(&server.name));
        Ok(Arc::new(LspHub::new(LspConfig { servers, shim, hidden })))
    }

    fn set(server: &mut LspServer, table: &LspTable) -> Result<(), String> {
        if let Some(command) = &table.command {
            server.command.clone_from(command);
            server.args.clear();
        }
        if let Some(args) = &table.args {
            server.args.clone_from(args);
        }
        if let Some(extensions) = &table.extensions {
            let plain = |ending: &String| ending.trim_start_matches('.').to_ascii_lowercase();
            server.extensions = extensions.iter().map(plain).collect();
        }
        let json = |table: &toml::Table| serde_json::to_value(table).map_err(|err| err.to_string());
        if let Some(options) = &table.init_options {
            server.init_options = json(options)?;
        }
        if let Some(settings) = &table.settings {
            server.settings = json(settings)?;
        }
        server.env.clone_from(&table.env);
        let limit = |limit: &mut Duration, ms: Option<NonZeroU64>| {
            if let Some(ms) = ms {
                *limit = Duration::from_millis(ms.get());
            }
        };
        limit(&mut server.start_timeout, table.start_timeout_ms);
        limit(&mut server.diagnostics_wait, table.diagnostics_wait_ms);
        limit(&mut server.request_timeout, table.request_timeout_ms);
        limit(&mut server.idle, table.idle_ms);
        match (server.command.is_empty(), server.extensions.is_empty()) {
            (true, _) => Err("`command` is missing; it is none that is built in".to_owned()),
            (_, true) => Err("`extensions` is missing; it is none that is built in".to_owned()),
            (false, false) => Ok(()),
        }
    }
}
