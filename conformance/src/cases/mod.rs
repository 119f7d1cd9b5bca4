//! The cases, one file a topic.

use crate::case::Case;

/// Every case of the suite.
pub fn all() -> Vec<&'static Case> {
    let files: &[&'static [Case]] = &[];
    files.iter().copied().flatten().collect()
}
