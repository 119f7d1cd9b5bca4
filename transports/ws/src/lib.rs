//! lich: JSON-RPC over WebSocket. Wire shapes meet plane calls here.
//!
//! Reading order:
//! - [`config`]: settings and bounds.
//! - [`server`]: accepts and judges handshakes (`handshake`). [`socket`]: one WebSocket, one task. [`outbox`]: what waits for it.

pub mod config;
mod handshake;
pub mod outbox;
pub mod server;
pub mod socket;

pub use config::{WsConfig, WsLimits};
