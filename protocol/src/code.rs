//! The closed set of failure codes, and their number on each wire. Clause: C03.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($( $(#[doc = $doc:literal])+ $name:ident = $text:literal, rpc $rpc:literal, http $http:literal; )+) => {
        /// Why a call failed. One variant for each remedy that a client can take.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode { $( $(#[doc = $doc])+ $name ),+ }

        impl ErrorCode {
            /// Every code, in the order of the document.
            pub const ALL: &[ErrorCode] = &[ $( Self::$name ),+ ];

            /// JSON-RPC `error.code`.
            pub const fn rpc(self) -> i32 { match self { $( Self::$name => $rpc ),+ } }

            /// HTTP status.
            pub const fn http(self) -> u16 { match self { $( Self::$name => $http ),+ } }

            /// The code as text: `data.code` on JSON-RPC, `error.code` on HTTP.
            pub const fn as_str(self) -> &'static str { match self { $( Self::$name => $text ),+ } }
        }
    };
}

codes! {
    /// No session, request, task or project has this id.
    NotFound = "not_found", rpc -32000, http 404;
    /// The prefix fits more than one session.
    Ambiguous = "ambiguous", rpc -32000, http 409;
    /// Another process holds the session; `cause` names it.
    Locked = "locked", rpc -32000, http 409;
    /// A run is in flight on this session.
    Busy = "busy", rpc -32000, http 409;
    /// The params do not fit the method's schema; the message names the field.
    InvalidParams = "invalid_params", rpc -32602, http 400;
    /// Well formed, but not something that can be done here.
    Invalid = "invalid", rpc -32000, http 422;
    /// No such agent, or it lacks the capability that was asked for.
    UnknownAgent = "unknown_agent", rpc -32000, http 404;
    /// Not offered by this build, wire or agent.
    Unsupported = "unsupported", rpc -32000, http 501;
    /// The plane was built without an agent that can run prompts.
    NoAgent = "no_agent", rpc -32000, http 503;
    /// The call was cancelled before it began.
    Cancelled = "cancelled", rpc -32000, http 409;
    /// A queue or a cap is full; try again later.
    Overloaded = "overloaded", rpc -32000, http 503;
    /// The input is over a stated limit.
    TooLarge = "too_large", rpc -32000, http 413;
    /// An agent or driver process is gone; the next call starts it again.
    Unavailable = "unavailable", rpc -32000, http 503;
    /// The token is missing or wrong.
    Unauthorized = "unauthorized", rpc -32000, http 401;
    /// The Host or the Origin is not allowed.
    Forbidden = "forbidden", rpc -32000, http 403;
    /// The server is shutting down.
    Closing = "closing", rpc -32000, http 503;
    /// A defect on our side; the log has the cause.
    Internal = "internal", rpc -32603, http 500;
    /// The path is known, but not with this HTTP method.
    MethodNotAllowed = "method_not_allowed", rpc -32000, http 405;
    /// The request did not arrive in time.
    Timeout = "timeout", rpc -32000, http 408;
    /// The body has a coding that is not taken.
    UnsupportedMedia = "unsupported_media", rpc -32000, http 415;
    /// This address speaks WebSocket only.
    UpgradeRequired = "upgrade_required", rpc -32000, http 426;
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_serde_agree_for_every_code() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
