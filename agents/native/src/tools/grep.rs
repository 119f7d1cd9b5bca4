//! `grep`: the lines that fit a regular expression.

use super::{
    Builtin, Desk, Prepared, files, look,
    path::{self, Place},
    text::{clip_marked, title},
    walk,
};
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, sinks::Lossy};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Lines of one answer.
const MATCHES: usize = 500;

/// Bytes of one answer.
const GREP_BYTES: usize = 48 << 10;

/// Bytes of one line of an answer; minified files have lines of megabytes.
const LINE_BYTES: usize = 400;

/// Memory for one line of a searched file; a longer one costs that file.
const HEAP_BYTES: usize = 16 << 20;

/// The largest automaton of a pattern.
const REGEX_BYTES: usize = 16 << 20;

/// Input of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    /// A regular expression; a line that has a match is found.
    pattern: String,
    /// The directory or file to look in; the session's directory when absent.
    #[serde(default)]
    path: Option<String>,
    /// Only files that fit this pattern, as in `glob`.
    #[serde(default)]
    glob: Option<String>,
}

impl Builtin for Grep {
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Searches files for a regular expression and answers `path:line:text`. Binary files and \
        what `.gitignore` names are left out.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", self.path.as_deref().unwrap_or("."))?;
        let regex =
            RegexMatcherBuilder::new().line_terminator(Some(b'\n')).size_limit(REGEX_BYTES).build(&self.pattern);
        let regex = regex.map_err(|err| format!("pattern: {err}"))?;
        let only = self.glob.as_deref().map(|glob| walk::pattern("glob", glob)).transpose()?;
        let search = Search { cwd: desk.cwd.clone(), place: place.clone(), regex, only };
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Read,
            title: title("grep", &self.pattern),
            subject: place.shown,
            outside: place.outside,
            changes: None,
            hold: None,
            work: Box::pin(async move { look(&desk, move |stop| search.run(stop)).await }),
        })
    }
}

struct Search {
    cwd: std::path::PathBuf,
    place: Place,
    regex: RegexMatcher,
    only: Option<GlobMatcher>,
}

/// Lines that were found so far.
#[derive(Default)]
struct Found {
    text: String,
    lines: usize,
}

impl Found {
    fn full(&self) -> bool {
        self.lines >= MATCHES || self.text.len() >= GREP_BYTES
    }
}

impl Search {
    fn run(&self, stop: &CancellationToken) -> Result<String, String> {
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP_BYTES))
            .build();
        let mut found = Found::default();
        let mut more = false;
        if !self.place.real.is_dir() {
            self.file(&mut searcher, &self.place.real, &mut found, stop)?;
            more = found.full();
        } else {
            for entry in walk::files(&self.place.real, stop) {
                let relative = entry.path().strip_prefix(&self.place.real).unwrap_or(entry.path());
                if self.only.as_ref().is_some_and(|only| !only.is_match(relative)) {
                    continue;
                }
                // A file that cannot be read, or went away, is passed over.
                let _ = self.file(&mut searcher, entry.path(), &mut found, stop);
                if found.full() {
                    more = true;
                    break;
                }
            }
        }
        if found.lines == 0 {
            return Ok("no line fits".to_owned());
        }
        if more {
            found.text.push_str("[… there may be more: use a narrower pattern, path or glob …]");
        }
        Ok(found.text)
    }

    fn file(
        &self,
        searcher: &mut Searcher,
        path: &Path,
        found: &mut Found,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let shown = path.strip_prefix(&self.cwd).unwrap_or(path).to_string_lossy();
        let file = files::open(path)?;
        let sink = Lossy(|number, line: &str| {
            let line = clip_marked(line.trim_end_matches(['\n', '\r']), LINE_BYTES);
            found.text.push_str(&format!("{shown}:{number}:{line}\n"));
            found.lines += 1;
            Ok(!found.full() && !stop.is_cancelled())
        });
        searcher.search_file(&self.regex, &file, sink).map_err(|err| format!("{shown}: {err}"))
    }
}
