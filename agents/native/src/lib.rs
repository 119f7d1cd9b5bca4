//! The built-in agent: a model loop with tools.
//! Invariants: a call in the history always has its result; a child process never outlives its tool call, its task or this process.
//! Knows the plane only as [`triplane_core::agent`]'s traits and the run's sink; knows no wire.
//!
//! Reading order:
//! - [`agent`]: the agent and its live sessions.
//! - [`run`]: one prompt to its stop: turns, messages, tool calls.
//! - [`model`]: what a model looks like from the loop; the scripted one; those over the network; which there are.
//! - [`prompt`]: what a model is told before the conversation.
//! - [`tools`]: the table of tools, and each of them.
//! - [`proc`]: children: started, watched, ended with all that they started. [`shim`]: the small process between us and them.
//! - [`mcp`]: tools of MCP servers. [`lsp`]: what language servers know. [`keeper`]: how either is kept.
//! - [`sandbox`]: what commands are kept from, and by what.
//! - [`shelf`]: what a live session keeps between its runs.
//! - [`host`]: the session as the loop and the tools see it.

pub mod agent;
pub(crate) mod host;
#[cfg(any(feature = "mcp", feature = "lsp"))]
pub(crate) mod keeper;
#[cfg(feature = "lsp")]
pub mod lsp;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
pub mod proc;
pub(crate) mod prompt;
pub(crate) mod run;
pub mod sandbox;
pub(crate) mod shelf;
pub mod shim;
pub mod tools;

#[cfg(test)]
pub(crate) mod fake;

pub use agent::{NativeAgent, NativeConfig};
pub use model::{Model, ModelError, ModelOut, ModelRequest, Models, Piece, Provider, Retries, TurnEnd};
pub use tools::Extensions;
