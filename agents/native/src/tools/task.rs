//! `task`: a helper in a session of its own, a child of this one.
//! Invariants: a helper has no helpers; it ends with the call that started it; what it has to ask is asked here too, where
//! somebody looks. Its session stays and can be read like any other.

use super::{
    Builtin, CANCELLED, Desk, Outcome, Prepared,
    text::{clip_marked, title},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;
use triplane_core::{
    Plane, PlaneError,
    feed::Subscription,
    plane::{Answer, Choice, Created, Hold, HoldPolicy, Prompt, RunResult, WhenBusy},
    session::{PermissionAsk, ToolKind, Verdict},
};
use triplane_protocol::{
    AgentEvent, CallId, SessionId, Stop,
    event::{OptionKind, PermissionOption, PermissionRequest, SettingsPatch},
};

/// Bytes of a helper's answer.
const REPLY_BYTES: usize = 32 << 10;

/// Entries of the helper's feed that are read at once.
const BATCH: usize = 64;

/// How long a helper's session stays loaded after its last use.
const IDLE: Duration = Duration::from_secs(60);

/// Where helpers live: the plane that this agent is in, once it is open. Without one there is no tool `task`.
#[derive(Debug, Clone, Default)]
pub struct Helpers(Arc<Home>);

#[derive(Debug, Default)]
struct Home {
    plane: OnceLock<(Plane, Hold)>,
    /// Sessions that are helpers.
    ids: Mutex<HashSet<SessionId>>,
}

impl Helpers {
    /// The plane is open. Only the first call counts.
    pub fn live_in(&self, plane: &Plane) {
        self.0.plane.get_or_init(|| {
            let policy = HoldPolicy { name: "task", idle_ttl: Some(IDLE), ..HoldPolicy::default() };
            (plane.clone(), plane.hold(policy))
        });
    }

    /// Whether this session may have helpers.
    pub(crate) fn are_for(&self, id: &SessionId) -> bool {
        let ids = self.0.ids.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.plane.get().is_some() && !ids.contains(id)
    }

    async fn open(&self, desk: &Desk, name: &str) -> Result<(&Plane, SessionId), PlaneError> {
        let Some((plane, hold)) = self.0.plane.get() else { return Err(PlaneError::NoAgent) };
        let parent = plane.get(&desk.shelf.id).await?;
        let settings = parent.settings();
        let created = Created {
            cwd: Some(desk.cwd.clone()),
            agent: Some(parent.row.agent),
            settings: SettingsPatch {
                model: Some(settings.model),
                effort: settings.effort,
                mode: Some(settings.mode),
                title: Some(name.to_owned()),
            },
            source: Some("task".to_owned()),
            parent: Some(desk.shelf.id.clone()),
            ..Created::default()
        };
        let id = plane.create(hold, created).await?.row.id;
        self.0.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        Ok((plane, id))
    }
}

/// Input of `task`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// What the helper is for, in a few words for people.
    description: String,
    /// All that it is told: it sees nothing of this conversation. Say what to find out or to do, and what to answer.
    prompt: String,
}

impl Builtin for Task {
    const NAME: &'static str = "task";
    const DESCRIPTION: &'static str = "Lets a helper with the same tools work on its own and answers what it says at the end. \
        Good for searches that take many steps, and for parts that do not depend on each other: several calls in one turn go on \
        at the same time.";

    fn prepare(self, desk: &Desk, call: &CallId) -> Result<Prepared, String> {
        if self.description.trim().is_empty() {
            return Err("description: must not be empty".to_owned());
        }
        if self.prompt.trim().is_empty() {
            return Err("prompt: must not be empty".to_owned());
        }
        let (desk, call) = (desk.clone(), call.clone());
        Ok(Prepared {
            // The helper asks for what it does itself.
            kind: ToolKind::Read,
            title: title("task", &self.description),
            subject: self.description.clone(),
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                help(&desk, call, self).await.unwrap_or_else(|err| Outcome::failed(err.to_string()))
            }),
        })
    }
}

