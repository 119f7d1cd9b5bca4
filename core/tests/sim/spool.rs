//! Spooled events in memory, and the seqs that were reserved: a crash takes the last events, never a reservation.

use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};
use triplane_core::{
    feed::{Entry, Past},
    store::{SpoolPage, StoreError},
};
use triplane_protocol::SessionId;

/// How many seqs one reservation takes.
const BLOCK: u64 = 8;

#[derive(Debug, Default)]
struct State {
    epoch: Option<String>,
    reserved: u64,
    ended: Option<u64>,
    events: VecDeque<(u64, Bytes)>,
}

/// The spool of one session; clones are the same file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spool(Arc<Mutex<State>>);

impl Spool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The first seq that may be used now and the name of the space; nothing when there is no file.
    pub(crate) fn look(&self) -> Option<(u64, String)> {
        let state = self.state();
        let next = state.ended.unwrap_or(state.reserved) + 1;
        state.epoch.clone().map(|epoch| (next, epoch))
    }

    /// As a life begins to publish. `fresh` names a new space, if one is needed.
    pub(crate) fn open(&self, fresh: String) -> (u64, String) {
        let found = self.look();
        let mut state = self.state();
        match found {
            Some((next, epoch)) => {
                (state.reserved, state.ended) = (next - 1, None);
                (next, epoch)
            }
            None => {
                *state = State { epoch: Some(fresh.clone()), ..State::default() };
                (1, fresh)
            }
        }
    }

    pub(crate) fn reserve(&self, upto: u64) {
        let mut state = self.state();
        if upto > state.reserved {
            state.reserved = upto.max(state.reserved + BLOCK);
        }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.state().reserved
    }

    pub(crate) fn append(&self, entries: &[Arc<Entry>]) {
        self.state().events.extend(entries.iter().map(|entry| (entry.seq, entry.json.clone())));
    }

    pub(crate) fn close(&self, last: u64) {
        self.state().ended = Some(last);
    }

    /// The older half goes.
    pub(crate) fn trim(&self) {
        let mut state = self.state();
        let half = state.events.len() / 2;
        state.events.drain(..half);
    }

    /// The process dies, and the last `lost` events with it.
    pub(crate) fn crash(&self, lost: usize) {
        let mut state = self.state();
        let left = state.events.len().saturating_sub(lost);
        state.events.truncate(left);
    }

    /// The file is removed.
    pub(crate) fn forget(&self) {
        *self.state() = State::default();
    }

    pub(crate) fn has(&self, epoch: &str, seq: u64) -> bool {
        let state = self.state();
        state.epoch.as_deref() == Some(epoch) && state.events.iter().any(|(spooled, _)| *spooled == seq)
    }
}

#[async_trait]
impl Past for Spool {
    async fn page(&self, _: &SessionId, after: u64, max_events: usize, _: usize) -> Result<SpoolPage, StoreError> {
        let state = self.state();
        let later = state.events.iter().filter(|(seq, _)| *seq > after);
        let events: Vec<_> = later.clone().take(max_events).cloned().collect();
        let more = later.count() > events.len();
        Ok(SpoolPage { epoch: state.epoch.clone().unwrap_or_default(), events, more })
    }
}
