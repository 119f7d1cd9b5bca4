//! One server: started, connected, listed; its calls; its end.
//! Invariants: a call ends by its answer, its time limit, its cancel or the server's death, and always with a text; what a server
//! sends is bounded before it is read whole.

use super::{
    client::{Caller, Handler, Route, Routes},
    config::{McpServer, Reach, expand},
    result::McpAnswer,
    tool::{self, Listed, McpTool},
};
use crate::{
    keeper::Kept,
    proc::piped::{self, Inherit, Launch, Piped},
};
use async_trait::async_trait;
use rmcp::{
    Peer, RoleClient, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, PaginatedRequestParams, ProgressNotificationParam,
        ServerResult,
    },
    service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError},
    transport::{
        IntoTransport, StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout},
};
use triplane_protocol::AgentEvent;

/// The longest message, in bytes; over both transports.
const MESSAGE_BYTES: usize = 16 << 20;

/// Pages of a list at most; a server may go on giving pages for ever.
const PAGES: usize = 32;

/// How long a list may take when it changed.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server that let a call run out of time has to answer a ping before it is started anew.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Progress that waits for its caller; what comes meanwhile is dropped, the next one tells more.
const PROGRESS_QUEUE: usize = 16;

/// Progress events of one call at most, and the least time between two.
const PROGRESS_EVENTS: usize = 500;
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(30);

/// A server, as it is kept.
pub(super) struct Server {
    pub(super) config: McpServer,
    pub(super) shim: Option<PathBuf>,
    /// What it listed last; stays while it is down, so that a call can start it again.
    tools: Mutex<Option<Arc<Vec<McpTool>>>>,
}

/// A connection.
pub(super) struct Connected {
    peer: Peer<RoleClient>,
    routes: Arc<Routes>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    process: tokio::sync::Mutex<Option<Piped>>,
    /// Why it was given up from here.
    given_up: Mutex<Option<String>>,
    give_up: Notify,
}

impl Server {
    pub(super) fn new(config: McpServer, shim: Option<PathBuf>) -> Self {
        Self { config, shim, tools: Mutex::default() }
    }

    /// The tools that it listed last.
    pub(super) fn tools(&self) -> Option<Arc<Vec<McpTool>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn stdio(&self, handler: Handler) -> Result<(RunningService<RoleClient, Handler>, Option<Piped>), String> {
        let launch = launch(&self.config.reach)?;
        let failed = |err: std::io::Error| format!("{} cannot be started: {err}", launch.program.display());
        let (mut process, pipes) = piped::start(&launch, self.shim.as_deref()).await.map_err(failed)?;
        let reader = super::capped::Capped::new(pipes.stdout, MESSAGE_BYTES);
        let transport = AsyncRwTransport::new_client(reader, pipes.stdin).with_max_line_length(usize::MAX);
        match handler.serve(transport).await {
            Ok(service) => Ok((service, Some(process))),
            Err(err) => Err(format!("{}: {}", told(&err), process.epitaph().await)),
        }
    }

    async fn http(&self, handler: Handler) -> Result<(RunningService<RoleClient, Handler>, Option<Piped>), String> {
        let Reach::Http { url, headers } = &self.config.reach else { return Err("it has no address".to_owned()) };
        let (url, headers) = (expand(url, &variable)?, headers.clone());
        // Reads files, for TLS: the system's roots.
        let made = tokio::task::spawn_blocking(move || http_transport(&url, &headers));
        let transport = made.await.unwrap_or_else(|err| Err(err.to_string()))?;
        let service = connect(handler, transport).await?;
        Ok((service, None))
    }

