//! Messages put together from an agent's records, and small readers of JSON.

use serde_json::{Map, Value};
use triplane_core::agent::StoreRow;
use triplane_protocol::{
    CallId, Message, MessageId, Part, Role, Session, SessionId, Usage,
    ir::{Extra, KnownPart},
};

/// Bytes of unknown records that are kept with a session; agents log whole requests into their sessions.
const KEPT_BYTES: usize = 64 << 10;

/// Characters of a title that is only the first prompt.
const TITLE_CHARS: usize = 80;

/// A member as text.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A member as a count.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// A member as a list; empty when it is none.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A prompt as a title.
pub(crate) fn title_of(prompt: &str) -> Option<String> {
    let line = prompt.trim().lines().next()?.trim();
    let short: String = line.chars().take(TITLE_CHARS).collect();
    (!short.is_empty()).then_some(short)
}

/// The messages of a session as they come in.
#[derive(Debug, Default)]
pub(crate) struct Build {
    messages: Vec<Message>,
    kept: Vec<Value>,
    kept_bytes: usize,
}

impl Build {
    /// Adds a message; one without parts is none. An id that is there already gets a number.
    pub(crate) fn push(&mut self, id: Option<&str>, role: Role, parts: Vec<Part>, at: i64) -> Option<&mut Message> {
        if parts.is_empty() {
            return None;
        }
        let mut id = id.map_or_else(|| format!("m{}", self.messages.len() + 1), str::to_owned);
        if self.messages.iter().rev().take(64).any(|message| message.id.as_str() == id) {
            id = format!("{id}.{}", self.messages.len() + 1);
        }
        self.messages.push(Message::of(MessageId::from(id.as_str()), role, parts, at));
        self.messages.last_mut()
    }

    /// Adds a part to the last message, if it is one of this role; else a message.
    pub(crate) fn join(&mut self, id: Option<&str>, role: Role, part: Part, at: i64) -> Option<&mut Message> {
        if self.messages.last().is_some_and(|last| last.role == role) {
            let last = self.messages.last_mut()?;
            last.parts.push(part);
            return Some(last);
        }
        self.push(id, role, vec![part], at)
    }

    /// The last message.
    pub(crate) fn last(&mut self) -> Option<&mut Message> {
        self.messages.last_mut()
    }

    /// The last message of this role.
    pub(crate) fn last_of(&mut self, role: Role) -> Option<&mut Message> {
        self.messages.iter_mut().rev().find(|message| message.role == role)
    }

    /// Forgets all messages.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
    }

    /// Keeps a record that is not known here, while there is room.
    pub(crate) fn keep(&mut self, record: Value) {
        self.kept_bytes += record.to_string().len();
        if self.kept_bytes <= KEPT_BYTES {
            self.kept.push(record);
        }
    }

    /// The session, whose row says the rest.
    pub(crate) fn session(self, agent: &str, row: StoreRow) -> Session {
        let usage = self.messages.iter().filter_map(|message| message.usage).reduce(|mut sum, usage| {
            sum += usage;
            sum
        });
        let mut extra = Extra::new();
        if !self.kept.is_empty() {
            let kept = Map::from_iter([("records".to_owned(), Value::Array(self.kept))]);
            extra.insert(agent.to_owned(), Value::Object(kept));
        }
        let model = row.model.or_else(|| self.messages.iter().rev().find_map(|message| message.model.clone()));
        Session {
            version: 1,
            id: row.id,
            agent: agent.to_owned(),
            cwd: row.cwd,
            title: row.title,
            model,
            effort: None,
            mode: None,
            created: row.created,
            updated: row.updated,
            parent: None,
            usage,
            messages: self.messages,
            extra,
        }
    }
}

/// What an agent wrote beside a message, under its own name.
pub(crate) fn beside(message: &mut Message, agent: &str, record: &Value, known: &[&str]) {
    let Some(members) = record.as_object() else { return };
    let rest: Map<String, Value> = members
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !rest.is_empty() {
        message.extra.insert(agent.to_owned(), Value::Object(rest));
    }
}

/// A row while its pieces come in.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) cwd: Option<String>,
    /// Titles by how much they say: a person's, the agent's, the first prompt.
    pub(crate) titles: [Option<String>; 3],
    pub(crate) model: Option<String>,
    pub(crate) created: Option<i64>,
}

impl Draft {
    /// The row.
    pub(crate) fn row(self, id: SessionId, updated: i64) -> StoreRow {
        let title = self.titles.into_iter().flatten().find(|title| !title.is_empty());
        StoreRow {
            id,
            cwd: self.cwd.unwrap_or_default(),
            title,
            model: self.model,
            created: self.created.unwrap_or(updated),
            updated,
        }
    }

    /// Takes the first prompt, when it says something.
    pub(crate) fn prompt(&mut self, prompt: &str) {
        if let [_, _, first @ None] = &mut self.titles {
            *first = title_of(prompt);
        }
    }
}

/// A call's id.
pub(crate) fn call_id(text: &str) -> CallId {
    CallId::from(text)
}

/// Blocks of Anthropic's messages as parts: `(results, the rest)`.
pub(crate) fn anthropic(content: &Value) -> (Vec<Part>, Vec<Part>) {
    let (mut results, mut rest) = (Vec::new(), Vec::new());
    if let Some(text) = content.as_str() {
        rest.push(Part::text(text));
    }
    for block in content.as_array().into_iter().flatten() {
        match text(block, "/type") {
            Some("tool_result") => {
                let (_, output) = anthropic(block.get("content").unwrap_or(&Value::Null));
                let error = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
                results.push(Part::result(call_id(text(block, "/tool_use_id").unwrap_or_default()), output, error));
            }
            _ => rest.push(anthropic_part(block)),
        }
    }
    (results, rest)
}

fn anthropic_part(block: &Value) -> Part {
    let known = match text(block, "/type") {
        Some("text") => text(block, "/text").map(Part::text),
        Some("thinking") => text(block, "/thinking").map(|thought| {
            Part::thinking(
                thought,
                text(block, "/signature").filter(|signature| !signature.is_empty()).map(str::to_owned),
            )
        }),
        Some("tool_use") => text(block, "/id").zip(text(block, "/name")).map(|(id, name)| {
            Part::call(call_id(id), name, block.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new())))
        }),
        Some("image") => {
            let data = text(block, "/source/data").or_else(|| text(block, "/data"));
            let mime = text(block, "/source/media_type").or_else(|| text(block, "/mediaType"));
            match (data, text(block, "/source/url")) {
                (Some(data), _) => Some(crate::flat::image(mime.unwrap_or("image/png"), data)),
                (None, Some(url)) => Some(crate::flat::Image::part(url)),
                (None, None) => None,
            }
        }
        Some(_) | None => None,
    };
    known.unwrap_or_else(|| match block {
        Value::Object(members) => Part::Other(members.clone()),
        other => Part::text(other.to_string()),
    })
}

/// Usage as Anthropic counts it: what came from the cache is told beside the input.
pub(crate) fn anthropic_usage(usage: &Value) -> Option<Usage> {
    usage.is_object().then(|| {
        let (read, made) = (count(usage, "/cache_read_input_tokens"), count(usage, "/cache_creation_input_tokens"));
        let input = count(usage, "/input_tokens").saturating_add(read).saturating_add(made);
        Usage { input, output: count(usage, "/output_tokens"), cached: read, ..Usage::default() }
    })
}

/// Whether a part is a call.
pub(crate) fn is_call(part: &Part) -> bool {
    matches!(part, Part::Known(KnownPart::Call { .. }))
}
