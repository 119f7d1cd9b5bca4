//! What waits to be written to one socket: replies and events, in the order in which they were handed in.
//! Invariant: events never take more than their budget (their forwarder waits), and replies are handed in at once; the
//! socket stops reading while too many of them wait. A closed outbox takes everything and keeps nothing. Clauses: C14, L16.

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::tungstenite::{
    Message, Utf8Bytes,
    protocol::frame::{
        CloseFrame, Frame,
        coding::{CloseCode, Data, OpCode},
    },
};

/// Hands messages to one socket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    socket: AtomicWaker,
    /// One permit a byte of waiting events.
    events: Arc<Semaphore>,
    event_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Item>,
    /// Bytes of `queue` that are not events.
    reply_bytes: usize,
    close: Option<CloseFrame>,
    closed: bool,
}

#[derive(Debug)]
struct Item {
    message: Message,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Counts in `reply_bytes`.
    Reply,
    /// The last one of those that were handed in together gives their budget back when it is taken.
    Event(Option<OwnedSemaphorePermit>),
}

/// What a socket sees when it looks around.
#[derive(Debug)]
pub(crate) struct Look {
    /// Whether something waits to be written.
    pub(crate) waiting: bool,
    /// Bytes of waiting replies.
    pub(crate) reply_bytes: usize,
    /// Whether somebody wants the connection closed.
    pub(crate) close: Option<CloseFrame>,
}

impl Outbox {
    pub(crate) fn new(event_bytes: usize) -> Self {
        let events = Arc::new(Semaphore::new(event_bytes));
        Self(Arc::new(Shared { state: Mutex::default(), socket: AtomicWaker::new(), events, event_bytes }))
    }

    /// Hands in a reply; never waits. `text` must be UTF-8.
    pub fn reply(&self, text: Bytes) {
        self.push(text_message(text));
    }

    /// Hands in any message; never waits.
    pub fn push(&self, message: Message) {
        let mut state = self.lock();
        if !state.closed {
            state.reply_bytes += message.len();
            state.queue.push_back(Item { message, kind: Kind::Reply });
        }
        drop(state);
        self.wake();
    }

    /// Hands in events, in order; waits while earlier ones fill the budget. Each must be UTF-8. Cancel safe: dropped, none is handed in.
    pub async fn events(&self, texts: Vec<Bytes>) {
        if texts.is_empty() {
            return;
        }
        let bytes = texts.iter().map(Bytes::len).sum::<usize>().clamp(1, self.0.event_bytes);
        let wanted = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Closed together with the outbox: then nobody waits, and nothing is kept.
        let Ok(mut budget) = self.0.events.clone().acquire_many_owned(wanted).await.map(Some) else { return };
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let last = texts.len().saturating_sub(1);
        for (index, text) in texts.into_iter().enumerate() {
            let budget = if index == last { budget.take() } else { None };
            state.queue.push_back(Item { message: text_message(text), kind: Kind::Event(budget) });
        }
        drop(state);
        self.wake();
    }

    /// Asks the socket to close with `code`, before anything that still waits.
    pub fn close(&self, code: CloseCode, reason: &'static str) {
        self.lock().close.get_or_insert(CloseFrame { code, reason: Utf8Bytes::from_static(reason) });
        self.wake();
    }

    /// Lets the socket look around again: something that it waits for may have ended.
    pub fn wake(&self) {
        self.0.socket.wake();
    }

    pub(crate) fn watch(&self, waker: &Waker) {
        self.0.socket.register(waker);
    }

    pub(crate) fn look(&self) -> Look {
        let state = self.lock();
        Look { waiting: !state.queue.is_empty(), reply_bytes: state.reply_bytes, close: state.close.clone() }
    }

    /// Takes messages in order until `bytes` are reached or passed; one that is larger than that comes alone.
    pub(crate) fn take(&self, bytes: usize) -> Vec<Message> {
        let mut state = self.lock();
        let (mut taken, mut total) = (Vec::new(), 0);
        while total < bytes {
            let fits = |item: &mut Item| taken.is_empty() || item.message.len() <= bytes;
            let Some(Item { message, kind }) = state.queue.pop_front_if(fits) else { break };
            total += message.len();
            match kind {
                Kind::Reply => state.reply_bytes = state.reply_bytes.saturating_sub(message.len()),
                Kind::Event(budget) => drop(budget),
            }
            taken.push(message);
        }
        if state.queue.is_empty() {
            // A burst must not keep its room for as long as the connection lives.
            state.queue.shrink_to(16);
        }
        taken
    }

    /// Drops what waits and everything that comes.
    pub(crate) fn shut(&self) {
        let dropped = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        drop(dropped);
        self.0.events.close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A whole text message around shared bytes: the server's frames carry no mask, so nothing is copied but into the socket's buffer.
fn text_message(text: Bytes) -> Message {
    Message::Frame(Frame::message(text, OpCode::Data(Data::Text), true))
}
