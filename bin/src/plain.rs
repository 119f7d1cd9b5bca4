//! Text from elsewhere, made safe for a terminal and for a line of log: what could move the cursor, colour the screen or
//! forge a line is shown, not done. JSON output needs none of this.

use std::{borrow::Cow, fmt::Write};

/// `text` on one line: every control character is escaped, line ends among them.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// `text` with its line ends and tabs; every other control character is escaped.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        return Cow::Owned(escape(&text.replace("\r\n", "\n"), |c| matches!(c, '\n' | '\t')).into_owned());
    }
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// `text` on one line and at most `chars` characters, the last an ellipsis if something was cut.
pub(crate) fn short(text: &str, chars: usize) -> String {
    let clean = line(text);
    if clean.chars().count() <= chars {
        return clean.into_owned();
    }
    let mut cut: String = clean.chars().take(chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let harmful = |c: char| (c.is_control() || unseen(c)) && !keep(c);
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !harmful(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // A String takes every write.
            _ => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// Characters that reorder or hide what stands around them. Joiners stay: scripts and emoji need them.
const fn unseen(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_shown_and_lines_cannot_be_forged() {
        assert_eq!(line("a\u{1b}[31mred\u{7}\nERROR forged"), "a\\u{1b}[31mred\\u{7}\\nERROR forged");
        assert_eq!(line("\u{9b}2J\u{202e}x\u{200b}"), "\\u{9b}2J\\u{202e}x\\u{200b}");
        assert_eq!(text("one\r\n\ttwo\rthree\u{1b}]0;t\u{7}"), "one\n\ttwo\\rthree\\u{1b}]0;t\\u{7}");
        assert!(matches!(text("plain ü 😀\u{200d}x"), Cow::Borrowed(_)));
    }

    #[test]
    fn cutting_counts_characters() {
        assert_eq!(short("😀😀😀", 3), "😀😀😀");
        assert_eq!(short("😀😀😀😀", 3), "😀😀…");
    }
}
