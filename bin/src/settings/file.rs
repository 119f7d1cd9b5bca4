//! One `triplane.toml`: the flags' names in snake_case at the top, and the tables that other parts own.
//! Invariant: a key that is not known, or has a wrong value, is an error with its file and line; nothing is skipped silently.
//! A project's file comes with a checkout, so it cannot open the machine: see [`HOME_ONLY`].

use super::{
    agents::AgentSettings,
    beside,
    providers::ModelSettings,
    sandbox::{SandboxSection, SandboxTable},
    servers::ServerSettings,
};
use crate::cli::{PlaneFlags, ServeFlags};
use clap::Args;
use serde::de::DeserializeOwned;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue};

/// Tables that may stand in a file beside the flags' keys.
const TABLES: &[&str] = &["agents", "mcp", "lsp", "permissions", "sandbox", "providers", "models"];

/// Of those, the ones that this build reads.
fn is_read(table: &str) -> bool {
    match table {
        "agents" | "providers" | "models" | "sandbox" => true,
        "mcp" => cfg!(feature = "mcp"),
        "lsp" => cfg!(feature = "lsp"),
        _ => false,
    }
}

/// Keys that only the home's file, the environment and flags may set: whoever wrote the checkout must not decide them.
const HOME_ONLY: &[&str] = &["home", "token", "allow_remote", "allow_origin", "providers", "sandbox", "agents"];

/// Settings files are written by hand; a larger one is a mistake (a device, a log).
const FILE_BYTES: u64 = 1 << 20;

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The current directory's.
    Project,
    /// `$TRIPLANE_HOME`'s.
    Home,
}

/// What one file says.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    pub(crate) plane: PlaneFlags,
    pub(crate) serve: ServeFlags,
    pub(crate) models: ModelSettings,
    pub(crate) servers: ServerSettings,
    pub(crate) agents: AgentSettings,
    pub(crate) sandbox: SandboxTable,
    /// Tables that nothing reads yet, with their file.
    pub(crate) unread: Vec<(PathBuf, String)>,
}

/// What is wrong with a settings file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// It is there and cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// One line that helps.
        what: String,
    },
}

impl FileSettings {
    /// Reads `file`; one that is not there says nothing.
    pub(crate) fn read(file: &Path, owner: Owner) -> Result<Self, FileError> {
        let failed = |source| FileError::Read { file: file.to_owned(), source };
        let text = match std::fs::metadata(file) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(failed(error)),
            Ok(meta) if meta.len() > FILE_BYTES || !meta.is_file() => {
                return Err(failed(std::io::Error::other("not a settings file of at most 1 MiB")));
            }
            Ok(_) => std::fs::read_to_string(file).map_err(failed)?,
        };
        Self::parse(file, &text, owner)
    }

    fn parse(file: &Path, text: &str, owner: Owner) -> Result<Self, FileError> {
        let at =
            |offset: usize, what: String| FileError::Line { file: file.to_owned(), line: line(text, offset), what };
        let wrong =
            |error: toml::de::Error| at(error.span().map_or(0, |span| span.start), error.message().replace('\n', ", "));
        let table = DeTable::parse(text).map_err(wrong)?;
        let keys = known_keys();
        let mut unread = Vec::new();
        for (key, value) in table.get_ref() {
            let offset = key.span().start;
            let name = key.get_ref().as_ref();
            if TABLES.contains(&name) {
                if !matches!(value.get_ref(), DeValue::Table(_)) {
                    return Err(at(offset, format!("`{name}` must be a table: [{name}]")));
                }
                if owner == Owner::Project {
                    check_project(name, value.get_ref()).map_err(|what| at(offset, what))?;
                }
                if !is_read(name) {
                    unread.push((file.to_owned(), name.to_owned()));
                }
            } else if !keys.iter().any(|key| key == name) {
                return Err(at(offset, unknown(name, &keys)));
            } else if owner == Owner::Project {
                check_project(name, value.get_ref()).map_err(|what| at(offset, what))?;
            }
        }
        let mut plane: PlaneFlags = section(text).map_err(wrong)?;
        let serve: ServeFlags = section(text).map_err(wrong)?;
        let models: ModelSettings = section(text).map_err(wrong)?;
        let servers: ServerSettings = section(text).map_err(wrong)?;
        servers.check(owner).map_err(|(name, what)| {
            let key = table.get_ref().keys().find(|key| key.get_ref().as_ref() == name);
            at(key.map_or(0, |key| key.span().start), what)
        })?;
        let agents: AgentSettings = section(text).map_err(wrong)?;
        agents.check().map_err(|what| {
            let key = table.get_ref().keys().find(|key| key.get_ref().as_ref() == "agents");
            at(key.map_or(0, |key| key.span().start), what)
        })?;
        let SandboxSection { sandbox } = section(text).map_err(wrong)?;
        plane.sandbox = sandbox.mode;
        plane.home = plane.home.map(|path| beside(file, path));
        plane.session_dir = plane.session_dir.map(|path| beside(file, path));
        Ok(Self {
            plane,
            serve,
            models: models.beside(file),
            sandbox: sandbox.beside(file),
            servers: servers.beside(file),
            agents,
            unread,
        })
    }
}

