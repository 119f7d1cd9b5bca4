//! Driver processes: programs named `triplane-driver-NAME` that are an agent each, spoken to over their stdin and stdout.
//! Clauses: S31, S32. Described for authors of drivers in `docs/driver-protocol.md`.
//! Invariants: a driver is started when it is first needed, and again for the next call after it died; one that dies, hangs or
//! talks nonsense costs its own calls in flight, each with its cause, and nothing else; dropped, it leaves no process behind.
//!
//! Reading order:
//! - [`mod@discover`]: which programs are drivers.
//! - [`agent`]: [`DriverAgent`], an agent of the plane. `live`: one of its sessions. `events`: what a run says. `stores`: its
//!   sessions and its config.
//! - `supervisor`: starting, asking, giving up, starting again.
//! - `connection`: requests and replies over one process. `lines`: bytes to lines. `process`: the child itself.

pub mod agent;
mod connection;
pub mod discover;
mod events;
mod lines;
mod live;
mod process;
mod stores;
mod supervisor;

pub use agent::DriverAgent;
pub use discover::{Found, discover};
pub use supervisor::{Launch, Limits};
