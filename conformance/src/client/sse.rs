//! Server-sent events, read strictly: a writer that holds to the clauses of H13 needs no more than this, so what a lenient
//! reader would forgive is an error here (a bare CR, a BOM, an unknown field, a message without data, bytes that are no UTF-8).

/// One item of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A comment line.
    Comment(String),
    /// `retry:`, in milliseconds.
    Retry(u64),
    /// A message.
    Message(Message),
}

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `id:`, when the message has one.
    pub id: Option<String>,
    /// `event:`, when the message has one.
    pub event: Option<String>,
    /// The `data:` lines, joined by newlines.
    pub data: String,
}

/// Cuts a byte stream into items.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    message: Message,
    data: bool,
    begun: bool,
}

impl Parser {
    /// Takes bytes as they came; what they complete is pushed to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Item>) -> Result<(), String> {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8(line).map_err(|err| format!("a line that is no UTF-8: {err}"))?;
                self.take(&line, out)?;
            } else if byte == b'\r' {
                return Err("a CR in the stream".to_owned());
            } else {
                self.line.push(byte);
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str, out: &mut Vec<Item>) -> Result<(), String> {
        if line.is_empty() {
            return self.end(out);
        }
        if let Some(comment) = line.strip_prefix(':') {
            out.push(Item::Comment(comment.trim_start().to_owned()));
            return Ok(());
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("a line without a colon: {line:?}"))?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "retry" => {
                out.push(Item::Retry(value.parse().map_err(|_| format!("retry {value:?}"))?));
                return Ok(());
            }
            "data" => {
                if self.data {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
                self.data = true;
            }
            "event" => set(&mut self.message.event, name, value)?,
            "id" => set(&mut self.message.id, name, value)?,
            _ => return Err(format!("a field that is not in the standard: {line:?}")),
        }
        self.begun = true;
        Ok(())
    }

    /// The empty line.
    fn end(&mut self, out: &mut Vec<Item>) -> Result<(), String> {
        if !std::mem::take(&mut self.begun) {
            return Ok(());
        }
        let message = std::mem::take(&mut self.message);
        if !std::mem::take(&mut self.data) {
            return Err(format!("a message without data: {message:?}"));
        }
        out.push(Item::Message(message));
        Ok(())
    }
}

fn set(slot: &mut Option<String>, name: &str, value: &str) -> Result<(), String> {
    match slot.replace(value.to_owned()) {
        None => Ok(()),
        Some(first) => Err(format!("two `{name}` lines in one message: {first:?}, {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, step: usize) -> Result<Vec<Item>, String> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            parser.feed(piece, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn items_are_the_same_however_the_bytes_are_cut() {
        let text = "retry: 2000\n\n: hi\nid: 7\nevent: final\ndata: {\"a\":\ndata: 1}é\n\n:\n\ndata:x\n\n";
        let want = vec![
            Item::Retry(2000),
            Item::Comment("hi".into()),
            Item::Message(Message { id: Some("7".into()), event: Some("final".into()), data: "{\"a\":\n1}é".into() }),
            Item::Comment(String::new()),
            Item::Message(Message { id: None, event: None, data: "x".into() }),
        ];
        for step in 1..text.len() {
            assert_eq!(parse(text, step).as_ref(), Ok(&want));
        }
    }

    #[test]
    fn what_a_lenient_reader_would_forgive_is_an_error() {
        let bad = [
            "data: x\r\n\r\n",
            "\u{feff}data: x\n\n",
            "date: x\n\n",
            "nothing\n",
            "id: 1\n\n",
            "id: 1\nid: 2\ndata:\n\n",
            "retry: x\n",
        ];
        for text in bad {
            assert!(parse(text, 100).is_err(), "{text:?}");
        }
        assert!(Parser::default().feed(b"data: \xff\n", &mut Vec::new()).is_err());
    }

    #[test]
    fn an_unfinished_message_is_not_told() {
        assert_eq!(parse("data: x\n", 1), Ok(vec![]));
    }
}
