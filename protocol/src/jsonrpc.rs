//! JSON-RPC 2.0 as text: one message in, its requests out; one result or failure in, the reply's bytes out.
//! Invariant: an id goes back byte for byte as it came. Knows no method, no transport and no runtime. Clause: C02.
//!
//! What the specification leaves open is decided here:
//! - A message that is no JSON is answered with `id: null`. One that is JSON but no request echoes the id that it carries
//!   when that is a string, a number or null and stands there once; else `id: null`.
//! - `"id": null` is a request, and is answered; only an absent id makes a notification. Notifications are never answered.
//! - Params that are neither absent nor an object are `-32602`, from [`crate::table::decode`].
//! - Protocol errors carry `data.code` too: [`ErrorCode::Invalid`] with `-32700` and `-32600`, [`ErrorCode::Unsupported`]
//!   with `-32601`, [`ErrorCode::TooLarge`] with the `-32600` of a batch or a line over its limit.

use crate::{
    ErrorCode, Failure,
    strict::{self, Fault, FaultKind, echo},
};
use serde::{
    Deserialize, Serialize,
    de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Requests in one batch at most.
pub const BATCH_ITEMS: usize = 100;

/// Bytes of replies to one batch at most; what does not fit is answered with `too_large` instead.
pub const BATCH_REPLY_BYTES: usize = 16 << 20;

/// `error.code` of text that is no JSON.
pub const PARSE_ERROR: i32 = -32700;
/// `error.code` of JSON that is no request.
pub const INVALID_REQUEST: i32 = -32600;
/// `error.code` of a method that this wire does not have.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// One message.
#[derive(Debug, PartialEq)]
pub enum Incoming<'a> {
    /// One request, or what was sent in its place.
    Single(Item<'a>),
    /// From 1 to [`BATCH_ITEMS`] of them; answered by one array, in their order, or not at all.
    Batch(Vec<Item<'a>>),
}

/// One member of a message.
#[derive(Debug, PartialEq)]
pub enum Item<'a> {
    /// To be dispatched.
    Request(Request<'a>),
    /// No request: these are the bytes of the reply.
    Invalid(Vec<u8>),
    /// To be neither dispatched nor answered: a response, or a notification with faulty params.
    Ignored,
}

/// A request or, without an id, a notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    /// As it came; `None` makes a notification.
    pub id: Option<Id>,
    /// The method's name, unescaped.
    pub method: Cow<'a, str>,
    /// The raw text of the params, if there are any.
    pub params: Option<&'a str>,
}

/// The raw text of a valid id: a string, a number or null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(Box<str>);

impl Id {
    /// The id that a reply carries when there is none to echo.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// Takes a checked JSON text; `None` if it is no valid id.
    pub fn from_raw(raw: &str) -> Option<Self> {
        let valid = raw == "null" || raw.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
        valid.then(|| Self(raw.into()))
    }

    /// The id as it stands in JSON.
    pub fn raw(&self) -> &str {
        &self.0
    }
}

/// Reads one message.
pub fn parse(text: &str) -> Incoming<'_> {
    let fault = strict::check(text).err();
    if let Some(Fault { kind: FaultKind::Syntax, message }) = &fault {
        return Incoming::Single(invalid(None, PARSE_ERROR, ErrorCode::Invalid, message.clone()));
    }
    if !text.trim_start().starts_with('[') {
        return Incoming::Single(item(text, fault));
    }
    match serde_json::from_str(text) {
        Ok(Batch { items, more: false }) if !items.is_empty() => {
            // The fault of the whole does not say which item has it.
            let recheck = |raw: &RawValue| fault.as_ref().and_then(|_| strict::check(raw.get()).err());
            Incoming::Batch(items.into_iter().map(|raw| item(raw.get(), recheck(raw))).collect())
        }
        Ok(Batch { more: true, .. }) => {
            let message = format!("a batch has at most {BATCH_ITEMS} requests");
            Incoming::Single(invalid(None, INVALID_REQUEST, ErrorCode::TooLarge, message))
        }
        Ok(Batch { .. }) => {
            Incoming::Single(invalid(None, INVALID_REQUEST, ErrorCode::Invalid, "an empty batch is no request"))
        }
        Err(err) => Incoming::Single(invalid(None, PARSE_ERROR, ErrorCode::Invalid, err.to_string())),
    }
}

/// Reads one request out of a text that is JSON; `fault` is a key that it gives twice.
fn item(text: &str, fault: Option<Fault>) -> Item<'_> {
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
        return invalid(None, INVALID_REQUEST, ErrorCode::Invalid, "a request must be an object");
    };
    let id = match envelope.id {
        None => Ok(None),
        Some(raw) => Id::from_raw(raw).map(Some).ok_or(()),
    };
    let echoed = if envelope.ids > 1 { None } else { id.clone().ok().flatten() };
    let refuse = |message: String| invalid(echoed.clone(), INVALID_REQUEST, ErrorCode::Invalid, message);
    if let Some(Fault { kind: FaultKind::Envelope, message }) = fault {
        return refuse(message);
    }
    if envelope.method.is_none() && envelope.answer {
        return Item::Ignored;
    }
    let Ok(id) = id else {
        return refuse("id must be a string, a number or null".into());
    };
    if envelope.version.as_deref() != Some("2.0") {
        return refuse("jsonrpc must be \"2.0\"".into());
    }
    let Some(Some(method)) = envelope.method else {
        return refuse("method must be a string".into());
    };
    if envelope.answer {
        return refuse("a request has neither result nor error".into());
    }
    match (fault, id) {
        (None, id) => Item::Request(Request { id, method, params: envelope.params }),
        (Some(_), None) => Item::Ignored,
        (Some(fault), Some(id)) => {
            Item::Invalid(error(Some(&id), &Failure::new(ErrorCode::InvalidParams, fault.message), None))
        }
    }
}

