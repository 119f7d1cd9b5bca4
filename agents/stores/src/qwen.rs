//! Qwen Code: `projects/<slug>/chats/<uuid>.jsonl`, records in a chain by `parentUuid`, with Google's parts.

use crate::{
    build::{self, Build, Draft, count, text},
    files,
    flat::{Flat, Holds, Lost, Thinking, flatten},
    google, ids,
    time::{iso, ms},
    tree::{Entry, Format, Seen},
};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::PathBuf,
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Part, Role, Session, SessionId, Usage};

const HOLDS: Holds = Holds {
    agent: "qwen",
    thinking: Thinking::Plain,
    images: true,
    result_images: false,
    errors: true,
    usage: true,
    reasoning: true,
    cost: false,
    stop: false,
};

const VERSION: &str = "0.24.4";

const KNOWN: &[&str] =
    &["uuid", "parentUuid", "sessionId", "timestamp", "type", "cwd", "message", "model", "usageMetadata"];

/// The store below `~/.qwen`.
pub(crate) struct Qwen {
    pub(crate) dir: PathBuf,
}

impl Format for Qwen {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for project in files::names(&self.dir.join("projects"))? {
            for path in files::names(&project.join("chats"))? {
                let id = files::name(&path).strip_suffix(".jsonl").and_then(|id| SessionId::parse(id).ok());
                entries.extend(id.map(|id| Entry { path: path.clone(), id: Some(id) }));
            }
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        let mut draft = Draft::default();
        files::ends(&seen.path, |line| {
            if let Ok(record) = serde_json::from_slice::<Value>(line) {
                sketch(&mut draft, &record);
            }
        })?;
        Ok(draft.created.is_some().then(|| draft.row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let records = files::lines(&seen.path).map_err(files::failed("reading the session"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        let mut draft = Draft::default();
        records.iter().for_each(|record| sketch(&mut draft, record));
        let path = path_of(&records);
        let mut build = Build::default();
        for (_, record) in records.into_iter().enumerate().filter(|(at, _)| path.contains(at)) {
            take(&mut build, record);
        }
        Ok(build.session("qwen", draft.row(id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let id = ids::uuid_for(id, ids::uuid4)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        if flats.first().is_some_and(|first| first.at != session.created) {
            lost.note("the time of creation; that of the first message stands for it");
        }
        let mut parent: Option<String> = None;
        let mut records = Vec::new();
        for flat in &flats {
            let uuid = ids::uuid4();
            let mut record = json!({
                "uuid": uuid, "parentUuid": parent, "sessionId": id, "timestamp": iso(flat.at), "type": kind(flat),
                "cwd": session.cwd, "version": VERSION,
                "message": {
                    "role": if flat.role == Role::Assistant { "model" } else { "user" },
                    "parts": flat.blocks.iter().map(google::part).collect::<Value>(),
                },
            });
            if let Some(members) = record.as_object_mut().filter(|_| flat.role == Role::Assistant) {
                let model = flat.model.as_deref().or(session.model.as_deref()).unwrap_or("unknown");
                members.insert("model".into(), json!(model));
                if let Some(usage) = flat.usage {
                    members.insert("usageMetadata".into(), counts(usage));
                }
            }
            records.push(record);
            parent = Some(uuid);
        }
        if let Some(title) = &session.title {
            records.push(json!({
                "uuid": ids::uuid4(), "parentUuid": parent, "sessionId": id, "timestamp": iso(session.updated), "type": "system",
                "subtype": "custom_title", "cwd": session.cwd, "version": VERSION,
                "systemPayload": {"customTitle": title, "titleSource": "manual"},
            }));
        }
        let path = self.dir.join("projects").join(ids::slug(&session.cwd)).join("chats").join(format!("{id}.jsonl"));
        files::create(&path, &files::jsonl(&records)).map_err(files::failed("writing the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        fs::remove_file(&seen.path).map_err(files::failed("deleting the session"))
    }
}

fn kind(flat: &Flat) -> &'static str {
    match flat.role {
        Role::User | Role::System => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool_result",
    }
}

fn counts(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.input, "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning, "cachedContentTokenCount": usage.cached,
        "totalTokenCount": usage.input.saturating_add(usage.output),
    })
}

/// The records on the way from the last one to the root.
fn path_of(records: &[Value]) -> HashSet<usize> {
    let places: HashMap<&str, usize> =
        records.iter().enumerate().filter_map(|(at, record)| Some((text(record, "/uuid")?, at))).collect();
    let mut path = HashSet::new();
    let mut next = records.len().checked_sub(1);
    while let Some((at, record)) = next.and_then(|at| Some((at, records.get(at)?))) {
        if !path.insert(at) {
            break;
        }
        next = text(record, "/parentUuid").and_then(|uuid| places.get(uuid)).copied();
    }
    path
}

fn sketch(draft: &mut Draft, record: &Value) {
    draft.created = draft.created.or_else(|| record.get("timestamp").and_then(ms));
    draft.cwd = draft.cwd.take().or_else(|| text(record, "/cwd").map(str::to_owned));
    if let (Some(title), [place, ..]) = (text(record, "/systemPayload/customTitle"), &mut draft.titles) {
        *place = Some(title.to_owned());
    }
    draft.model = text(record, "/model").map(str::to_owned).or(draft.model.take());
    if text(record, "/type") == Some("user") {
        let (_, rest) = google::parts(record.pointer("/message/parts").unwrap_or(&Value::Null));
        rest.iter().find_map(Part::as_text).into_iter().for_each(|said| draft.prompt(said));
    }
}

fn take(build: &mut Build, record: Value) {
    let role = match text(&record, "/type") {
        Some("user" | "tool_result") => Role::User,
        Some("assistant") => Role::Assistant,
        Some(_) | None => {
            if text(&record, "/subtype") != Some("custom_title") {
                build.keep(record);
            }
            return;
        }
    };
    let at = record.get("timestamp").and_then(ms).unwrap_or_default();
    let (results, rest) = google::parts(record.pointer("/message/parts").unwrap_or(&Value::Null));
    for (role, parts) in [(Role::Tool, results), (role, rest)] {
        let Some(message) = build.push(text(&record, "/uuid"), role, parts, at) else { continue };
        build::beside(message, "qwen", &record, KNOWN);
        if role == Role::Assistant {
            message.model = text(&record, "/model").map(str::to_owned);
            message.usage = record.get("usageMetadata").map(usage);
        }
    }
}

/// Google's counts.
fn usage(counts: &Value) -> Usage {
    let reasoning = count(counts, "/thoughtsTokenCount");
    Usage {
        input: count(counts, "/promptTokenCount"),
        output: count(counts, "/candidatesTokenCount").saturating_add(reasoning),
        cached: count(counts, "/cachedContentTokenCount"),
        reasoning,
        cost: None,
    }
}
