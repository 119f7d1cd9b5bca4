//! `ls`: the entries of a directory.

use super::{
    Builtin, Desk, Prepared, look,
    path::{self, Place},
    text::{lines_up_to, title},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Bytes of one listing.
const LS_BYTES: usize = 32 << 10;

/// Input of `ls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    /// The directory; the session's directory when absent.
    #[serde(default)]
    path: Option<String>,
}

impl Builtin for Ls {
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = "Lists a directory, hidden entries included, one a line, in order; a directory ends with \
        `/`, a symlink with `@`.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", self.path.as_deref().unwrap_or("."))?;
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Read,
            title: title("ls", &place.shown),
            subject: place.shown.clone(),
            outside: place.outside,
            changes: None,
            hold: None,
            work: Box::pin(async move { look(&desk, move |stop| list(&place, stop)).await }),
        })
    }
}

fn list(place: &Place, stop: &CancellationToken) -> Result<String, String> {
    let told = |err: std::io::Error| {
        if err.kind() == std::io::ErrorKind::NotADirectory {
            return format!("{} is a file; use `read`", place.shown);
        }
        format!("{}: {err}", place.shown)
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&place.real).map_err(told)? {
        if stop.is_cancelled() {
            break;
        }
        let entry = entry.map_err(told)?;
        let mark = match entry.file_type() {
            Ok(kind) if kind.is_dir() => "/",
            Ok(kind) if kind.is_symlink() => "@",
            Ok(_) | Err(_) => "",
        };
        names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
    }
    names.sort_unstable();
    let (text, left) = lines_up_to(&names, LS_BYTES);
    Ok(match (names.is_empty(), left) {
        (true, _) => "(the directory is empty)".to_owned(),
        (false, 0) => text,
        (false, left) => format!("{text}[… {left} more entries: use `glob` …]"),
    })
}
