//! One row an HTTP operation: the row is the dispatch arm, the schema and the document.
//!
//! [`rest_wire!`](crate::rest_wire) turns a list of rows into marker types, a closed `Op` enum, `ROWS`, and a `dispatch` function
//! that asks for [`Handle`] (or, for a stream, [`Open`]) once a row: a built row without a handler does not compile. A row
//! marked `later` asks for no handler and answers `unsupported` from [`Failure::not_built`]. Knows no HTTP library: the
//! transport hands over text and gets a status and bytes back. Clauses: C03, C04, H03.

mod text;

use crate::{ErrorCode, failure::Failure, schemas::SchemaOf, strict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{borrow::Cow, future::Future};

/// An HTTP method that rows use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads; `HEAD` is answered from it.
    Get,
    /// Makes or does.
    Post,
    /// Changes.
    Patch,
    /// Ends.
    Delete,
}

impl Verb {
    /// Every verb, in the order of an `Allow` header.
    pub const ALL: &[Self] = &[Self::Get, Self::Post, Self::Patch, Self::Delete];

    /// As in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a row is, beside its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON, with a token.
    Call,
    /// JSON, without a token.
    Public,
    /// Plain text, with a token.
    Text,
    /// Server-Sent Events, with a token that may stand in the query.
    Stream,
}

/// The types that an operation reads.
pub trait Operation {
    /// What the path names.
    type Path: DeserializeOwned + JsonSchema + Send;
    /// What the query names.
    type Query: DeserializeOwned + JsonSchema + Send;
    /// Headers that mean something to the operation.
    type Headers: DeserializeOwned + JsonSchema + Send;
    /// The JSON body.
    type Body: DeserializeOwned + JsonSchema + Send;
}

/// An operation that answers once.
pub trait Call: Operation {
    /// What its handler gives; [`Either`] where the row has two statuses.
    type Reply: Send;

    /// The row's status and the encoded body.
    fn encode(reply: Self::Reply) -> Result<Answer, serde_json::Error>;
}

/// An operation that answers with a stream of events.
pub trait Stream: Operation {
    /// The `data` of one event.
    type Event: Serialize + JsonSchema;
}

/// Whoever serves a wire of this kind.
pub trait Serve: Sync {
    /// What a stream is to the transport.
    type Stream: Send;
}

/// Serves one operation. The transport implements this once a row, in its `handlers`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for operation `{M}`",
    note = "every built row of a wire's table needs an `impl Handle<Row>` in the transport's `handlers`"
)]
pub trait Handle<M: Call>: Serve {
    /// Runs the operation to its end.
    fn handle(&self, input: Input<M>) -> impl Future<Output = Result<M::Reply, Failure>> + Send;
}

/// Opens one stream. The subscription stands when this returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot open the stream `{M}`",
    note = "every built stream row of a wire's table needs an `impl Open<Row>` in the transport's `handlers`"
)]
pub trait Open<M: Stream>: Serve {
    /// Opens it, or refuses before anything is written.
    fn open(&self, input: Input<M>) -> impl Future<Output = Result<Self::Stream, Failure>> + Send;
}

/// What a handler is given.
#[derive(Debug)]
pub struct Input<M: Operation> {
    /// From the path.
    pub path: M::Path,
    /// From the query.
    pub query: M::Query,
    /// From the headers.
    pub headers: M::Headers,
    /// From the body.
    pub body: M::Body,
}

/// No members; whatever is sent is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// One of the two replies of a row with two statuses.
#[derive(Debug, Clone, PartialEq)]
pub enum Either<A, B> {
    /// Goes with the status that stands first in the row.
    First(A),
    /// Goes with the second.
    Second(B),
}

/// A request's parts as text, decoded from their escapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw<'a> {
    /// Names and values of the path template.
    pub path: &'a [Pair<'a>],
    /// Names and values of the query.
    pub query: &'a [Pair<'a>],
    /// Names, in lower case, and values of the headers.
    pub headers: &'a [Pair<'a>],
    /// The body's bytes; none mean `{}`.
    pub body: &'a [u8],
}

