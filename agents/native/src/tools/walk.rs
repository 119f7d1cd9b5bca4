//! Walking a directory for `glob` and `grep`: hidden files are looked at, ignored ones and `.git` are not, symlinks are not followed.

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// The files below `base`, in order of their paths, until `stop`. Directories that cannot be read are passed over.
pub(super) fn files(base: &Path, stop: &CancellationToken) -> impl Iterator<Item = DirEntry> {
    let mut walk = WalkBuilder::new(base);
    walk.hidden(false).require_git(false).follow_links(false).sort_by_file_name(std::ffi::OsStr::cmp);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    let stop = stop.clone();
    let entries = walk.build().take_while(move |_| !stop.is_cancelled()).filter_map(Result::ok);
    entries.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
}

/// A pattern over paths relative to the base; without a `/` it is one over names, at any depth.
pub(super) fn pattern(field: &str, text: &str) -> Result<GlobMatcher, String> {
    let anywhere = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    glob.map(|g| g.compile_matcher()).map_err(|err| format!("{field}: {err}"))
}
