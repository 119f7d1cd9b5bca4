//! What people say of sessions, and projects; rows of the list with all of it; sessions whose transcript is still empty.
//! Invariants: a change is kept whole or not at all; nothing here is a write to a session (C13); without an overlay reads go on and
//! changes answer `Invalid`. Clauses: S06, S14, S17, S18, S28.

use super::{
    Plane, SessionRow,
    foreign::{self, Owner},
};
use crate::{
    PlaneError,
    agent::Agent,
    overlay::{MEMBERSHIPS, Meta, MetaPatch, Metas, OverlayError, Pending, Project, Span},
    session::{fresh_id, now_ms},
    store::{History, IndexRow, LockState, SessionLock},
};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use triplane_protocol::{SessionId, record::Record};

/// How long locks are looked at for one list; 10,000 take a tenth of a second. Rows after that say nothing of their lock.
const PROBE: Duration = Duration::from_secs(5);

/// Threads that look at once.
const PROBERS: usize = 4;

/// A row of the list with what the overlay says.
#[derive(Debug, Clone, PartialEq)]
pub struct MetaRow {
    /// The row; its title is the overlay's where there is one.
    pub row: SessionRow,
    /// What was said of it.
    pub meta: Arc<Meta>,
    /// The times that it was live, oldest first; the last may last still.
    pub spans: Vec<Span>,
    /// How its lock stands, when that was asked for.
    pub lock: Option<LockState>,
}

/// A session that is not live, as the disk has it.
pub(super) struct Stored {
    /// With what `create` was given, while the transcript is empty.
    pub(super) history: History,
    /// Whether the transcript has its first line.
    pub(super) flushed: bool,
    /// What `create` was given.
    pub(super) pending: Option<Pending>,
}

impl Plane {
    /// Changes what is said of a session, all or nothing; answers with its row. `Some(None)` clears a title or a model; the next
    /// attach that makes it live takes the model. Errors: `NotFound`; `InvalidParams` naming the field; `Invalid` without an overlay.
    pub async fn patch_meta(
        &self,
        id: &SessionId,
        agent: Option<&str>,
        mut patch: MetaPatch,
    ) -> Result<MetaRow, PlaneError> {
        self.open_for_work()?;
        let owner = self.owner(id, agent).await?;
        let name = match &owner {
            Owner::Plane => self.index_row(id).await?.agent.clone(),
            Owner::Foreign(foreign) => self.foreign_meta(foreign, id).await?.row.agent,
        };
        if let Some(title) = &mut patch.title {
            title.take_if(|title| title.is_empty());
        }
        self.check_meta(&name, &patch)?;
        self.overlay().patch(id, patch).await.map_err(|error| match error {
            OverlayError::NoProject(id) => PlaneError::InvalidParams(format!("projectIds: no project `{id}`")),
            OverlayError::Absent(_) | OverlayError::Full(_) | OverlayError::Busy | OverlayError::Failed(_) => {
                error.into()
            }
        })?;
        match &owner {
            Owner::Plane => self.own_meta(id).await,
            Owner::Foreign(foreign) => self.foreign_meta(foreign, id).await,
        }
    }

    fn check_meta(&self, agent: &str, patch: &MetaPatch) -> Result<(), PlaneError> {
        let limit = self.inner.services.limits.title_bytes;
        let refuse = |text: String| Err(PlaneError::InvalidParams(text));
        if patch.title.iter().flatten().any(|title| title.len() > limit) {
            return refuse(format!("title: has at most {limit} bytes"));
        }
        if patch.project_ids.as_ref().is_some_and(|ids| ids.len() > MEMBERSHIPS) {
            return refuse(format!("projectIds: has at most {MEMBERSHIPS} items"));
        }
        let Some(model) = patch.model.iter().flatten().next() else { return Ok(()) };
        if model.is_empty() || model.len() > limit {
            return refuse(format!("model: has 1 to {limit} bytes; null clears it"));
        }
        // An agent that is not here says nothing against it.
        match self.agent(Some(agent).filter(|agent| !agent.is_empty())) {
            Ok(agent) => agent.check_model(model).or_else(|why| refuse(format!("model: {why}"))),
            Err(_) => Ok(()),
        }
    }

