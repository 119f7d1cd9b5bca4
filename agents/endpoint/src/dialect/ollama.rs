//! Ollama's own chat: one JSON object a line, calls whole.

use super::{Piece, Stop, Stream, Usage, joined};
use crate::asked::{Asked, Said, flat, list, text_of};
use serde_json::{Value, json};

const STAMP: &str = "2024-01-01T00:00:00Z";

pub(super) fn read(body: &Value) -> Asked {
    let mut asked = Asked { model: text_of(body, "model"), stream: body["stream"] != false, ..Asked::default() };
    for message in list(body, "messages") {
        let text = flat(&message["content"]);
        match message["role"].as_str() {
            Some("system") => continue,
            Some("tool") => asked.said.push(Said::Result(text)),
            Some("assistant") => asked.said.push(Said::Assistant),
            _ => {
                asked.said.push(Said::User(text));
            }
        }
        asked.messages += 1;
    }
    asked
}

fn line(model: &str, message: Value, end: Option<(Stop, Usage)>) -> Value {
    let mut line = json!({ "model": model, "created_at": STAMP, "message": message, "done": end.is_some() });
    if let Some((stop, usage)) = end {
        line["done_reason"] = if stop == Stop::Length { "length" } else { "stop" }.into();
        for (key, value) in [
            ("prompt_eval_count", usage.input),
            ("prompt_eval_cached_count", usage.cached),
            ("eval_count", usage.output),
            ("total_duration", 1),
        ] {
            line[key] = value.into();
        }
    }
    line
}

fn message(text: &str, thought: &str, calls: Vec<Value>) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !thought.is_empty() {
        message["thinking"] = thought.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn calls(pieces: &[Piece]) -> Vec<Value> {
    let calls = pieces.iter().filter_map(|piece| match piece {
        Piece::Call { name, input } => Some(json!({ "function": { "name": name, "arguments": input } })),
        Piece::Text(_) | Piece::Think(_) => None,
    });
    calls.collect()
}

pub(super) fn whole(model: &str, pieces: &[Piece], stop: Stop, usage: Usage) -> Value {
    let message = message(&joined(pieces, false), &joined(pieces, true), calls(pieces));
    line(model, message, Some((stop, usage)))
}

/// A streamed reply.
pub(super) struct Lines {
    model: String,
}

impl Lines {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned() }
    }

    fn line(&self, out: &mut String, message: Value, end: Option<(Stop, Usage)>) {
        out.push_str(&line(&self.model, message, end).to_string());
        out.push('\n');
    }
}

impl Stream for Lines {
    fn begin(&mut self, _out: &mut String) {}

    fn piece(&mut self, out: &mut String, piece: &Piece, _ids: &super::Ids) {
        let message = match piece {
            Piece::Text(text) => message(text, "", Vec::new()),
            Piece::Think(text) => message("", text, Vec::new()),
            Piece::Call { .. } => message("", "", calls(std::slice::from_ref(piece))),
        };
        self.line(out, message, None);
    }

    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage) {
        self.line(out, message("", "", Vec::new()), Some((stop, usage)));
    }
}
