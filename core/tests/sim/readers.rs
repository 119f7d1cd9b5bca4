//! Who reads a session's events: every event once and in order, or a gap that tells exactly what is not to be had.

use crate::{
    ensure,
    model::{Checked, pick},
    spool::Spool,
};
use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use triplane_core::feed::{Batch, Entry, Log, Subscription};
use triplane_protocol::SessionId;

/// What memory keeps of a session.
const RING: (usize, usize) = (6, 700);
/// Clients that read one session at most.
const READERS: usize = 4;

/// What was published of a session, over all its lives, and who reads it.
pub(crate) struct Stream {
    id: SessionId,
    log: Arc<Log>,
    pub(crate) spool: Spool,
    /// The spool was opened in this life; it was given up in this life.
    opened: bool,
    spoolless: bool,
    /// The next reservation fails, the next events are not spooled.
    pub(crate) fails: bool,
    spaces: u64,
    published: HashMap<(String, u64), bytes::Bytes>,
    readers: Vec<Reader>,
    pub(crate) gaps: usize,
    pub(crate) new_spaces: usize,
}

struct Reader {
    subscription: Subscription,
    epoch: String,
    at: u64,
    /// It asked for what comes after this, and is to be told that it has never been.
    ahead: Option<u64>,
}

impl Stream {
    pub(crate) fn new(id: SessionId) -> Self {
        let spool = Spool::default();
        Self {
            log: log(&spool, &id),
            id,
            spool,
            opened: false,
            spoolless: false,
            fails: false,
            spaces: 0,
            published: HashMap::new(),
            readers: Vec::new(),
            gaps: 0,
            new_spaces: 0,
        }
    }

    /// Publishes as the session's own task does. Answers with the entries for the node's feed.
    pub(crate) fn publish(&mut self, events: Vec<triplane_protocol::AgentEvent>) -> Result<Vec<Arc<Entry>>, String> {
        if !self.spoolless && std::mem::take(&mut self.fails) {
            // No reservation, no spool: its next life begins a new space.
            self.spoolless = true;
            self.spool.forget();
        }
        if !self.spoolless {
            if !self.opened {
                self.spaces += 1;
                let (next, epoch) = self.spool.open(format!("e{}", self.spaces));
                self.log.resume(next, &epoch);
                self.opened = true;
            }
            self.spool.reserve(self.log.next_seq() + events.len() as u64 - 1);
        }
        let entries: Vec<_> =
            (self.log.next_seq()..).zip(events).map(|(seq, event)| Arc::new(Entry::new(seq, event))).collect();
        if !self.spoolless {
            self.spool.append(&entries);
            ensure!(self.log.next_seq() + entries.len() as u64 - 1 <= self.spool.reserved(), "published unreserved");
        }
        for entry in &entries {
            let epoch = self.log.epoch().to_string();
            let again = self.published.insert((epoch, entry.seq), entry.json.clone());
            ensure!(again.is_none() || self.spoolless, "seq {} is used twice", entry.seq);
        }
        self.log.publish(&entries);
        let (held, bytes) = self.log.held();
        ensure!(held <= RING.0 && (bytes <= RING.1 || held == 1), "memory holds {held} events, {bytes} bytes");
        Ok(entries)
    }

    /// A life ends in order.
    pub(crate) fn close(&mut self, deleted: bool) {
        if deleted {
            self.spool.forget();
        } else if self.opened && !self.spoolless {
            self.spool.close(self.log.next_seq() - 1);
        }
    }

    /// A life begins. Whoever reads goes on with the same log; without readers there is none until now.
    pub(crate) fn load(&mut self) {
        (self.opened, self.spoolless) = (false, false);
        if self.readers.is_empty() {
            self.log = log(&self.spool, &self.id);
        }
    }

    /// The process dies with the last events, and everybody comes back with the number that he saw last.
    pub(crate) fn crash(&mut self, lost: usize) {
        self.spool.crash(lost);
        self.log = log(&self.spool, &self.id);
        for reader in &mut self.readers {
            let mut subscription = Subscription::at_end(self.log.clone());
            subscription.seek(reader.at);
            let last = self.log.next_seq() - 1;
            reader.ahead = (reader.at > last).then_some(reader.at);
            (reader.subscription, reader.at, reader.epoch) =
                (subscription, reader.at.min(last), self.log.epoch().to_string());
        }
    }

