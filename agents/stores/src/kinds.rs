//! The agents with stores: their names, and what their stores are made of. Where those lie, the caller says. Clause: S31.

use crate::{
    claude::Claude, cline::Cline, codex::Codex, copilot::Copilot, cursor::Cursor, devin::Devin, gemini::Gemini,
    kimi::Kimi, opencode::Opencode, qwen::Qwen, threaded::Threaded, tree::Tree,
};
use std::{path::PathBuf, sync::Arc};
use triplane_core::agent::SessionStore;

/// An agent whose store can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
    /// Kimi Code.
    Kimi,
    /// Cline.
    Cline,
    /// Copilot CLI.
    Copilot,
    /// Cursor's command.
    Cursor,
    /// Devin.
    Devin,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Claude,
        Self::Codex,
        Self::Opencode,
        Self::Gemini,
        Self::Qwen,
        Self::Kimi,
        Self::Cline,
        Self::Copilot,
        Self::Cursor,
        Self::Devin,
    ];

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }

    /// Short name, as in `--agent`.
    pub const fn id(self) -> &'static str {
        self.names().0
    }

    /// Name for people.
    pub const fn name(self) -> &'static str {
        self.names().1
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("claude", "Claude Code"),
            Self::Codex => ("codex", "Codex"),
            Self::Opencode => ("opencode", "opencode"),
            Self::Gemini => ("gemini", "Gemini CLI"),
            Self::Qwen => ("qwen", "Qwen Code"),
            Self::Kimi => ("kimi", "Kimi Code"),
            Self::Cline => ("cline", "Cline"),
            Self::Copilot => ("copilot", "Copilot CLI"),
            Self::Cursor => ("cursor", "Cursor"),
            Self::Devin => ("devin", "Devin"),
        }
    }

    /// Whether its sessions can be written and deleted.
    pub const fn writes(self) -> bool {
        match self {
            Self::Cursor | Self::Devin => false,
            Self::Claude
            | Self::Codex
            | Self::Opencode
            | Self::Gemini
            | Self::Qwen
            | Self::Kimi
            | Self::Cline
            | Self::Copilot => true,
        }
    }

    /// Its store. `home`: the agent's own home folder; of Devin the database. `others`: folders that may have older sessions,
    /// as those of editors with Cline in them. Touches nothing.
    pub fn store(self, home: PathBuf, others: Vec<PathBuf>) -> Arc<dyn SessionStore> {
        let dir = home;
        match self {
            Self::Claude => Arc::new(Threaded(Arc::new(Tree::new(Claude { dir })))),
            Self::Codex => Arc::new(Threaded(Arc::new(Tree::new(Codex::new(dir))))),
            Self::Opencode => Arc::new(Threaded(Arc::new(Opencode { path: dir.join("opencode.db") }))),
            Self::Gemini => Arc::new(Threaded(Arc::new(Tree::new(Gemini { dir })))),
            Self::Qwen => Arc::new(Threaded(Arc::new(Tree::new(Qwen { dir })))),
            Self::Kimi => Arc::new(Threaded(Arc::new(Tree::new(Kimi { dir })))),
            Self::Cline => Arc::new(Threaded(Arc::new(Cline::new(&dir, others)))),
            Self::Copilot => Arc::new(Threaded(Arc::new(Tree::new(Copilot { dir })))),
            Self::Cursor => Arc::new(Threaded(Arc::new(Tree::new(Cursor { dir })))),
            Self::Devin => Arc::new(Threaded(Arc::new(Devin { path: dir }))),
        }
    }
}
