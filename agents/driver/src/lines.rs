//! Bytes to lines, with a bound: a driver that never ends a line cannot fill the memory.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// More than the limit, and no end yet.
    TooLong,
    /// Nothing more comes.
    End,
}

/// The next line of at most `limit` bytes. Not cancel safe: what was read is lost.
pub(crate) async fn next(reader: &mut (impl AsyncBufRead + Unpin), limit: usize) -> std::io::Result<Line> {
    let mut line = Vec::new();
    loop {
        let piece = reader.fill_buf().await?;
        if piece.is_empty() {
            return Ok(if line.is_empty() { Line::End } else { Line::Whole(line) });
        }
        let (taken, whole) = match piece.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (piece.len(), false),
        };
        let wanted = if whole { taken - 1 } else { taken };
        if line.len() + wanted > limit {
            return Ok(Line::TooLong);
        }
        line.extend(piece.iter().take(wanted));
        reader.consume(taken);
        if whole {
            return Ok(Line::Whole(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    #[tokio::test]
    async fn lines_are_cut_at_newlines_and_bounded() {
        for capacity in [1, 2, 3, 64] {
            let mut reader = BufReader::with_capacity(capacity, "ab\n\nc\u{2028}\nlast".as_bytes());
            let mut told = Vec::new();
            loop {
                match next(&mut reader, 8).await.unwrap() {
                    Line::Whole(line) => told.push(String::from_utf8(line).unwrap()),
                    Line::TooLong => panic!("nothing here is too long"),
                    Line::End => break,
                }
            }
            assert_eq!(told, ["ab", "", "c\u{2028}", "last"], "{capacity}");
            let mut reader = BufReader::with_capacity(capacity, &b"123456789\n"[..]);
            assert_eq!(next(&mut reader, 8).await.unwrap(), Line::TooLong);
            let mut reader = BufReader::with_capacity(capacity, &b"12345678\n"[..]);
            assert_eq!(next(&mut reader, 8).await.unwrap(), Line::Whole(b"12345678".to_vec()));
        }
    }
}