    /// One session's row with what the overlay says. Errors: `NotFound`, `InStores`, `UnknownAgent`, `Store`.
    pub async fn meta_row(&self, id: &SessionId, agent: Option<&str>) -> Result<MetaRow, PlaneError> {
        match self.owner(id, agent).await? {
            Owner::Plane => self.own_meta(id).await,
            Owner::Foreign(foreign) => self.foreign_meta(&foreign, id).await,
        }
    }

    async fn own_meta(&self, id: &SessionId) -> Result<MetaRow, PlaneError> {
        let row = self.index_row(id).await?;
        let over = self.over(std::iter::once(&*row)).await;
        let mut spans = self.overlay().without(self.overlay().spans(Some(id)).await);
        let row = self.row(&row, self.peek(id).as_ref(), &over);
        Ok(MetaRow { row, meta: over.meta(id), spans: spans.remove(id).unwrap_or_default(), lock: None })
    }

    /// Every session of the plane and of every agent's store, newest write first (C13), with what the overlay says, also those whose transcript is still empty;
    /// `with_locks`: and how its lock stands at this moment, whoever has it. Clause: S06.
    pub async fn rows(&self, with_locks: bool) -> Result<Vec<MetaRow>, PlaneError> {
        let index = self.dir().index().await?;
        let over = self.over(index.iter().map(|row| &**row)).await;
        let mut spans = self.overlay().without(self.overlay().spans(None).await);
        let locks = if with_locks { self.locks(&index).await? } else { Vec::new() };
        let lives = self.inner.services.feed.map().sessions.clone();
        let mut locks = locks.into_iter();
        let rows = index.iter().map(|row| MetaRow {
            row: self.row(row, lives.get(&row.id), &over),
            meta: over.meta(&row.id),
            spans: spans.remove(&row.id).unwrap_or_default(),
            lock: locks.next().flatten(),
        });
        let own: Vec<MetaRow> = rows.collect();
        let foreign = self.foreign_rows(&over.metas, &mut spans).await;
        Ok(foreign::merge(own, foreign))
    }

    /// How the locks of these sessions stand, in the same order.
    async fn locks(&self, index: &Arc<[Arc<IndexRow>]>) -> Result<Vec<Option<LockState>>, PlaneError> {
        let until = Instant::now() + PROBE;
        let share = index.len().div_ceil(PROBERS).max(1);
        let mut probes = Vec::new();
        for from in (0..index.len()).step_by(share) {
            let (index, root) = (index.clone(), self.dir().root().to_owned());
            probes.push(tokio::task::spawn_blocking(move || {
                let probe = |row: &Arc<IndexRow>| {
                    let in_time = Instant::now() < until;
                    // Gone meanwhile, or not ours to open: nothing is known of it.
                    in_time.then(|| SessionLock::probe(&root, &row.id).ok()).flatten()
                };
                index.iter().skip(from).take(share).map(probe).collect::<Vec<_>>()
            }));
        }
        let mut locks = Vec::with_capacity(index.len());
        for probe in probes {
            locks.extend(probe.await.map_err(|error| PlaneError::Internal(error.to_string()))?);
        }
        Ok(locks)
    }

    /// Every project of this home, oldest first. Errors: `Invalid` without an overlay. Clause: S18.
    pub async fn projects(&self) -> Result<Vec<Project>, PlaneError> {
        Ok(self.overlay().projects().await?)
    }

    /// Makes a project. Errors: `InvalidParams` for a name that is empty or too long, `Overloaded`, `Invalid` without an overlay.
    pub async fn create_project(&self, name: &str) -> Result<Project, PlaneError> {
        self.open_for_work()?;
        let project = Project { id: fresh_id(), name: self.project_name(name)?, created: now_ms() };
        Ok(self.overlay().create_project(project).await?)
    }

    /// Gives a project another name. Errors: `NotFound`, and as [`Plane::create_project`].
    pub async fn rename_project(&self, id: &str, name: &str) -> Result<Project, PlaneError> {
        self.open_for_work()?;
        Ok(self.overlay().rename_project(id.to_owned(), self.project_name(name)?).await?)
    }

    /// Deletes a project; its id leaves every session in the same moment. Errors: `NotFound`, `Invalid` without an overlay.
    pub async fn delete_project(&self, id: &str) -> Result<(), PlaneError> {
        self.open_for_work()?;
        Ok(self.overlay().delete_project(id.to_owned()).await?)
    }