    async fn list(&self, peer: &Peer<RoleClient>) -> Result<(), String> {
        let has_tools = peer.peer_info().is_none_or(|info| info.capabilities.tools.is_some());
        let mut listed = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            if !has_tools || listed.len() > tool::TOOLS {
                break;
            }
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = peer.list_tools(Some(params)).await.map_err(|err| format!("its tools: {}", told(&err)))?;
            listed.extend(page.tools.into_iter().map(|tool| Listed {
                name: tool.name.into_owned(),
                description: tool.description.map_or_else(String::new, |text| text.into_owned()),
                schema: tool.input_schema,
            }));
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        let (tools, left_out) = tool::fit(&self.config.name, listed);
        for line in left_out {
            tracing::warn!("{}: left out: {line}", self.name());
        }
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tools));
        Ok(())
    }

    /// Calls a tool by the server's own name for it.
    pub(super) async fn call(
        &self,
        live: &Connected,
        own: &str,
        input: Map<String, Value>,
        caller: Caller,
    ) -> McpAnswer {
        let request = CallToolRequest::new(CallToolRequestParams::new(own.to_owned()).with_arguments(input));
        let sent = live
            .peer
            .send_cancellable_request(ClientRequest::CallToolRequest(request), PeerRequestOptions::no_options())
            .await;
        let failed = |text: String| McpAnswer { text, images: Vec::new(), error: true };
        let handle = match sent {
            Ok(handle) => handle,
            Err(err) => return failed(self.broken(live, &err).await),
        };
        match self.await_answer(live, handle, caller).await {
            Ok(ServerResult::CallToolResult(result)) => McpAnswer::of(result),
            Ok(_) => failed(format!("{} answered with something that is no result of a tool", self.name())),
            Err(text) => failed(text),
        }
    }

    async fn await_answer(
        &self,
        live: &Connected,
        mut handle: RequestHandle<RoleClient>,
        caller: Caller,
    ) -> Result<ServerResult, String> {
        let (progress, mut comes) = mpsc::channel(PROGRESS_QUEUE);
        let asking = Arc::new(AtomicUsize::new(0));
        let _entered = live.routes.enter(Route {
            id: handle.id.clone(),
            token: handle.progress_token.clone(),
            caller: caller.clone(),
            progress,
            asking: Arc::clone(&asking),
        });
        let mut shown = Shown::default();
        let end = Instant::now() + self.config.max_call;
        let mut idle = Instant::now() + self.config.call_timeout;
        loop {
            tokio::select! {
                biased;
                () = caller.cancel.cancelled() => {
                    // Told, and not waited for: the run ends now.
                    let _ = timeout(Duration::from_millis(500), handle.cancel(Some("the run was cancelled".to_owned()))).await;
                    return Err(crate::tools::CANCELLED.to_owned());
                }
                answer = &mut handle.rx => {
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return match answer {
                        Ok(result) => Ok(result),
                        Err(err) => Err(self.broken(live, &err).await),
                    };
                }
                Some(step) = comes.recv() => {
                    idle = Instant::now() + self.config.call_timeout;
                    if let Some(text) = shown.line(&step) {
                        let call_id = caller.call.clone();
                        caller.host.emit(AgentEvent::ToolCallOutput { call_id, text }).await;
                    }
                }
                () = tokio::time::sleep_until(idle.min(end)) => {
                    if asking.load(Ordering::SeqCst) > 0 {
                        idle = Instant::now() + self.config.call_timeout;
                        if Instant::now() < end { continue }
                    }
                    return Err(self.out_of_time(live, handle).await);
                }
            }
        }
    }

    /// Gives the call up; and the server too, if it is not even alive.
    async fn out_of_time(&self, live: &Connected, handle: RequestHandle<RoleClient>) -> String {
        let cancel = handle.cancel(Some("it took too long".to_owned()));
        let ping = async {
            let _ = cancel.await;
            live.peer.send_request(ClientRequest::PingRequest(Default::default())).await
        };
        let limit = self.config.call_timeout.min(self.config.max_call);
        let mut text = format!("{} did not answer within {} s", self.name(), limit.as_secs_f32());
        // An error is an answer too.
        if timeout(PING_TIMEOUT, ping).await.is_err() {
            live.give_up("it hangs");
            text.push_str(", nor a ping; it is started again when it is next needed");
        }
        text
    }

    async fn broken(&self, live: &Connected, err: &ServiceError) -> String {
        match err {
            ServiceError::McpError(error) => format!("{}: {}", self.name(), tool::bounded(&error.message, 2000)),
            ServiceError::TransportClosed => {
                let how = live.epitaph().await;
                format!("{} went away during the call: {how}; it is started again when it is next needed", self.name())
            }
            err => {
                let why = told(err);
                // Over HTTP a lost server is seen here only.
                if matches!(err, ServiceError::TransportSend(_)) {
                    live.give_up(&why);
                }
                format!("{}: {why}", self.name())
            }
        }
    }
}

impl Connected {
    fn give_up(&self, why: &str) {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        self.give_up.notify_one();
    }

    async fn epitaph(&self) -> String {
        let given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (given_up, self.process.lock().await.as_mut()) {
            (Some(why), _) => why,
            (None, Some(process)) => process.epitaph().await,
            (None, None) => "the connection was closed".to_owned(),
        }
    }

