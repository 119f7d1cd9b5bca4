//! Items to files. All is worked out on texts in memory first, so that a dry run says the same as the import, and a file
//! that many items go into is written once.
//! Invariant: nothing that is there and not named by an item is lost: members, front matter and list entries are added to,
//! not replaced. Clause: S20.

use crate::{
    adapt,
    folder::{Layout, check_path, shown},
    format::{Format, Place, Shape, Style},
    front, members,
    read::{prompt, under},
    root::{FILE_BYTES, Kind, Root},
    servers,
    skill::{self, Beside},
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use triplane_protocol::config::{AgentConfig, ConfigAction, ConfigItem, ConfigKind, ConfigScope, ConfigVerb};

/// Installs `config` below `root`: one action an item, in their order. `dry` writes nothing.
pub(crate) fn write(
    root: &Root,
    layout: &Layout,
    format: &Format,
    config: &AgentConfig,
    dry: bool,
) -> Vec<ConfigAction> {
    let foreign = config.agent != format.id;
    let mut writing = Writing {
        root,
        layout,
        format,
        from: if foreign { Format::of(&config.agent) } else { None },
        foreign,
        staged: BTreeMap::new(),
        texts: BTreeMap::new(),
    };
    let mut actions = Vec::with_capacity(config.items.len());
    for (index, item) in config.items.iter().enumerate() {
        let (verb, path, reason) = match writing.item(index, item) {
            Ok(done) => (done.verb, done.path, done.note),
            Err(why) => (ConfigVerb::Skipped, why.path, Some(why.reason)),
        };
        let path = shown(root, &path);
        actions.push(ConfigAction { action: verb, kind: item.kind, name: item.name.clone(), path, reason });
    }
    if !dry {
        writing.flush(&mut actions);
    }
    actions
}

struct Writing<'a> {
    root: &'a Root,
    layout: &'a Layout,
    format: &'a Format,
    from: Option<&'static Format>,
    foreign: bool,
    /// Files as they will be.
    staged: BTreeMap<String, Staged>,
    /// Whose text each whole file has.
    texts: BTreeMap<String, String>,
}

#[derive(Default)]
struct Staged {
    before: Option<String>,
    after: Option<String>,
    /// Items that go into it.
    items: Vec<usize>,
}

struct Done {
    verb: ConfigVerb,
    path: String,
    note: Option<String>,
}

struct Skip {
    path: String,
    reason: String,
}

