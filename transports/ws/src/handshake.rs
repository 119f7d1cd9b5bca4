//! The upgrade's verdict: Host, Origin, token, and only then whether it is a valid upgrade. Nothing is done before it.
//! Pure over the request's head; answers in the shape of C03. Clauses: C03, C06, L22.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use serde::Serialize;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use triplane_common::{
    guard::Guard,
    token::{Token, bearer, query_tokens},
};
use triplane_protocol::{ErrorCode, Failure};

/// Headers that carry the token itself; clients that must not put it in a URL use one of them.
const TOKEN_HEADERS: [&str; 2] = ["x-lich-token", "x-triplane-token"];
/// The one version of RFC 6455.
const WS_VERSION: &str = "13";
/// Base64 of 16 bytes.
const KEY_BYTES: usize = 24;

/// Who may come in, and with what.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) guard: Guard,
    pub(crate) token: Token,
}

impl Gate {
    /// Judges a request. Returns the value of `Sec-WebSocket-Accept`, or the answer that turns it away.
    pub(crate) fn judge<B>(&self, request: &Request<B>) -> Result<String, Box<Response<Full<Bytes>>>> {
        let headers = request.headers();
        self.guard.check(headers, request.uri()).map_err(|err| refuse(&err.into(), &[]))?;
        if !self.shows_token(headers, request.uri().query()) {
            let failure = Failure::new(
                ErrorCode::Unauthorized,
                "the token is missing or wrong; send it as ?token=, x-lich-token or Authorization: Bearer",
            );
            return Err(refuse(&failure, &[(header::WWW_AUTHENTICATE, "Bearer")]));
        }
        check_upgrade(request)
    }

    /// Every token that is shown must be right, and one must be shown.
    fn shows_token(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let named = TOKEN_HEADERS.iter().flat_map(|name| headers.get_all(*name)).map(HeaderValue::as_bytes);
        let shown = named.chain(bearer(headers)).map(|token| self.token.matches(token));
        let shown: Vec<bool> = shown.chain(query_tokens(query).map(|token| self.token.matches(&token))).collect();
        !shown.is_empty() && shown.iter().all(|right| *right)
    }
}

/// RFC 6455 §4.2.1.
fn check_upgrade<B>(request: &Request<B>) -> Result<String, Box<Response<Full<Bytes>>>> {
    let headers = request.headers();
    let asks = lists(headers, &header::UPGRADE, "websocket") && lists(headers, &header::CONNECTION, "upgrade");
    let upgrade_to = [(header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, WS_VERSION)];
    if !asks || request.version() != Version::HTTP_11 {
        let failure = Failure::new(ErrorCode::UpgradeRequired, "this address speaks WebSocket only");
        return Err(refuse(&failure, &upgrade_to));
    }
    if request.method() != Method::GET {
        let failure = Failure::new(ErrorCode::MethodNotAllowed, "an upgrade is a GET");
        return Err(refuse(&failure, &[(header::ALLOW, "GET")]));
    }
    if one(headers, &header::SEC_WEBSOCKET_VERSION) != Some(WS_VERSION.as_bytes()) {
        let failure = Failure::new(ErrorCode::UpgradeRequired, "Sec-WebSocket-Version must be 13");
        return Err(refuse(&failure, &upgrade_to));
    }
    let bad = |what: &str| Err(refuse(&Failure::new(ErrorCode::InvalidParams, what), &[]));
    if headers.contains_key(header::TRANSFER_ENCODING)
        || one(headers, &header::CONTENT_LENGTH).is_some_and(|length| length != b"0")
    {
        return bad("an upgrade has no body");
    }
    match one(headers, &header::SEC_WEBSOCKET_KEY) {
        Some(key) if is_key(key) => Ok(derive_accept_key(key)),
        _ => bad("Sec-WebSocket-Key must be the base64 of 16 bytes, given once"),
    }
}

/// Whether a comma list holds `word`, in any case.
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|item| item.trim().eq_ignore_ascii_case(word))
}

/// The value of a header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
}

fn is_key(key: &[u8]) -> bool {
    let digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    key.len() == KEY_BYTES && key.strip_suffix(b"==").is_some_and(|digits| digits.iter().all(digit))
}

/// The answer that lets a socket open.
pub(crate) fn switch(accept: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    // Base64: always a valid value.
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// An error in the shape of C03; the connection ends with it.
fn refuse(failure: &Failure, extra: &[(HeaderName, &'static str)]) -> Box<Response<Full<Bytes>>> {
    #[derive(Serialize)]
    struct Body<'a> {
        error: &'a Failure,
    }
    let body = serde_json::to_vec(&Body { error: failure }).unwrap_or_default();
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(failure.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let always = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONNECTION, "close"),
    ];
    for (name, value) in always.iter().chain(extra) {
        response.headers_mut().append(name, HeaderValue::from_static(value));
    }
    if extra.iter().any(|(name, _)| *name == header::UPGRADE) {
        response.headers_mut().append(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Box::new(response)
}
