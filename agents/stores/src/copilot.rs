//! Copilot CLI: `session-state/<uuid>/` with `events.jsonl`, a chain of events, and `workspace.yaml`.

use crate::{
    build::{Build, Draft, call_id, list, text},
    files,
    flat::{Block, Flat, Holds, Lost, Thinking, first_prompt, flatten, output_text},
    ids,
    time::{iso, ms},
    tree::{Entry, Format, Seen},
};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Part, Role, Session, SessionId};

const HOLDS: Holds = Holds {
    agent: "copilot",
    thinking: Thinking::Plain,
    images: false,
    result_images: false,
    errors: true,
    usage: false,
    reasoning: true,
    cost: true,
    stop: false,
};

const VERSION: &str = "1.0.102";

/// The store below `~/.copilot`.
pub(crate) struct Copilot {
    pub(crate) dir: PathBuf,
}

impl Format for Copilot {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let entry = |dir: PathBuf| {
            let id = SessionId::parse(files::name(&dir)).ok()?;
            Some(Entry { path: dir.join("events.jsonl"), id: Some(id) })
        };
        Ok(files::names(&self.dir.join("session-state"))?.into_iter().filter_map(entry).collect())
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        let mut draft = Draft::default();
        files::ends(&seen.path, |line| {
            if let Ok(event) = serde_json::from_slice::<Value>(line) {
                sketch(&mut draft, &event);
            }
        })?;
        workspace(&mut draft, &seen.path);
        Ok(draft.created.is_some().then(|| draft.row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let events = files::lines(&seen.path).map_err(files::failed("reading the session"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        let (mut draft, mut build) = (Draft::default(), Build::default());
        for event in events {
            sketch(&mut draft, &event);
            take(&mut build, event);
        }
        workspace(&mut draft, &seen.path);
        Ok(build.session("copilot", draft.row(id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let id = ids::uuid_for(id, ids::uuid4)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        if session.messages.iter().any(|message| message.model.is_some()) {
            lost.note("which model wrote a message");
        }
        let start = json!({
            "sessionId": id, "version": 1, "producer": "copilot-agent", "copilotVersion": VERSION,
            "startTime": iso(session.created), "context": {"cwd": session.cwd}, "selectedModel": session.model,
        });
        let mut writer = Writer { events: Vec::new(), parent: None };
        writer.event("session.start", session.created, start);
        flats.iter().for_each(|flat| writer.message(flat));
        let title = session.title.clone().unwrap_or_else(|| first_prompt(&flats));
        // A JSON text is a YAML text, whatever a title holds.
        let about = format!(
            "id: {id}\ncwd: {}\nsummary: {}\ncreated_at: {}\nupdated_at: {}\n",
            json!(session.cwd),
            json!(title),
            iso(session.created),
            iso(session.updated)
        );
        let made = [
            (PathBuf::from("workspace.yaml"), about.into_bytes()),
            (PathBuf::from("events.jsonl"), files::jsonl(&writer.events)),
        ];
        let dir = self.dir.join("session-state").join(id.as_str());
        files::create_dir(&dir, &made).map_err(files::failed("writing the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        let dir = seen.path.parent().unwrap_or(&seen.path);
        files::must_be_free(&[dir])?;
        fs::remove_dir_all(dir).map_err(files::failed("deleting the session"))
    }
}

fn sketch(draft: &mut Draft, event: &Value) {
    match text(event, "/type") {
        Some("session.start") => {
            draft.created = event.pointer("/data/startTime").or_else(|| event.get("timestamp")).and_then(ms);
            draft.cwd = text(event, "/data/context/cwd").map(str::to_owned);
            draft.model = text(event, "/data/selectedModel").map(str::to_owned);
        }
        Some("user.message") => text(event, "/data/content").into_iter().for_each(|said| draft.prompt(said)),
        Some(_) | None => {}
    }
}

/// The title: `summary`, on one line of a small YAML file.
fn workspace(draft: &mut Draft, events: &Path) {
    let about = fs::read_to_string(events.with_file_name("workspace.yaml")).unwrap_or_default();
    let member = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(plain);
    draft.titles[0] = member("summary:").filter(|summary| !summary.starts_with(['|', '>']));
    draft.cwd = draft.cwd.take().or_else(|| member("cwd:"));
}

fn plain(scalar: &str) -> String {
    serde_json::from_str(scalar).unwrap_or_else(|_| scalar.trim_matches('\'').replace("''", "'"))
}

fn take(build: &mut Build, event: Value) {
    let at = event.get("timestamp").and_then(ms).unwrap_or_default();
    let data = event.get("data").unwrap_or(&Value::Null);
    let id = text(&event, "/id");
    match text(&event, "/type") {
        Some("user.message") => {
            let parts = text(data, "/content").map(Part::text).into_iter().collect();
            build.push(id, Role::User, parts, at);
        }
        Some("assistant.message") => {
            let mut parts = Vec::new();
            parts.extend(text(data, "/reasoningText").map(|thought| Part::thinking(thought, None)));
            parts.extend(text(data, "/content").filter(|said| !said.is_empty()).map(Part::text));
            for call in list(data, "/toolRequests") {
                let input = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
                let id = call_id(text(call, "/toolCallId").unwrap_or_default());
                parts.push(Part::call(id, text(call, "/name").unwrap_or("tool"), input));
            }
            build.push(text(data, "/messageId").or(id), Role::Assistant, parts, at);
        }
        Some("tool.execution_complete") => {
            let said = text(data, "/result/content").or_else(|| text(data, "/error/message"));
            let output = said.map(Part::text).into_iter().collect();
            let done = data.get("success").and_then(Value::as_bool).unwrap_or(true);
            let call = call_id(text(data, "/toolCallId").unwrap_or_default());
            build.join(id, Role::Tool, Part::result(call, output, !done), at);
        }
        Some("session.start" | "tool.execution_start" | "assistant.turn_start" | "assistant.turn_end") => {}
        Some(_) | None => build.keep(event),
    }
}

struct Writer {
    events: Vec<Value>,
    parent: Option<String>,
}

impl Writer {
    fn event(&mut self, kind: &str, at: i64, data: Value) {
        let id = ids::uuid4();
        self.events.push(json!({"type": kind, "data": data, "id": id, "timestamp": iso(at), "parentId": self.parent}));
        self.parent = Some(id);
    }

    fn message(&mut self, flat: &Flat) {
        match flat.role {
            Role::User | Role::System => self.event("user.message", flat.at, json!({"content": flat.text()})),
            Role::Assistant => {
                let (mut thoughts, mut requests) = (Vec::new(), Vec::new());
                for block in &flat.blocks {
                    match block {
                        Block::Thinking { text, .. } => thoughts.push(text.as_str()),
                        Block::Call { id, name, input } => requests.push((id, name, input)),
                        Block::Text(_) | Block::Result { .. } | Block::Image(_) => {}
                    }
                }
                let request = |(id, name, input): &(&String, &String, &Value)| json!({"toolCallId": id, "name": name, "arguments": input, "type": "function"});
                let mut data = json!({
                    "messageId": ids::uuid4(), "content": flat.text(), "toolRequests": requests.iter().map(request).collect::<Value>(),
                });
                if let Some(members) = data.as_object_mut().filter(|_| !thoughts.is_empty()) {
                    members.insert("reasoningText".into(), json!(thoughts.join("\n")));
                }
                self.event("assistant.message", flat.at, data);
                for (id, name, input) in requests {
                    self.event(
                        "tool.execution_start",
                        flat.at,
                        json!({"toolCallId": id, "toolName": name, "arguments": input}),
                    );
                }
            }
            Role::Tool => {
                for block in &flat.blocks {
                    let Block::Result { id, output, error, .. } = block else { continue };
                    let said = output_text(output);
                    let data = match error {
                        false => {
                            json!({"toolCallId": id, "success": true, "result": {"content": said, "detailedContent": said}})
                        }
                        true => json!({"toolCallId": id, "success": false, "error": {"message": said}}),
                    };
                    self.event("tool.execution_complete", flat.at, data);
                }
            }
        }
    }
}