impl Writing<'_> {
    fn item(&mut self, index: usize, item: &ConfigItem) -> Result<Done, Skip> {
        let nowhere = |reason: String| Skip { path: String::new(), reason };
        let (item, left) = match self.foreign {
            true => adapt::adapt(item, self.from, self.format).map_err(nowhere)?,
            false => (item.clone(), Vec::new()),
        };
        let place = self.place(&item).map_err(nowhere)?;
        let path = path_of(&place, &item.name);
        let skip = |reason: String| Skip { path: path.clone(), reason };
        check_name(&place, &item).and_then(|()| self.others(&place, &path)).map_err(skip)?;
        self.root.may_write(&path).map_err(skip)?;
        let (verb, more) = self.put(index, &place, &path, &item).map_err(skip)?;
        let mut notes = Vec::new();
        if !left.is_empty() {
            notes.push(format!("left out, as only its own agent knows it: {}", left.join(", ")));
        }
        if !more.is_empty() {
            notes.push(format!("not copied, as they are no small texts: {}", more.join(", ")));
        }
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(Done { verb, path, note })
    }

    /// Where an item goes: where it is already, else into a file that is there, else into the first place of its kind.
    fn place(&self, item: &ConfigItem) -> Result<Place, String> {
        let fits = |place: &&Place| place.kind == item.kind;
        let places: Vec<Place> = self.layout.places.iter().filter(fits).copied().collect();
        let first = places.first().copied().ok_or_else(|| self.has_none(item.kind))?;
        let has_it = |place: &&Place| match place.shape {
            Shape::Text => place.path == item.name,
            Shape::Files(_) | Shape::Prompts | Shape::Folders(_) => {
                check_name(place, item).is_ok()
                    && self.now(&path_of(place, &item.name)).is_ok_and(|text| text.is_some())
            }
            Shape::Servers(key, _) | Shape::Hooks(key) => self
                .members(place.path)
                .is_ok_and(|members| members.get(key).and_then(|inner| inner.get(&item.name)).is_some()),
            Shape::Settings(_) => self.members(place.path).is_ok_and(|members| members.contains_key(&item.name)),
        };
        let has_file = |place: &&Place| {
            let whole = matches!(place.shape, Shape::Servers(..) | Shape::Hooks(_) | Shape::Settings(_));
            whole && self.now(place.path).is_ok_and(|text| text.is_some())
        };
        Ok(places.iter().find(has_it).or_else(|| places.iter().find(has_file)).copied().unwrap_or(first))
    }

    fn has_none(&self, kind: ConfigKind) -> String {
        let what = match kind {
            ConfigKind::Instructions => "instructions",
            ConfigKind::Rule => "rules",
            ConfigKind::Command => "commands",
            ConfigKind::Skill => "skills",
            ConfigKind::Subagent => "subagents",
            ConfigKind::McpServer => "MCP servers",
            ConfigKind::Hook => "hooks",
            ConfigKind::Setting => "settings",
        };
        let whose = match self.layout.scope {
            ConfigScope::Project => "below this root",
            ConfigScope::User => "in a user's own folder",
        };
        format!("{} has no {what} {whose}", self.format.name)
    }

    /// A folder within a folder may be the place of something else.
    fn others(&self, place: &Place, path: &str) -> Result<(), String> {
        let inside = |other: &&Place| {
            other.kind != place.kind
                && other.path.len() > place.path.len()
                && path.starts_with(&format!("{}/", other.path))
        };
        match self.layout.places.iter().find(inside) {
            Some(other) => Err(format!("`{}` is the place of something else", other.path)),
            None => Ok(()),
        }
    }

    /// A file's text as it will be.
    fn now(&self, path: &str) -> Result<Option<String>, String> {
        match self.staged.get(path) {
            Some(staged) => Ok(staged.after.clone()),
            None => self.root.text(path),
        }
    }

    fn members(&self, path: &str) -> Result<Map<String, Value>, String> {
        self.now(path)?.map_or_else(|| Ok(Map::new()), |text| members::read(path, &text))
    }

    /// Works the item into its file. The verb, and the names of what it could not hold.
    fn put(
        &mut self,
        index: usize,
        place: &Place,
        path: &str,
        item: &ConfigItem,
    ) -> Result<(ConfigVerb, Vec<String>), String> {
        let now = self.now(path)?;
        let verb = match place.shape {
            Shape::Text => {
                if let Some(other) = self.texts.get(path).filter(|other| **other != item.name) {
                    return Err(format!("`{path}` is one text, and has the one of `{other}` now"));
                }
                self.texts.insert(path.to_owned(), item.name.clone());
                self.stage(index, path, now, item.body.clone())?
            }
            Shape::Files(_) => {
                let text = with_front(now.as_deref(), &item.meta, &item.body);
                self.stage(index, path, now, text)?
            }
            Shape::Prompts => {
                let text = with_prompt(path, now.as_deref(), item)?;
                self.stage(index, path, now, text)?
            }
            Shape::Folders(_) => return self.folder(index, path, now, item),
            Shape::Servers(key, style) => {
                let server = self.server(path, key, style, item)?;
                self.set(index, path, now, &[key, &item.name], &server)?
            }
            Shape::Hooks(key) => {
                let hooks = item.meta.get("hooks").filter(|hooks| hooks.is_array()).ok_or("`hooks` must be a list")?;
                let there = self.members(path)?.get(key).and_then(|events| events.get(&item.name)).cloned();
                let merged = merge(there.as_ref(), hooks);
                let verb = self.set(index, path, now, &[key, &item.name], &merged)?;
                // Cursor reads no file without it.
                if path.ends_with("hooks.json") && !self.members(path)?.contains_key("version") {
                    let now = self.now(path)?;
                    self.set(index, path, now, &["version"], &Value::from(1))?;
                }
                verb
            }
            Shape::Settings(except) => {
                if except.contains(&item.name.as_str()) {
                    return Err(format!("`{}` is no setting", item.name));
                }
                let value = item.meta.get("value").ok_or("`value` is missing")?;
                let merged = merge(self.members(path)?.get(&item.name), value);
                self.set(index, path, now, &[&item.name], &merged)?
            }
        };
        Ok((verb, Vec::new()))
    }

    /// The main file of a folder, and those beside it.
    fn folder(
        &mut self,
        index: usize,
        path: &str,
        now: Option<String>,
        item: &ConfigItem,
    ) -> Result<(ConfigVerb, Vec<String>), String> {
        let mut meta = item.meta.clone();
        let Beside { files, more } = skill::take(&mut meta)?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut beside = Vec::new();
        for (name, text) in files {
            check_path(&name, true).map_err(|why| format!("`{name}`: {why}"))?;
            let file = under(&folder, &name);
            self.root.may_write(&file)?;
            if file != path {
                beside.push((self.now(&file)?, file, text));
            }
        }
        let text = with_front(now.as_deref(), &meta, &item.body);
        let mut verb = self.stage(index, path, now, text)?;
        for (now, file, text) in beside {
            if self.stage(index, &file, now, text)? != ConfigVerb::Unchanged && verb == ConfigVerb::Unchanged {
                verb = ConfigVerb::Updated;
            }
        }
        Ok((verb, more))
    }

    /// A server in its agent's way, with what is there and is no matter of how it is reached.
    fn server(&self, path: &str, key: &str, style: Style, item: &ConfigItem) -> Result<Value, String> {
        let there = self.members(path)?.get(key).and_then(|all| all.get(&item.name)).cloned();
        let old = there.as_ref().and_then(|old| servers::read(style, old).ok()).unwrap_or_default();
        let reached = |(name, _): &(&String, &Value)| !servers::TRANSPORT.contains(&name.as_str());
        let mut merged = item.meta.clone();
        for (name, value) in old.iter().filter(reached) {
            if !merged.contains_key(name) {
                merged.insert(name.clone(), value.clone());
            }
        }
        match there {
            Some(there) if old == merged => Ok(there),
            Some(_) | None => servers::write(style, &merged).map(Value::Object),
        }
    }

    fn set(
        &mut self,
        index: usize,
        path: &str,
        now: Option<String>,
        at: &[&str],
        value: &Value,
    ) -> Result<ConfigVerb, String> {
        if !members::can_hold(path, value) {
            return Err(format!("{path} cannot hold null, nor a number as large"));
        }
        let text = now.as_deref().unwrap_or_default();
        let there = members::read(path, text)?;
        let (first, rest) = at.split_first().ok_or("no name")?;
        let old = rest.iter().fold(there.get(*first), |inner, key| inner.and_then(|inner| inner.get(key)));
        if old == Some(value) {
            return Ok(ConfigVerb::Unchanged);
        }
        let is_new = old.is_none();
        let after = members::set(path, text, at, value)?;
        self.stage(index, path, now, after)?;
        Ok(if is_new { ConfigVerb::Created } else { ConfigVerb::Updated })
    }

    fn stage(&mut self, index: usize, path: &str, now: Option<String>, after: String) -> Result<ConfigVerb, String> {
        if after.len() as u64 > FILE_BYTES {
            return Err("a config file has at most 4 MiB".into());
        }
        let verb = match &now {
            None if self.root.kind(path) == Some(Kind::Folder) => return Err(format!("`{path}` is a folder")),
            None => ConfigVerb::Created,
            Some(now) if *now == after => return Ok(ConfigVerb::Unchanged),
            Some(_) => ConfigVerb::Updated,
        };
        let staged = self.staged.entry(path.to_owned()).or_insert_with(|| Staged {
            before: now,
            after: None,
            items: Vec::new(),
        });
        staged.after = Some(after);
        staged.items.push(index);
        Ok(verb)
    }

    /// Writes what is staged. What cannot be written is told at every item that goes there.
    fn flush(self, actions: &mut [ConfigAction]) {
        for (path, staged) in self.staged {
            let Some(after) = staged.after.filter(|after| staged.before.as_ref() != Some(after)) else { continue };
            if let Err(why) = self.root.put(&path, &after) {
                for index in staged.items {
                    if let Some(action) = actions.get_mut(index) {
                        action.action = ConfigVerb::Skipped;
                        action.reason = Some(format!("{path}: {why}"));
                    }
                }
            }
        }
    }
}

