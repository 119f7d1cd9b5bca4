//! The stores of sessions that other agents keep in their own formats: listed, read, written and deleted as those agents would.
//! Invariants: a session that exists is never changed; what a format cannot hold is reported, never dropped silently; a file that
//! cannot be read costs itself. Knows no wire and no agent's process. Clauses: S06–S10, S16, S28, S31.
//!
//! Reading order:
//! - [`Kind`]: the agents, and what their stores are made of.
//! - `threaded`: the trait that a format answers to, on threads that may wait. `tree`: formats of files, with their cache of rows.
//! - `files`, `time`, `ids`: what files, times and ids have in common.
//! - `flat`: a session taken apart into what formats hold, and what is lost by it. `build`: messages put together from records.
//! - `claude`, `codex`, `opencode`, `gemini`, `qwen`, `kimi`, `cline`, `tasks`, `copilot`; read only: `cursor`, `devin`.

mod build;
mod claude;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod devin;
mod files;
mod flat;
mod gemini;
mod google;
mod ids;
mod kimi;
mod kinds;
mod opencode;
mod qwen;
mod tasks;
mod threaded;
mod time;
mod tree;

pub use kinds::Kind;
