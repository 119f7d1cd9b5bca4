//! Files are opened and replaced by their real path, and not through a symlink that somebody put there since it was looked up:
//! the kernel is told to follow none (Linux, any component; elsewhere the last one).
//! A changed file is whole or as it was, keeps its mode, and a new one has the user's umask.

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// The largest file that is edited or compared as a whole.
pub(super) const WHOLE_BYTES: u64 = 8 << 20;

/// Opens a regular file to read. Never waits for the other end of a pipe.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let fd = open_at(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|err| told(path, err))?;
    let stat = rustix::fs::fstat(&fd).map_err(|err| told(path, err))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind.is_file() {
        return Ok(File::from(fd));
    }
    let what = if kind.is_dir() { "a directory; use `ls`" } else { "not a regular file" };
    Err(format!("{} is {what}", path.display()))
}

/// All of a file; `None` when there is none. Errors: larger than [`WHOLE_BYTES`].
pub(super) fn whole(path: &Path) -> Result<Option<Vec<u8>>, String> {
    if matches!(path.symlink_metadata(), Err(err) if err.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let mut content = Vec::new();
    let file = open(path)?;
    file.take(WHOLE_BYTES + 1).read_to_end(&mut content).map_err(|err| format!("{}: {err}", path.display()))?;
    if content.len() as u64 > WHOLE_BYTES {
        return Err(format!("{} has more than {WHOLE_BYTES} bytes", path.display()));
    }
    Ok(Some(content))
}

/// Whether [`replace`] may go ahead: there is nothing, or a regular file.
pub(super) fn replaceable(path: &Path) -> Result<(), String> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => Err(format!("{} is a directory", path.display())),
        Ok(meta) if !meta.is_file() => Err(format!("{} is not a regular file", path.display())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Puts `content` in the place of the file, at once; makes it and the directories above it where they are missing.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!("{} is not a file", path.display()));
    };
    std::fs::create_dir_all(parent).map_err(|err| format!("{}: {err}", parent.display()))?;
    let dir = open_at(parent, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|err| told(parent, err))?;
    let mode = mode_of(&dir, name).map_err(|err| match err {
        Errno::ISDIR => format!("{} is a directory", path.display()),
        Errno::LOOP | Errno::INVAL => format!("{} is not a regular file", path.display()),
        err => told(path, err),
    })?;
    let fresh = fresh_name();
    let written = write_new(&dir, &fresh, content, mode)
        .and_then(|()| Ok(rustix::fs::renameat(&dir, fresh.as_str(), &dir, name)?));
    written.map_err(|err| {
        let _ = rustix::fs::unlinkat(&dir, fresh.as_str(), AtFlags::empty());
        format!("{}: {err}", path.display())
    })
}

/// The mode of the file that is there, which must be one that we may write; `None`: there is none.
fn mode_of(dir: &OwnedFd, name: &OsStr) -> Result<Option<Mode>, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    Ok(Some(Mode::from_raw_mode(stat.st_mode)))
}

fn write_new(dir: &OwnedFd, name: &str, content: &[u8], mode: Option<Mode>) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(dir.as_fd(), name, flags, Mode::from_raw_mode(0o666))?);
    file.write_all(content)?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    Ok(())
}

/// Hidden, and nobody else's.
fn fresh_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(".triplane-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn open_at(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), rustix::fs::ResolveFlags::NO_SYMLINKS) {
        // An old kernel, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

fn told(path: &Path, err: Errno) -> String {
    match err {
        Errno::NOENT => format!("{} does not exist", path.display()),
        Errno::LOOP => format!("{} became a symlink; try again", path.display()),
        err => format!("{}: {}", path.display(), io::Error::from(err)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_symlink_that_came_later_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::fs::write(root.join("secret"), "s").unwrap();
        symlink(root.join("secret"), root.join("a/f")).unwrap();
        assert!(open(&root.join("a/f")).unwrap_err().contains("symlink"));
        assert!(replace(&root.join("a/f"), b"x").is_err());
        symlink(root.join("a"), root.join("b")).unwrap();
        std::fs::write(root.join("a/g"), "g").unwrap();
        if cfg!(target_os = "linux") {
            assert!(open(&root.join("b/g")).unwrap_err().contains("symlink"));
        }
        assert!(replace(&root.join("b/g"), b"x").is_err());
        assert_eq!(std::fs::read_to_string(root.join("secret")).unwrap(), "s");
        assert_eq!(std::fs::read_to_string(root.join("a/g")).unwrap(), "g");
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("run.sh");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o750);
        replace(&root.join("deep/er/f"), b"x").unwrap();
        assert!(replace(&root.join("deep"), b"x").unwrap_err().contains("directory"));
        let names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(whole(&path).unwrap().unwrap(), b"new");
        assert_eq!(whole(&root.join("none")).unwrap(), None);
    }

    #[test]
    fn a_pipe_is_no_file_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(root.join("p")).status().unwrap().success());
        assert!(open(&root.join("p")).unwrap_err().contains("not a regular file"));
        assert!(replace(&root.join("p"), b"x").is_err());
        assert!(open(&root).unwrap_err().contains("use `ls`"));
    }
}
