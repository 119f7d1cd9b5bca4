//! lich: JSON-RPC over WebSocket.

pub mod frames;
pub mod history;
pub mod prompts;
pub mod sessions;

use crate::case::Case;

/// The files of this topic.
pub const FILES: &[&[Case]] = &[frames::CASES, sessions::CASES, prompts::CASES, history::CASES];
