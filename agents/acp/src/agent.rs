//! An ACP agent as the plane wants it: sessions that go live without a process, and runs that bring one up.
//! Invariants: one process of an agent and directory, shared by its sessions; a run that is cancelled ends within [`GRACE`] even if the
//! agent does not listen; a process that dies fails the runs in flight, and the next run starts another.

use crate::{
    asks::{self, Choice},
    known::find,
    link::{Link, Saved},
    peer::{Ask, Refusal, Said},
    process::{Launch, Process, Shared},
    prompt::{self, Takes},
    told::Telling,
};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use triplane_core::{
    PlaneError,
    agent::{Agent, Capabilities, Descriptor, LiveAgent, Open, RunError, RunOutcome, Settings, Turn},
    session::RunSink,
};
use triplane_protocol::{ErrorCode, Message, MessageId, SessionId, Stop, Usage, ir::Mode};

/// How long an agent may take to stop when it is told to; after that its process is ended.
pub const GRACE: Duration = Duration::from_secs(5);

/// What an agent still says of a run after its answer is waited for until nothing came for so long.
const LATE: Duration = Duration::from_millis(50);

/// And no longer than this.
const LATEST: Duration = Duration::from_millis(500);

/// How an agent is reached.
#[derive(Debug, Clone)]
pub struct AcpConfig {
    /// Short name, as in `--agent`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Added to the environment of the process.
    pub env: Vec<(String, String)>,
    /// What to install when the program is missing.
    pub install: Option<String>,
    /// `$PATH`, as far as programs are looked for in it.
    pub path: Option<OsString>,
    /// What stands before the program: a small process that ends all that the agent leaves behind. Empty: only the agent itself
    /// is ended.
    pub prefix: Vec<OsString>,
    /// Where is kept what the agent calls our sessions.
    pub state_dir: PathBuf,
    /// How long a process may be idle before it is ended; `None`: as long as a session of it is live.
    pub idle: Option<Duration>,
}

/// An agent that speaks ACP.
#[derive(Debug)]
pub struct AcpAgent {
    config: AcpConfig,
    /// Whether the program is there; looked for when that is first asked.
    installed: OnceLock<bool>,
    /// The process of each directory, as long as a session there is live.
    processes: Mutex<HashMap<PathBuf, Weak<Shared>>>,
}

impl AcpAgent {
    /// Starts nothing, and looks for nothing.
    pub fn new(config: AcpConfig) -> Self {
        Self { config, installed: OnceLock::new(), processes: Mutex::default() }
    }

    fn installed(&self) -> bool {
        let AcpConfig { command, path, .. } = &self.config;
        let there = || command.first().is_some_and(|program| find(program, path.as_deref()).is_some());
        *self.installed.get_or_init(there)
    }

    fn shared(&self, cwd: &Path) -> Arc<Shared> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = processes.get(cwd).and_then(Weak::upgrade) {
            return shared;
        }
        let AcpConfig { command, env, prefix, idle, .. } = &self.config;
        let launch = Launch { command: command.clone(), env: env.clone(), prefix: prefix.clone() };
        let shared = Arc::new(Shared::new(launch, cwd.to_owned(), *idle));
        processes.insert(cwd.to_owned(), Arc::downgrade(&shared));
        shared
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn descriptor(&self) -> Descriptor {
        let AcpConfig { id, name, .. } = &self.config;
        Descriptor {
            id: id.clone(),
            name: name.clone(),
            version: None,
            installed: self.installed(),
            can: Capabilities { prompt: self.installed(), ..Capabilities::default() },
            models: Vec::new(),
            modes: Mode::ALL.to_vec(),
        }
    }

    fn default_model(&self) -> String {
        format!("{}/default", self.config.id)
    }

    fn check_model(&self, model: &str) -> Result<(), String> {
        let id = &self.config.id;
        match model.strip_prefix(id.as_str()).and_then(|rest| rest.strip_prefix('/')) {
            Some(name) if !name.is_empty() => Ok(()),
            Some(_) | None => Err(format!("`{model}` is no model of the agent `{id}`; they begin with `{id}/`")),
        }
    }

    async fn open(&self, open: Open) -> Result<Box<dyn LiveAgent>, PlaneError> {
        if !self.installed() {
            let AcpConfig { name, command, install, .. } = &self.config;
            let program = command.first().map_or("", String::as_str);
            let how = install.as_deref().map(|how| format!("; install it with: {how}")).unwrap_or_default();
            return Err(PlaneError::Unavailable(format!("{name} is not there (no program `{program}`){how}")));
        }
        let saved = Saved::read(&self.config.state_dir, &open.id);
        Ok(Box::new(AcpLive {
            agent: self.config.id.clone(),
            state_dir: self.config.state_dir.clone(),
            id: open.id,
            shared: self.shared(&open.cwd),
            link: None,
            saved,
        }))
    }
}