    fn project_name(&self, name: &str) -> Result<String, PlaneError> {
        let limit = self.inner.services.limits.title_bytes;
        match name.trim() {
            "" => Err(PlaneError::InvalidParams("name: must not be empty".into())),
            name if name.len() > limit => Err(PlaneError::InvalidParams(format!("name: has at most {limit} bytes"))),
            name => Ok(name.to_owned()),
        }
    }

    /// The session's row of the index. Errors: `NotFound`.
    async fn index_row(&self, id: &SessionId) -> Result<Arc<IndexRow>, PlaneError> {
        if !self.dir().exists(id) {
            return Err(PlaneError::no_session(id));
        }
        let index = self.dir().index().await?;
        index.iter().find(|row| row.id == *id).cloned().ok_or_else(|| PlaneError::no_session(id))
    }

    /// What the overlay says of these sessions.
    pub(super) async fn over(&self, mut rows: impl Iterator<Item = &IndexRow>) -> Over {
        let overlay = self.overlay();
        let metas = overlay.without(overlay.metas().await);
        let pending = match rows.any(|row| row.bytes == 0 && !self.is_live(&row.id)) {
            true => overlay.without(overlay.all_pending().await),
            false => HashMap::new(),
        };
        Over { metas, pending }
    }

    /// The session is gone; what was kept of it means nothing any more.
    pub(super) async fn forget(&self, id: &SessionId) {
        match self.overlay().forget(id).await {
            Ok(()) | Err(OverlayError::Absent(_)) => {}
            Err(error) => tracing::warn!(session = %id, %error, "what was said of a deleted session is left over"),
        }
    }

    /// Keeps what `create` is given until the transcript has its first line. Without an overlay it is kept in memory alone.
    /// Errors: it cannot be written; what would be lost must not be acknowledged (C12).
    pub(super) async fn keep_pending(&self, pending: Pending) -> Result<(), PlaneError> {
        match self.overlay().keep_pending(pending).await {
            Err(error @ OverlayError::Absent(_)) => self.overlay().without(Err(error)),
            kept => kept?,
        }
        Ok(())
    }

    /// The model that a session is to have from its next attach on, if its agent can use it.
    pub(super) async fn preferred_model(&self, id: &SessionId, agent: &dyn Agent) -> Option<String> {
        let model = self.meta(id).await.model.clone()?;
        match agent.check_model(&model) {
            Ok(()) => Some(model),
            Err(why) => {
                tracing::warn!(session = %id, model, why, "the preferred model cannot be used; the session keeps its own");
                None
            }
        }
    }

    /// What was said of one session.
    pub(super) async fn meta(&self, id: &SessionId) -> Arc<Meta> {
        self.overlay().without(self.overlay().meta(id).await)
    }

    /// A session as the disk has it, with what `create` was given while the transcript is empty. Without a lock.
    /// Errors: `NotFound`; what keeps the overlay from being read for now, lest the session begin as another one.
    pub(super) async fn stored(&self, id: &SessionId) -> Result<Stored, PlaneError> {
        let (mut history, _) = self.dir().read(id).await?;
        // A damaged header is no empty transcript.
        let flushed = history.header().is_some() || self.dir().path(id).metadata().is_ok_and(|meta| meta.len() > 0);
        if flushed {
            return Ok(Stored { history, flushed, pending: None });
        }
        let pending = match self.overlay().pending(id).await {
            Err(error @ OverlayError::Absent(_)) => self.overlay().without(Err(error)),
            pending => pending?,
        };
        if let Some(Pending { header, settings, .. }) = pending.clone() {
            history.apply(Record::Session(header));
            history.apply(Record::set(settings));
        }
        Ok(Stored { history, flushed, pending })
    }
}

/// What the overlay says of the sessions of a list.
pub(super) struct Over {
    metas: Arc<Metas>,
    pending: HashMap<SessionId, Pending>,
}

impl Over {
    pub(super) fn meta(&self, id: &SessionId) -> Arc<Meta> {
        self.metas.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn title(&self, id: &SessionId) -> Option<&String> {
        self.metas.get(id)?.title.as_ref()
    }

    pub(super) fn model(&self, id: &SessionId) -> Option<&String> {
        self.metas.get(id)?.model.as_ref()
    }

    pub(super) fn pending(&self, id: &SessionId) -> Option<&Pending> {
        self.pending.get(id)
    }
}
