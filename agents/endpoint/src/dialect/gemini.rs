//! Gemini: candidates with parts; the streamed form is the same, piece by piece.

use super::{Ids, Piece, SIGNATURE, Stop, Stream, Usage, joined, sse};
use crate::asked::{Asked, Said, list};
use serde_json::{Value, json};

pub(super) fn read(path: &str, body: &Value) -> Asked {
    let (_, name) = path.rsplit_once("/models/").unwrap_or_default();
    let (model, verb) = name.rsplit_once(':').unwrap_or((name, ""));
    let mut asked = Asked { model: model.to_owned(), stream: verb.starts_with("stream"), ..Asked::default() };
    for content in list(body, "contents") {
        asked.messages += 1;
        if content["role"] == "model" {
            asked.said.push(Said::Assistant);
            continue;
        }
        for part in list(content, "parts") {
            if let Some(answer) = part.get("functionResponse") {
                asked.said.push(Said::Result(answered(&answer["response"])));
            } else if let Some(text) = part["text"].as_str() {
                asked.said.push(Said::User(text.to_owned()));
            }
        }
    }
    asked
}

/// A function's response is an object; what the tool said is a member of it, whose name clients choose.
fn answered(response: &Value) -> String {
    let members = ["output", "result", "content", "error"];
    let text = members.iter().find_map(|key| {
        let value = response.get(key)?;
        value.as_str().map(str::to_owned).or_else(|| value.get("content")?.as_str().map(str::to_owned))
    });
    text.or_else(|| response.as_str().map(str::to_owned)).unwrap_or_else(|| response.to_string())
}

pub(super) fn error(status: u16, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    };
    json!({ "error": { "code": status, "message": message, "status": name } })
}

const fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Tool => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refused => "SAFETY",
    }
}

fn part(piece: &Piece, ids: &Ids) -> Value {
    match piece {
        Piece::Text(text) => json!({ "text": text }),
        Piece::Think(text) => json!({ "text": text, "thought": true }),
        Piece::Call { name, input } => json!({
            "functionCall": { "id": ids.next("call_"), "name": name, "args": input }, "thoughtSignature": SIGNATURE,
        }),
    }
}

fn answer(model: &str, id: &str, parts: Vec<Value>, end: Option<(Stop, Usage)>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut answer = json!({ "modelVersion": model, "responseId": id });
    if let Some((stop, usage)) = end {
        candidate["finishReason"] = reason(stop).into();
        // Thoughts are not part of the candidates' count here.
        answer["usageMetadata"] = json!({
            "promptTokenCount": usage.input, "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output - usage.thought, "thoughtsTokenCount": usage.thought,
            "totalTokenCount": usage.input + usage.output,
        });
    }
    answer["candidates"] = json!([candidate]);
    answer
}

pub(super) fn whole(model: &str, pieces: &[Piece], stop: Stop, usage: Usage, ids: &Ids) -> Value {
    let mut parts = Vec::new();
    for (text, thought) in [(joined(pieces, true), true), (joined(pieces, false), false)] {
        if !text.is_empty() {
            parts.push(part(&if thought { Piece::Think(text) } else { Piece::Text(text) }, ids));
        }
    }
    parts.extend(pieces.iter().filter(|piece| matches!(piece, Piece::Call { .. })).map(|piece| part(piece, ids)));
    answer(model, &ids.next("resp_"), parts, Some((stop, usage)))
}

/// A streamed reply.
pub(super) struct Candidates {
    model: String,
    id: String,
}

impl Candidates {
    pub(super) fn new(model: &str, ids: &Ids) -> Self {
        Self { model: model.to_owned(), id: ids.next("resp_") }
    }
}

impl Stream for Candidates {
    fn begin(&mut self, _out: &mut String) {}

    fn piece(&mut self, out: &mut String, piece: &Piece, ids: &Ids) {
        sse(out, None, &answer(&self.model, &self.id, vec![part(piece, ids)], None));
    }

    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage) {
        sse(out, None, &answer(&self.model, &self.id, vec![json!({ "text": "" })], Some((stop, usage))));
    }
}
