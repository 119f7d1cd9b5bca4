//! One prompt to its stop: ask the model, keep its message, run its calls, and again.
//! Invariants: a message is appended before the event that tells of it; every call that is in the history gets a result, whatever
//! happens; after `cancel` nothing new is begun. A model that is asked again begins its message anew: what it had said before
//! an `llm_retry` is not in the history.

mod again;
mod call;
pub(crate) mod collect;
mod fit;

use crate::{
    NativeConfig,
    host::Host,
    model::{Model, ModelError, ModelRequest, Purpose, TurnEnd},
    prompt,
    shelf::Shelf,
    tools::{Desk, ToolSet},
};
use again::Again;
use collect::{Collector, Reply};
use std::{path::Path, sync::Arc};
use tokio_util::sync::CancellationToken;
use triplane_core::agent::{RunError, RunOutcome, Turn};
use triplane_protocol::{AgentEvent, ErrorCode, Message, Part, Role, Stop, Usage};

/// Runs one prompt to its stop.
pub(crate) async fn run(
    config: &Arc<NativeConfig>,
    shelf: Arc<Shelf>,
    turn: Turn,
    host: Arc<dyn Host>,
    cancel: CancellationToken,
) -> RunOutcome {
    match Run::begin(config, shelf, turn, host, cancel).await {
        Ok(run) => run.go().await,
        Err(error) => RunOutcome {
            stop: Stop::Error,
            reply: String::new(),
            usage: Usage::default(),
            turns: 0,
            error: Some(error),
        },
    }
}

/// A summary of the history by the session's model. Publishes nothing.
pub(crate) async fn summarize(
    config: &NativeConfig,
    turn: &Turn,
    cancel: &CancellationToken,
) -> Result<(String, Usage), RunError> {
    let model = find(config, &turn.settings.model)?;
    let mut again = Again::default();
    let mut step = 0;
    loop {
        let history = fit::lighter(&turn.history, step);
        let request = ModelRequest {
            purpose: Purpose::Summary,
            system: None,
            history: &history,
            effort: turn.settings.effort,
            tools: &[],
        };
        let mut text = collect::TextOnly::default();
        let asked = async {
            let error = match model.turn(request, &mut text, cancel).await {
                Ok(end) => return Ok(Some(end)),
                Err(error) => error,
            };
            // It is asked for because there is too much.
            if error.code == ErrorCode::TooLarge && step < fit::STEPS {
                step += 1;
                return Ok(None);
            }
            match again.after(&error, model.retries()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
            Ok(None)
        };
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(failed(ErrorCode::Cancelled, "the summary was cancelled", false)),
            end = asked => end?,
        };
        if let Some(end) = end {
            return Ok((text.0, end.usage));
        }
    }
}

/// A run in flight.
struct Run {
    model: Arc<dyn Model>,
    host: Arc<dyn Host>,
    cancel: CancellationToken,
    desk: Desk,
    turn: Turn,
    /// What a model that is [`Model::prompted`] is told.
    system: Option<String>,
    /// Models that have not failed yet, the next one first.
    fallbacks: Vec<String>,
    reply: String,
    usage: Usage,
    turns: u32,
}

/// How a round trip to the model came out.
enum Asked {
    Ended(Result<TurnEnd, ModelError>),
    Cancelled,
}

