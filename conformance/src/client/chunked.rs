//! The chunked transfer coding of RFC 9112 §7.1, decoded strictly: CRLF line ends, hexadecimal sizes, no extension and no trailer.

use bytes::{Buf, BytesMut};

/// Where the decoder stands.
#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Data(usize),
    DataEnd,
    LastEnd,
    Done,
}

/// Decodes one body, however its bytes are cut.
#[derive(Debug, Default)]
pub struct Chunked(At);

impl Chunked {
    /// Takes what it can from `input` into `out`; true once the last chunk has ended.
    pub fn feed(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<bool, String> {
        loop {
            match self.0 {
                At::Size => {
                    let Some(line) = take_line(input)? else { return Ok(false) };
                    let text = std::str::from_utf8(&line).map_err(|_| format!("chunk size {line:?}"))?;
                    if text.is_empty() || text.len() > 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return Err(format!("chunk size {text:?}"));
                    }
                    let size = usize::from_str_radix(text, 16).map_err(|err| format!("chunk size {text:?}: {err}"))?;
                    self.0 = if size == 0 { At::LastEnd } else { At::Data(size) };
                }
                At::Data(left) => {
                    let take = left.min(input.len());
                    out.extend_from_slice(&input.split_to(take));
                    if take < left {
                        self.0 = At::Data(left - take);
                        return Ok(false);
                    }
                    self.0 = At::DataEnd;
                }
                At::DataEnd | At::LastEnd => {
                    let Some(line) = take_line(input)? else { return Ok(false) };
                    if !line.is_empty() {
                        return Err(format!("{:?} where a chunk should end", String::from_utf8_lossy(&line)));
                    }
                    self.0 = if self.0 == At::LastEnd { At::Done } else { At::Size };
                }
                At::Done => return Ok(true),
            }
        }
    }
}

/// A line that ends in CRLF, without it; nothing while it is not whole.
fn take_line(input: &mut BytesMut) -> Result<Option<Vec<u8>>, String> {
    let Some(end) = memchr::memchr(b'\n', input) else { return Ok(None) };
    let line = input.split_to(end);
    input.advance(1);
    match line.split_last() {
        Some((b'\r', rest)) => Ok(Some(rest.to_vec())),
        _ => Err(format!("a line of the chunked coding without CR: {:?}", String::from_utf8_lossy(&line))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text` fed `step` bytes at a time: the body and what is left over.
    fn decode(text: &str, step: usize) -> Result<(String, bool), String> {
        let (mut decoder, mut input, mut out, mut done) = (Chunked::default(), BytesMut::new(), Vec::new(), false);
        for piece in text.as_bytes().chunks(step) {
            input.extend_from_slice(piece);
            done = decoder.feed(&mut input, &mut out)?;
        }
        Ok((String::from_utf8(out).unwrap(), done))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        for step in 1..30 {
            assert_eq!(
                decode("5\r\nhello\r\nA\r\n 012345678\r\n0\r\n\r\n", step),
                Ok(("hello 012345678".into(), true))
            );
        }
        assert_eq!(decode("5\r\nhel", 9), Ok(("hel".into(), false)));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bad in
            ["5\nhello\r\n", "\r\n", "+5\r\n", "5;x=1\r\n", "fffffffffffffffff\r\n", "1\r\nab\r\n", "0\r\nX: y\r\n\r\n"]
        {
            assert!(decode(bad, 100).is_err(), "{bad:?}");
        }
    }
}