/// A name and its value.
pub type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// What goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Whether the body is JSON or plain text.
    pub json: bool,
    /// Empty where the status has no body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A JSON answer; a 204 has no body.
    pub fn json<T: Serialize>(status: u16, value: &T) -> Result<Self, serde_json::Error> {
        let body = if status == 204 { Vec::new() } else { serde_json::to_vec(value)? };
        Ok(Self { status, json: true, body })
    }

    /// A plain text answer.
    pub fn text(status: u16, text: String) -> Self {
        Self { status, json: false, body: text.into_bytes() }
    }
}

/// What a dispatched operation came to.
#[derive(Debug)]
pub enum Dispatched<S> {
    /// One answer.
    Answer(Answer),
    /// A stream that is open.
    Stream(S),
}

/// The body of every failed request. Clause: C03.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// What failed.
    pub error: Failure,
}

/// One status that a row answers with when all is well.
#[derive(Debug, Clone, Copy)]
pub struct Success {
    /// HTTP status.
    pub status: u16,
    /// Schema of the body; not used for a 204.
    pub schema: SchemaOf,
}

/// What the documents, the router and the tests read.
#[derive(Debug)]
pub struct RestRow {
    /// Operation id.
    pub name: &'static str,
    /// The row's doc text.
    pub doc: &'static str,
    /// Clauses of WIRES that the row answers to.
    pub clauses: &'static [&'static str],
    /// What it is.
    pub kind: Kind,
    /// HTTP method.
    pub verb: Verb,
    /// Path template, parameters in braces.
    pub path: &'static str,
    /// Codes that it may answer with, beside [`COMMON`].
    pub errors: &'static [ErrorCode],
    /// Whether it has a handler.
    pub built: bool,
    /// Schema of the path's parameters.
    pub path_params: SchemaOf,
    /// Schema of the query's parameters.
    pub query: SchemaOf,
    /// Schema of the headers that it reads.
    pub headers: SchemaOf,
    /// Schema of the body; `None`: none is read.
    pub body: Option<SchemaOf>,
    /// Statuses when all is well; for a stream the schema is that of one event.
    pub success: &'static [Success],
}

/// Codes that every row may answer with: the guard's, the reader's and the plane's own.
pub const COMMON: &[ErrorCode] = &[
    ErrorCode::InvalidParams,
    ErrorCode::Unauthorized,
    ErrorCode::Forbidden,
    ErrorCode::Overloaded,
    ErrorCode::Closing,
    ErrorCode::Internal,
];

/// Codes that every row with a body may answer with besides.
pub const WITH_BODY: &[ErrorCode] = &[ErrorCode::TooLarge, ErrorCode::Timeout, ErrorCode::UnsupportedMedia];

impl RestRow {
    /// Every code that it may answer with, each once.
    pub fn all_errors(&self) -> Vec<ErrorCode> {
        let mut all: Vec<ErrorCode> = COMMON.to_vec();
        if self.body.is_some() {
            all.extend(WITH_BODY);
        }
        if !self.built {
            all.push(ErrorCode::Unsupported);
        }
        for code in self.errors {
            if !all.contains(code) {
                all.push(*code);
            }
        }
        all
    }

    /// The resource that it belongs to: the last word of the path that is not a parameter, `sessions` before its parts.
    pub fn tag(&self) -> &'static str {
        let mut words = self.path.split('/').filter(|word| !word.is_empty() && !word.starts_with('{'));
        let (_version, first) = (words.next(), words.next().unwrap_or("server"));
        match words.next() {
            Some(part @ ("permissions" | "tasks" | "events")) => part,
            Some(_) => first,
            None if matches!(first, "sessions" | "permissions") => first,
            None => "server",
        }
    }
}

/// Decodes all parts of a request.
///
/// Errors: `not_found` for a path that can name nothing; `invalid_params` for the rest, naming the field's path.
pub fn decode<M: Operation>(raw: &Raw<'_>) -> Result<Input<M>, Failure> {
    let path = text::decode(raw.path).map_err(|message| Failure::new(ErrorCode::NotFound, message))?;
    let params = |message| Failure::new(ErrorCode::InvalidParams, message);
    Ok(Input {
        path,
        query: text::decode(raw.query).map_err(params)?,
        headers: text::decode(raw.headers).map_err(params)?,
        body: decode_body(raw.body)?,
    })
}

