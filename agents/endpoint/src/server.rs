//! The listener: one task a connection, all of them ended and awaited by [`Running::stop`].
//! Invariant: bound to 127.0.0.1; a body is read whole, up to [`BODY_BYTES`], before anything is answered.

use crate::{
    answer::{Answer, Broken, Frame, Mind, answer},
    dialect::Dialect,
    record::{Ending, Record},
};
use bytes::Bytes;
use http_body::{Body, Frame as BodyFrame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_script::{Failure, words};

/// The longest request that is read: room for pictures.
const BODY_BYTES: usize = 32 << 20;
/// After an accept that failed (no file descriptors left), so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How soon a client may ask again after `/fail 429`, as `retry-after-ms` and, rounded up, as `retry-after`.
const RETRY_MS: &str = "20";

/// An endpoint that is bound and not yet served.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

/// An endpoint that is served.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    record: Record,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Endpoint {
    /// Binds `port` of 127.0.0.1; 0 takes a free one.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// `http://127.0.0.1:PORT`, without a slash behind it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves until it is stopped.
    pub fn start(self) -> Running {
        let (record, stop, tasks) = (Record::default(), CancellationToken::new(), TaskTracker::new());
        let shared = Shared { mind: Arc::default(), record: record.clone(), stop: stop.clone(), tasks: tasks.clone() };
        tasks.spawn(accept(self.listener, shared));
        Running { address: self.address, record, stop, tasks }
    }
}

impl Running {
    /// `http://127.0.0.1:PORT`, without a slash behind it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Breaks every reply off, and waits until all is gone.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug, Clone)]
struct Shared {
    mind: Arc<Mind>,
    record: Record,
    stop: CancellationToken,
    tasks: TaskTracker,
}

async fn accept(listener: TcpListener, shared: Shared) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let own = shared.clone();
                shared.tasks.spawn(connection(stream, own));
            }
            Err(error) => {
                tracing::warn!(%error, "accepting failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Shared) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stop = shared.stop.clone();
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(request, &shared).await) }
    });
    let serve = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = stop.cancelled() => {}
        // A client that goes away, or a script that breaks off, is no failure of ours.
        _ = serve => {}
    }
}

async fn respond(request: Request<Incoming>, shared: &Shared) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().trim_end_matches('/').to_owned();
    if head.method == Method::GET {
        return listed(&path, &shared.record);
    }
    if head.method != Method::POST {
        return json_reply(StatusCode::METHOD_NOT_ALLOWED, &no_such(&path));
    }
    let body = match Limited::new(body, BODY_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let text = format!("the body was not read: {error}");
            return json_reply(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "error": { "message": text } }));
        }
    };
    let Ok(body @ Value::Object(_)) = serde_json::from_slice::<Value>(&body) else {
        let error = json!({ "error": { "message": "the body is not a JSON object" } });
        return json_reply(StatusCode::BAD_REQUEST, &error);
    };
    match Dialect::at(&path) {
        Some(dialect) => converse(dialect, &path, body, shared).await,
        None => counted(&path, &body),
    }
}

async fn converse(dialect: Dialect, path: &str, body: Value, shared: &Shared) -> Response<Reply> {
    let asked = dialect.read(path, &body);
    let open = shared.record.begin(path, body);
    match answer(&shared.mind, dialect, asked).await {
        Answer::Status(failure) => {
            open.end(Ending::Failed);
            refused(dialect, failure)
        }
        Answer::Whole(whole) => {
            open.end(Ending::Complete);
            json_reply(StatusCode::OK, &whole)
        }
        Answer::Break => {
            open.end(Ending::Broken);
            let mut response = Response::new(Reply::Broken);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Answer::Stream(frames, streamed) => {
            shared.tasks.spawn(streamed.run(open));
            let mut response = Response::new(Reply::Frames(frames));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(dialect.media()));
            response
        }
    }
}

fn refused(dialect: Dialect, failure: Failure) -> Response<Reply> {
    let status = StatusCode::from_u16(failure.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let message = format!("the model failed as its script says: {}", failure.word());
    let mut response = json_reply(status, &dialect.error(failure.http(), &message));
    if failure == Failure::Overloaded {
        for (name, value) in [("retry-after", "1"), ("retry-after-ms", RETRY_MS)] {
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    response
}

fn no_such(path: &str) -> Value {
    json!({ "error": { "message": format!("no such path: {path}"), "type": "not_found_error" } })
}

/// What clients ask for beside a conversation.
fn counted(path: &str, body: &Value) -> Response<Reply> {
    let tokens = || words(&body.to_string()).max(1);
    let answer = match path {
        path if path.ends_with("/count_tokens") => json!({ "input_tokens": tokens() }),
        path if path.ends_with(":countTokens") => json!({ "totalTokens": tokens() }),
        "/api/show" => json!({
            "capabilities": ["completion", "tools", "thinking"], "details": { "family": "script" },
            "model_info": { "general.architecture": "script", "script.context_length": 100_000 },
        }),
        _ => return json_reply(StatusCode::NOT_FOUND, &no_such(path)),
    };
    json_reply(StatusCode::OK, &answer)
}

fn listed(path: &str, record: &Record) -> Response<Reply> {
    let answer = match path {
        "/requests" => record.to_json(),
        // One list that OpenAI's and Anthropic's clients can both read.
        "/v1/models" | "/models" => json!({
            "object": "list", "has_more": false, "first_id": "echo", "last_id": "echo",
            "data": [{ "id": "echo", "object": "model", "type": "model", "display_name": "echo", "owned_by": "script" }],
        }),
        "/v1beta/models" => json!({ "models": [{
            "name": "models/echo", "displayName": "echo", "inputTokenLimit": 100_000, "outputTokenLimit": 8_192,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }] }),
        "/api/tags" => json!({ "models": [{ "name": "echo", "model": "echo", "size": 1, "digest": "0" }] }),
        "/api/version" => json!({ "version": "0.9.0" }),
        "" => json!({ "script": true }),
        _ => return json_reply(StatusCode::NOT_FOUND, &no_such(path)),
    };
    json_reply(StatusCode::OK, &answer)
}

fn json_reply(status: StatusCode, value: &Value) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Some(Bytes::from(value.to_string()))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What is sent back.
#[derive(Debug)]
enum Reply {
    Whole(Option<Bytes>),
    Frames(mpsc::Receiver<Frame>),
    Broken,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<BodyFrame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(BodyFrame::data(bytes)))),
            Self::Frames(frames) => match frames.poll_recv(cx) {
                Poll::Ready(Some(Err(Broken))) => {
                    // One round later: what stands before the break is then on its way.
                    *self = Self::Broken;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                other => other.map(|frame| frame.map(|frame| frame.map(BodyFrame::data))),
            },
            Self::Broken => Poll::Ready(Some(Err(Broken))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Frames(_) | Self::Broken => SizeHint::default(),
        }
    }
}
