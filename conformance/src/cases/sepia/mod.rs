//! x
use crate::case::Case;
/// x
pub const FILES: &[&[Case]] = &[];
