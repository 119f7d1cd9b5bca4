//! The table `[sandbox]`: what commands of the built-in agent are kept from.
//! Invariant: only the home's file has it; whoever wrote the checkout must not open the machine.

use super::beside;
use crate::cli::SandboxFlag;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// `[sandbox]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxTable {
    /// How far; absent: by the session's mode.
    pub(super) mode: Option<SandboxFlag>,
    /// Whether confined commands reach the network; absent: they do not.
    pub(super) network: Option<bool>,
    /// Whether `fetch` may reach this machine and private networks; absent: it may not.
    pub(super) fetch_private: Option<bool>,
    /// Directories that `workspace-write` may write in too.
    #[serde(default)]
    pub(super) writable: Vec<PathBuf>,
}

/// The file around it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SandboxSection {
    #[serde(default)]
    pub(super) sandbox: SandboxTable,
}

impl SandboxTable {
    /// Paths are relative to the file.
    pub(super) fn beside(mut self, file: &Path) -> Self {
        self.writable = self.writable.into_iter().map(|path| beside(file, path)).collect();
        self
    }
}
