//! The agent's own session behind one of ours: which one it is, whether it still says what our history says, and how it is set up.
//! Invariant: a session of the agent's is gone on with only if it ends where our history ends; after an undo, a rewind, a clear or a
//! fork, a new one is made and told the history. What is known is kept in a file a session, so that a restart can load it.

use crate::{
    peer::{Peer, Refusal, Said},
    process::Process,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};
use triplane_core::{agent::Settings, store::files};
use triplane_protocol::{MessageId, SessionId, ir::Mode};

/// A replay may go on after the reply that should end it; it is over when nothing came for so long.
const QUIET: Duration = Duration::from_millis(300);

/// How long making or loading a session may take.
const OPEN: Duration = Duration::from_secs(120);

/// What is known of the agent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Its id at the agent.
    pub(crate) session: String,
    /// The last message of ours that it has.
    pub(crate) upto: MessageId,
}

impl Saved {
    fn path(dir: &Path, id: &SessionId) -> PathBuf {
        dir.join(format!("{id}.json"))
    }

    /// What was kept of one of our sessions.
    pub(crate) fn read(dir: &Path, id: &SessionId) -> Option<Self> {
        let kept: Value = serde_json::from_slice(&std::fs::read(Self::path(dir, id)).ok()?).ok()?;
        let word = |name: &str| kept.get(name).and_then(Value::as_str);
        Some(Self { session: word("session")?.to_owned(), upto: word("upto")?.into() })
    }

    /// Keeps it. A failure costs a later load only, and is logged.
    pub(crate) async fn write(&self, dir: &Path, id: &SessionId) {
        let text = json!({"session": self.session, "upto": self.upto}).to_string();
        let (dir, path) = (dir.to_owned(), Self::path(dir, id));
        let write = move || files::private_dir(&dir).and_then(|()| files::write_atomic(&path, text.as_bytes()));
        if let Err(error) = tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(error.into())) {
            tracing::warn!(%error, session = %id, "what an agent calls this session could not be kept");
        }
    }
}

/// The agent's session, in a process that runs.
#[derive(Debug)]
pub(crate) struct Link {
    /// The process that has it.
    pub(crate) process: Arc<Process>,
    /// Its id there.
    pub(crate) session: String,
    /// What the agent said of its modes, models and options when it was opened.
    offers: Value,
    model: Option<String>,
    mode: Option<Mode>,
    effort: Option<String>,
}

impl Link {
    fn new(process: Arc<Process>, session: String, offers: Value) -> Self {
        Self { process, session, offers, model: None, mode: None, effort: None }
    }

    /// A new session. Errors: the agent's refusal.
    pub(crate) async fn create(process: Arc<Process>, cwd: &Path) -> Result<Self, Refusal> {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let offers = within(process.peer.call("session/new", params)).await?;
        let session = offers.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        let session = session.ok_or_else(|| Refusal::Error { code: 0, message: "it named no session".into() })?;
        Ok(Self::new(process, session, offers))
    }

    /// The session that was there, if the agent can go on with it: `None` if it cannot, or has it no more.
    pub(crate) async fn restore(process: Arc<Process>, cwd: &Path, session: &str) -> Option<Self> {
        let caps = "/agentCapabilities";
        let method = if process.can(&format!("{caps}/sessionCapabilities/resume")) {
            "session/resume"
        } else if process.can(&format!("{caps}/loadSession")) {
            "session/load"
        } else {
            return None;
        };
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let mut replay = process.peer.listen(session);
        let offers = {
            let mut call = std::pin::pin!(within(process.peer.call(method, params)));
            loop {
                tokio::select! {
                    offers = &mut call => break offers,
                    // Our history has it already.
                    said = replay.recv() => drop(said),
                }
            }
        };
        while let Ok(Some(_)) = timeout(QUIET, replay.recv()).await {}
        process.peer.leave(session);
        match offers {
            Ok(offers) => Some(Self::new(process, session.to_owned(), offers)),
            Err(refusal) => {
                tracing::info!("an agent could not load its session: {refusal}; it is told the history");
                None
            }
        }
    }

