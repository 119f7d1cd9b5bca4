//! Sessions that lie in the stores of other programs: who has which, read and written as if they were the plane's own.
//! Invariants: an id that more than one store has is answered only when the agent is given; a store that fails or does not
//! answer costs its own rows and nothing else. Knows no format. Clauses: S06–S12, S16, S17, S28.

use super::{Import, MetaRow, Plane, SessionDetail, SessionRow, Written};
use crate::{
    PlaneError,
    agent::{Agent, SessionStore, StoreFailure, StoreRow},
    feed::Marker,
    overlay::{Metas, Span},
};
use futures_util::future::join_all;
use std::{collections::HashMap, future::Future, path::Path, sync::Arc, time::Duration};
use triplane_protocol::{ErrorCode, Session, SessionId, ir::Mode};

/// How long a store may take before its rows are left out. A cold list of 10,000 sessions takes a tenth of this.
const PATIENCE: Duration = Duration::from_secs(10);

/// The store of one agent.
#[derive(Clone)]
pub(super) struct Foreign {
    agent: Arc<dyn Agent>,
    name: String,
    store: Arc<dyn SessionStore>,
}

/// Who keeps a session.
pub(super) enum Owner {
    /// The plane.
    Plane,
    /// Another program.
    Foreign(Foreign),
}

impl Foreign {
    /// Waits for an answer of the store, within its time.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, StoreFailure>>) -> Result<T, PlaneError> {
        let failure = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
            Err(_) => StoreFailure::new(ErrorCode::Unavailable, "the store did not answer in time"),
        };
        Err(PlaneError::Store { agent: self.name.clone(), failure })
    }

    /// A whole session. Errors: `NotFound`, and what the store says.
    pub(super) async fn load(&self, id: &SessionId) -> Result<Session, PlaneError> {
        let mut session = self.ask(self.store.load(id)).await?;
        session.agent.clone_from(&self.name);
        Ok(session)
    }
}

impl Plane {
    fn foreign(&self) -> Vec<Foreign> {
        let of = |agent: &Arc<dyn Agent>| {
            let store = agent.store()?;
            Some(Foreign { agent: agent.clone(), name: agent.id(), store })
        };
        self.inner.agents.iter().filter_map(of).collect()
    }

    /// Who keeps the session. Errors: `NotFound`; `InStores` when several do and no agent is given; `UnknownAgent`;
    /// what a store that was named says when it cannot tell.
    pub(super) async fn owner(&self, id: &SessionId, agent: Option<&str>) -> Result<Owner, PlaneError> {
        if let Some(live) = self.peek(id) {
            return match agent {
                Some(agent) if agent != live.agent_id => self.foreign_of(id, agent).await,
                Some(_) | None => Ok(Owner::Plane),
            };
        }
        if let Some(agent) = agent {
            if self.dir().exists(id) && self.get(id).await?.row.agent == agent {
                return Ok(Owner::Plane);
            }
            return self.foreign_of(id, agent).await;
        }
        let here = self.dir().exists(id);
        let stores = self.foreign();
        let answers = stores.iter().map(|foreign| foreign.ask(foreign.store.has(id)));
        let mut found = Vec::new();
        for (foreign, has) in stores.iter().zip(join_all(answers).await) {
            match has {
                Ok(true) => found.push(foreign),
                Ok(false) => {}
                Err(error) => tracing::warn!(agent = foreign.name, %error, "a store cannot tell which sessions it has"),
            }
        }
        match (here, found.as_slice()) {
            (true, []) => Ok(Owner::Plane),
            (false, [one]) => Ok(Owner::Foreign((*one).clone())),
            (false, []) => Err(PlaneError::no_session(id)),
            (_, several) => {
                let own = if here { Some(self.get(id).await?.row.agent) } else { None };
                let names = own.iter().chain(several.iter().map(|foreign| &foreign.name));
                let names: Vec<&str> = names.map(String::as_str).collect();
                Err(PlaneError::InStores { id: id.to_string(), agents: names.join(" and ") })
            }
        }
    }

    async fn foreign_of(&self, id: &SessionId, agent: &str) -> Result<Owner, PlaneError> {
        self.agent(Some(agent))?;
        let Some(foreign) = self.foreign().into_iter().find(|foreign| foreign.name == agent) else {
            return Err(PlaneError::no_session(id));
        };
        match foreign.ask(foreign.store.has(id)).await? {
            true => Ok(Owner::Foreign(foreign)),
            false => Err(PlaneError::no_session(id)),
        }
    }

    /// Errors unless the session is there and, when `agent` is given, is one of its. Clauses: S07, S28.
    pub async fn must_be_of(&self, id: &SessionId, agent: Option<&str>) -> Result<(), PlaneError> {
        self.owner(id, agent).await.map(drop)
    }