impl Run {
    async fn begin(
        config: &Arc<NativeConfig>,
        shelf: Arc<Shelf>,
        turn: Turn,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Result<Self, RunError> {
        let model = find(config, &turn.settings.model)?;
        let cwd = tokio::fs::canonicalize(&turn.cwd).await.map_err(|err| no_directory(&turn.cwd, &err))?;
        if !tokio::fs::metadata(&cwd).await.is_ok_and(|m| m.is_dir()) {
            return Err(no_directory(&turn.cwd, &std::io::ErrorKind::NotADirectory.into()));
        }
        let tools = Arc::new(ToolSet::own(config, &shelf.id));
        let desk =
            Desk { cwd, host: Arc::clone(&host), cancel: cancel.clone(), config: Arc::clone(config), shelf, tools };
        let fallbacks = config.fallbacks.clone();
        let mut turn = turn;
        spell_out(&desk, &mut turn.history).await;
        Ok(Self {
            model,
            host,
            cancel,
            desk,
            turn,
            system: None,
            fallbacks,
            reply: String::new(),
            usage: Usage::default(),
            turns: 0,
        })
    }

    async fn go(mut self) -> RunOutcome {
        let stopped = loop {
            if self.cancel.is_cancelled() {
                break Ok(Stop::Aborted);
            }
            if self.turns >= self.turn.max_turns {
                break Ok(Stop::MaxTurns);
            }
            if self.model.context().is_some_and(|limit| fit::is_nearly_full(&self.turn.history, limit)) {
                return RunOutcome::needs_compaction(self.usage, self.turns);
            }
            match self.round_trip().await {
                Ok(None) => {}
                Ok(Some(stop)) => break Ok(stop),
                Err(error) => break Err(error),
            }
        };
        let (stop, error) = match stopped {
            Ok(stop) => (stop, None),
            Err(error) => {
                let mut error = RunError::from(error);
                if error.code == ErrorCode::TooLarge {
                    // Whether it got on before the context was full.
                    error.retryable = self.turns > 1;
                }
                (Stop::Error, Some(error))
            }
        };
        RunOutcome { stop, reply: self.reply, usage: self.usage, turns: self.turns, error }
    }

    /// One turn: `None` when the run goes on.
    async fn round_trip(&mut self) -> Result<Option<Stop>, ModelError> {
        self.turns += 1;
        // Each turn anew: what is elsewhere comes, goes and changes. A model that is told of no tools needs none made ready.
        if self.model.prompted() {
            self.desk.tools = Arc::new(ToolSet::gather(&self.desk).await);
        }
        let model = self.turn.settings.model.clone();
        self.host.emit(AgentEvent::TurnStart { turn: self.turns, model }).await;
        let (reply, asked) = self.ask_until_answered().await;
        match asked {
            Asked::Ended(Ok(end)) => {
                let calls = reply.calls.clone();
                self.keep(reply, end.stop, end.usage).await;
                // A reply that was cut off may have cut its calls too: they are answered, not run.
                let runs = end.stop == Stop::Completed;
                let went_on = runs && !calls.is_empty();
                let results = call::run_all(&self.desk, calls, runs).await;
                self.turn.history.extend(results);
                Ok((!went_on).then_some(end.stop))
            }
            Asked::Ended(Err(error)) => {
                self.keep_what_was_said(reply, Stop::Error).await;
                Err(error)
            }
            Asked::Cancelled => {
                self.keep_what_was_said(reply, Stop::Aborted).await;
                Ok(Some(Stop::Aborted))
            }
        }
    }

    /// Asks, and asks again as long as that may help: the same model after a wait, then the fallbacks.
    async fn ask_until_answered(&mut self) -> (Reply, Asked) {
        if self.system.is_none() && self.model.prompted() {
            self.system = Some(
                prompt::system(&self.desk.cwd, self.desk.config.user_home.as_deref(), self.desk.hold().taught()).await,
            );
        }
        let mut again = Again::default();
        loop {
            self.host.emit(AgentEvent::LlmStart { model: self.turn.settings.model.clone() }).await;
            let mut collector = Collector::new(Arc::clone(&self.host));
            let asked = self.ask(&mut collector).await;
            let reply = collector.finish();
            let Asked::Ended(Err(error)) = &asked else { return (reply, asked) };
            let (wait, message) = match again.after(error, self.model.retries()) {
                Some(wait) => (wait, error.message.clone()),
                None => match self.fall_back(error) {
                    Some(message) => (std::time::Duration::ZERO, message),
                    None => return (reply, asked),
                },
            };
            let delay_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            self.host.emit(AgentEvent::LlmRetry { attempt: again.attempts(), delay_ms, message }).await;
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return (reply, Asked::Cancelled),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Goes on with the next model that there is, and says so. A request that no model could answer is not passed on.
    fn fall_back(&mut self, error: &ModelError) -> Option<String> {
        while error.retryable && !self.fallbacks.is_empty() {
            let next = self.fallbacks.remove(0);
            if next == self.turn.settings.model {
                continue;
            }
            match self.desk.config.models.find(&next) {
                Ok(model) => {
                    self.model = model;
                    let message = format!("{}; going on with {next}", error.message);
                    self.turn.settings.model = next;
                    return Some(message);
                }
                Err(why) => tracing::warn!("fallback {next}: {why}"),
            }
        }
        None
    }

    async fn ask(&self, out: &mut Collector) -> Asked {
        let request = ModelRequest {
            purpose: Purpose::Turn,
            system: self.system.as_deref().filter(|_| self.model.prompted()),
            history: &self.turn.history,
            effort: self.turn.settings.effort,
            tools: self.desk.tools.specs(),
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Asked::Cancelled,
            // A model that saw the cancel first ends its turn in its own way; the run was cancelled all the same.
            end = self.model.turn(request, out, &self.cancel) => {
                if self.cancel.is_cancelled() { Asked::Cancelled } else { Asked::Ended(end) }
            }
        }
    }

    /// The partial message of a turn that did not end, without its calls: nothing will answer them.
    async fn keep_what_was_said(&mut self, mut reply: Reply, stop: Stop) {
        let calls: Vec<_> = reply.calls.drain(..).map(|call| call.id).collect();
        reply.parts.retain(|part| !calls.iter().any(|id| collect::is_call(part, id)));
        if !reply.parts.is_empty() {
            self.keep(reply, stop, Usage::default()).await;
        }
    }

    /// The assistant's message goes into the history; then it is told.
    async fn keep(&mut self, reply: Reply, stop: Stop, usage: Usage) {
        let mut message = Message::of(reply.id, Role::Assistant, reply.parts, self.host.now_ms());
        message.model = Some(self.turn.settings.model.clone());
        message.usage = Some(usage);
        message.stop = Some(stop);
        self.usage += usage;
        self.reply = message.plain_text();
        self.turn.history.push(Arc::new(message.clone()));
        self.host.message(message.clone()).await;
        self.host.emit(AgentEvent::LlmEnd { message, usage, stop }).await;
        self.host.emit(AgentEvent::Usage(self.usage)).await;
    }
}

impl From<ModelError> for RunError {
    fn from(err: ModelError) -> Self {
        Self { code: err.code, message: err.message, retryable: err.retryable }
    }
}

/// Prompts that are the name of a command become its text, for the model only: the transcript has what was typed.
async fn spell_out(desk: &Desk, history: &mut Vec<Arc<Message>>) {
    if !history.iter().any(|message| is_command(message)) {
        return;
    }
    let (cwd, user) = (desk.cwd.clone(), desk.config.user_home.clone());
    let all = history.clone();
    let spelt = tokio::task::spawn_blocking(move || {
        let spell = |message: Arc<Message>| {
            if !is_command(&message) {
                return message;
            }
            match prompt::folders::command(&cwd, user.as_deref(), &message.plain_text()) {
                Some(text) => {
                    let mut spelt = (*message).clone();
                    spelt.parts.retain(|part| part.as_text().is_none());
                    spelt.parts.insert(0, Part::text(text));
                    Arc::new(spelt)
                }
                None => message,
            }
        };
        all.into_iter().map(spell).collect()
    });
    if let Ok(spelt) = spelt.await {
        *history = spelt;
    }
}

fn is_command(message: &Message) -> bool {
    message.role == Role::User && message.parts.iter().find_map(Part::as_text).is_some_and(|text| text.starts_with('/'))
}

fn find(config: &NativeConfig, model: &str) -> Result<Arc<dyn Model>, RunError> {
    config.models.find(model).map_err(|err| failed(ErrorCode::Invalid, &err, false))
}

fn no_directory(cwd: &Path, err: &std::io::Error) -> RunError {
    let text =
        format!("the session's directory {} cannot be used ({err}); make it again and prompt again", cwd.display());
    failed(ErrorCode::Invalid, &text, true)
}

fn failed(code: ErrorCode, message: &str, retryable: bool) -> RunError {
    RunError { code, message: message.to_owned(), retryable }
}

/// The one part of a tool's result.
fn text_parts(text: String) -> Vec<Part> {
    vec![Part::text(text)]
}

#[cfg(test)]
mod tests;
