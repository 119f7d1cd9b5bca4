//! Rows of the list that outlive the process, wherever they are kept. A cache and nothing more: what it has is believed only for
//! a file of the same time and size, what it lacks is read, and it may be thrown away at any time.

use super::IndexRow;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use triplane_protocol::SessionId;

/// A row, and the state of the transcript that it was read from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cached {
    /// Modification time, nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Size of the transcript.
    pub bytes: u64,
    /// Up to where it was read.
    pub(super) offset: u64,
    /// Only both ends were read.
    pub(super) huge: bool,
    /// Its header was read.
    pub(super) headed: bool,
    /// The row.
    pub row: IndexRow,
}

/// Where rows are kept between processes. Nothing here fails: what cannot be had is read from the transcripts.
#[async_trait]
pub trait RowCache: Debug + Send + Sync {
    /// All rows that are kept of this directory.
    async fn load(&self) -> Vec<Cached>;

    /// Keeps some rows and forgets others; not awaited.
    fn save(&self, changed: Vec<Cached>, gone: Vec<SessionId>);
}
