//! Codex: `sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`. `response_item` is what the model gets, `event_msg` what a screen
//! replays; both are written. Titles lie in `session_index.jsonl`. Its database is a projection that it mends itself.

use crate::{
    build::{Build, Draft, call_id, list, text},
    files,
    flat::{Block, Flat, Holds, Image, Lost, Out, Thinking, flatten, output_text},
    ids,
    time::{self, iso, ms},
    tree::{Entry, Format, Seen},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Part, Role, Session, SessionId, Usage, ir::Boundary};

const HOLDS: Holds = Holds {
    agent: "codex",
    thinking: Thinking::Plain,
    images: true,
    result_images: true,
    errors: false,
    usage: true,
    reasoning: true,
    cost: false,
    stop: false,
};

/// What its rollouts are written as.
const VERSION: &str = "0.100.0";

/// The store below `$CODEX_HOME`.
pub(crate) struct Codex {
    dir: PathBuf,
    titles: Mutex<Option<(SystemTime, HashMap<String, String>)>>,
}

impl Codex {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, titles: Mutex::default() }
    }

    /// Titles by id, read again when the index changed.
    fn title(&self, id: &SessionId) -> Option<String> {
        let path = self.dir.join("session_index.jsonl");
        let changed = fs::metadata(&path).and_then(|meta| meta.modified()).ok()?;
        let mut titles = self.titles.lock().unwrap_or_else(PoisonError::into_inner);
        if titles.as_ref().is_none_or(|(read, _)| *read != changed) {
            let named = |line: &Value| Some((text(line, "/id")?.to_owned(), text(line, "/thread_name")?.to_owned()));
            *titles = Some((changed, files::lines(&path).ok()?.iter().filter_map(named).collect()));
        }
        titles.as_ref()?.1.get(id.as_str()).cloned()
    }
}