fn path_of(place: &Place, name: &str) -> String {
    match place.shape {
        Shape::Text | Shape::Servers(..) | Shape::Hooks(_) | Shape::Settings(_) => place.path.to_owned(),
        Shape::Files(extension) => under(place.path, &format!("{name}.{extension}")),
        Shape::Prompts => under(place.path, &format!("{name}.toml")),
        Shape::Folders(main) => under(place.path, &format!("{name}/{main}")),
    }
}

fn check_name(place: &Place, item: &ConfigItem) -> Result<(), String> {
    match place.shape {
        Shape::Text => Ok(()),
        Shape::Files(_) | Shape::Prompts => check_path(&item.name, true),
        Shape::Folders(_) => check_path(&item.name, false),
        Shape::Servers(..) | Shape::Hooks(_) | Shape::Settings(_) => {
            let plain = !item.name.is_empty() && item.name.len() <= 200 && !item.name.chars().any(char::is_control);
            if plain { Ok(()) } else { Err("its name cannot be a member's".into()) }
        }
    }
}

/// Markdown with what its front matter has already, and with `meta` over that.
fn with_front(now: Option<&str>, meta: &Map<String, Value>, body: &str) -> String {
    let (mut merged, old_body) = now.map_or_else(Default::default, front::split);
    let old = merged.clone();
    for (key, value) in meta {
        merged.insert(key.clone(), value.clone());
    }
    match now {
        Some(now) if merged == old && old_body == body => now.to_owned(),
        Some(_) | None => front::join(&merged, body),
    }
}

