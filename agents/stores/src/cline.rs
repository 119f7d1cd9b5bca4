//! Cline 3: `data/sessions/<id>/` with a manifest `<id>.json` and `<id>.messages.json`; older versions: [`crate::tasks`].

use crate::{
    build::{Build, Draft, anthropic, count, list, text},
    claude, files,
    flat::{Block, Flat, Holds, Lost, Out, Thinking, first_prompt, flatten},
    ids,
    tasks::Tasks,
    threaded::Store,
    time::{self, iso, ms},
    tree::{Entry, Format, Seen, Tree},
};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{ErrorCode, Part, Role, Session, SessionId, Usage, ir::KnownPart};

const HOLDS: Holds = Holds {
    agent: "cline",
    thinking: Thinking::Both,
    images: true,
    result_images: true,
    errors: true,
    usage: true,
    reasoning: false,
    cost: true,
    stop: false,
};

/// Both kinds of stores; new sessions go into that of Cline 3.
pub(crate) struct Cline {
    new: Tree<Sessions>,
    old: Vec<Tree<Tasks>>,
}

impl Cline {
    /// `dir`: `~/.cline`; `others`: folders of editors that may have tasks.
    pub(crate) fn new(dir: &Path, others: Vec<PathBuf>) -> Self {
        let data = dir.join("data");
        let old = std::iter::once(data.clone()).chain(others).map(|dir| Tree::new(Tasks::new(dir))).collect();
        Self { new: Tree::new(Sessions { dir: data.join("sessions") }), old }
    }

    fn of(&self, id: &SessionId) -> Result<&dyn Store, StoreFailure> {
        for old in &self.old {
            if old.has(id)? {
                return Ok(old);
            }
        }
        Ok(&self.new)
    }
}

impl Store for Cline {
    fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        let mut rows = self.new.list()?;
        for old in &self.old {
            rows.extend(old.list()?);
        }
        Ok(rows)
    }

    fn has(&self, id: &SessionId) -> Result<bool, StoreFailure> {
        self.of(id)?.has(id)
    }

    fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        self.of(id)?.load(id)
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        if let Some(id) = id
            && self.has(id)?
        {
            return Err(StoreFailure::new(ErrorCode::Invalid, format!("id: a session `{id}` exists already")));
        }
        self.new.save(session, id)
    }

    fn delete(&self, id: &SessionId) -> Result<(), StoreFailure> {
        self.of(id)?.delete(id)
    }
}

/// The sessions of Cline 3.
struct Sessions {
    dir: PathBuf,
}

impl Format for Sessions {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let entry = |dir: PathBuf| {
            let id = SessionId::parse(files::name(&dir)).ok()?;
            Some(Entry { path: dir.join(format!("{id}.json")), id: Some(id) })
        };
        Ok(files::names(&self.dir)?.into_iter().filter_map(entry).collect())
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        let Some(id) = seen.id.clone() else { return Ok(None) };
        Ok(Some(sketch(&files::small(&seen.path)?, id, seen.updated)))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let manifest = files::whole(&seen.path).map_err(files::failed("reading the session's manifest"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        // The path in the manifest is not followed: a manifest from elsewhere could name any file.
        let path = seen.path.with_file_name(format!("{id}.messages.json"));
        let whole = files::whole(&path).map_err(files::failed("reading the session"))?;
        let mut build = Build::default();
        list(&whole, "/messages").iter().for_each(|message| take(&mut build, message));
        Ok(build.session("cline", sketch(&manifest, id, seen.updated)))
    }

    fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let fresh = || format!("{}_{}_cli", time::now(), ids::letters(5).to_lowercase());
        let id = id.cloned().map_or_else(|| ids::parse(&fresh()), Ok)?;
        let mut lost = Lost::default();
        let flats = flatten(session, HOLDS, &mut lost);
        let (provider, model) = split(session.model.as_deref());
        let messages: Vec<Value> =
            flats.iter().enumerate().map(|(at, flat)| message(at, flat, session.model.as_deref())).collect();
        let dir = self.dir.join(id.as_str());
        let path = dir.join(format!("{id}.messages.json"));
        let manifest = json!({
            "version": 1, "session_id": id, "source": "cli", "pid": 1, "started_at": iso(session.created),
            "ended_at": iso(session.updated), "exit_code": 0, "status": "completed", "interactive": true, "provider": provider,
            "model": model, "cwd": session.cwd, "workspace_root": session.cwd, "enable_tools": true, "enable_spawn": true,
            "enable_teams": false, "prompt": first_prompt(&flats), "messages_path": path,
            "metadata": {"title": session.title, "sessionHistoryOrigin": {"mode": "user", "version": "3.0.65"}},
        });
        let whole = json!({
            "version": 1, "updated_at": iso(session.updated), "agent": "lead", "sessionId": id, "messages": messages,
        });
        let made = [
            (PathBuf::from(format!("{id}.messages.json")), whole.to_string().into_bytes()),
            (PathBuf::from(format!("{id}.json")), manifest.to_string().into_bytes()),
        ];
        files::create_dir(&dir, &made).map_err(files::failed("writing the session"))?;
        Ok(Saved { id, lost: lost.lines() })
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        let manifest = files::whole(&seen.path).unwrap_or_default();
        let pid = manifest.get("pid").and_then(Value::as_u64).filter(|pid| *pid > 1);
        let runs = text(&manifest, "/status") == Some("running");
        if let Some(pid) = pid.filter(|pid| runs && Path::new(&format!("/proc/{pid}")).exists()) {
            return Err(StoreFailure::new(
                ErrorCode::Locked,
                format!("process {pid} has the session open; end it first"),
            ));
        }
        let dir = seen.path.parent().unwrap_or(&seen.path);
        files::must_be_free(&[dir])?;
        fs::remove_dir_all(dir).map_err(files::failed("deleting the session"))
    }
}

