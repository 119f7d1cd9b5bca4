//! Lines of a file that may be huge, one at a time; memory stays within the longest line that is taken.
//! A line ends at byte 0x0A and at nothing else.

use std::io::{self, BufRead};

/// What stands at the next place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line, without its newline.
    Whole(&'a [u8]),
    /// A line over the cap; it was skipped.
    TooLong,
    /// The file's last bytes, without a newline.
    Unended(&'a [u8]),
    /// Such a tail over the cap.
    UnendedTooLong,
}

/// Reads lines and knows where they begin.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    cap: usize,
    start: u64,
    end: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most `cap` bytes; `offset` is where `reader` stands.
    pub(super) fn new(reader: R, offset: u64, cap: usize) -> Self {
        Self { reader, line: Vec::new(), cap, start: offset, end: offset }
    }

    /// Where the line begins that was handed out last.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Where it ends, newline included.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The next line; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        if self.line.capacity() > 1 << 20 {
            // One huge line must not be paid for until the end.
            self.line.shrink_to(1 << 16);
        }
        self.start = self.end;
        let mut too_long = false;
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                Err(err) => return Err(err),
            };
            if chunk.is_empty() {
                return Ok(match (self.start == self.end, too_long) {
                    (true, _) => None,
                    (false, true) => Some(Line::UnendedTooLong),
                    (false, false) => Some(Line::Unended(&self.line)),
                });
            }
            let newline = memchr::memchr(b'\n', chunk);
            let part = chunk.get(..newline.unwrap_or(chunk.len())).unwrap_or(chunk);
            too_long |= self.line.len() + part.len() > self.cap;
            if too_long {
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(newline.is_some());
            self.reader.consume(used);
            self.end += used as u64;
            if newline.is_some() {
                return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(&self.line) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn check(text: &str, buffer: usize, expected: &str) {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text.as_bytes()), 0, 4);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let shown = match line {
                Line::Whole(line) => format!("{}|", String::from_utf8_lossy(line)),
                Line::TooLong => "long|".into(),
                Line::Unended(line) => String::from_utf8_lossy(line).into_owned(),
                Line::UnendedTooLong => "long".into(),
            };
            seen.push(format!("{}-{} {shown}", lines.start(), lines.end()));
        }
        assert_eq!(seen.join(", "), expected, "{text:?} in pieces of {buffer}");
    }

    #[test]
    fn lines_are_found_however_the_reads_are_cut() {
        for buffer in 1..12 {
            check("", buffer, "");
            check("a\n", buffer, "0-2 a|");
            check("ab\n\n\u{2028}\r\nx", buffer, "0-3 ab|, 3-4 |, 4-9 \u{2028}\r|, 9-10 x");
            check("abcd\nabcde\nabcde", buffer, "0-5 abcd|, 5-11 long|, 11-16 long");
            check("abcdefgh\nx\n", buffer, "0-9 long|, 9-11 x|");
        }
    }
}
