//! Rows for lists without opening transcripts twice: a row is read once for each state of its file, and grows with it.
//! Invariant: the directory is the authority and this a cache: what is not there is never shown, what is there always is
//! (FAULTS PC-09). Rows of earlier processes are adopted before the first look, and compared like those of this one.

use super::{
    Cached, Ground, IndexRow,
    error::StoreError,
    files::{self, Access},
    lines::{Line, Lines},
    transcript::{self, LINE_BYTES, Parsed},
};
use serde::Deserialize;
use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::{Arc, Mutex, PoisonError, TryLockError},
    time::{Duration, Instant, SystemTime},
};
use triplane_protocol::{Message, SessionId, record::Record};

/// A transcript over this is read at both ends only; its messages are not counted.
const HUGE_BYTES: u64 = 64 << 20;

/// How much of each end.
const END_BYTES: u64 = 1 << 20;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// How long the rows stand without a look at every file. Only foreign hands can change one unseen.
const FRESH: Duration = Duration::from_secs(2);

/// A directory changed less than this before it was read may have changed again within the same tick of the file system's clock.
const TICK: Duration = Duration::from_millis(20);

/// Temporary files that a crash left are removed after this.
const STALE_TEMP: Duration = Duration::from_secs(3600);

/// Rows that changed before they are handed to the cache: with fewer, reading them again costs no more than keeping them.
pub(super) const WORTH_A_WRITE: usize = 64;

/// Rows in the order of C13.
pub(super) type Rows = Arc<[Arc<IndexRow>]>;

/// The rows of one directory.
#[derive(Debug, Default)]
pub(super) struct Index {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<SessionId, Known>,
    taken: Option<Taken>,
    /// Rows that the cache has not, or has and should not.
    unsaved: HashSet<SessionId>,
    /// Whether the cache had anything.
    kept: bool,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    /// As in [`Scan`].
    offset: u64,
    huge: bool,
    headed: bool,
    row: Arc<IndexRow>,
    /// Read by an earlier process: somebody may have written the file anew since, so a changed one is read from its start.
    adopted: bool,
}

/// One state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) mtime_ns: i64,
    pub(super) bytes: u64,
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self { mtime_ns: files::mtime_ns(meta), bytes: meta.len() }
    }
}

#[derive(Debug)]
struct Taken {
    at: Instant,
    directory_ns: i64,
    /// Whether `directory_ns` can be trusted to change with the next change.
    settled: bool,
    order: u64,
    rows: Rows,
}

impl Index {
    /// The rows, if nothing can have changed since they were last taken; cheap.
    pub(super) fn fresh(&self, ground: &Ground) -> Option<Rows> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let taken = state.taken.as_ref()?;
        let same = taken.holds(ground) && taken.order == ground.order.version() && !ground.has_dirty();
        same.then(|| taken.rows.clone())
    }

    /// Takes over what an earlier process read.
    pub(super) fn adopt(&self, rows: Vec<Cached>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept = !rows.is_empty();
        for Cached { mtime_ns, bytes, offset, huge, headed, row } in rows {
            let stamp = Stamp { mtime_ns, bytes };
            let known = Known { stamp, offset, huge, headed, row: Arc::new(row), adopted: true };
            state.known.entry(known.row.id.clone()).or_insert(known);
        }
    }

    /// Rows for the cache, and those that it is to forget, once there are `least` of both; they count as saved then.
    /// A few rows that no cache has are not worth one.
    pub(super) fn unsaved(&self, least: usize) -> Option<(Vec<Cached>, Vec<SessionId>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let least = if state.kept { least } else { WORTH_A_WRITE };
        if state.unsaved.len() < least {
            return None;
        }
        state.kept = true;
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        for id in std::mem::take(&mut state.unsaved) {
            match state.known.get(&id) {
                Some(Known { stamp, offset, huge, headed, row, .. }) => changed.push(Cached {
                    mtime_ns: stamp.mtime_ns,
                    bytes: stamp.bytes,
                    offset: *offset,
                    huge: *huge,
                    headed: *headed,
                    row: IndexRow::clone(row),
                }),
                None => gone.push(id),
            }
        }
        Some((changed, gone))
    }

    /// The rows. Blocking; callers that come meanwhile wait for the same work.
    pub(super) fn rows(&self, ground: &Ground) -> Result<Rows, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let dirty = ground.take_dirty();
        let order = ground.order.version();
        let state = &mut *state;
        if state.taken.as_ref().is_some_and(|taken| taken.holds(ground)) {
            for id in &dirty {
                let stamp = fs::symlink_metadata(ground.path(id)).ok().filter(fs::Metadata::is_file);
                if let Some(meta) = stamp {
                    look(state, ground, id, Stamp::of(&meta));
                }
            }
            if let Some(taken) = &mut state.taken {
                if !dirty.is_empty() || taken.order != order {
                    taken.rows = sorted(&state.known, ground);
                    taken.order = order;
                }
                return Ok(taken.rows.clone());
            }
        }
        let at = Instant::now();
        let directory_ns = directory_ns(ground);
        let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let age = i128::try_from(now_ns).unwrap_or(0) - i128::from(directory_ns);
        let found = transcripts(&ground.root)?;
        let State { known, unsaved, .. } = state;
        known.retain(|id, _| {
            let stays = found.contains_key(id);
            if !stays {
                unsaved.insert(id.clone());
            }
            stays
        });
        for (id, stamp) in &found {
            look(state, ground, id, *stamp);
        }
        let rows = sorted(&state.known, ground);
        let settled = age > TICK.as_nanos() as i128;
        state.taken = Some(Taken { at, directory_ns, settled, order, rows: rows.clone() });
        Ok(rows)
    }
}

