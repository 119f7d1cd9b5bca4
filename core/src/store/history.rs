//! The fold of a transcript: what people see, what the model sees, the settings, the checkpoints. Pure.
//! Invariant: folding the lines of [`History::fork_lines`] gives the same projection again. Clauses: H11, L09, L10, C15.

use serde_json::value::RawValue;
use std::{collections::HashSet, sync::Arc};
use triplane_protocol::{
    CallId, Message, MessageId, Part, Role, RunId, Stop, Usage,
    event::SettingsPatch,
    ir::{Boundary, Extra, KnownPart},
    record::{Checkpoint, Header, Record, RunState},
};

/// What the model is told of a call whose run ended first. FAULTS PC-11.
const NO_RESULT: &str = "The call was interrupted; whether it took effect is not known.";

/// The member of a boundary's part that names the prompt which its compaction left to be answered.
const KEPT: &str = "kept";

/// A line whose type is not known here; it survives a fork. Clause: C15.
#[derive(Debug, Clone)]
pub struct Unknown {
    /// How many messages of the projection stood before it.
    pub after: usize,
    /// The line as it came.
    pub raw: Arc<RawValue>,
}

/// One line that a fork or an import writes.
#[derive(Debug, Clone)]
pub enum Line {
    /// A record that is known here.
    Record(Record),
    /// One that is not, as it came.
    Raw(Arc<RawValue>),
}

/// Everything that a transcript tells, folded record by record. A clone shares the messages.
#[derive(Debug, Clone, Default)]
pub struct History {
    header: Option<Header>,
    messages: Vec<Arc<Message>>,
    settings: SettingsPatch,
    /// Members of `set` records that are not known here, the last of each name.
    settings_extra: Extra,
    usage: Usage,
    checkpoints: Vec<Checkpoint>,
    interrupted: Option<RunId>,
    /// Members of the last run's start that are not known here.
    run_extra: Extra,
    updated: i64,
    boundaries: u64,
    unknown: Vec<Unknown>,
}