/// One live session.
struct AcpLive {
    agent: String,
    state_dir: PathBuf,
    id: SessionId,
    shared: Arc<Shared>,
    link: Option<Link>,
    saved: Option<Saved>,
}

/// A run that could not even begin.
fn failed(code: ErrorCode, message: String) -> RunOutcome {
    let retryable = code == ErrorCode::Unavailable;
    RunOutcome { error: Some(RunError { code, message, retryable }), ..RunOutcome::of(Stop::Error) }
}

impl AcpLive {
    /// The agent's session for this history, and what it must be told first. Errors: one line, with its code.
    async fn link(
        &mut self,
        history: &[Arc<Message>],
        settings: &Settings,
        cwd: &Path,
    ) -> Result<Option<String>, (ErrorCode, String)> {
        let process = self.shared.get().await.map_err(|why| (ErrorCode::Unavailable, why))?;
        let before = history.last();
        let goes_on = |saved: &Saved| before.is_some_and(|last| last.id == saved.upto);
        let saved = self.saved.clone().filter(goes_on);
        let kept = self.link.take().filter(|link| Arc::ptr_eq(&link.process, &process));
        let kept = kept.filter(|link| saved.as_ref().is_some_and(|saved| saved.session == link.session));
        let restored = match (kept, &saved) {
            (Some(link), _) => Some(link),
            (None, Some(saved)) => Link::restore(process.clone(), cwd, &saved.session).await,
            (None, None) => None,
        };
        let (mut link, told) = match restored {
            Some(link) => (link, None),
            None => {
                let refused = |refusal: Refusal| self.refused(&process, &refusal);
                let link = Link::create(process.clone(), cwd).await.map_err(refused)?;
                (link, (!history.is_empty()).then(|| prompt::told(history)))
            }
        };
        link.set(settings, &self.agent).await.map_err(|why| (ErrorCode::InvalidParams, why))?;
        self.link = Some(link);
        Ok(told)
    }

    /// What a refusal means to a client.
    fn refused(&self, process: &Process, refusal: &Refusal) -> (ErrorCode, String) {
        match refusal {
            Refusal::Gone => {
                (ErrorCode::Unavailable, format!("the process of `{}` ended{}", self.agent, process.last_words()))
            }
            Refusal::Error { code: -32000, message } if message.to_lowercase().contains("auth") => (
                ErrorCode::Unauthorized,
                format!("`{}` wants you to log in: start it once by itself ({message})", self.agent),
            ),
            Refusal::Error { .. } => (ErrorCode::Internal, format!("`{}`: {refusal}", self.agent)),
        }
    }

    /// Keeps how far the agent's session is.
    async fn keep(&mut self, session: &str, upto: MessageId) {
        let saved = Saved { session: session.to_owned(), upto };
        saved.write(&self.state_dir, &self.id).await;
        self.saved = Some(saved);
    }
}

/// The permission requests and files that are being answered.
type Asks = FuturesUnordered<BoxFuture<'static, ()>>;

/// One run, on the agent's side of it.
struct Running<'a> {
    telling: Telling,
    sink: RunSink,
    settings: &'a Settings,
    cwd: &'a Path,
    asks: Asks,
}

