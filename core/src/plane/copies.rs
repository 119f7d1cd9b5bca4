//! Sessions that come from sessions: forks, resumes, imports, exports, and their end: delete.
//! Invariant: a source is never changed by a copy. Clauses: L08–L11, H12, S08–S10, S16.

use super::{
    Hold, Plane, SessionDetail,
    foreign::Owner,
    lifecycle::{Opening, header, new_session_id},
};
use crate::{
    PlaneError,
    feed::Marker,
    session::now_ms,
    store::{History, StoreError},
};
use std::path::PathBuf;
use triplane_protocol::{
    Role, Session, SessionId,
    event::{CloseReason, SettingsPatch},
    ir::Extra,
    record::{Header, Record},
};

/// A fork that went live.
#[derive(Debug, Clone)]
pub struct Forked {
    /// The new session.
    pub session: SessionDetail,
    /// The text of the prompt that the fork stops before.
    pub prompt: Option<String>,
    /// How many messages the agent sees: what came after a clear or a compaction. Clauses: L07, L08.
    pub message_count: usize,
}

/// What an import may say otherwise than the session itself.
#[derive(Debug, Clone, Default)]
pub struct Import {
    /// The id; a fresh one without it.
    pub id: Option<SessionId>,
    /// The directory.
    pub cwd: Option<PathBuf>,
    /// The title.
    pub title: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// A session that was written into a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its id there.
    pub id: SessionId,
    /// The agent whose store has it.
    pub agent: String,
    /// What the store's format cannot hold, one line each; empty when all of it went in.
    pub lost: Vec<String>,
}

impl Plane {
    /// Branches into a new live session; the parent stays as it is. `at`: keeps the messages before this index of
    /// [`Plane::messages`], which must be a prompt. Errors: `NotFound`, `Busy`, `InvalidParams`, `Overloaded`. Clause: H12.
    pub async fn fork(&self, hold: &Hold, id: &SessionId, at: Option<usize>) -> Result<Forked, PlaneError> {
        if self.peek(id).is_some_and(|live| live.machine().busy()) {
            return Err(PlaneError::Busy(id.to_string()));
        }
        let history = self.history_of(id).await?;
        let (history, prompt) = match at {
            None => (history, None),
            Some(at) => {
                let message = history.messages().get(at).filter(|message| message.role == Role::User);
                let text = message.map(|message| message.plain_text()).ok_or_else(|| {
                    PlaneError::InvalidParams(format!(
                        "at: message {at} is not a prompt; give the index of a user message"
                    ))
                })?;
                (history.truncated(at), Some(text))
            }
        };
        self.open_fork(hold, id, history, prompt, None).await
    }

    /// Forks a stored session from its filtered history: every trailing user message is left out. Errors: `NotFound` (also
    /// when it vanishes while it is read), `Ambiguous`, `InvalidParams`, `Overloaded`, `Closing`. Clauses: L08–L11.
    pub async fn resume_fork(
        &self,
        hold: &Hold,
        text: &str,
        source: Option<String>,
    ) -> Result<(SessionId, Forked), PlaneError> {
        let id = self.resolve(text).await?;
        let history = self.stored(&id).await?.history;
        let forked = self.open_fork(hold, &id, history.filtered().since_clear(), None, source).await?;
        Ok((id, forked))
    }

