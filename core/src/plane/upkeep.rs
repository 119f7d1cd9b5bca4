//! What is done to a session's history as a whole: clear, compact, undo, rewind, and files put back.
//! Undo and rewind append; nothing is rewritten. Once begun they go on though the caller leaves. Clauses: L07, H22, S21.

use super::{
    Plane,
    files::{self, Restored},
    runs::odd_reply,
};
use crate::{
    PlaneError,
    session::{
        fresh_id,
        input::{ClearWhen, Input, Reply},
        now_ms, run_id,
    },
    store::{Blobs, History},
};
use std::path::{Path, PathBuf};
use triplane_protocol::{
    MessageId, Role, SessionId,
    event::CloseReason,
    record::{Checkpoint, Record},
};

/// What a rewind is to do.
#[derive(Debug, Clone)]
pub struct Rewind {
    /// The last message that stays; `None`: none stays.
    pub to: Option<MessageId>,
    /// Whether the files that the removed messages changed are put back.
    pub files: bool,
    /// Only say what would happen.
    pub dry: bool,
}

/// What a rewind did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewound {
    /// How many messages went.
    pub removed: usize,
    /// The text of the first that went, when it was a prompt.
    pub prompt: Option<String>,
    /// What became of the files.
    pub files: Restored,
}

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The prompt that was taken back.
    pub prompt: String,
    /// What became of the files that its run changed.
    pub files: Restored,
}

/// What a compaction did, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Before.
    pub before_tokens: u64,
    /// After.
    pub after_tokens: u64,
}

impl Plane {
    /// Empties the history of a live session; the transcript gets a boundary at once, or (L07) with the next prompt.
    /// Errors: `NotFound` when not live, `Busy`. Clauses: L07, H22.
    pub async fn clear(&self, id: &SessionId, when: ClearWhen) -> Result<(), PlaneError> {
        let boundary = MessageId::from(fresh_id());
        self.live(id)?.ask(|ticket| Input::Clear(ticket, boundary, now_ms(), when)).await.map(drop)
    }

    /// Summarises the history of a live session by its own model; what it sees from then on is the summary.
    /// Errors: `NotFound` when not live, `Busy`, `Unavailable` with the model's own words, `Cancelled`. Clause: H22.
    pub async fn compact(&self, id: &SessionId) -> Result<Compacted, PlaneError> {
        match self.live(id)?.ask(|ticket| Input::Compact(ticket, run_id())).await? {
            Reply::Compacted(before_tokens, after_tokens) => Ok(Compacted { before_tokens, after_tokens }),
            Reply::Done | Reply::Cancelled(_) | Reply::Answered(_) => Err(odd_reply()),
        }
    }

    /// Takes the last prompt back, its answer, and the file changes that it made. Not past a clear or a compaction,
    /// unless it was the prompt's own run that needed it.
    /// Errors: `NotFound`, `Busy`, `Invalid` when there is nothing to undo. Clause: H22.
    pub async fn undo(&self, id: &SessionId) -> Result<Undone, PlaneError> {
        self.at_rest(id, |history, cwd, blobs| {
            let messages = history.messages();
            let found = history.last_prompt().and_then(|at| messages.get(at).map(|message| (at, message)));
            let Some((at, message)) = found else {
                return Err(PlaneError::Invalid("there is no prompt to take back".into()));
            };
            let prompt = message.plain_text();
            let checkpoints = checkpoints_from(history, at);
            let files = files::restore(&checkpoints, None, cwd, blobs, false);
            let to = at.checked_sub(1).and_then(|before| messages.get(before)).map(|message| message.id.clone());
            Ok((vec![Record::Rewind { to }], Undone { prompt, files }))
        })
        .await
    }

    /// Goes back to a message; a live session is detached with reason `rewind`, to be attached again.
    /// Errors: `NotFound`, `Busy`, `Locked`, `InvalidParams` when `to` is no message. Clause: S21.
    pub async fn rewind(&self, id: &SessionId, rewind: Rewind) -> Result<Rewound, PlaneError> {
        let dry = rewind.dry;
        let rewound = self.at_rest(id, move |history, cwd, blobs| {
            let keep = kept(history, rewind.to.as_ref())?;
            let messages = history.messages();
            let first = messages.get(keep).filter(|message| message.role == Role::User);
            let files = match rewind.files {
                true => files::restore(&checkpoints_from(history, keep), None, cwd, blobs, dry),
                false => Restored::default(),
            };
            let removed = messages.len() - keep;
            let records = if dry || removed == 0 { Vec::new() } else { vec![Record::Rewind { to: rewind.to }] };
            Ok((records, Rewound { removed, prompt: first.map(|message| message.plain_text()), files }))
        });
        let rewound = rewound.await?;
        if !dry {
            self.detach(id, CloseReason::Rewind).await?;
        }
        Ok(rewound)
    }

