//! The table of agents with stores: their names, where their sessions lie, and the variables that say otherwise. Clause: S31.
//! `TRIPLANE_…` goes before `SEPIA_…`, and both before the agent's own variable and its default.

use crate::{claude::Claude, threaded::Threaded, tree::Tree};
use std::{path::PathBuf, sync::Arc};
use triplane_core::agent::SessionStore;

/// An agent whose store can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code.
    Claude,
}

/// One row of the table.
#[derive(Debug)]
struct Row {
    kind: Kind,
    /// Short name, as in `--agent`.
    id: &'static str,
    name: &'static str,
    /// The variable without `TRIPLANE_` or `SEPIA_`.
    variable: &'static str,
    /// The agent's own variable, and what is below it.
    own: &'static [(&'static str, &'static str)],
    /// Below the user's home directory.
    default: &'static str,
    /// Whether its sessions can be written and deleted.
    write: bool,
}

const ROWS: &[Row] = &[Row {
    kind: Kind::Claude,
    id: "claude",
    name: "Claude Code",
    variable: "CLAUDE_DIR",
    own: &[("CLAUDE_CONFIG_DIR", "")],
    default: ".claude",
    write: true,
}];

impl Kind {
    /// Every agent of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.kind)
    }

    fn row(self) -> &'static Row {
        // Every kind has its row; a test looks.
        ROWS.iter().find(|row| row.kind == self).unwrap_or(&ROWS[0])
    }

    /// Short name, as in `--agent`.
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether its sessions can be written and deleted.
    pub fn writes(self) -> bool {
        self.row().write
    }
}

/// Where agents keep their things, as the environment says.
pub struct Places<'a> {
    /// The user's home directory.
    pub home: PathBuf,
    /// Looks a variable up; one that is empty counts as absent.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Places<'_> {
    /// The agent's own directory (of Devin: its database).
    pub fn of(&self, kind: Kind) -> PathBuf {
        let row = kind.row();
        let given =
            ["TRIPLANE_", "SEPIA_"].iter().find_map(|prefix| (self.variable)(&format!("{prefix}{}", row.variable)));
        let own = || row.own.iter().find_map(|(name, below)| Some(PathBuf::from((self.variable)(name)?).join(below)));
        given.map(PathBuf::from).or_else(own).unwrap_or_else(|| self.home.join(row.default))
    }

    /// The agent's store. Touches nothing.
    pub fn store(&self, kind: Kind) -> Arc<dyn SessionStore> {
        let dir = self.of(kind);
        match kind {
            Kind::Claude => Arc::new(Threaded(Arc::new(Tree::new(Claude { dir })))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_variables_go_before_the_agents_own() {
        let with = |set: &'static [&'static str]| {
            let variable = move |name: &str| set.contains(&name).then(|| format!("/{name}"));
            Places { home: "/home/me".into(), variable: &variable }.of(Kind::Claude)
        };
        assert_eq!(with(&[]), PathBuf::from("/home/me/.claude"));
        assert_eq!(with(&["CLAUDE_CONFIG_DIR"]), PathBuf::from("/CLAUDE_CONFIG_DIR"));
        assert_eq!(with(&["CLAUDE_CONFIG_DIR", "SEPIA_CLAUDE_DIR"]), PathBuf::from("/SEPIA_CLAUDE_DIR"));
        assert_eq!(with(&["SEPIA_CLAUDE_DIR", "TRIPLANE_CLAUDE_DIR"]), PathBuf::from("/TRIPLANE_CLAUDE_DIR"));
    }
}
