//! Wire types and method tables. No I/O, no async runtime, no clock, no environment.
//!
//! Reading order:
//! - [`code`]: the closed set of failure codes and their number on each wire.
//! - [`failure`]: what a client is told when a call fails.
//! - [`id`]: newtypes of the ids that cross a wire.
//! - [`ir`]: the session as data: messages, parts, usage.
//! - [`config`]: an agent's config as data.
//! - [`event`]: the facts of a session as they happen.
//! - [`record`]: the lines of a transcript.
//! - [`strict`]: which JSON texts are refused, on every wire alike.
//! - [`jsonrpc`]: JSON-RPC 2.0 as text.
//! - [`table`]: one row a method: dispatch, schema and document come from it.
//! - [`rest`]: the same for HTTP operations.
//! - [`lich`]: the WebSocket wire.
//! - [`larik`]: the HTTP wire.
//! - [`sepia`]: the stdio wire.
//! - [`driver`]: what driver processes speak.
//! - [`schemas`], [`openapi`], [`openrpc`]: documents from the rows.

pub mod code;
pub mod config;
pub mod driver;
pub mod event;
pub mod failure;
pub mod id;
pub mod ir;
pub mod jsonrpc;
pub mod larik;
pub mod lich;
pub mod openapi;
pub mod openrpc;
pub mod record;
pub mod rest;
pub mod schemas;
pub mod sepia;
pub mod strict;
pub mod table;

pub use code::ErrorCode;
pub use event::AgentEvent;
pub use failure::Failure;
pub use id::{CallId, MessageId, RequestId, RunId, SessionId, TaskId};
pub use ir::{Message, Part, Role, Session, Stop, Usage};
