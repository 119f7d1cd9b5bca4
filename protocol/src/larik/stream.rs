//! What an event stream carries: each event's `data`, and how a reader says where it left off.

use crate::{AgentEvent, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the SSE event that tells what a reader will never get; it has no `id:` line.
pub const REPLAY_GAP: &str = "replay_gap";

/// Where a stream begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsQuery {
    /// `seq` of the last event that the reader has; `Last-Event-ID` wins over it. Only new events come when both are absent.
    #[schemars(with = "Option<u64>")]
    pub after: Option<String>,
}

/// Where a stream begins, as a browser says it when it connects again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsHeaders {
    /// `id` of the last event that the reader has.
    #[serde(rename = "last-event-id")]
    #[schemars(with = "Option<u64>")]
    pub last_event_id: Option<String>,
}

/// `data` of one event of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamData {
    /// An event of the session; `id` is its `seq` and `event` its `type`.
    Event(Box<SessionEvent>),
    /// The `data` of a `replay_gap`.
    Gap(ReplayGap),
}

/// A fact of a session, numbered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEvent {
    /// The fact.
    #[serde(flatten)]
    pub event: AgentEvent,
    /// Counts by one within the session, from 1.
    pub seq: u64,
    /// The session.
    pub session: SessionId,
}

/// Events that a reader will never get: all with `from <= seq <= to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayGap {
    /// First lost.
    pub from: u64,
    /// Last lost.
    pub to: u64,
    /// Changes when the session's `seq` begins anew.
    pub epoch: String,
}
