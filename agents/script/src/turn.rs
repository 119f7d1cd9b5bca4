//! What the model does next: the steps of one turn, from the script and the tool results so far.
//! Invariant: a [`Step::Fail`] is the last step, and nothing but calls follows a [`Step::Call`]; a turn without either says something.

use crate::{Failure, Item, directive::Directive, words};
use serde_json::Value;
use std::borrow::Cow;

/// How much of a tool's result the closing text repeats, in characters.
pub const RESULT_CHARS: usize = 80;

/// What a tool call has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolResult<'a> {
    /// The result as text.
    pub text: &'a str,
}

/// One thing that the model does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// Says a chunk.
    Text(Cow<'a, str>),
    /// Reasons a chunk.
    Think(&'a str),
    /// Waits.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Says what time it is, in nanoseconds since the epoch; whoever carries it out has the clock.
    Clock,
    /// Calls a tool; only more calls follow in this turn.
    Call {
        /// The tool.
        name: &'a str,
        /// Its input.
        input: &'a Value,
    },
    /// Fails or stops; ends the turn.
    Fail(Failure),
    /// Starts a background task.
    Task {
        /// Milliseconds until it ends.
        ms: u64,
        /// What it ends with.
        text: &'a str,
    },
}

/// The steps of one turn, made as they are asked for: a `/repeat` of a million costs no memory.
#[derive(Debug, Clone)]
pub struct Turn<'a> {
    items: std::slice::Iter<'a, Item>,
    /// What is left of the item at hand.
    rest: Rest<'a>,
    /// Whether anything but white space was said.
    spoke: bool,
    /// Said when nothing else was.
    closing: String,
    over: bool,
    /// Whether a tool was called: then only `/also` goes on with the turn.
    called: bool,
    /// Attempts at this turn that have failed.
    failed: u32,
    thought: u64,
    said: u64,
}

/// An item of which several steps are made.
#[derive(Debug, Clone)]
enum Rest<'a> {
    Nothing,
    Echo(&'a str),
    Repeat {
        left: u32,
        text: &'a str,
    },
    /// `slept`: the wait before the next one is over.
    Clock {
        left: u32,
        ms: u64,
        slept: bool,
    },
}

