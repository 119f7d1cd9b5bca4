//! Claude Code: `projects/<slug of the directory>/<uuid>.jsonl`, a tree of records by `parentUuid`; the conversation is the path
//! from the newest leaf to the root. One message of the model is several records with one `message.id`.

use crate::{
    build::{self, Build, Draft, anthropic, anthropic_usage, list, text},
    files,
    flat::{Block, Flat, Holds, Lost, Out, Thinking, first_prompt, flatten},
    ids,
    time::{iso, ms},
    tree::{Entry, Format, Seen},
};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::PathBuf,
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{
    Part, Role, Session, SessionId, Stop,
    ir::{Boundary, KnownPart},
};

/// What its records are written as.
const VERSION: &str = "2.1.0";

const HOLDS: Holds = Holds {
    agent: "claude",
    thinking: Thinking::Signed,
    images: true,
    result_images: true,
    errors: true,
    usage: true,
    stop: true,
};

/// Members of a record that have a place in the IR, or that belong to one file alone.
const KNOWN: &[&str] = &[
    "parentUuid",
    "logicalParentUuid",
    "uuid",
    "isSidechain",
    "type",
    "timestamp",
    "sessionId",
    "session_id",
    "message",
    "cwd",
];

/// The store below `~/.claude`.
pub(crate) struct Claude {
    pub(crate) dir: PathBuf,
}

