//! The append-only file of one session: one record a line. Undo and rewind append; nothing is rewritten.
//! Invariant: the file holds whole lines up to `len`, whatever a write or a sync answered; a write that fails leaves nothing
//! behind, a failed sync is never tried again as if it were good: what it left uncertain is written again first (FAULTS PC-06..08).
//! Clauses: C12, C15, L05.

use super::{
    Durability, Ground,
    error::StoreError,
    files::{self, Access},
    history::{History, Line},
    lines::{self, Lines},
    lock::SessionLock,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};
use triplane_protocol::{
    SessionId,
    record::{Header, Record, TRANSCRIPT_VERSION},
};

/// The longest line that is read or written: four prompts of the largest size, as JSON.
pub(super) const LINE_BYTES: usize = 64 << 20;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// What a load had to leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Bytes of a torn last line.
    pub torn_bytes: u64,
    /// Damaged or over-long lines; they stay on disk.
    pub bad_lines: u64,
    /// Lines of types that are not known here; they stay on disk and in the history.
    pub unknown: u64,
}

/// A transcript opened for writing, with what it tells.
#[derive(Debug)]
pub struct Loaded {
    /// Ready for appends.
    pub transcript: Transcript,
    /// What it tells.
    pub history: History,
    /// What had to be left out.
    pub report: LoadReport,
}

/// A transcript open for appends, under the session's lock.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    file: Arc<File>,
    lock: Arc<SessionLock>,
    ground: Arc<Ground>,
    /// Written with the first append.
    header: Option<Box<Header>>,
    /// Where whole lines end.
    len: u64,
    /// Up to where a sync was good.
    synced: u64,
    /// A sync failed: what lies between `synced` and `len` must be written again before the next one can be believed.
    suspect: bool,
    /// A failed write could not be taken back: the file is longer than `len`.
    ragged: bool,
    /// The last line has no newline.
    unended: bool,
}

impl Transcript {
    /// An empty file under a name that nobody has. The caller syncs the directory.
    pub(super) fn create(
        path: PathBuf,
        header: Header,
        lock: Arc<SessionLock>,
        ground: Arc<Ground>,
    ) -> Result<Self, StoreError> {
        let file = files::open(&path, Access::CreateNew).map_err(|err| {
            let taken = err.kind() == io::ErrorKind::AlreadyExists;
            if taken {
                StoreError::Exists(header.id.to_string())
            } else {
                StoreError::io("creating the transcript")(err)
            }
        })?;
        Ok(Self::over(path, file, Some(header), 0, lock, ground))
    }

    fn over(
        path: PathBuf,
        file: File,
        header: Option<Header>,
        len: u64,
        lock: Arc<SessionLock>,
        ground: Arc<Ground>,
    ) -> Self {
        Self {
            path,
            file: Arc::new(file),
            lock,
            ground,
            header: header.map(Box::new),
            len,
            synced: len,
            suspect: false,
            ragged: false,
            unended: false,
        }
    }

    /// Opens for appends, folds what is there, cuts a torn last line off. Blocking.
    pub(super) fn load(path: PathBuf, lock: Arc<SessionLock>, ground: Arc<Ground>) -> Result<Loaded, StoreError> {
        let file = files::open(&path, Access::Write).map_err(missing(lock.id()))?;
        files::tighten(&file).map_err(StoreError::io("making the transcript private"))?;
        let found = fold(&file)?;
        if found.report.torn_bytes > 0 {
            lock.fenced_write(|| {
                files::resize(&file, found.len).map_err(StoreError::io("cutting the torn last line off"))
            })?;
            tracing::warn!(session = %lock.id(), bytes = found.report.torn_bytes, "a torn last line was cut off");
        }
        if found.report.bad_lines > 0 {
            tracing::warn!(session = %lock.id(), lines = found.report.bad_lines, "damaged lines were skipped");
        }
        let mut transcript = Self::over(path, file, None, found.len, lock, ground);
        transcript.unended = found.unended;
        Ok(Loaded { transcript, history: found.history, report: found.report })
    }

