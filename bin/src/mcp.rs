//! `triplane mcp`: the MCP servers of this directory, how they stand, and which of the project's may be started.

use crate::{
    cli::{McpArgs, McpCommand, ServeFlags},
    exit::{CommandError, Exit},
    plain,
    prompt::json_line,
    servers,
    settings::{Place, Settings, resolve},
};
use serde_json::json;
use std::io::Write;
use triplane_native::mcp::{Approvals, McpHub, McpServer, McpState, Standing, read_project};

/// Does what was asked.
pub(crate) async fn run(args: McpArgs) -> Result<Exit, CommandError> {
    let plane = match &args.command {
        McpCommand::List { plane, .. } | McpCommand::Approve { plane, .. } | McpCommand::Revoke { plane, .. } => plane,
    };
    let settings = resolve(Place::here()?, plane.clone(), ServeFlags::default())?;
    match args.command {
        McpCommand::List { json, check, .. } => list(&settings, json, check).await,
        McpCommand::Approve { name, .. } => approve(&settings, &name),
        McpCommand::Revoke { name, .. } => revoke(&settings, &name),
    }
}

async fn list(settings: &Settings, json: bool, check: bool) -> Result<Exit, CommandError> {
    let hub = McpHub::new(servers::mcp_config(settings, std::env::current_exe().ok())?);
    let cwd = &real(settings);
    let states = if check { hub.check(cwd).await } else { hub.states(cwd).await };
    let mut stdout = anstream::stdout();
    for state in &states {
        if json {
            json_line(&row(state)).map_err(CommandError::io("printing"))?;
            continue;
        }
        let (word, from) = (state.state.word(), if state.project.is_some() { "project" } else { "own" });
        let tools = match &state.state {
            Standing::Failed(why) => why.clone(),
            Standing::Ready => format!("{} tools", state.tools.len()),
            Standing::Unapproved | Standing::Idle | Standing::Starting => String::new(),
        };
        let (name, line) = (plain::line(&state.name), plain::short(&state.line, 100));
        let line = format!("{name:<20} {word:<10} {from:<8} {line}  {}", plain::short(&tools, 300));
        writeln!(stdout, "{}", line.trim_end()).map_err(CommandError::io("printing"))?;
    }
    for line in hub.wrong(cwd) {
        tracing::warn!("{line}");
        let _ = writeln!(anstream::stderr(), "{}", plain::line(&line));
    }
    let failed = states.iter().any(|state| matches!(state.state, Standing::Failed(_)));
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn row(state: &McpState) -> serde_json::Value {
    let McpState { name, line, project, state, tools } = state;
    let why = if let Standing::Failed(why) = state { Some(why) } else { None };
    json!({ "name": name, "reach": line, "project": project, "state": state.word(), "why": why, "tools": tools })
}

fn approve(settings: &Settings, name: &str) -> Result<Exit, CommandError> {
    let cwd = real(settings);
    let server = named(settings, name)?;
    Approvals::of(&settings.home).add(&cwd, &server).map_err(refused)?;
    let said = format!("approved for {}: {name} = {}", cwd.display(), server.definition());
    writeln!(anstream::stdout(), "{}", plain::line(&said)).map_err(CommandError::io("printing"))?;
    Ok(Exit::Done)
}

fn revoke(settings: &Settings, name: &str) -> Result<Exit, CommandError> {
    let cwd = real(settings);
    match Approvals::of(&settings.home).remove(&cwd, name).map_err(refused)? {
        true => Ok(Exit::Done),
        false => Err(CommandError::Usage(format!("`{name}` was not approved for {}", cwd.display()))),
    }
}

/// The server of that name that the project defines.
fn named(settings: &Settings, name: &str) -> Result<McpServer, CommandError> {
    let config = servers::mcp_config(settings, None)?;
    if config.servers.iter().any(|server| server.name == name) {
        return Err(CommandError::Usage(format!("`{name}` is your own server; it needs no approval")));
    }
    let of_settings = config.project.map(|(_, servers)| servers).unwrap_or_default();
    let all: Vec<McpServer> = of_settings.into_iter().chain(read_project(&real(settings)).0).collect();
    all.iter().find(|server| server.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|server| server.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        CommandError::Usage(format!("the project names no MCP server `{name}`; there is {there}"))
    })
}

fn real(settings: &Settings) -> std::path::PathBuf {
    std::fs::canonicalize(&settings.place.cwd).unwrap_or_else(|_| settings.place.cwd.clone())
}

fn refused(why: String) -> CommandError {
    CommandError::Io { doing: "keeping the approval".to_owned(), source: std::io::Error::other(why) }
}
