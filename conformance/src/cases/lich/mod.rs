//! lich: JSON-RPC over WebSocket.

pub mod bounds;
pub mod frames;
pub mod glued;
pub mod history;
pub mod lifecycle;
pub mod prompts;
pub mod sessions;

use crate::case::Case;

/// The files of this topic.
pub const FILES: &[&[Case]] =
    &[frames::CASES, bounds::CASES, sessions::CASES, prompts::CASES, glued::CASES, history::CASES, lifecycle::CASES];
