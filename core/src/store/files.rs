//! Files and directories that are the plane's own: private at creation, never reached through a symlink, written whole or not at all.
//! Invariant: what [`open`] returns is a regular file, checked on the handle that is used; opening never waits.
//! Everything that depends on the platform is in `sys` below. Clause: C16.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    Write,
    /// To read and write; made when it is missing.
    Create,
    /// To read and write; fails when it exists.
    CreateNew,
}

/// Opens a regular file, mode 0600 when it is made. A symlink, FIFO, device or directory counts as absent (`NotFound`).
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    match access {
        Access::Read => {}
        Access::Write => _ = options.write(true),
        Access::Create => _ = options.write(true).create(true).truncate(false),
        Access::CreateNew => _ = options.write(true).create_new(true),
    }
    sys::harden(&mut options);
    let file = options.open(path).map_err(|err| if sys::is_irregular(&err) { irregular() } else { err })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "not a regular file")
}

/// Takes group and others off a file that somebody made readable for them.
pub fn tighten(file: &File) -> io::Result<()> {
    sys::tighten(file)
}

/// Makes a directory and its missing parents, mode 0700; takes group and others off one that exists.
pub fn private_dir(path: &Path) -> io::Result<()> {
    sys::make_dirs(path)?;
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
    }
    sys::tighten_dir(path, &meta)
}

/// Replaces `path` by a file with `content`: a reader sees the old or the new one, a power cut too.
pub fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = temp_path(path)?;
    let written = write_new(&temp, content).and_then(|()| rename(&temp, path));
    if let Err(err) = written {
        _ = fs::remove_file(&temp);
        return Err(err);
    }
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = open(path, Access::CreateNew)?;
    #[cfg(test)]
    crate::crash_tests::point(|| {
        _ = io::Write::write(&mut &file, content.get(..content.len() / 2).unwrap_or_default())
    });
    io::Write::write_all(&mut &file, content)?;
    file.sync_all()
}

/// A name beside `path` that nobody else uses. It begins with a dot, so it is no session's.
pub fn temp_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path without a name"))?;
    let mut temp = std::ffi::OsString::from(".");
    temp.push(name);
    temp.push(format!(".{}.tmp", random_hex()?));
    Ok(path.with_file_name(temp))
}

/// 16 random hex digits.
pub fn random_hex() -> io::Result<String> {
    let number = getrandom::u64().map_err(|err| io::Error::other(err.to_string()))?;
    Ok(format!("{number:016x}"))
}

/// Makes the names in a directory safe from a power cut.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    match sys::open_dir(dir)? {
        Some(dir) => dir.sync_all(),
        None => Ok(()),
    }
}

/// A handle that [`sync_dir`]'s work can be done with; `None` where the platform has no such thing.
pub fn open_dir(dir: &Path) -> io::Result<Option<File>> {
    sys::open_dir(dir)
}

/// Whether the handle's file has lost its name.
pub fn is_unlinked(meta: &fs::Metadata) -> bool {
    sys::is_unlinked(meta)
}

/// Whether the handle's file is the one that `path` names now.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(sys::same_file(&file.metadata()?, &there)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err),
    }
}

/// Reads at an offset, as much as there is.
pub fn read_at(file: &File, buf: &mut [u8], mut offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match sys::read_at(file, rest, offset) {
            Ok(0) => break,
            Ok(n) => {
                filled += n;
                offset += n as u64;
            }
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(filled)
}

/// Gives a file another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(test)]
    crate::crash_tests::point(|| ());
    fs::rename(from, to)
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    crate::crash_tests::point(|| ());
    fs::remove_file(path)
}

/// Cuts a file off, or makes it longer.
pub fn resize(file: &File, len: u64) -> io::Result<()> {
    #[cfg(test)]
    crate::crash_tests::point(|| ());
    file.set_len(len)
}