fn split(model: Option<&str>) -> (&str, &str) {
    let model = model.unwrap_or("unknown");
    model.split_once('/').unwrap_or(("openai-compatible", model))
}

fn sketch(manifest: &Value, id: SessionId, updated: i64) -> StoreRow {
    let model = text(manifest, "/provider").zip(text(manifest, "/model"));
    let mut draft = Draft {
        cwd: text(manifest, "/cwd").map(str::to_owned),
        titles: [text(manifest, "/metadata/title").map(str::to_owned), None, None],
        model: model.map(|(provider, model)| format!("{provider}/{model}")),
        created: manifest.get("started_at").and_then(ms),
    };
    text(manifest, "/prompt").into_iter().for_each(|said| draft.prompt(bare(said)));
    draft.row(id, updated)
}

/// What a person typed: Cline wraps it.
pub(crate) fn bare(said: &str) -> &str {
    let inner = said.trim().strip_prefix("<user_input").and_then(|rest| rest.split_once('>')).map(|(_, rest)| rest);
    inner.and_then(|rest| rest.strip_suffix("</user_input>")).unwrap_or(said)
}

/// A message of Anthropic's kind with what Cline adds.
pub(crate) fn take(build: &mut Build, message: &Value) {
    let at = message.get("ts").and_then(ms).unwrap_or_default();
    let id = text(message, "/id");
    let (results, mut rest) = anthropic(message.get("content").unwrap_or(&Value::Null));
    if text(message, "/role") == Some("assistant") {
        if let Some(made) = build.push(id, Role::Assistant, rest, at) {
            let of = text(message, "/modelInfo/provider").zip(text(message, "/modelInfo/id"));
            made.model = of.map(|(provider, model)| format!("{provider}/{model}"));
            made.usage = message.get("metrics").map(usage);
        }
        return;
    }
    for part in &mut rest {
        if let Part::Known(KnownPart::Text { text, .. }) = part {
            *text = bare(text).to_owned();
        }
    }
    build.push(id, Role::Tool, results, at);
    build.push(id, Role::User, rest, at);
}

fn usage(metrics: &Value) -> Usage {
    Usage {
        input: count(metrics, "/inputTokens"),
        output: count(metrics, "/outputTokens"),
        cached: count(metrics, "/cacheReadTokens"),
        reasoning: 0,
        cost: metrics.get("cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0),
    }
}

fn message(at: usize, flat: &Flat, model: Option<&str>) -> Value {
    let content: Value = flat.blocks.iter().map(|block| content(block, flat.role)).collect();
    let user = flat.role != Role::Assistant;
    let mut message = json!({
        "id": format!("{}{at}", if user { "u" } else { "a" }), "role": if user { "user" } else { "assistant" },
        "content": content, "ts": flat.at,
    });
    if let Some(members) = message.as_object_mut().filter(|_| !user) {
        let (provider, model) = split(flat.model.as_deref().or(model));
        members.insert("modelInfo".into(), json!({"id": model, "provider": provider}));
        if let Some(usage) = flat.usage {
            let metrics = json!({
                "inputTokens": usage.input, "outputTokens": usage.output, "cacheReadTokens": usage.cached,
                "cacheWriteTokens": 0, "cost": usage.cost.unwrap_or_default(),
            });
            members.insert("metrics".into(), metrics);
        }
    }
    message
}

fn content(block: &Block, role: Role) -> Value {
    match block {
        Block::Text(text) if role == Role::User => {
            json!({"type": "text", "text": format!("<user_input mode=\"act\">{text}</user_input>")})
        }
        Block::Image(image) => json!({"type": "image", "data": image.data, "mediaType": image.mime}),
        Block::Result { id, name, output, error } => {
            let content: Value = match output.as_slice() {
                [Out::Text(text)] => json!(text),
                output => output.iter().map(out).collect(),
            };
            json!({"type": "tool_result", "tool_use_id": id, "name": name, "content": content, "is_error": error})
        }
        Block::Text(_) | Block::Thinking { .. } | Block::Call { .. } => claude::content(block),
    }
}

fn out(out: &Out) -> Value {
    match out {
        Out::Text(text) => json!({"type": "text", "text": text}),
        Out::Image(image) => json!({"type": "image", "data": image.data, "mediaType": image.mime}),
    }
}
