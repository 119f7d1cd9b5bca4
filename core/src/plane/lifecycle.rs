//! How sessions become live and cease to be.
//! Invariant: after shutdown has begun nobody comes into the live map, however far an open in mid-I/O was. Clause: L13.

use super::{Attach, Attached, Created, Hold, Plane, SessionDetail, foreign::Owner, holds::Room};
use crate::{
    PlaneError,
    agent::{Agent, NoAgent, Settings},
    feed::Marker,
    overlay::{Pending, Span},
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
    AgentEvent, SessionId, Stop,
    event::{CloseReason, SettingsPatch},
    ir::Extra,
    record::{Header, Record, TRANSCRIPT_VERSION},
};

/// How long shutdown waits for sessions that were told to end at once.
const END_GRACE: Duration = Duration::from_secs(10);

/// How long shutdown waits for agents to let go of their processes.
const AGENT_GRACE: Duration = Duration::from_secs(5);

/// How often it is looked whether another process took a session over.
const TAKEOVER_WATCH: Duration = Duration::from_millis(400);

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
    /// Another model was taken than the one that was asked for; that is told in an event.
    pub(super) fell_back: bool,
}

impl Plane {
    /// Makes a session and makes it live: its empty transcript is on disk before this returns. Clauses: L05, H07, S14.
    /// Errors: `UnknownAgent`, `InvalidParams` (model, cwd, title), `Overloaded` at a cap, `Closing`.
    pub async fn create(&self, hold: &Hold, created: Created) -> Result<SessionDetail, PlaneError> {
        self.open_for_work()?;
        let agent = self.agent(created.agent.as_deref())?;
        agent.learn().await;
        let (settings, fell_back) = self.choose(&*agent, &created.settings, &created.fallbacks)?;
        let cwd = self.cwd(created.cwd)?;
        let room = self.make_room(hold).await?;
        let id = new_session_id()?;
        let lock = self.dir().lock(&id, &self.inner.node.id, false).await?;
        let at = now_ms();
        let mut header = header(&id, &*agent, &cwd, at);
        (header.label, header.source, header.parent) = (created.label, created.source, created.parent);
        let unsaved = SettingsPatch {
            model: Some(settings.model.clone()),
            effort: settings.effort,
            mode: Some(settings.mode),
            title: created.settings.title,
        };
        let pending =
            Pending { header: header.clone(), settings: unsaved.clone(), fallbacks: created.fallbacks.clone() };
        // Two syncs at once take as long as one.
        let (transcript, kept) = tokio::join!(self.dir().create(header, lock.clone()), self.keep_pending(pending));
        let transcript = match (transcript, kept) {
            (Ok(transcript), Ok(())) => transcript,
            (Ok(_), Err(error)) => {
                self.dir().delete(lock).await?;
                return Err(error);
            }
            (Err(error), _) => {
                self.forget(&id).await;
                return Err(error.into());
            }
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
            fell_back,
        };
        // Nothing can have been said of it yet.
        Ok(self.live_detail(&*self.go_live(room, opening).await?))
    }

    /// Loads a stored session under its own id, or adds `hold` to a live one. Errors: `NotFound`, `Locked`, `Closing`,
    /// `UnknownAgent` when its agent cannot run it here.
    pub async fn attach(&self, hold: &Hold, id: &SessionId) -> Result<SessionDetail, PlaneError> {
        let attached = self.attach_with(hold, id, Attach::default()).await?;
        if attached.read_only {
            let text = format!("agent `{}` cannot run session {id} here", attached.session.row.agent);
            return Err(PlaneError::UnknownAgent(text));
        }
        Ok(attached.session)
    }

