//! The live map with the node's feed, and who reads it: markers mirror the map, `detached` is a session's last word, and
//! whoever fell behind is told exactly how much he lost.

use crate::{
    ensure,
    model::{Checked, pick},
};
use std::{collections::BTreeSet, sync::Arc};
use triplane_core::feed::{Entry, Marker, NodeFeed, NodeItem, NodeSubscription};
use triplane_protocol::{SessionId, event::CloseReason};

/// What the feed keeps for its slowest reader.
const KEPT: usize = 24;
/// Clients that read the feed at most.
const WATCHERS: usize = 3;

pub(crate) struct Node {
    feed: Arc<NodeFeed<()>>,
    live: BTreeSet<SessionId>,
    /// What the feed was told while somebody read it.
    told: Vec<String>,
    /// The last reader took what was there before along.
    cleared: usize,
    watchers: Vec<Watcher>,
    pub(crate) lagged: usize,
}

struct Watcher {
    subscription: NodeSubscription,
    at: usize,
    /// Who is live, as far as it was told; nobody knows after a loss.
    live: Option<BTreeSet<SessionId>>,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self {
            feed: Arc::new(NodeFeed::capped(KEPT)),
            live: BTreeSet::new(),
            told: Vec::new(),
            cleared: 0,
            watchers: Vec::new(),
            lagged: 0,
        }
    }

    /// The process died; whoever read the feed reads the new one.
    pub(crate) fn crash(&mut self) {
        let (watchers, lagged) = (self.watchers.len(), self.lagged);
        *self = Self { lagged, ..Self::new() };
        (0..watchers).for_each(|_| self.watch());
    }

    fn tell(&mut self, what: String) {
        if !self.watchers.is_empty() {
            self.told.push(what);
        }
    }

    pub(crate) fn enter(&mut self, id: &SessionId, fresh: bool) -> Checked {
        ensure!(self.live.insert(id.clone()), "{id} is live twice");
        let (agent, cwd) = ("a".to_owned(), String::new());
        let marker = match fresh {
            true => Marker::Created { id: id.clone(), agent, cwd },
            false => Marker::Attached { id: id.clone(), agent },
        };
        self.tell(show(&marker));
        self.feed.change(|map| {
            map.sessions.insert(id.clone(), Arc::new(()));
            (vec![marker], ())
        });
        Ok(())
    }

    /// As the session's own task leaves: `deleted` comes before `detached`.
    pub(crate) fn leave(&mut self, id: &SessionId, reason: CloseReason) -> Checked {
        ensure!(self.live.remove(id), "{id} leaves, and was not there");
        let agent = "a".to_owned();
        let mut markers = vec![Marker::Detached { id: id.clone(), agent: agent.clone(), reason }];
        if reason == CloseReason::Deleted {
            markers.insert(0, Marker::Deleted { id: id.clone(), agent });
        }
        markers.iter().map(show).collect::<Vec<_>>().into_iter().for_each(|what| self.tell(what));
        self.feed.change(|map| {
            map.sessions.remove(id);
            (markers, ())
        });
        Ok(())
    }

    pub(crate) fn events(&mut self, id: &SessionId, entries: &[Arc<Entry>]) -> Checked {
        ensure!(entries.is_empty() || self.live.contains(id), "{id} speaks, and is not live");
        entries.iter().for_each(|entry| self.tell(format!("event {id} {}", entry.seq)));
        self.feed.events(id, entries);
        Ok(())
    }

    pub(crate) fn watch(&mut self) {
        if self.watchers.len() < WATCHERS {
            let (subscription, live) =
                NodeSubscription::at_end(&self.feed, |map| map.sessions.keys().cloned().collect());
            self.watchers.push(Watcher { subscription, at: self.told.len(), live: Some(live) });
        }
    }

    pub(crate) fn unwatch(&mut self, n: u8) {
        if let Some(at) = pick(&(0..self.watchers.len()).collect::<Vec<_>>(), n) {
            self.watchers.remove(at);
            if self.watchers.is_empty() {
                self.cleared = self.told.len();
            }
        }
    }

    pub(crate) fn read(&mut self, n: u8, max: usize) -> Checked {
        let Some(which) = pick(&(0..self.watchers.len()).collect::<Vec<_>>(), n) else { return Ok(()) };
        self.read_one(which, max)
    }

    pub(crate) fn drain(&mut self) -> Checked {
        (0..self.watchers.len()).try_for_each(|which| self.read_one(which, usize::MAX))
    }

    fn read_one(&mut self, which: usize, max: usize) -> Checked {
        let Self { told, watchers, cleared, lagged, live, .. } = self;
        let watcher = &mut watchers[which];
        let oldest = told.len().saturating_sub(KEPT).max(*cleared);
        let mut items = watcher.subscription.try_next(max).into_iter().peekable();
        let lost = oldest.saturating_sub(watcher.at);
        if let Some(NodeItem::Lagged { id, count }) = items.next_if(|item| matches!(item, NodeItem::Lagged { .. })) {
            ensure!(id.is_none() && count == lost as u64, "{count} are told as lost, {lost} are");
            *lagged += 1;
            watcher.live = None;
        } else {
            ensure!(lost == 0, "{lost} are lost, and nobody says so");
        }
        watcher.at += lost;
        let mut count = 0;
        for item in items {
            count += 1;
            let (what, marker) = match &item {
                NodeItem::Marker(marker) => (show(marker), Some(marker)),
                NodeItem::Event(id, entry) => {
                    let told = watcher.live.as_ref().is_none_or(|live| live.contains(id));
                    ensure!(told, "{id} speaks before its marker or after `detached`");
                    (format!("event {id} {}", entry.seq), None)
                }
                NodeItem::Lagged { .. } => return Err("lagged twice".into()),
            };
            ensure!(told.get(watcher.at) == Some(&what), "{what} is read, {:?} was told", told.get(watcher.at));
            watcher.at += 1;
            if let (Some(live), Some(marker)) = (&mut watcher.live, marker) {
                let fits = match marker {
                    Marker::Created { id, .. } | Marker::Attached { id, .. } => live.insert(id.clone()),
                    Marker::Detached { id, .. } => live.remove(id),
                    Marker::Deleted { id, .. } => live.contains(id),
                };
                ensure!(fits, "{what} does not fit what was told before");
            }
        }
        ensure!(count == max.min(count + told.len() - watcher.at), "{count} are read, and more are there");
        if watcher.at == told.len()
            && let Some(known) = &watcher.live
        {
            ensure!(known == live, "the markers say {known:?}, live are {live:?}");
        }
        Ok(())
    }

    /// The map is what the markers made it, and the feed keeps no more than it may.
    pub(crate) fn compare(&self) -> Checked {
        let map: BTreeSet<SessionId> = self.feed.map().sessions.keys().cloned().collect();
        ensure!(map == self.live, "in the map are {map:?}, live are {:?}", self.live);
        ensure!(self.feed.held() <= KEPT, "the feed keeps {}", self.feed.held());
        Ok(())
    }

    pub(crate) fn nobody_is_live(&self) -> bool {
        self.live.is_empty() && self.feed.map().sessions.is_empty()
    }
}

fn show(marker: &Marker) -> String {
    match marker {
        Marker::Created { id, .. } => format!("created {id}"),
        Marker::Attached { id, .. } => format!("attached {id}"),
        Marker::Detached { id, reason, .. } => format!("detached {id} {reason:?}"),
        Marker::Deleted { id, .. } => format!("deleted {id}"),
    }
}
