//! One line of a script: what can be asked of the model.

use crate::Failure;
use serde_json::Value;

/// The most chunks of one `/repeat`.
pub const MAX_REPEAT: u32 = 1_000_000;

/// The longest `/sleep` and `/task`, in milliseconds.
pub const MAX_MS: u64 = 600_000;

/// The longest tool name that is taken, in bytes; providers name 64.
const NAME_BYTES: usize = 64;

/// A directive, checked.
#[derive(Debug, Clone, PartialEq)]
pub enum Directive {
    /// `/say TEXT`
    Say(String),
    /// `/think TEXT`
    Think(String),
    /// `/repeat N TEXT`
    Repeat {
        /// How often.
        times: u32,
        /// Each chunk.
        text: String,
    },
    /// `/tool NAME JSON`
    Tool {
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// `/also NAME JSON`
    Also {
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// `/sleep MS`
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// `/clock N MS`
    Clock {
        /// How often.
        times: u32,
        /// Milliseconds before each.
        ms: u64,
    },
    /// `/fail CODE TIMES`
    Fail {
        /// How.
        failure: Failure,
        /// How often, before it is passed over; `None`: always.
        times: Option<u32>,
    },
    /// `/task MS TEXT`
    Task {
        /// Milliseconds until it ends.
        ms: u64,
        /// What it ends with.
        text: String,
    },
}

impl Directive {
    /// Reads one line without its end. `None`: the line is plain text.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = cut(line.strip_prefix('/')?);
        match word {
            "say" => Some(Self::Say(said(rest)?)),
            "think" => Some(Self::Think(said(rest)?)),
            "repeat" => {
                let (n, text) = cut(rest);
                let times = digits(n)?.try_into().ok().filter(|n| *n <= MAX_REPEAT)?;
                Some(Self::Repeat { times, text: said(text)? })
            }
            "tool" => call(rest).map(|(name, input)| Self::Tool { name, input }),
            "also" => call(rest).map(|(name, input)| Self::Also { name, input }),
            "sleep" => Some(Self::Sleep { ms: ms(rest.trim())? }),
            "clock" => {
                let (n, pause) = cut(rest);
                let times = digits(n)?.try_into().ok().filter(|n| *n <= MAX_REPEAT)?;
                Some(Self::Clock { times, ms: ms(pause.trim())? })
            }
            "fail" => {
                let (code, times) = cut(rest.trim());
                let times = if times.is_empty() { None } else { Some(digits(times)?.try_into().ok()?) };
                Some(Self::Fail { failure: Failure::parse(code)?, times })
            }
            "task" => {
                let (n, text) = cut(rest);
                Some(Self::Task { ms: ms(n)?, text: text.to_owned() })
            }
            _ => None,
        }
    }
}

/// A tool and its input.
fn call(text: &str) -> Option<(String, Value)> {
    let (name, input) = cut(text);
    let input = if input.trim().is_empty() { "{}" } else { input };
    Some((tool_name(name)?, serde_json::from_str(input).ok()?))
}

/// The first word and what follows the one space behind it.
fn cut(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// What is to be said; saying nothing is a mistake of the script.
fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Digits only: no sign, no fraction.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn ms(text: &str) -> Option<u64> {
    digits(text).filter(|ms| *ms <= MAX_MS)
}

fn tool_name(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    (1..=NAME_BYTES).contains(&text.len()).then_some(())?;
    text.bytes().all(plain).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str, input: Value) -> Option<Directive> {
        Some(Directive::Tool { name: name.into(), input })
    }

    #[test]
    fn every_directive_is_read() {
        let rows = [
            ("/say hello  world ", Some(Directive::Say("hello  world ".into()))),
            ("/say /say x", Some(Directive::Say("/say x".into()))),
            ("/think é😀", Some(Directive::Think("é😀".into()))),
            ("/repeat 3 ab ", Some(Directive::Repeat { times: 3, text: "ab ".into() })),
            ("/clock 3 2", Some(Directive::Clock { times: 3, ms: 2 })),
            ("/repeat 0 x", Some(Directive::Repeat { times: 0, text: "x".into() })),
            ("/repeat 1000000 x", Some(Directive::Repeat { times: MAX_REPEAT, text: "x".into() })),
            ("/tool read {\"path\": \"a b\"}", tool("read", json!({"path": "a b"}))),
            ("/tool ls", tool("ls", json!({}))),
            ("/tool ls ", tool("ls", json!({}))),
            ("/tool mcp:x.y-z_1 [1]", tool("mcp:x.y-z_1", json!([1]))),
            ("/sleep 0", Some(Directive::Sleep { ms: 0 })),
            ("/sleep 600000 ", Some(Directive::Sleep { ms: MAX_MS })),
            ("/fail overloaded", Some(Directive::Fail { failure: Failure::Overloaded, times: None })),
            ("/fail 503", Some(Directive::Fail { failure: Failure::Unavailable, times: None })),
            ("/fail broken 2", Some(Directive::Fail { failure: Failure::Broken, times: Some(2) })),
            ("/also ls", Some(Directive::Also { name: "ls".into(), input: json!({}) })),
            ("/task 5 it is done", Some(Directive::Task { ms: 5, text: "it is done".into() })),
            ("/task 5", Some(Directive::Task { ms: 5, text: String::new() })),
        ];
        for (line, expected) in rows {
            assert_eq!(Directive::parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_not_a_directive_is_text() {
        let long = format!("/tool {} {{}}", "a".repeat(65));
        for line in [
            "",
            "/",
            "//",
            "/ say x",
            " /say x",
            "say x",
            "/usr/bin/env",
            "/Say x",
            "/say",
            "/say ",
            "/think",
            "/unknown x",
            "/repeat",
            "/clock 3",
            "/clock x 1",
            "/repeat 3",
            "/repeat 3 ",
            "/repeat x y",
            "/repeat -1 y",
            "/repeat +1 y",
            "/repeat 1000001 x",
            "/repeat 99999999999999999999 x",
            "/repeat 1.5 x",
            "/tool",
            "/tool  {}",
            "/tool a/b {}",
            "/tool read {",
            "/tool read {} {}",
            "/sleep",
            "/sleep x",
            "/sleep -1",
            "/sleep 600001",
            "/sleep 1 2",
            "/fail",
            "/fail nope",
            "/fail 200",
            "/fail 429 x",
            "/fail 429 1 2",
            "/also",
            "/task",
            "/task x y",
            "/task 600001 y",
            "/saynow",
            &long,
        ] {
            assert_eq!(Directive::parse(line), None, "{line:?}");
        }
    }
}
