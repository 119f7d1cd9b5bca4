//! Servers broken on purpose: a process that stands in front of the real server, speaks its wire, and breaks one clause by
//! name. The suite cannot tell it from a server that was built wrong, so a case that lets it pass judges nothing.
//! Knows no code of the server: what it breaks is what a client sees, in bytes, files and processes.
//!
//! Reading order:
//! - [`act`]: what can be done to a server, and what the hooks are given.
//! - [`rows`]: the breaks, one row each: name, wires, clause, the case that must catch it, and how it is done.
//! - [`table`]: the rows as a page.
//! - [`proxy`]: the process in front, by wire.

pub mod act;
pub mod proxy;
pub mod rows;
pub mod table;

pub use act::{Act, Break};