/// Writes all of `content` at an offset.
pub fn write_at(file: &File, mut content: &[u8], mut offset: u64) -> io::Result<()> {
    #[cfg(test)]
    crate::crash_tests::point(|| {
        // A write that is cut short by the death of the process.
        let half = content.get(..content.len() / 2).unwrap_or_default();
        _ = sys::write_at(file, half, offset);
    });
    while !content.is_empty() {
        match sys::write_at(file, content, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                content = content.get(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// Modification time in milliseconds since the epoch; negative before it.
pub fn mtime_ms(meta: &fs::Metadata) -> i64 {
    meta.modified().map_or(0, |at| millis(at, 1_000_000))
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    millis(SystemTime::now(), 1_000_000)
}

/// Nanoseconds since the epoch, for telling two versions of a file apart.
pub(crate) fn mtime_ns(meta: &fs::Metadata) -> i64 {
    meta.modified().map_or(0, |at| millis(at, 1))
}

fn millis(at: SystemTime, divisor: u128) -> i64 {
    let signed = |nanos: u128| i64::try_from(nanos / divisor).unwrap_or(i64::MAX);
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after.as_nanos()),
        Err(before) => -signed(before.duration().as_nanos()),
    }
}

#[cfg(unix)]
mod sys {
    use rustix::{fs::OFlags, io::Errno};
    use std::{
        fs::{DirBuilder, File, Metadata, OpenOptions, Permissions},
        io,
        os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        path::Path,
    };

    pub(super) fn harden(options: &mut OpenOptions) {
        // NONBLOCK: opening a FIFO must not wait for its other end; a regular file does not care.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }

    pub(super) fn is_irregular(err: &io::Error) -> bool {
        matches!(Errno::from_io_error(err), Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO))
    }

    pub(super) fn tighten(file: &File) -> io::Result<()> {
        let mode = file.metadata()?.mode();
        if mode & 0o077 == 0 { Ok(()) } else { file.set_permissions(Permissions::from_mode(mode & 0o700)) }
    }

    pub(super) fn make_dirs(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    pub(super) fn tighten_dir(path: &Path, meta: &Metadata) -> io::Result<()> {
        let mine = meta.uid() == rustix::process::geteuid().as_raw();
        if meta.mode() & 0o077 == 0 || !mine {
            return Ok(());
        }
        std::fs::set_permissions(path, Permissions::from_mode(meta.mode() & 0o700))
    }

    pub(super) fn open_dir(dir: &Path) -> io::Result<Option<File>> {
        File::open(dir).map(Some)
    }

    pub(super) fn is_unlinked(meta: &Metadata) -> bool {
        meta.nlink() == 0
    }

    pub(super) fn same_file(a: &Metadata, b: &Metadata) -> bool {
        a.dev() == b.dev() && a.ino() == b.ino()
    }

    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buf, offset)
    }

    pub(super) fn write_at(file: &File, content: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(content, offset)
    }
}

#[cfg(windows)]
mod sys {
    use std::{
        fs::{File, Metadata, OpenOptions},
        io,
        os::windows::fs::{FileExt, OpenOptionsExt},
        path::Path,
    };

    /// FILE_FLAG_OPEN_REPARSE_POINT: the link itself, which is then no regular file.
    const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    pub(super) fn harden(options: &mut OpenOptions) {
        options.custom_flags(OPEN_REPARSE_POINT);
    }

    pub(super) fn is_irregular(_: &io::Error) -> bool {
        false
    }

    // Access lists are inherited from the user's profile there.
    pub(super) fn tighten(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn make_dirs(path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    pub(super) fn tighten_dir(_: &Path, _: &Metadata) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn open_dir(_: &Path) -> io::Result<Option<File>> {
        Ok(None)
    }

    pub(super) fn is_unlinked(_: &Metadata) -> bool {
        false
    }

    // An open file cannot be replaced there.
    pub(super) fn same_file(_: &Metadata, _: &Metadata) -> bool {
        true
    }

    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(buf, offset)
    }

    pub(super) fn write_at(file: &File, content: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(content, offset)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).map_or(0, |meta| meta.permissions().mode() & 0o777)
    }

    #[test]
    fn files_and_directories_are_private_at_creation_whatever_the_umask() {
        rustix::process::umask(rustix::fs::Mode::empty());
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        private_dir(&dir).unwrap();
        assert_eq!((mode(&temp.path().join("a")), mode(&dir)), (0o700, 0o700));
        open(&dir.join("new"), Access::CreateNew).unwrap();
        open(&dir.join("made"), Access::Create).unwrap();
        write_atomic(&dir.join("whole"), b"x").unwrap();
        for name in ["new", "made", "whole"] {
            assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "no temporary file is left over");
    }

    #[test]
    fn loose_modes_are_tightened() {
        let temp = tempfile::tempdir().unwrap();
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
        private_dir(temp.path()).unwrap();
        assert_eq!(mode(temp.path()), 0o700);
        let path = temp.path().join("f");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        tighten(&open(&path, Access::Write).unwrap()).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn irregular_files_count_as_absent_and_never_hang() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::write(at("secret"), "s").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["link", "dangling", "dir", "fifo", "socket"] {
            for access in [Access::Read, Access::Write, Access::Create] {
                let err = open(&at(name), access).unwrap_err();
                assert_eq!(err.kind(), io::ErrorKind::NotFound, "{name} {access:?}");
            }
            assert_eq!(open(&at(name), Access::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn an_atomic_write_that_fails_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let taken = temp.path().join("taken");
        fs::create_dir_all(taken.join("full")).unwrap();
        write_atomic(&taken, b"x").unwrap_err();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_handle_knows_whether_its_name_still_means_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("f");
        let file = open(&path, Access::CreateNew).unwrap();
        assert!(is_at(&file, &path).unwrap());
        write_atomic(&path, b"other").unwrap();
        assert!(!is_at(&file, &path).unwrap());
        assert!(is_unlinked(&file.metadata().unwrap()));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
    }
}
