//! What goes back: a body of known length or a stream, and the headers that every answer has.
//! Invariant: every failure has the one error shape. Clauses: C03, H27.

use crate::sse::EventStream;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use triplane_protocol::{
    ErrorCode, Failure,
    rest::{Answer, ErrorBody},
};

/// A response of this server.
pub(crate) type Reply = Response<ReplyBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Asks proxies not to collect a stream.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A body of known length, or a session's events.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// All of it, until it was taken.
    Whole(Option<Bytes>),
    /// A stream.
    Events(Box<EventStream>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.get_mut() {
            Self::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            Self::Events(stream) => std::task::ready!(stream.poll_bytes(cx)),
        };
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// An operation's answer.
pub(crate) fn answer(answer: Answer) -> Reply {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if answer.json { JSON } else { TEXT };
    whole(status, (!answer.body.is_empty()).then_some(kind), answer.body.into())
}

/// An open stream.
pub(crate) fn events(stream: EventStream) -> Reply {
    let mut response = build(StatusCode::OK, ReplyBody::Events(Box::new(stream)));
    response.headers_mut().insert(header::CONTENT_TYPE, EVENTS);
    response.headers_mut().insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// A status without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    whole(status, None, Bytes::new())
}

/// A failure in the one error shape. After one that leaves a body unread the connection cannot go on.
pub(crate) fn failure(failure: Failure) -> Reply {
    let code = failure.code;
    let status = StatusCode::from_u16(code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&ErrorBody { error: failure }).unwrap_or_default();
    let mut response = whole(status, Some(JSON), body.into());
    if code == ErrorCode::Unauthorized {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn whole(status: StatusCode, kind: Option<HeaderValue>, body: Bytes) -> Reply {
    let mut response = build(status, ReplyBody::Whole(Some(body)));
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

fn build(status: StatusCode, body: ReplyBody) -> Reply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    protect(response.headers_mut());
    response
}

/// What keeps an answer out of caches, out of other pages' hands, and what it is.
fn protect(headers: &mut HeaderMap) {
    headers.reserve(6);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}