    fn take_service(&self) -> Option<RunningService<RoleClient, Handler>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl Kept for Server {
    type Live = Connected;

    fn name(&self) -> String {
        format!("MCP server `{}`", self.config.name)
    }

    fn start_timeout(&self) -> Duration {
        self.config.start_timeout
    }

    fn idle(&self) -> Option<Duration> {
        None
    }

    async fn start(&self) -> Result<Connected, String> {
        let routes: Arc<Routes> = Arc::default();
        let handler = Handler { server: self.config.name.clone(), routes: Arc::clone(&routes) };
        let (service, mut process) = match &self.config.reach {
            Reach::Stdio { .. } => self.stdio(handler).await?,
            Reach::Http { .. } => self.http(handler).await?,
        };
        let peer = service.peer().clone();
        if let Err(why) = self.list(&peer).await {
            return Err(match &mut process {
                Some(process) if peer.is_transport_closed() => format!("{why}: {}", process.epitaph().await),
                Some(_) | None => why,
            });
        }
        Ok(Connected {
            peer,
            routes,
            service: Mutex::new(Some(service)),
            process: tokio::sync::Mutex::new(process),
            given_up: Mutex::default(),
            give_up: Notify::new(),
        })
    }

    fn is_over(&self, live: &Connected) -> bool {
        live.peer.is_transport_closed()
    }

    async fn over(&self, live: &Connected) -> String {
        let Some(service) = live.take_service() else { return "it was stopped".to_owned() };
        let waiting = service.waiting();
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                _ = &mut waiting => break,
                () = live.give_up.notified() => break,
                () = live.routes.changed.notified() => {
                    match timeout(LIST_TIMEOUT, self.list(&live.peer)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(why)) => tracing::warn!("{}: {why}", self.name()),
                        Err(_) => tracing::warn!("{}: its changed tools did not come", self.name()),
                    }
                }
            }
        }
        live.epitaph().await
    }

    /// Dropping the service closes the transport; dropping the process waits for its end elsewhere.
    async fn stop(&self, live: &Connected) {
        drop(live.take_service());
        drop(live.process.lock().await.take());
    }
}

/// What a person sees of progress.
#[derive(Default)]
struct Shown {
    events: usize,
    last: Option<Instant>,
}

impl Shown {
    /// A line, unless there were too many or one just now.
    fn line(&mut self, step: &ProgressNotificationParam) -> Option<String> {
        let now = Instant::now();
        if self.events >= PROGRESS_EVENTS || self.last.is_some_and(|last| now < last + PROGRESS_PAUSE) {
            return None;
        }
        (self.events, self.last) = (self.events + 1, Some(now));
        let of = step.total.map(|total| format!("/{total}")).unwrap_or_default();
        let message = tool::bounded(step.message.as_deref().unwrap_or_default(), 500).replace('\n', " ");
        Some(format!("[{}{of}] {message}\n", step.progress))
    }
}

async fn connect<T, E, A>(handler: Handler, transport: T) -> Result<RunningService<RoleClient, Handler>, String>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    handler.serve(transport).await.map_err(|err| told(&err))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn launch(reach: &Reach) -> Result<Launch, String> {
    let Reach::Stdio { command, args, env, cwd } = reach else { return Err("it is no program".to_owned()) };
    let expanded = |text: &String| expand(text, &variable);
    let args = args.iter().map(|arg| expanded(arg).map(Into::into)).collect::<Result<_, _>>()?;
    let env = env.iter().map(|(name, value)| Ok((name.clone(), expanded(value)?)));
    let env = env.collect::<Result<Vec<_>, String>>()?;
    if let Some((name, _)) = env.iter().find(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(format!("env: `{}` is no name of a variable", super::config::shown(name)));
    }
    let program = PathBuf::from(expanded(command)?);
    // A path of several parts begins at the server's directory, not at ours.
    let program = if program.components().count() > 1 { cwd.join(program) } else { program };
    Ok(Launch { program, args, cwd: cwd.clone(), inherits: Inherit::Basics, env })
}

fn http_transport(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let address: reqwest::Url = url.parse().map_err(|err| format!("url: {err}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err("url: must begin with http:// or https://".to_owned());
    }
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let wrong = || format!("headers: `{}` cannot be sent", super::config::shown(name));
        let key = reqwest::header::HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = reqwest::header::HeaderValue::from_str(&expand(value, &variable)?).map_err(|_| wrong())?;
        value.set_sensitive(true);
        custom.insert(key, value);
    }
    // An error means that there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        // It would carry the headers elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("triplane/", env!("CARGO_PKG_VERSION")));
    if address.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|err| format!("no TLS here: {err}"))?;
    let config = StreamableHttpClientTransportConfig::with_uri(address.as_str())
        .custom_headers(custom)
        .max_sse_event_size(MESSAGE_BYTES)
        .max_json_response_size(MESSAGE_BYTES);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// An error with what is behind it, on one bounded line.
fn told(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        let more = err.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = err.source();
    }
    tool::bounded(&text, 500).replace(['\n', '\t'], " ")
}
