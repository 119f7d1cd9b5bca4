//! Each provider's way to read a request and to write a reply. What they share: pieces in order, then one end.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use crate::asked::Asked;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of every reply: nothing here depends on the clock.
pub(crate) const CREATED: u64 = 1_700_000_000;
/// The signature of every thought.
pub(crate) const SIGNATURE: &str = "c2NyaXB0";

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Done,
    Tool,
    Length,
    Refused,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
    pub(crate) thought: u64,
}

/// A piece of a reply.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    Think(String),
    Call { name: String, input: Value },
}

/// Ids that are the same in every run of the same requests.
#[derive(Debug, Default)]
pub(crate) struct Ids(AtomicU64);

impl Ids {
    pub(crate) fn next(&self, prefix: &str) -> String {
        format!("{prefix}{:06}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Writes one streamed reply.
pub(crate) trait Stream: Send {
    /// Before the first piece.
    fn begin(&mut self, out: &mut String);
    /// One piece.
    fn piece(&mut self, out: &mut String, piece: &Piece, ids: &Ids);
    /// After the last piece.
    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage);
}

/// A provider's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}

impl Dialect {
    /// The dialect that is spoken at `path`.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let bare = path.strip_prefix("/v1").unwrap_or(path);
        match bare {
            "/chat/completions" => return Some(Self::Chat),
            "/responses" => return Some(Self::Responses),
            "/messages" => return Some(Self::Anthropic),
            "/api/chat" => return Some(Self::Ollama),
            _ => {}
        }
        let verb = path.rsplit_once("/models/").and_then(|(_, rest)| rest.rsplit_once(':')).map(|(_, verb)| verb);
        matches!(verb, Some("generateContent" | "streamGenerateContent")).then_some(Self::Gemini)
    }

    pub(crate) const fn media(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Anthropic | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    pub(crate) fn read(self, path: &str, body: &Value) -> Asked {
        match self {
            Self::Chat => chat::read(body),
            Self::Responses => responses::read(body),
            Self::Anthropic => anthropic::read(body),
            Self::Gemini => gemini::read(path, body),
            Self::Ollama => ollama::read(body),
        }
    }

    pub(crate) fn stream(self, model: &str, ids: &Ids) -> Box<dyn Stream> {
        match self {
            Self::Chat => Box::new(chat::Chunks::new(model, ids)),
            Self::Responses => Box::new(responses::Items::new(model, ids)),
            Self::Anthropic => Box::new(anthropic::Blocks::new(model, ids)),
            Self::Gemini => Box::new(gemini::Candidates::new(model, ids)),
            Self::Ollama => Box::new(ollama::Lines::new(model)),
        }
    }

    pub(crate) fn whole(self, model: &str, pieces: &[Piece], stop: Stop, usage: Usage, ids: &Ids) -> Value {
        match self {
            Self::Chat => chat::whole(model, pieces, stop, usage, ids),
            Self::Responses => responses::whole(model, pieces, stop, usage, ids),
            Self::Anthropic => anthropic::whole(model, pieces, stop, usage, ids),
            Self::Gemini => gemini::whole(model, pieces, stop, usage, ids),
            Self::Ollama => ollama::whole(model, pieces, stop, usage),
        }
    }

    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Chat | Self::Responses => {
                json!({ "error": { "message": message, "type": "script_error", "param": null, "code": status.to_string() } })
            }
            Self::Anthropic => anthropic::error(status, message),
            Self::Gemini => gemini::error(status, message),
            Self::Ollama => json!({ "error": message }),
        }
    }
}

/// All text, or all thought, of a reply.
pub(crate) fn joined(pieces: &[Piece], thought: bool) -> String {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) if !thought => Some(text.as_str()),
        Piece::Think(text) if thought => Some(text.as_str()),
        Piece::Text(_) | Piece::Think(_) | Piece::Call { .. } => None,
    });
    texts.collect()
}

/// One server-sent event.
pub(crate) fn sse(out: &mut String, event: Option<&str>, data: &Value) {
    if let Some(event) = event {
        out.push_str("event: ");
        out.push_str(event);
        out.push('\n');
    }
    out.push_str("data: ");
    out.push_str(&data.to_string());
    out.push_str("\n\n");
}

/// The text cut at about `size` bytes: arguments come in pieces, as from a real provider.
pub(crate) fn cut(text: &str, size: usize) -> Vec<&str> {
    let mut rest = text;
    let mut cuts = Vec::new();
    while rest.len() > size {
        let at = (size..rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(at);
        cuts.push(head);
        rest = tail;
    }
    cuts.push(rest);
    cuts
}
