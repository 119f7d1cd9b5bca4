//! OpenAI responses: a list of items, each streamed on its own.

use super::{CREATED, Ids, Piece, SIGNATURE, Stop, Stream, Usage, cut, sse};
use crate::asked::{Asked, Said, flat, list, text_of, user_parts};
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> Asked {
    let mut asked = Asked { model: text_of(body, "model"), stream: body["stream"] == true, ..Asked::default() };
    if let Some(text) = body["input"].as_str() {
        asked.said.push(Said::User(text.to_owned()));
        asked.messages = 1;
    }
    for item in list(body, "input") {
        let kind = item["type"].as_str().unwrap_or("message");
        let role = item["role"].as_str();
        match (kind, role) {
            ("message", Some("system" | "developer")) | ("reasoning", _) => continue,
            ("message", Some("assistant")) | ("function_call", _) => asked.said.push(Said::Assistant),
            ("message", _) => {
                asked.said.extend(user_parts(&item["content"]));
            }
            (kind, _) if kind.ends_with("_output") => asked.said.push(Said::Result(flat(&item["output"]))),
            _ => continue,
        }
        asked.messages += 1;
    }
    asked
}

/// What is being written, or was.
#[derive(Debug, Clone)]
enum Item {
    Reasoning { id: String, text: String },
    Message { id: String, text: String },
    Call { id: String, call: String, name: String, arguments: String },
}

impl Item {
    fn to_json(&self, done: bool) -> Value {
        let status = if done { "completed" } else { "in_progress" };
        match self {
            Self::Reasoning { id, text } => {
                let summary = if done { json!([{ "type": "summary_text", "text": text }]) } else { json!([]) };
                let sealed = if done { SIGNATURE } else { "" };
                json!({ "id": id, "type": "reasoning", "encrypted_content": sealed, "summary": summary })
            }
            Self::Message { id, text } => {
                let content =
                    if done { json!([{ "type": "output_text", "text": text, "annotations": [] }]) } else { json!([]) };
                json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": content })
            }
            Self::Call { id, call, name, arguments } => json!({
                "id": id, "type": "function_call", "call_id": call, "name": name, "status": status,
                "arguments": if done { arguments.as_str() } else { "" },
            }),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. } | Self::Message { id, .. } | Self::Call { id, .. } => id,
        }
    }
}

fn response(model: &str, id: &str, items: &[Item], end: Option<(Stop, Usage)>) -> Value {
    let status = status(end.map(|(stop, _)| stop));
    let why = match end.map(|(stop, _)| stop) {
        Some(Stop::Length) => json!({ "reason": "max_output_tokens" }),
        Some(Stop::Refused) => json!({ "reason": "content_filter" }),
        Some(Stop::Done | Stop::Tool) | None => Value::Null,
    };
    let usage = end.map(|(_, usage)| {
        json!({
            "input_tokens": usage.input, "input_tokens_details": { "cached_tokens": usage.cached },
            "output_tokens": usage.output, "output_tokens_details": { "reasoning_tokens": usage.thought },
            "total_tokens": usage.input + usage.output,
        })
    });
    let output: Vec<Value> = items.iter().map(|item| item.to_json(true)).collect();
    json!({
        "id": id, "object": "response", "created_at": CREATED, "model": model, "status": status, "output": output,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "error": null, "incomplete_details": why,
        "usage": usage,
    })
}

const fn status(stop: Option<Stop>) -> &'static str {
    match stop {
        None => "in_progress",
        Some(Stop::Done | Stop::Tool) => "completed",
        Some(Stop::Length | Stop::Refused) => "incomplete",
    }
}

pub(super) fn whole(model: &str, pieces: &[Piece], stop: Stop, usage: Usage, ids: &Ids) -> Value {
    let mut items = Items::new(model, ids);
    let mut unread = String::new();
    for piece in pieces {
        items.piece(&mut unread, piece, ids);
    }
    items.close(&mut unread);
    response(model, &items.id, &items.done, Some((stop, usage)))
}

/// A streamed reply.
pub(super) struct Items {
    model: String,
    id: String,
    sequence: u64,
    open: Option<Item>,
    done: Vec<Item>,
}

impl Items {
    pub(super) fn new(model: &str, ids: &Ids) -> Self {
        Self { model: model.to_owned(), id: ids.next("resp_"), sequence: 0, open: None, done: Vec::new() }
    }

