//! What all wires promise alike.

pub mod alive;
pub mod beside;
pub mod codes;
pub mod disk;
pub mod guard;
pub mod jsonrpc;
pub mod main_path;
pub mod planes;
pub mod ready;
pub mod shutdown;
pub mod token;

use crate::case::Case;

/// The files of this topic.
pub const FILES: &[&[Case]] = &[
    main_path::CASES,
    planes::CASES,
    jsonrpc::CASES,
    codes::CASES,
    alive::CASES,
    beside::CASES,
    guard::CASES,
    ready::CASES,
    token::CASES,
    shutdown::CASES,
    disk::CASES,
];
