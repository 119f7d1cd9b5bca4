//! The scripted model as pure data: a prompt is a script, and a script says what a model answers.
//! Invariant: the same script and the same tool results give the same steps; nothing here waits, reads or writes.
//! Knows no transport, no agent and no wire, so that one model stands behind `script/echo` and behind an endpoint.
//!
//! Plain text is echoed back, a word a chunk; the chunks joined are the text. A line that begins with `/` is a directive,
//! carried out in order, and is itself not echoed (its line end goes with it):
//!
//! | directive | what the model does |
//! |---|---|
//! | `/say TEXT` | says TEXT as one chunk |
//! | `/think TEXT` | reasons TEXT as one chunk |
//! | `/repeat N TEXT` | says TEXT N times, a chunk each (N at most [`MAX_REPEAT`]) |
//! | `/tool NAME JSON` | calls a tool (JSON: its input, `{}` when absent) and ends the turn; the next turn goes on after it |
//! | `/also NAME JSON` | right behind a `/tool` or another `/also`: calls this tool in the same turn |
//! | `/clock N MS` | waits MS and says what time it is (nanoseconds since 1970, by its own clock), N times: whoever reads it can tell how old it is |
//! | `/sleep MS` | waits (MS at most [`MAX_MS`]) |
//! | `/fail CODE TIMES` | fails the turn: a word or an HTTP status, see [`Failure`]; `refused` and `max_tokens` are stops, not failures. With TIMES, whoever counts attempts (the endpoint does, see [`Script::attempt`]) passes over it after so many |
//! | `/task MS TEXT` | starts a background task that ends after MS with TEXT |
//!
//! A line that begins with `/` and is none of these, or has a wrong argument, is plain text. Nothing stands between what two
//! directives say. A last turn that said nothing else says `tool NAME: RESULT` for each call (the first
//! [`RESULT_CHARS`] characters), or `done`.
//!
//! Reading order:
//! - [`directive`]: one line of a script. [`failure`]: how a turn can fail.
//! - [`turn`]: what the model does next.

pub mod directive;
pub mod failure;
pub mod turn;

pub use directive::{MAX_MS, MAX_REPEAT};
pub use failure::Failure;
pub use turn::{RESULT_CHARS, Step, ToolResult, Turn};

use directive::Directive;
use std::time::{SystemTime, UNIX_EPOCH};

/// A prompt, read as a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    items: Vec<Item>,
}

/// A piece of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// Plain lines, as they came, line ends included.
    Echo(String),
    /// A line that begins with `/`.
    Do(Directive),
}

impl Script {
    /// Reads a prompt. Any text is a script.
    pub fn parse(text: &str) -> Self {
        let mut items = Vec::new();
        for line in text.split_inclusive('\n') {
            if let Some(directive) = Directive::parse(line.trim_end_matches(['\n', '\r'])) {
                items.push(Item::Do(directive));
            } else if let Some(Item::Echo(before)) = items.last_mut() {
                before.push_str(line);
            } else {
                items.push(Item::Echo(line.to_owned()));
            }
        }
        Self { items }
    }

    /// What the model does next, `results` being what its calls since the prompt have answered, in order.
    pub fn turn<'a>(&'a self, results: &[ToolResult<'_>]) -> Turn<'a> {
        self.attempt(results, 0)
    }

    /// As [`Script::turn`], after so many attempts at this turn have failed as a `/fail` says.
    pub fn attempt<'a>(&'a self, results: &[ToolResult<'_>], failed: u32) -> Turn<'a> {
        Turn::new(&self.items, results, failed)
    }
}

/// What is said for a [`Step::Clock`] at `now`: nanoseconds since the epoch, with a space behind them.
pub fn clock_text(now: SystemTime) -> String {
    format!("{} ", now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

/// How a request for a summary begins, where it comes as a prompt: an endpoint knows it by this.
pub const SUMMARY_ASK: &str = "Summarize the conversation so far";

/// The answer to a request for a summary; no directive of the history is carried out for it.
pub fn summary(messages: usize) -> String {
    format!("summary of {messages} messages")
}

/// Words of a text: what this model counts as tokens.
pub fn words(text: &str) -> u64 {
    text.split_whitespace().fold(0, |n, _| n + 1)
}
