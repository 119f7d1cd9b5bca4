//! Permission requests of a session: pending until somebody answers or the run is cancelled.
//! Invariant: a request is told once and resolved once; the first answer wins. Clauses: C11, H19, H21, S15.

use super::{
    input::{Effect, Reply, Ticket},
    machine::Machine,
};
use crate::{
    PlaneError,
    plane::{Answered, Choice},
};
use triplane_protocol::{
    AgentEvent, RequestId,
    event::{OptionKind, Outcome, PermissionRequest},
};

impl Machine {
    /// Pending permission requests, oldest first.
    pub fn permissions(&self) -> &[PermissionRequest] {
        &self.permissions
    }

    /// A tool call wants to go ahead. `answerable`: whether any party here could ever say so.
    pub(super) fn asked(
        &mut self,
        request: PermissionRequest,
        answerable: bool,
        cancelling: bool,
        out: &mut Vec<Effect>,
    ) {
        let id = request.request_id.clone();
        out.push(Effect::Publish(AgentEvent::PermissionRequest(request.clone())));
        if cancelling {
            resolve(id, Outcome::Expired, None, None, None, out);
        } else if answerable {
            self.permissions.push(request);
        } else {
            let why = "no connected front end can answer permission requests; choose another mode or save a rule";
            resolve(id, Outcome::Denied, None, Some(why.to_owned()), None, out);
        }
    }

    pub(super) fn expire_permissions(&mut self, out: &mut Vec<Effect>) {
        for request in std::mem::take(&mut self.permissions) {
            resolve(request.request_id, Outcome::Expired, None, None, None, out);
        }
    }

    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        request_id: &RequestId,
        choice: Choice,
        reason: Option<String>,
        by: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        let Some(at) = self.permissions.iter().position(|request| request.request_id == *request_id) else {
            let what = "permission request";
            let error = PlaneError::NotFound { what, id: request_id.to_string(), hint: " is pending" };
            out.push(Effect::Reply(ticket, Err(error)));
            return;
        };
        let Some(request) = self.permissions.get(at) else { return };
        let chosen = match &choice {
            Choice::Option(id) => request.options.iter().find(|option| option.id == *id),
            Choice::Kind { allow, always } => {
                let wanted = [kind_of(*allow, *always), kind_of(*allow, false)];
                wanted.iter().find_map(|kind| request.options.iter().find(|option| option.kind == *kind))
            }
        };
        let Some(option) = chosen.cloned() else {
            let ids: Vec<&str> = request.options.iter().map(|option| option.id.as_str()).collect();
            let text = format!("option: was not offered; offered are {}", ids.join(", "));
            out.push(Effect::Reply(ticket, Err(PlaneError::InvalidParams(text))));
            return;
        };
        let request = self.permissions.remove(at);
        let allowed = option.kind.allows();
        let outcome = if allowed { Outcome::Allowed } else { Outcome::Denied };
        if option.kind.always() {
            // Saved before the agent goes on, so that its next call already meets the rule.
            out.push(Effect::SaveRule { ticket, request_id: request.request_id.clone(), allow: allowed });
        } else {
            let answered = Answered { allowed, persisted: None, error: None };
            out.push(Effect::Reply(ticket, Ok(Reply::Answered(answered))));
        }
        resolve(request.request_id, outcome, Some(option.id), reason, by, out);
    }
}

const fn kind_of(allow: bool, always: bool) -> OptionKind {
    match (allow, always) {
        (true, false) => OptionKind::AllowOnce,
        (true, true) => OptionKind::AllowAlways,
        (false, false) => OptionKind::RejectOnce,
        (false, true) => OptionKind::RejectAlways,
    }
}

fn resolve(
    request_id: RequestId,
    outcome: Outcome,
    option: Option<String>,
    reason: Option<String>,
    by: Option<String>,
    out: &mut Vec<Effect>,
) {
    let event = AgentEvent::PermissionResolved { request_id: request_id.clone(), outcome, reason: reason.clone(), by };
    out.push(Effect::Publish(event));
    out.push(Effect::Verdict { request_id, outcome, option, reason });
}
