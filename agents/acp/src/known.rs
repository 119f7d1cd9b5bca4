//! The agents that can be started without settings. The names are those that stores and configs use too.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// An agent, and how it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Short name, as in `--agent`.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Commands that start it as an ACP agent; the first whose program is there is taken.
    pub commands: &'static [&'static [&'static str]],
    /// Environment that it needs to be a quiet child.
    pub env: &'static [(&'static str, &'static str)],
    /// What to install when it is missing.
    pub install: &'static str,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        id: "claude",
        name: "Claude Code",
        commands: &[&["claude-agent-acp"], &["claude-code-acp"]],
        env: &[("DISABLE_AUTOUPDATER", "1")],
        install: "npm install -g @agentclientprotocol/claude-agent-acp (Node 22)",
    },
    Known {
        id: "codex",
        name: "Codex",
        commands: &[&["codex-acp"]],
        env: &[],
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    Known {
        id: "gemini",
        name: "Gemini CLI",
        commands: &[&["gemini", "--acp"]],
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        install: "npm install -g @google/gemini-cli",
    },
    Known {
        id: "copilot",
        name: "GitHub Copilot CLI",
        commands: &[&["copilot", "--acp"]],
        env: &[],
        install: "npm install -g @github/copilot",
    },
    Known {
        id: "opencode",
        name: "opencode",
        commands: &[&["opencode", "acp"]],
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
        install: "npm install -g opencode-ai",
    },
    Known {
        id: "qwen",
        name: "Qwen Code",
        commands: &[&["qwen", "--acp"]],
        env: &[],
        install: "npm install -g @qwen-code/qwen-code (Node 22)",
    },
    Known {
        id: "kimi",
        name: "Kimi Code",
        commands: &[&["kimi", "acp"]],
        env: &[],
        install: "npm install -g @moonshot-ai/kimi-code (Node 22)",
    },
    Known {
        id: "cline",
        name: "Cline",
        commands: &[&["cline", "--acp", "--auto-approve", "false"]],
        env: &[],
        install: "npm install -g cline",
    },
    Known {
        id: "vibe",
        name: "Mistral Vibe",
        commands: &[&["vibe-acp"]],
        env: &[],
        install: "pip install mistral-vibe (Python 3.12)",
    },
];

impl Known {
    /// The agent of this name.
    pub fn of(id: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.id == id)
    }

    /// The first command whose program is there, else the first of all.
    pub fn command(&self, path: Option<&OsStr>) -> Vec<String> {
        let there = |command: &&&[&str]| command.first().is_some_and(|program| find(program, path).is_some());
        let command: &[&str] = match self.commands {
            // Nothing to choose, so nothing to look for.
            [only] => only,
            several => several.iter().find(there).or(several.first()).copied().unwrap_or_default(),
        };
        command.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// Where a program is, looked for in the directories of `path` (as in `$PATH`) unless it names its place itself.
pub fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|program| runnable(program));
    }
    std::env::split_paths(path?).map(|dir| dir.join(program)).find(|program| runnable(program))
}

#[cfg(unix)]
fn runnable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(program).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn runnable(program: &Path) -> bool {
    program.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_listed_once_and_can_be_installed() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(KNOWN.iter().skip(at + 1).all(|other| other.id != known.id), "{}", known.id);
            assert!(!known.install.is_empty() && known.commands.iter().all(|command| !command.is_empty()));
        }
    }

    #[test]
    fn a_program_is_found_in_the_path_and_taken_before_one_that_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("claude-code-acp");
        std::fs::write(&program, "").unwrap();
        let path = Some(dir.path().as_os_str());
        assert_eq!(find("claude-code-acp", path), None, "a file that cannot be run is no program");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(find("claude-code-acp", path), Some(program));
            assert_eq!(Known::of("claude").unwrap().command(path), ["claude-code-acp"]);
            assert_eq!(Known::of("claude").unwrap().command(None), ["claude-agent-acp"]);
        }
    }
}
