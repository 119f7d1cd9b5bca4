//! Parts of Google's messages, as Gemini CLI and Qwen Code write them.

use crate::{
    build::{call_id, text},
    flat::{Block, Out, image, output_text},
};
use serde_json::{Value, json};
use triplane_protocol::Part;

/// Parts that stand in a message: `(results, the rest)`.
pub(crate) fn parts(value: &Value) -> (Vec<Part>, Vec<Part>) {
    let (mut results, mut rest) = (Vec::new(), Vec::new());
    match value {
        Value::String(text) => rest.push(Part::text(text.as_str())),
        Value::Array(several) => {
            for part in several {
                take(part, &mut results, &mut rest);
            }
        }
        Value::Object(_) => take(value, &mut results, &mut rest),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    (results, rest)
}

fn take(part: &Value, results: &mut Vec<Part>, rest: &mut Vec<Part>) {
    if let Some(response) = part.get("functionResponse") {
        results.push(result(response));
    } else if let Some(call) = part.get("functionCall") {
        let input = call.get("args").cloned().unwrap_or_else(|| json!({}));
        let id = call_id(text(call, "/id").unwrap_or_default());
        rest.push(Part::call(id, text(call, "/name").unwrap_or("tool"), input));
    } else if let Some((mime, data)) = text(part, "/inlineData/mimeType").zip(text(part, "/inlineData/data")) {
        rest.push(image(mime, data));
    } else if let Some(said) = text(part, "/text") {
        let thought = part.get("thought").and_then(Value::as_bool).unwrap_or_default();
        rest.push(if thought { Part::thinking(said, None) } else { Part::text(said) });
    } else if let Some(said) = part.as_str() {
        rest.push(Part::text(said));
    } else if let Some(members) = part.as_object() {
        rest.push(Part::Other(members.clone()));
    }
}

/// A function's response as a result.
pub(crate) fn result(response: &Value) -> Part {
    let error = text(response, "/response/error");
    let output = text(response, "/response/output").or(error).map(Part::text);
    let whole = || response.get("response").map(|whole| Part::text(whole.to_string()));
    let output = output.or_else(whole).into_iter().collect();
    Part::result(call_id(text(response, "/id").unwrap_or_default()), output, error.is_some())
}

/// A result as a function's response.
pub(crate) fn response(id: &str, name: &str, output: &[Out], error: bool) -> Value {
    let key = if error { "error" } else { "output" };
    json!({"functionResponse": {"id": id, "name": name, "response": {key: output_text(output)}}})
}

/// A block as a part.
pub(crate) fn part(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"text": text}),
        Block::Thinking { text, .. } => json!({"text": text, "thought": true}),
        Block::Call { id, name, input } => json!({"functionCall": {"id": id, "name": name, "args": input}}),
        Block::Result { id, name, output, error } => response(id, name, output, *error),
        Block::Image(image) => json!({"inlineData": {"mimeType": image.mime, "data": image.data}}),
    }
}
