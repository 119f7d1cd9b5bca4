//! Every published event on disk, deltas included, and the seqs that may be published. Clauses: H15, H16; DESIGN §5.
//! `<id>.events`, made with the first reservation, has a line each of
//! `{"epoch":"16 hex","v":1}` (first), `{"reserve":N}` (seqs up to N may be published), `{"seq":N,…}` (an event),
//! `{"end":N}` (closed cleanly after N).
//! Invariant: a seq is published only after the reservation of its block is synced, so after an unclean end the session goes on
//! past the block, and no seq is used twice. Event lines ascend in seq, so a reader finds its place by bisection.
//! Events are written without a sync: a power cut may take the last ones, never a number twice.

use super::{
    Ground, TempFile,
    error::StoreError,
    files::{self, Access},
    lock::SessionLock,
    spool_read as read,
};
use bytes::Bytes;
use std::{fs::File, io, path::PathBuf, sync::Arc};

/// How many seqs one synced line reserves.
pub const BLOCK: u64 = 4096;

/// What a spool says of its seq space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolState {
    /// Names the seq space; 16 hex digits.
    pub epoch: String,
    /// The first seq that may be used now.
    pub next_seq: u64,
    /// The last event on disk; 0: none. What lies between it and `next_seq` is a hole.
    pub last_seq: u64,
    /// The first event on disk; 0: none.
    pub oldest_seq: u64,
}

/// What one read found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpoolPage {
    /// The seq space; empty when there is no spool.
    pub epoch: String,
    /// Ascending; a step of more than one is a hole. The event's JSON, as it was appended.
    pub events: Vec<(u64, Bytes)>,
    /// Whether a limit ended the page.
    pub more: bool,
}

/// The spool of one live session, under its lock.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    lock: Arc<SessionLock>,
    ground: Arc<Ground>,
    cap: u64,
    epoch: String,
    /// `None` until the first reservation of a new seq space.
    file: Option<Arc<File>>,
    len: u64,
    /// A failed write could not be taken back: the file is longer than `len`.
    ragged: bool,
    reserved: u64,
    /// No seq up to here may be used again.
    floor: u64,
    last_seq: u64,
    /// Whether a reservation stands that a clean end would shorten.
    open_block: bool,
    /// The newer half, on its way into a file of its own.
    copy: Option<Copy>,
    /// The file got its name since the directory was synced.
    renamed: bool,
}

/// A copy of the newer half, made by a thread of its own; removed when nobody puts it in place.
#[derive(Debug)]
struct Copy {
    made: tokio::task::JoinHandle<io::Result<(TempFile, File, u64)>>,
    /// What of the old file is in it.
    upto: u64,
    reserved: u64,
}

