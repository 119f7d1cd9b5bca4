//! The other files of an item that has a folder of its own: a skill's scripts and references.
//! In the IR they are members of `meta`: `$files` has each text by its path, `$more` names what is too large or no text.

use crate::{
    read::under,
    root::{Kind, Root},
};
use serde_json::{Map, Value};

/// Texts by path.
pub(crate) const FILES: &str = "$files";
/// Names of what is left out.
pub(crate) const MORE: &str = "$more";

/// Bytes of one file that is taken along.
const FILE_BYTES: usize = 256 << 10;
/// Files of one item that are taken along, and named at all.
const COUNT: usize = 100;
/// Folders within folders.
const DEPTH: usize = 4;

/// Adds the files beside `main` in `folder` to `meta`.
pub(crate) fn read(root: &Root, folder: &str, main: &str, meta: &mut Map<String, Value>) -> Result<(), String> {
    let mut found = Found::default();
    walk(root, folder, "", main, 0, &mut found)?;
    if !found.files.is_empty() {
        meta.insert(FILES.into(), Value::Object(found.files));
    }
    if !found.more.is_empty() {
        meta.insert(MORE.into(), Value::Array(found.more));
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    files: Map<String, Value>,
    more: Vec<Value>,
}

fn walk(root: &Root, folder: &str, below: &str, main: &str, depth: usize, found: &mut Found) -> Result<(), String> {
    for name in root.names(&under(folder, below))? {
        let path = under(below, &name);
        let whole = under(folder, &path);
        match root.kind(&whole) {
            _ if name.starts_with('.') || path == main || found.files.len() + found.more.len() >= COUNT => {}
            Some(Kind::Folder) if depth < DEPTH => walk(root, folder, &path, main, depth + 1, found)?,
            Some(Kind::File) => match root.text(&whole) {
                Ok(Some(text)) if text.len() <= FILE_BYTES => drop(found.files.insert(path, Value::String(text))),
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => found.more.push(Value::String(path)),
            },
            Some(Kind::Folder) => found.more.push(Value::String(path)),
            None => {}
        }
    }
    Ok(())
}

/// What lies beside a main file.
pub(crate) struct Beside {
    /// Path and text.
    pub(crate) files: Vec<(String, String)>,
    /// Names of what is left out.
    pub(crate) more: Vec<String>,
}

/// Takes the files out of `meta`. Errors: one line.
pub(crate) fn take(meta: &mut Map<String, Value>) -> Result<Beside, String> {
    let mut files = Vec::new();
    match meta.shift_remove(FILES) {
        None => {}
        Some(Value::Object(map)) => {
            for (path, text) in map {
                match text {
                    Value::String(text) => files.push((path, text)),
                    _ => return Err(format!("`{FILES}`: `{path}` must be a text")),
                }
            }
        }
        Some(_) => return Err(format!("`{FILES}` must be an object")),
    }
    let more = match meta.shift_remove(MORE) {
        Some(Value::Array(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) | None => Vec::new(),
    };
    Ok(Beside { files, more })
}
