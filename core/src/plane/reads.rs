//! What is read: lists, details, history, subscriptions. Nothing here changes anything or needs a lock.

use super::{
    HistoryPage, ListPage, Plane, SessionDetail, SessionRow,
    foreign::Owner,
    meta::{Over, Stored},
};
use crate::{
    PlaneError,
    feed::{Log, NodeSubscription, Subscription},
    limits::Limits,
    overlay::Pending,
    session::Live,
    stats::{Now, Snapshot},
    store::IndexRow,
};
use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::Ordering},
};
use triplane_protocol::{Message, MessageId, SessionId, event::TaskState};

impl Plane {
    /// Every session of the store, newest write first (C13). `limit` rows after `cursor` (an opaque text of an earlier page).
    /// Errors: `InvalidParams` for a cursor that is none.
    pub async fn list(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<ListPage, PlaneError> {
        let index = self.dir().index().await?;
        let from = match cursor {
            None => 0,
            Some(cursor) => match index.iter().position(|row| row.id.as_str() == cursor) {
                Some(at) => at + 1,
                None => return Err(PlaneError::InvalidParams("cursor: is not one that a list gave out".into())),
            },
        };
        let page = || index.iter().skip(from).take(limit.unwrap_or(usize::MAX));
        let over = self.over(page().map(|row| &**row)).await;
        let lives: HashMap<SessionId, Arc<Live>> = self.inner.services.feed.map().sessions.clone();
        let rows: Vec<SessionRow> = page().map(|row| self.row(row, lives.get(&row.id), &over)).collect();
        let more = from + rows.len() < index.len();
        let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
        Ok(ListPage { rows, next })
    }

    pub(super) fn row(&self, row: &IndexRow, live: Option<&Arc<Live>>, over: &Over) -> SessionRow {
        let title = over.title(&row.id).cloned();
        if let Some(live) = live {
            let of_live = self.live_row(live);
            return SessionRow { updated: row.updated.max(of_live.created), title: title.or(of_live.title), ..of_live };
        }
        let shown = SessionRow {
            id: row.id.clone(),
            agent: row.agent.clone(),
            title: title.or_else(|| row.title.clone()),
            cwd: row.cwd.clone(),
            model: over.model(&row.id).or(row.model.as_ref()).cloned(),
            created: row.created,
            updated: row.updated,
            live: false,
            busy: false,
            pending: row.bytes == 0,
        };
        self.complete(shown, over)
    }

    /// An empty transcript says nothing: what `create` was given stands for it, else the plane's defaults.
    fn complete(&self, mut row: SessionRow, over: &Over) -> SessionRow {
        if let Some(Pending { header, settings, .. }) = over.pending(&row.id).filter(|_| row.pending) {
            row.agent.clone_from(&header.agent);
            row.cwd.clone_from(&header.cwd);
            row.created = header.created;
            // The file's own time may be a tick older than the one that create took.
            row.updated = row.updated.max(header.created);
            row.title = row.title.or_else(|| settings.title.clone());
            row.model = row.model.or_else(|| settings.model.clone());
        }
        if row.agent.is_empty() {
            row.agent = self.default_agent();
        }
        if row.cwd.is_empty() {
            row.cwd = self.inner.config.cwd.to_string_lossy().into();
        }
        row
    }

    /// What the plane counts of itself, and what is true of it now.
    pub fn stats(&self) -> Snapshot {
        let lives: Vec<Arc<Live>> = self.inner.services.feed.map().sessions.values().cloned().collect();
        let mut now = Now { live: lives.len() as u64, busy: 0, pending: 0, tasks: 0, subscribers: 0 };
        for live in lives {
            let machine = live.machine();
            now.busy += u64::from(machine.busy());
            now.pending += machine.permissions().len() as u64;
            now.tasks += machine.tasks().iter().filter(|task| task.state == TaskState::Running).count() as u64;
        }
        let logs: Vec<Arc<Log>> = self.logs().values().filter_map(Weak::upgrade).collect();
        now.subscribers = logs.iter().map(|log| log.readers() as u64).sum();
        self.inner.services.stats.snapshot(now)
    }

    pub(super) fn default_agent(&self) -> String {
        self.agent(None).map(|agent| agent.id()).unwrap_or_default()
    }

    fn live_row(&self, live: &Live) -> SessionRow {
        let machine = live.machine();
        SessionRow {
            id: live.id.clone(),
            agent: live.agent_id.clone(),
            title: machine.history.settings().title.clone(),
            cwd: live.cwd.to_string_lossy().into_owned(),
            model: Some(machine.settings.model.clone()),
            created: live.created,
            updated: live.updated.load(Ordering::Relaxed),
            live: true,
            busy: machine.busy(),
            pending: machine.history.messages().is_empty(),
        }
    }

    /// One session, live or stored. Errors: `NotFound`.
    pub async fn get(&self, id: &SessionId) -> Result<SessionDetail, PlaneError> {
        let meta = self.meta(id).await;
        if let Some(live) = self.peek(id) {
            let mut detail = self.live_detail(&live);
            detail.row.title = meta.title.clone().or(detail.row.title);
            return Ok(detail);
        }
        let Stored { history, flushed, .. } = self.stored(id).await?;
        let header = history.header().cloned();
        let agent = self.agent(header.as_ref().map(|header| header.agent.as_str())).or_else(|_| self.agent(None))?;
        let settings = self.settings(&*agent, history.settings());
        let state = self.dir().spool_state(id).await?;
        let agent_id = header.as_ref().map_or_else(|| agent.id(), |header| header.agent.clone());
        let row = SessionRow {
            id: id.clone(),
            agent: agent_id,
            title: meta.title.as_ref().or(history.settings().title.as_ref()).cloned(),
            cwd: header.as_ref().map_or_else(|| self.inner.config.cwd.to_string_lossy().into(), |h| h.cwd.clone()),
            model: Some(meta.model.clone().unwrap_or(settings.model)),
            created: header.map_or(history.updated(), |header| header.created),
            updated: history.updated(),
            live: false,
            busy: false,
            pending: !flushed,
        };
        Ok(SessionDetail {
            row,
            mode: settings.mode,
            effort: settings.effort,
            usage: history.usage(),
            permissions: Vec::new(),
            tasks: Vec::new(),
            seq: state.as_ref().map_or(0, |state| state.next_seq.saturating_sub(1)),
            epoch: state.map(|state| state.epoch).unwrap_or_default(),
            path: self.dir().path(id),
        })
    }

    pub(super) fn live_detail(&self, live: &Live) -> SessionDetail {
        let row = self.live_row(live);
        let machine = live.machine();
        SessionDetail {
            row,
            mode: machine.settings.mode,
            effort: machine.settings.effort,
            usage: machine.history.usage(),
            permissions: machine.permissions().to_vec(),
            tasks: machine.tasks().to_vec(),
            seq: live.log.next_seq().saturating_sub(1),
            epoch: live.log.epoch().to_string(),
            path: live.path.clone(),
        }
    }

    /// A whole id, a unique prefix or `latest`, resolved. Errors: `NotFound`, `Ambiguous`, `InvalidParams`. Clause: L08.
    pub async fn resolve(&self, text: &str) -> Result<SessionId, PlaneError> {
        Ok(self.dir().resolve(text).await?)
    }

    /// All messages of a session, live or stored, oldest first. Errors: `NotFound`. Clause: H11.
    pub async fn messages(&self, id: &SessionId) -> Result<Vec<Arc<Message>>, PlaneError> {
        Ok(self.history_of(id).await?.messages().to_vec())
    }

    /// The same from whichever store has the session. Errors: `NotFound`, `InStores`, `UnknownAgent`, `Store`. Clauses: S07, S11.
    pub async fn messages_of(&self, id: &SessionId, agent: Option<&str>) -> Result<Vec<Arc<Message>>, PlaneError> {
        match self.owner(id, agent).await? {
            Owner::Plane => self.messages(id).await,
            Owner::Foreign(foreign) => Ok(foreign.load(id).await?.messages.into_iter().map(Arc::new).collect()),
        }
    }

    /// A page of the history, newest page first, oldest first within it; bounded by count and by bytes.
    /// Errors: `NotFound`, `InvalidParams` for a `before` that is no message. Clause: S11.
    pub async fn history(
        &self,
        id: &SessionId,
        agent: Option<&str>,
        limit: Option<usize>,
        before: Option<&MessageId>,
    ) -> Result<HistoryPage, PlaneError> {
        let limits = &self.inner.services.limits;
        let asked_for = |live: &Live| agent.is_none_or(|agent| live.agent_id == agent);
        if let Some(live) = self.peek(id).filter(|live| asked_for(live)) {
            // Where it is: a page of a long history costs no copy of it.
            return page_of(live.machine().history.messages(), limit, before, limits);
        }
        page_of(&self.messages_of(id, agent).await?, limit, before, limits)
    }

    /// A position at the end of a session's log; it stands when this returns. Errors: `NotFound` unless live or stored.
    pub async fn subscribe(&self, id: &SessionId) -> Result<Subscription, PlaneError> {
        let live = self.peek(id);
        if live.is_none() && !self.dir().exists(id) {
            return Err(PlaneError::no_session(id));
        }
        let log = match live {
            Some(live) => live.log.clone(),
            None => self.log(id, false).await?,
        };
        Ok(Subscription::at_end(log))
    }

    /// A position at the end of the node's feed, and who is live at that moment. Clause: S24.
    pub fn subscribe_node(&self) -> (NodeSubscription, Vec<SessionId>) {
        NodeSubscription::at_end(&self.inner.services.feed, |map| {
            let mut ids: Vec<SessionId> = map.sessions.keys().cloned().collect();
            ids.sort();
            ids
        })
    }
}

/// Roughly the bytes of a message on a wire; what is not text counts as its JSON would.
fn size_of_message(message: &Message) -> usize {
    serde_json::to_vec(message).map_or(0, |text| text.len())
}

fn page_of(
    messages: &[Arc<Message>],
    limit: Option<usize>,
    before: Option<&MessageId>,
    limits: &Limits,
) -> Result<HistoryPage, PlaneError> {
    let end = match before {
        None => messages.len(),
        Some(before) => messages
            .iter()
            .rposition(|message| message.id == *before)
            .ok_or_else(|| PlaneError::InvalidParams("before: is no message of this session".into()))?,
    };
    let limit = limit.unwrap_or(limits.history_limit).clamp(1, limits.history_limit);
    let mut bytes = 0;
    let mut page: Vec<Arc<Message>> = Vec::new();
    for message in messages.iter().take(end).rev().take(limit) {
        bytes += size_of_message(message);
        if !page.is_empty() && bytes > limits.history_bytes {
            break;
        }
        page.push(message.clone());
    }
    page.reverse();
    let first = end - page.len();
    let before = page.first().filter(|_| first > 0).map(|message| message.id.clone());
    Ok(HistoryPage { messages: page, before })
}
