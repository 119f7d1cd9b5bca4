//! Anthropic messages: content blocks, each opened and closed.

use super::{Ids, Piece, SIGNATURE, Stop, Stream, Usage, cut, sse};
use crate::asked::{Asked, Said, flat, list, text_of};
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> Asked {
    let mut asked = Asked { model: text_of(body, "model"), stream: body["stream"] == true, ..Asked::default() };
    for message in list(body, "messages") {
        let assistant = message["role"] == "assistant";
        asked.messages += 1;
        if assistant {
            asked.said.push(Said::Assistant);
            continue;
        }
        if let Some(text) = message["content"].as_str() {
            asked.said.push(Said::User(text.to_owned()));
        }
        for block in list(message, "content") {
            match block["type"].as_str() {
                Some("tool_result") => asked.said.push(Said::Result(flat(&block["content"]))),
                Some("image") => {}
                _ => asked.said.push(Said::User(flat(block))),
            }
        }
    }
    asked
}

pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

const fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Done => "end_turn",
        Stop::Tool => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Refused => "refusal",
    }
}

/// Cached tokens are not part of `input_tokens` here.
fn tokens(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached, "output_tokens": usage.output,
    })
}

pub(super) fn whole(model: &str, pieces: &[Piece], stop: Stop, usage: Usage, ids: &Ids) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    for piece in pieces {
        let last = blocks.last_mut();
        match piece {
            Piece::Text(text) => match last.filter(|block| block["type"] == "text") {
                Some(block) => block["text"] = format!("{}{text}", block["text"].as_str().unwrap_or_default()).into(),
                None => blocks.push(json!({ "type": "text", "text": text })),
            },
            Piece::Think(text) => blocks.push(json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE })),
            Piece::Call { name, input } => {
                blocks.push(json!({ "type": "tool_use", "id": ids.next("toolu_"), "name": name, "input": input }));
            }
        }
    }
    json!({
        "id": ids.next("msg_"), "type": "message", "role": "assistant", "model": model, "content": blocks,
        "stop_reason": reason(stop), "stop_sequence": null, "usage": tokens(usage),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
}

/// A streamed reply.
pub(super) struct Blocks {
    model: String,
    id: String,
    index: usize,
    open: Option<Block>,
}

impl Blocks {
    pub(super) fn new(model: &str, ids: &Ids) -> Self {
        Self { model: model.to_owned(), id: ids.next("msg_"), index: 0, open: None }
    }

    fn event(out: &mut String, kind: &str, mut rest: Value) {
        rest["type"] = kind.into();
        sse(out, Some(kind), &rest);
    }

    fn start(&mut self, out: &mut String, block: Value) {
        Self::event(out, "content_block_start", json!({ "index": self.index, "content_block": block }));
    }

    fn delta(&mut self, out: &mut String, delta: Value) {
        Self::event(out, "content_block_delta", json!({ "index": self.index, "delta": delta }));
    }

    fn stop(&mut self, out: &mut String) {
        Self::event(out, "content_block_stop", json!({ "index": self.index }));
        self.index += 1;
    }

    fn close(&mut self, out: &mut String) {
        match self.open.take() {
            Some(Block::Thinking) => {
                self.delta(out, json!({ "type": "signature_delta", "signature": SIGNATURE }));
                self.stop(out);
            }
            Some(Block::Text) => self.stop(out),
            None => {}
        }
    }

    fn want(&mut self, out: &mut String, block: Block, head: Value) {
        if self.open != Some(block) {
            self.close(out);
            self.start(out, head);
            self.open = Some(block);
        }
    }
}

impl Stream for Blocks {
    fn begin(&mut self, out: &mut String) {
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 0, "output_tokens": 1 },
        });
        Self::event(out, "message_start", json!({ "message": message }));
        Self::event(out, "ping", json!({}));
    }

    fn piece(&mut self, out: &mut String, piece: &Piece, ids: &Ids) {
        match piece {
            Piece::Text(text) => {
                self.want(out, Block::Text, json!({ "type": "text", "text": "" }));
                self.delta(out, json!({ "type": "text_delta", "text": text }));
            }
            Piece::Think(text) => {
                self.want(out, Block::Thinking, json!({ "type": "thinking", "thinking": "", "signature": "" }));
                self.delta(out, json!({ "type": "thinking_delta", "thinking": text }));
            }
            Piece::Call { name, input } => {
                self.close(out);
                let head = json!({ "type": "tool_use", "id": ids.next("toolu_"), "name": name, "input": {} });
                self.start(out, head);
                for piece in cut(&input.to_string(), 24) {
                    self.delta(out, json!({ "type": "input_json_delta", "partial_json": piece }));
                }
                self.stop(out);
            }
        }
    }

    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage) {
        self.close(out);
        let delta = json!({ "stop_reason": reason(stop), "stop_sequence": null });
        Self::event(out, "message_delta", json!({ "delta": delta, "usage": tokens(usage) }));
        Self::event(out, "message_stop", json!({}));
    }
}
