//! What happens to one request, in order: Host, Origin, preflight, token, path, method, body, decoding, handler, encoding.
//! Invariant: nothing is read, loaded or changed before the token was right. Clauses: C06, H02, H27, H28.

use crate::{
    access,
    config::{HttpConfig, HttpLimits},
    handlers::Larik,
    listener::ServeError,
    read, reply,
    reply::Reply,
    router::{Found, Router},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, StatusCode, header, request::Parts};
use hyper::body::{Body, Incoming};
use std::{
    convert::Infallible,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::{
    guard::{AllowedOrigin, Guard},
    token::Token,
};
use triplane_core::Plane;
use triplane_protocol::{
    ErrorCode, Failure,
    larik::{self, Op},
    rest::{Dispatched, Kind, Pair, Raw, RestRow, Verb},
};

/// What all connections share.
pub(crate) struct Server {
    guard: Guard,
    token: Token,
    router: Router,
    larik: Larik,
    tracker: TaskTracker,
    pub(crate) limits: HttpLimits,
}

/// A request as its handler is given it; owned, so that it can outlive its connection.
struct Owned {
    path: Vec<Pair<'static>>,
    query: Vec<Pair<'static>>,
    headers: Vec<Pair<'static>>,
    body: Bytes,
}

type Outcome = Result<Reply, Failure>;

impl Server {
    /// Errors: a defect of the wire's table.
    pub(crate) fn new(
        plane: Plane,
        config: &HttpConfig,
        tracker: TaskTracker,
        ending: CancellationToken,
    ) -> Result<Self, ServeError> {
        Ok(Self {
            guard: Guard { allow_remote: config.allow_remote, allow_origins: config.allow_origins.clone() },
            token: config.token.clone(),
            router: Router::new().map_err(|err| ServeError::Table(err.to_string()))?,
            larik: Larik::new(plane, config, tracker.clone(), ending),
            tracker,
            limits: config.limits.clone(),
        })
    }

    /// Answers a request; never fails.
    async fn answer(self: Arc<Self>, request: Request<Incoming>, unread: &Unread) -> Reply {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut left = !body.is_end_stream();
        let found = self.router.find(parts.uri.path());
        let op = found.as_ref().and_then(|found| found.resource.op(&parts.method));
        let row = op.map(Op::row);
        let mut reply = match self.guard.check(&parts.headers, &parts.uri) {
            Err(refused) => reply::failure(refused.into()),
            Ok(origin) => {
                let outcome = match self.admit(&parts, origin.as_ref(), found, row) {
                    Ok(Admitted::Now(reply)) => Ok(reply),
                    Ok(Admitted::Run(op, path)) => self.clone().run(op, path, &parts, body, &mut left).await,
                    Err(failure) => Err(failure),
                };
                let mut reply = outcome.unwrap_or_else(reply::failure);
                if let Some(origin) = &origin {
                    access::grant(origin, reply.headers_mut());
                }
                reply
            }
        };
        if left {
            // What follows on the connection is the rest of a body that nobody read.
            unread.set();
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.larik.requests.count(op, reply.status());
        log(&parts.method, row, &reply, started);
        reply
    }

    /// Everything that can be said without reading the body.
    fn admit(
        &self,
        parts: &Parts,
        origin: Option<&AllowedOrigin>,
        found: Option<Found<'_, '_>>,
        row: Option<&RestRow>,
    ) -> Result<Admitted, Failure> {
        let Parts { method, uri, headers, .. } = parts;
        let no_path = || Failure::new(ErrorCode::NotFound, "no such path; GET /v1/openapi.json lists them");
        if access::is_preflight(method, origin, headers) {
            let mut reply = reply::empty(StatusCode::NO_CONTENT);
            access::grant_preflight(found.ok_or_else(no_path)?.resource.allow(), reply.headers_mut());
            return Ok(Admitted::Now(reply));
        }
        if !access::authorized(&self.token, row.map(|row| row.kind), headers, uri.query()) {
            return Err(Failure::new(ErrorCode::Unauthorized, "send the token as `Authorization: Bearer <token>`"));
        }
        if method == Method::OPTIONS && uri.path() == "*" {
            return Ok(Admitted::Now(options(HeaderValue::from_static("GET, HEAD, POST, PATCH, DELETE, OPTIONS"))));
        }
        let found = found.ok_or_else(no_path)?;
        if let Some(op) = found.resource.op(method) {
            let path = found.params().ok_or_else(|| Failure::new(ErrorCode::NotFound, "the path is not UTF-8"))?;
            return Ok(Admitted::Run(op, path));
        }
        let allow = found.resource.allow();
        if method == Method::OPTIONS {
            return Ok(Admitted::Now(options(allow)));
        }
        let told = allow.to_str().unwrap_or_default();
        let mut reply =
            reply::failure(Failure::new(ErrorCode::MethodNotAllowed, format!("this path takes {told} only")));
        reply.headers_mut().insert(header::ALLOW, allow);
        Ok(Admitted::Now(reply))
    }

    /// Reads what the row reads, and runs it.
    async fn run(
        self: Arc<Self>,
        op: Op,
        path: Vec<Pair<'static>>,
        parts: &Parts,
        body: Incoming,
        left: &mut bool,
    ) -> Outcome {
        let row = op.row();
        let query = read::query(parts.uri.query())?;
        let headers = if row.kind == Kind::Stream { read::headers(&parts.headers) } else { Vec::new() };
        let body = if row.body.is_some() {
            let bytes = read::body(&parts.headers, body, &self.limits).await?;
            *left = false;
            bytes
        } else {
            Bytes::new()
        };
        let owned = Owned { path, query, headers, body };
        if row.verb == Verb::Get || op == Op::Prompt {
            // Dropped with the connection: reads change nothing, and a prompt's run is its session's.
            return self.dispatch(op, owned).await;
        }
        // A change is carried to its end, whether or not its client waits for it.
        let task = self.tracker.spawn(self.clone().dispatch(op, owned));
        task.await.unwrap_or_else(|_| Err(Failure::new(ErrorCode::Internal, "the request was given up")))
    }

    /// Decodes, handles, encodes; a panic fails this one request.
    async fn dispatch(self: Arc<Self>, op: Op, owned: Owned) -> Outcome {
        let raw = Raw { path: &owned.path, query: &owned.query, headers: &owned.headers, body: &owned.body };
        let work = AssertUnwindSafe(larik::dispatch(&self.larik, op, &raw)).catch_unwind();
        match work.await {
            Ok(Ok(Dispatched::Answer(answer))) => Ok(reply::answer(answer)),
            Ok(Ok(Dispatched::Stream(stream))) => Ok(reply::events(stream)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => {
                tracing::error!(route = op.row().name, "a handler panicked");
                Err(Failure::new(ErrorCode::Internal, "the request failed; the server's log has the cause"))
            }
        }
    }
}

/// What is known of a request before its body is read.
enum Admitted {
    /// Answered already.
    Now(Reply),
    /// To be run.
    Run(Op, Vec<Pair<'static>>),
}

fn options(allow: HeaderValue) -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    reply.headers_mut().insert(header::ALLOW, allow);
    reply
}

/// The access log: the row, never the path's text, the query or a header. Failures of ours are loud, the rest is not, so that
/// a client that loops fills no disk.
fn log(method: &Method, row: Option<&RestRow>, reply: &Reply, started: Instant) {
    let (route, status) = (row.map_or("-", |row| row.path), reply.status().as_u16());
    let ms = started.elapsed().as_millis();
    if reply.status().is_server_error() && status != 501 {
        tracing::warn!(%method, route, status, ms, "request");
    } else {
        tracing::debug!(%method, route, status, ms, "request");
    }
}

/// Whether a connection's client was answered in the middle of its body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Unread {
    /// Whether it was.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One connection's side of the server.
pub(crate) struct Connection {
    server: Arc<Server>,
    unread: Unread,
}

impl Connection {
    /// A connection that has sent nothing yet.
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server, unread: Unread::default() }
    }

    /// Tells, once it is over, whether its client was still sending.
    pub(crate) fn unread(&self) -> Unread {
        self.unread.clone()
    }
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Reply;
    type Error = Infallible;
    /// Boxed, so that a stream's connection does not keep a finished request's room.
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (server, unread) = (self.server.clone(), self.unread.clone());
        Box::pin(async move { Ok(server.answer(request, &unread).await) })
    }
}
