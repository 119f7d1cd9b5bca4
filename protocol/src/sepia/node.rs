//! What the server says of itself, and the node's feed. Clauses: S02–S04, S24–S26, C07.

use crate::{SessionId, event::CloseReason, sepia::event::SessionEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is served here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Version of this wire; check it before calling.
    pub protocol: u32,
    /// This machine.
    pub node: Node,
    /// Lifecycle settings, resolved.
    pub config: Lifecycle,
    /// Exactly the methods that are served.
    pub methods: Vec<String>,
    /// The ready lines of the other transports of this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Value>,
}

/// A machine's identity; it stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Unique.
    pub id: String,
    /// For people.
    pub name: String,
}

/// Lifecycle settings, resolved from flags, environment and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// How long a session that this wire opened may idle; null: for ever.
    pub idle_ttl_ms: Option<u64>,
    /// How often that is looked at.
    pub sweep_ms: u64,
    /// Messages of one history page at most.
    pub history_limit: u64,
    /// How long the state of a lock that was probed is kept.
    pub probe_idle_ms: u64,
}

/// The node's feed comes from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSubscribed {
    /// Always true.
    pub subscribed: bool,
    /// Who is live at this moment. One that is attached meanwhile may be in the stream too.
    pub live: Vec<SessionId>,
}

/// Params of `node.event`: one thing on the feed, by `type`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NodeEvent<'a> {
    /// A stored session went live.
    Attached {
        /// The session.
        session_id: &'a SessionId,
        /// Its agent.
        agent_id: &'a str,
    },
    /// A fresh session went live.
    Created {
        /// The session.
        session_id: &'a SessionId,
        /// Its agent.
        agent_id: &'a str,
        /// Its directory.
        cwd: &'a str,
    },
    /// A session is no longer live; its last word on the feed.
    Detached {
        /// The session.
        session_id: &'a SessionId,
        /// Its agent.
        agent_id: &'a str,
        /// Why.
        reason: CloseReason,
    },
    /// A session was deleted from its store; before its `detached`.
    Deleted {
        /// The session.
        session_id: &'a SessionId,
        /// Its agent.
        agent_id: &'a str,
    },
    /// A live session's events.
    SessionEvents {
        /// The session.
        session_id: &'a SessionId,
        /// In order.
        events: Vec<SessionEvent<'a>>,
    },
    /// This reader fell behind.
    Lagged {
        /// Whose events were lost; null: the feed's own.
        session_id: Option<&'a SessionId>,
        /// How many.
        count: u64,
    },
}
