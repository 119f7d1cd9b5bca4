//! How sessions become live and cease to be.
//! Invariant: after shutdown has begun nobody comes into the live map, however far an open in mid-I/O was. Clause: L13.

use super::{Created, Hold, Plane, SessionDetail};
use crate::{
    PlaneError,
    agent::{Agent, Settings},
    feed::Marker,
    session::{Actor, Live, Machine, Parts, fresh_id, input::Closing, input::Input, now_ms},
    store::{History, SessionLock, Transcript},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};
use triplane_protocol::{
    SessionId, Stop,
    event::{CloseReason, SettingsPatch},
    ir::Extra,
    record::{Header, Record, RunState, TRANSCRIPT_VERSION},
};

/// How long shutdown waits for sessions that were told to end at once.
const END_GRACE: Duration = Duration::from_secs(10);

/// What an open has gathered when the session can go live.
pub(super) struct Opening {
    pub(super) id: SessionId,
    pub(super) agent: Arc<dyn Agent>,
    pub(super) cwd: PathBuf,
    pub(super) created: i64,
    pub(super) history: History,
    pub(super) settings: Settings,
    /// Settings that are not in the transcript yet.
    pub(super) unsaved: Option<SettingsPatch>,
    pub(super) transcript: Transcript,
    pub(super) lock: Arc<SessionLock>,
    pub(super) fresh: bool,
}

impl Plane {
    /// Makes a session and makes it live: its empty transcript is on disk before this returns. Clauses: L05, H07, S14.
    /// Errors: `UnknownAgent`, `NoAgent`, `InvalidParams` (model, cwd, title), `Overloaded` at a cap, `Closing`.
    pub async fn create(&self, hold: &Hold, created: Created) -> Result<SessionDetail, PlaneError> {
        self.open_for_work()?;
        let agent = self.agent(created.agent.as_deref())?;
        let settings = self.choose(&*agent, &created)?;
        let cwd = self.cwd(created.cwd)?;
        self.make_room(hold).await?;
        let id = new_session_id()?;
        let lock = self.dir().lock(&id, &self.inner.node.id, false).await?;
        let at = now_ms();
        let mut header = header(&id, &*agent, &cwd, at);
        (header.label, header.source) = (created.label, created.source);
        let transcript = self.dir().create(header, lock.clone()).await?;
        let unsaved = SettingsPatch {
            model: Some(settings.model.clone()),
            effort: settings.effort,
            mode: Some(settings.mode),
            title: created.settings.title,
        };
        let opening = Opening {
            id: id.clone(),
            agent,
            cwd,
            created: at,
            history: History::default(),
            settings,
            unsaved: Some(unsaved),
            transcript,
            lock,
            fresh: true,
        };
        self.go_live(hold, opening).await?;
        self.get(&id).await
    }

    /// Loads a stored session under its own id, or adds `hold` to a live one. Errors: `NotFound`, `Locked`, `Closing`.
    pub async fn attach(&self, hold: &Hold, id: &SessionId) -> Result<SessionDetail, PlaneError> {
        self.open_for_work()?;
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        if self.live(id).is_ok() {
            if self.inner.holds.add(hold, id) {
                tracing::debug!(session = %id, "one more party holds it");
            }
            return self.get(id).await;
        }
        if !self.dir().exists(id) {
            return Err(PlaneError::no_session(id));
        }
        self.make_room(hold).await?;
        let lock = self.dir().lock(id, &self.inner.node.id, false).await?;
        let loaded = self.dir().load(id, lock.clone()).await?;
        if loaded.report != Default::default() {
            tracing::warn!(session = %id, report = ?loaded.report, "the transcript was damaged; the rest of it is there");
        }
        let (history, transcript) = (loaded.history, loaded.transcript);
        let header = history.header().cloned();
        let agent = self.agent(header.as_ref().map(|header| header.agent.as_str()))?;
        let cwd = header.as_ref().map_or_else(|| self.inner.config.cwd.clone(), |header| header.cwd.clone().into());
        let settings = self.settings(&*agent, history.settings());
        let created = header.map_or_else(now_ms, |header| header.created);
        let opening = Opening {
            id: id.clone(),
            agent,
            cwd,
            created,
            history,
            settings,
            unsaved: None,
            transcript,
            lock,
            fresh: false,
        };
        self.go_live(hold, opening).await?;
        self.get(id).await
    }

