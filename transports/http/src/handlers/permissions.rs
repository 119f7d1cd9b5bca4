//! Permission requests: list and answer. Clauses: H20, H21.

use super::Larik;
use triplane_core::plane::{Answer, Choice};
use triplane_protocol::{
    Failure,
    larik::{
        AllPermissions, AnswerPermission, ListAllPermissions, ListPermissions, PermissionAnswered, Permissions,
        SessionPermission,
    },
    rest::{Either, Handle, Input},
};

impl Handle<ListPermissions> for Larik {
    async fn handle(&self, input: Input<ListPermissions>) -> Result<Permissions, Failure> {
        let id = input.path.id;
        let pending = self.or_nothing(&id, self.plane.permissions(Some(&id)), Vec::new()).await?;
        Ok(Permissions { permissions: pending.into_iter().map(|(_, request)| request).collect() })
    }
}

impl Handle<ListAllPermissions> for Larik {
    async fn handle(&self, _: Input<ListAllPermissions>) -> Result<AllPermissions, Failure> {
        let pending = self.plane.permissions(None)?.into_iter();
        let permissions = pending.map(|(session, request)| SessionPermission { session, request }).collect();
        Ok(AllPermissions { permissions })
    }
}

impl Handle<AnswerPermission> for Larik {
    async fn handle(&self, input: Input<AnswerPermission>) -> Result<Either<(), PermissionAnswered>, Failure> {
        let (path, body) = (input.path, input.body);
        let always = body.always.unwrap_or(false);
        let choice = Choice::Kind { allow: body.allow, always };
        let answer = Answer { choice, reason: body.reason, by: Some("http".into()) };
        let done = self.plane.answer(&path.id, &path.request_id, answer).await?;
        if !always {
            return Ok(Either::First(()));
        }
        let persisted = done.persisted.unwrap_or(false);
        Ok(Either::Second(PermissionAnswered { allowed: done.allowed, persisted, error: done.error }))
    }
}
