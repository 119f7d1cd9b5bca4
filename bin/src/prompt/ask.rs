//! Asking a person at the terminal whether a tool may go ahead.
//! Invariant: a line that was typed before the question was shown never answers it.

use crate::plain;
use std::{
    collections::VecDeque,
    io::{self, BufRead},
};
use tokio::sync::{mpsc, oneshot};
use triplane_protocol::{
    RequestId,
    event::{OptionKind, PermissionOption, PermissionRequest},
};

/// Reads answers from the terminal, on a thread of its own: a read from a terminal cannot be taken back, and must not
/// keep the program from ending.
#[derive(Debug)]
pub(crate) struct Asker {
    lines: mpsc::Sender<oneshot::Sender<Option<String>>>,
    /// The read that is out; it may outlive the question that it was begun for.
    reading: Option<oneshot::Receiver<Option<String>>>,
    /// The first is shown. As long as a run has tool calls that wait.
    questions: VecDeque<PermissionRequest>,
}

/// What a person said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// This option, of this request.
    Option(RequestId, String),
    /// Nothing that fits; the question stands.
    Unclear,
    /// The terminal is gone.
    Nothing(RequestId),
}

impl Asker {
    /// Starts the reader. Errors: no thread can be had.
    pub(crate) fn start() -> io::Result<Self> {
        // One read at a time is out.
        let (lines, mut wanted) = mpsc::channel::<oneshot::Sender<Option<String>>>(1);
        std::thread::Builder::new().name("terminal".into()).stack_size(64 << 10).spawn(move || {
            while let Some(to) = wanted.blocking_recv() {
                let mut text = String::new();
                let line = match io::stdin().lock().read_line(&mut text) {
                    Ok(0) | Err(_) => None,
                    Ok(_) => Some(text),
                };
                // Nobody waits any more when the program is about to end.
                let _ = to.send(line);
            }
        })?;
        Ok(Self { lines, reading: None, questions: VecDeque::new() })
    }

    /// The question that is to be shown.
    pub(crate) fn question(&self) -> Option<&PermissionRequest> {
        self.questions.front()
    }

    /// Puts `request` to the person; `true` if it is the one to be shown now.
    pub(crate) fn ask(&mut self, request: PermissionRequest) -> bool {
        if self.questions.is_empty() {
            // What was typed before the question is not meant for it. Not a terminal: then there is nothing to drop.
            let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
            if self.reading.as_mut().is_some_and(|reading| reading.try_recv().is_ok()) {
                self.reading = None;
            }
        }
        self.questions.push_back(request);
        self.questions.len() == 1
    }

    /// Forgets a question, because it was resolved otherwise; `true` if the next one is to be shown now.
    pub(crate) fn forget(&mut self, request: &RequestId) -> bool {
        let shown = self.question().is_some_and(|question| question.request_id == *request);
        self.questions.retain(|question| question.request_id != *request);
        shown && !self.questions.is_empty()
    }

    /// The answer to the question that is shown; for ever pending while there is none. Cancel safe.
    pub(crate) async fn answer(&mut self) -> Said {
        if self.questions.is_empty() {
            return std::future::pending().await;
        }
        let reading = match &mut self.reading {
            Some(reading) => reading,
            None => {
                let (to, line) = oneshot::channel();
                // Full cannot be, as no read is out; closed leaves `line` without a sender: the end of the terminal.
                let _ = self.lines.try_send(to);
                self.reading.insert(line)
            }
        };
        let line = reading.await.ok().flatten();
        self.reading = None;
        let Some(request) = self.questions.front() else { return std::future::pending().await };
        let said = match line {
            None => Said::Nothing(request.request_id.clone()),
            Some(line) => match choose(&request.options, &line) {
                Some(option) => Said::Option(request.request_id.clone(), option.to_owned()),
                None => return Said::Unclear,
            },
        };
        self.questions.pop_front();
        said
    }
}

/// The question as it is shown: one line an option, with what to type.
pub(crate) fn question(options: &[PermissionOption]) -> String {
    let mut text = String::new();
    for (index, option) in options.iter().enumerate() {
        let key = key(options, option).map(|key| format!(" or {key}")).unwrap_or_default();
        text.push_str(&format!("  {}{key}: {}\n", index + 1, plain::short(&option.name, 80)));
    }
    text.push_str("> ");
    text
}

/// The option that a typed line chooses: its number, or the letter of its kind.
fn choose<'a>(options: &'a [PermissionOption], line: &str) -> Option<&'a str> {
    let line = line.trim().to_ascii_lowercase();
    if let Ok(number) = line.parse::<usize>() {
        return options.get(number.checked_sub(1)?).map(|option| option.id.as_str());
    }
    let word = match line.as_str() {
        "yes" => "y",
        "no" => "n",
        "always" => "a",
        "never" => "v",
        other => other,
    };
    options.iter().find(|option| key(options, option) == Some(word)).map(|option| option.id.as_str())
}

/// The letter of an option: that of its kind, for the first of the kind.
fn key(options: &[PermissionOption], option: &PermissionOption) -> Option<&'static str> {
    let first = options.iter().find(|other| other.kind == option.kind)?;
    if first.id != option.id {
        return None;
    }
    Some(match option.kind {
        OptionKind::AllowOnce => "y",
        OptionKind::AllowAlways => "a",
        OptionKind::RejectOnce => "n",
        OptionKind::RejectAlways => "v",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<PermissionOption> {
        [
            ("allow_once", "Allow", OptionKind::AllowOnce),
            ("allow_always", "Always allow", OptionKind::AllowAlways),
            ("reject_once", "Refuse", OptionKind::RejectOnce),
            ("later", "Refuse, and tell\u{1b}[2J why", OptionKind::RejectOnce),
        ]
        .map(|(id, name, kind)| PermissionOption { id: id.into(), name: name.into(), kind })
        .into()
    }

    #[test]
    fn letters_words_and_numbers_choose() {
        let options = options();
        for (typed, chosen) in [
            ("y\n", Some("allow_once")),
            ("YES", Some("allow_once")),
            ("a", Some("allow_always")),
            (" n ", Some("reject_once")),
            ("4", Some("later")),
            ("0", None),
            ("5", None),
            ("v", None),
            ("", None),
            ("maybe", None),
        ] {
            assert_eq!(choose(&options, typed), chosen, "{typed:?}");
        }
    }

    #[test]
    fn the_question_tells_what_to_type_and_is_safe_to_show() {
        let text = question(&options());
        assert!(text.starts_with("  1 or y: Allow\n  2 or a: Always allow\n  3 or n: Refuse\n  4: Refuse"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
