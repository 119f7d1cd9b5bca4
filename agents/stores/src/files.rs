//! Files of other programs: read a piece or whole, made so that nobody sees a part of one.
//! Invariants: a file that is there is never replaced, except the small indexes that an agent itself rewrites; what is made
//! is 0600, its directories 0700. A line over the bound, or that is no JSON, costs that line. Clauses: C15, C16, S28.

use serde_json::Value;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};
use triplane_core::agent::StoreFailure;
use triplane_protocol::ErrorCode;

/// How much of each end of a long file a row is made from.
pub(crate) const END_BYTES: u64 = 64 << 10;

/// A line over this is skipped; agents write whole files and pictures into one line.
const LINE_BYTES: usize = 64 << 20;

/// How often a file was opened for a row, in this process; tests count with it.
pub(crate) static OPENED: AtomicU64 = AtomicU64::new(0);

/// What the system said, as the store's own message.
pub(crate) fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> StoreFailure {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => StoreFailure::new(ErrorCode::NotFound, format!("{doing}: it is not there")),
        io::ErrorKind::AlreadyExists => StoreFailure::new(ErrorCode::Invalid, format!("{doing}: it exists already")),
        _ => StoreFailure::new(ErrorCode::Unavailable, format!("{doing}: {error}")),
    }
}

/// The names in a directory; none when it is not there.
pub(crate) fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The last component as text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Every line that is a JSON object. Errors: the file cannot be read.
pub(crate) fn lines(path: &Path) -> io::Result<Vec<Value>> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path)?);
    let (mut values, mut line, mut bad) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        if reader.by_ref().take(LINE_BYTES as u64).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() == LINE_BYTES && line.last() != Some(&b'\n') {
            bad += 1;
            reader.skip_until(b'\n')?;
            continue;
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(value) if value.is_object() => values.push(value),
            Ok(_) => bad += 1,
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => bad += 1,
        }
    }
    if bad > 0 {
        tracing::warn!(file = %path.display(), bad, "lines that cannot be read are left out");
    }
    Ok(values)
}

/// The whole lines of a file's head and tail, for a row; of a short one all. Calls `see` in order.
pub(crate) fn ends(path: &Path, mut see: impl FnMut(&[u8])) -> io::Result<()> {
    OPENED.fetch_add(1, Ordering::Relaxed);
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let whole = size <= 2 * END_BYTES;
    let mut text = Vec::new();
    (&file).take(if whole { 2 * END_BYTES } else { END_BYTES }).read_to_end(&mut text)?;
    if whole {
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut see);
        return Ok(());
    }
    // The first line may be longer than the piece: agents put their instructions into it.
    if !text.contains(&b'\n') {
        BufReader::new(&file).take(16 * END_BYTES).read_until(b'\n', &mut text)?;
    }
    let end = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(text.len());
    let head = text.get(..end).unwrap_or_default();
    head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut see);
    text.clear();
    file.seek(SeekFrom::Start(size.saturating_sub(END_BYTES)))?;
    file.take(END_BYTES).read_to_end(&mut text)?;
    text.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty()).for_each(&mut see);
    Ok(())
}

/// A file that is one JSON value, at most `limit` bytes of it, for a row.
pub(crate) fn small(path: &Path) -> io::Result<Value> {
    OPENED.fetch_add(1, Ordering::Relaxed);
    whole(path)
}

/// A file that is one JSON value.
pub(crate) fn whole(path: &Path) -> io::Result<Value> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

/// JSON values as lines.
pub(crate) fn jsonl(records: &[Value]) -> Vec<u8> {
    let mut text = Vec::new();
    for record in records {
        text.extend_from_slice(record.to_string().as_bytes());
        text.push(b'\n');
    }
    text
}

/// Makes a directory and those above it.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes a file with these bytes, whole or not at all. Errors: `AlreadyExists`.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = written(path, bytes)?;
    // A link, unlike a rename, does not replace what is there.
    let linked = fs::hard_link(&temp, path);
    fs::remove_file(&temp)?;
    linked
}

/// Puts these bytes in the place of a file, whole or not at all: for indexes that the agent rewrites itself.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_dir(path.parent().unwrap_or(Path::new("/")))?;
    triplane_core::store::files::write_atomic(path, bytes)
}

/// Adds a line to an index that the agent itself only appends to.
pub(crate) fn append(path: &Path, record: &Value) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{record}\n").as_bytes())
}

fn written(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let dir = path.parent().unwrap_or(Path::new("/"));
    make_dir(dir)?;
    let temp = dir.join(format!(".tmp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
    let done = file.write_all(bytes).and_then(|()| file.sync_all());
    if done.is_err() {
        // Nobody knows this name.
        let _ = fs::remove_file(&temp);
    }
    done.map(|()| temp)
}

/// Makes a directory with files in it, whole or not at all: `files` are names in it and bytes. Errors: `AlreadyExists`.
pub(crate) fn create_dir(dir: &Path, files: &[(PathBuf, Vec<u8>)]) -> io::Result<()> {
    if dir.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let temp = dir.with_file_name(format!(".tmp-{}-{}", std::process::id(), name(dir)));
    make_dir(&temp)?;
    let fill = || -> io::Result<()> {
        for (name, bytes) in files {
            create(&temp.join(name), bytes)?;
        }
        fs::rename(&temp, dir)
    };
    let done = fill();
    if done.is_err() {
        let _ = fs::remove_dir_all(&temp);
    }
    done
}

/// Errors with `Locked` when a program has a file below `paths` open; where that cannot be seen, it is not known.
pub(crate) fn must_be_free(paths: &[&Path]) -> Result<(), StoreFailure> {
    let real: Vec<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let me = std::process::id().to_string();
    for process in names(Path::new("/proc")).unwrap_or_default() {
        let pid = name(&process).to_owned();
        if pid == me || pid.parse::<u32>().is_err() {
            continue;
        }
        for descriptor in names(&process.join("fd")).unwrap_or_default() {
            if fs::read_link(&descriptor).is_ok_and(|open| real.iter().any(|path| open.starts_with(path))) {
                let text = format!("process {pid} has the session open; end it first");
                return Err(StoreFailure::new(ErrorCode::Locked, text));
            }
        }
    }
    Ok(())
}