    /// Puts a session into the live map with its marker, and starts its task.
    pub(super) async fn go_live(&self, hold: &Hold, mut opening: Opening) -> Result<Arc<Live>, PlaneError> {
        if opening.transcript.is_pending() && !opening.fresh {
            opening.transcript.adopt_header(header(&opening.id, &*opening.agent, &opening.cwd, opening.created));
        }
        let log = self.log(&opening.id, opening.fresh).await?;
        let updated = if opening.fresh { opening.created } else { opening.history.updated().max(opening.created) };
        let interrupted = opening.history.interrupted().cloned();
        let limits = &self.inner.services.limits;
        let mut machine = Machine::new(opening.history, opening.settings, limits.queued_prompts);
        if let Some(run) = interrupted {
            tracing::warn!(session = %opening.id, %run, "its last run was cut off");
            machine.write_later(Record::Run { id: run, state: RunState::Ended, stop: Some(Stop::Aborted) });
        }
        if let Some(patch) = opening.unsaved {
            machine.write_later(Record::Set(patch));
        }
        let (live, inbox) = Live::new(Parts {
            id: opening.id.clone(),
            agent: opening.agent,
            rules: self.inner.rules.of(&opening.cwd),
            cwd: opening.cwd,
            path: opening.transcript.path().to_owned(),
            created: opening.created,
            updated,
            log,
            services: self.inner.services.clone(),
            machine,
        });
        live.used.store(self.inner.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.inner.holds.add(hold, &live.id);
        let cap = limits.live_sessions;
        let entered = self.inner.services.feed.change(|map| {
            if map.closed {
                return (Vec::new(), Err(PlaneError::Closing));
            }
            if map.sessions.len() >= cap {
                let text = format!("{cap} sessions are live; detach some of them");
                return (Vec::new(), Err(PlaneError::Overloaded(text)));
            }
            map.sessions.insert(live.id.clone(), live.clone());
            let (id, agent) = (live.id.clone(), live.agent_id.clone());
            let marker = match opening.fresh {
                true => Marker::Created { id, agent, cwd: live.cwd.to_string_lossy().into_owned() },
                false => Marker::Attached { id, agent },
            };
            (vec![marker], Ok(()))
        });
        if let Err(error) = entered {
            self.inner.holds.drop_all(&live.id);
            return Err(error);
        }
        let actor = Actor::new(live.clone(), inbox, opening.transcript, opening.lock, None);
        self.inner.services.tracker.spawn(actor.serve());
        Ok(live)
    }

    /// Ends a live session for all holds: its run is cancelled first. `false` when it was not live. The transcript stays.
    pub async fn detach(&self, id: &SessionId, reason: CloseReason) -> Result<bool, PlaneError> {
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        self.inner.holds.drop_all(id);
        let Some(live) = self.peek(id) else { return Ok(false) };
        // A session that ended by itself meanwhile is as good.
        let _ = live.ask(|ticket| Input::Close(ticket, reason, Closing::Now)).await;
        Ok(true)
    }

    /// Shuts down: no new sessions or runs, runs may finish within `grace`, then they are cancelled; every session is
    /// detached with reason `shutdown`. Idempotent; all callers wait for the end. Clauses: C09, L13.
    pub async fn shutdown(&self, grace: Duration) {
        let mut closed = self.inner.closed.lock().await;
        if std::mem::replace(&mut *closed, true) {
            return;
        }
        self.inner.closing.cancel();
        let lives: Vec<Arc<Live>> = {
            let mut map = self.inner.services.feed.map();
            map.closed = true;
            map.sessions.values().cloned().collect()
        };
        let mut ends = tokio::task::JoinSet::new();
        for live in lives {
            ends.spawn(async move {
                let end = |when| live.ask(move |ticket| Input::Close(ticket, CloseReason::Shutdown, when));
                if tokio::time::timeout(grace, end(Closing::AfterRun)).await.is_err() {
                    let _ = end(Closing::Now).await;
                }
            });
        }
        let tracker = &self.inner.services.tracker;
        tracker.close();
        let all = async {
            while ends.join_next().await.is_some() {}
            tracker.wait().await;
        };
        if tokio::time::timeout(grace + END_GRACE, all).await.is_err() {
            tracing::error!("some sessions did not end in time");
        }
    }

    /// Errors: `Closing` once shutdown has begun.
    pub(super) fn open_for_work(&self) -> Result<(), PlaneError> {
        if self.inner.closing.is_cancelled() { Err(PlaneError::Closing) } else { Ok(()) }
    }

    /// The lock that lets opens and ends of one session go one after another.
    pub(super) fn gate(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.inner.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(id).and_then(Weak::upgrade) {
            return gate;
        }
        if gates.len() >= 256 {
            prune(&mut gates);
        }
        let gate = Arc::new(tokio::sync::Mutex::new(()));
        gates.insert(id.clone(), Arc::downgrade(&gate));
        gate
    }

    /// The first of the model that was asked for and its fallbacks that can be used. Errors: `InvalidParams`.
    fn choose(&self, agent: &dyn Agent, created: &Created) -> Result<Settings, PlaneError> {
        let mut patch = created.settings.clone();
        let first = self.settings(agent, &patch).model;
        let usable = std::iter::once(&first).chain(&created.fallbacks).find(|model| agent.check_model(model).is_ok());
        if let Some(model) = usable {
            patch.model = Some(model.clone());
        } else {
            patch.model = Some(first);
        }
        self.check_settings(agent, &patch)?;
        Ok(self.settings(agent, &patch))
    }

    /// The directory that a session is to work in. Errors: `InvalidParams`.
    fn cwd(&self, asked: Option<PathBuf>) -> Result<PathBuf, PlaneError> {
        let Some(cwd) = asked else { return Ok(self.inner.config.cwd.clone()) };
        let refuse = |why: &str| PlaneError::InvalidParams(format!("cwd: {why}"));
        if !cwd.is_absolute() {
            return Err(refuse("must be an absolute path"));
        }
        match cwd.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(refuse("is not a directory")),
            Err(error) => Err(refuse(&error.to_string())),
        }
    }
}

fn prune(gates: &mut HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>) {
    gates.retain(|_, gate| gate.strong_count() > 0);
}

/// The header of a transcript that nobody wrote to yet.
pub(super) fn header(id: &SessionId, agent: &dyn Agent, cwd: &Path, created: i64) -> Header {
    Header {
        v: TRANSCRIPT_VERSION,
        id: id.clone(),
        agent: agent.descriptor().id,
        cwd: cwd.to_string_lossy().into_owned(),
        created,
        parent: None,
        label: None,
        source: None,
        extra: Extra::new(),
    }
}

pub(super) fn new_session_id() -> Result<SessionId, PlaneError> {
    SessionId::parse(&fresh_id()).map_err(|why| PlaneError::Internal(why.into()))
}