    /// As [`Plane::attach`], with a takeover and a model. A session whose agent cannot run here is answered read-only:
    /// it is not live, and nothing is told. Errors: `InvalidParams` when no model can be used. Clauses: S12, S26.
    pub async fn attach_with(&self, hold: &Hold, id: &SessionId, attach: Attach) -> Result<Attached, PlaneError> {
        self.open_for_work()?;
        let gate = self.gate(id);
        // Room for one that is live already is made before it is this caller's turn: whoever has to go has a gate too, and
        // somebody in his turn there may want this one to go.
        let (mut room, _turn) = loop {
            let wanted = || self.is_live(id) && !self.inner.holds.has(hold, id);
            let room = if wanted() { Some(self.make_room(hold).await?) } else { None };
            let turn = gate.lock().await;
            if room.is_some() || !wanted() {
                break (room, turn);
            }
        };
        if self.live(id).is_ok() {
            if let Some(room) = room.take() {
                room.fill(id);
            }
            if let Some(model) = attach.model {
                self.set(id, SettingsPatch { model: Some(model), ..SettingsPatch::default() }).await?;
            }
            return Ok(Attached { session: self.get(id).await?, read_only: false });
        }
        if let Owner::Foreign(foreign) = self.owner(id, attach.agent.as_deref()).await? {
            return Ok(Attached { session: self.foreign_detail(&foreign, id).await?, read_only: true });
        }
        let stored = self.stored(id).await?;
        let owner = stored.history.header().map(|header| header.agent.clone());
        let runs_here = match self.agent(owner.as_deref()) {
            Ok(agent) => {
                agent.learn().await;
                let agent = agent.descriptor();
                agent.can.prompt || agent.id == NoAgent::NAME
            }
            Err(_) => false,
        };
        if !runs_here {
            return Ok(Attached { session: self.get(id).await?, read_only: true });
        }
        let room = match room.take() {
            Some(room) => room,
            None => self.make_room(hold).await?,
        };
        let lock = self.dir().lock(id, &self.inner.node.id, attach.takeover).await?;
        let loaded = self.dir().load(id, lock.clone()).await?;
        if loaded.report != Default::default() {
            tracing::warn!(session = %id, report = ?loaded.report, "the transcript was damaged; the rest of it is there");
        }
        let (history, mut transcript) = (loaded.history, loaded.transcript);
        // It may have got its first line until it was locked.
        let pending = stored.pending.filter(|_| transcript.is_pending());
        let header = history.header().or(pending.as_ref().map(|pending| &pending.header)).cloned();
        let agent = self.agent(header.as_ref().map(|header| header.agent.as_str()))?;
        let cwd = header.as_ref().map_or_else(|| self.inner.config.cwd.clone(), |header| header.cwd.clone().into());
        let given = pending.as_ref().map(|pending| pending.settings.clone());
        let mut asked = given.clone().unwrap_or_else(|| history.settings().clone());
        let wanted = match attach.model {
            Some(model) => Some(model),
            None => self.preferred_model(id, &*agent).await,
        };
        let changed = wanted.is_some();
        asked.model = wanted.or(asked.model);
        let fallbacks = match pending {
            Some(pending) if attach.fallbacks.is_empty() => pending.fallbacks,
            Some(_) | None => attach.fallbacks,
        };
        // A model that is gone meanwhile is no reason not to look at the session; its next prompt will say so.
        let (settings, fell_back) = match changed || !fallbacks.is_empty() {
            true => self.choose(&*agent, &asked, &fallbacks)?,
            false => (self.settings(&*agent, &asked), false),
        };
        let unsaved = (changed || fell_back || given.is_some())
            .then(|| SettingsPatch { model: Some(settings.model.clone()), ..given.unwrap_or_default() });
        let created = header.as_ref().map_or_else(now_ms, |header| header.created);
        if transcript.is_pending() {
            transcript.adopt_header(header.unwrap_or_else(|| self::header(id, &*agent, &cwd, created)));
        }
        let opening = Opening {
            id: id.clone(),
            agent,
            cwd,
            created,
            history,
            settings,
            unsaved,
            transcript,
            lock,
            fresh: false,
            fell_back,
        };
        self.go_live(room, opening).await?;
        Ok(Attached { session: self.get(id).await?, read_only: false })
    }

