//! The lines of a transcript, one record a line, by `type`. Readers keep the lines whose type they do not know, and the
//! members that they do not know of lines that they do. Clause: C15.

use crate::{
    MessageId, RunId, SessionId,
    event::SettingsPatch,
    ir::{Boundary, Extra, Message, Stop},
};
use serde::{Deserialize, Serialize};

/// Version of the transcript's shape.
pub const TRANSCRIPT_VERSION: u32 = 1;

/// One line of `<id>.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The header, written with the first append.
    Session(Header),
    /// A message of the history.
    Message(Message),
    /// The history was cleared or compacted here.
    Boundary {
        /// Which of the two.
        why: Boundary,
        /// What stands for the history before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Names the boundary in the history.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<MessageId>,
        /// Milliseconds since the epoch.
        #[serde(default)]
        at: i64,
        /// The user message before it that is still to be answered: the model sees it after the summary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<MessageId>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The history goes back to `to`, or to its start.
    Rewind {
        /// The last message that stays; `None`: none stays.
        to: Option<MessageId>,
    },
    /// What a file was before a tool changed it.
    Checkpoint(Checkpoint),
    /// Settings were changed.
    Set {
        /// What changed.
        #[serde(flatten)]
        patch: SettingsPatch,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A run began or ended.
    Run {
        /// The run.
        id: RunId,
        /// Which of the two.
        state: RunState,
        /// Why it ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<Stop>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
}

impl Record {
    /// The history is empty from here on.
    pub fn clear(id: MessageId, at: i64) -> Self {
        let (why, extra) = (Boundary::Clear, Extra::new());
        Self::Boundary { why, summary: None, id: Some(id), at, kept: None, extra }
    }

    /// From here on `summary` stands for the history; `kept` is still to be answered.
    pub fn compact(summary: String, id: MessageId, at: i64, kept: Option<MessageId>) -> Self {
        let (why, extra) = (Boundary::Compact, Extra::new());
        Self::Boundary { why, summary: Some(summary), id: Some(id), at, kept, extra }
    }

    /// Settings were changed.
    pub fn set(patch: SettingsPatch) -> Self {
        Self::Set { patch, extra: Extra::new() }
    }

    /// A run began.
    pub fn started(id: RunId) -> Self {
        Self::Run { id, state: RunState::Started, stop: None, extra: Extra::new() }
    }

    /// A run ended.
    pub fn ended(id: RunId, stop: Stop) -> Self {
        Self::Run { id, state: RunState::Ended, stop: Some(stop), extra: Extra::new() }
    }
}

/// The first record of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`TRANSCRIPT_VERSION`] of the writer.
    pub v: u32,
    /// The session's id; equals the file's stem.
    pub id: SessionId,
    /// The agent that runs it.
    pub agent: String,
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// The session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Free text of whoever created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Which client created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Members that are not known here.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a file was before and after a tool changed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Absolute path.
    pub path: String,
    /// Blob of the content before; `None`: the file did not exist.
    pub before: Option<String>,
    /// Hash of the content after; `None`: the file was removed, or the change never finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The user message whose run made the change.
    pub message: MessageId,
    /// Members that are not known here.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether a run begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It began.
    Started,
    /// It ended.
    Ended,
}
