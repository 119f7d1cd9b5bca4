//! Speed, told as ratios: what the plane costs beside the least that a server could do.
//! Absolute figures move threefold with the load of a machine; the ratio of two servers that were measured in turn does not.
//!
//! Reading order:
//! - [`rows`]: what is measured, a file a row.
//! - [`server`]: the servers under test, started, asked and stopped. [`wire`], [`sock`]: clients that cost little.
//! - [`ceiling`]: what `bare` does over a pipe and over WebSocket.
//! - [`swarm`]: many streams read by one thread.
//! - [`stats`]: medians and spreads. [`report`]: figures, targets and the verdict.

pub mod ceiling;
pub mod report;
pub mod rows;
pub mod server;
pub mod sock;
pub mod stats;
pub mod swarm;
pub mod wire;