/// The keys of one struct; the others are its neighbours' and were checked before.
fn section<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
    toml::from_str(text)
}

fn check_project(key: &str, value: &DeValue<'_>) -> Result<(), String> {
    if HOME_ONLY.contains(&key) {
        return Err(format!("`{key}` may not come from a project; use a flag, the environment or the home's file"));
    }
    if key == "mode" && value.as_str() == Some("bypass") {
        return Err("mode `bypass` may not come from a project; use --mode bypass".to_owned());
    }
    Ok(())
}

/// The ids of the flags are the keys.
fn known_keys() -> Vec<String> {
    let command = ServeFlags::augment_args(PlaneFlags::augment_args(clap::Command::new("keys")));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

fn unknown(name: &str, keys: &[String]) -> String {
    let all = keys.iter().map(String::as_str).chain(TABLES.iter().copied());
    let nearest = all
        .map(|key| (strsim::jaro_winkler(&name.replace('-', "_"), key), key))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((_, key)) => format!("unknown key `{name}`; the nearest known one is `{key}`"),
        None => format!("unknown key `{name}`"),
    }
}

/// The line of a byte offset, from 1.
fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(owner: Owner, text: &str, expected: &str) {
        let error = FileSettings::parse(Path::new("triplane.toml"), text, owner).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_wrong_file_names_file_line_and_what_helps() {
        let home = Owner::Home;
        check(home, "\n\nhots = 'x'", "triplane.toml:3: unknown key `hots`; the nearest known one is `host`");
        check(
            home,
            "idle-ttl-ms = 1",
            "triplane.toml:1: unknown key `idle-ttl-ms`; the nearest known one is `idle_ttl_ms`",
        );
        check(home, "[agent_s.x]", "triplane.toml:1: unknown key `agent_s`; the nearest known one is `agents`");
        check(home, "model = 'a/b'\nport = 70000", "triplane.toml:2: invalid value: integer `70000`, expected u16");
        check(
            home,
            "mode = 'yolo'",
            "triplane.toml:1: unknown variant `yolo`, expected one of `plan`, `default`, `accept-edits`, `bypass`",
        );
        check(home, "sandbox = true", "triplane.toml:1: `sandbox` must be a table: [sandbox]");
        check(
            home,
            "transport = ['ws', 'smoke']",
            "triplane.toml:1: unknown variant `smoke`, expected one of `ws`, `http`, `stdio`",
        );
        check(home, "port = ", "triplane.toml:1: string values must be quoted, expected literal string");
    }

    #[test]
    fn a_checkout_cannot_open_the_machine() {
        let project = Owner::Project;
        for key in HOME_ONLY {
            let text = if TABLES.contains(key) { format!("[{key}]") } else { format!("{key} = 'x'") };
            let error = FileSettings::parse(Path::new("t"), &text, project).unwrap_err();
            assert!(error.to_string().contains("may not come from a project"), "{error}");
        }
        check(
            project,
            "mode = 'bypass'",
            "triplane.toml:1: mode `bypass` may not come from a project; use --mode bypass",
        );
        FileSettings::parse(Path::new("t"), "mode = 'bypass'", Owner::Home).unwrap();
    }

    #[test]
    fn a_checkout_names_servers_but_decides_little() {
        let (home, project) = (Owner::Home, Owner::Project);
        check(home, "[mcp.a]", "triplane.toml:1: [mcp.a] must have `command` or `url`, and not both");
        check(
            home,
            "[mcp.a]\ncommand = 'x'\nurl = 'y'",
            "triplane.toml:1: [mcp.a] must have `command` or `url`, and not both",
        );
        check(
            home,
            "[mcp.a]\ncommand = 'x'\narg = []",
            "triplane.toml:3: unknown field `arg`, expected one of `command`, `args`, `env`, `cwd`, `url`, `headers`, \
             `enabled`, `start_timeout_ms`, `call_timeout_ms`, `max_call_ms`, `read_only`",
        );
        check(
            project,
            "model = 'a/b'\n[mcp.a]\ncommand = 'x'\nread_only = ['y']",
            "triplane.toml:2: [mcp.a] `read_only` may not come from a project; use the home's file",
        );
        check(
            project,
            "[lsp.gopls]\ncommand = './evil'",
            "triplane.toml:1: [lsp.gopls] only `enabled` may come from a project; use the home's file for the rest",
        );
        let text = "[mcp.a]\ncommand = 'x'\ncwd = 'sub'\n[lsp.gopls]\nenabled = false";
        let read = FileSettings::parse(Path::new("dir/t"), text, project).unwrap();
        assert_eq!(read.servers.mcp["a"].cwd.as_deref(), Some(Path::new("dir/sub")));
        FileSettings::parse(Path::new("t"), "[lsp.x]\ncommand = 'x'\nextensions = ['y']", home).unwrap();
    }

    #[test]
    fn every_flag_is_a_key_of_the_file() {
        let example = "home = 'h'\nsession_dir = 's'\nagent = 'a'\nmodel = 'm/n'\nmode = 'plan'\neffort = 'low'\n\
            durability = 'flush'\ntransport = ['ws']\nhost = '::1'\nport = 1\naddr = '127.0.0.1:2'\ntoken = 't'\n\
            allow_remote = true\nallow_origin = 'https://a.example'\non_disconnect = 'abort'\nmax_session_bags = 3\nstall_timeout_ms = 9\n\
            idle_ttl_ms = 4\nsweep_ms = 5\nhistory_limit = 6\nprobe_idle_ms = 7\nlock_ttl_ms = 8\n\
             [sandbox]\nmode = 'off'\n";
        for key in known_keys() {
            // The sandbox's is a key of its table.
            let found = example.contains(&format!("{key} = ")) || (key == "sandbox" && example.contains("[sandbox]"));
            assert!(found, "{key} is not in the example");
        }
        let read = FileSettings::parse(Path::new("dir/t"), example, Owner::Home).unwrap();
        let (nothing_plane, nothing_serve) = (PlaneFlags::default(), ServeFlags::default());
        assert_eq!(read.plane.clone().over(nothing_plane), read.plane);
        assert_eq!(read.serve.clone().over(nothing_serve), read.serve);
        assert_eq!(read.plane.session_dir.as_deref(), Some(Path::new("dir/s")));
        let debug = format!("{:?} {:?}", read.plane, read.serve);
        assert!(!debug.contains("None"), "a key was not read: {debug}");
    }
}
