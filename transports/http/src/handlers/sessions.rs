//! Sessions: list, make or load, look at, change, unload, read. Clauses: H06–H11.

use super::{Larik, refuse};
use crate::views;
use triplane_core::plane::Created;
use triplane_protocol::{
    Failure, SessionId,
    event::{CloseReason, SettingsPatch},
    larik::{
        CreateBody, CreateSession, DeleteSession, GetSession, ListMessages, ListSessions, Messages, PatchSession,
        SessionPage, SessionView,
    },
    rest::{Either, Handle, Input},
};

impl Handle<ListSessions> for Larik {
    async fn handle(&self, input: Input<ListSessions>) -> Result<SessionPage, Failure> {
        let limit = input.query.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if limit == Some(0) {
            return refuse("limit: must be at least 1");
        }
        let page = self.plane.list(limit, input.query.cursor.as_deref()).await?;
        Ok(SessionPage { sessions: page.rows.into_iter().map(views::item).collect(), next: page.next })
    }
}

impl Handle<CreateSession> for Larik {
    async fn handle(&self, input: Input<CreateSession>) -> Result<Either<SessionView, SessionView>, Failure> {
        let CreateBody { model, effort, mode, agent, title, resume, newest } = input.body;
        let settings = SettingsPatch { model, effort, mode, title };
        let id = match (resume, newest.unwrap_or(false)) {
            (Some(_), true) => return refuse("give `resume` or `continue`, not both"),
            (Some(id), false) => id,
            (None, true) => self.plane.resolve("latest").await?,
            (None, false) => {
                let created = Created { agent, settings, ..Created::default() };
                return Ok(Either::First(views::session(self.plane.create(&self.hold, created).await?)));
            }
        };
        if agent.is_some() {
            return refuse("agent: a stored session keeps its agent; leave it out");
        }
        Ok(Either::Second(self.load(&id, settings).await?))
    }
}

impl Larik {
    /// Loads a session under its own id and changes what was asked for besides.
    async fn load(&self, id: &SessionId, settings: SettingsPatch) -> Result<SessionView, Failure> {
        let detail = self.plane.attach(&self.hold, id).await?;
        if settings == SettingsPatch::default() {
            return Ok(views::session(detail));
        }
        Ok(views::session(self.plane.set(id, settings).await?))
    }
}

impl Handle<GetSession> for Larik {
    async fn handle(&self, input: Input<GetSession>) -> Result<SessionView, Failure> {
        Ok(views::session(self.plane.get(&input.path.id).await?))
    }
}

impl Handle<PatchSession> for Larik {
    async fn handle(&self, input: Input<PatchSession>) -> Result<SessionView, Failure> {
        let (id, body) = (input.path.id, input.body);
        self.loaded(&id).await?;
        let patch = SettingsPatch { model: body.model, effort: body.effort, mode: body.mode, title: body.title };
        Ok(views::session(self.plane.set(&id, patch).await?))
    }
}

impl Handle<DeleteSession> for Larik {
    async fn handle(&self, input: Input<DeleteSession>) -> Result<(), Failure> {
        let id = input.path.id;
        let detached = self.plane.detach(&id, CloseReason::Explicit).await;
        if !self.or_nothing(&id, detached, false).await? {
            // Not live: it must at least be stored.
            self.plane.get(&id).await?;
        }
        Ok(())
    }
}

impl Handle<ListMessages> for Larik {
    async fn handle(&self, input: Input<ListMessages>) -> Result<Messages, Failure> {
        Ok(Messages { messages: self.plane.messages(&input.path.id).await? })
    }
}
