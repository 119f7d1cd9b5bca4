//! Every published event on disk, and the seqs that may be published.

use super::error::StoreError;
use bytes::Bytes;

/// How many seqs one synced line reserves.
pub const BLOCK: u64 = 4096;

/// What a spool says of its seq space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolState {
    /// Names the seq space; 16 hex digits.
    pub epoch: String,
    /// The first seq that may be used now.
    pub next_seq: u64,
    /// The last event on disk; 0: none. What lies between it and `next_seq` is a hole.
    pub last_seq: u64,
    /// The first event on disk; 0: none.
    pub oldest_seq: u64,
}

/// What one read found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolPage {
    /// The seq space; empty when there is no spool.
    pub epoch: String,
    /// Ascending; a step of more than one is a hole. The event's JSON, as it was appended.
    pub events: Vec<(u64, Bytes)>,
    /// Whether a limit ended the page.
    pub more: bool,
}

/// The spool of one live session.
#[derive(Debug)]
pub struct Spool {}

impl Spool {
    /// The last seq that may be published; reserve before going past it.
    pub fn reserved(&self) -> u64 {
        0
    }

    /// Makes sure that all seqs up to `upto` may be published: written and synced when this resolves.
    pub async fn reserve(&mut self, _upto: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes published events, as (seq, JSON object), in one write, without a sync.
    pub fn append(&mut self, _events: &[(u64, &[u8])]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the file is over its cap: call [`trim`](Self::trim) when there is time.
    pub fn oversize(&self) -> bool {
        false
    }

    /// Lets the older half go.
    pub async fn trim(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Ends it cleanly: `last` is the last seq that was published, so that the next open goes on after it.
    pub fn close(self, _last: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
