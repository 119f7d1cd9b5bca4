//! The fold of a transcript: what people see, what the model sees, the settings and the checkpoints.

use serde_json::value::RawValue;
use std::sync::Arc;
use triplane_protocol::{
    Message, MessageId, RunId, Usage,
    event::SettingsPatch,
    record::{Checkpoint, Header, Record},
};

/// A line whose type is not known here; it survives a fork. Clause: C15.
#[derive(Debug, Clone)]
pub struct Unknown {
    /// How many messages of the projection stood before it.
    pub after: usize,
    /// The line as it came.
    pub raw: Box<RawValue>,
}

/// One line that a fork or an import writes.
#[derive(Debug, Clone)]
pub enum Line {
    /// A record that is known here.
    Record(Record),
    /// One that is not, as it came.
    Raw(Box<RawValue>),
}

/// Everything that a transcript tells, folded record by record. Cloning shares the messages.
#[derive(Debug, Clone, Default)]
pub struct History {
    header: Option<Header>,
    messages: Vec<Arc<Message>>,
    settings: SettingsPatch,
    usage: Usage,
    checkpoints: Vec<Checkpoint>,
    interrupted: Option<RunId>,
    updated: i64,
    unknown: Vec<Unknown>,
}

impl History {
    /// Takes one record in.
    pub fn apply(&mut self, _record: Record) {}

    /// Keeps a line of an unknown type.
    pub fn keep_unknown(&mut self, raw: Box<RawValue>) {
        self.unknown.push(Unknown { after: self.messages.len(), raw });
    }

    /// The header; `None` while nothing was written, or when its line is damaged.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// What people see: as undo and rewind left it, a clear or compaction as a `system` message with one `boundary` part. Clause: H11.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// What the model sees: from the last boundary on, a compaction's summary first, every call with a result.
    pub fn context(&self) -> Vec<Arc<Message>> {
        Vec::new()
    }

    /// Settings as they were last set.
    pub fn settings(&self) -> &SettingsPatch {
        &self.settings
    }

    /// Tokens over all runs, those of rewound messages too.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Checkpoints of the messages that are still there, oldest first.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// A run that began and never ended.
    pub fn interrupted(&self) -> Option<&RunId> {
        self.interrupted.as_ref()
    }

    /// Milliseconds since the epoch, of the last message, boundary or the creation.
    pub fn updated(&self) -> i64 {
        self.updated
    }

    /// Lines of unknown types.
    pub fn unknown(&self) -> &[Unknown] {
        &self.unknown
    }

    /// Where a message stands in [`messages`](Self::messages).
    pub fn position(&self, id: &MessageId) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == *id)
    }

    /// Without the trailing user messages. Clause: L09.
    pub fn filtered(&self) -> Self {
        self.clone()
    }

    /// Only the first `count` messages. Clause: H12.
    pub fn truncated(&self, _count: usize) -> Self {
        self.clone()
    }

    /// The lines of a fork: `header`, the settings, messages, boundaries, checkpoints and unknown lines.
    pub fn fork_lines(&self, header: Header) -> Vec<Line> {
        vec![Line::Record(Record::Session(header))]
    }
}
