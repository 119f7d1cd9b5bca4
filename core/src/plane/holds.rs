//! Who keeps what live. Each party (a transport) holds what it opened; the last hold gone detaches the session.
//! A cap lets the least recently used go, a time-to-live the idle ones; neither touches a busy session, nor another
//! party's hold. Clauses: C17, L12, S29, C11.

use super::{Hold, HoldPolicy, Inner, Plane};
use crate::{
    PlaneError,
    session::{
        Live,
        input::{Closing, Input},
    },
};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};
use tokio::sync::Notify;
use triplane_protocol::{SessionId, event::CloseReason};

/// How often it is looked for idle sessions unless the policy says otherwise. Clause: S04.
const SWEEP: Duration = Duration::from_millis(30_000);

/// Every registered party and what it holds.
#[derive(Debug, Default)]
pub(super) struct Holds {
    parties: Mutex<Vec<Party>>,
    /// Wakes whoever waits for room.
    room: Notify,
}

#[derive(Debug)]
struct Party {
    policy: HoldPolicy,
    held: HashSet<SessionId>,
    /// Sessions on their way, for which room is kept.
    opening: usize,
}

/// Room for one more session of a party: kept until the session is there, or given back when this is dropped.
pub(super) struct Room {
    inner: Arc<Inner>,
    hold: Hold,
}

impl Room {
    /// The session is there and held.
    pub(super) fn fill(self, id: &SessionId) {
        self.inner.holds.add(&self.hold, id);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(party) = self.inner.holds.parties().get_mut(self.hold.0) {
            party.opening -= 1;
        }
        self.inner.holds.room.notify_waiters();
    }
}

impl Holds {
    fn parties(&self) -> MutexGuard<'_, Vec<Party>> {
        self.parties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hold. `false`: it was there already.
    pub(super) fn add(&self, hold: &Hold, id: &SessionId) -> bool {
        self.parties().get_mut(hold.0).is_some_and(|party| party.held.insert(id.clone()))
    }

    /// Whether the party holds it.
    pub(super) fn has(&self, hold: &Hold, id: &SessionId) -> bool {
        self.parties().get(hold.0).is_some_and(|party| party.held.contains(id))
    }

    /// Takes one party's hold away; whether that was the last one.
    fn drop_one(&self, hold: &Hold, id: &SessionId) -> bool {
        let mut parties = self.parties();
        let had = parties.get_mut(hold.0).is_some_and(|party| party.held.remove(id));
        had && !parties.iter().any(|party| party.held.contains(id))
    }

    /// Takes all holds of a session away.
    pub(super) fn drop_all(&self, id: &SessionId) {
        self.parties().iter_mut().for_each(|party| {
            party.held.remove(id);
        });
    }

    fn held(&self, hold: &Hold) -> Vec<SessionId> {
        self.parties().get(hold.0).map(|party| party.held.iter().cloned().collect()).unwrap_or_default()
    }

    fn policy(&self, hold: &Hold) -> HoldPolicy {
        self.parties().get(hold.0).map(|party| party.policy.clone()).unwrap_or_default()
    }
}

impl Plane {
    /// Registers a party that opens sessions (a transport); see [`HoldPolicy`]. Clause: C17.
    pub fn hold(&self, policy: HoldPolicy) -> Hold {
        if policy.answers {
            self.inner.services.answerable.store(true, Ordering::Release);
        }
        let sweep = policy.idle_ttl.map(|ttl| (ttl, policy.sweep.unwrap_or(SWEEP)));
        let hold = {
            let mut parties = self.inner.holds.parties();
            parties.push(Party { policy, held: HashSet::new(), opening: 0 });
            Hold(parties.len() - 1)
        };
        if let Some((ttl, every)) = sweep {
            let (inner, closing, party) = (Arc::downgrade(&self.inner), self.inner.closing.clone(), hold.clone());
            self.inner.services.tracker.spawn(async move {
                while closing.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
                    let Some(inner) = Weak::upgrade(&inner) else { return };
                    Self { inner }.sweep(&party, ttl).await;
                }
            });
        }
        hold
    }

    /// Lets go of what a party holds and nobody used for `ttl`. By the monotonic clock: a jump of the date retires nobody.
    async fn sweep(&self, hold: &Hold, ttl: Duration) {
        for id in self.inner.holds.held(hold) {
            let idle = self.peek(&id).is_some_and(|live| !live.machine().occupied() && live.idle_for() >= ttl);
            if idle {
                self.release(hold, &id).await;
            }
        }
    }

    /// Makes room for one more under the party's cap, however many come at once. Waits while all room is kept for others
    /// that are on their way. Errors: `Closing`; `Overloaded` when all that it holds is busy. Clause: L12.
    pub(super) async fn make_room(&self, hold: &Hold) -> Result<Room, PlaneError> {
        loop {
            self.open_for_work()?;
            let changed = self.inner.holds.room.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (cap, opening, held) = {
                let mut parties = self.inner.holds.parties();
                let party = parties.get_mut(hold.0).ok_or_else(|| PlaneError::Internal("no such party".into()))?;
                let cap = party.policy.cap.map_or(usize::MAX, |cap| cap.max(1));
                if party.held.len() + party.opening < cap {
                    party.opening += 1;
                    return Ok(Room { inner: self.inner.clone(), hold: hold.clone() });
                }
                (cap, party.opening, party.held.iter().cloned().collect::<Vec<_>>())
            };
            let lives: Vec<Arc<Live>> = held.iter().filter_map(|id| self.peek(id)).collect();
            let idle = lives.iter().filter(|live| !live.machine().occupied());
            match idle.min_by_key(|live| live.used.load(Ordering::Relaxed)) {
                Some(oldest) => {
                    let party = self.inner.holds.policy(hold).name;
                    tracing::info!(session = %oldest.id, party, "evicted: the cap is reached");
                    let id = oldest.id.clone();
                    self.release(hold, &id).await;
                }
                None if opening > 0 => changed.await,
                // One is coming into the live map, or leaving it, at this moment.
                None if lives.len() < held.len() => tokio::task::yield_now().await,
                None => {
                    let text = format!("all {cap} live sessions are busy; wait for one, or raise the cap");
                    return Err(PlaneError::Overloaded(text));
                }
            }
        }
    }

    /// Takes one party's hold away; the last one gone detaches the session as idle. One that got something to do
    /// meanwhile keeps its hold. Under the gate, so that no other party can come in between. Clauses: L12, S29, C17.
    async fn release(&self, hold: &Hold, id: &SessionId) {
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        if !self.inner.holds.drop_one(hold, id) {
            return;
        }
        let Some(live) = self.peek(id) else { return };
        match live.ask(|ticket| Input::Close(ticket, CloseReason::Idle, Closing::IfIdle)).await {
            Err(PlaneError::Busy(_)) => drop(self.inner.holds.add(hold, id)),
            Err(error) => tracing::warn!(session = %id, %error, "an idle session could not be detached"),
            Ok(_) => (),
        }
    }
}
