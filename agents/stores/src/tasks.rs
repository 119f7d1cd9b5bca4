//! Tasks of Cline before version 3 and of its editor extension: `tasks/<id>/api_conversation_history.json`; the list is
//! `state/taskHistory.json`, without which a task is invisible. Read and deleted; new sessions are made for Cline 3.

use crate::{
    build::{Build, Draft, list, text},
    cline, files, ids,
    threaded::read_only,
    time::ms,
    tree::{Entry, Format, Seen},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};
use triplane_core::agent::{Saved, StoreFailure, StoreRow};
use triplane_protocol::{Session, SessionId};

type Items = Arc<HashMap<String, Value>>;

/// One folder with tasks.
pub(crate) struct Tasks {
    dir: PathBuf,
    items: Mutex<Option<(SystemTime, Items)>>,
}

impl Tasks {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, items: Mutex::default() }
    }

    fn index(&self) -> PathBuf {
        self.dir.join("state").join("taskHistory.json")
    }

    /// The list, read again when it changed.
    fn items(&self) -> Items {
        let Ok(changed) = fs::metadata(self.index()).and_then(|meta| meta.modified()) else { return Items::default() };
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, items)) = items.as_ref().filter(|(read, _)| *read == changed) {
            let _ = read;
            return items.clone();
        }
        let whole = files::whole(&self.index()).unwrap_or_default();
        let named = |item: &Value| Some((text(item, "/id")?.to_owned(), item.clone()));
        let read: Items = Arc::new(list(&whole, "").iter().filter_map(named).collect());
        *items = Some((changed, read.clone()));
        read
    }

    fn sketch(&self, seen: &Seen) -> Option<StoreRow> {
        let id = seen.id.clone()?;
        let items = self.items();
        let item = items.get(id.as_str())?;
        let mut draft = Draft {
            cwd: text(item, "/cwdOnTaskInitialization").map(str::to_owned),
            created: id.as_str().parse().ok().or_else(|| item.get("ts").and_then(ms)),
            ..Draft::default()
        };
        text(item, "/task").into_iter().for_each(|task| draft.prompt(task));
        Some(draft.row(id, seen.updated))
    }
}

impl Format for Tasks {
    fn entries(&self) -> io::Result<Vec<Entry>> {
        let entry = |dir: PathBuf| {
            let id = SessionId::parse(files::name(&dir)).ok()?;
            Some(Entry { path: dir.join("api_conversation_history.json"), id: Some(id) })
        };
        Ok(files::names(&self.dir.join("tasks"))?.into_iter().filter_map(entry).collect())
    }

    fn row(&self, seen: &Seen) -> io::Result<Option<StoreRow>> {
        Ok(self.sketch(seen))
    }

    fn load(&self, seen: &Seen) -> Result<Session, StoreFailure> {
        let whole = files::whole(&seen.path).map_err(files::failed("reading the task"))?;
        let id = seen.id.clone().map_or_else(|| ids::parse(files::name(&seen.path)), Ok)?;
        let mut build = Build::default();
        list(&whole, "").iter().for_each(|message| cline::take(&mut build, message));
        let row = self.sketch(seen).unwrap_or_else(|| Draft::default().row(id, seen.updated));
        Ok(build.session("cline", row))
    }

    fn save(&self, _session: &Session, _id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        read_only("older versions of Cline")
    }

    fn delete(&self, seen: &Seen) -> Result<(), StoreFailure> {
        let dir = seen.path.parent().unwrap_or(Path::new("/"));
        files::must_be_free(&[dir])?;
        fs::remove_dir_all(dir).map_err(files::failed("deleting the task"))?;
        let Ok(Value::Array(mut items)) = files::whole(&self.index()) else { return Ok(()) };
        let id = files::name(dir);
        items.retain(|item| text(item, "/id") != Some(id));
        let text = Value::Array(items).to_string();
        files::replace(&self.index(), text.as_bytes()).map_err(files::failed("taking the task off the list"))
    }
}
