//! `glob`: the files whose paths fit a pattern.

use super::{
    Builtin, Desk, Prepared, look,
    path::{self, Place},
    text::{lines_up_to, title},
    walk,
};
use globset::GlobMatcher;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Paths of one answer.
const PATHS: usize = 1000;

/// Bytes of one answer.
const GLOB_BYTES: usize = 32 << 10;

/// Input of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    /// `*`, `?`, `**/`, `{a,b}` and `[a-z]`; without a `/` it is matched against names, at any depth.
    pattern: String,
    /// The directory to look in; the session's directory when absent.
    #[serde(default)]
    path: Option<String>,
}

impl Builtin for Glob {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Finds files by the pattern of their path, such as `src/**/*.rs` or `*.md`. What \
        `.gitignore` names is left out.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", self.path.as_deref().unwrap_or("."))?;
        let pattern = walk::pattern("pattern", &self.pattern)?;
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Read,
            title: title("glob", &self.pattern),
            subject: place.shown.clone(),
            outside: place.outside,
            changes: None,
            hold: None,
            work: Box::pin(async move { look(&desk, move |stop| find(&place, &pattern, stop)).await }),
        })
    }
}

fn find(place: &Place, pattern: &GlobMatcher, stop: &CancellationToken) -> Result<String, String> {
    if !place.real.is_dir() {
        return Err(format!("path: {} is not a directory", place.shown));
    }
    let mut found = Vec::new();
    let mut more = false;
    for entry in walk::files(&place.real, stop) {
        let Ok(relative) = entry.path().strip_prefix(&place.real) else {
            continue;
        };
        if !pattern.is_match(relative) {
            continue;
        }
        if found.len() == PATHS {
            more = true;
            break;
        }
        found.push(relative.to_string_lossy().into_owned());
    }
    if found.is_empty() {
        return Ok("no file fits".to_owned());
    }
    let (mut text, left) = lines_up_to(&found, GLOB_BYTES);
    if more || left > 0 {
        text.push_str("[… more files: use a narrower pattern …]");
    }
    Ok(text)
}
