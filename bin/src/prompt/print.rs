//! A run as a person reads it: the reply as it streams on one writer, all that goes on around it on another.
//! Invariant: text from a model, a tool or a file is escaped before it reaches a terminal.

use crate::plain;
use anstyle::{AnsiColor, Style};
use serde_json::Value;
use std::io::{self, Write};
use triplane_protocol::{
    AgentEvent, Part, Stop,
    event::{Outcome, PlanEntry, PlanState, TaskState},
};

/// Characters of one line about a tool call.
const TITLE_CHARS: usize = 100;
/// Lines of a diff or an error that are shown; the transcript has all.
const BODY_LINES: usize = 20;

const DIM: Style = Style::new().dimmed();
const TOOL: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();

/// Prints events. Both writers may be the same terminal: what is printed on one ends its line first.
#[derive(Debug)]
pub(crate) struct Printer<R, A> {
    reply: R,
    aside: A,
    open: Open,
    /// Whether anything of the last model message was streamed; an agent that streams nothing is printed whole.
    streamed: bool,
    /// Whether the reply is shown as it comes. Without it each message is printed once it is whole, so that whoever reads the output
    /// never sees what a model said before it was asked again.
    live: bool,
}

/// What the last piece printed was, if its line has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Reply,
    Thinking,
}

impl<R: Write, A: Write> Printer<R, A> {
    /// A printer of replies on `reply` and of the rest on `aside`.
    pub(crate) const fn new(reply: R, aside: A, live: bool) -> Self {
        Self { reply, aside, open: Open::Nothing, streamed: false, live }
    }

    /// Prints what is worth telling of `event`. Errors: a writer's.
    pub(crate) fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::LlmStart { .. } => {
                self.streamed = false;
                Ok(())
            }
            AgentEvent::LlmDelta { text } if self.live => self.say(text),
            AgentEvent::LlmDelta { .. } => Ok(()),
            AgentEvent::LlmThinkingDelta { text } => self.think(text),
            AgentEvent::LlmEnd { message, .. } => {
                if !self.streamed {
                    self.say(&message.plain_text())?;
                }
                self.end_line()
            }
            AgentEvent::LlmRetry { attempt, delay_ms, message } => {
                let again = if self.streamed { "; the reply begins anew" } else { "" };
                self.note(&NOTE, &format!("retry {attempt} in {delay_ms} ms{again}: {message}"))
            }
            AgentEvent::ToolCallStart { name, input, title, .. } => {
                let what = title.clone().unwrap_or_else(|| format!("{name} {}", brief(input)));
                self.note(&TOOL, &format!("● {what}"))
            }
            AgentEvent::ToolCallOutput { .. } => Ok(()),
            AgentEvent::ToolCallEnd { output, error, duration_ms, diff, .. } => {
                self.tool_end(output, *error, *duration_ms, diff.as_deref())
            }
            AgentEvent::PermissionRequest(request) => self.note(&NOTE, &format!("asks: {}", request.title)),
            AgentEvent::PermissionResolved { outcome, reason, .. } => {
                let (style, word) = match outcome {
                    Outcome::Allowed => (&GOOD, "allowed"),
                    Outcome::Denied => (&BAD, "denied"),
                    Outcome::Expired => (&DIM, "expired"),
                };
                let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                self.note(style, &format!("  {word}{why}"))
            }
            AgentEvent::Plan { entries } => self.plan(entries),
            AgentEvent::TaskStart { title, .. } => self.note(&TOOL, &format!("task: {title}")),
            AgentEvent::TaskEnd { state, text, .. } => {
                let (style, word) = match state {
                    TaskState::Running | TaskState::Done => (&GOOD, "done"),
                    TaskState::Failed => (&BAD, "failed"),
                    TaskState::Stopped => (&DIM, "stopped"),
                };
                self.note(style, &format!("task {word}: {text}"))
            }
            AgentEvent::Compaction { before_tokens, after_tokens, .. } => {
                self.note(&DIM, &format!("history summarised: about {before_tokens} tokens, now {after_tokens}"))
            }
            AgentEvent::Error { code, message, .. } => self.note(&BAD, &format!("error ({code}): {message}")),
            AgentEvent::Final { stopped_reason, .. } => match stopped_reason {
                Stop::Completed | Stop::Error => self.end_line(),
                Stop::Aborted => self.note(&NOTE, "cancelled"),
                Stop::MaxTurns => self.note(&NOTE, "stopped: the run used all its turns"),
                Stop::MaxTokens => self.note(&NOTE, "stopped: the model ran out of tokens"),
                Stop::Refused => self.note(&NOTE, "stopped: the model refused"),
            },
            AgentEvent::UserMessage { .. }
            | AgentEvent::Status { .. }
            | AgentEvent::TurnStart { .. }
            | AgentEvent::SettingsChanged(_)
            | AgentEvent::Usage(_)
            | AgentEvent::SessionClosed { .. }
            | AgentEvent::Extension { .. } => Ok(()),
        }
    }

    /// One line beside the reply.
    pub(crate) fn note(&mut self, style: &Style, text: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.aside, "{style}{}{style:#}", plain::short(text, TITLE_CHARS))?;
        self.aside.flush()
    }

    /// Ends a line that a stream left open.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Reply => {
                writeln!(self.reply)?;
                self.reply.flush()
            }
            Open::Thinking => {
                writeln!(self.aside)?;
                self.aside.flush()
            }
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open == Open::Thinking {
            self.end_line()?;
        }
        self.streamed = true;
        write!(self.reply, "{}", plain::text(text))?;
        self.open = if text.ends_with('\n') { Open::Nothing } else { Open::Reply };
        self.reply.flush()
    }

    fn think(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open == Open::Reply {
            self.end_line()?;
        }
        write!(self.aside, "{DIM}{}{DIM:#}", plain::text(text))?;
        self.open = if text.ends_with('\n') { Open::Nothing } else { Open::Thinking };
        self.aside.flush()
    }

    fn tool_end(&mut self, output: &[Part], error: bool, ms: u64, diff: Option<&str>) -> io::Result<()> {
        if error {
            self.note(&BAD, &format!("  failed after {ms} ms"))?;
            let text: Vec<&str> = output.iter().filter_map(Part::as_text).collect();
            return self.body(&text.join("\n"), |_| &BAD);
        }
        self.note(&DIM, &format!("  {ms} ms"))?;
        let Some(diff) = diff else { return Ok(()) };
        self.body(diff, |line| match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => &DIM,
            [b'+', ..] => &GOOD,
            [b'-', ..] => &BAD,
            _ => &DIM,
        })
    }

    fn body(&mut self, text: &str, style: impl Fn(&str) -> &'static Style) -> io::Result<()> {
        for line in text.lines().take(BODY_LINES) {
            let style = style(line);
            writeln!(self.aside, "    {style}{}{style:#}", plain::line(line))?;
        }
        let more = text.lines().count().saturating_sub(BODY_LINES);
        if more > 0 {
            writeln!(self.aside, "    {DIM}… and {more} lines more{DIM:#}")?;
        }
        self.aside.flush()
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> io::Result<()> {
        for entry in entries {
            let (style, mark) = match entry.state {
                PlanState::Pending => (&DIM, "[ ]"),
                PlanState::Active => (&TOOL, "[>]"),
                PlanState::Done => (&GOOD, "[x]"),
            };
            self.note(style, &format!("{mark} {}", entry.text))?;
        }
        Ok(())
    }
}