impl<'a> Turn<'a> {
    pub(crate) fn new(items: &'a [Item], results: &[ToolResult<'_>], failed: u32) -> Self {
        let mut turn = Self {
            items: items.iter(),
            rest: Rest::Nothing,
            spoke: false,
            closing: String::new(),
            over: false,
            called: false,
            failed,
            thought: 0,
            said: 0,
        };
        // One result answers one call, in order; surplus results (another party's calls) change nothing.
        let mut calls = items.iter().enumerate().filter_map(|(at, item)| match item {
            Item::Do(Directive::Tool { name, .. } | Directive::Also { name, .. }) => Some((at, name)),
            Item::Do(_) | Item::Echo(_) => None,
        });
        let mut lines = Vec::new();
        for (result, (at, name)) in results.iter().zip(&mut calls) {
            let head: String = result.text.chars().take(RESULT_CHARS).collect();
            lines.push(format!("tool {name}: {head}"));
            turn.items = items.get(at + 1..).unwrap_or_default().iter();
        }
        turn.closing = if lines.is_empty() { "done".to_owned() } else { lines.join("\n") };
        turn
    }

    /// Words of the text and the reasoning so far: the output tokens of the turn.
    pub fn output_words(&self) -> u64 {
        self.said + self.thought
    }

    /// Of [`Turn::output_words`], those of the reasoning.
    pub fn thought_words(&self) -> u64 {
        self.thought
    }

    fn text(&mut self, chunk: Cow<'a, str>) -> Step<'a> {
        self.spoke |= !chunk.trim().is_empty();
        self.said += words(&chunk);
        Step::Text(chunk)
    }

    fn carry_out(&mut self, directive: &'a Directive) -> Option<Step<'a>> {
        Some(match directive {
            Directive::Say(text) => self.text(Cow::Borrowed(text)),
            Directive::Think(text) => {
                self.thought += words(text);
                Step::Think(text)
            }
            Directive::Repeat { times, text } => {
                self.rest = Rest::Repeat { left: *times, text };
                return None;
            }
            Directive::Clock { times, ms } => {
                self.rest = Rest::Clock { left: *times, ms: *ms, slept: false };
                return None;
            }
            Directive::Tool { name, input } | Directive::Also { name, input } => {
                self.called = true;
                Step::Call { name, input }
            }
            Directive::Sleep { ms } => Step::Sleep { ms: *ms },
            Directive::Fail { times, .. } if times.is_some_and(|times| self.failed >= times) => return None,
            Directive::Fail { failure, .. } => {
                self.over = true;
                Step::Fail(*failure)
            }
            Directive::Task { ms, text } => Step::Task { ms: *ms, text },
        })
    }
}

impl<'a> Iterator for Turn<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        if self.over {
            return None;
        }
        loop {
            match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Echo(text) if !text.is_empty() => {
                    let (chunk, rest) = word(text);
                    self.rest = Rest::Echo(rest);
                    return Some(self.text(Cow::Borrowed(chunk)));
                }
                Rest::Repeat { left, text } if left > 0 => {
                    self.rest = Rest::Repeat { left: left - 1, text };
                    return Some(self.text(Cow::Borrowed(text)));
                }
                Rest::Clock { left, ms, slept: false } if left > 0 => {
                    self.rest = Rest::Clock { left, ms, slept: true };
                    return Some(Step::Sleep { ms });
                }
                Rest::Clock { left, ms, slept: true } => {
                    self.rest = Rest::Clock { left: left - 1, ms, slept: false };
                    (self.spoke, self.said) = (true, self.said + 1);
                    return Some(Step::Clock);
                }
                Rest::Echo(_) | Rest::Repeat { .. } | Rest::Clock { .. } | Rest::Nothing => {}
            }
            let next = self.items.next();
            if self.called && !matches!(next, Some(Item::Do(Directive::Also { .. }))) {
                self.over = true;
                return None;
            }
            match next {
                Some(Item::Echo(text)) => self.rest = Rest::Echo(text),
                Some(Item::Do(directive)) => {
                    if let Some(step) = self.carry_out(directive) {
                        return Some(step);
                    }
                }
                None => {
                    self.over = true;
                    if self.spoke {
                        return None;
                    }
                    let closing = std::mem::take(&mut self.closing);
                    return Some(self.text(Cow::Owned(closing)));
                }
            }
        }
    }
}

