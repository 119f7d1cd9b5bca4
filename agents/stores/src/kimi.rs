//! Kimi Code: `sessions/wd_<name>_<hash>/session_<uuid>/` with `state.json` and `agents/main/wire.jsonl`, a log of what happened.

use crate::{
    build::{Build, Draft, call_id, count, list, text},
    files,
    flat::{Block, Flat, Holds, Image, Lost, Thinking, first_prompt, flatten, output_text},
    ids,
    time::ms,
    tree::{Entry, Format, Seen},
};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{ErrorCode, Part, Role, Session, SessionId, Usage};

const HOLDS: Holds = Holds {
    agent: "kimi",
    thinking: Thinking::Plain,
    images: true,
    result_images: false,
    errors: true,
    usage: true,
    reasoning: false,
    cost: false,
    stop: false,
};

/// The store below `~/.kimi-code`.
pub(crate) struct Kimi {
    pub(crate) dir: PathBuf,
}

const PREFIX: &str = "session_";

impl Format for Kimi {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for project in files::names(&self.dir.join("sessions"))? {
            for dir in files::names(&project)? {
                let id = Some(files::name(&dir))
                    .filter(|name| name.starts_with(PREFIX))
                    .and_then(|id| SessionId::parse(id).ok());
                entries.extend(id.map(|id| Entry { path: dir.join("state.json"), id: Some(id) }));
            }
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        Ok(Some(sketch(&files::small(&seen.path)?, id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let state = files::whole(&seen.path).map_err(files::failed("reading the session's state"))?;
        let dir = seen.path.parent().unwrap_or(Path::new("/"));
        let wire = dir.join("agents").join("main").join("wire.jsonl");
        let records = files::lines(&wire).map_err(files::failed("reading the session"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(dir)), Ok)?;
        let mut build = Build::default();
        let mut fresh = true;
        for record in records {
            take(&mut build, record, &mut fresh);
        }
        Ok(build.session("kimi", sketch(&state, id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        if id.is_some_and(|id| !id.as_str().starts_with(PREFIX)) {
            return Err(StoreFailure::new(ErrorCode::Invalid, "id: sessions of Kimi begin with `session_`"));
        }
        let id = id.cloned().map_or_else(|| ids::parse(&format!("{PREFIX}{}", ids::uuid4())), Ok)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        if session.model.is_some() || session.messages.iter().any(|message| message.model.is_some()) {
            lost.note("the model");
        }
        let name = Path::new(&session.cwd).file_name().and_then(|name| name.to_str()).unwrap_or("root");
        let hash = ids::sha256(&session.cwd);
        let project = format!("wd_{name}_{}", hash.get(..12).unwrap_or(&hash));
        let dir = self.dir.join("sessions").join(project).join(id.as_str());
        let prompt = first_prompt(&flats);
        let last = flats.iter().rev().find(|flat| flat.role == Role::User).map(Flat::text).unwrap_or_default();
        let state = json!({
            "id": id, "version": 2, "cwd": session.cwd, "createdAt": session.created, "updatedAt": session.updated, "archived": false,
            "agents": {"main": {"homedir": dir.join("agents").join("main"), "type": "main"}}, "custom": {}, "lastPrompt": last,
            "title": session.title.clone().unwrap_or(prompt), "titleKind": "replaceable", "isCustomTitle": session.title.is_some(),
        });
        let mut writer = Writer { records: Vec::new(), turn: 0, step: 0, calls: Vec::new() };
        writer.records.push(json!({"type": "metadata", "protocol_version": "1.5", "created_at": session.created}));
        flats.iter().for_each(|flat| writer.message(flat));
        let made = [
            (PathBuf::from("agents/main/wire.jsonl"), files::jsonl(&writer.records)),
            (PathBuf::from("state.json"), state.to_string().into_bytes()),
        ];
        files::create_dir(&dir, &made).map_err(files::failed("writing the session"))?;
        let index = json!({"sessionId": id, "sessionDir": dir, "workDir": session.cwd});
        files::append(&self.dir.join("session_index.jsonl"), &index).map_err(files::failed("naming the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        let dir = seen.path.parent().unwrap_or(&seen.path);
        files::must_be_free(&[dir])?;
        fs::remove_dir_all(dir).map_err(files::failed("deleting the session"))
    }
}

fn sketch(state: &Value, id: SessionId, updated: i64) -> StoreRow {
    let mut draft = Draft {
        cwd: text(state, "/cwd").map(str::to_owned),
        titles: [text(state, "/title").map(str::to_owned), None, None],
        model: None,
        created: state.get("createdAt").and_then(ms),
    };
    text(state, "/lastPrompt").into_iter().for_each(|said| draft.prompt(said));
    draft.row(id, updated)
}

fn take(build: &mut Build, record: Value, fresh: &mut bool) {
    let at = record.get("time").and_then(ms).unwrap_or_default();
    match text(&record, "/type") {
        Some("context.append_message") => {
            *fresh = true;
            let message = record.get("message").unwrap_or(&Value::Null);
            let role = if text(message, "/role") == Some("assistant") { Role::Assistant } else { Role::User };
            let parts = list(message, "/content").iter().map(part).collect();
            build.push(text(message, "/id"), role, parts, at);
        }
        Some("context.append_loop_event") => event(build, record.get("event").unwrap_or(&Value::Null), at, fresh),
        Some("metadata" | "turn.prompt" | "usage.record") => {}
        Some(_) | None => build.keep(record),
    }
}

fn event(build: &mut Build, event: &Value, at: i64, fresh: &mut bool) {
    let said = match text(event, "/type") {
        Some("content.part") => event.get("part").map(part),
        Some("tool.call") => {
            let input = event.get("args").cloned().unwrap_or_else(|| json!({}));
            let id = call_id(text(event, "/toolCallId").unwrap_or_default());
            Some(Part::call(id, text(event, "/name").unwrap_or("tool"), input))
        }
        Some("tool.result") => {
            let output = match event.pointer("/result/output") {
                Some(Value::String(text)) => vec![Part::text(text.as_str())],
                Some(Value::Array(parts)) => parts.iter().map(part).collect(),
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
            };
            let error = event.pointer("/result/isError").and_then(Value::as_bool).unwrap_or_default();
            let id = call_id(text(event, "/toolCallId").unwrap_or_default());
            build.join(None, Role::Tool, Part::result(id, output, error), at);
            return;
        }
        Some("step.begin") => {
            *fresh = true;
            return;
        }
        Some("step.end") => {
            let read = count(event, "/usage/inputCacheRead");
            let input = count(event, "/usage/inputOther")
                .saturating_add(read)
                .saturating_add(count(event, "/usage/inputCacheCreation"));
            let usage = Usage { input, output: count(event, "/usage/output"), cached: read, ..Usage::default() };
            if let Some(message) = build.last_of(Role::Assistant).filter(|_| usage != Usage::default()) {
                message.usage = message.usage.or(Some(usage));
            }
            return;
        }
        Some(_) | None => return,
    };
    let Some(said) = said else { return };
    let fresh = std::mem::take(fresh);
    if let Some(message) = build.last_of(Role::Assistant).filter(|_| !fresh) {
        message.parts.push(said);
    } else {
        build.push(None, Role::Assistant, vec![said], at);
    }
}

fn part(part: &Value) -> Part {
    match text(part, "/type") {
        Some("text") => Part::text(text(part, "/text").unwrap_or_default()),
        Some("think") => Part::thinking(text(part, "/think").unwrap_or_default(), None),
        Some("image_url") => Image::part(text(part, "/imageUrl/url").unwrap_or_default()),
        Some(_) | None => part.as_object().cloned().map_or_else(|| Part::text(part.to_string()), Part::Other),
    }
}

struct Writer {
    records: Vec<Value>,
    turn: u64,
    step: u64,
    /// Records of the calls that wait for their result, by id.
    calls: Vec<(String, String)>,
}

impl Writer {
    fn event(&mut self, at: i64, event: Value) {
        self.records.push(json!({"type": "context.append_loop_event", "agentId": "main", "event": event, "time": at}));
    }

    fn message(&mut self, flat: &Flat) {
        match flat.role {
            Role::User | Role::System => self.prompt(flat),
            Role::Assistant => self.answer(flat),
            Role::Tool => {
                for block in &flat.blocks {
                    let Block::Result { id, output, error, .. } = block else { continue };
                    let parent = self.calls.iter().rev().find(|(call, _)| call == id).map(|(_, uuid)| uuid.clone());
                    let mut result = json!({"output": output_text(output)});
                    if let Some(members) = result.as_object_mut().filter(|_| *error) {
                        members.insert("isError".into(), json!(true));
                    }
                    self.event(
                        flat.at,
                        json!({"type": "tool.result", "parentUuid": parent, "toolCallId": id, "result": result}),
                    );
                }
            }
        }
    }

    fn prompt(&mut self, flat: &Flat) {
        let content: Value = flat.blocks.iter().filter_map(content).collect();
        let id = format!("msg_{}", ids::uuid4());
        let origin = json!({"kind": "user"});
        self.records.push(json!({
            "type": "turn.prompt", "agentId": "main", "input": content, "origin": origin, "promptId": id, "turnId": self.turn,
            "time": flat.at,
        }));
        self.records.push(json!({
            "type": "context.append_message", "agentId": "main", "time": flat.at,
            "message": {"role": "user", "content": content, "id": id, "toolCalls": [], "origin": origin},
        }));
        (self.turn, self.step) = (self.turn + 1, 0);
    }

    fn answer(&mut self, flat: &Flat) {
        self.step += 1;
        let (step, turn, number) = (ids::uuid4(), self.turn.saturating_sub(1).to_string(), self.step);
        self.event(flat.at, json!({"type": "step.begin", "uuid": step, "turnId": turn, "step": number}));
        for block in &flat.blocks {
            let uuid = ids::uuid4();
            let mut event = match block {
                Block::Call { id, name, input } => {
                    self.calls.push((id.clone(), uuid.clone()));
                    json!({"type": "tool.call", "toolCallId": id, "name": name, "args": input})
                }
                other => match content(other) {
                    Some(part) => json!({"type": "content.part", "part": part}),
                    None => continue,
                },
            };
            if let Some(members) = event.as_object_mut() {
                members.extend([
                    ("uuid".to_owned(), json!(uuid)),
                    ("turnId".to_owned(), json!(turn)),
                    ("step".to_owned(), json!(number)),
                    ("stepUuid".to_owned(), json!(step)),
                ]);
            }
            self.event(flat.at, event);
        }
        let usage = flat.usage.unwrap_or_default();
        self.event(
            flat.at,
            json!({
                "type": "step.end", "uuid": step, "turnId": turn, "step": number,
                "finishReason": if flat.calls() { "tool_use" } else { "end_turn" },
                "usage": {
                    "inputOther": usage.input.saturating_sub(usage.cached), "output": usage.output,
                    "inputCacheRead": usage.cached, "inputCacheCreation": 0,
                },
            }),
        );
    }
}

fn content(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(json!({"type": "text", "text": text})),
        Block::Thinking { text, .. } => Some(json!({"type": "think", "think": text})),
        Block::Image(image) => Some(json!({"type": "image_url", "imageUrl": {"url": image.url()}})),
        Block::Call { .. } | Block::Result { .. } => None,
    }
}
