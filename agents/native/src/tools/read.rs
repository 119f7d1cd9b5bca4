//! `read`: lines of a file, as they are.

use super::{
    Builtin, Desk, Prepared, files, look,
    path::{self, Place},
    text::{title, whole_bytes},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Lines of one read unless it says otherwise.
const LINES: u64 = 2000;

/// Bytes of one read; more would crowd the model's context.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Where a file with a NUL counts as binary.
const HEAD_BYTES: usize = 8 << 10;

/// Input of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The file; relative paths begin at the session's directory.
    path: String,
    /// The first line that is wanted, from 1.
    #[serde(default)]
    offset: Option<u64>,
    /// How many lines are wanted at most; 2000 when absent.
    #[serde(default)]
    limit: Option<u64>,
}

impl Builtin for Read {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = "Reads a text file: its lines as they are, without numbers. A long file is cut, and the \
        last line in brackets says which offset to go on with.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", &self.path)?;
        let first = self.offset.unwrap_or(1);
        let limit = self.limit.unwrap_or(LINES);
        if first == 0 {
            return Err("offset: lines are counted from 1".to_owned());
        }
        if limit == 0 {
            return Err("limit: must be at least 1".to_owned());
        }
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Read,
            title: title("read", &place.shown),
            subject: place.shown.clone(),
            outside: place.outside,
            changes: None,
            hold: None,
            work: Box::pin(async move { look(&desk, move |stop| lines(&place, first, limit, stop)).await }),
        })
    }
}

/// What was read so far.
struct Page {
    bytes: Vec<u8>,
    /// The line that the next byte belongs to.
    line: u64,
    /// Why there is more than this.
    cut: Option<String>,
}

fn lines(place: &Place, first: u64, limit: u64, stop: &CancellationToken) -> Result<String, String> {
    let mut reader = BufReader::with_capacity(HEAD_BYTES, files::open(&place.real)?);
    let told = |err: std::io::Error| format!("{}: {err}", place.shown);
    if reader.fill_buf().map_err(told)?.contains(&0) {
        return Err(format!("{} is a binary file", place.shown));
    }
    let last = first.saturating_add(limit);
    let mut page = Page { bytes: Vec::new(), line: 1, cut: None };
    let mut ended_with_newline = true;
    while page.cut.is_none() && !stop.is_cancelled() {
        let buffer = reader.fill_buf().map_err(told)?;
        if buffer.is_empty() {
            break;
        }
        ended_with_newline = buffer.last() == Some(&b'\n');
        take(&mut page, buffer, first, last);
        let used = buffer.len();
        reader.consume(used);
    }
    let lines = page.line - u64::from(ended_with_newline && page.line > 1);
    if page.bytes.is_empty() && page.cut.is_none() && first > 1 {
        return Err(format!("offset: {} has only {lines} lines", place.shown));
    }
    let mut text = String::from_utf8_lossy(&page.bytes).into_owned();
    if let Some(cut) = page.cut {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&cut);
    }
    Ok(if text.is_empty() { "(the file is empty)".to_owned() } else { text })
}

/// Takes what is wanted of one buffer.
fn take(page: &mut Page, buffer: &[u8], first: u64, last: u64) {
    for piece in buffer.split_inclusive(|b| *b == b'\n') {
        if page.line >= last {
            page.cut = Some(format!("[… more: go on with offset {} …]", page.line));
            return;
        }
        if page.line >= first {
            let room = READ_BYTES - page.bytes.len();
            if piece.len() > room {
                page.bytes.extend_from_slice(piece.get(..room).unwrap_or_default());
                page.bytes.truncate(whole_bytes(&page.bytes));
                page.cut =
                    Some(format!("[… cut in line {}: {READ_BYTES} bytes are the most of one read …]", page.line));
                return;
            }
            page.bytes.extend_from_slice(piece);
        }
        page.line += u64::from(piece.ends_with(b"\n"));
    }
}
