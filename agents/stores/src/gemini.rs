//! Gemini CLI: `tmp/<slug>/chats/session-<minute>-<first 8 of the id>.jsonl`; slugs lie in `projects.json`.
//! It loses sessions in two ways, both kept away from here: a file whose name has the running minute is written over when it is
//! loaded in that minute, so names here are of a minute that is past; and its clean-up deletes every file whose name has the
//! same first 8 characters, so an id whose first 8 are in use is not taken.

use crate::{
    build::{Build, Draft, count, list, text},
    files,
    flat::{Block, Flat, Holds, Lost, Out, Thinking, flatten},
    google, ids,
    time::{self, iso, ms},
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
    agent: "gemini",
    thinking: Thinking::Plain,
    images: true,
    result_images: false,
    errors: true,
    usage: true,
    reasoning: true,
    cost: false,
    stop: false,
};

/// How far in the past a new file's name is at least.
const PAST_MS: i64 = 120_000;

/// The store below `~/.gemini`.
pub(crate) struct Gemini {
    pub(crate) dir: PathBuf,
}

impl Gemini {
    /// The directory of a project's sessions, with what the agent keeps to find it.
    fn project(&self, cwd: &str) -> io::Result<PathBuf> {
        let index = self.dir.join("projects.json");
        let mut known = files::whole(&index).unwrap_or_else(|_| json!({"projects": {}}));
        let tmp = self.dir.join("tmp");
        if let Some(slug) = known.get("projects").and_then(|projects| projects.get(cwd)).and_then(Value::as_str) {
            return Ok(tmp.join(slug));
        }
        let base =
            ids::slug(Path::new(cwd).file_name().and_then(|name| name.to_str()).unwrap_or("project")).to_lowercase();
        let names = std::iter::once(base.clone()).chain((1..).map(|number| format!("{base}-{number}")));
        let Some(slug) = names.take(10_000).find(|name| !tmp.join(name).exists()) else {
            return Err(io::ErrorKind::AlreadyExists.into());
        };
        if let Some(projects) = known.get_mut("projects").and_then(Value::as_object_mut) {
            projects.insert(cwd.to_owned(), json!(slug));
        }
        files::create(&tmp.join(&slug).join(".project_root"), cwd.as_bytes())?;
        files::replace(&index, format!("{known:#}").as_bytes())?;
        Ok(tmp.join(slug))
    }

    /// The directory that the sessions beside a file are of.
    fn cwd(&self, file: &Path) -> Option<String> {
        let project = file.parent()?.parent()?;
        if let Ok(root) = fs::read_to_string(project.join(".project_root")) {
            return Some(root.trim().to_owned());
        }
        let known = files::whole(&self.dir.join("projects.json")).ok()?;
        let projects = known.get("projects")?.as_object()?;
        let slug = files::name(project);
        projects
            .iter()
            .find(|(cwd, of)| of.as_str() == Some(slug) || ids::sha256(cwd) == slug)
            .map(|(cwd, _)| cwd.clone())
    }
}