async fn help(desk: &Desk, call: CallId, task: Task) -> Result<Outcome, PlaneError> {
    let helpers = desk.config.helpers.clone();
    let name: String = task.description.chars().take(80).collect();
    let (plane, id) = helpers.open(desk, &name).await?;
    let events = plane.subscribe(&id).await?;
    let run = plane.prompt(&id, Prompt::text(task.prompt, WhenBusy::Refuse)).await?;
    let watch = Watch { desk: desk.clone(), call, plane: plane.clone(), id: id.clone(), asks: JoinSet::new() };
    let mut finished = std::pin::pin!(run.finished());
    tokio::select! {
        biased;
        () = desk.cancel.cancelled() => {
            plane.cancel(&id).await?;
            Ok(Outcome::failed(CANCELLED))
        }
        result = &mut finished => Ok(told(result?, &id)),
        never = watch.follow(events) => match never {},
    }
}

fn told(result: RunResult, id: &SessionId) -> Outcome {
    let reply = clip_marked(&result.reply, REPLY_BYTES);
    let why = match result.stop {
        Stop::Completed if reply.trim().is_empty() => {
            return Outcome::ok(format!("(the helper of session {id} said nothing)"));
        }
        Stop::Completed => return Outcome::ok(reply),
        Stop::Error => result.error.map_or_else(|| "it failed".to_owned(), |error| error.message),
        Stop::Aborted => "it was cancelled".to_owned(),
        Stop::MaxTurns => "it took too many turns".to_owned(),
        Stop::MaxTokens => "its reply was too long".to_owned(),
        Stop::Refused => "its model refused".to_owned(),
    };
    Outcome::failed(format!("{reply}\n[the helper of session {id} did not finish: {why}]").trim_start().to_owned())
}

/// Shows here what the helper does, and asks here what it asks.
struct Watch {
    desk: Desk,
    call: CallId,
    plane: Plane,
    id: SessionId,
    asks: JoinSet<()>,
}

impl Watch {
    async fn follow(mut self, mut events: Subscription) -> std::convert::Infallible {
        loop {
            for entry in events.next(BATCH).await.entries {
                // The rest is in the helper's own feed.
                if let AgentEvent::ToolCallStart { name, title, .. } = &entry.event {
                    let text = format!("{}\n", title.as_deref().unwrap_or(name));
                    self.desk.host.emit(AgentEvent::ToolCallOutput { call_id: self.call.clone(), text }).await;
                } else if let AgentEvent::PermissionRequest(request) = &entry.event {
                    self.pass_on(request.clone());
                }
            }
            while self.asks.try_join_next().is_some() {}
        }
    }

    fn pass_on(&mut self, request: PermissionRequest) {
        let (host, plane, id, call_id) =
            (Arc::clone(&self.desk.host), self.plane.clone(), self.id.clone(), self.call.clone());
        self.asks.spawn(async move {
            let option = |kind, id: &str, name: &str| PermissionOption { id: id.into(), name: name.into(), kind };
            let ask = PermissionAsk {
                call_id,
                tool: request.tool,
                // It was decided there that a person is asked.
                kind: ToolKind::Unconfined,
                title: format!("helper: {}", request.title),
                input: request.input,
                subject: request.title,
                outside: true,
                options: Some(vec![
                    option(OptionKind::AllowOnce, "allow_once", "Allow"),
                    option(OptionKind::RejectOnce, "reject_once", "Refuse"),
                ]),
            };
            let (allow, reason) = match host.ask(ask).await {
                Verdict::Allowed { .. } => (true, None),
                Verdict::Denied { reason, .. } => (false, Some(reason)),
                Verdict::Expired => return,
            };
            let answer = Answer { choice: Choice::Kind { allow, always: false }, reason, by: None };
            if let Err(err) = plane.answer(&id, &request.request_id, answer).await {
                tracing::debug!("a helper's request was answered elsewhere: {err}");
            }
        });
    }
}
