//! Settings in layers: flags and environment over the project's `triplane.toml` over the home's; then defaults.
//! Invariant: nothing here touches the network or makes a file. Clauses: H01, L24, S03, S04.

mod agents;
mod file;
mod providers;
mod sandbox;
mod servers;

pub(crate) use agents::{AgentKind, AgentTable};
pub(crate) use file::FileError;
pub(crate) use providers::ModelSettings;
#[cfg(feature = "providers")]
pub(crate) use providers::ProviderTable;
#[cfg(feature = "lsp")]
pub(crate) use servers::LspTable;
#[cfg(feature = "mcp")]
pub(crate) use servers::McpTable;
pub(crate) use servers::ServerSettings;

use crate::cli::{Disconnect, PlaneFlags, ServeFlags};
use file::{FileSettings, Owner};
use sandbox::SandboxTable;
use std::path::{Path, PathBuf};
use triplane_core::{PlaneConfig, limits::Limits, store::Durability};
use triplane_native::sandbox::{SandboxConfig, SandboxMode};
use triplane_protocol::event::SettingsPatch;

/// Name of a settings file, in the project and in the home.
pub(crate) const FILE: &str = "triplane.toml";

/// Where a command runs: what the layers are read from.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The current directory, absolute.
    pub(crate) cwd: PathBuf,
    /// The user's home directory, if it is known.
    pub(crate) user_home: Option<PathBuf>,
}

impl Place {
    /// The place of this process. Errors: the current directory is gone.
    pub(crate) fn here() -> Result<Self, SettingsError> {
        let cwd = std::env::current_dir().map_err(SettingsError::Cwd)?;
        Ok(Self { cwd, user_home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) })
    }
}

/// All layers merged; what nobody gave is still absent.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The place that they hold for.
    pub(crate) place: Place,
    /// `$TRIPLANE_HOME`, resolved.
    pub(crate) home: PathBuf,
    /// Where sessions live and what new ones are like.
    pub(crate) plane: PlaneFlags,
    /// How the wires are served.
    pub(crate) serve: ServeFlags,
    /// Who can be asked, and how patiently.
    pub(crate) models: ModelSettings,
    /// Servers of tools and languages that the home's file names.
    /// Agents by name, from the home's file.
    pub(crate) agents: std::collections::BTreeMap<String, AgentTable>,
    #[cfg_attr(not(any(feature = "mcp", feature = "lsp")), allow(dead_code, reason = "checked all the same"))]
    pub(crate) own_servers: ServerSettings,
    /// Those that the project's file names.
    #[cfg_attr(not(any(feature = "mcp", feature = "lsp")), allow(dead_code, reason = "checked all the same"))]
    pub(crate) project_servers: ServerSettings,
    /// What commands are kept from; only the home's file says it.
    sandbox: SandboxTable,
    /// Tables that were found in files and that nothing reads yet, with their file.
    pub(crate) unread: Vec<(PathBuf, String)>,
}

/// Why settings cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// A settings file is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// No current directory.
    #[error("the current directory cannot be read: {0}")]
    Cwd(std::io::Error),
    /// Nowhere to keep node identity.
    #[error("no home directory is known; give --home or set TRIPLANE_HOME")]
    NoHome,
}

/// Merges the layers. `plane` and `serve` are what flags and environment said.
/// Errors: a settings file that cannot be read or is wrong; no home directory.
pub(crate) fn resolve(place: Place, plane: PlaneFlags, serve: ServeFlags) -> Result<Settings, SettingsError> {
    let project = FileSettings::read(&place.cwd.join(FILE), Owner::Project)?;
    let plane = plane.over(project.plane);
    let serve = serve.over(project.serve);
    let home = match (&plane.home, &place.user_home) {
        (Some(home), _) => place.cwd.join(home),
        (None, Some(user)) => user.join(".triplane"),
        (None, None) => return Err(SettingsError::NoHome),
    };
    let node = FileSettings::read(&home.join(FILE), Owner::Home)?;
    let mut unread = project.unread;
    unread.extend(node.unread);
    let models = project.models.over(node.models);
    Ok(Settings {
        place,
        home,
        plane: plane.over(node.plane),
        serve: serve.over(node.serve),
        models,
        agents: node.agents.agents,
        own_servers: node.servers,
        project_servers: project.servers,
        sandbox: node.sandbox,
        unread,
    })
}

impl Settings {
    /// The plane that these settings ask for.
    pub(crate) fn plane_config(&self) -> PlaneConfig {
        let cwd = self.place.cwd.clone();
        let session_dir = match &self.plane.session_dir {
            Some(dir) => cwd.join(dir),
            None => cwd.join(".triplane").join("sessions"),
        };
        let mut limits = Limits::default();
        if let Some(history) = self.serve.history_limit {
            limits.history_limit = history.get();
        }
        PlaneConfig {
            session_dir,
            home: self.home.clone(),
            durability: self.plane.durability.map_or_else(Durability::default, Durability::from),
            agent: self.plane.agent.clone(),
            defaults: SettingsPatch {
                model: self.plane.model.clone(),
                effort: self.plane.effort,
                mode: self.plane.mode,
                title: None,
            },
            limits,
            overlay: true,
            abort_on_disconnect: self.serve.on_disconnect == Some(Disconnect::Abort),
            cwd,
        }
    }

    /// What keeps commands of the built-in agent in.
    pub(crate) fn sandbox_config(&self) -> SandboxConfig {
        let SandboxTable { network, writable, .. } = self.sandbox.clone();
        SandboxConfig { mode: self.plane.sandbox.map(SandboxMode::from), network: network.unwrap_or(false), writable }
    }