/// A tool's arguments in a few words: the values of short ones, by name.
fn brief(input: &Value) -> String {
    if let Value::Object(members) = input
        && members.len() == 1
        && let Some(value) = members.values().next()
    {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    }
    input.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use triplane_protocol::{Message, MessageId, Role, RunId, Usage, code::ErrorCode};

    fn check(events: &[AgentEvent], reply: &str, aside: &str) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut printer = Printer::new(&mut out, &mut err, true);
        for event in events {
            printer.event(event).unwrap();
        }
        let plain = |bytes: Vec<u8>| anstream::adapter::strip_bytes(&bytes).into_vec();
        assert_eq!(String::from_utf8(plain(out)).unwrap(), reply);
        assert_eq!(String::from_utf8(plain(err)).unwrap(), aside);
    }

    fn delta(text: &str) -> AgentEvent {
        AgentEvent::LlmDelta { text: text.into() }
    }

    fn end(text: &str) -> AgentEvent {
        let message = Message::text(MessageId::from("m"), Role::Assistant, text, 0);
        AgentEvent::LlmEnd { message, usage: Usage::default(), stop: Stop::Completed }
    }

    fn start() -> AgentEvent {
        AgentEvent::LlmStart { model: "script/echo".into() }
    }

    #[test]
    fn a_streamed_reply_is_printed_once_and_ends_its_line() {
        check(&[start(), delta("one "), delta("two"), end("one two")], "one two\n", "");
    }

    #[test]
    fn a_reply_that_was_not_streamed_is_printed_whole() {
        check(&[start(), end("all at once")], "all at once\n", "");
    }

    #[test]
    fn asides_do_not_run_into_the_reply() {
        let tool = AgentEvent::ToolCallStart {
            call_id: "c".into(),
            name: "read".into(),
            input: json!({"path": "a\u{1b}[2Jb"}),
            title: None,
        };
        let done = AgentEvent::ToolCallEnd {
            call_id: "c".into(),
            output: vec![Part::text("no such file\nat all")],
            error: true,
            duration_ms: 3,
            diff: None,
        };
        check(
            &[AgentEvent::LlmThinkingDelta { text: "hm".into() }, delta("Let me see"), tool, done, delta("Gone.")],
            "Let me see\nGone.",
            "hm\n● read a\\u{1b}[2Jb\n  failed after 3 ms\n    no such file\n    at all\n",
        );
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let diff = (0..BODY_LINES + 2).map(|n| format!("+line {n}\n")).collect::<String>();
        let event = AgentEvent::ToolCallEnd {
            call_id: "c".into(),
            output: Vec::new(),
            error: false,
            duration_ms: 1,
            diff: Some(diff),
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        Printer::new(&mut out, &mut err, true).event(&event).unwrap();
        let text = String::from_utf8(err).unwrap();
        assert!(text.contains("… and 2 lines more"), "{text}");
        assert!(text.contains("+line 19") && !text.contains("+line 20"), "{text}");
    }

    #[test]
    fn how_a_run_ended_is_told_unless_it_completed() {
        let last = |stopped_reason| AgentEvent::Final {
            reply: String::new(),
            usage: Usage::default(),
            turns_used: 1,
            stopped_reason,
            run_id: RunId::from("r"),
        };
        check(&[last(Stop::Completed)], "", "");
        check(&[last(Stop::MaxTurns)], "", "stopped: the run used all its turns\n");
        let error = AgentEvent::Error { code: ErrorCode::Unavailable, message: "gone".into(), retryable: true };
        check(&[error, last(Stop::Error)], "", "error (unavailable): gone\n");
    }
}
