//! The session plane: every rule about sessions, none about wires.
//! Knows no socket, no framing, no JSON-RPC and no wire's name; knows agents only as traits.
//!
//! Reading order:
//! - [`plane`]: the handle that every transport calls.
//! - [`session`]: one live session: a pure state machine inside one owning task.
//! - [`feed`]: events: a ring read by cursor, the spool behind it, and the node's feed.
//! - [`store`]: what is on disk: transcripts, spools, blobs, locks.
//! - [`permission`]: modes, rules, and what is asked.
//! - [`agent`]: what an agent, a store of sessions and a config look like from here.
//! - [`overlay`]: what people say of sessions: titles, pins, projects; and when they were live.
//! - [`node`]: who this machine is.
//! - [`stats`]: what the plane counts of itself.
//! - [`limits`]: every bound, with its reason. [`error`]: why a plane call fails.

pub mod agent;
#[cfg(test)]
mod crash_tests;
pub mod error;
pub mod feed;
pub mod limits;
pub mod node;
pub mod overlay;
pub mod permission;
pub mod plane;
pub mod session;
pub mod stats;
pub mod store;

pub use error::PlaneError;
pub use plane::{Plane, PlaneConfig};
