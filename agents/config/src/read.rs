//! Files to items, place by place.
//! A name that two places have is one item: the first place that has it wins, as new items go there too.

use crate::{
    folder::Layout,
    format::{Place, Shape},
    front, members,
    root::{Kind, Root},
    servers, skill,
};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use triplane_protocol::config::{ConfigItem, ConfigKind};

/// Items of one config at most.
const ITEMS: usize = 10_000;

/// Folders within folders that are looked into.
const DEPTH: usize = 6;

/// Everything in `root`, in the order of the places. Errors: one line that names the file.
pub(crate) fn read(root: &Root, layout: &Layout) -> Result<Vec<ConfigItem>, String> {
    let mut reading = Reading { root, layout, items: Vec::new(), seen: HashSet::new(), files: HashMap::new() };
    for place in &layout.places {
        reading.place(place)?;
    }
    Ok(reading.items)
}

struct Reading<'a> {
    root: &'a Root,
    layout: &'a Layout,
    items: Vec<ConfigItem>,
    seen: HashSet<(ConfigKind, String)>,
    /// Members of files that several places look at.
    files: HashMap<String, Map<String, Value>>,
}

impl Reading<'_> {
    fn place(&mut self, place: &Place) -> Result<(), String> {
        let path = place.path;
        match place.shape {
            Shape::Text => {
                if let Some(body) = self.root.text(path)? {
                    self.add(place.kind, path, path, Map::new(), body)?;
                }
                Ok(())
            }
            Shape::Files(extension) => self.folder(place, "", extension, 0),
            Shape::Prompts => self.folder(place, "", "toml", 0),
            Shape::Folders(main) => self.folders(place, main),
            Shape::Servers(key, style) => {
                for (name, server) in self.member_of(path, key)? {
                    let meta = servers::read(style, &server).map_err(|why| format!("{path}: `{key}.{name}` {why}"))?;
                    self.add(place.kind, &name, path, meta, String::new())?;
                }
                Ok(())
            }
            Shape::Hooks(key) => {
                for (event, hooks) in self.member_of(path, key)? {
                    let Value::Object(meta) = json!({"event": event, "hooks": hooks}) else { continue };
                    self.add(place.kind, &event, path, meta, String::new())?;
                }
                Ok(())
            }
            Shape::Settings(except) => {
                for (name, value) in self.members(path)? {
                    if !except.contains(&name.as_str()) {
                        let meta = Map::from_iter([("value".to_owned(), value)]);
                        self.add(place.kind, &name, path, meta, String::new())?;
                    }
                }
                Ok(())
            }
        }
    }

    fn add(
        &mut self,
        kind: ConfigKind,
        name: &str,
        path: &str,
        meta: Map<String, Value>,
        body: String,
    ) -> Result<(), String> {
        if !self.seen.insert((kind, name.to_owned())) {
            return Ok(());
        }
        if self.items.len() >= ITEMS {
            return Err(format!("there are more than {ITEMS} config items"));
        }
        let path = self.root.path(path).to_string_lossy().into_owned();
        self.items.push(ConfigItem { kind, name: name.to_owned(), scope: self.layout.scope, path, meta, body });
        Ok(())
    }

    /// Files of a folder and the folders in it; a name is the path without the extension.
    fn folder(&mut self, place: &Place, below: &str, extension: &str, depth: usize) -> Result<(), String> {
        for name in self.root.names(&under(place.path, below))? {
            if name.starts_with('.') {
                continue;
            }
            let path = under(below, &name);
            let whole = under(place.path, &path);
            if self.layout.owner(&whole).is_some_and(|kind| kind != place.kind) {
                continue;
            }
            match self.root.kind(&whole) {
                Some(Kind::Folder) if depth < DEPTH => self.folder(place, &path, extension, depth + 1)?,
                Some(Kind::File) => {
                    let named = path.strip_suffix(extension).and_then(|name| name.strip_suffix('.'));
                    if let (Some(named), Some(text)) = (named, self.root.text(&whole)?) {
                        let (meta, body) = match place.shape {
                            Shape::Prompts => prompt(&whole, &text)?,
                            _ => {
                                let (meta, body) = front::split(&text);
                                (meta, body.to_owned())
                            }
                        };
                        self.add(place.kind, named, &whole, meta, body)?;
                    }
                }
                Some(Kind::Folder) | None => {}
            }
        }
        Ok(())
    }

    fn folders(&mut self, place: &Place, main: &str) -> Result<(), String> {
        for name in self.root.names(place.path)? {
            let folder = under(place.path, &name);
            let path = under(&folder, main);
            if name.starts_with('.') {
                continue;
            }
            if let Some(text) = self.root.text(&path)? {
                let (mut meta, body) = front::split(&text);
                skill::read(self.root, &folder, main, &mut meta)?;
                self.add(place.kind, &name, &path, meta, body.to_owned())?;
            }
        }
        Ok(())
    }

    fn members(&mut self, path: &str) -> Result<Map<String, Value>, String> {
        if let Some(members) = self.files.get(path) {
            return Ok(members.clone());
        }
        let members = match self.root.text(path)? {
            Some(text) => members::read(path, &text)?,
            None => Map::new(),
        };
        self.files.insert(path.to_owned(), members.clone());
        Ok(members)
    }

    fn member_of(&mut self, path: &str, key: &str) -> Result<Map<String, Value>, String> {
        match self.members(path)?.shift_remove(key) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(_) => Err(format!("{path}: `{key}` must be an object")),
        }
    }
}

/// A TOML command: its `prompt` is the body.
pub(crate) fn prompt(path: &str, text: &str) -> Result<(Map<String, Value>, String), String> {
    let mut meta = members::read(path, text)?;
    match meta.shift_remove("prompt") {
        Some(Value::String(body)) => Ok((meta, body)),
        Some(_) | None => Err(format!("{path}: `prompt` must be a text")),
    }
}

pub(crate) fn under(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}