    /// Everything that is said of it from now on.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Said> {
        self.process.peer.listen(&self.session)
    }

    /// Sets it up as our session is. Errors: one line, when the agent does not have the model that was asked for.
    pub(crate) async fn set(&mut self, settings: &Settings, agent: &str) -> Result<(), String> {
        let wanted = settings.model.strip_prefix(agent).and_then(|model| model.strip_prefix('/'));
        let wanted = wanted.filter(|model| *model != "default").map(str::to_owned);
        if wanted != self.model
            && let Some(model) = &wanted
        {
            self.set_model(model).await?;
        }
        self.model = wanted;
        if self.mode != Some(settings.mode) {
            self.set_mode(settings.mode).await;
            self.mode = Some(settings.mode);
        }
        let effort = settings.effort.map(|effort| effort.as_str().to_owned());
        if effort != self.effort
            && let Some(effort) = &effort
            && let Some(option) = self.option("thought_level", effort)
        {
            self.set_option(&option, effort).await.map_err(|refusal| format!("effort: {refusal}"))?;
        }
        self.effort = effort;
        Ok(())
    }

    async fn set_model(&self, model: &str) -> Result<(), String> {
        let refused = |refusal: Refusal| format!("model: {refusal}");
        if let Some(option) = self.option("model", model) {
            return self.set_option(&option, model).await.map_err(refused);
        }
        let params = json!({"sessionId": self.session, "modelId": model});
        match self.peer().call("session/set_model", params).await {
            Err(Refusal::Error { code: -32601, .. }) => Err(format!("model: this agent has no `{model}`")),
            other => other.map(drop).map_err(refused),
        }
    }

    /// Only `plan` has a counterpart: what asks and what does not is decided here, by our own modes.
    async fn set_mode(&self, mode: Mode) {
        let modes = self.offers.pointer("/modes/availableModes").and_then(Value::as_array);
        let has = |id: &str| {
            modes.is_some_and(|modes| modes.iter().any(|mode| mode.get("id").and_then(Value::as_str) == Some(id)))
        };
        let usual = self.offers.pointer("/modes/currentModeId").and_then(Value::as_str);
        let id = match (mode, usual) {
            (Mode::Plan, _) if has("plan") => "plan",
            (Mode::Plan, _) | (_, None) => return,
            (Mode::Default | Mode::AcceptEdits | Mode::Bypass, Some(_)) if self.mode != Some(Mode::Plan) => return,
            (Mode::Default | Mode::AcceptEdits | Mode::Bypass, Some(usual)) => usual,
        };
        if let Err(refusal) =
            self.peer().call("session/set_mode", json!({"sessionId": self.session, "modeId": id})).await
        {
            tracing::info!("an agent did not take the mode `{id}`: {refusal}");
        }
    }

    /// The option of a category that offers a value.
    fn option(&self, category: &str, value: &str) -> Option<String> {
        let options = self.offers.get("configOptions").and_then(Value::as_array)?;
        let of = options.iter().find(|option| {
            let is = |name: &str| option.get(name).and_then(Value::as_str) == Some(category);
            (is("category") || is("id")) && offers(option.get("options"), value)
        })?;
        of.get("id").and_then(Value::as_str).map(str::to_owned)
    }

    async fn set_option(&self, option: &str, value: &str) -> Result<(), Refusal> {
        let params = json!({"sessionId": self.session, "configId": option, "value": value});
        self.peer().call("session/set_config_option", params).await.map(drop)
    }

    fn peer(&self) -> &Peer {
        &self.process.peer
    }

    /// Lets go of it, where the agent wants to be told.
    pub(crate) async fn close(&self) {
        if self.process.can("/agentCapabilities/sessionCapabilities/close") {
            let params = json!({"sessionId": self.session});
            let _ = timeout(QUIET, self.peer().call("session/close", params)).await;
        }
    }
}

/// Whether a list of values, or of groups of values, has this one.
fn offers(options: Option<&Value>, value: &str) -> bool {
    let Some(list) = options.and_then(Value::as_array) else { return false };
    list.iter().any(|one| one.get("value").and_then(Value::as_str) == Some(value) || offers(one.get("options"), value))
}

async fn within(call: impl Future<Output = Result<Value, Refusal>>) -> Result<Value, Refusal> {
    let late = || Refusal::Error { code: 0, message: format!("no answer within {} s", OPEN.as_secs()) };
    timeout(OPEN, call).await.unwrap_or_else(|_| Err(late()))
}