impl Format for Gemini {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for project in files::names(&self.dir.join("tmp"))? {
            for path in files::names(&project.join("chats"))? {
                let name = files::name(&path);
                if name.starts_with("session-") && (name.ends_with(".jsonl") || name.ends_with(".json")) {
                    entries.push(Entry { path, id: None });
                }
            }
        }
        Ok(entries)
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let (mut draft, mut id, mut any) = (Draft::default(), None, false);
        let mut see = |record: &Value| {
            id = id.take().or_else(|| text(record, "/sessionId").map(str::to_owned));
            // What the agent leaves behind of a load holds nothing to go on with.
            any |= matches!(text(record, "/type"), Some("user" | "gemini"));
            sketch(&mut draft, record);
        };
        if seen.path.extension().is_some_and(|extension| extension == "json") {
            let whole = files::small(&seen.path)?;
            list(&whole, "/messages").iter().for_each(&mut see);
            see(&whole);
        } else {
            files::ends(&seen.path, |line| {
                if let Ok(record) = serde_json::from_slice::<Value>(line) {
                    list(&record, "/$set/messages").iter().for_each(&mut see);
                    see(&record);
                }
            })?;
        }
        draft.cwd = self.cwd(&seen.path);
        let id = id.and_then(|id| SessionId::parse(&id).ok());
        Ok(id.filter(|_| any).map(|id| draft.row(id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let records = match files::whole(&seen.path) {
            Ok(whole) if whole.get("messages").is_some() => vec![whole],
            Ok(_) | Err(_) => files::lines(&seen.path).map_err(files::failed("reading the session"))?,
        };
        let (mut draft, mut messages, mut build) = (Draft::default(), Vec::new(), Build::default());
        for record in records {
            sketch(&mut draft, &record);
            apply(record, &mut messages, &mut build);
        }
        for message in &messages {
            sketch(&mut draft, message);
            take(&mut build, message);
        }
        draft.cwd = self.cwd(&seen.path);
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        Ok(build.session("gemini", draft.row(id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let id = ids::uuid_for(id, ids::uuid4)?;
        let short = id.as_str().get(..8).unwrap_or(id.as_str()).to_owned();
        let entries = self.entries().map_err(files::failed("reading the store"))?;
        if entries.iter().any(|entry| files::name(&entry.path).contains(&format!("-{short}."))) {
            let text =
                "id: another session begins with the same 8 characters, and Gemini deletes such sessions together";
            return Err(StoreFailure::new(ErrorCode::Invalid, text));
        }
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        let started = session.created.min(time::now().saturating_sub(PAST_MS));
        let mut records = vec![json!({
            "sessionId": id, "projectHash": ids::sha256(&session.cwd), "startTime": iso(started),
            "lastUpdated": iso(session.updated), "kind": "main",
        })];
        if started != session.created {
            lost.note("the exact time of creation: Gemini would write over a session of the running minute");
        }
        let mut rest = flats.as_slice();
        while let Some((flat, after)) = rest.split_first() {
            let results = after.first().filter(|next| next.role == Role::Tool);
            records.extend(message(flat, results, session.model.as_deref(), &mut lost));
            rest = after;
        }
        let mut last = json!({"lastUpdated": iso(session.updated)});
        if let (Some(title), Some(members)) = (&session.title, last.as_object_mut()) {
            members.insert("summary".into(), json!(title));
        }
        records.push(json!({"$set": last}));
        let project = self.project(&session.cwd).map_err(files::failed("finding the project's directory"))?;
        let name = format!("session-{}-{short}.jsonl", time::stamp(started, "%Y-%m-%dT%H-%M"));
        files::create(&project.join("chats").join(name), &files::jsonl(&records))
            .map_err(files::failed("writing the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        fs::remove_file(&seen.path).map_err(files::failed("deleting the session"))
    }
}

fn sketch(draft: &mut Draft, record: &Value) {
    let summary = text(record, "/$set/summary").or_else(|| text(record, "/summary"));
    if let (Some(summary), [title, ..]) = (summary, &mut draft.titles) {
        *title = Some(summary.to_owned());
    }
    draft.created = draft.created.or_else(|| record.get("startTime").and_then(ms));
    match text(record, "/type") {
        Some("user") => {
            let (_, rest) = google::parts(record.get("content").unwrap_or(&Value::Null));
            let typed = |said: &&str| !said.starts_with(['/', '?', '<']);
            rest.iter().filter_map(Part::as_text).find(typed).into_iter().for_each(|said| draft.prompt(said));
        }
        Some("gemini") => draft.model = text(record, "/model").map(provided).or(draft.model.take()),
        Some(_) | None => {}
    }
}

fn provided(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("google/{model}") }
}

/// Folds one line: a message, a replacement of all, a rewind.
fn apply(record: Value, messages: &mut Vec<Value>, build: &mut Build) {
    let all = record.pointer("/$set/messages").or_else(|| record.get("messages")).and_then(Value::as_array);
    if let Some(all) = all {
        messages.clone_from(all);
    } else if let Some(to) = record.get("$rewindTo") {
        if let Some(at) = messages.iter().position(|message| message.get("id") == Some(to)) {
            messages.truncate(at);
        }
    } else if let Some(id) = record.get("id").filter(|_| record.get("type").is_some()) {
        match messages.iter_mut().find(|message| message.get("id") == Some(id)) {
            Some(old) => *old = record,
            None => messages.push(record),
        }
    } else if record.get("sessionId").is_none() && record.get("$set").is_none() {
        build.keep(record);
    }
}

fn take(build: &mut Build, record: &Value) {
    let at = record.get("timestamp").and_then(ms).unwrap_or_default();
    let id = text(record, "/id");
    let (_, said) = google::parts(record.get("content").unwrap_or(&Value::Null));
    match text(record, "/type") {
        Some("user") => {
            build.push(id, Role::User, said, at);
        }
        Some("gemini") => {
            let mut parts: Vec<Part> = list(record, "/thoughts").iter().map(thought).collect();
            parts.extend(said.into_iter().filter(|part| part.as_text() != Some("")));
            let mut results = Vec::new();
            for call in list(record, "/toolCalls") {
                let id = crate::build::call_id(text(call, "/id").unwrap_or_default());
                let input = call.get("args").cloned().unwrap_or_else(|| json!({}));
                parts.push(Part::call(id, text(call, "/name").unwrap_or("tool"), input));
                results.extend(
                    list(call, "/result").iter().filter_map(|part| part.get("functionResponse")).map(google::result),
                );
            }
            if let Some(message) = build.push(id, Role::Assistant, parts, at) {
                message.model = text(record, "/model").map(provided);
                message.usage = record.get("tokens").filter(|tokens| tokens.is_object()).map(usage);
            }
            build.push(id.map(|id| format!("{id}.results")).as_deref(), Role::Tool, results, at);
        }
        // Notes of the program; the model does not see them.
        Some(_) | None => build.keep(record.clone()),
    }
}

fn thought(thought: &Value) -> Part {
    let (subject, text) =
        (text(thought, "/subject").unwrap_or_default(), text(thought, "/description").unwrap_or_default());
    Part::thinking(if subject.is_empty() { text.to_owned() } else { format!("**{subject}**\n{text}") }, None)
}

fn usage(tokens: &Value) -> Usage {
    let reasoning = count(tokens, "/thoughts");
    Usage {
        input: count(tokens, "/input"),
        output: count(tokens, "/output").saturating_add(reasoning),
        cached: count(tokens, "/cached"),
        reasoning,
        cost: None,
    }
}

fn message(flat: &Flat, results: Option<&Flat>, model: Option<&str>, lost: &mut Lost) -> Option<Value> {
    let id = ids::uuid4();
    match flat.role {
        Role::User | Role::System => {
            let content: Value = flat.blocks.iter().map(google::part).collect();
            if flat.text().starts_with(['/', '?']) {
                lost.note("that Gemini shows prompts which begin with `/` or `?`; they are there");
            }
            Some(json!({"id": id, "timestamp": iso(flat.at), "type": "user", "content": content}))
        }
        // Results stand with their calls.
        Role::Tool => None,
        Role::Assistant => {
            let (mut thoughts, mut texts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
            for block in &flat.blocks {
                match block {
                    Block::Thinking { text, .. } => {
                        thoughts.push(json!({"subject": "", "description": text, "timestamp": iso(flat.at)}));
                    }
                    Block::Text(text) => texts.push(json!({"text": text})),
                    Block::Call { id, name, input } => {
                        calls.push(call(flat.at, (id, name, input), results.and_then(|flat| answer(flat, id))));
                    }
                    Block::Result { .. } | Block::Image(_) => {}
                }
            }
            let content = match texts.as_slice() {
                [] => json!(""),
                [one] => one.get("text").cloned().unwrap_or_default(),
                several => json!(several),
            };
            let of = flat.model.as_deref().or(model).unwrap_or("unknown");
            let mut record = json!({
                "id": id, "timestamp": iso(flat.at), "type": "gemini", "content": content, "thoughts": thoughts,
                "toolCalls": calls, "model": of.strip_prefix("google/").unwrap_or(of),
            });
            if let (Some(usage), Some(members)) = (flat.usage, record.as_object_mut()) {
                let tokens = json!({
                    "input": usage.input, "output": usage.output.saturating_sub(usage.reasoning), "cached": usage.cached,
                    "thoughts": usage.reasoning, "tool": 0, "total": usage.input.saturating_add(usage.output),
                });
                members.insert("tokens".into(), tokens);
            }
            Some(record)
        }
    }
}

fn answer<'a>(flat: &'a Flat, call: &str) -> Option<(&'a [Out], bool)> {
    flat.blocks.iter().find_map(|block| match block {
        Block::Result { id, output, error, .. } if id == call => Some((output.as_slice(), *error)),
        Block::Result { .. } | Block::Text(_) | Block::Thinking { .. } | Block::Call { .. } | Block::Image(_) => None,
    })
}

fn call(at: i64, (id, name, input): (&str, &str, &Value), result: Option<(&[Out], bool)>) -> Value {
    let status = match result {
        Some((_, false)) => "success",
        Some((_, true)) => "error",
        None => "cancelled",
    };
    let result: Vec<Value> =
        result.map(|(output, error)| google::response(id, name, output, error)).into_iter().collect();
    json!({
        "id": id, "name": name, "args": input, "result": result, "status": status, "timestamp": iso(at),
        "displayName": name, "description": "",
    })
}