impl History {
    /// Takes one record in. A rewind to a message that is not there changes nothing.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Session(header) => {
                self.updated = self.updated.max(header.created);
                self.header.get_or_insert(header);
            }
            Record::Message(message) => self.push(message),
            Record::Boundary { why, summary, id, at, kept, mut extra } => {
                self.boundaries += 1;
                let id = id.unwrap_or_else(|| format!("boundary-{}", self.boundaries).into());
                if let Some(kept) = kept {
                    extra.insert(KEPT.to_owned(), kept.as_str().into());
                }
                let part = Part::Known(KnownPart::Boundary { why, summary, extra });
                self.push(Message::of(id, Role::System, vec![part], at));
            }
            Record::Rewind { to: None } => self.keep(0),
            Record::Rewind { to: Some(id) } => {
                if let Some(at) = self.position(&id) {
                    self.keep(at + 1);
                }
            }
            Record::Checkpoint(checkpoint) => self.checkpoint(checkpoint),
            Record::Set { patch, extra } => {
                self.set(patch);
                self.settings_extra.extend(extra);
            }
            Record::Run { id, state: RunState::Started, extra, .. } => {
                self.interrupted = Some(id);
                self.run_extra = extra;
            }
            Record::Run { id, state: RunState::Ended, stop, extra } => {
                self.interrupted = None;
                self.keep_run(id, stop, extra);
            }
        }
    }

    /// Takes one in whose type is not known.
    pub fn apply_unknown(&mut self, raw: Box<RawValue>) {
        self.unknown.push(Unknown { after: self.messages.len(), raw: raw.into() });
    }

    /// The header; `None` while nothing was written, or when its line is damaged.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// What people see: as undo and rewind left it, a clear or compaction as a `system` message with one `boundary` part. Clause: H11.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// What the model sees: what came after the last boundary, a compaction's summary first (as the user's words, under the
    /// boundary's id), then the prompt that it left to be answered. A call that never got a result gets an error as its result, so that a provider takes the history.
    pub fn context(&self) -> Vec<Arc<Message>> {
        let last = self.messages.iter().rposition(|message| boundary(message).is_some());
        let (mut context, rest) = match last.and_then(|at| self.messages.split_at_checked(at)) {
            Some((before, [message, rest @ ..])) => {
                let kept = kept_by(message).and_then(|id| {
                    before.iter().rfind(|message| message.id.as_str() == id && message.role == Role::User)
                });
                (summary_of(message).into_iter().chain(kept.cloned()).collect::<Vec<_>>(), rest)
            }
            Some((_, [])) | None => (Vec::new(), self.messages.as_slice()),
        };
        context.reserve(rest.len());
        let mut open = OpenCalls::default();
        for message in rest {
            if message.role != Role::Tool {
                context.extend(open.close());
            }
            open.see(message);
            context.push(message.clone());
        }
        context.extend(open.close());
        context
    }

    /// Settings as they were last set.
    pub fn settings(&self) -> &SettingsPatch {
        &self.settings
    }

    /// Members of `set` records that are not known here. Clause: C15.
    pub fn settings_extra(&self) -> &Extra {
        &self.settings_extra
    }

    /// Tokens over all runs, those of rewound messages too.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Checkpoints of the messages that are still there, oldest first; one a change.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// A run that began and never ended. FAULTS PC-11.
    pub fn interrupted(&self) -> Option<&RunId> {
        self.interrupted.as_ref()
    }

    /// Milliseconds since the epoch: the latest of the creation and every message.
    pub fn updated(&self) -> i64 {
        self.updated
    }

    /// Lines of unknown types.
    pub fn unknown(&self) -> &[Unknown] {
        &self.unknown
    }

    /// Where the last prompt stands that the model still sees as one.
    pub fn last_prompt(&self) -> Option<usize> {
        let last = |message: &Arc<Message>| message.role == Role::User || boundary(message).is_some();
        let at = self.messages.iter().rposition(last)?;
        let message = self.messages.get(at)?;
        if message.role == Role::User {
            return Some(at);
        }
        let kept = kept_by(message)?;
        self.messages.iter().take(at).rposition(|message| message.id.as_str() == kept && message.role == Role::User)
    }

    /// Whether this message is a boundary.
    pub fn is_boundary(&self, id: &MessageId) -> bool {
        self.position(id).and_then(|at| self.messages.get(at)).is_some_and(|message| boundary(message).is_some())
    }

    /// Where a message stands in [`messages`](Self::messages).
    pub fn position(&self, id: &MessageId) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == *id)
    }

    /// Without the trailing user messages, whose prompts were never answered. Clause: L09.
    pub fn filtered(&self) -> Self {
        let answered = self.messages.iter().rposition(|message| message.role != Role::User);
        self.truncated(answered.map_or(0, |at| at + 1))
    }

    /// Only the first `count` messages. Clause: H12.
    pub fn truncated(&self, count: usize) -> Self {
        let mut shorter = self.clone();
        shorter.keep(count);
        shorter.interrupted = None;
        shorter
    }

    /// Without what a clear made the session forget. Clause: L10, by way of L07: a resume sees what the live session saw.
    pub fn since_clear(&self) -> Self {
        let cleared = |message: &Arc<Message>| matches!(boundary(message), Some((Boundary::Clear, _)));
        let Some(at) = self.messages.iter().rposition(cleared) else { return self.clone() };
        let mut later = self.clone();
        later.messages.drain(..=at);
        let kept: HashSet<&MessageId> = later.messages.iter().map(|message| &message.id).collect();
        later.checkpoints.retain(|checkpoint| kept.contains(&checkpoint.message));
        for line in &mut later.unknown {
            line.after = line.after.saturating_sub(at + 1);
        }
        later
    }

    /// The lines of a fork: `header`, settings, messages and boundaries under their ids with unknown lines in their places, checkpoints.
    pub fn fork_lines(&self, header: Header) -> Vec<Line> {
        let mut lines = vec![Line::Record(Record::Session(header))];
        if self.settings != SettingsPatch::default() || !self.settings_extra.is_empty() {
            let (patch, extra) = (self.settings.clone(), self.settings_extra.clone());
            lines.push(Line::Record(Record::Set { patch, extra }));
        }
        let mut unknown = self.unknown.iter().peekable();
        for (at, message) in self.messages.iter().enumerate() {
            while let Some(line) = unknown.next_if(|line| line.after <= at) {
                lines.push(Line::Raw(line.raw.clone()));
            }
            lines.push(Line::Record(message_record(message)));
        }
        lines.extend(unknown.map(|line| Line::Raw(line.raw.clone())));
        lines.extend(self.checkpoints.iter().cloned().map(|checkpoint| Line::Record(Record::Checkpoint(checkpoint))));
        lines
    }

    fn push(&mut self, message: Message) {
        if message.role == Role::Assistant
            && let Some(usage) = message.usage
        {
            self.usage += usage;
        }
        self.updated = self.updated.max(message.at);
        self.messages.push(Arc::new(message));
    }

    fn keep(&mut self, count: usize) {
        if count >= self.messages.len() {
            return;
        }
        self.messages.truncate(count);
        let kept: HashSet<&MessageId> = self.messages.iter().map(|message| &message.id).collect();
        self.checkpoints.retain(|checkpoint| kept.contains(&checkpoint.message));
        for line in &mut self.unknown {
            line.after = line.after.min(count);
        }
    }

    /// A fork has no use for runs that are over, unless somebody said more of one than is known here.
    fn keep_run(&mut self, id: RunId, stop: Option<Stop>, extra: Extra) {
        let begun = std::mem::take(&mut self.run_extra);
        if begun.is_empty() && extra.is_empty() {
            return;
        }
        let records = [
            Record::Run { id: id.clone(), state: RunState::Started, stop: None, extra: begun },
            Record::Run { id, state: RunState::Ended, stop, extra },
        ];
        for record in records {
            // A record of strings and of members that came as JSON goes back into JSON.
            if let Ok(raw) = serde_json::value::to_raw_value(&record) {
                self.apply_unknown(raw);
            }
        }
    }

    /// A change is told twice, before and after it is made; what is told after completes what was told before. Changes of one
    /// file stay apart, so that a change of somebody else in between can be seen.
    fn checkpoint(&mut self, new: Checkpoint) {
        let same = |old: &&mut Checkpoint| old.path == new.path && old.message == new.message;
        match self.checkpoints.iter_mut().rev().find(same) {
            Some(old) if old.after.is_none() && old.before == new.before => {
                old.after = new.after;
                old.extra.extend(new.extra);
            }
            Some(_) | None => self.checkpoints.push(new),
        }
    }

    fn set(&mut self, patch: SettingsPatch) {
        let SettingsPatch { model, effort, mode, title } = patch;
        let now = &mut self.settings;
        now.model = model.or(now.model.take());
        now.effort = effort.or(now.effort);
        now.mode = mode.or(now.mode);
        // An empty title takes the title away.
        now.title = title.or(now.title.take()).filter(|title| !title.is_empty());
    }
}