    /// Puts files back as they were right after message `to` (`None`: before the first), all or those of `paths`
    /// (absolute, or relative to the session's directory). Errors: `NotFound`, `Busy`, `Locked`, `InvalidParams`. Clause: S21.
    pub async fn restore(
        &self,
        id: &SessionId,
        to: Option<MessageId>,
        paths: Option<Vec<String>>,
        dry: bool,
    ) -> Result<Restored, PlaneError> {
        self.at_rest(id, move |history, cwd, blobs| {
            let keep = kept(history, to.as_ref())?;
            let checkpoints = checkpoints_from(history, keep);
            Ok((Vec::new(), files::restore(&checkpoints, paths.as_deref(), cwd, blobs, dry)))
        })
        .await
    }

    /// Does `work` while no run can begin, writes the records that it answers with, and lets the session go on.
    /// A session that is not live is locked for as long as it takes. Goes on though the caller leaves.
    async fn at_rest<T, F>(&self, id: &SessionId, work: F) -> Result<T, PlaneError>
    where
        T: Send + 'static,
        F: FnOnce(&History, &Path, &Blobs) -> Result<(Vec<Record>, T), PlaneError> + Send + 'static,
    {
        self.open_for_work()?;
        let (plane, id) = (self.clone(), id.clone());
        let task = self.inner.services.tracker.spawn(async move {
            match plane.peek(&id) {
                Some(_) => plane.at_rest_live(&id, work).await,
                None => plane.at_rest_stored(&id, work).await,
            }
        });
        task.await.map_err(|error| PlaneError::Internal(error.to_string()))?
    }

    async fn at_rest_live<T, F>(&self, id: &SessionId, work: F) -> Result<T, PlaneError>
    where
        T: Send + 'static,
        F: FnOnce(&History, &Path, &Blobs) -> Result<(Vec<Record>, T), PlaneError> + Send + 'static,
    {
        let live = self.live(id)?;
        live.ask(Input::Reserve).await?;
        let (history, cwd) = (live.machine().history.clone(), live.cwd.clone());
        let done = self.off_thread(history, cwd, work).await;
        let (records, out) = match done {
            Ok((records, out)) => (records, Ok(out)),
            Err(error) => (Vec::new(), Err(error)),
        };
        live.ask(|ticket| Input::Release(ticket, records)).await?;
        out
    }

    async fn at_rest_stored<T, F>(&self, id: &SessionId, work: F) -> Result<T, PlaneError>
    where
        T: Send + 'static,
        F: FnOnce(&History, &Path, &Blobs) -> Result<(Vec<Record>, T), PlaneError> + Send + 'static,
    {
        let gate = self.gate(id);
        let _turn = gate.lock().await;
        if !self.dir().exists(id) {
            return Err(PlaneError::no_session(id));
        }
        let lock = self.dir().lock(id, &self.inner.node.id, false).await?;
        let mut loaded = self.dir().load(id, lock).await?;
        let cwd =
            loaded.history.header().map_or_else(|| self.inner.config.cwd.clone(), |header| header.cwd.clone().into());
        let (records, out) = self.off_thread(loaded.history, cwd, work).await?;
        if !records.is_empty() {
            loaded.transcript.append(&records).await?;
        }
        Ok(out)
    }

    async fn off_thread<T, F>(&self, history: History, cwd: PathBuf, work: F) -> Result<(Vec<Record>, T), PlaneError>
    where
        T: Send + 'static,
        F: FnOnce(&History, &Path, &Blobs) -> Result<(Vec<Record>, T), PlaneError> + Send + 'static,
    {
        let dir = self.dir().clone();
        let task = tokio::task::spawn_blocking(move || work(&history, &cwd, dir.blobs()));
        task.await.map_err(|error| PlaneError::Internal(error.to_string()))?
    }
}

/// How many messages stay when `to` is the last of them.
fn kept(history: &History, to: Option<&MessageId>) -> Result<usize, PlaneError> {
    match to {
        None => Ok(0),
        Some(id) => history
            .position(id)
            .map(|at| at + 1)
            .ok_or_else(|| PlaneError::InvalidParams("to: is no message of this session".into())),
    }
}

/// The checkpoints of the messages from index `from` on.
fn checkpoints_from(history: &History, from: usize) -> Vec<Checkpoint> {
    let messages = history.messages().get(from..).unwrap_or_default();
    let of_them = |checkpoint: &&Checkpoint| messages.iter().any(|message| message.id == checkpoint.message);
    history.checkpoints().iter().filter(of_them).cloned().collect()
}
