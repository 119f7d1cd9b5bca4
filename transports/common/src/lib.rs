//! What the transports share: who may come in, how a listener behaves, and how readiness is told.
//! Knows sockets and headers; knows no wire's methods.
//!
//! Reading order:
//! - [`guard`]: Host and Origin. [`token`]: the secret, where it comes from and how it is compared.
//! - [`listen`]: a loopback bind and a bounded accept loop. [`ready`]: the one line that a parent waits for.
//! - [`rpc`]: from one JSON-RPC message to its reply, and the queues in between.
//! - [`framing`]: which slot of an event's encoded bytes belongs to which transport.

pub mod framing;
pub mod guard;
pub mod listen;
pub mod ready;
pub mod rpc;
pub mod token;