fn with_prompt(path: &str, now: Option<&str>, item: &ConfigItem) -> Result<String, String> {
    let mut text = now.unwrap_or_default().to_owned();
    let old = now.map(|now| prompt(path, now)).transpose()?;
    for (key, value) in &item.meta {
        let same = old.as_ref().is_some_and(|(meta, _)| meta.get(key) == Some(value));
        if key == "prompt" || !members::can_hold(path, value) {
            return Err(format!("a TOML command cannot hold `{key}`"));
        }
        if !same {
            text = members::set(path, &text, &[key], value)?;
        }
    }
    match old {
        Some((_, body)) if body == item.body => Ok(text),
        Some(_) | None => members::set(path, &text, &["prompt"], &Value::String(item.body.clone())),
    }
}

/// `new` over `old`, without losing anything: members are merged, lists get what they lack, all else is replaced.
fn merge(old: Option<&Value>, new: &Value) -> Value {
    match (old, new) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let mut merged = old.clone();
            for (key, value) in new {
                let value = merge(old.get(key), value);
                merged.insert(key.clone(), value);
            }
            Value::Object(merged)
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let mut merged = old.clone();
            merged.extend(new.iter().filter(|item| !old.contains(item)).cloned());
            Value::Array(merged)
        }
        (_, new) => new.clone(),
    }
}
