//! The stores of sessions that other agents keep in their own formats: listed, read, written and deleted as those agents would.
//! Invariants: a session that exists is never changed; what a format cannot hold is reported, never dropped silently; a file that
//! cannot be read costs itself. Knows no wire and no agent's process. Clauses: S06–S10, S16, S28, S31.
//!
//! Reading order:
//! - [`places`]: the table of agents: their directories and variables.
//! - `threaded`: the trait that a format answers to, on threads that may wait. `tree`: formats of files, with their cache of rows.
//! - `files`, `time`, `ids`: what files, times and ids have in common.
//! - `flat`: a session taken apart into what formats hold, and what is lost by it. `build`: messages put together from records.
//! - `claude`, `codex`, `opencode`, `gemini`, `qwen`, `kimi`, `cline`, `tasks`, `copilot`; read only: `cursor`, `devin`.

mod build;
mod claude;
mod files;
mod flat;
mod ids;
pub mod places;
mod threaded;
mod time;
mod tree;

pub use places::{Kind, Places};
