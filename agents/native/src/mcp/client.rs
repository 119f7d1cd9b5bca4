//! Our side of one connection: which call a server's notification or question belongs to, and whether its list changed.
//! Invariant: a question reaches the session whose call it belongs to, or none: where that cannot be told, it is declined.

use super::elicit::{Answer, Question, What};
use crate::host::Host;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        ErrorData, FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
        ProtocolVersion, RequestId, UrlElicitationCapability,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use triplane_core::session::Verdict;
use triplane_protocol::{AgentEvent, CallId};

/// What a caller is, for the time of its call.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Its session.
    pub(crate) host: Arc<dyn Host>,
    /// The call.
    pub(crate) call: CallId,
    /// Its run ends.
    pub(crate) cancel: CancellationToken,
}

/// A call in flight.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) id: RequestId,
    pub(super) token: ProgressToken,
    pub(super) caller: Caller,
    /// What comes of it. Full: the caller is behind, and one more progress would not help it.
    pub(super) progress: mpsc::Sender<ProgressNotificationParam>,
    /// Questions that wait for a person; time does not count meanwhile.
    pub(super) asking: Arc<AtomicUsize>,
}

/// The calls of one connection, and whether its list of tools changed.
#[derive(Default)]
pub(super) struct Routes {
    calls: Mutex<Vec<Route>>,
    pub(super) changed: Notify,
}

impl Routes {
    pub(super) fn enter(self: &Arc<Self>, route: Route) -> Entered {
        let id = route.id.clone();
        self.lock().push(route);
        Entered { routes: Arc::clone(self), id }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Route>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that a question belongs to: by the stream that it came on; else the latest, if all are of one session.
    fn asked_in(&self, origin: Option<&InboundStreamOrigin>) -> Option<Route> {
        let calls = self.lock();
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            return calls.iter().find(|route| route.id == *id).cloned();
        }
        let last = calls.last()?;
        calls.iter().all(|route| Arc::ptr_eq(&route.caller.host, &last.caller.host)).then(|| last.clone())
    }
}

/// A call that is known; forgotten when dropped.
pub(super) struct Entered {
    routes: Arc<Routes>,
    id: RequestId,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.routes.lock().retain(|route| route.id != self.id);
    }
}

/// What a server sees of us.
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) routes: Arc<Routes>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut elicitation = ElicitationCapability::default();
        (elicitation.form, elicitation.url) =
            (Some(FormElicitationCapability::default()), Some(UrlElicitationCapability::default()));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        // The newest with a handshake that old and new servers know.
        ClientConfig::new(capabilities, Implementation::new("triplane", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let to = self.routes.lock().iter().find(|r| r.token == params.progress_token).map(|r| r.progress.clone());
        if let Some(to) = to {
            let _ = to.try_send(params);
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.routes.changed.notify_one();
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (message, what) = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, What::Form(serde_json::to_value(requested_schema).unwrap_or_default()))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => (message, What::Page(url)),
            // Theirs may grow.
            _ => return Ok(ElicitResult::new(ElicitationAction::Decline)),
        };
        let question = Question { server: self.server.clone(), message, what };
        let Some(route) = self.routes.asked_in(context.extensions.get()) else {
            tracing::warn!("MCP server `{}` asked a question that belongs to no one session; declined", self.server);
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        route.asking.fetch_add(1, Ordering::SeqCst);
        let answer = tokio::select! {
            () = context.ct.cancelled() => Answer::Cancel,
            answer = put(&question, &route.caller) => answer,
        };
        route.asking.fetch_sub(1, Ordering::SeqCst);
        Ok(match answer {
            Answer::Accept(Some(content)) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            Answer::Accept(None) => ElicitResult::new(ElicitationAction::Accept),
            Answer::Decline => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

/// Asks the person of that session, and tells how it came out.
async fn put(question: &Question, caller: &Caller) -> Answer {
    let answer = match question.ask(&caller.call) {
        None => Answer::Decline,
        Some(ask) => {
            let verdict = tokio::select! {
                biased;
                () = caller.cancel.cancelled() => Verdict::Expired,
                verdict = caller.host.ask(ask) => verdict,
            };
            question.answer(&verdict)
        }
    };
    let mut data = question.data();
    if let Some(members) = data.as_object_mut() {
        members.insert("call_id".to_owned(), caller.call.as_str().into());
        members.insert("answer".to_owned(), answer.word().into());
    }
    caller.host.emit(AgentEvent::Extension { name: "mcp_elicitation".to_owned(), data }).await;
    answer
}
