//! Parsing with the environment: the wires' older variable names, and empty variables that mean nothing.
//! Clauses: C08, S03, S04, S31.

use super::Cli;
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// Variables that stand in when ours is not set: flag, variable.
const ALIASES: &[(&str, &str)] = &[
    ("home", "SEPIA_HOME"),
    ("idle_ttl_ms", "SEPIA_IDLE_TTL_MS"),
    ("sweep_ms", "SEPIA_SWEEP_MS"),
    ("history_limit", "SEPIA_HISTORY_LIMIT"),
    ("probe_idle_ms", "SEPIA_PROBE_IDLE_MS"),
    ("lock_ttl_ms", "SEPIA_LOCK_TTL_MS"),
    ("token", "LARIK_SERVER_TOKEN"),
];

/// Parses `argv` and the environment.
/// Errors: clap's, help and version among them; they know their exit code.
pub(crate) fn parse<I, T>(argv: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(argv)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

fn command() -> clap::Command {
    named_by_environment(Cli::command(), &|name| std::env::var_os(name).filter(|value| !value.is_empty()).is_some())
}

/// Points every flag at the variable that is set and not empty, if any.
/// `set` tells that of a name.
fn named_by_environment(command: clap::Command, set: &dyn Fn(&str) -> bool) -> clap::Command {
    let command = command.mut_args(|arg| {
        let ours = arg.get_env().and_then(|name| name.to_str()).map(str::to_owned);
        let Some(ours) = ours.filter(|name| !set(name)) else { return arg };
        let alias = ALIASES.iter().find(|(id, name)| arg.get_id() == id && set(name));
        match alias {
            Some((_, name)) => arg.env(*name),
            // Set and empty is as good as not set; clap would take it for a value.
            None if std::env::var_os(&ours).is_some() => arg.env(None::<&str>),
            None => arg,
        }
    });
    command.mut_subcommands(|sub| named_by_environment(sub, set))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(set: &[&str], flag: &str) -> Option<String> {
        let command = named_by_environment(Cli::command(), &|name| set.contains(&name));
        let serve = command.find_subcommand("serve").unwrap();
        let arg = serve.get_arguments().find(|arg| arg.get_id() == flag).unwrap();
        arg.get_env().map(|name| name.to_str().unwrap().to_owned())
    }

    #[test]
    fn ours_goes_before_the_older_name() {
        assert_eq!(variable(&[], "token").as_deref(), Some("TRIPLANE_TOKEN"));
        assert_eq!(variable(&["LARIK_SERVER_TOKEN"], "token").as_deref(), Some("LARIK_SERVER_TOKEN"));
        assert_eq!(variable(&["LARIK_SERVER_TOKEN", "TRIPLANE_TOKEN"], "token").as_deref(), Some("TRIPLANE_TOKEN"));
        assert_eq!(variable(&["SEPIA_HOME"], "home").as_deref(), Some("SEPIA_HOME"));
        assert_eq!(variable(&["SEPIA_HOME"], "port").as_deref(), Some("TRIPLANE_PORT"));
    }

    #[test]
    fn every_alias_names_a_flag() {
        for (id, _) in ALIASES {
            assert!(variable(&[], id).is_some(), "{id}");
        }
    }
}