    pub(crate) fn join(&mut self) {
        if self.readers.len() < READERS {
            let subscription = Subscription::at_end(self.log.clone());
            let (at, epoch) = (subscription.position(), subscription.epoch());
            self.readers.push(Reader { subscription, epoch, at, ahead: None });
        }
    }

    pub(crate) fn leave(&mut self, n: u8) {
        if let Some(at) = pick(&(0..self.readers.len()).collect::<Vec<_>>(), n) {
            self.readers.remove(at);
        }
    }

    /// Somebody asks for what comes after a number.
    pub(crate) fn seek(&mut self, n: u8, after: u8) {
        let last = self.log.next_seq() - 1;
        let Some(which) = pick(&(0..self.readers.len()).collect::<Vec<_>>(), n) else { return };
        let reader = &mut self.readers[which];
        // Mostly what has been, sometimes what has not.
        let after = (last + 6) * u64::from(after) / 256;
        reader.subscription.seek(after);
        reader.ahead = (after > last).then_some(after);
        (reader.at, reader.epoch) = (after.min(last), self.log.epoch().to_string());
    }

    /// Somebody reads what is there, `max` events at most.
    pub(crate) fn read(&mut self, n: u8, max: usize) -> Checked {
        let Some(which) = pick(&(0..self.readers.len()).collect::<Vec<_>>(), n) else { return Ok(()) };
        self.read_one(which, max).map(drop)
    }

    /// Everybody reads to the end.
    pub(crate) fn drain(&mut self) -> Checked {
        for which in 0..self.readers.len() {
            let mut budget = 10_000;
            while self.read_one(which, 7)? {
                budget -= 1;
                ensure!(budget > 0, "a reader never comes to the end");
            }
        }
        Ok(())
    }

    fn read_one(&mut self, which: usize, max: usize) -> Result<bool, String> {
        let Self { log, spool, published, readers, gaps, new_spaces, .. } = self;
        let reader = &mut readers[which];
        let (last, epoch) = (log.next_seq() - 1, log.epoch().to_string());
        let next = pin!(reader.subscription.next(max)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Batch { gap, entries }) = next else {
            ensure!(reader.at == last && reader.ahead.is_none(), "a reader waits at {} of {last}", reader.at);
            return Ok(false);
        };
        if let Some(gap) = gap {
            *gaps += 1;
            let another = reader.epoch != epoch;
            // One that had nothing in it is no loss.
            if another && (reader.at > 0 || reader.subscription.position() == 0) {
                *new_spaces += 1;
                ensure!(gap.from == 1 && gap.to >= reader.at, "a new space is told as {gap:?} at {}", reader.at);
                (reader.at, reader.epoch, reader.ahead) = (0, epoch.clone(), None);
            } else if let Some(after) = reader.ahead.take() {
                ensure!((gap.from, gap.to) == (reader.at + 1, after), "{after} is ahead, and told as {gap:?}");
            } else {
                ensure!(gap.from == reader.at + 1 && gap.to >= gap.from, "{gap:?} after {}", reader.at);
                let there = (gap.from..=gap.to).find(|seq| spool.has(&epoch, *seq));
                ensure!(there.is_none(), "{there:?} is told as gone, and is on the disk");
                (reader.at, reader.epoch) = (gap.to, epoch.clone());
            }
        } else if reader.epoch != epoch {
            ensure!(reader.at == 0 || entries.is_empty(), "a new space goes untold at {}", reader.at);
            reader.epoch.clone_from(&epoch);
        }
        for entry in entries {
            ensure!(entry.seq == reader.at + 1, "{} after {}", entry.seq, reader.at);
            let was = published.get(&(epoch.clone(), entry.seq));
            ensure!(was == Some(&entry.json), "event {} is not what was published", entry.seq);
            reader.at = entry.seq;
        }
        ensure!(reader.at == reader.subscription.position(), "the position is another one");
        Ok(true)
    }
}

fn log(spool: &Spool, id: &SessionId) -> Arc<Log> {
    let (next, epoch) = spool.look().unwrap_or((1, String::new()));
    Arc::new(Log::over(Arc::new(spool.clone()), id.clone(), next, &epoch, RING))
}