    /// Whether the tool `fetch` may reach this machine and private networks.
    pub(crate) fn fetch_private(&self) -> bool {
        self.sandbox.fetch_private.unwrap_or(false)
    }

    /// Says in the log what was found and is not read: silence would let somebody trust a sandbox that is not there.
    pub(crate) fn warn_unread(&self) {
        for (file, table) in &self.unread {
            tracing::warn!("{}: [{table}] is not read by this version", file.display());
        }
    }
}

/// Paths in a file are relative to the file.
fn beside(file: &Path, path: PathBuf) -> PathBuf {
    file.parent().map_or_else(|| path.clone(), |dir| dir.join(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{DurabilityFlag, SandboxFlag, Transport};
    use triplane_protocol::ir::Mode;

    struct Fixture {
        dir: tempfile::TempDir,
    }

    impl Fixture {
        fn new(project: &str, home: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in [("project", project), ("user/.triplane", home)] {
                let path = dir.path().join(name);
                std::fs::create_dir_all(&path).unwrap();
                if !text.is_empty() {
                    std::fs::write(path.join(FILE), text).unwrap();
                }
            }
            Self { dir }
        }

        fn resolve(&self, plane: PlaneFlags, serve: ServeFlags) -> Result<Settings, SettingsError> {
            let place = Place { cwd: self.dir.path().join("project"), user_home: Some(self.dir.path().join("user")) };
            resolve(place, plane, serve)
        }
    }

    #[test]
    fn flags_go_before_the_project_and_the_project_before_the_home() {
        let fixture = Fixture::new(
            "model = 'p/project'\nport = 1\ntransport = 'ws'\nmode = 'plan'",
            "model = 'h/home'\nport = 2\nsweep_ms = 7\ntransport = ['http', 'stdio']\ndurability = 'flush'",
        );
        let flags = PlaneFlags { mode: Some(Mode::AcceptEdits), ..Default::default() };
        let settings = fixture.resolve(flags, ServeFlags { port: Some(3), ..Default::default() }).unwrap();
        assert_eq!(settings.plane.mode, Some(Mode::AcceptEdits));
        assert_eq!(settings.plane.model.as_deref(), Some("p/project"));
        assert_eq!(settings.plane.durability, Some(DurabilityFlag::Flush));
        assert_eq!(settings.serve.port, Some(3));
        assert_eq!(settings.serve.sweep_ms, Some(7));
        assert_eq!(settings.serve.transport, [Transport::Ws]);
    }

    #[test]
    fn without_files_the_defaults_hold() {
        let fixture = Fixture::new("", "");
        let settings = fixture.resolve(PlaneFlags::default(), ServeFlags::default()).unwrap();
        let config = settings.plane_config();
        assert_eq!(config.session_dir, fixture.dir.path().join("project/.triplane/sessions"));
        assert_eq!(config.home, fixture.dir.path().join("user/.triplane"));
        assert_eq!(config.durability, Durability::Fsync);
        assert!(!config.abort_on_disconnect);
    }

    #[test]
    fn paths_of_a_file_are_beside_it_and_paths_of_flags_in_the_directory() {
        let fixture = Fixture::new("", "session_dir = 'all'");
        let settings = fixture.resolve(PlaneFlags::default(), ServeFlags::default()).unwrap();
        assert_eq!(settings.plane_config().session_dir, fixture.dir.path().join("user/.triplane/all"));
        let flags = PlaneFlags { session_dir: Some("mine".into()), ..Default::default() };
        let settings = fixture.resolve(flags, ServeFlags::default()).unwrap();
        assert_eq!(settings.plane_config().session_dir, fixture.dir.path().join("project/mine"));
    }

    #[test]
    fn the_home_flag_moves_the_home_file() {
        let fixture = Fixture::new("", "model = 'not/this'");
        let other = fixture.dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(FILE), "model = 'this/one'").unwrap();
        let flags = PlaneFlags { home: Some(other), ..Default::default() };
        let settings = fixture.resolve(flags, ServeFlags::default()).unwrap();
        assert_eq!(settings.plane.model.as_deref(), Some("this/one"));
    }

    #[test]
    fn tables_that_nothing_reads_are_told() {
        let fixture = Fixture::new("[permissions]\nx = false", "");
        let settings = fixture.resolve(PlaneFlags::default(), ServeFlags::default()).unwrap();
        assert_eq!(settings.unread, [(fixture.dir.path().join("project").join(FILE), "permissions".to_owned())]);
    }

    #[test]
    fn the_sandbox_is_set_by_the_home_and_the_flag_goes_before_it() {
        let fixture = Fixture::new("", "[sandbox]\nmode = 'read-only'\nnetwork = true\nwritable = ['cache', '/abs']");
        let settings = fixture.resolve(PlaneFlags::default(), ServeFlags::default()).unwrap().sandbox_config();
        let cache = fixture.dir.path().join("user/.triplane/cache");
        assert_eq!((settings.mode, settings.network), (Some(SandboxMode::ReadOnly), true));
        assert_eq!(settings.writable, [cache, "/abs".into()]);
        let flags = PlaneFlags { sandbox: Some(SandboxFlag::Off), ..Default::default() };
        let settings = fixture.resolve(flags, ServeFlags::default()).unwrap().sandbox_config();
        assert_eq!(settings.mode, Some(SandboxMode::Off));
    }

    #[test]
    fn no_home_is_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { cwd: dir.path().to_owned(), user_home: None };
        let error = resolve(place, PlaneFlags::default(), ServeFlags::default()).unwrap_err();
        assert!(error.to_string().contains("TRIPLANE_HOME"));
    }
}
