//! larik over HTTP/1.1: the wire's rows meet the plane here.
//! Knows HTTP, SSE and larik's shapes; knows no other wire and no agent.
//!
//! Reading order:
//! - [`config`]: how a server is set up, and every bound of it.
//! - [`listener`]: the accept loop, a connection's life, and a stop that leaves nothing behind.
//! - [`service`]: what happens to one request, in order. [`router`]: paths from the rows. [`access`]: the token and browsers.
//! - [`read`]: bodies and queries, bounded in bytes and in time. [`reply`]: what goes back.
//! - [`handlers`]: one short function a row. [`views`]: the plane's types as the wire's.
//! - [`metrics`]: figures of the process, as text.
//! - [`sse`]: a session's events as a response body. [`stall`]: cuts off who does not read.
//! - [`worded`]: a body for what hyper refuses by itself.

mod access;
mod config;
mod handlers;
mod listener;
mod metrics;
mod read;
mod reply;
mod router;
mod service;
mod sse;
mod stall;
mod views;
mod worded;

pub use config::{HttpConfig, HttpLimits, ServerInfo};
pub use listener::{Bound, ServeError, bind, serve};