impl Taken {
    fn holds(&self, ground: &Ground) -> bool {
        self.settled && self.at.elapsed() < FRESH && self.directory_ns == directory_ns(ground)
    }
}

fn directory_ns(ground: &Ground) -> i64 {
    fs::metadata(&ground.root).map_or(0, |meta| files::mtime_ns(&meta))
}

/// Every transcript of the directory: regular files with a session's name. Clause: C16.
pub(super) fn transcripts(root: &Path) -> Result<HashMap<SessionId, Stamp>, StoreError> {
    let listing = |source| StoreError::Io { doing: "reading the session directory", source };
    let mut found = HashMap::new();
    for entry in fs::read_dir(root).map_err(listing)? {
        let entry = entry.map_err(listing)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with('.') && name.ends_with(".tmp") {
            sweep(&entry);
            continue;
        }
        let Some(id) = name.strip_suffix(".jsonl").and_then(|stem| SessionId::parse(stem).ok()) else { continue };
        // The entry's own metadata: a symlink is not followed. Gone meanwhile: not there.
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(meta) = entry.metadata()
            && meta.is_file()
        {
            found.insert(id, Stamp::of(&meta));
        }
    }
    Ok(found)
}

fn sweep(entry: &fs::DirEntry) {
    let old = |meta: fs::Metadata| meta.modified().ok()?.elapsed().ok().filter(|age| *age > STALE_TEMP);
    if entry.metadata().ok().filter(fs::Metadata::is_file).and_then(old).is_some() {
        _ = fs::remove_file(entry.path());
    }
}

fn look(State { known, unsaved, .. }: &mut State, ground: &Ground, id: &SessionId, stamp: Stamp) {
    let mut scan = match known.get(id) {
        Some(known) if known.stamp == stamp => return,
        Some(Known { adopted: true, .. }) | None => Scan::new(id),
        Some(Known { offset, huge, headed, row, .. }) => {
            Scan { offset: *offset, huge: *huge, headed: *headed, row: IndexRow::clone(row) }
        }
    };
    if let Err(err) = scan.go_on(&ground.path(id)) {
        tracing::warn!(session = %id, error = %err, "the transcript cannot be read for the list");
        scan = Scan::new(id);
    }
    known.insert(id.clone(), scan.known(stamp));
    unsaved.insert(id.clone());
}

fn sorted(known: &HashMap<SessionId, Known>, ground: &Ground) -> Rows {
    let all: Vec<&Known> = known.values().collect();
    let sorted = ground.order.newest_first(all, |known| (&known.row.id, known.stamp.mtime_ns));
    sorted.into_iter().map(|known| known.row.clone()).collect()
}

/// Reads on in one transcript and keeps its row up.
struct Scan {
    offset: u64,
    /// Only both ends were read.
    huge: bool,
    /// The header was read.
    headed: bool,
    row: IndexRow,
}

