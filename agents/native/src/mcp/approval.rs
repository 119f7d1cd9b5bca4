//! Which servers that a project names may be started: a file in this machine's home, written by a person's command only.
//! Invariant: an approval is for one directory, one name and one definition; a checkout that changes what is started, or with
//! which arguments, variables or address, has to be approved again. A file that cannot be read approves nothing.

use super::config::McpServer;
use serde::{Deserialize, Serialize};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use triplane_core::store::files;

/// Name of the file in the home.
const FILE: &str = "mcp-approved.json";

/// The approvals of this machine.
#[derive(Debug, Clone)]
pub struct Approvals {
    file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    dir: String,
    name: String,
    definition: String,
}

impl Approvals {
    /// Those that are kept in `home`. Reads nothing.
    pub fn of(home: &Path) -> Self {
        Self { file: home.join(FILE) }
    }

    /// Whether `server`, as `project` defines it now, may be started.
    pub fn has(&self, project: &Path, server: &McpServer) -> bool {
        let row = row(project, server);
        match self.read() {
            Ok(rows) => rows.contains(&row),
            Err(why) => {
                tracing::warn!("{why}; no project's MCP server is started until it can be read");
                false
            }
        }
    }

    /// Approves `server` as `project` defines it now. Errors: one line.
    pub fn add(&self, project: &Path, server: &McpServer) -> Result<(), String> {
        let row = row(project, server);
        let mut rows = self.read()?;
        rows.retain(|old| (&old.dir, &old.name) != (&row.dir, &row.name));
        rows.push(row);
        self.write(&rows)
    }

    /// Takes back what was approved for `name` in `project`; says whether there was something. Errors: one line.
    pub fn remove(&self, project: &Path, name: &str) -> Result<bool, String> {
        let (dir, mut rows) = (real(project), self.read()?);
        let before = rows.len();
        rows.retain(|row| (row.dir.as_str(), row.name.as_str()) != (dir.as_str(), name));
        let changed = rows.len() < before;
        if changed {
            self.write(&rows)?;
        }
        Ok(changed)
    }

    fn read(&self) -> Result<Vec<Row>, String> {
        let told = |err: &dyn std::fmt::Display| format!("{}: {err}", self.file.display());
        match std::fs::read(&self.file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|err| told(&err)),
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(err) => Err(told(&err)),
        }
    }

    fn write(&self, rows: &[Row]) -> Result<(), String> {
        let told = |err: std::io::Error| format!("{}: {err}", self.file.display());
        let text = serde_json::to_string_pretty(rows).map_err(|err| told(err.into()))?;
        // A reader sees one list or the other.
        let dir = self.file.parent().map_or(Ok(()), files::private_dir);
        dir.and_then(|()| files::write_atomic(&self.file, text.as_bytes())).map_err(told)
    }
}

fn row(project: &Path, server: &McpServer) -> Row {
    Row { dir: real(project), name: server.name.clone(), definition: server.definition() }
}

/// The directory itself, however it was named.
fn real(project: &Path) -> String {
    std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::config::Reach;

    fn server(command: &str) -> McpServer {
        let reach = Reach::Stdio { command: command.into(), args: vec![], env: Default::default(), cwd: "/p".into() };
        McpServer::new("s", reach).unwrap()
    }

    #[test]
    fn an_approval_is_for_one_directory_and_one_definition() {
        let dir = tempfile::tempdir().unwrap();
        let (home, a, b) = (dir.path().join("home"), dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        std::os::unix::fs::symlink(&a, dir.path().join("link")).unwrap();
        let approvals = Approvals::of(&home);
        assert!(!approvals.has(&a, &server("x")));
        approvals.add(&a, &server("x")).unwrap();
        assert!(approvals.has(&a, &server("x")) && approvals.has(&dir.path().join("link"), &server("x")));
        assert!(!approvals.has(&a, &server("y")) && !approvals.has(&b, &server("x")));
        approvals.add(&a, &server("y")).unwrap();
        assert!(approvals.has(&a, &server("y")) && !approvals.has(&a, &server("x")));
        assert_eq!((approvals.remove(&a, "s"), approvals.remove(&a, "s")), (Ok(true), Ok(false)));
        assert!(!approvals.has(&a, &server("y")));
        std::fs::write(home.join(FILE), "{").unwrap();
        assert!(!approvals.has(&a, &server("y")) && approvals.add(&a, &server("y")).is_err());
        assert_eq!(std::fs::read_to_string(home.join(FILE)).unwrap(), "{");
    }
}
