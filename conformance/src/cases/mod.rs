//! The cases, one file a topic.

pub mod agent;
pub mod common;
pub mod larik;
pub mod lich;
pub mod sepia;

use crate::{
    case::{Case, Wire},
    verdict::{Outcome, Stop},
};
use serde_json::Value;

/// Every case of the suite.
pub fn all() -> Vec<&'static Case> {
    [&[agent::CASES] as &[_], common::FILES, lich::FILES, larik::FILES, sepia::FILES]
        .concat()
        .into_iter()
        .flatten()
        .collect()
}

/// Every wire.
pub const ALL: &[Wire] = Wire::ALL;
/// lich.
pub const WS: &[Wire] = &[Wire::Ws];
/// larik.
pub const HTTP: &[Wire] = &[Wire::Http];
/// sepia.
pub const STDIO: &[Wire] = &[Wire::Stdio];
/// The wires that know of permissions.
pub const ASKING: &[Wire] = &[Wire::Http, Wire::Stdio];
/// The JSON-RPC wires.
pub const RPC: &[Wire] = &[Wire::Ws, Wire::Stdio];
/// The wires that listen on TCP.
pub const TCP: &[Wire] = &[Wire::Ws, Wire::Http];

/// A script that calls a tool.
pub fn tool(name: &str, input: &Value) -> String {
    format!("/tool {name} {input}")
}

/// A script that calls `write`.
pub fn write(path: &str, content: &str) -> String {
    tool("write", &serde_json::json!({"path": path, "content": content}))
}

/// A script that waits, and then says a word.
pub fn say_after(ms: u64, word: &str) -> String {
    format!("/sleep {ms}\n/say {word}")
}

/// A script that waits until somebody cancels.
pub const FOREVER: &str = "/sleep 60000";

/// Whatever is broken here breaks this clause, also where a step on the way names another.
pub fn blame<T>(outcome: Outcome<T>, clause: &'static str) -> Outcome<T> {
    outcome.map_err(|stop| match stop {
        Stop::Broke { seen, .. } => Stop::Broke { clause: Some(clause), seen },
        other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
    })
}