impl Format for Claude {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for project in files::names(&self.dir.join("projects"))? {
            for path in files::names(&project)? {
                let id = files::name(&path).strip_suffix(".jsonl").and_then(|id| SessionId::parse(id).ok());
                // `agent-*` are conversations of subagents, in older versions beside those of people.
                if let Some(id) = id.filter(|id| !id.as_str().starts_with("agent-")) {
                    entries.push(Entry { path, id: Some(id) });
                }
            }
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        let (mut draft, mut any) = (Draft::default(), false);
        files::ends(&seen.path, |line| {
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                any |= said(&record);
                sketch(&mut draft, &record);
            }
        })?;
        Ok(any.then(|| draft.row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let records = files::lines(&seen.path).map_err(files::failed("reading the session"))?;
        let mut draft = Draft::default();
        records.iter().for_each(|record| sketch(&mut draft, record));
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        let path = path_of(&records);
        let mut build = Build::default();
        let mut open: Option<String> = None;
        for (at, record) in records.into_iter().enumerate() {
            match text(&record, "/type") {
                Some("user" | "assistant") if path.contains(&at) => take(&mut build, &record, &mut open),
                Some("system") if path.contains(&at) && text(&record, "/subtype") == Some("compact_boundary") => {
                    let parts = vec![Part::boundary(Boundary::Compact, None)];
                    build.push(text(&record, "/uuid"), Role::System, parts, moment(&record));
                }
                Some("user" | "assistant" | "ai-title" | "custom-title" | "summary" | "last-prompt") => {}
                Some(_) | None => build.keep(record),
            }
        }
        Ok(build.session("claude", draft.row(id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let id = ids::uuid_for(id, ids::uuid4)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        let mut writer = Writer { id: id.as_str(), cwd: &session.cwd, parent: None, records: Vec::new() };
        flats.iter().for_each(|flat| writer.message(flat, session.model.as_deref()));
        let Writer { parent, mut records, .. } = writer;
        if let Some(title) = &session.title {
            records.push(json!({"type": "custom-title", "customTitle": title, "sessionId": id}));
        }
        if let Some(leaf) = parent {
            records.push(json!({
                "type": "last-prompt", "lastPrompt": first_prompt(&flats), "leafUuid": leaf, "sessionId": id,
            }));
        }
        let path = self.dir.join("projects").join(ids::slug(&session.cwd)).join(format!("{id}.jsonl"));
        files::create(&path, &files::jsonl(&records)).map_err(files::failed("writing the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        // Conversations of its subagents and results that were too long for a line.
        let beside = seen.path.with_extension("");
        fs::remove_file(&seen.path).map_err(files::failed("deleting the session"))?;
        if beside.is_dir() {
            fs::remove_dir_all(&beside).map_err(files::failed("deleting what belongs to the session"))?;
        }
        Ok(())
    }
}

fn said(record: &Value) -> bool {
    matches!(text(record, "/type"), Some("user" | "assistant"))
}

fn sidechain(record: &Value) -> bool {
    record.get("isSidechain").and_then(Value::as_bool).unwrap_or_default()
}

fn moment(record: &Value) -> i64 {
    record.get("timestamp").and_then(ms).unwrap_or_default()
}

/// What a row needs of a record.
fn sketch(draft: &mut Draft, record: &Value) {
    let [custom, own, _] = &mut draft.titles;
    match text(record, "/type") {
        Some("custom-title") => *custom = text(record, "/customTitle").map(str::to_owned),
        Some("ai-title") => *own = text(record, "/aiTitle").map(str::to_owned),
        Some("summary") => *own = text(record, "/summary").map(str::to_owned),
        Some("user") if !sidechain(record) => {
            let meta = record.get("isMeta").and_then(Value::as_bool).unwrap_or_default();
            let content = record.pointer("/message/content").unwrap_or(&Value::Null);
            let said = content.as_str().or_else(|| list(content, "").iter().find_map(|block| text(block, "/text")));
            if let Some(said) = said.filter(|said| !meta && !said.starts_with('<')) {
                draft.prompt(said);
            }
        }
        Some("assistant") => {
            let model = text(record, "/message/model").filter(|model| !model.starts_with('<'));
            draft.model = model.map(provided).or(draft.model.take());
        }
        Some(_) | None => {}
    }
    if said(record) {
        draft.cwd = draft.cwd.take().or_else(|| text(record, "/cwd").map(str::to_owned));
        draft.created = draft.created.or_else(|| record.get("timestamp").and_then(ms));
    }
}

/// A model's name with its provider.
fn provided(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("anthropic/{model}") }
}

/// Which records are the conversation, by their place in the file.
fn path_of(records: &[Value]) -> HashSet<usize> {
    let by_uuid: HashMap<&str, usize> =
        records.iter().enumerate().filter_map(|(at, record)| Some((text(record, "/uuid")?, at))).collect();
    let mut path = HashSet::new();
    let mut next = records.iter().rposition(|record| said(record) && !sidechain(record));
    while let Some((at, record)) = next.and_then(|at| Some((at, records.get(at)?))) {
        if !path.insert(at) {
            break;
        }
        // Behind a compaction the tree goes on under another name.
        let parent = text(record, "/parentUuid").or_else(|| text(record, "/logicalParentUuid"));
        next = parent.and_then(|uuid| by_uuid.get(uuid)).copied();
    }
    // Calls that ran at once are branches: the rest of their message, and their results, belong to it too.
    let (mut messages, mut calls) = (HashSet::new(), HashSet::new());
    for at in &path {
        if let Some(record) = records.get(*at) {
            messages.extend(text(record, "/message/id"));
        }
    }
    for (at, record) in records.iter().enumerate().filter(|(_, record)| !sidechain(record)) {
        if path.contains(&at) || text(record, "/message/id").is_some_and(|id| messages.contains(id)) {
            path.insert(at);
            calls.extend(list(record, "/message/content").iter().filter_map(|block| match text(block, "/type") {
                Some("tool_use") => text(block, "/id"),
                Some(_) | None => None,
            }));
        } else if list(record, "/message/content")
            .iter()
            .any(|block| text(block, "/tool_use_id").is_some_and(|id| calls.contains(id)))
        {
            path.insert(at);
        }
    }
    path
}

fn take(build: &mut Build, record: &Value, open: &mut Option<String>) {
    let at = moment(record);
    let uuid = text(record, "/uuid");
    let (results, rest) = anthropic(record.pointer("/message/content").unwrap_or(&Value::Null));
    if text(record, "/type") == Some("user") {
        *open = None;
        if record.get("isCompactSummary").and_then(Value::as_bool).unwrap_or_default() {
            let summary: Vec<&str> = rest.iter().filter_map(Part::as_text).collect();
            if let Some(Part::Known(KnownPart::Boundary { summary: place @ None, .. })) =
                build.last().and_then(|last| last.parts.first_mut())
            {
                *place = Some(summary.join("\n"));
                return;
            }
        }
        for (role, parts) in [(Role::Tool, results), (Role::User, rest)] {
            if let Some(message) = build.push(uuid, role, parts, at) {
                build::beside(message, "claude", record, KNOWN);
            }
        }
        return;
    }
    let id = text(record, "/message/id").or(uuid).map(str::to_owned);
    let usage = record.pointer("/message/usage").and_then(anthropic_usage);
    let stop = text(record, "/message/stop_reason").map(stop_of);
    let same = open.is_some() && *open == id;
    let message = match build.last().filter(|last| same && last.role == Role::Assistant) {
        Some(last) => {
            last.parts.extend(rest);
            build.last()
        }
        None => build.push(uuid, Role::Assistant, rest, at),
    };
    if let Some(message) = message {
        message.model = text(record, "/message/model").map(provided).or(message.model.take());
        message.usage = usage.or(message.usage);
        message.stop = stop.or(message.stop);
        build::beside(message, "claude", record, KNOWN);
    }
    *open = id;
}

fn stop_of(reason: &str) -> Stop {
    match reason {
        "max_tokens" => Stop::MaxTokens,
        "refusal" => Stop::Refused,
        _ => Stop::Completed,
    }
}

/// Records as they go into the file.
struct Writer<'a> {
    id: &'a str,
    cwd: &'a str,
    parent: Option<String>,
    records: Vec<Value>,
}

impl Writer<'_> {
    fn record(&mut self, kind: &str, flat: &Flat, message: Value) {
        let uuid = ids::uuid4();
        let mut record = json!({
            "parentUuid": self.parent, "isSidechain": false, "userType": "external", "cwd": self.cwd,
            "sessionId": self.id, "version": VERSION, "gitBranch": "", "type": kind, "message": message,
            "uuid": uuid, "timestamp": iso(flat.at),
        });
        if let Some(members) = record.as_object_mut() {
            let own = flat.own.iter().filter(|(key, _)| !KNOWN.contains(&key.as_str()));
            members.extend(own.map(|(key, value)| (key.clone(), value.clone())));
        }
        self.records.push(record);
        self.parent = Some(uuid);
    }

    fn message(&mut self, flat: &Flat, model: Option<&str>) {
        match flat.role {
            Role::Assistant => {
                let id = format!("msg_{}", ids::letters(24));
                let model = flat.model.as_deref().or(model).unwrap_or("unknown");
                let model = model.strip_prefix("anthropic/").unwrap_or(model);
                for block in &flat.blocks {
                    let message = json!({
                        "id": id, "type": "message", "role": "assistant", "model": model, "content": [content(block)],
                        "stop_reason": stop_reason(flat), "stop_sequence": null, "usage": usage(flat),
                    });
                    self.record("assistant", flat, message);
                }
            }
            Role::User | Role::Tool | Role::System => {
                let content = match flat.blocks.as_slice() {
                    [Block::Text(text)] => json!(text),
                    blocks => blocks.iter().map(content).collect(),
                };
                self.record("user", flat, json!({"role": "user", "content": content}));
            }
        }
    }
}

fn stop_reason(flat: &Flat) -> Value {
    match flat.stop {
        Some(Stop::MaxTokens) => json!("max_tokens"),
        Some(Stop::Refused) => json!("refusal"),
        Some(Stop::Completed | Stop::Aborted | Stop::MaxTurns | Stop::Error) => {
            json!(if flat.calls() { "tool_use" } else { "end_turn" })
        }
        None => Value::Null,
    }
}

fn usage(flat: &Flat) -> Value {
    let usage = flat.usage.unwrap_or_default();
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached), "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached, "output_tokens": usage.output,
    })
}

/// A block of Anthropic's.
pub(crate) fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Thinking { text, signature } => {
            let mut thinking =
                Map::from_iter([("type".to_owned(), json!("thinking")), ("thinking".to_owned(), json!(text))]);
            if let Some(signature) = signature {
                thinking.insert("signature".into(), json!(signature));
            }
            Value::Object(thinking)
        }
        Block::Call { id, name, input } => json!({"type": "tool_use", "id": id, "name": name, "input": input}),
        Block::Result { id, output, error, .. } => {
            let content: Value = match output.as_slice() {
                [Out::Text(text)] => json!(text),
                output => output.iter().map(out).collect(),
            };
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error})
        }
        Block::Image(image) => picture(&image.mime, &image.data),
    }
}

fn out(out: &Out) -> Value {
    match out {
        Out::Text(text) => json!({"type": "text", "text": text}),
        Out::Image(image) => picture(&image.mime, &image.data),
    }
}

fn picture(mime: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}})
}