    /// Gives a file that was made under a temporary name its own. Errors: `Exists`.
    pub(super) fn rename(&mut self, path: PathBuf) -> Result<(), StoreError> {
        self.lock.fenced_write(|| {
            // All who would make this file hold this lock.
            if path.symlink_metadata().is_ok() {
                return Err(StoreError::Exists(self.lock.id().to_string()));
            }
            files::rename(&self.path, &path).map_err(StoreError::io("naming the transcript"))
        })?;
        self.path = path;
        self.ground.written(self.lock.id());
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the header to a loaded transcript that was never written to (what create was given is kept elsewhere until then).
    pub fn adopt_header(&mut self, header: Header) {
        if self.is_pending() {
            self.header = Some(Box::new(header));
        }
    }

    /// Whether nothing was written yet: the file is empty.
    pub fn is_pending(&self) -> bool {
        self.len == 0
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Writes records in one write and makes them as durable as the store promises. All or nothing: on an error none of them is in the file.
    /// Errors: `Fenced`; `NotFound` when the file was deleted; `TooLarge`; `Io`.
    /// Cancel: dropped, they are in the file, and durable with the next sync.
    pub async fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let before = self.len;
        self.write(records)?;
        let synced = self.sync().await;
        if synced.is_err() {
            self.take_back(before);
        }
        synced
    }

    /// Writes records in one write and leaves it to a later [`sync`](Self::sync) or [`append`](Self::append) to make them durable.
    /// All or nothing. Errors: as `append`.
    pub fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for record in records {
            encode(&mut text, record)?;
        }
        self.put(text)
    }

    /// The same for the lines of a fork.
    pub(super) fn write_lines(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for line in lines {
            match line {
                Line::Record(record) => encode(&mut text, record)?,
                Line::Raw(raw) => encode(&mut text, raw)?,
            }
        }
        self.header = None;
        self.put(text)
    }

    /// Makes everything written so far as durable as the store promises. Nothing to do under [`Durability::Flush`].
    /// On an error what was written stays, and is written again before the next sync.
    pub async fn sync(&mut self) -> Result<(), StoreError> {
        if self.ground.durability == Durability::Flush || self.synced == self.len {
            return Ok(());
        }
        if self.suspect {
            self.write_again()?;
        }
        let upto = self.len;
        match self.ground.committer.sync(&self.file).await {
            Ok(()) => {
                self.synced = upto;
                Ok(())
            }
            Err(err) => {
                self.suspect = true;
                Err(StoreError::Io { doing: "syncing the transcript", source: err })
            }
        }
    }

    fn put(&mut self, mut text: Vec<u8>) -> Result<(), StoreError> {
        if text.is_empty() {
            return Ok(());
        }
        let with_header = self.is_pending() && self.header.is_some();
        if let Some(header) = self.header.as_deref().filter(|_| with_header) {
            let mut whole = Vec::with_capacity(text.len() + 512);
            encode(&mut whole, &Record::Session(header.clone()))?;
            whole.append(&mut text);
            text = whole;
        }
        let lock = self.lock.clone();
        lock.fenced_write(|| self.put_fenced(&text))?;
        self.ground.written(self.lock.id());
        Ok(())
    }

    /// Under the fence nobody else writes; what a foreign hand did to the file meanwhile is seen here.
    fn put_fenced(&mut self, text: &[u8]) -> Result<(), StoreError> {
        let writing = |source| StoreError::Io { doing: "writing the transcript", source };
        let meta = self.file.metadata().map_err(writing)?;
        if files::is_unlinked(&meta) {
            return Err(StoreError::NotFound(self.lock.id().to_string()));
        }
        if self.ragged {
            files::resize(&self.file, self.len).map_err(writing)?;
            self.ragged = false;
        } else if meta.len() != self.len {
            self.adopt_length(meta.len()).map_err(writing)?;
        }
        if self.suspect {
            self.write_again()?;
        }
        let text = if self.unended { Cow::Owned([b"\n", text].concat()) } else { Cow::Borrowed(text) };
        if let Err(err) = files::write_at(&self.file, &text, self.len) {
            self.ragged = files::resize(&self.file, self.len).is_err();
            return Err(writing(err));
        }
        self.unended = false;
        self.len += text.len() as u64;
        Ok(())
    }

    /// Somebody edited the file: go on after what is there, on a line of our own.
    fn adopt_length(&mut self, len: u64) -> io::Result<()> {
        tracing::warn!(session = %self.lock.id(), expected = self.len, found = len, "the transcript was changed by somebody else");
        let mut last = [b'\n'];
        if let Some(at) = len.checked_sub(1) {
            files::read_at(&self.file, &mut last, at)?;
        }
        self.unended = last != *b"\n";
        self.len = len;
        self.synced = self.synced.min(len);
        Ok(())
    }