/// Cuts the first word off, with the white space before and behind it.
fn word(text: &str) -> (&str, &str) {
    let mut in_word = false;
    let mut behind = false;
    for (at, c) in text.char_indices() {
        match (c.is_whitespace(), in_word, behind) {
            (false, _, true) => return text.split_at(at),
            (false, _, false) => in_word = true,
            (true, true, _) => behind = true,
            (true, false, _) => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Script;

    /// One line a turn: chunks in brackets, other steps by their word. `results` feed the turns after the first.
    #[track_caller]
    fn check(script: &str, results: &[&str], expected: &str) {
        let script = Script::parse(script);
        let results: Vec<_> = results.iter().map(|text| ToolResult { text }).collect();
        let steps: Vec<String> = script.turn(&results).map(show).collect();
        assert_eq!(steps.join(" "), expected);
    }

    fn show(step: Step<'_>) -> String {
        match step {
            Step::Text(text) => format!("[{text}]"),
            Step::Think(text) => format!("think[{text}]"),
            Step::Clock => "clock".to_owned(),
            Step::Sleep { ms } => format!("sleep{ms}"),
            Step::Call { name, input } => format!("call {name}{input}"),
            Step::Fail(failure) => format!("fail {}", failure.word()),
            Step::Task { ms, text } => format!("task{ms}[{text}]"),
        }
    }

    #[test]
    fn text_is_echoed_a_word_a_chunk() {
        check("hello", &[], "[hello]");
        check("hello big  world\n", &[], "[hello ] [big  ] [world\n]");
        check("  a\n\n b", &[], "[  a\n\n ] [b]");
        check("é 😀\u{a0}x\u{2028}y", &[], "[é ] [😀\u{a0}] [x\u{2028}] [y]");
        check("/usr/bin is a path\n/nope", &[], "[/usr/bin ] [is ] [a ] [path\n] [/nope]");
    }

    #[test]
    fn chunks_joined_are_the_text() {
        for text in ["a", " a ", "\ta\r\nb  c\n\n", "\u{3000}x", "one two\u{85}three", "e\u{301} x", "\u{feff}x y"] {
            let joined: String = Script::parse(text)
                .turn(&[])
                .map(|step| if let Step::Text(text) = step { text.into_owned() } else { panic!("{step:?}") })
                .collect();
            assert_eq!(joined, text);
        }
    }

    #[test]
    fn directives_and_text_keep_their_order() {
        check("/say a b\n/think c\nd e\n/sleep 5\n/repeat 2 x\n", &[], "[a b] think[c] [d ] [e\n] sleep5 [x] [x]");
        check("/say a\r\n/say b", &[], "[a] [b]");
        check("/task 7 later on\n/say x", &[], "task7[later on] [x]");
        check("/repeat 0 x\n/say y", &[], "[y]");
        check("/clock 2 5\n/say y", &[], "sleep5 clock sleep5 clock [y]");
        check("/clock 0 5", &[], "[done]");
    }

    #[test]
    fn a_call_ends_the_turn_and_the_next_goes_on_behind_it() {
        let script = "a\n/tool ls {\"path\":\".\"}\nb\n/tool ls\n/say c";
        check(script, &[], "[a\n] call ls{\"path\":\".\"}");
        check(script, &["r1"], "[b\n] call ls{}");
        check(script, &["r1", "r2"], "[c]");
        check(script, &["r1", "r2", "stray"], "[c]");
    }

    #[test]
    fn calls_can_share_a_turn() {
        let script = "/tool ls\n/also read {\"path\":\"a\"}\n/say b\n/tool ls\n/say c";
        check(script, &[], "call ls{} call read{\"path\":\"a\"}");
        check(script, &["r1"], "call read{\"path\":\"a\"}");
        check(script, &["r1", "r2"], "[b] call ls{}");
        check("/tool ls\nx\n/also ls", &[], "call ls{}");
    }

    #[test]
    fn a_failure_can_be_passed_over_after_some_attempts() {
        let script = Script::parse("/fail 429 2\n/say a");
        let steps = |failed| script.attempt(&[], failed).map(show).collect::<Vec<_>>().join(" ");
        assert_eq!([steps(0), steps(1), steps(2)], ["fail overloaded", "fail overloaded", "[a]"]);
    }

    #[test]
    fn a_last_turn_says_something() {
        check("", &[], "[done]");
        check(" \n", &[], "[ \n] [done]");
        check("/think x", &[], "think[x] [done]");
        check("/sleep 1\n/task 1 t", &[], "sleep1 task1[t] [done]");
        check("/tool ls", &["a\nb"], "[tool ls: a\nb]");
        check("/tool ls\n/tool read", &["one", "two"], "[tool ls: one\ntool read: two]");
        let long = "😀".repeat(100);
        check("/tool ls", &[&long], &format!("[tool ls: {}]", "😀".repeat(80)));
    }

    #[test]
    fn a_failure_ends_the_turn() {
        check("a\n/fail overloaded\nb", &[], "[a\n] fail overloaded");
        check("/fail refused", &[], "fail refused");
        check("/tool ls\n/fail 500", &["x"], "fail internal");
    }

    #[test]
    fn words_are_counted() {
        let script = Script::parse("one two\n/think a b c\n/repeat 4 x y");
        let mut turn = script.turn(&[]);
        turn.by_ref().for_each(drop);
        assert_eq!((turn.output_words(), turn.thought_words()), (2 + 3 + 8, 3));
    }

    #[test]
    fn a_million_chunks_are_not_held_at_once() {
        let script = Script::parse("/repeat 1000000 x");
        assert_eq!(script.turn(&[]).count(), 1_000_000);
        assert_eq!(crate::summary(3), "summary of 3 messages");
    }
}