/// Decodes a body once, from its bytes. Bytes of nothing but white space count as `{}`; members that are not known are
/// ignored; a key that is given twice is refused. Clauses: C02, C04, C15, H03.
fn decode_body<B: DeserializeOwned>(bytes: &[u8]) -> Result<B, Failure> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Failure::new(ErrorCode::InvalidParams, "the body is not UTF-8; send JSON in UTF-8"))?;
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    if text.is_empty() {
        return crate::table::decode(None);
    }
    strict::check(text).map_err(|fault| Failure::new(ErrorCode::InvalidParams, fault.message))?;
    if !text.starts_with('{') {
        return Err(Failure::new(ErrorCode::InvalidParams, "the body must be a JSON object"));
    }
    crate::table::decode(Some(text))
}

/// Decodes, handles, encodes: the one path that every call takes.
pub async fn call<M, H>(handler: &H, raw: &Raw<'_>) -> Result<Dispatched<H::Stream>, Failure>
where
    M: Call,
    H: Handle<M>,
{
    let reply = handler.handle(decode(raw)?).await?;
    M::encode(reply)
        .map(Dispatched::Answer)
        .map_err(|err| Failure::new(ErrorCode::Internal, "the result could not be encoded").because(err))
}

/// Decodes and opens: the one path that every stream takes.
pub async fn open<M, H>(handler: &H, raw: &Raw<'_>) -> Result<Dispatched<H::Stream>, Failure>
where
    M: Stream,
    H: Open<M>,
{
    handler.open(decode(raw)?).await.map(Dispatched::Stream)
}

/// Declares a REST wire. See the [module](crate::rest).
///
/// ```text
/// /// Doc text.
/// KIND Row: "operationId" VERB "/path/{id}" path(T) query(T) headers(T) body(T)
///     -> STATUS Reply | STATUS Reply, errors [Code], clauses ["H00"], later;
/// ```
/// `path`, `query`, `headers`, `body`, the second status and `later` may be left out. A kind is `call`, `public`, `text` or `stream`.
#[macro_export]
macro_rules! rest_wire {
    ($(
        $(#[doc = $doc:literal])+
        $kind:ident $row:ident: $name:literal $verb:ident $path:literal
            $(path($path_ty:ty))? $(query($query:ty))? $(headers($headers:ty))? $(body($body:ty))?
            -> $status:literal $reply:ty $(| $status2:literal $reply2:ty)?,
            errors [$($err:ident),* $(,)?], clauses [$($clause:literal),* $(,)?] $(, $later:ident)?;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, Copy)]
            pub struct $row;

            impl $crate::rest::Operation for $row {
                type Path = $crate::rest_wire!(@type $($path_ty)?);
                type Query = $crate::rest_wire!(@type $($query)?);
                type Headers = $crate::rest_wire!(@type $($headers)?);
                type Body = $crate::rest_wire!(@type $($body)?);
            }

            $crate::rest_wire!(@reply $kind $row $status $reply $(| $status2 $reply2)?);
        )+

        /// The operations of this wire, closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op { $( $(#[doc = $doc])+ $row ),+ }

        impl Op {
            /// Every operation, in the order of declaration.
            pub const ALL: &[Self] = &[ $( Self::$row ),+ ];

            /// The row that this operation was declared with.
            pub const fn row(self) -> &'static $crate::rest::RestRow { &ROWS[self as usize] }
        }

        /// The table, in the order of declaration; indexed by `Op as usize`.
        pub const ROWS: &[$crate::rest::RestRow] = &[ $( $crate::rest::RestRow {
            name: $name,
            doc: concat!($($doc, "\n"),+),
            clauses: &[$($clause),*],
            kind: $crate::rest_wire!(@kind $kind),
            verb: $crate::rest::Verb::$verb,
            path: $path,
            errors: &[$($crate::ErrorCode::$err),*],
            built: $crate::rest_wire!(@built $($later)?),
            path_params: |g| g.subschema_for::<<$row as $crate::rest::Operation>::Path>(),
            query: |g| g.subschema_for::<<$row as $crate::rest::Operation>::Query>(),
            headers: |g| g.subschema_for::<<$row as $crate::rest::Operation>::Headers>(),
            body: $crate::rest_wire!(@body $($body)?),
            success: &[
                $crate::rest::Success { status: $status, schema: |g| g.subschema_for::<$reply>() },
                $( $crate::rest::Success { status: $status2, schema: |g| g.subschema_for::<$reply2>() } )?
            ],
        } ),+ ];

        $crate::rest_wire!(@dispatch [] [] [] $( $kind $row $( $later )? ; )+);
    };
    (@built) => { true };
    (@built later) => { false };
    (@kind call) => { $crate::rest::Kind::Call };
    (@kind public) => { $crate::rest::Kind::Public };
    (@kind text) => { $crate::rest::Kind::Text };
    (@kind stream) => { $crate::rest::Kind::Stream };
    (@type) => { $crate::rest::Nothing };
    (@type $type:ty) => { $type };
    (@body) => { None };
    (@body $type:ty) => { Some(|g| g.subschema_for::<$type>()) };
    (@reply stream $row:ident $status:literal $event:ty) => {
        impl $crate::rest::Stream for $row { type Event = $event; }
    };
    (@reply text $row:ident $status:literal $reply:ty) => {
        impl $crate::rest::Call for $row {
            type Reply = $reply;
            fn encode(reply: Self::Reply) -> Result<$crate::rest::Answer, serde_json::Error> {
                Ok($crate::rest::Answer::text($status, reply))
            }
        }
    };
    (@reply $kind:ident $row:ident $status:literal $reply:ty) => {
        impl $crate::rest::Call for $row {
            type Reply = $reply;
            fn encode(reply: Self::Reply) -> Result<$crate::rest::Answer, serde_json::Error> {
                $crate::rest::Answer::json($status, &reply)
            }
        }
    };
    (@reply $kind:ident $row:ident $status:literal $reply:ty | $status2:literal $reply2:ty) => {
        impl $crate::rest::Call for $row {
            type Reply = $crate::rest::Either<$reply, $reply2>;
            fn encode(reply: Self::Reply) -> Result<$crate::rest::Answer, serde_json::Error> {
                match reply {
                    $crate::rest::Either::First(reply) => $crate::rest::Answer::json($status, &reply),
                    $crate::rest::Either::Second(reply) => $crate::rest::Answer::json($status2, &reply),
                }
            }
        }
    };
    // Sorts the rows into calls, streams and those that are not built.
    (@dispatch [$($call:ident)*] [$($stream:ident)*] [$($not:ident)*] $kind:ident $row:ident later; $($rest:tt)*) => {
        $crate::rest_wire!(@dispatch [$($call)*] [$($stream)*] [$($not)* $row] $($rest)*);
    };
    (@dispatch [$($call:ident)*] [$($stream:ident)*] [$($not:ident)*] stream $row:ident; $($rest:tt)*) => {
        $crate::rest_wire!(@dispatch [$($call)*] [$($stream)* $row] [$($not)*] $($rest)*);
    };
    (@dispatch [$($call:ident)*] [$($stream:ident)*] [$($not:ident)*] $kind:ident $row:ident; $($rest:tt)*) => {
        $crate::rest_wire!(@dispatch [$($call)* $row] [$($stream)*] [$($not)*] $($rest)*);
    };
    (@dispatch [$($call:ident)*] [$($stream:ident)*] [$($not:ident)*]) => {
        /// Runs `op` on `handler`. Exhaustive: a built row without a handler does not compile.
        pub async fn dispatch<H>(handler: &H, op: Op, raw: &$crate::rest::Raw<'_>)
            -> Result<$crate::rest::Dispatched<H::Stream>, $crate::failure::Failure>
        where H: $crate::rest::Serve $( + $crate::rest::Handle<$call> )* $( + $crate::rest::Open<$stream> )* {
            match op {
                $( Op::$call => $crate::rest::call::<$call, H>(handler, raw).await, )*
                $( Op::$stream => $crate::rest::open::<$stream, H>(handler, raw).await, )*
                $( Op::$not => Err($crate::failure::Failure::not_built(Op::$not.row().name)), )*
            }
        }
    };
}

#[cfg(test)]
mod tests;
