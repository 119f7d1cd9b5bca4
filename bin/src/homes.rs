//! Where other people's agents keep their things: one row an agent, with the variables that say otherwise.
//! A `…_DIR` stands for the agent's own home folder (`~/.claude`, `~/.codex`), which has its sessions and its config.
//! Clause: S31.

use std::{ffi::OsString, path::PathBuf};

/// What one agent's home is called.
struct Row {
    agent: &'static str,
    /// In the order in which they are asked; the first that is set and not empty counts.
    variables: &'static [&'static str],
    /// Below the user's home directory.
    default: &'static str,
}

const HOMES: &[Row] = &[
    row("claude", &["TRIPLANE_CLAUDE_DIR", "SEPIA_CLAUDE_DIR", "CLAUDE_CONFIG_DIR"], ".claude"),
    row("codex", &["TRIPLANE_CODEX_DIR", "SEPIA_CODEX_DIR", "CODEX_HOME"], ".codex"),
    row("gemini", &["TRIPLANE_GEMINI_DIR", "SEPIA_GEMINI_DIR"], ".gemini"),
    row("qwen", &["TRIPLANE_QWEN_DIR", "SEPIA_QWEN_DIR"], ".qwen"),
    row("kimi", &["TRIPLANE_KIMI_DIR", "SEPIA_KIMI_DIR"], ".kimi-code"),
    row("cline", &["TRIPLANE_CLINE_DIR", "SEPIA_CLINE_DIR"], ".cline"),
    row("copilot", &["TRIPLANE_COPILOT_DIR", "SEPIA_COPILOT_DIR"], ".copilot"),
    row("cursor", &["TRIPLANE_CURSOR_DIR", "SEPIA_CURSOR_DIR"], ".cursor"),
    row("vibe", &["TRIPLANE_VIBE_DIR", "SEPIA_VIBE_DIR"], ".vibe"),
    // These two keep sessions and config apart, as the XDG directories ask.
    row("opencode", &["TRIPLANE_OPENCODE_DIR", "SEPIA_OPENCODE_DIR"], ".local/share/opencode"),
    row("devin", &["TRIPLANE_DEVIN_DIR", "SEPIA_DEVIN_DIR"], ".local/share/devin/cli"),
];

const CONFIGS: &[Row] = &[
    row(
        "opencode",
        &["TRIPLANE_OPENCODE_CONFIG_DIR", "SEPIA_OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_DIR"],
        ".config/opencode",
    ),
    row("devin", &["TRIPLANE_DEVIN_CONFIG_DIR", "SEPIA_DEVIN_CONFIG_DIR"], ".config/devin"),
];

/// Files that stand alone: Devin's sessions.
const FILES: &[Row] = &[row("devin", &["TRIPLANE_DEVIN_DB", "SEPIA_DEVIN_DB"], ".local/share/devin/cli/sessions.db")];

/// Folders of editors with an agent in them.
const EDITORS: &[(&str, &str)] = &[("cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev")];

const fn row(agent: &'static str, variables: &'static [&'static str], default: &'static str) -> Row {
    Row { agent, variables, default }
}

/// The homes as this process's environment has them.
pub(crate) struct Homes<'a> {
    user: PathBuf,
    /// A variable's value.
    get: &'a dyn Fn(&str) -> Option<OsString>,
}

impl<'a> Homes<'a> {
    /// `user`: the user's home directory. `get`: a variable, if it is set.
    pub(crate) fn new(user: PathBuf, get: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { user, get }
    }

    /// An agent's own home folder, which has its sessions.
    pub(crate) fn home(&self, agent: &str) -> Option<PathBuf> {
        self.find(HOMES, agent)
    }

    /// The folder of an agent's config.
    pub(crate) fn config(&self, agent: &str) -> Option<PathBuf> {
        self.find(CONFIGS, agent).or_else(|| self.find(HOMES, agent))
    }

    /// The database of an agent that has one of its own name.
    pub(crate) fn database(&self, agent: &str) -> Option<PathBuf> {
        self.find(FILES, agent)
    }

    /// Folders of editors that an agent may have sessions in, from when it was only an extension.
    pub(crate) fn editors(&self, agent: &str) -> Vec<PathBuf> {
        let rows = EDITORS.iter().filter(|(of, _)| *of == agent);
        rows.map(|(_, default)| self.user.join(xdg(default, &self.user, self.get))).collect()
    }

    fn find(&self, rows: &[Row], agent: &str) -> Option<PathBuf> {
        let row = rows.iter().find(|row| row.agent == agent)?;
        let set = self.first(row.variables);
        Some(set.unwrap_or_else(|| self.user.join(xdg(row.default, &self.user, self.get))))
    }

    /// The first of these variables that is set and not empty, as a path.
    pub(crate) fn first(&self, variables: &[&str]) -> Option<PathBuf> {
        variables.iter().find_map(|name| (self.get)(name)).map(PathBuf::from)
    }
}

/// A default with the XDG directory that it is in.
fn xdg(default: &str, user: &std::path::Path, get: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    let moved = |variable: &str, prefix: &str| {
        let rest = default.strip_prefix(prefix)?;
        get(variable).map(PathBuf::from).filter(|dir| dir.is_absolute()).map(|dir| dir.join(rest))
    };
    moved("XDG_DATA_HOME", ".local/share/")
        .or_else(|| moved("XDG_CONFIG_HOME", ".config/"))
        .unwrap_or_else(|| user.join(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &[(&str, &str)], agent: &str, expected: (&str, &str)) {
        let get = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let homes = Homes::new("/home/u".into(), &get);
        let both = (homes.find(HOMES, agent).unwrap(), homes.config(agent).unwrap());
        assert_eq!(both, (expected.0.into(), expected.1.into()), "{agent} with {set:?}");
    }

    #[test]
    fn ours_goes_before_the_older_name_and_that_before_the_agents_own() {
        check(&[], "claude", ("/home/u/.claude", "/home/u/.claude"));
        check(&[("CLAUDE_CONFIG_DIR", "/c")], "claude", ("/c", "/c"));
        check(&[("CLAUDE_CONFIG_DIR", "/c"), ("SEPIA_CLAUDE_DIR", "/s")], "claude", ("/s", "/s"));
        check(&[("SEPIA_CLAUDE_DIR", "/s"), ("TRIPLANE_CLAUDE_DIR", "/t")], "claude", ("/t", "/t"));
        check(&[], "opencode", ("/home/u/.local/share/opencode", "/home/u/.config/opencode"));
        check(&[("XDG_CONFIG_HOME", "/x"), ("XDG_DATA_HOME", "/d")], "opencode", ("/d/opencode", "/x/opencode"));
        check(&[("XDG_CONFIG_HOME", "relative")], "devin", ("/home/u/.local/share/devin/cli", "/home/u/.config/devin"));
    }

    #[test]
    fn every_variable_of_ours_has_its_older_name() {
        for row in HOMES.iter().chain(CONFIGS).chain(FILES) {
            let [ours, older, ..] = row.variables else { panic!("{} has too few names", row.agent) };
            assert_eq!(ours.strip_prefix("TRIPLANE_"), older.strip_prefix("SEPIA_"));
        }
    }
}
