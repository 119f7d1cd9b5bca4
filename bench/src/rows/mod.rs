//! What is measured, a file a row. A new row: a file here, and a line in [`ROWS`].

mod idle;
mod ready;

use crate::{report::Figure, server::Programs};
use anyhow::Result;

/// What a row is given.
#[derive(Debug)]
pub struct Setup {
    /// The programs under test.
    pub programs: Programs,
    /// Interleaved pairs a figure.
    pub pairs: usize,
}

/// One measurement.
#[derive(Debug)]
pub struct Row {
    /// As it is named on the command line.
    pub name: &'static str,
    /// What it tells, in a line.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&Setup) -> Result<Vec<Figure>>,
}

/// Every row, in the order that `all` runs them.
pub const ROWS: &[Row] = &[ready::ROW, idle::ROW];
