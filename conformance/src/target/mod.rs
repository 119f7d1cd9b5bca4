//! The server under test: a program that the runner spawns afresh for each case, or something that listens already.

pub mod process;
pub mod server;

pub use server::{Launch, Server};

use crate::case::Wire;
use std::{net::SocketAddr, path::PathBuf};

/// How to come to a server.
#[derive(Debug, Clone)]
pub enum Target {
    /// The `triplane` command, spawned with temporary directories; every case applies.
    Spawn(PathBuf),
    /// A lich server at an address; cases that need its process or files are skipped.
    Ws {
        /// Where it listens.
        addr: SocketAddr,
        /// Path and query.
        path: String,
        /// Its token.
        token: String,
    },
    /// A larik server at an address.
    Http {
        /// Where it listens.
        addr: SocketAddr,
        /// Its token.
        token: String,
    },
    /// A command that speaks sepia on its stdio.
    Stdio(Vec<String>),
}

impl Target {
    /// The wires that it speaks.
    pub fn speaks(&self, wire: Wire) -> bool {
        match self {
            Self::Spawn(_) => true,
            Self::Ws { .. } => wire == Wire::Ws,
            Self::Http { .. } => wire == Wire::Http,
            Self::Stdio(_) => wire == Wire::Stdio,
        }
    }

    /// Whether the runner owns its process and its directories.
    pub fn spawned(&self) -> bool {
        matches!(self, Self::Spawn(_))
    }
}