impl Running<'_> {
    async fn hear(&mut self, said: Said) {
        match said {
            Said::Update(update) => self.telling.update(update).await,
            Said::Other { method, params } => self.telling.pass_on(&method, params).await,
            Said::Ask(ask) => self.asked(ask).await,
        }
    }

    async fn asked(&mut self, ask: Ask) {
        match ask.method.as_str() {
            "fs/read_text_file" => self.asks.push(asks::read(ask, self.cwd.to_owned()).boxed()),
            "fs/write_text_file" => {
                let write = asks::write(ask, self.cwd.to_owned(), self.sink.clone(), self.settings.mode);
                self.asks.push(write.boxed());
            }
            _ => match asks::permission(&mut self.telling, &ask, self.cwd).await {
                None => ask.refuse(-32602, "a permission request without a tool call or options").await,
                Some((wanted, choices)) => {
                    let sink = self.sink.clone();
                    let answer = async move {
                        let verdict = sink.ask(wanted).await;
                        ask.answer(asks::outcome(&verdict, &choices as &[Choice])).await;
                    };
                    self.asks.push(answer.boxed());
                }
            },
        }
    }

    /// Follows the run to the agent's answer. `None`: it did not stop when it was told to.
    async fn follow(
        &mut self,
        link: &Link,
        said: &mut mpsc::Receiver<Said>,
        blocks: Vec<Value>,
        cancel: &CancellationToken,
    ) -> Option<Result<Value, Refusal>> {
        let params = json!({"sessionId": link.session, "prompt": blocks});
        let mut answered = std::pin::pin!(link.process.peer.call("session/prompt", params));
        let mut by: Option<Instant> = None;
        loop {
            let late = sleep_until(by.unwrap_or_else(|| Instant::now() + GRACE));
            tokio::select! {
                biased;
                () = cancel.cancelled(), if by.is_none() => {
                    by = Some(Instant::now() + GRACE);
                    link.process.peer.tell("session/cancel", json!({"sessionId": link.session})).await;
                }
                // Before the answer, which came behind them.
                Some(said) = said.recv() => self.hear(said).await,
                Some(()) = self.asks.next(), if !self.asks.is_empty() => {}
                answer = &mut answered => return Some(answer),
                () = late, if by.is_some() => return None,
            }
        }
    }

    /// What comes after the answer still belongs to the run.
    async fn linger(&mut self, said: &mut mpsc::Receiver<Said>) {
        let until = Instant::now() + LATEST;
        while Instant::now() < until {
            match timeout(LATE, said.recv()).await {
                Ok(Some(said)) => self.hear(said).await,
                Ok(None) | Err(_) => break,
            }
        }
        // Whoever still asks is answered by the drop of its request's future: the run is over.
        self.asks.clear();
    }
}

#[async_trait]
impl LiveAgent for AcpLive {
    async fn run(&mut self, turn: Turn, sink: RunSink, cancel: CancellationToken) -> RunOutcome {
        let Some((prompt, before)) = turn.history.split_last() else {
            return failed(ErrorCode::Internal, "a run without a prompt".into());
        };
        let opened = tokio::select! {
            opened = self.link(before, &turn.settings, &turn.cwd) => opened,
            () = cancel.cancelled() => return RunOutcome::of(Stop::Aborted),
        };
        let told = match opened {
            Ok(told) => told,
            Err((code, message)) => return failed(code, message),
        };
        let Some(link) = self.link.take() else {
            return failed(ErrorCode::Internal, "no session of the agent's".into());
        };
        let caps = "/agentCapabilities/promptCapabilities";
        let takes = Takes {
            image: link.process.can(&format!("{caps}/image")),
            embedded: link.process.can(&format!("{caps}/embeddedContext")),
        };
        let told = told.map(|told| json!({"type": "text", "text": told}));
        let blocks = told.into_iter().chain(prompt::blocks(prompt, takes)).collect();
        let mut said = link.listen();
        let telling = Telling::new(sink.clone(), turn.settings.model.clone(), prompt.id.clone());
        let mut running =
            Running { telling, sink, settings: &turn.settings, cwd: &turn.cwd, asks: FuturesUnordered::new() };
        let answer = running.follow(&link, &mut said, blocks, &cancel).await;
        if matches!(answer, Some(Ok(_))) {
            running.linger(&mut said).await;
        }
        link.process.peer.leave(&link.session);
        let mut telling = running.telling;
        let (stop, usage, error) = match answer {
            Some(Ok(answer)) => (stop_of(&answer, cancel.is_cancelled()), usage_of(&answer), None),
            Some(Err(_)) if cancel.is_cancelled() => (Stop::Aborted, Usage::default(), None),
            Some(Err(refusal)) => {
                let (code, message) = self.refused(&link.process, &refusal);
                let retryable = code == ErrorCode::Unavailable;
                (Stop::Error, Usage::default(), Some(RunError { code, message, retryable }))
            }
            None => {
                tracing::warn!(agent = self.agent, "an agent did not stop when it was told to; its process is ended");
                self.shared.give_up(&link.process).await;
                (Stop::Aborted, Usage::default(), None)
            }
        };
        telling.finish(usage, stop).await;
        // What was broken off may lack its end at the agent; it is gone on with all the same, since the agent knows best.
        self.keep(&link.session, telling.last.clone()).await;
        self.link = Some(link);
        RunOutcome { stop, reply: telling.reply, usage, turns: telling.turns, error }
    }