    /// The rows of every store, newest write first; those of one that fails are left out, and that is logged.
    pub(super) async fn foreign_rows(&self, metas: &Metas, spans: &mut HashMap<SessionId, Vec<Span>>) -> Vec<MetaRow> {
        let stores = self.foreign();
        let lists = join_all(stores.iter().map(|foreign| foreign.ask(foreign.store.list()))).await;
        let mut rows = Vec::new();
        for (foreign, list) in stores.iter().zip(lists) {
            match list {
                Ok(list) => rows.extend(list.into_iter().map(|row| (foreign.name.as_str(), row))),
                Err(error) => tracing::warn!(agent = foreign.name, %error, "its sessions are not listed"),
            }
        }
        rows.sort_by(|(_, a), (_, b)| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        let dress = |(agent, row): (&str, StoreRow)| {
            let meta = metas.get(&row.id).cloned().unwrap_or_default();
            let spans = spans.remove(&row.id).unwrap_or_default();
            let mut row = self.foreign_row(agent, row);
            row.title = meta.title.clone().or(row.title);
            row.model = meta.model.clone().or(row.model);
            MetaRow { row, meta, spans, lock: None }
        };
        rows.into_iter().map(dress).collect()
    }

    fn foreign_row(&self, agent: &str, row: StoreRow) -> SessionRow {
        let StoreRow { id, cwd, title, model, created, updated } = row;
        let agent = agent.to_owned();
        SessionRow { id, agent, title, cwd, model, created, updated, live: false, busy: false, pending: false }
    }

    /// One row. Errors: `NotFound` when it went meanwhile.
    pub(super) async fn foreign_meta(&self, foreign: &Foreign, id: &SessionId) -> Result<MetaRow, PlaneError> {
        let rows = foreign.ask(foreign.store.list()).await?;
        let row = rows.into_iter().find(|row| row.id == *id).ok_or_else(|| PlaneError::no_session(id))?;
        let meta = self.meta(id).await;
        let mut spans = self.overlay().without(self.overlay().spans(Some(id)).await);
        let mut row = self.foreign_row(&foreign.name, row);
        row.title = meta.title.clone().or(row.title);
        row.model = meta.model.clone().or(row.model);
        Ok(MetaRow { row, meta, spans: spans.remove(id).unwrap_or_default(), lock: None })
    }

    /// A session of another program as something to look at; it is not live, and nothing is told. Clause: S12.
    pub(super) async fn foreign_detail(&self, foreign: &Foreign, id: &SessionId) -> Result<SessionDetail, PlaneError> {
        let session = foreign.load(id).await?;
        let MetaRow { row, .. } = self.foreign_meta(foreign, id).await?;
        Ok(SessionDetail {
            row,
            mode: session.mode.unwrap_or(Mode::Default),
            effort: session.effort,
            usage: session.usage.unwrap_or_default(),
            permissions: Vec::new(),
            tasks: Vec::new(),
            seq: 0,
            epoch: String::new(),
            path: Path::new("").to_owned(),
        })
    }

    /// Writes into the agent's own store; `None` when it has none. Errors: `UnknownAgent`, and what the store says.
    pub(super) async fn import_foreign(
        &self,
        owner: &Arc<dyn Agent>,
        session: &Session,
        import: &Import,
    ) -> Result<Option<Written>, PlaneError> {
        let Some(store) = owner.store() else { return Ok(None) };
        let agent = owner.id();
        let mut session = session.clone();
        if let Some(cwd) = &import.cwd {
            session.cwd = cwd.to_string_lossy().into_owned();
        }
        if !Path::new(&session.cwd).is_absolute() {
            return Err(PlaneError::Invalid("cwd: must be an absolute path".into()));
        }
        session.title = import.title.clone().or(session.title);
        session.model = import.model.clone().or(session.model);
        let foreign = Foreign { agent: owner.clone(), name: agent.clone(), store: store.clone() };
        let saved = foreign.ask(store.save(&session, import.id.as_ref())).await?;
        Ok(Some(Written { id: saved.id, agent, lost: saved.lost }))
    }

    /// Deletes from the store of another program. Errors: `UnknownAgent` when it cannot, and what the store says.
    pub(super) async fn delete_foreign(&self, foreign: &Foreign, id: &SessionId) -> Result<(), PlaneError> {
        if !foreign.agent.descriptor().can.delete {
            return Err(PlaneError::Unsupported(format!("sessions of agent `{}` can only be read", foreign.name)));
        }
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        foreign.ask(foreign.store.delete(id)).await?;
        self.forget(id).await;
        let agent = foreign.name.clone();
        self.inner.services.feed.change(|_| (vec![Marker::Deleted { id: id.clone(), agent }], ()));
        Ok(())
    }
}

/// Two lists, each newest first, as one.
pub(super) fn merge(own: Vec<MetaRow>, foreign: Vec<MetaRow>) -> Vec<MetaRow> {
    let mut merged = Vec::with_capacity(own.len() + foreign.len());
    let mut foreign = foreign.into_iter().peekable();
    for row in own {
        while let Some(newer) = foreign.next_if(|other| other.row.updated > row.row.updated) {
            merged.push(newer);
        }
        merged.push(row);
    }
    merged.extend(foreign);
    merged
}
