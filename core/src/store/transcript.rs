//! The append-only file of one session.

use super::{error::StoreError, history::History};
use std::path::Path;
use triplane_protocol::record::{Header, Record};

/// What a load had to leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Bytes of a torn last line.
    pub torn_bytes: u64,
    /// Damaged or over-long lines.
    pub bad_lines: u64,
    /// Lines of types that are not known here.
    pub unknown: u64,
}

/// A transcript opened for writing, with what it tells.
#[derive(Debug)]
pub struct Loaded {
    /// Ready for appends.
    pub transcript: Transcript,
    /// What it tells.
    pub history: History,
    /// What had to be left out.
    pub report: LoadReport,
}

/// A transcript open for appends.
#[derive(Debug)]
pub struct Transcript {}

impl Transcript {
    /// Where it is.
    pub fn path(&self) -> &Path {
        unreachable!()
    }

    /// Gives the header to a transcript that was never written to; it is written with the first append.
    pub fn adopt_header(&mut self, _header: Header) {}

    /// Whether nothing was written yet.
    pub fn is_pending(&self) -> bool {
        true
    }

    /// Writes records in one write and makes them as durable as the store promises. All or nothing.
    pub async fn append(&mut self, _records: &[Record]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes records in one write and leaves the sync to a later [`sync`](Self::sync) or [`append`](Self::append). All or nothing.
    pub fn write(&mut self, _records: &[Record]) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes everything written so far as durable as the store promises.
    pub async fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