    /// After a failed sync the system may hold the pages for clean although they never reached the disk: only a new write
    /// makes the next sync say something about them.
    fn write_again(&mut self) -> Result<(), StoreError> {
        let again = |source| StoreError::Io { doing: "writing again what was not synced", source };
        let mut at = self.synced;
        let mut chunk = vec![0; READ_BYTES];
        while at < self.len {
            let room = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(chunk.len());
            let part = chunk.get_mut(..room).unwrap_or_default();
            let read = files::read_at(&self.file, part, at).map_err(again)?;
            if read == 0 {
                return Err(again(io::ErrorKind::UnexpectedEof.into()));
            }
            files::write_at(&self.file, part.get(..read).unwrap_or_default(), at).map_err(again)?;
            at += read as u64;
        }
        self.suspect = false;
        Ok(())
    }

    fn take_back(&mut self, before: u64) {
        let cut = self
            .lock
            .fenced_write(|| files::resize(&self.file, before).map_err(StoreError::io("cutting the transcript")));
        // Not cut now: then before the next write.
        self.ragged = cut.is_err();
        self.len = before;
        self.suspect &= self.synced < before;
    }
}

/// `map_err` for opening a transcript.
pub(super) fn missing(id: &SessionId) -> impl FnOnce(io::Error) -> StoreError {
    move |err| {
        let gone = err.kind() == io::ErrorKind::NotFound;
        if gone { StoreError::NotFound(id.to_string()) } else { StoreError::io("opening the transcript")(err) }
    }
}

/// What a transcript tells, without a lock and without a change. Blocking.
pub(super) fn read(path: &Path, id: &SessionId) -> Result<(History, LoadReport), StoreError> {
    let file = files::open(path, Access::Read).map_err(missing(id))?;
    let found = fold(&file)?;
    Ok((found.history, found.report))
}

struct Folded {
    history: History,
    report: LoadReport,
    /// Where whole lines end.
    len: u64,
    unended: bool,
}

fn fold(file: &File) -> Result<Folded, StoreError> {
    let reading = |source| StoreError::Io { doing: "reading the transcript", source };
    let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, file), 0, LINE_BYTES);
    let mut found = Folded { history: History::default(), report: LoadReport::default(), len: 0, unended: false };
    while let Some(line) = lines.next().map_err(reading)? {
        match line {
            lines::Line::Whole(text) => found.take(parse(text))?,
            lines::Line::TooLong => found.report.bad_lines += 1,
            // Whole but for its newline: nothing of it is lost.
            lines::Line::Unended(text) => match parse(text) {
                Parsed::Bad => found.report.torn_bytes = text.len() as u64,
                whole @ (Parsed::Record(_) | Parsed::Unknown(_)) => {
                    found.take(whole)?;
                    found.unended = true;
                }
            },
            lines::Line::UnendedTooLong => found.report.torn_bytes = lines.end() - lines.start(),
        }
        found.len = if found.report.torn_bytes > 0 { lines.start() } else { lines.end() };
    }
    Ok(found)
}

impl Folded {
    fn take(&mut self, parsed: Parsed) -> Result<(), StoreError> {
        match parsed {
            Parsed::Record(record) => {
                if let Record::Session(header) = &*record
                    && header.v > TRANSCRIPT_VERSION
                {
                    return Err(StoreError::NewerFormat(header.v));
                }
                self.history.apply(*record);
            }
            Parsed::Unknown(raw) => {
                self.report.unknown += 1;
                self.history.apply_unknown(raw);
            }
            Parsed::Bad => self.report.bad_lines += 1,
        }
        Ok(())
    }
}

pub(super) enum Parsed {
    Record(Box<Record>),
    /// An object with a `type` that is not known here.
    Unknown(Box<RawValue>),
    Bad,
}

/// One line of a transcript.
pub(super) fn parse(line: &[u8]) -> Parsed {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    if let Ok(record) = serde_json::from_slice(line) {
        return Parsed::Record(Box::new(record));
    }
    let Ok(Tag { kind }) = serde_json::from_slice(line) else { return Parsed::Bad };
    let known = ["session", "message", "boundary", "rewind", "checkpoint", "set", "run"];
    match serde_json::from_slice::<Box<RawValue>>(line) {
        Ok(raw) if !known.contains(&kind.as_ref()) => Parsed::Unknown(raw),
        Ok(_) | Err(_) => Parsed::Bad,
    }
}

fn encode(text: &mut Vec<u8>, record: &impl serde::Serialize) -> Result<(), StoreError> {
    let begin = text.len();
    serde_json::to_writer(&mut *text, record).map_err(StoreError::Encode)?;
    let line = text.get(begin..).unwrap_or_default();
    if line.len() > LINE_BYTES {
        return Err(StoreError::TooLarge { what: "a record", bytes: line.len() as u64, limit: LINE_BYTES as u64 });
    }
    if memchr::memchr(b'\n', line).is_some() {
        return Err(StoreError::Corrupt("a record would take more than one line".into()));
    }
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
