//! One driver over all its processes: started when it is needed, greeted, asked, given up, started again.
//! Invariants: at most one process at a time; one that died is replaced by the next call, never by itself; nobody waits for
//! longer than the limit of what was asked. Clause: S32.

use crate::{
    connection::{Connection, Unanswered},
    discover::Found,
    process,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use triplane_core::agent::StoreFailure;
use triplane_protocol::{
    ErrorCode,
    driver::{Call, Hello, Manifest, PROTOCOL, ShowManifest},
};

/// How long a driver may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From its start to its manifest.
    pub start: Duration,
    /// For one call, prompts aside: a run may rightly take an hour.
    pub call: Duration,
    /// For a run to end after its cancel; then the process is ended.
    pub cancel: Duration,
    /// For a sign of life after a call was given up; then the process is ended.
    pub alive: Duration,
    /// How long a driver that could not be started is left alone before it is only looked at again.
    pub again: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { start: s(10), call: s(30), cancel: s(4), alive: s(5), again: s(30) }
    }
}

/// How drivers are started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Where they work.
    pub cwd: PathBuf,
    /// What stands before the program: a shim and its arguments.
    pub prefix: Vec<OsString>,
    /// How long they may take.
    pub limits: Limits,
}

/// One driver.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) found: Found,
    pub(crate) launch: Launch,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    manifest: Option<Manifest>,
    failed: Option<Instant>,
}

impl Supervisor {
    pub(crate) fn new(found: Found, launch: Launch) -> Self {
        Self { found, launch, connection: tokio::sync::Mutex::default(), known: Mutex::default() }
    }

    /// What it said of itself, when it was asked.
    pub(crate) fn manifest(&self) -> Option<Manifest> {
        self.known().manifest.clone()
    }

    /// Whether it could not be started when that was last tried, so that nobody knows what it can do.
    pub(crate) fn failed(&self) -> bool {
        self.known().failed.is_some()
    }

    /// Asks what it can do, unless that is known, or could not be found out a moment ago.
    pub(crate) async fn learn(&self) {
        let skip = {
            let known = self.known();
            known.manifest.is_some() || known.failed.is_some_and(|at| at.elapsed() < self.launch.limits.again)
        };
        if skip {
            return;
        }
        if let Err(failure) = self.connection().await {
            tracing::warn!(driver = %self.found.path.display(), "{}: {}", failure.message, failure.cause.unwrap_or_default());
        }
    }

    /// The process that answers now; a new one when the last is gone. Errors: `Unavailable`.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, StoreFailure> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| connection.gone().is_none()) {
            return Ok(connection.clone());
        }
        *current = None;
        match self.start().await {
            Ok((connection, manifest)) => {
                *self.known() = Known { manifest: Some(manifest), failed: None };
                let connection = Arc::new(connection);
                *current = Some(connection.clone());
                Ok(connection)
            }
            Err(cause) => {
                self.known().failed = Some(Instant::now());
                Err(self.unavailable("cannot be started").because(cause))
            }
        }
    }

    /// The error is the cause, in one line.
    async fn start(&self) -> Result<(Connection, Manifest), String> {
        let path = &self.found.path;
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let (process, pipes) = process::start(path, &self.launch.prefix, &self.launch.cwd).await.map_err(told)?;
        let connection = Connection::new(process, pipes);
        let hello = serde_json::to_string(&Hello { protocol: PROTOCOL }).map_err(|error| error.to_string())?;
        let limit = self.launch.limits.start;
        let manifest: Manifest = match timeout(limit, connection.ask(ShowManifest::METHOD, &hello)).await {
            Err(_) => return Err(format!("no manifest within {limit:?}")),
            Ok(Err(Unanswered::Gone(how))) => return Err(how),
            Ok(Err(Unanswered::Refused(failure))) => {
                return Err(format!("it refused to say its manifest: {}", failure.message));
            }
            Ok(Ok(manifest)) => decode(&manifest).map_err(|why| format!("its manifest is wrong: {why}"))?,
        };
        if manifest.protocol != PROTOCOL {
            return Err(format!(
                "it speaks version {} of the protocol; this server speaks {PROTOCOL}",
                manifest.protocol
            ));
        }
        Ok((connection, manifest))
    }

    /// One call, within the limit of calls. Errors: `Unavailable` with its cause when the process is gone or hangs, and what
    /// the driver itself says.
    pub(crate) async fn call<C: Call>(&self, params: &C::Params) -> Result<C::Result, StoreFailure> {
        let connection = self.connection().await?;
        self.call_on::<C>(&connection, params).await
    }

    /// The same with a process that is known.
    pub(crate) async fn call_on<C: Call>(
        &self,
        connection: &Connection,
        params: &C::Params,
    ) -> Result<C::Result, StoreFailure> {
        let params = encode(params)?;
        let limit = self.launch.limits.call;
        match timeout(limit, connection.ask(C::METHOD, &params)).await {
            Ok(answer) => self.answer::<C>(answer),
            Err(_) => {
                self.look_alive(connection).await;
                let failure = self.unavailable(&format!("did not answer `{}`", C::METHOD));
                Err(failure.because(format!("no answer within {limit:?}")))
            }
        }
    }

    /// What an answer means.
    pub(crate) fn answer<C: Call>(&self, answer: Result<Box<RawValue>, Unanswered>) -> Result<C::Result, StoreFailure> {
        match answer {
            Ok(result) => decode(&result)
                .map_err(|why| self.unavailable(&format!("answered `{}` wrongly", C::METHOD)).because(why)),
            Err(Unanswered::Gone(how)) => {
                Err(self.unavailable(&format!("is gone before it answered `{}`", C::METHOD)).because(how))
            }
            Err(Unanswered::Refused(failure)) => {
                let name = &self.found.name;
                let text = if failure.message.is_empty() { failure.code.as_str() } else { &failure.message };
                let cause = failure.cause.unwrap_or_else(|| text.to_owned());
                Err(StoreFailure::new(failure.code, format!("driver `{name}`: {text}")).because(cause))
            }
        }
    }

    /// A driver that is only slow says its manifest; one that hangs is ended, so that the next call finds a new one.
    async fn look_alive(&self, connection: &Connection) {
        let Ok(hello) = encode(&Hello { protocol: PROTOCOL }) else { return };
        let limit = self.launch.limits.alive;
        if timeout(limit, connection.ask(ShowManifest::METHOD, &hello)).await.is_err() {
            connection.kill(&format!("it hung: no sign of life within {limit:?}, so it was ended"));
        }
    }

    /// A failure that names the driver.
    pub(crate) fn unavailable(&self, what: &str) -> StoreFailure {
        StoreFailure::new(ErrorCode::Unavailable, format!("driver `{}` {what}", self.found.name))
    }

    /// Ends the process, in order.
    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        match connection.map(Arc::try_unwrap) {
            None => {}
            Some(Ok(connection)) => connection.close().await,
            Some(Err(shared)) => shared.kill("the server is shutting down"),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// JSON for a line. Errors: a defect of ours.
pub(crate) fn encode(params: &impl serde::Serialize) -> Result<String, StoreFailure> {
    serde_json::to_string(params).map_err(|error| StoreFailure::new(ErrorCode::Internal, error.to_string()))
}

/// The error is one line that names the member.
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawValue) -> Result<T, String> {
    // A list would be taken for the members in their order.
    if !raw.get().trim_start().starts_with('{') {
        return Err("must be an object".into());
    }
    let mut json = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| format!("{}: {}", error.path(), error.inner()))
}
