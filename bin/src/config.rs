//! `triplane config`: the config of agents, counted, shown and copied. Clauses: S19, S20.

use crate::{
    cli::{ConfigArgs, ConfigCommand, PlaneFlags, ServeFlags},
    exit::{CommandError, Exit},
    home, plain,
    prompt::json_line,
    settings::{Place, resolve},
};
use serde_json::json;
use std::{io::Write, time::Duration};
use triplane_core::{Plane, plane::ConfigCount};
use triplane_protocol::config::{AgentConfig, ConfigAction, ConfigVerb};

/// Characters of a text in a list.
const SHORT_CHARS: usize = 60;

/// Runs the subcommand.
pub(crate) async fn run(args: ConfigArgs) -> Result<Exit, CommandError> {
    let mut settings = resolve(Place::here()?, PlaneFlags::default(), ServeFlags::default())?;
    // No session is looked at, so no folder for them is made here.
    settings.plane.session_dir = Some(settings.home.join("sessions"));
    let plane = home::open(&settings)?;
    let done = carry_out(&plane, args.command).await;
    plane.shutdown(Duration::ZERO).await;
    done
}

async fn carry_out(plane: &Plane, command: ConfigCommand) -> Result<Exit, CommandError> {
    match command {
        ConfigCommand::List { agent, dir, json } => list(plane, agent.as_deref(), dir.as_deref(), json).await,
        ConfigCommand::Show { agent, dir, json } => {
            let config = plane.config_get(&agent, dir.as_deref()).await?;
            if json {
                json_line(&config).map_err(printing())?
            } else {
                show(&config)?
            }
            Ok(Exit::Done)
        }
        ConfigCommand::Copy { from, to, dir, dry_run, json } => {
            let config = plane.config_get(&from, dir.as_deref()).await?;
            let actions = plane.config_import(&to, dir.as_deref(), &config, dry_run).await?;
            tell(&actions, json)?;
            let none = !actions.is_empty() && actions.iter().all(|action| action.action == ConfigVerb::Skipped);
            Ok(if none { Exit::Failed } else { Exit::Done })
        }
    }
}

fn printing() -> impl FnOnce(std::io::Error) -> CommandError {
    CommandError::io("printing")
}

async fn list(plane: &Plane, agent: Option<&str>, dir: Option<&str>, json: bool) -> Result<Exit, CommandError> {
    let mut stdout = anstream::stdout();
    let mut exit = Exit::Done;
    for ConfigCount { agent, counts } in plane.config_list(agent, dir).await? {
        let line = match &counts {
            Ok(counts) => {
                let some = counts.iter().filter(|(_, count)| **count > 0);
                let told: Vec<String> = some.map(|(kind, count)| format!("{count} {}", kind.as_str())).collect();
                if told.is_empty() { "nothing".to_owned() } else { told.join(", ") }
            }
            Err(why) => {
                exit = Exit::Failed;
                format!("cannot be read: {}", plain::line(why))
            }
        };
        if json {
            let row = match counts {
                Ok(counts) => json!({"agent": agent, "counts": counts}),
                Err(error) => json!({"agent": agent, "error": error}),
            };
            json_line(&row).map_err(printing())?;
        } else {
            writeln!(stdout, "{:<10} {line}", plain::line(&agent)).map_err(printing())?;
        }
    }
    Ok(exit)
}

fn show(config: &AgentConfig) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout();
    for item in &config.items {
        let text = item.body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let meta = if item.meta.is_empty() { String::new() } else { json!(item.meta).to_string() };
        let told = if text.is_empty() { &meta } else { text };
        let (kind, name) = (item.kind.as_str(), plain::line(&item.name));
        writeln!(stdout, "{kind:<13} {name:<24} {}", plain::short(told, SHORT_CHARS)).map_err(printing())?;
        writeln!(stdout, "{:<13} {}", "", plain::line(&item.path)).map_err(printing())?;
    }
    Ok(())
}

fn tell(actions: &[ConfigAction], json: bool) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout();
    for action in actions {
        if json {
            json_line(action).map_err(printing())?;
            continue;
        }
        let verb = match action.action {
            ConfigVerb::Created => "created",
            ConfigVerb::Updated => "updated",
            ConfigVerb::Unchanged => "unchanged",
            ConfigVerb::Skipped => "skipped",
        };
        let why = action.reason.as_ref().map(|why| format!(": {}", plain::line(why))).unwrap_or_default();
        let (kind, name) = (action.kind.as_str(), plain::line(&action.name));
        writeln!(stdout, "{verb:<10} {kind:<13} {name}{why}").map_err(printing())?;
    }
    Ok(())
}
