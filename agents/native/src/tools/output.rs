//! A command's output: a bounded part is kept for the model, and pieces of it go out while it runs.
//! Invariants: cuts are on character boundaries and marked; memory and events are bounded however much comes. Faults: UE-01, CP-11.

use super::text::{clip, whole_bytes};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Bytes kept from the beginning, and again from the end; together what a model is told at most.
const HALF_BYTES: usize = 32 << 10;

/// A piece goes out when it has this many bytes,
const PIECE_BYTES: usize = 8 << 10;

/// or when its first byte is this old.
pub(super) const PIECE_TIME: Duration = Duration::from_millis(50);

/// Bytes that go out while it runs; every event is spooled, so a flood must end.
const STREAM_BYTES: usize = 1 << 20;

/// The beginning and the end of what came.
#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HALF_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(HALF_BYTES);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    fn text(&self) -> String {
        let (a, b) = self.tail.as_slices();
        let tail = [a, b].concat();
        if self.dropped == 0 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let whole = whole_bytes(&self.head);
        let begun = tail.iter().take(3).take_while(|b| **b & 0xC0 == 0x80).count();
        let cut = self.dropped + (self.head.len() - whole) as u64 + begun as u64;
        let head = String::from_utf8_lossy(self.head.get(..whole).unwrap_or_default());
        let tail = String::from_utf8_lossy(tail.get(begun..).unwrap_or_default());
        // Bytes that are not text became longer; the bound holds all the same.
        let (head, tail) = (clip(&head, HALF_BYTES), clip_front(&tail, HALF_BYTES));
        format!("{head}\n[… {cut} bytes cut …]\n{tail}")
    }
}

/// Output on its way.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: Kept,
    pending: Vec<u8>,
    since: Option<Instant>,
    streamed: usize,
}

impl Output {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.push(bytes);
        if self.streamed < STREAM_BYTES {
            self.pending.extend_from_slice(bytes);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// When the pending piece should go out.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(if self.pending.len() >= PIECE_BYTES { since } else { since + PIECE_TIME })
    }

    /// The pending piece; a character that has only begun stays, unless this is the `last`.
    pub(super) fn take(&mut self, last: bool) -> Option<String> {
        let whole = if last { self.pending.len() } else { whole_bytes(&self.pending) };
        let piece: Vec<u8> = self.pending.drain(..whole).collect();
        self.since = (!self.pending.is_empty()).then(Instant::now);
        if piece.is_empty() {
            return None;
        }
        self.streamed += piece.len();
        let mut text = String::from_utf8_lossy(&piece).into_owned();
        if self.streamed >= STREAM_BYTES {
            self.pending.clear();
            self.since = None;
            text.push_str("\n[… no more output is shown while it runs …]\n");
        }
        Some(text)
    }

    /// What the model is told.
    pub(super) fn text(&self) -> String {
        self.kept.text()
    }
}

/// The longest suffix of at most `bytes` bytes.
fn clip_front(text: &str, bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_cut_between_characters() {
        for lead in 0..4 {
            let mut output = Output::default();
            let text = format!("{}{}", "a".repeat(lead), "😀".repeat(100_000));
            for chunk in text.as_bytes().chunks(1013) {
                output.push(chunk);
            }
            let kept = output.text();
            assert!(kept.len() <= 2 * HALF_BYTES + 64 && !kept.contains('\u{fffd}'), "{lead}");
            let (head, rest) = kept.split_once("\n[… ").unwrap();
            let (cut, tail) = rest.split_once(" bytes cut …]\n").unwrap();
            assert_eq!(head.len() + tail.len() + cut.parse::<usize>().unwrap(), text.len());
        }
    }

    #[test]
    fn a_short_output_is_whole() {
        let mut output = Output::default();
        output.push(b"a\xffb");
        output.push(&[b'x'; 2 * HALF_BYTES - 3]);
        assert_eq!(output.text(), format!("a\u{fffd}b{}", "x".repeat(2 * HALF_BYTES - 3)));
        output.push(b"y");
        assert!(output.text().contains("[… 1 bytes cut …]"));
    }

    #[test]
    fn what_is_not_text_stays_bounded() {
        let mut output = Output::default();
        output.push(&[0xFF; 1 << 20]);
        assert!(output.text().len() <= 2 * HALF_BYTES + 64);
    }

    #[test]
    fn pieces_joined_are_the_output() {
        let text = "é😀\u{2028}x".repeat(10);
        let mut output = Output::default();
        let mut joined = String::new();
        for byte in text.as_bytes() {
            output.push(&[*byte]);
            joined.extend(output.take(false));
        }
        joined.extend(output.take(true));
        assert_eq!(joined, text);
        output.push(b"\xf0\x9f");
        assert_eq!((output.take(false), output.take(true)), (None, Some("\u{fffd}".to_owned())));
    }

    #[test]
    fn a_flood_stops_going_out_but_not_being_kept() {
        let mut output = Output::default();
        let mut pieces = Vec::new();
        for _ in 0..1000 {
            output.push(&[b'x'; PIECE_BYTES]);
            pieces.extend(output.take(false));
        }
        output.push(b"end");
        assert!(output.due().is_none() && output.take(true).is_none());
        assert_eq!(pieces.len(), STREAM_BYTES / PIECE_BYTES);
        assert!(pieces.last().unwrap().ends_with("while it runs …]\n") && output.text().ends_with("xend"));
    }
}