impl Format for Codex {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for top in ["sessions", "archived_sessions"] {
            walk(&self.dir.join(top), 3, &mut entries)?;
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        let (mut draft, mut any) = (Draft::default(), false);
        files::ends(&seen.path, |line| {
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                any |= text(&record, "/type") == Some("session_meta");
                sketch(&mut draft, &record);
            }
        })?;
        draft.titles[0] = self.title(&id);
        Ok(any.then(|| draft.row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let records = files::lines(&seen.path).map_err(files::failed("reading the session"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        let mut draft = Draft::default();
        records.iter().for_each(|record| sketch(&mut draft, record));
        draft.titles[0] = self.title(&id);
        let thoughts = records.iter().any(|record| text(record, "/payload/type") == Some("agent_reasoning"));
        let mut load = Load { build: Build::default(), thoughts, model: None, answered: true };
        for record in records {
            load.record(record);
        }
        Ok(load.build.session("codex", draft.row(id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let id = ids::uuid_for(id, ids::uuid7)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        let model = session.model.as_deref().unwrap_or("unknown");
        let (provider, name) = model.split_once('/').unwrap_or(("openai", model));
        let mut records = vec![line(
            session.created,
            "session_meta",
            json!({
                "id": id, "timestamp": iso(session.created), "cwd": session.cwd, "originator": "codex_cli_rs",
                "cli_version": VERSION, "source": "cli", "model_provider": provider,
            }),
        )];
        let mut named = None;
        for flat in &flats {
            let of = flat.model.as_deref().map_or(name, |model| model.split_once('/').map_or(model, |(_, name)| name));
            if flat.role == Role::Assistant && named != Some(of) {
                named = Some(of);
                let context = json!({
                    "cwd": session.cwd, "approval_policy": "on-request", "sandbox_policy": {"type": "read-only"},
                    "model": of, "summary": "auto",
                });
                records.push(line(flat.at, "turn_context", context));
            }
            write(flat, &mut records);
        }
        let at = time::now();
        let (day, name) = (time::stamp(at, "%Y/%m/%d"), time::stamp(at, "rollout-%Y-%m-%dT%H-%M-%S"));
        let path = self.dir.join("sessions").join(day).join(format!("{name}-{id}.jsonl"));
        files::create(&path, &files::jsonl(&records)).map_err(files::failed("writing the session"))?;
        if let Some(title) = &session.title {
            let named = json!({"id": id, "thread_name": title, "updated_at": iso(at)});
            files::append(&self.dir.join("session_index.jsonl"), &named)
                .map_err(files::failed("naming the session"))?;
        }
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        fs::remove_file(&seen.path).map_err(files::failed("deleting the session"))
    }
}

fn walk(dir: &Path, depth: u8, entries: &mut Vec<Entry>) -> io::Result<()> {
    for path in files::names(dir)? {
        match files::name(&path).strip_prefix("rollout-").and_then(|name| name.strip_suffix(".jsonl")) {
            Some(name) => {
                // The id is the last 36 characters; the time before it has dashes too.
                let id =
                    name.len().checked_sub(36).and_then(|at| name.get(at..)).and_then(|id| SessionId::parse(id).ok());
                entries.extend(id.map(|id| Entry { path: path.clone(), id: Some(id) }));
            }
            None if depth > 0 => walk(&path, depth - 1, entries)?,
            None => {}
        }
    }
    Ok(())
}

/// What people typed; what the agent adds to a prompt begins with a tag or a heading of its own.
fn typed(said: &str) -> bool {
    !said.starts_with('<') && !said.starts_with("# AGENTS.md")
}

fn sketch(draft: &mut Draft, record: &Value) {
    match (text(record, "/type"), text(record, "/payload/type")) {
        (Some("session_meta"), _) => {
            draft.cwd = draft.cwd.take().or_else(|| text(record, "/payload/cwd").map(str::to_owned));
            let at = record.pointer("/payload/timestamp").or_else(|| record.get("timestamp"));
            draft.created = draft.created.or_else(|| at.and_then(ms));
            draft.model = draft.model.take().or_else(|| Some(format!("{}/", text(record, "/payload/model_provider")?)));
        }
        (Some("turn_context"), _) => {
            if let Some(model) = text(record, "/payload/model") {
                let provider = draft.model.as_deref().and_then(|model| model.split('/').next()).unwrap_or("openai");
                draft.model = Some(format!("{provider}/{model}"));
            }
        }
        (Some("response_item"), Some("message")) if text(record, "/payload/role") == Some("user") => {
            let texts = list(record, "/payload/content").iter().filter_map(|part| text(part, "/text"));
            texts.filter(|said| typed(said)).for_each(|said| draft.prompt(said));
        }
        (Some(_) | None, Some(_) | None) => {}
    }
}

struct Load {
    build: Build,
    /// Whether thoughts are told as events; then their items would be the second telling.
    thoughts: bool,
    model: Option<String>,
    /// Whether what the assistant says next is a message of its own.
    answered: bool,
}

impl Load {
    fn record(&mut self, record: Value) {
        let at = record.get("timestamp").and_then(ms).unwrap_or_default();
        let payload = record.get("payload").unwrap_or(&Value::Null);
        match (text(&record, "/type"), text(payload, "/type")) {
            (Some("session_meta"), _) => {
                self.model = text(payload, "/model_provider").map(|provider| format!("{provider}/"));
            }
            (Some("turn_context"), _) => {
                if let Some(model) = text(payload, "/model") {
                    let provider = self.model.as_deref().and_then(|model| model.split('/').next()).unwrap_or("openai");
                    self.model = Some(format!("{provider}/{model}"));
                }
            }
            (Some("event_msg"), Some("agent_reasoning")) => {
                let thought = Part::thinking(text(payload, "/text").unwrap_or_default(), None);
                self.say(Role::Assistant, thought, at);
            }
            (Some("event_msg"), Some("token_count")) => self.usage(payload),
            (Some("compacted"), _) => {
                let summary = text(payload, "/message").map(str::to_owned);
                self.build.push(None, Role::System, vec![Part::boundary(Boundary::Compact, summary)], at);
            }
            (Some("response_item"), Some(_)) => self.item(&record, at),
            (Some("event_msg"), _) => {}
            (Some(_) | None, Some(_) | None) => self.build.keep(record),
        }
    }

    fn say(&mut self, role: Role, part: Part, at: i64) {
        let fresh = std::mem::replace(&mut self.answered, role != Role::Assistant);
        let message = match fresh || role != Role::Assistant {
            true if role == Role::Assistant => self.build.push(None, role, vec![part], at),
            true | false => self.build.join(None, role, part, at),
        };
        if let Some(message) = message.filter(|message| message.role == Role::Assistant) {
            message.model = message.model.take().or_else(|| self.model.clone());
        }
    }

    fn usage(&mut self, payload: &Value) {
        let Some(last) = payload.pointer("/info/last_token_usage") else { return };
        let count = |name: &str| crate::build::count(last, name);
        let usage = Usage {
            input: count("/input_tokens"),
            output: count("/output_tokens"),
            cached: count("/cached_input_tokens"),
            reasoning: count("/reasoning_output_tokens"),
            cost: None,
        };
        if let Some(message) = self.build.last_of(Role::Assistant) {
            message.usage = message.usage.or(Some(usage));
        }
        // It is told once an answer of the model.
        self.answered = true;
    }

    fn item(&mut self, record: &Value, at: i64) {
        let item = record.get("payload").unwrap_or(&Value::Null);
        match text(item, "/type") {
            Some("message") => match text(item, "/role") {
                Some("assistant") => {
                    for said in list(item, "/content").iter().filter_map(|part| text(part, "/text")) {
                        self.say(Role::Assistant, Part::text(said), at);
                    }
                }
                Some("user") => {
                    let parts: Vec<Part> = list(item, "/content").iter().filter_map(input).collect();
                    if parts.iter().all(|part| part.as_text().is_none_or(typed)) {
                        self.answered = true;
                        self.build.push(None, Role::User, parts, at);
                    }
                }
                // Instructions of the agent itself.
                Some(_) | None => {}
            },
            Some("reasoning") if self.thoughts => {}
            Some("reasoning") => {
                for thought in list(item, "/summary").iter().filter_map(|part| text(part, "/text")) {
                    self.say(Role::Assistant, Part::thinking(thought, None), at);
                }
            }
            Some("function_call" | "custom_tool_call") => {
                let arguments = text(item, "/arguments")
                    .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())));
                let input = arguments.or_else(|| item.get("input").cloned()).unwrap_or(Value::Null);
                let name = text(item, "/name").unwrap_or("tool");
                self.say(
                    Role::Assistant,
                    Part::call(call_id(text(item, "/call_id").unwrap_or_default()), name, input),
                    at,
                );
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let output = match item.get("output") {
                    Some(Value::String(text)) => vec![Part::text(text.as_str())],
                    Some(Value::Array(parts)) => parts.iter().filter_map(input).collect(),
                    Some(Value::Object(output)) => {
                        vec![Part::text(output.get("content").and_then(Value::as_str).unwrap_or_default())]
                    }
                    Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => Vec::new(),
                };
                let id = call_id(text(item, "/call_id").unwrap_or_default());
                self.say(Role::Tool, Part::result(id, output, false), at);
            }
            Some(_) | None => self.build.keep(record.clone()),
        }
    }
}

fn input(part: &Value) -> Option<Part> {
    match text(part, "/type") {
        Some("input_image") => text(part, "/image_url").map(Image::part),
        Some(_) | None => text(part, "/text").map(Part::text),
    }
}

fn line(at: i64, kind: &str, payload: Value) -> Value {
    json!({"timestamp": iso(at), "type": kind, "payload": payload})
}

fn write(flat: &Flat, records: &mut Vec<Value>) {
    let mut item = |payload| records.push(line(flat.at, "response_item", payload));
    match flat.role {
        Role::User | Role::System => {
            let content: Value = flat.blocks.iter().filter_map(said).collect();
            item(json!({"type": "message", "role": "user", "content": content}));
            let images: Vec<String> = flat.blocks.iter().filter_map(url).collect();
            let event = json!({
                "type": "user_message", "message": flat.text(), "images": images, "local_images": [], "text_elements": [],
            });
            records.push(line(flat.at, "event_msg", event));
        }
        Role::Assistant | Role::Tool => {
            for block in &flat.blocks {
                let (event, payload) = answer(block);
                records.extend(event.map(|event| line(flat.at, "event_msg", event)));
                records.extend(payload.map(|payload| line(flat.at, "response_item", payload)));
            }
            if let Some(usage) = flat.usage {
                let counts = json!({
                    "input_tokens": usage.input, "cached_input_tokens": usage.cached, "output_tokens": usage.output,
                    "reasoning_output_tokens": usage.reasoning, "total_tokens": usage.input.saturating_add(usage.output),
                });
                let info =
                    json!({"total_token_usage": counts, "last_token_usage": counts, "model_context_window": null});
                records.push(line(
                    flat.at,
                    "event_msg",
                    json!({"type": "token_count", "info": info, "rate_limits": null}),
                ));
            }
        }
    }
}

fn said(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(json!({"type": "input_text", "text": text})),
        Block::Image(image) => Some(json!({"type": "input_image", "image_url": image.url()})),
        Block::Thinking { .. } | Block::Call { .. } | Block::Result { .. } => None,
    }
}

fn url(block: &Block) -> Option<String> {
    if let Block::Image(image) = block { Some(image.url()) } else { None }
}

/// What the screen is told, and what the model gets. Reasoning of another model is not handed to this one.
fn answer(block: &Block) -> (Option<Value>, Option<Value>) {
    match block {
        Block::Text(text) => (
            Some(json!({"type": "agent_message", "message": text})),
            Some(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})),
        ),
        Block::Thinking { text, .. } => (Some(json!({"type": "agent_reasoning", "text": text})), None),
        Block::Call { id, name, input } => {
            (None, Some(json!({"type": "function_call", "name": name, "arguments": input.to_string(), "call_id": id})))
        }
        Block::Result { id, output, .. } => {
            let pictures = output.iter().any(|out| matches!(out, Out::Image(_)));
            let output = if pictures { output.iter().map(piece).collect() } else { json!(output_text(output)) };
            (None, Some(json!({"type": "function_call_output", "call_id": id, "output": output})))
        }
        Block::Image(_) => (None, None),
    }
}

fn piece(out: &Out) -> Value {
    match out {
        Out::Text(text) => json!({"type": "input_text", "text": text}),
        Out::Image(image) => json!({"type": "input_image", "image_url": image.url()}),
    }
}