    async fn open_fork(
        &self,
        hold: &Hold,
        parent: &SessionId,
        history: History,
        prompt: Option<String>,
        source: Option<String>,
    ) -> Result<Forked, PlaneError> {
        self.open_for_work()?;
        let of = history.header().cloned();
        let agent = self.agent(of.as_ref().map(|header| header.agent.as_str()))?;
        let cwd = of.as_ref().map_or_else(|| self.inner.config.cwd.clone(), |header| header.cwd.clone().into());
        let room = self.make_room(hold).await?;
        let (id, created) = (new_session_id()?, now_ms());
        let settings = self.settings(&*agent, history.settings());
        let (label, extra) = of.map(|header| (header.label, header.extra)).unwrap_or_default();
        let header =
            Header { parent: Some(parent.clone()), label, extra, source, ..header(&id, &*agent, &cwd, created) };
        let lock = self.dir().lock(&id, &self.inner.node.id, false).await?;
        let transcript = self.dir().fork(&history, header, lock.clone()).await?;
        let message_count = history.context().len();
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
            fresh: true,
            fell_back: false,
        };
        self.go_live(room, opening).await?;
        Ok(Forked { session: self.get(&id).await?, prompt, message_count })
    }

    /// The history of a session, live or stored.
    pub(super) async fn history_of(&self, id: &SessionId) -> Result<History, PlaneError> {
        if let Some(live) = self.peek(id) {
            return Ok(live.machine().history.clone());
        }
        Ok(self.stored(id).await?.history)
    }

    /// The whole session as data, from whichever store has it. Errors: `NotFound`, `UnknownAgent` when `agent` is nobody's
    /// name, `InStores`, `Store`. Clauses: S07, S08.
    pub async fn export(&self, id: &SessionId, agent: Option<&str>) -> Result<Session, PlaneError> {
        if let Owner::Foreign(foreign) = self.owner(id, agent).await? {
            let mut session = foreign.load(id).await?;
            session.title = self.meta(id).await.title.clone().or(session.title);
            return Ok(session);
        }
        let history = self.history_of(id).await?;
        let detail = self.get(id).await?;
        Ok(Session {
            version: 1,
            id: id.clone(),
            agent: detail.row.agent,
            cwd: detail.row.cwd,
            title: detail.row.title,
            model: detail.row.model,
            effort: detail.effort,
            mode: Some(detail.mode),
            created: detail.row.created,
            updated: detail.row.updated,
            parent: history.header().and_then(|header| header.parent.clone()),
            usage: Some(detail.usage),
            messages: history.messages().iter().map(|message| (**message).clone()).collect(),
            extra: extra_of(&history),
        })
    }

    /// Writes a session into an agent's store. Errors: `UnknownAgent` when it cannot write sessions, `Invalid` for an id
    /// that exists or a session that is none, `InvalidParams`, `Store`. Clauses: S09, S28.
    pub async fn import(&self, agent: &str, session: Session, import: Import) -> Result<Written, PlaneError> {
        self.open_for_work()?;
        let owner = self.agent(Some(agent))?;
        if !owner.descriptor().can.write {
            return Err(PlaneError::UnknownAgent(format!("agent `{agent}` cannot write sessions")));
        }
        if let Some(written) = self.import_foreign(&owner, &session, &import).await? {
            return Ok(written);
        }
        let id = match import.id {
            Some(id) => id,
            None => new_session_id()?,
        };
        let cwd = import.cwd.unwrap_or_else(|| PathBuf::from(&session.cwd));
        if !cwd.is_absolute() {
            return Err(PlaneError::Invalid("cwd: must be an absolute path".into()));
        }
        let patch = SettingsPatch {
            model: import.model.or(session.model),
            effort: session.effort,
            mode: session.mode,
            title: import.title.or(session.title),
        };
        let mut history = History::default();
        history.apply(Record::set(patch));
        session.messages.into_iter().for_each(|message| history.apply(Record::Message(message)));
        let extra: Extra = session.extra;
        let header = Header { parent: session.parent, extra, ..header(&id, &*owner, &cwd, session.created) };
        let gate = self.gate(&id);
        let _turn = gate.lock().await;
        let lock = self.dir().lock(&id, &self.inner.node.id, false).await?;
        match self.dir().fork(&history, header, lock).await {
            Ok(_) => Ok(Written { id, agent: owner.id(), lost: Vec::new() }),
            Err(StoreError::Exists(id)) => Err(PlaneError::Invalid(format!(
                "id: a session `{id}` exists already; leave the id out for a fresh one"
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies a stored session into another agent's store on this node. Errors: as [`Plane::import`]. Clause: S10.
    pub async fn convert(&self, id: &SessionId, agent: &str, from: Option<&str>) -> Result<Written, PlaneError> {
        let session = self.export(id, from).await?;
        self.import(agent, session, Import::default()).await
    }

    /// Deletes a session from the store that owns it; a live one is ended first. Errors: `NotFound`, `Locked`,
    /// `InStores`, `Store`. Clauses: S16, S26.
    pub async fn delete(&self, id: &SessionId, agent: Option<&str>) -> Result<(), PlaneError> {
        if let Owner::Foreign(foreign) = self.owner(id, agent).await? {
            return self.delete_foreign(&foreign, id).await;
        }
        if self.detach(id, CloseReason::Deleted).await? {
            if self.dir().exists(id) {
                let text = "the transcript could not be deleted; the log has the cause";
                return Err(PlaneError::Internal(text.into()));
            }
            self.forget(id).await;
            return Ok(());
        }
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        if !self.dir().exists(id) {
            return Err(PlaneError::no_session(id));
        }
        let history = self.stored(id).await?.history;
        let agent = history.header().map_or_else(|| self.default_agent(), |header| header.agent.clone());
        let lock = self.dir().lock(id, &self.inner.node.id, false).await?;
        self.dir().delete(lock).await?;
        self.forget(id).await;
        self.inner.services.feed.change(|_| (vec![Marker::Deleted { id: id.clone(), agent }], ()));
        Ok(())
    }
}

/// What the header and the settings say that is not known here; the header's word is the last. Clause: C15.
fn extra_of(history: &History) -> Extra {
    let mut extra = history.settings_extra().clone();
    extra.extend(history.header().map(|header| header.extra.clone()).unwrap_or_default());
    extra
}
