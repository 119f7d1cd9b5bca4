//! One row a wire method: the row is the dispatch arm, the schema and the document.
//!
//! [`rpc_wire!`](crate::rpc_wire) turns a list of rows into marker types, a closed `Method` enum, `ROWS`, and a `dispatch`
//! function that asks for [`Handle`] once a row: a row without a handler, or with a handler of the wrong type, does not compile.
//! A row marked `later` is declared but not built: it asks for no handler and answers `unsupported`
//! from [`Failure::not_built`]. Params are decoded once, from the raw text.

use crate::{ErrorCode, failure::Failure};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::future::Future;

/// Which queue a request waits in before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Runs at once, beside everything else.
    None,
    /// First in, first out with the requests of its connection that name the same session.
    BySession,
    /// Starts once the requests before it of its connection that name the same session have ended, or have said that
    /// the next one may start. Replies may overtake each other.
    Start,
}

/// A method of a wire: what its params and its result look like.
pub trait Method {
    /// Decoded params.
    type Params: DeserializeOwned + JsonSchema + Send;
    /// Encoded result.
    type Result: Serialize + JsonSchema + Send;
}

/// Serves one method. A transport implements this once a row, in its `handlers`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no handler for wire method `{M}`",
    note = "every built row of a wire's table needs an `impl Handle<Row>` in the transport's `handlers`"
)]
pub trait Handle<M: Method>: Sync {
    /// Runs the method to its end.
    fn handle(&self, params: M::Params) -> impl Future<Output = Result<M::Result, Failure>> + Send;
}

/// What the documents, the manifest and the tests read.
#[derive(Debug)]
pub struct Row {
    /// Wire name (`session.create`) or operation id.
    pub name: &'static str,
    /// The row's doc text.
    pub doc: &'static str,
    /// Clauses of WIRES that the row answers to.
    pub clauses: &'static [&'static str],
    /// Where the request waits.
    pub queue: Queue,
    /// Codes that it may answer with, beside those that every method may (`invalid_params`, `closing`, `internal`).
    pub errors: &'static [ErrorCode],
    /// Whether it has a handler.
    pub built: bool,
    /// Schema of the params.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

/// A notification that a server sends, declared beside the rows.
#[derive(Debug)]
pub struct Notification {
    /// Wire name.
    pub name: &'static str,
    /// The doc text.
    pub doc: &'static str,
    /// Schema of the params.
    pub params: fn(&mut SchemaGenerator) -> Schema,
}

/// Decodes params from their raw text; absent params count as `{}`.
///
/// Errors: `invalid_params`, naming the path of the field.
pub fn decode<P: DeserializeOwned>(raw: Option<&str>) -> Result<P, Failure> {
    let text = raw.unwrap_or("{}");
    if !text.trim_start().starts_with('{') {
        return Err(Failure::new(ErrorCode::InvalidParams, "params must be an object"));
    }
    let mut de = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut de).map_err(|err| {
        let path = err.path().to_string();
        let what = describe(err.inner());
        let message = if path == "." { what } else { format!("{path}: {what}") };
        Failure::new(ErrorCode::InvalidParams, message)
    })
}

