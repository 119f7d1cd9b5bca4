//! OpenAI chat completions, and what is like it.

use super::{CREATED, Ids, Piece, Stop, Stream, Usage, cut, joined, sse};
use crate::asked::{Asked, Said, flat, list, text_of, user_parts};
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> Asked {
    let mut asked = Asked { model: text_of(body, "model"), stream: body["stream"] == true, ..Asked::default() };
    for message in list(body, "messages") {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("system" | "developer") => continue,
            Some("tool") => asked.said.push(Said::Result(flat(content))),
            Some("assistant") => asked.said.push(Said::Assistant),
            _ => {
                asked.said.extend(user_parts(content));
            }
        }
        asked.messages += 1;
    }
    asked
}

const fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Done => "stop",
        Stop::Tool => "tool_calls",
        Stop::Length => "length",
        Stop::Refused => "content_filter",
    }
}

fn tokens(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": usage.thought },
    })
}

pub(super) fn whole(model: &str, pieces: &[Piece], stop: Stop, usage: Usage, ids: &Ids) -> Value {
    let calls: Vec<Value> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Call { name, input } => Some(json!({
                "id": ids.next("call_"), "type": "function",
                "function": { "name": name, "arguments": input.to_string() },
            })),
            Piece::Text(_) | Piece::Think(_) => None,
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": joined(pieces, false) });
    let thought = joined(pieces, true);
    if !thought.is_empty() {
        message["reasoning_content"] = thought.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": ids.next("chatcmpl-"), "object": "chat.completion", "created": CREATED, "model": model,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason(stop), "logprobs": null }],
        "usage": tokens(usage),
    })
}

/// A streamed reply.
pub(super) struct Chunks {
    base: Value,
    calls: usize,
}

impl Chunks {
    pub(super) fn new(model: &str, ids: &Ids) -> Self {
        let id = ids.next("chatcmpl-");
        let base = json!({ "id": id, "object": "chat.completion.chunk", "created": CREATED, "model": model });
        Self { base, calls: 0 }
    }

    fn chunk(&self, out: &mut String, delta: Value, finish: Option<&str>) {
        let mut chunk = self.base.clone();
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        sse(out, None, &chunk);
    }
}

impl Stream for Chunks {
    fn begin(&mut self, out: &mut String) {
        self.chunk(out, json!({ "role": "assistant", "content": "" }), None);
    }

    fn piece(&mut self, out: &mut String, piece: &Piece, ids: &Ids) {
        match piece {
            Piece::Text(text) => self.chunk(out, json!({ "content": text }), None),
            Piece::Think(text) => self.chunk(out, json!({ "reasoning_content": text }), None),
            Piece::Call { name, input } => {
                let index = self.calls;
                self.calls += 1;
                let head = json!({
                    "index": index, "id": ids.next("call_"), "type": "function",
                    "function": { "name": name, "arguments": "" },
                });
                self.chunk(out, json!({ "tool_calls": [head] }), None);
                for piece in cut(&input.to_string(), 24) {
                    let more = json!({ "index": index, "function": { "arguments": piece } });
                    self.chunk(out, json!({ "tool_calls": [more] }), None);
                }
            }
        }
    }

    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage) {
        self.chunk(out, json!({}), Some(reason(stop)));
        let mut last = self.base.clone();
        last["choices"] = json!([]);
        last["usage"] = tokens(usage);
        sse(out, None, &last);
        out.push_str("data: [DONE]\n\n");
    }
}
