//! The only place that opens a file: everything below one folder, and nothing else.
//! Invariants: a write follows no symbolic link below the root, whoever makes one meanwhile; a new text is in place whole or
//! not at all; a read takes regular files of a stated size only. Links are read when they lead somewhere below the root, and
//! in the user's own folder wherever they lead, since people keep their settings elsewhere and link to them.

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    fs,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes of one config file at most: they are written by hand.
pub(crate) const FILE_BYTES: u64 = 4 << 20;

/// Entries of one folder that are looked at.
const ENTRIES: usize = 10_000;

/// A config root.
#[derive(Debug)]
pub(crate) struct Root {
    dir: PathBuf,
    /// Where links may lead; `None`: anywhere.
    within: Option<PathBuf>,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
}

impl Root {
    /// `own`: whether it is the user's own folder.
    pub(crate) fn new(dir: &Path, own: bool) -> Self {
        let whole = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        Self { dir: dir.to_owned(), within: (!own).then_some(whole) }
    }

    /// The absolute path of something in it.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        if relative.is_empty() { self.dir.clone() } else { self.dir.join(relative) }
    }

    /// What is at `relative`, if it may be read.
    pub(crate) fn kind(&self, relative: &str) -> Option<Kind> {
        let path = self.path(relative);
        let meta = fs::symlink_metadata(&path).ok()?;
        let meta = if meta.is_symlink() { fs::metadata(&path).ok()? } else { meta };
        if let Some(within) = &self.within {
            // Some folder on the way may be a link too.
            if !fs::canonicalize(&path).ok()?.starts_with(within) {
                tracing::debug!(path = %path.display(), "leads out of the config root; left alone");
                return None;
            }
        }
        if meta.is_file() {
            Some(Kind::File)
        } else if meta.is_dir() {
            Some(Kind::Folder)
        } else {
            None
        }
    }

    /// A file's text; `None` when there is none that may be read. Errors: too large, not UTF-8, what the system says.
    pub(crate) fn text(&self, relative: &str) -> Result<Option<String>, String> {
        if self.kind(relative) != Some(Kind::File) {
            return Ok(None);
        }
        let told = |error: io::Error| format!("{relative}: {error}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(self.path(relative), flags, Mode::empty()).map_err(|error| told(error.into()))?;
        let file = fs::File::from(file);
        if !file.metadata().map_err(told)?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(told)?;
        if bytes.len() as u64 > FILE_BYTES {
            return Err(format!("{relative}: a config file has at most 4 MiB"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| format!("{relative}: not UTF-8"))
    }

    /// Names in a folder, in order; none when it is not there.
    pub(crate) fn names(&self, relative: &str) -> Result<Vec<String>, String> {
        if self.kind(relative) != Some(Kind::Folder) {
            return Ok(Vec::new());
        }
        let told = |error: io::Error| format!("{relative}: {error}");
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(relative)).map_err(told)? {
            // A name that is no UTF-8 cannot be an item's.
            if let Ok(name) = entry.map_err(told)?.file_name().into_string() {
                names.push(name);
            }
            if names.len() > ENTRIES {
                return Err(format!("{relative}: has more than {ENTRIES} entries"));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether `relative` could be written: no link on the way, and no folder or device in its place. The error is one line.
    pub(crate) fn may_write(&self, relative: &str) -> Result<(), String> {
        let mut path = self.dir.clone();
        let mut parts = relative.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            let last = parts.peek().is_none();
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error.to_string()),
                Ok(meta) if meta.is_symlink() => return Err(link(part)),
                Ok(meta) if last && !meta.is_file() => return Err(format!("`{part}` is there and is no file")),
                Ok(meta) if !last && !meta.is_dir() => return Err(format!("`{part}` is there and is no folder")),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Puts a text in place, whole, with folders on the way; the mode of a file that was there stays. The error is one line.
    pub(crate) fn put(&self, relative: &str, text: &str) -> Result<(), String> {
        fs::create_dir_all(&self.dir).map_err(|error| format!("{}: {error}", self.dir.display()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let told = |error: Errno| io::Error::from(error).to_string();
        let mut folder = rustix::fs::open(&self.dir, flags, Mode::empty()).map_err(told)?;
        let mut parts: Vec<&str> = relative.split('/').collect();
        let Some(name) = parts.pop() else { return Err("no name".into()) };
        for part in parts {
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(told(error)),
            }
            folder = rustix::fs::openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| if matches!(error, Errno::LOOP | Errno::NOTDIR) { link(part) } else { told(error) })?;
        }
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(error) => return Err(told(error)),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Some(Mode::from_raw_mode(stat.st_mode & 0o777))
            }
            Ok(_) => return Err(link(name)),
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let temporary = format!(".triplane-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let done = replace(&folder, &temporary, name, text, mode);
        if done.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        }
        done.map_err(|error| error.to_string())
    }
}

fn replace(folder: &OwnedFd, temporary: &str, name: &str, text: &str, mode: Option<Mode>) -> io::Result<()> {
    // Left by a process of the same id that was killed; nobody else uses this name.
    let _ = rustix::fs::unlinkat(folder, temporary, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, temporary, flags, mode.unwrap_or(Mode::from_raw_mode(0o666)))?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&fd, mode)?;
    }
    let mut file = fs::File::from(fd);
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    rustix::fs::renameat(folder, temporary, folder, name)?;
    rustix::fs::fsync(folder.as_fd())?;
    Ok(())
}

fn link(part: &str) -> String {
    format!("`{part}` is a link or no plain file; links are not followed")
}
