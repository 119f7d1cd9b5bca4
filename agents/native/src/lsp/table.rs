//! Which language servers there are, and for which files.
//! Invariant: a program comes from this table or from the owner's settings, never from a project; and is looked up in absolute
//! directories of `PATH` only, so that no checkout can slip one in.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

/// One language server.
#[derive(Debug, Clone, PartialEq)]
pub struct LspServer {
    /// Its name, as in `[lsp.NAME]`.
    pub name: String,
    /// The program: a name in `PATH`, or an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables besides those of this process.
    pub env: BTreeMap<String, String>,
    /// Endings of the files that it knows, without the dot.
    pub extensions: Vec<String>,
    /// `initializationOptions` of the protocol.
    pub init_options: Value,
    /// What it is told when it asks for its configuration, by section.
    pub settings: Value,
    /// How long a start may take.
    pub start_timeout: Duration,
    /// How long a change waits for the problems that it made.
    pub diagnostics_wait: Duration,
    /// How long any other question waits.
    pub request_timeout: Duration,
    /// It is stopped when nobody needed it for so long.
    pub idle: Duration,
}

impl LspServer {
    /// One with the usual time limits.
    pub fn new(name: &str, command: &str, args: &[&str], extensions: &[&str]) -> Self {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Self {
            name: name.to_owned(),
            command: command.to_owned(),
            args: owned(args),
            env: BTreeMap::new(),
            extensions: owned(extensions),
            init_options: Value::Null,
            settings: Value::Null,
            start_timeout: Duration::from_secs(30),
            diagnostics_wait: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(600),
        }
    }

    /// Whether it knows `path`.
    pub(super) fn knows(&self, path: &Path) -> bool {
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
        self.extensions.contains(&ending)
    }

    /// Where the program is; `None`: it is not installed.
    pub fn program(&self) -> Option<PathBuf> {
        let command = Path::new(&self.command);
        if command.is_absolute() {
            return is_program(command).then(|| command.to_owned());
        }
        if command.components().count() != 1 {
            return None;
        }
        let dirs = std::env::var_os("PATH")?;
        std::env::split_paths(&dirs)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(command))
            .find(|p| is_program(p))
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The servers that are known without any setting. Which of them are there is seen when one is needed.
pub fn builtin() -> Vec<LspServer> {
    let mut rust = LspServer::new("rust-analyzer", "rust-analyzer", &[], &["rs"]);
    rust.start_timeout = Duration::from_secs(60);
    rust.diagnostics_wait = Duration::from_secs(10);
    let mut python = LspServer::new("pyright", "pyright-langserver", &["--stdio"], &["py", "pyi"]);
    python.settings = json!({ "python": { "analysis": { "diagnosticMode": "openFilesOnly" } } });
    vec![
        rust,
        LspServer::new("gopls", "gopls", &[], &["go"]),
        python,
        LspServer::new(
            "typescript",
            "typescript-language-server",
            &["--stdio"],
            &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"],
        ),
        LspServer::new("clangd", "clangd", &[], &["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx"]),
    ]
}

/// The protocol's name for the language of a file.
pub(super) fn language(path: &Path) -> String {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    let name = match ending.as_str() {
        "rs" => "rust",
        "py" | "pyi" => "python",
        "ts" | "mts" | "cts" => "typescript",
        "tsx" => "typescriptreact",
        "js" | "mjs" | "cjs" => "javascript",
        "jsx" => "javascriptreact",
        "h" => "c",
        "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => "cpp",
        "rb" => "ruby",
        "sh" => "shellscript",
        "md" => "markdown",
        "yml" => "yaml",
        other => other,
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_find_their_server_by_ending() {
        let table = builtin();
        let of = |name: &str| {
            let path = Path::new(name);
            let found: Vec<&str> = table.iter().filter(|s| s.knows(path)).map(|s| s.name.as_str()).collect();
            format!("{} {}", found.join(","), language(path))
        };
        let rows =
            [("a.rs", "rust-analyzer rust"), ("b.PY", "pyright python"), ("c.tsx", "typescript typescriptreact")];
        for (name, expected) in rows.into_iter().chain([("d.hpp", "clangd cpp"), ("e.go", "gopls go"), ("f", " ")]) {
            assert_eq!(of(name), expected, "{name}");
        }
    }

    #[test]
    fn a_program_is_taken_from_absolute_directories_only() {
        assert!(LspServer::new("x", "sh", &[], &[]).program().is_some_and(|path| path.is_absolute()));
        for command in ["./sh", "bin/sh", "no-such-program-here", "/etc/passwd", ""] {
            assert_eq!(LspServer::new("x", command, &[], &[]).program(), None, "{command}");
        }
    }
}