impl Spool {
    /// Opens what is there; a torn last line is cut off. Blocking. A missing or headless file is a new seq space.
    pub(super) fn open(
        path: PathBuf,
        lock: Arc<SessionLock>,
        ground: Arc<Ground>,
        cap: u64,
    ) -> Result<(Self, SpoolState), StoreError> {
        let opening = |source| StoreError::Io { doing: "opening the spool", source };
        let found = match files::open(&path, Access::Write) {
            Ok(file) => {
                files::tighten(&file).map_err(opening)?;
                read::look(&file).map_err(opening)?.map(|found| (file, found))
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(err) => return Err(opening(err)),
        };
        let mut spool = Self {
            path,
            lock,
            ground,
            cap,
            epoch: files::random_hex().map_err(opening)?,
            file: None,
            len: 0,
            ragged: false,
            reserved: 0,
            floor: 0,
            last_seq: 0,
            open_block: false,
            copy: None,
            renamed: false,
        };
        let mut oldest_seq = 0;
        if let Some((file, found)) = found {
            let length = file.metadata().map_err(opening)?.len();
            if length > found.len {
                spool.lock.fenced_write(|| files::resize(&file, found.len).map_err(opening))?;
            }
            oldest_seq = found.oldest_seq;
            spool.floor = found.floor;
            spool.reserved = found.floor;
            spool.open_block = !found.ended;
            spool.last_seq = found.last_seq;
            spool.len = found.len;
            spool.epoch = found.epoch;
            spool.file = Some(Arc::new(file));
        }
        let (epoch, next_seq, last_seq) = (spool.epoch.clone(), spool.floor + 1, spool.last_seq);
        Ok((spool, SpoolState { epoch, next_seq, last_seq, oldest_seq }))
    }

    /// The seq space.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The last seq that may be published; [`reserve`](Self::reserve) before going past it.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Makes sure that all seqs up to `upto` may be published: on the disk when this resolves, whatever the store promises else.
    /// Cancel: dropped, nothing is reserved that can be relied on.
    pub async fn reserve(&mut self, upto: u64) -> Result<(), StoreError> {
        if upto <= self.reserved {
            return Ok(());
        }
        let reserve = upto.max(self.reserved + BLOCK);
        let mut text = String::new();
        if self.file.is_none() {
            let file = files::open(&self.path, Access::Create).map_err(StoreError::io("making the spool"))?;
            self.lock.fenced_write(|| files::resize(&file, 0).map_err(StoreError::io("making the spool")))?;
            self.file = Some(Arc::new(file));
            self.len = 0;
        }
        if self.len == 0 {
            text = format!("{{\"epoch\":\"{}\",\"v\":1}}\n", self.epoch);
        }
        text.push_str(&format!("{{\"reserve\":{reserve}}}\n"));
        let file = self.put(text.as_bytes())?;
        // The next open must go past the block even if the sync says no: the line may be on the disk.
        self.open_block = true;
        self.ground.committer.sync(&file).await.map_err(StoreError::io("syncing the spool"))?;
        if self.renamed
            && let Some(directory) = &self.ground.directory
        {
            // Else a power cut could bring back the file from before a trim, which has not this reservation.
            self.ground.committer.sync(directory).await.map_err(StoreError::io("syncing the session directory"))?;
            self.renamed = false;
        }
        self.reserved = reserve;
        Ok(())
    }

    /// Writes published events, as (seq, JSON object on one line), in one write, without a sync. On an error none of them is there.
    /// Errors: `Fenced`; `Io`; `Corrupt` for a seq that is not reserved or not above the last one, or for text that is no such object.
    pub fn append(&mut self, events: &[(u64, &[u8])]) -> Result<(), StoreError> {
        let mut last = self.last_seq;
        let mut text = Vec::with_capacity(events.iter().map(|(_, event)| event.len() + 32).sum());
        for (seq, event) in events {
            if *seq <= last || *seq > self.reserved {
                return Err(StoreError::Corrupt(format!("event {seq} is out of its order or its reservation")));
            }
            last = *seq;
            let rest =
                event.strip_prefix(b"{").filter(|rest| rest.ends_with(b"}") && memchr::memchr(b'\n', rest).is_none());
            let rest = rest.ok_or_else(|| StoreError::Corrupt(format!("event {seq} is no object on one line")))?;
            text.extend_from_slice(format!("{{\"seq\":{seq}").as_bytes());
            if rest != b"}" {
                text.push(b',');
            }
            text.extend_from_slice(rest);
            text.push(b'\n');
        }
        if !text.is_empty() {
            self.put(&text)?;
            self.last_seq = last;
        }
        Ok(())
    }

    /// Whether the file is over its cap: call [`trim`](Self::trim) when there is time.
    pub fn oversize(&self) -> bool {
        self.len > self.cap
    }

    /// Lets the older half go if the file is over its cap; readers then see a gap. Waits for no copy: the first call has one made
    /// beside the publishing, and a call that finds it done puts it in place with what was published meanwhile.
    /// Errors: the copy could not be made, or not be put in place; then the old file is still in use.
    pub async fn trim(&mut self) -> Result<(), StoreError> {
        match self.copy.take_if(|copy| copy.made.is_finished()) {
            Some(copy) => self.put_in_place(copy).await,
            None => {
                if self.copy.is_none() {
                    self.copy = self.file.clone().filter(|_| self.oversize()).map(|file| self.start_copy(file));
                }
                Ok(())
            }
        }
    }

    fn start_copy(&self, file: Arc<File>) -> Copy {
        let (upto, reserved, epoch) = (self.len, self.reserved, self.epoch.clone());
        let (path, from) = (self.path.clone(), self.len - self.cap / 2);
        let made = tokio::task::spawn_blocking(move || {
            let temp = TempFile(Some(files::temp_path(&path)?));
            let Some(at) = &temp.0 else { return Err(io::ErrorKind::InvalidInput.into()) };
            let tail = read::control_line("reserve", reserved);
            let (new, len) = read::copy_tail(&file, from..upto, &epoch, &tail, at)?;
            Ok((temp, new, len))
        });
        Copy { made, upto, reserved }
    }

    async fn put_in_place(&mut self, copy: Copy) -> Result<(), StoreError> {
        let trimming = || StoreError::io("trimming the spool");
        let made = copy.made.await.map_err(|err| StoreError::Corrupt(err.to_string()))?;
        let (mut temp, new, begin) = made.map_err(trimming())?;
        let new = Arc::new(new);
        let old = self.file.clone().ok_or_else(|| StoreError::Corrupt("the spool has no reservation".into()))?;
        let mut rest = vec![0; usize::try_from(self.len - copy.upto).unwrap_or(usize::MAX)];
        if files::read_at(&old, &mut rest, copy.upto).map_err(trimming())? < rest.len() {
            return Err(trimming()(io::ErrorKind::UnexpectedEof.into()));
        }
        files::write_at(&new, &rest, begin).map_err(trimming())?;
        if self.reserved != copy.reserved {
            // What was reserved meanwhile is relied upon.
            self.ground.committer.sync(&new).await.map_err(trimming())?;
        }
        let Some(at) = temp.0.clone() else { return Ok(()) };
        self.lock.clone().fenced_write(|| files::rename(&at, &self.path).map_err(trimming()))?;
        temp.0 = None;
        (self.file, self.len) = (Some(new), begin + rest.len() as u64);
        (self.ragged, self.renamed) = (false, true);
        Ok(())
    }

    /// Ends it cleanly: `last` is the last seq that was published (0: none), so that the next open goes on right after it.
    pub fn close(mut self, last: u64) -> Result<(), StoreError> {
        if self.open_block {
            let end = last.max(self.last_seq).max(self.floor);
            self.put(read::control_line("end", end).as_bytes())?;
        }
        Ok(())
    }

    fn put(&mut self, text: &[u8]) -> Result<Arc<File>, StoreError> {
        let writing = |source| StoreError::Io { doing: "writing the spool", source };
        let file = self.file.clone().ok_or_else(|| StoreError::Corrupt("the spool has no reservation".into()))?;
        let lock = self.lock.clone();
        lock.fenced_write(|| {
            if self.ragged {
                files::resize(&file, self.len).map_err(writing)?;
                self.ragged = false;
            }
            if let Err(err) = files::write_at(&file, text, self.len) {
                self.ragged = files::resize(&file, self.len).is_err();
                return Err(writing(err));
            }
            self.len += text.len() as u64;
            Ok(())
        })?;
        Ok(file)
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