    async fn summarize(&mut self, turn: Turn, cancel: CancellationToken) -> Result<(String, Usage), RunError> {
        let told = |(code, message): (ErrorCode, String)| RunError { code, message, retryable: true };
        let process = self.shared.get().await.map_err(|why| told((ErrorCode::Unavailable, why)))?;
        let refused = |refusal: Refusal| told(self.refused(&process, &refusal));
        let link = Link::create(process.clone(), &turn.cwd).await.map_err(refused)?;
        let ask = format!("{}\n{SUMMARY}", prompt::told(&turn.history));
        let params = json!({"sessionId": link.session, "prompt": [{"type": "text", "text": ask}]});
        let mut said = link.listen();
        let mut answered = std::pin::pin!(process.peer.call("session/prompt", params));
        let mut text = String::new();
        let answer = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    process.peer.tell("session/cancel", json!({"sessionId": link.session})).await;
                    break Err(Refusal::Error { code: 0, message: "cancelled".into() });
                }
                Some(said) = said.recv() => match said {
                    Said::Update(update) => text.push_str(&chunk(&update)),
                    // A summary needs no tool.
                    Said::Ask(ask) => ask.refuse(-32603, "only a summary is asked for").await,
                    Said::Other { .. } => {}
                },
                answer = &mut answered => break answer,
            }
        };
        process.peer.leave(&link.session);
        link.close().await;
        let answer = answer.map_err(refused)?;
        if text.trim().is_empty() {
            return Err(told((ErrorCode::Internal, format!("`{}` gave no summary", self.agent))));
        }
        Ok((text, usage_of(&answer)))
    }

    async fn close(&mut self) {
        if let Some(link) = self.link.take().filter(|link| !link.process.peer.is_over()) {
            link.close().await;
        }
    }
}

/// Asked for at the end of a history that is told.
const SUMMARY: &str = "Summarize the conversation so far for somebody who goes on with the work: what was asked, what was done, \
    what was decided, which files matter, what is left. Use no tool; answer with the summary alone.";

fn chunk(update: &Value) -> String {
    let is_text = update.get("sessionUpdate").and_then(Value::as_str) == Some("agent_message_chunk");
    let text = update.pointer("/content/text").and_then(Value::as_str);
    text.filter(|_| is_text).unwrap_or_default().to_owned()
}

/// Why the agent says that it stopped. Some say `end_turn` whatever happened.
fn stop_of(answer: &Value, cancelled: bool) -> Stop {
    match answer.get("stopReason").and_then(Value::as_str) {
        _ if cancelled => Stop::Aborted,
        Some("max_tokens") => Stop::MaxTokens,
        Some("max_turn_requests") => Stop::MaxTurns,
        Some("refusal") => Stop::Refused,
        // Some agents end a turn so when a permission was refused.
        Some("cancelled") => Stop::Aborted,
        Some(_) | None => Stop::Completed,
    }
}

fn usage_of(answer: &Value) -> Usage {
    let number =
        |name: &str| answer.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: number("inputTokens"),
        output: number("outputTokens"),
        cached: number("cachedReadTokens"),
        reasoning: number("thoughtTokens"),
        cost: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(command: &[&str]) -> AcpConfig {
        AcpConfig {
            id: "x".into(),
            name: "X".into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            install: Some("npm install x".into()),
            path: None,
            prefix: Vec::new(),
            state_dir: PathBuf::from("/nonexistent"),
            idle: None,
        }
    }

    #[tokio::test]
    async fn a_missing_program_is_told_with_what_to_install() {
        let agent = AcpAgent::new(config(&["no-such-program"]));
        assert!(!agent.descriptor().installed && !agent.descriptor().can.prompt);
        let settings = Settings { model: "x/default".into(), effort: None, mode: Mode::Default };
        let id = SessionId::parse("s").unwrap();
        let opened = agent.open(Open { id, cwd: "/".into(), settings }).await;
        let text = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("no-such-program") && text.contains("npm install x"), "{text}");
    }

    #[test]
    fn models_belong_to_their_agent() {
        let agent = AcpAgent::new(config(&["x"]));
        assert_eq!(agent.check_model("x/any-model/at-all"), Ok(()));
        for wrong in ["y/z", "x", "x/", "xy/z"] {
            assert!(agent.check_model(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stop_is_what_the_agent_says_unless_it_was_cancelled() {
        let stop = |reason: &str, cancelled| stop_of(&json!({ "stopReason": reason }), cancelled);
        assert_eq!(stop("end_turn", false), Stop::Completed);
        assert_eq!(stop("max_tokens", false), Stop::MaxTokens);
        assert_eq!(stop("refusal", false), Stop::Refused);
        assert_eq!(stop("end_turn", true), Stop::Aborted);
        assert_eq!(stop("what_is_this", false), Stop::Completed);
    }
}