/// What a boundary message says: alone in a system message.
fn boundary(message: &Message) -> Option<(Boundary, Option<&str>)> {
    match message.parts.as_slice() {
        [Part::Known(KnownPart::Boundary { why, summary, .. })] if message.role == Role::System => {
            Some((*why, summary.as_deref()))
        }
        _ => None,
    }
}

fn summary_of(message: &Message) -> Option<Arc<Message>> {
    match boundary(message)? {
        (Boundary::Compact, Some(summary)) => {
            Some(Arc::new(Message::text(message.id.clone(), Role::User, summary, message.at)))
        }
        (Boundary::Compact, None) | (Boundary::Clear, _) => None,
    }
}

/// The prompt that a compaction left to be answered.
fn kept_by(message: &Message) -> Option<&str> {
    match message.parts.as_slice() {
        [Part::Known(KnownPart::Boundary { extra, .. })] => extra.get(KEPT)?.as_str(),
        _ => None,
    }
}

/// A boundary goes back to its own record, unless it came with members that the record has no place for.
fn message_record(message: &Arc<Message>) -> Record {
    match (boundary(message), message.parts.first()) {
        (Some((why, summary)), Some(Part::Known(KnownPart::Boundary { extra, .. }))) if message.extra.is_empty() => {
            let (summary, id) = (summary.map(str::to_owned), Some(message.id.clone()));
            let kept = kept_by(message).map(MessageId::from);
            let mut extra = extra.clone();
            if kept.is_some() {
                extra.remove(KEPT);
            }
            Record::Boundary { why, summary, id, at: message.at, kept, extra }
        }
        _ => Record::Message(Message::clone(message)),
    }
}

/// Calls of the last assistant message that have no result yet.
#[derive(Default)]
struct OpenCalls {
    calls: Vec<CallId>,
    asked_by: Option<Arc<Message>>,
}

impl OpenCalls {
    fn see(&mut self, message: &Arc<Message>) {
        for part in &message.parts {
            match part {
                Part::Known(KnownPart::Call { id, .. }) => {
                    self.calls.push(id.clone());
                    self.asked_by = Some(message.clone());
                }
                Part::Known(KnownPart::Result { id, .. }) => self.calls.retain(|open| open != id),
                Part::Known(
                    KnownPart::Text { .. }
                    | KnownPart::Thinking { .. }
                    | KnownPart::Image { .. }
                    | KnownPart::File { .. }
                    | KnownPart::Boundary { .. },
                )
                | Part::Other(_) => {}
            }
        }
    }

    /// The message that answers what nobody answered.
    fn close(&mut self) -> Option<Arc<Message>> {
        let asked_by = self.asked_by.take();
        let calls = std::mem::take(&mut self.calls);
        let asked_by = asked_by.filter(|_| !calls.is_empty())?;
        let results = calls.into_iter().map(|id| Part::result(id, vec![Part::text(NO_RESULT)], true)).collect();
        let id = format!("{}-interrupted", asked_by.id).into();
        Some(Arc::new(Message::of(id, Role::Tool, results, asked_by.at)))
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
