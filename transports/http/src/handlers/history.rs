//! A session's history as a whole: branch off, summarise, take back, empty. Each loads a stored session. Clauses: H12, H22, C17.

use super::Larik;
use crate::views;
use triplane_core::plane::ClearWhen;
use triplane_protocol::{
    Failure,
    larik::{ClearSession, Cleared, CompactSession, Compacted, ForkSession, Forked, UndoPrompt, Undone},
    rest::{Handle, Input},
};

impl Handle<ForkSession> for Larik {
    async fn handle(&self, input: Input<ForkSession>) -> Result<Forked, Failure> {
        let id = input.path.id;
        self.loaded(&id).await?;
        let at = input.body.at.map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let forked = self.plane.fork(&self.hold, &id, at).await?;
        Ok(Forked { session: views::session(forked.session), prompt: forked.prompt })
    }
}

impl Handle<CompactSession> for Larik {
    async fn handle(&self, input: Input<CompactSession>) -> Result<Compacted, Failure> {
        let id = input.path.id;
        self.loaded(&id).await?;
        let done = self.plane.compact(&id).await?;
        Ok(Compacted { before_tokens: done.before_tokens, after_tokens: done.after_tokens })
    }
}

impl Handle<UndoPrompt> for Larik {
    async fn handle(&self, input: Input<UndoPrompt>) -> Result<Undone, Failure> {
        let id = input.path.id;
        self.loaded(&id).await?;
        Ok(views::undone(self.plane.undo(&id).await?))
    }
}

impl Handle<ClearSession> for Larik {
    async fn handle(&self, input: Input<ClearSession>) -> Result<Cleared, Failure> {
        let id = input.path.id;
        self.loaded(&id).await?;
        self.plane.clear(&id, ClearWhen::Now).await?;
        Ok(Cleared {})
    }
}
