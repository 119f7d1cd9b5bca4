//! Which session was written to last, by the plane's own record and not by a clock. Clause: C13.
//! `order.log` beside the transcripts is appended the id of every session that is written to, unless it is the last one already:
//! the later its last line, the newer the session. All processes of the directory append to the one file, under its lock.
//! A transcript without a line (the file was lost, or it was put there by hand) is placed by its modification time.
//! A power cut may take the last lines: nothing but the order hangs on them.

use super::files::{self, Access};
use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use triplane_protocol::SessionId;

/// Lines beyond four a session before the file is written anew.
const SLACK: u64 = 4096;

/// How often the file's lock is tried, a millisecond apart: others have it for one small write.
const LOCK_TRIES: u32 = 200;

/// The record of one directory.
#[derive(Debug)]
pub(super) struct Order {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    /// Up to where the file was read.
    read: u64,
    lines: u64,
    /// The number of a session's last line.
    ranks: HashMap<SessionId, u64>,
    last: Option<SessionId>,
    /// Grows with every change that was seen.
    version: u64,
}

impl Order {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    /// `id` is the newest now. One `fstat` when it was already.
    pub(super) fn touch(&self, id: &SessionId) -> io::Result<()> {
        let mut state = self.lock();
        if state.last.as_ref() == Some(id) && state.is_current()? {
            return Ok(());
        }
        for _ in 0..LOCK_TRIES {
            if state.file.is_none() {
                state.file = Some(files::open(&self.path, Access::Create)?);
            }
            let Some(file) = state.file.as_ref() else { continue };
            match file.try_lock() {
                Ok(()) if files::is_at(file, &self.path)? => {
                    let done = self.append(&mut state, id);
                    if let Some(file) = &state.file {
                        file.unlock()?;
                    }
                    return done;
                }
                // Another process wrote it anew.
                Ok(()) => state.forget(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(err)) => return Err(err),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds order.log"))
    }

    /// A number that changes when the order does.
    pub(super) fn version(&self) -> u64 {
        let mut state = self.lock();
        self.refresh(&mut state);
        state.version
    }

    /// Sorts what was found in the directory, newest first. `key` gives the id and the modification time.
    pub(super) fn newest_first<T>(&self, found: Vec<T>, key: impl Fn(&T) -> (&SessionId, i64)) -> Vec<T> {
        let mut state = self.lock();
        self.refresh(&mut state);
        let rank = |item: &T| state.ranks.get(key(item).0).copied();
        let (mut ranked, mut loose): (Vec<T>, Vec<T>) = found.into_iter().partition(|item| rank(item).is_some());
        ranked.sort_by_cached_key(|item| rank(item));
        loose.sort_by(|a, b| key(a).1.cmp(&key(b).1).then_with(|| key(a).0.cmp(key(b).0)));
        drop(state);
        let mut sorted = Vec::with_capacity(ranked.len() + loose.len());
        loop {
            // Both are oldest first here; the order among the ranked stands whatever their times say.
            let loose_is_newer = match (ranked.last(), loose.last()) {
                (Some(ranked), Some(loose)) => key(loose).1 > key(ranked).1,
                (ranked, _) => ranked.is_none(),
            };
            match if loose_is_newer { loose.pop() } else { ranked.pop() } {
                Some(item) => sorted.push(item),
                None => return sorted,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what others appended. A file that cannot be read is as good as none.
    fn refresh(&self, state: &mut State) {
        let current = match &state.file {
            Some(_) => state.is_current().unwrap_or(false),
            None => false,
        };
        if current {
            return;
        }
        let is_there = state.file.as_ref().is_some_and(|file| files::is_at(file, &self.path).unwrap_or(false));
        if !is_there {
            state.forget();
            match files::open(&self.path, Access::Write) {
                Ok(file) => state.file = Some(file),
                Err(err) if err.kind() == io::ErrorKind::NotFound => return,
                Err(err) => return tracing::warn!(error = %err, "order.log cannot be opened"),
            }
        }
        if let Err(err) = state.catch_up() {
            tracing::warn!(error = %err, "order.log cannot be read");
        }
    }

    fn append(&self, state: &mut State, id: &SessionId) -> io::Result<()> {
        state.catch_up()?;
        if state.last.as_ref() == Some(id) {
            return Ok(());
        }
        if state.lines > 4 * state.ranks.len() as u64 + SLACK {
            return self.rewrite(state, id);
        }
        let Some(file) = &state.file else { return Ok(()) };
        let end = file.metadata()?.len();
        // A torn line of somebody else must not run into ours.
        let fresh = if end > state.read { "\n" } else { "" };
        files::write_at(file, format!("{fresh}{id}\n").as_bytes(), end)?;
        state.catch_up()
    }

    /// One line a session that is still there, in the same order. The old file's lock keeps the others waiting.
    fn rewrite(&self, state: &mut State, id: &SessionId) -> io::Result<()> {
        let exists = |id: &SessionId| self.path.with_file_name(format!("{id}.jsonl")).symlink_metadata().is_ok();
        let mut ids: Vec<(u64, &SessionId)> = state.ranks.iter().map(|(id, rank)| (*rank, id)).collect();
        ids.sort_unstable();
        let mut text = String::new();
        for (_, other) in ids.into_iter().filter(|(_, other)| *other != id && exists(other)) {
            text.push_str(other.as_str());
            text.push('\n');
        }
        text.push_str(id.as_str());
        text.push('\n');
        files::write_atomic(&self.path, text.as_bytes())?;
        state.forget();
        state.file = Some(files::open(&self.path, Access::Write)?);
        state.catch_up()
    }
}

impl State {
    fn forget(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    /// Whether the file is still the one under its name and nothing was appended.
    fn is_current(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let meta = file.metadata()?;
        Ok(!files::is_unlinked(&meta) && meta.len() == self.read)
    }

    fn catch_up(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let len = file.metadata()?.len();
        if len < self.read {
            let file = self.file.take();
            self.forget();
            self.file = file;
            return self.catch_up();
        }
        let mut tail = vec![0; usize::try_from(len - self.read).unwrap_or(0)];
        let got = files::read_at(file, &mut tail, self.read)?;
        tail.truncate(got);
        let whole = memchr::memrchr(b'\n', &tail).map_or(0, |at| at + 1);
        for line in tail.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n') {
            if let Some(id) = std::str::from_utf8(line).ok().and_then(|text| SessionId::parse(text).ok()) {
                self.lines += 1;
                self.ranks.insert(id.clone(), self.lines);
                self.last = Some(id);
            }
        }
        if whole > 0 {
            self.read += whole as u64;
            self.version += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    fn id(text: &str) -> SessionId {
        SessionId::parse(text).unwrap()
    }

    fn open(dir: &Path) -> Order {
        Order::new(dir.join("order.log"))
    }

    /// `found`: `id@mtime`, a word each.
    fn sorted(order: &Order, found: &str) -> String {
        let found = found.split(' ').map(|word| word.split_once('@').unwrap());
        let found: Vec<(SessionId, i64)> = found.map(|(name, at)| (id(name), at.parse().unwrap())).collect();
        let sorted = order.newest_first(found, |(id, at)| (id, *at));
        sorted.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_last_written_is_first_whatever_the_clock_says() {
        let temp = tempfile::tempdir().unwrap();
        let order = open(temp.path());
        for name in ["a", "b", "c", "a"] {
            order.touch(&id(name)).unwrap();
        }
        assert_eq!(sorted(&order, "a@1 b@9 c@5"), "a c b");
        assert_eq!(sorted(&open(temp.path()), "a@1 b@9 c@5"), "a c b", "a restart keeps it");
    }

    #[test]
    fn without_a_record_the_times_decide_and_then_the_ids() {
        let temp = tempfile::tempdir().unwrap();
        let order = open(temp.path());
        assert_eq!(sorted(&order, "a@1 b@9 c@5 d@5"), "b d c a");
        order.touch(&id("a")).unwrap();
        order.touch(&id("c")).unwrap();
        assert_eq!(sorted(&order, "a@7 b@9 c@5 d@6 e@1"), "b d c a e");
        fs::remove_file(temp.path().join("order.log")).unwrap();
        assert_eq!(sorted(&order, "a@7 c@5"), "a c", "the record is gone");
        order.touch(&id("c")).unwrap();
        assert_eq!(sorted(&order, "a@3 c@5"), "c a");
    }

    #[test]
    fn processes_share_one_record() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (open(temp.path()), open(temp.path()));
        one.touch(&id("a")).unwrap();
        two.touch(&id("b")).unwrap();
        let version = one.version();
        assert_eq!(sorted(&one, "a@1 b@1"), "b a");
        one.touch(&id("a")).unwrap();
        assert_ne!(one.version(), version);
        assert_eq!(sorted(&two, "a@1 b@1"), "a b");
        let len = fs::metadata(temp.path().join("order.log")).unwrap().len();
        for _ in 0..10 {
            one.touch(&id("a")).unwrap();
        }
        assert_eq!(fs::metadata(temp.path().join("order.log")).unwrap().len(), len, "the last one needs no line");
    }

    #[test]
    fn damage_costs_lines_only() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("order.log");
        fs::write(&path, b"a\n../x\n\nb\n\0\0\n\xff").unwrap();
        let order = open(temp.path());
        assert_eq!(sorted(&order, "a@9 b@1"), "b a");
        fs::write(&path, "a\nb\nc").unwrap();
        let order = open(temp.path());
        assert_eq!(sorted(&order, "a@9 b@1"), "b a");
        order.touch(&id("a")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\nc\na\n");
        fs::write(&path, "b\n").unwrap();
        assert_eq!(sorted(&order, "a@0 b@1"), "b a", "shorter than it was");
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (open(temp.path()), open(temp.path()));
        for name in ["a", "b", "c"] {
            fs::write(temp.path().join(format!("{name}.jsonl")), "").unwrap();
        }
        one.touch(&id("gone")).unwrap();
        for turn in 0..SLACK + 100 {
            let order = if turn % 3 == 0 { &two } else { &one };
            order.touch(&id(if turn % 2 == 0 { "a" } else { "b" })).unwrap();
        }
        one.touch(&id("c")).unwrap();
        two.touch(&id("a")).unwrap();
        let text = fs::read_to_string(temp.path().join("order.log")).unwrap();
        assert!(text.lines().count() < 1000, "{}", text.lines().count());
        assert!(!text.contains("gone"));
        assert_eq!(sorted(&one, "a@1 b@1 c@1"), "a c b");
        assert_eq!(sorted(&two, "a@1 b@1 c@1"), "a c b");
    }
}
