//! Bytes to lines. A line ends at 0x0A and at nothing else, however reads are cut.
//! Invariant: the buffer never holds much more than the limit; the rest of a line over it is dropped as it comes. Clause: S01.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that one read asks for at least.
const READ_BYTES: usize = 64 << 10;

/// Splits a reader into lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line end was found.
    scanned: usize,
    limit: usize,
    /// Within a line that was told as too long.
    skipping: bool,
    ended: bool,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes; a carriage return before the end is still there, and is white space to JSON.
    Bytes(&'a [u8]),
    /// It is over the limit; what is left of it is skipped.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, scanned: 0, limit, skipping: false, ended: false }
    }

    /// Reads once. `false`: there is nothing more to read; lines may be left. Cancel safe.
    pub(crate) async fn fill(&mut self) -> std::io::Result<bool> {
        self.make_room();
        if self.reader.read_buf(&mut self.buffer).await? == 0 {
            self.ended = true;
        }
        Ok(!self.ended)
    }

    fn make_room(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > 4 * READ_BYTES {
                self.buffer.shrink_to(READ_BYTES);
            }
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
        let length = self.buffer.len();
        if self.buffer.capacity() - length < READ_BYTES / 4 {
            // Twofold, but never far past the limit.
            self.buffer.reserve_exact(length.min(self.limit.saturating_sub(length)).max(READ_BYTES));
        }
    }

    /// The next line that is here whole; at the end of input, also one without a line end.
    pub(crate) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let found = self.buffer.get(self.scanned..).and_then(|rest| memchr::memchr(b'\n', rest));
            let Some(at) = found else { return self.partial() };
            let line = self.start..self.scanned + at;
            self.start = line.end + 1;
            self.scanned = self.start;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if line.len() > self.limit {
                return Some(Line::TooLong);
            }
            return self.buffer.get(line).map(Line::Bytes);
        }
    }

    /// What there is of a line whose end is not here.
    fn partial(&mut self) -> Option<Line<'_>> {
        self.scanned = self.buffer.len();
        let line = self.start..self.scanned;
        let over = line.len() > self.limit;
        if !self.ended && !over && !self.skipping {
            return None;
        }
        self.start = self.scanned;
        if line.is_empty() || self.skipping {
            return None;
        }
        if over {
            self.skipping = true;
            return Some(Line::TooLong);
        }
        self.buffer.get(line).map(Line::Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::Pin, task::Poll};
    use tokio::io::ReadBuf;

    /// Gives its pieces one a read.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            if !self.0.is_empty() {
                let piece = self.0.remove(0);
                out.put_slice(piece);
            }
            Poll::Ready(Ok(()))
        }
    }

    async fn split(pieces: Vec<&[u8]>, limit: usize) -> (Vec<String>, usize) {
        let mut lines = Lines::new(Pieces(pieces), limit);
        let (mut out, mut most) = (Vec::new(), 0);
        loop {
            let more = lines.fill().await.unwrap();
            most = most.max(lines.buffer.capacity());
            while let Some(line) = lines.next() {
                out.push(match line {
                    Line::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Line::TooLong => "(too long)".into(),
                });
            }
            if !more {
                return (out, most);
            }
        }
    }

    #[tokio::test]
    async fn any_cut_gives_the_same_lines() {
        let text = "{\"a\":\"é😀\u{2028}\u{85}\u{b}\"}\n\r\n\nlast".as_bytes();
        let expected = ["{\"a\":\"é😀\u{2028}\u{85}\u{b}\"}", "\r", "", "last"];
        for size in 1..=text.len() {
            assert_eq!(split(text.chunks(size).collect(), 99).await.0, expected, "{size}");
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_told_once_and_skipped() {
        for size in [1, 2, 3, 5, 100] {
            for (text, expected) in [
                ("12345678\nok\n", vec!["12345678", "ok"]),
                ("123456789\nok\n", vec!["(too long)", "ok"]),
                ("1234567890123456789012345\nok\n", vec!["(too long)", "ok"]),
                ("123456789", vec!["(too long)"]),
                ("123456789\n123456789\nok", vec!["(too long)", "(too long)", "ok"]),
            ] {
                assert_eq!(split(text.as_bytes().chunks(size).collect(), 8).await.0, expected, "{text:?} {size}");
            }
        }
    }

    #[tokio::test]
    async fn memory_is_bounded_by_the_limit() {
        let limit = 1 << 20;
        let piece = vec![b'a'; READ_BYTES / 4];
        let (lines, most) = split(vec![&piece[..]; 400], limit).await;
        assert_eq!(lines, ["(too long)"]);
        assert!(most <= limit + 2 * READ_BYTES, "{most}");
    }
}
