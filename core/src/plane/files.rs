//! Files put back as checkpoints say they were. A file that somebody else changed since is reported and left; nothing
//! outside the session's directory is touched, and no symlink is followed out of it. Clauses: H22, S21.

use crate::store::{Blobs, hash};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use triplane_protocol::record::Checkpoint;

/// What a restore did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that are now as they were.
    pub restored: Vec<String>,
    /// Files that were left.
    pub skipped: Vec<Skipped>,
}

/// A file that was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What is known of one file over several changes: what it was first, and what our tools made of it last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    before: Option<String>,
    after: Option<String>,
    /// Somebody else changed it between two of our changes.
    foreign: bool,
}

/// Puts back every file that `checkpoints` (oldest first) name, or those of `only`. `dry`: says what it would do.
pub(super) fn restore(
    checkpoints: &[Checkpoint],
    only: Option<&[String]>,
    cwd: &Path,
    blobs: &Blobs,
    dry: bool,
) -> Restored {
    let mut changes: BTreeMap<&str, Change> = BTreeMap::new();
    for checkpoint in checkpoints {
        let Checkpoint { path, before, after, .. } = checkpoint;
        let fresh = || Change { before: before.clone(), after: None, foreign: false };
        let known = changes.contains_key(path.as_str());
        let change = changes.entry(path).or_insert_with(fresh);
        change.foreign |= known && change.after != *before;
        change.after.clone_from(after);
    }
    let mut out = Restored::default();
    for (path, change) in changes {
        if only.is_some_and(|only| !only.iter().any(|wanted| cwd.join(wanted) == Path::new(path))) {
            continue;
        }
        match put_back(Path::new(path), &change, cwd, blobs, dry) {
            Ok(true) => out.restored.push(path.to_owned()),
            Ok(false) => (),
            Err(reason) => out.skipped.push(Skipped { path: path.to_owned(), reason }),
        }
    }
    out
}

/// One file. `false`: it is already as it was. Errors: why it was left.
fn put_back(path: &Path, change: &Change, cwd: &Path, blobs: &Blobs, dry: bool) -> Result<bool, String> {
    let real = inside(path, cwd)?;
    let now = read(&real)?;
    let now_hash = now.as_deref().map(hash);
    if now_hash == change.before {
        return Ok(false);
    }
    if now_hash != change.after || change.foreign {
        return Err("was changed by somebody else since".into());
    }
    if dry {
        return Ok(true);
    }
    match &change.before {
        None => fs::remove_file(&real).map_err(|error| error.to_string())?,
        Some(before) => {
            let content = blobs.get(before).map_err(|error| error.to_string())?;
            write(&real, &content).map_err(|error| error.to_string())?;
        }
    }
    Ok(true)
}

/// The file's real place, which must be beneath `cwd`.
fn inside(path: &Path, cwd: &Path) -> Result<PathBuf, String> {
    let outside = || "is outside the session's directory".to_owned();
    let cwd = cwd.canonicalize().map_err(|error| error.to_string())?;
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(outside)?;
    // A directory that is gone is made again, so the deepest one that is there decides.
    let mut there = parent;
    while !there.exists() {
        there = there.parent().ok_or_else(outside)?;
    }
    let real = there.canonicalize().map_err(|error| error.to_string())?;
    let rest = parent.strip_prefix(there).map_err(|_| outside())?;
    let plain = rest.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if !plain || !real.starts_with(&cwd) {
        return Err(outside());
    }
    Ok(real.join(rest).join(name))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(meta) if !meta.is_file() => Err("is not a regular file".into()),
        Ok(_) => fs::read(path).map(Some).map_err(|error| error.to_string()),
    }
}

/// Replaces a file in one step, keeping its mode; a new one follows the user's umask.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temp = crate::store::files::temp_path(path)?;
    let mode = fs::metadata(path).ok().map(|meta| meta.permissions());
    let done = fs::write(&temp, content)
        .and_then(|()| mode.map_or(Ok(()), |mode| fs::set_permissions(&temp, mode)))
        .and_then(|()| fs::rename(&temp, path));
    if done.is_err() {
        let _ = fs::remove_file(&temp);
    }
    done
}
