//! Who may call: the token, and what browsers are told. Host and Origin are judged before, by the shared guard.
//! Invariant: the token's text is compared and dropped; it reaches no log and no answer. Clauses: H02, H28, C06, C08.

use http::{HeaderMap, HeaderValue, Method, header};
use triplane_common::{
    guard::AllowedOrigin,
    token::{self, Token},
};
use triplane_protocol::rest::Kind;

/// Headers that a page may send.
const PAGE_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type, last-event-id");
/// How long a browser may keep a preflight's answer, in seconds.
const PREFLIGHT_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// Whether a request shows the token where its row allows. A bearer header, right or wrong, decides alone.
pub(crate) fn authorized(token: &Token, kind: Option<Kind>, headers: &HeaderMap, query: Option<&str>) -> bool {
    if kind == Some(Kind::Public) {
        return true;
    }
    if let Some(shown) = token::bearer(headers) {
        return token.matches(shown);
    }
    if kind != Some(Kind::Stream) {
        return false;
    }
    let mut shown = token::query_tokens(query);
    matches!((shown.next(), shown.next()), (Some(text), None) if token.matches(&text))
}

/// Whether this is a browser asking before a request of a page that was let in.
pub(crate) fn is_preflight(method: &Method, origin: Option<&AllowedOrigin>, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && origin.is_some() && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a preflight is told of a path.
pub(crate) fn grant_preflight(allow: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, PAGE_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE_S);
}

/// Lets the page that was let in read the answer. Never `*`, never credentials.
pub(crate) fn grant(origin: &AllowedOrigin, headers: &mut HeaderMap) {
    if let Ok(value) = HeaderValue::from_str(origin.as_str()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    }
}