    fn event(&mut self, out: &mut String, kind: &str, mut rest: Value) {
        rest["type"] = kind.into();
        rest["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        sse(out, Some(kind), &rest);
    }

    fn start(&mut self, out: &mut String, item: Item) {
        self.close(out);
        let index = self.done.len();
        self.event(out, "response.output_item.added", json!({ "output_index": index, "item": item.to_json(false) }));
        let at = json!({ "output_index": index, "item_id": item.id() });
        match &item {
            Item::Reasoning { .. } => {
                let mut part = at;
                part["summary_index"] = 0.into();
                part["part"] = json!({ "type": "summary_text", "text": "" });
                self.event(out, "response.reasoning_summary_part.added", part);
            }
            Item::Message { .. } => {
                let mut part = at;
                part["content_index"] = 0.into();
                part["part"] = json!({ "type": "output_text", "text": "", "annotations": [] });
                self.event(out, "response.content_part.added", part);
            }
            Item::Call { .. } => {}
        }
        self.open = Some(item);
    }

    fn close(&mut self, out: &mut String) {
        let Some(item) = self.open.take() else { return };
        let index = self.done.len();
        let at = json!({ "output_index": index, "item_id": item.id() });
        let with = |key: &str, value: Value| {
            let mut rest = at.clone();
            rest[key] = value;
            rest
        };
        match &item {
            Item::Reasoning { text, .. } => {
                let mut rest = with("text", text.as_str().into());
                rest["summary_index"] = 0.into();
                self.event(out, "response.reasoning_summary_text.done", rest);
            }
            Item::Message { text, .. } => {
                let mut rest = with("text", text.as_str().into());
                rest["content_index"] = 0.into();
                self.event(out, "response.output_text.done", rest);
            }
            Item::Call { arguments, .. } => {
                let rest = with("arguments", arguments.as_str().into());
                self.event(out, "response.function_call_arguments.done", rest);
            }
        }
        self.event(out, "response.output_item.done", json!({ "output_index": index, "item": item.to_json(true) }));
        self.done.push(item);
    }
}

impl Stream for Items {
    fn begin(&mut self, out: &mut String) {
        let opening = json!({ "response": response(&self.model, &self.id, &[], None) });
        self.event(out, "response.created", opening.clone());
        self.event(out, "response.in_progress", opening);
    }

    fn piece(&mut self, out: &mut String, piece: &Piece, ids: &Ids) {
        let index = |items: &Self| items.done.len();
        match piece {
            Piece::Text(chunk) => {
                if !matches!(self.open, Some(Item::Message { .. })) {
                    self.start(out, Item::Message { id: ids.next("msg_"), text: String::new() });
                }
                if let Some(Item::Message { id, text }) = &mut self.open {
                    text.push_str(chunk);
                    let id = id.clone();
                    let rest = json!({
                        "output_index": index(self), "item_id": id, "content_index": 0, "delta": chunk, "logprobs": [],
                    });
                    self.event(out, "response.output_text.delta", rest);
                }
            }
            Piece::Think(chunk) => {
                if !matches!(self.open, Some(Item::Reasoning { .. })) {
                    self.start(out, Item::Reasoning { id: ids.next("rs_"), text: String::new() });
                }
                if let Some(Item::Reasoning { id, text }) = &mut self.open {
                    text.push_str(chunk);
                    let id = id.clone();
                    let rest =
                        json!({ "output_index": index(self), "item_id": id, "summary_index": 0, "delta": chunk });
                    self.event(out, "response.reasoning_summary_text.delta", rest);
                }
            }
            Piece::Call { name, input } => {
                let (id, call, arguments) = (ids.next("fc_"), ids.next("call_"), input.to_string());
                let item = Item::Call { id: id.clone(), call, name: name.clone(), arguments: arguments.clone() };
                self.start(out, item);
                for piece in cut(&arguments, 24) {
                    let rest = json!({ "output_index": index(self), "item_id": id, "delta": piece });
                    self.event(out, "response.function_call_arguments.delta", rest);
                }
            }
        }
    }

    fn end(&mut self, out: &mut String, stop: Stop, usage: Usage) {
        self.close(out);
        let kind = format!("response.{}", status(Some(stop)));
        let whole = response(&self.model, &self.id, &self.done, Some((stop, usage)));
        self.event(out, &kind, json!({ "response": whole }));
    }
}
