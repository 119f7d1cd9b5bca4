//! The server under test: a program that the runner spawns afresh for each case, or something that listens already.

pub mod address;
pub mod foreign;
pub mod process;
pub mod server;

pub use foreign::Command;
pub use server::{Launch, Server};

use crate::case::Wire;
use std::{fmt, net::SocketAddr, path::PathBuf};

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
    /// A command that speaks sepia on its stdio; each case starts it in a directory of its own.
    Stdio(Command),
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

    /// Whether every case has a server to itself, so that cases can run beside each other.
    pub fn apart(&self) -> bool {
        match self {
            Self::Spawn(_) | Self::Stdio(_) => true,
            Self::Ws { .. } | Self::Http { .. } => false,
        }
    }

    /// Where it listens, if it is not started by the runner.
    pub fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Ws { addr, .. } | Self::Http { addr, .. } => Some(*addr),
            Self::Spawn(_) | Self::Stdio(_) => None,
        }
    }

    /// Whether the runner owns its process and its directories.
    pub fn spawned(&self) -> bool {
        matches!(self, Self::Spawn(_))
    }
}

/// As a person would name it; never with its token.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(program) => write!(f, "{}", program.display()),
            Self::Ws { addr, path, .. } => write!(f, "ws://{addr}{}", path.split('?').next().unwrap_or(path)),
            Self::Http { addr, .. } => write!(f, "http://{addr}"),
            Self::Stdio(command) => write!(f, "{command}"),
        }
    }
}