/// serde_json's message without the position in a text that the client never saw as such.
fn describe(err: &serde_json::Error) -> String {
    let text = err.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

/// Decodes, handles, encodes: the one path that every method takes.
pub async fn call<M, H>(handler: &H, params: Option<&str>) -> Result<Box<RawValue>, Failure>
where
    M: Method,
    H: Handle<M>,
{
    let result = handler.handle(decode(params)?).await?;
    serde_json::value::to_raw_value(&result)
        .map_err(|err| Failure::new(ErrorCode::Internal, "the result could not be encoded").because(err))
}

/// Declares a JSON-RPC wire. See the [module](crate::table).
#[macro_export]
macro_rules! rpc_wire {
    ($(
        $(#[doc = $doc:literal])+
        $row:ident: $name:literal ($params:ty) -> $result:ty,
            queue $queue:ident, errors [$($err:ident),* $(,)?], clauses [$($clause:literal),* $(,)?] $(, $later:ident)?;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, Copy)]
            pub struct $row;

            impl $crate::table::Method for $row {
                type Params = $params;
                type Result = $result;
            }
        )+

        /// The methods of this wire, closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method { $( $(#[doc = $doc])+ $row ),+ }

        impl Method {
            /// Looks a method up by its wire name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $( $name => Some(Self::$row), )+ _ => None }
            }

            /// The row that this method was declared with.
            pub const fn row(self) -> &'static $crate::table::Row { &ROWS[self as usize] }
        }

        /// The table, in the order of declaration; indexed by `Method as usize`.
        pub const ROWS: &[$crate::table::Row] = &[ $( $crate::table::Row {
            name: $name,
            doc: concat!($($doc, "\n"),+),
            clauses: &[$($clause),*],
            queue: $crate::table::Queue::$queue,
            errors: &[$($crate::ErrorCode::$err),*],
            built: $crate::rpc_wire!(@built $($later)?),
            params: |g| g.subschema_for::<$params>(),
            result: |g| g.subschema_for::<$result>(),
        } ),+ ];

        $crate::rpc_wire!(@dispatch [] [] $( $row $( $later )? ; )+);
    };
    (@built) => { true };
    (@built later) => { false };
    // Sorts the rows into those that ask for a handler and those that are not built.
    (@dispatch [$($built:ident)*] [$($unbuilt:ident)*] $row:ident later; $($rest:tt)*) => {
        $crate::rpc_wire!(@dispatch [$($built)*] [$($unbuilt)* $row] $($rest)*);
    };
    (@dispatch [$($built:ident)*] [$($unbuilt:ident)*] $row:ident; $($rest:tt)*) => {
        $crate::rpc_wire!(@dispatch [$($built)* $row] [$($unbuilt)*] $($rest)*);
    };
    (@dispatch [$($built:ident)*] [$($unbuilt:ident)*]) => {
        /// Runs `method` on `handler`. Exhaustive: a built row without a handler does not compile.
        pub async fn dispatch<H>(handler: &H, method: Method, params: Option<&str>)
            -> Result<Box<serde_json::value::RawValue>, $crate::failure::Failure>
        where H: Sync $( + $crate::table::Handle<$built> )* {
            match method {
                // Boxed: a request would else be moved about in a future as large as the largest handler's.
                $( Method::$built => Box::pin($crate::table::call::<$built, H>(handler, params)).await, )*
                $( Method::$unbuilt => Err($crate::failure::Failure::not_built(Method::$unbuilt.row().name)), )*
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A wire of two rows.
    #[allow(unreachable_pub, dead_code, reason = "a wire is made to be exported, and one row here has no handler")]
    pub mod sample {
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        /// Numbers to add.
        #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct Add {
            /// The numbers.
            pub left: Vec<i64>,
        }

        crate::rpc_wire! {
            /// Adds.
            Sum: "sum" (Add) -> i64, queue None, errors [], clauses ["T01"];
            /// Not there yet.
            Product: "product" (Add) -> i64, queue BySession, errors [Busy], clauses ["T02"], later;
        }
    }
    use sample::*;

    struct Calculator;
    impl Handle<Sum> for Calculator {
        async fn handle(&self, params: Add) -> Result<i64, Failure> {
            Ok(params.left.iter().sum())
        }
    }

    async fn ask(name: &str, params: &str) -> Result<String, String> {
        let method = sample::Method::from_name(name).ok_or("no method")?;
        let reply = dispatch(&Calculator, method, Some(params)).await;
        reply.map(|raw| raw.get().to_owned()).map_err(|failure| failure.to_string())
    }

    fn block<F: Future>(future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(out) => out,
            std::task::Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn a_row_dispatches_decodes_and_encodes() {
        assert_eq!(block(ask("sum", r#"{"left":[1,2],"more":0}"#)), Ok("3".into()));
        assert_eq!(
            block(ask("sum", r#"{"left":[1,"x"]}"#)),
            Err("invalid_params: left[1]: invalid type: string \"x\", expected i64".into())
        );
        assert_eq!(block(ask("sum", "{}")), Err("invalid_params: missing field `left`".into()));
        assert_eq!(block(ask("sum", "[[1]]")), Err("invalid_params: params must be an object".into()));
        assert_eq!(block(ask("product", "{}")), Err("unsupported: `product` is not built yet".into()));
        assert_eq!(block(ask("Sum", "{}")), Err("no method".into()));
    }

    #[test]
    fn rows_index_by_method() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(sample::Method::from_name(row.name).unwrap() as usize, index);
        }
        assert_eq!(ROWS.iter().filter(|row| !row.built).map(|row| row.name).collect::<Vec<_>>(), ["product"]);
        assert_eq!(json!(ROWS[0].doc), json!(" Adds.\n"));
    }
}