fn invalid(id: Option<Id>, rpc: i32, code: ErrorCode, message: impl Into<String>) -> Item<'static> {
    Item::Invalid(error(id.as_ref(), &Failure::new(code, message), Some(rpc)))
}

/// The reply to a request that went well; `result` is JSON.
pub fn result(id: &Id, result: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(id.raw().len() + result.len() + 36);
    for piece in [r#"{"jsonrpc":"2.0","id":"#, id.raw(), r#","result":"#, result, "}"] {
        out.extend_from_slice(piece.as_bytes());
    }
    out
}

/// The reply to a request that failed; no id is written as null. `rpc` stands for the code's own number ([`ErrorCode::rpc`]).
pub fn error(id: Option<&Id>, failure: &Failure, rpc: Option<i32>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        code: i32,
        message: &'a str,
        data: Data<'a>,
    }
    #[derive(Serialize)]
    struct Data<'a> {
        code: ErrorCode,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<&'a str>,
    }
    let body = Body {
        code: rpc.unwrap_or(failure.code.rpc()),
        message: &failure.message,
        data: Data { code: failure.code, cause: failure.cause.as_deref() },
    };
    let mut out = Vec::with_capacity(160);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.map_or("null", Id::raw).as_bytes());
    out.extend_from_slice(br#","error":"#);
    // Strings and a number into memory: this cannot fail.
    if serde_json::to_writer(&mut out, &body).is_err() {
        out.extend_from_slice(br#"{"code":-32603,"message":"","data":{"code":"internal"}}"#);
    }
    out.push(b'}');
    out
}

/// The reply to a request for a method that the wire does not have.
pub fn method_not_found(id: &Id, method: &str) -> Vec<u8> {
    let failure = Failure::new(ErrorCode::Unsupported, format!("no method `{}`", echo(method)));
    error(Some(id), &failure, Some(METHOD_NOT_FOUND))
}

/// The reply to a message over the transport's limit, whose id nobody read.
pub fn too_long(limit_bytes: usize) -> Vec<u8> {
    let failure = Failure::new(ErrorCode::TooLarge, format!("a message has at most {limit_bytes} bytes"));
    error(None, &failure, Some(INVALID_REQUEST))
}

/// The reply to bytes that are no UTF-8.
pub fn not_utf8() -> Vec<u8> {
    error(None, &Failure::new(ErrorCode::Invalid, "the message is not UTF-8"), Some(PARSE_ERROR))
}

/// A notification with `params`, which is JSON.
pub fn notification(method: &str, params: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(method.len() + params.len() + 44);
    for piece in [r#"{"jsonrpc":"2.0","method":""#, method, r#"","params":"#, params, "}"] {
        out.extend_from_slice(piece.as_bytes());
    }
    out
}

/// The members of a request, none of them decoded but the two that are compared.
#[derive(Default)]
struct Envelope<'a> {
    version: Option<Cow<'a, str>>,
    id: Option<&'a str>,
    ids: usize,
    /// `Some(None)`: there, but no string.
    method: Option<Option<Cow<'a, str>>>,
    params: Option<&'a str>,
    /// Whether it has a `result` or an `error`.
    answer: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut out = Envelope::default();
                while let Some(key) = members.next_key_seed(strict::Key)? {
                    match &*key {
                        "jsonrpc" => out.version = string(members.next_value()?),
                        "id" => {
                            out.ids += 1;
                            out.id = Some(members.next_value::<&RawValue>()?.get());
                        }
                        "method" => out.method = Some(string(members.next_value()?)),
                        "params" => out.params = Some(members.next_value::<&RawValue>()?.get()),
                        "result" | "error" => {
                            out.answer = true;
                            members.next_value::<IgnoredAny>()?;
                        }
                        _ => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(out)
            }
        }
        d.deserialize_map(Members)
    }
}

/// The text of a JSON string, `None` for anything else.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw.get()).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// The items of a batch as raw text, at most [`BATCH_ITEMS`]; further ones are only counted as `more`.
struct Batch<'a> {
    items: Vec<&'a RawValue>,
    more: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < BATCH_ITEMS {
                    let Some(raw) = seq.next_element::<&RawValue>()? else {
                        return Ok(Batch { items, more: false });
                    };
                    items.push(raw);
                }
                let mut more = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    more = true;
                }
                Ok(Batch { items, more })
            }
        }
        d.deserialize_seq(Items).map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[path = "jsonrpc_tests.rs"]
mod tests;
