//! Other agents' config folders, read and written in their own formats. Clauses: S19, S20, S28.
//! Invariants: an import deletes nothing and touches nothing outside its root; what is not understood stays as it was; no file
//! is ever seen half written. Knows no wire, no process and no environment: whoever makes a [`FolderConfig`] says where it is.
//!
//! Reading order:
//! - [`mod@format`]: which files each agent has, as one table.
//! - `folder`: [`FolderConfig`], the config of one agent.
//! - `read`: files to items. `write`: items to files. `adapt`: what another agent's item becomes.
//! - `front`, `members`, `servers`, `skill`: markdown with front matter, JSON and TOML files, MCP servers, skills.
//! - `root`: the only place that opens a file.

mod adapt;
mod folder;
pub mod format;
mod front;
mod members;
mod read;
mod root;
mod servers;
mod skill;
mod write;

#[cfg(test)]
mod tests;

pub use folder::FolderConfig;
pub use format::{FORMATS, Format};