    /// Puts a session into the live map with its marker, and starts its task.
    pub(super) async fn go_live(&self, room: Room, opening: Opening) -> Result<Arc<Live>, PlaneError> {
        let log = self.log(&opening.id, opening.fresh).await?;
        let updated = if opening.fresh { opening.created } else { opening.history.updated().max(opening.created) };
        let interrupted = opening.history.interrupted().cloned();
        let limits = &self.inner.services.limits;
        let mut machine = Machine::new(opening.history, opening.settings, limits.queued_prompts);
        if let Some(run) = interrupted {
            tracing::warn!(session = %opening.id, %run, "its last run was cut off");
            machine.write_later(Record::ended(run, Stop::Aborted));
        }
        if let Some(patch) = opening.unsaved {
            machine.write_later(Record::set(patch));
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
            lock: opening.lock.clone(),
            services: self.inner.services.clone(),
            machine,
        });
        live.used.store(self.inner.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        room.fill(&live.id);
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
        let (agent, model) = (live.agent_id.clone(), Some(live.machine().settings.model.clone()));
        let span = Span { agent, model, started: now_ms(), ended: None };
        self.overlay().opened(&live.id, opening.lock.holder().generation, span, updated);
        let actor = Actor::new(live.clone(), inbox, opening.transcript, opening.lock);
        self.inner.services.tracker.spawn(actor.serve());
        self.watch_takeovers();
        if opening.fell_back {
            let model = Some(live.machine().settings.model.clone());
            live.tell(Input::Tell(AgentEvent::SettingsChanged(SettingsPatch { model, ..Default::default() }))).await;
        }
        Ok(live)
    }

    /// Lets go of sessions that another process took over. DESIGN: the holder watches, within a second.
    fn watch_takeovers(&self) {
        let (inner, closing) = (Arc::downgrade(&self.inner), self.inner.closing.clone());
        self.inner.watching.call_once(|| {
            self.inner.services.tracker.spawn(async move {
                while closing.run_until_cancelled(tokio::time::sleep(TAKEOVER_WATCH)).await.is_some() {
                    let Some(inner) = Weak::upgrade(&inner) else { return };
                    let plane = Self { inner };
                    let lives: Vec<Arc<Live>> = plane.inner.services.feed.map().sessions.values().cloned().collect();
                    for live in lives.iter().filter(|live| live.lock.upgrade().is_some_and(|lock| lock.lost())) {
                        tracing::warn!(session = %live.id, "taken over by another process");
                        let _ = plane.detach(&live.id, CloseReason::Explicit).await;
                    }
                }
            });
        });
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
    /// detached with reason `shutdown`. Idempotent; all callers wait for the end. Cancel: dropped, the next caller does the rest.
    /// Clauses: C09, L13.
    pub async fn shutdown(&self, grace: Duration) {
        let mut closed = self.inner.closed.lock().await;
        if *closed {
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
            self.dir().keep_index();
            self.overlay().close().await;
        };
        if tokio::time::timeout(grace + END_GRACE, all).await.is_err() {
            tracing::error!("some sessions did not end in time");
        }
        let mut closing = tokio::task::JoinSet::new();
        for agent in &self.inner.agents {
            let agent = agent.clone();
            closing.spawn(async move { agent.close().await });
        }
        let agents = async { while closing.join_next().await.is_some() {} };
        if tokio::time::timeout(AGENT_GRACE, agents).await.is_err() {
            tracing::error!("some agents did not end in time");
        }
        *closed = true;
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

    /// Settings with the first usable of the model that was asked for and its fallbacks, and whether it is another one.
    /// Errors: `InvalidParams` naming what was wrong with the first.
    fn choose(
        &self,
        agent: &dyn Agent,
        asked: &SettingsPatch,
        fallbacks: &[String],
    ) -> Result<(Settings, bool), PlaneError> {
        let first = self.settings(agent, asked).model;
        let usable = std::iter::once(&first).chain(fallbacks).find(|model| agent.check_model(model).is_ok());
        let model = usable.unwrap_or(&first).clone();
        let fell_back = model != first;
        let patch = SettingsPatch { model: Some(model), ..asked.clone() };
        self.check_settings(agent, &patch)?;
        Ok((self.settings(agent, &patch), fell_back))
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
        agent: agent.id(),
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
