//! One live session of a driver: it is opened with each process anew, and its run ends when it should, whatever the driver does.

use crate::{
    connection::{Connection, Hearing},
    events::{self, Next, Told},
    supervisor::{Supervisor, encode},
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use triplane_core::{
    agent::{LiveAgent, RunError, RunOutcome, StoreFailure, Turn},
    session::{PermissionAsk, RunSink, ToolKind, Verdict},
};
use triplane_protocol::{
    ErrorCode, SessionId, Stop, Usage, driver as wire,
    driver::{
        Answer, AnswerPermission, Ask, AskKind, Call, CancelSession, CloseSession, Named, OpenSession, PromptSession,
    },
    event::{OptionKind, Outcome, PermissionOption},
};

/// How long the driver may take to be told that a session is closed.
const CLOSE: Duration = Duration::from_secs(2);

/// Permission requests that one run may have open; more are refused.
const ASKS: usize = 64;

/// A session of a driver.
#[derive(Debug)]
pub(crate) struct DriverSession {
    driver: Arc<Supervisor>,
    id: SessionId,
    /// The process that knows of it.
    opened: Option<Arc<Connection>>,
}

impl DriverSession {
    pub(crate) fn new(driver: Arc<Supervisor>, id: SessionId) -> Self {
        Self { driver, id, opened: None }
    }

    /// The process, which knows of the session when this returns.
    async fn ready(&mut self, turn: &Turn) -> Result<Arc<Connection>, StoreFailure> {
        let connection = self.driver.connection().await?;
        if self.opened.as_ref().is_some_and(|opened| Arc::ptr_eq(opened, &connection)) {
            return Ok(connection);
        }
        self.opened = None;
        let open = wire::Open {
            id: self.id.clone(),
            cwd: turn.cwd.to_string_lossy().into_owned(),
            model: turn.settings.model.clone(),
            effort: turn.settings.effort,
            mode: turn.settings.mode,
        };
        self.driver.call_on::<OpenSession>(&connection, &open).await?;
        self.opened = Some(connection.clone());
        Ok(connection)
    }

    fn prompt(&self, turn: Turn) -> wire::Prompt {
        wire::Prompt {
            id: self.id.clone(),
            run: turn.run_id,
            messages: turn.history.iter().map(|message| (**message).clone()).collect(),
            cwd: turn.cwd.to_string_lossy().into_owned(),
            model: turn.settings.model,
            effort: turn.settings.effort,
            mode: turn.settings.mode,
            turns: turn.max_turns,
        }
    }
}

#[async_trait]
impl LiveAgent for DriverSession {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let connection = match cancel.run_until_cancelled(self.ready(&turn)).await {
            None => return aborted(Told::default()),
            Some(Err(failure)) => return failed(failure, Told::default()),
            Some(Ok(connection)) => connection,
        };
        let prompt = match encode(&self.prompt(turn)) {
            Ok(prompt) => prompt,
            Err(failure) => return failed(failure, Told::default()),
        };
        let hearing = connection.hear(&self.id);
        let run = Run {
            driver: self.driver.clone(),
            connection,
            id: self.id.clone(),
            sink,
            told: Told::default(),
            asks: JoinSet::new(),
        };
        run.serve(prompt, hearing, cancel).await
    }

    async fn summarize(&mut self, _: Turn, _: CancellationToken) -> Result<(String, Usage), RunError> {
        let message = format!("driver `{}` cannot summarise a history", self.driver.found.name);
        Err(RunError { code: ErrorCode::Unsupported, message, retryable: false })
    }

    async fn close(&mut self) {
        let Some(connection) = self.opened.take().filter(|connection| connection.gone().is_none()) else { return };
        if let Ok(params) = encode(&Named { id: self.id.clone() }) {
            let _ = timeout(CLOSE, connection.ask(CloseSession::METHOD, &params)).await;
        }
    }
}

/// One run.
struct Run {
    driver: Arc<Supervisor>,
    connection: Arc<Connection>,
    id: SessionId,
    sink: RunSink,
    told: Told,
    /// Permission requests that wait for their answer, and answers on their way to the driver.
    asks: JoinSet<()>,
}

