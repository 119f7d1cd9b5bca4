//! Agents that speak the Agent Client Protocol (ACP, version 1) over the stdio of a child process.
//!
//! What an agent sends is read leniently, as JSON: real agents leave out titles, repeat kinds, begin ids at 0 and send what no
//! version of the protocol knows. What we do not know is passed on as it came. So the crate speaks JSON-RPC itself and uses no
//! typed protocol crate: a typed reader refuses exactly the messages that have to be kept.
//!
//! Reading order:
//! - [`known`]: the agents that can be started without settings.
//! - [`peer`]: JSON-RPC, a line each, with one process.
//! - [`process`]: one agent process of one directory: started when needed, shared, ended with all that it started.
//! - [`told`]: what an agent tells during a run, as events and messages.
//! - [`asks`]: what an agent asks of us: permissions, files.
//! - [`link`]: the agent's own session behind one of ours: made, loaded, set up.
//! - [`agent`]: both, as the plane wants them.

pub mod agent;
mod asks;
pub mod known;
mod link;
mod peer;
mod process;
mod prompt;
mod told;

pub use agent::{AcpAgent, AcpConfig};
pub use known::{KNOWN, Known};
