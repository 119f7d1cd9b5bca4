//! Clients that show what was on the wire, and [`Front`], the path that all three wires have in common.

pub mod chunked;
pub mod front;
pub mod http;
pub mod larik;
pub mod lich;
pub mod rpc;
pub mod sepia;
pub mod sse;
pub mod stdio;
pub mod ws;

pub use front::{Event, Front, Run};
pub use larik::LarikFront;
pub use lich::LichFront;
pub use sepia::SepiaFront;