impl Run {
    async fn serve(mut self, prompt: String, mut hearing: Hearing, cancel: CancellationToken) -> RunOutcome {
        let (driver, connection) = (self.driver.clone(), self.connection.clone());
        let limit = driver.launch.limits.cancel;
        let asking = connection.ask(PromptSession::METHOD, &prompt);
        tokio::pin!(asking);
        let mut give_up: Option<Instant> = None;
        let answer = loop {
            let late = async {
                match give_up {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Events first: those before the answer belong to the run.
                biased;
                Some(heard) = hearing.events.recv() => self.hear(heard.event).await,
                () = cancel.cancelled(), if give_up.is_none() => {
                    give_up = Some(Instant::now() + limit);
                    self.tell_cancel();
                }
                () = late => {
                    connection.kill(&format!("it did not end a run within {limit:?} of its cancel, so it was ended"));
                    return aborted(self.told);
                }
                Some(_) = self.asks.join_next() => {}
                answer = &mut asking => break answer,
            }
        };
        // What came before the answer is here by now.
        while let Ok(heard) = hearing.events.try_recv() {
            self.hear(heard.event).await;
        }
        drop(hearing);
        self.asks.abort_all();
        match driver.answer::<PromptSession>(answer) {
            _ if cancel.is_cancelled() => aborted(self.told),
            Err(failure) => failed(failure, self.told),
            Ok(outcome) => {
                let (outcome, reply, usage, turns) = events::finish(outcome, self.told, &self.sink).await;
                let error = outcome.error.map(|fault| RunError {
                    code: fault.code,
                    message: fault.message,
                    retryable: fault.retryable,
                });
                RunOutcome { stop: outcome.stop, reply, usage, turns, error }
            }
        }
    }

    async fn hear(&mut self, event: serde_json::Value) {
        match events::pass(event, &mut self.told, &self.sink).await {
            Next::Done => {}
            Next::Ask(ask) => self.ask(*ask),
        }
    }

    fn tell_cancel(&mut self) {
        let (connection, id) = (self.connection.clone(), self.id.clone());
        self.asks.spawn(async move {
            if let Ok(params) = encode(&Named { id }) {
                let _ = connection.ask(CancelSession::METHOD, &params).await;
            }
        });
    }

    /// Asks the plane, and brings the driver the answer.
    fn ask(&mut self, ask: Ask) {
        let full = self.asks.len() >= ASKS;
        let (driver, connection, id, sink) =
            (self.driver.clone(), self.connection.clone(), self.id.clone(), self.sink.clone());
        self.asks.spawn(async move {
            let (request, options) = (ask.request_id.clone(), ask.options.clone());
            let verdict = match full {
                true => Verdict::Denied { reason: "too many requests wait already".into(), option: None },
                false => sink.ask(permission(ask)).await,
            };
            let answer = answer(id, request, &options, verdict);
            if let Err(failure) = driver.call_on::<AnswerPermission>(&connection, &answer).await {
                tracing::warn!("{failure}: a permission's answer did not arrive");
            }
        });
    }
}

fn permission(ask: Ask) -> PermissionAsk {
    let kind = match ask.kind {
        AskKind::Read => ToolKind::Read,
        AskKind::Edit => ToolKind::Edit,
        AskKind::Execute => ToolKind::Execute,
        AskKind::Fetch => ToolKind::Fetch,
    };
    PermissionAsk {
        call_id: ask.call_id,
        title: ask.title.unwrap_or_else(|| ask.tool.clone()),
        subject: ask.subject.unwrap_or_default(),
        tool: ask.tool,
        kind,
        input: ask.input,
        outside: false,
        options: (!ask.options.is_empty()).then_some(ask.options),
    }
}

/// An answer in the driver's words: where a rule or a mode decided, the option that means the same, once.
fn answer(id: SessionId, request: String, options: &[PermissionOption], verdict: Verdict) -> Answer {
    let of = |kind: OptionKind| {
        if options.is_empty() {
            let text = serde_json::to_value(kind).ok()?;
            return text.as_str().map(str::to_owned);
        }
        let same = options.iter().find(|option| option.kind == kind);
        same.or_else(|| options.iter().find(|option| option.kind.allows() == kind.allows()))
            .map(|option| option.id.clone())
    };
    let (outcome, option, reason) = match verdict {
        Verdict::Allowed { option } => (Outcome::Allowed, option.or_else(|| of(OptionKind::AllowOnce)), None),
        Verdict::Denied { reason, option } => {
            (Outcome::Denied, option.or_else(|| of(OptionKind::RejectOnce)), Some(reason))
        }
        Verdict::Expired => (Outcome::Expired, None, None),
    };
    Answer { id, request, outcome, option, reason }
}

fn aborted(told: Told) -> RunOutcome {
    let (reply, usage, turns) = told.into_parts();
    RunOutcome { stop: Stop::Aborted, reply, usage, turns, error: None }
}

/// The driver could not do it, or is gone. The same prompt may work with the next process.
fn failed(failure: StoreFailure, told: Told) -> RunOutcome {
    let (reply, usage, turns) = told.into_parts();
    let retryable = failure.code == ErrorCode::Unavailable;
    let message = match failure.cause.filter(|cause| !failure.message.contains(cause.as_str())) {
        Some(cause) => format!("{}: {cause}", failure.message),
        None => failure.message,
    };
    let error = Some(RunError { code: failure.code, message, retryable });
    RunOutcome { stop: Stop::Error, reply, usage, turns, error }
}