impl Scan {
    fn new(id: &SessionId) -> Self {
        let row = IndexRow {
            id: id.clone(),
            agent: String::new(),
            cwd: String::new(),
            title: None,
            model: None,
            parent: None,
            created: 0,
            updated: 0,
            messages: Some(0),
            bytes: 0,
        };
        Self { offset: 0, huge: false, headed: false, row }
    }

    fn go_on(&mut self, path: &Path) -> io::Result<()> {
        let file = files::open(path, Access::Read)?;
        let bytes = file.metadata()?.len();
        if bytes < self.offset {
            *self = Self::new(&self.row.id);
        }
        let mut rewound = false;
        if self.offset == 0 && bytes > HUGE_BYTES {
            (self.huge, self.row.messages) = (true, None);
            rewound |= self.read(&file, 0, END_BYTES)?;
            self.offset = bytes - END_BYTES;
            let mut rest = Lines::new(BufReader::new(at(&file, self.offset)?), self.offset, LINE_BYTES);
            rest.next()?;
            self.offset = rest.end();
        }
        rewound |= self.read(&file, self.offset, u64::MAX)?;
        if rewound && !self.huge {
            // Which messages went can only be told by folding.
            self.fold(path);
        }
        Ok(())
    }

    /// Answers with whether there was a rewind.
    fn read(&mut self, file: &File, from: u64, most: u64) -> io::Result<bool> {
        let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, at(file, from)?.take(most)), from, LINE_BYTES);
        let mut rewound = false;
        let mut last_message = Vec::new();
        loop {
            match lines.next()? {
                Some(Line::Whole(text)) => rewound |= self.take(text, &mut last_message),
                Some(Line::TooLong) => {}
                // It is counted when it has its newline.
                Some(Line::Unended(_) | Line::UnendedTooLong) | None => break,
            }
            self.offset = lines.end();
        }
        #[derive(Deserialize)]
        struct At {
            at: i64,
        }
        if let Ok(At { at }) = serde_json::from_slice(&last_message) {
            self.row.updated = self.row.updated.max(at);
        }
        Ok(rewound)
    }

    /// Our own lines begin with their type, so that most need no parsing.
    fn take(&mut self, line: &[u8], last_message: &mut Vec<u8>) -> bool {
        let begins = |kind: &str| {
            let rest = line.strip_prefix(b"{\"type\":\"").and_then(|rest| rest.strip_prefix(kind.as_bytes()));
            rest.is_some_and(|rest| rest.starts_with(b"\""))
        };
        if begins("message") || begins("boundary") {
            self.count();
            last_message.clear();
            last_message.extend_from_slice(line);
            return false;
        }
        if begins("run") || begins("checkpoint") {
            return false;
        }
        let Parsed::Record(record) = transcript::parse(line) else { return false };
        let row = &mut self.row;
        match *record {
            Record::Session(header) if !self.headed => {
                self.headed = true;
                row.created = header.created;
                (row.agent, row.cwd, row.parent) = (header.agent, header.cwd, header.parent);
            }
            Record::Set { patch, .. } => {
                row.model = patch.model.or(row.model.take());
                row.title = patch.title.or(row.title.take()).filter(|title| !title.is_empty());
            }
            Record::Message(Message { at, .. }) | Record::Boundary { at, .. } => {
                row.updated = row.updated.max(at);
                self.count();
            }
            Record::Rewind { .. } => return true,
            Record::Session(_) | Record::Checkpoint(_) | Record::Run { .. } => {}
        }
        false
    }

    fn count(&mut self) {
        self.row.messages = self.row.messages.map(|count| count + 1);
    }

    fn fold(&mut self, path: &Path) {
        if let Ok((history, _)) = transcript::read(path, &self.row.id) {
            self.row.messages = Some(history.messages().len() as u64);
            self.row.updated = history.updated();
        }
    }

    fn known(mut self, stamp: Stamp) -> Known {
        let row = &mut self.row;
        if !self.headed {
            row.created = stamp.mtime_ns / 1_000_000;
        }
        row.updated = row.updated.max(row.created);
        row.bytes = stamp.bytes;
        Known {
            stamp,
            offset: self.offset,
            huge: self.huge,
            headed: self.headed,
            row: Arc::new(self.row),
            adopted: false,
        }
    }
}

fn at(mut file: &File, offset: u64) -> io::Result<&File> {
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
