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
        CloseFrame, Frame, FrameHeader,
        coding::{CloseCode, Data, OpCode},
    },
};

/// Bytes of the longest header of a frame without a mask.
const HEADER_BYTES: usize = 10;

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
enum Item {
    /// Counts in `reply_bytes`.
    Reply(Message),
    /// Whole frames, with the budget that they take until they are taken.
    Events(Bytes, OwnedSemaphorePermit),
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Self::Reply(message) => message.len(),
            Self::Events(frames, _) => frames.len(),
        }
    }
}

/// What a socket writes next.
#[derive(Debug)]
pub(crate) enum Out {
    /// Messages, to be framed.
    Messages(Vec<Message>),
    /// Whole frames, written as they are.
    Frames(Bytes),
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
            state.queue.push_back(Item::Reply(message));
        }
        drop(state);
        self.wake();
    }

    /// Hands in events as whole frames (see [`text_frame`]); waits while earlier ones fill the budget. Cancel safe: dropped, none is
    /// handed in.
    pub async fn events(&self, frames: Bytes) {
        if frames.is_empty() {
            return;
        }
        let wanted = u32::try_from(frames.len().clamp(1, self.0.event_bytes)).unwrap_or(u32::MAX);
        // Closed together with the outbox: then nobody waits, and nothing is kept.
        let Ok(budget) = self.0.events.clone().acquire_many_owned(wanted).await else { return };
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.queue.push_back(Item::Events(frames, budget));
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

    /// Takes messages in order until `bytes` are reached or passed; one that is larger than that comes alone, and so do frames.
    pub(crate) fn take(&self, bytes: usize) -> Out {
        let mut state = self.lock();
        let (mut taken, mut total) = (Vec::new(), 0);
        while total < bytes {
            let fits = |item: &mut Item| taken.is_empty() || (matches!(item, Item::Reply(_)) && item.len() <= bytes);
            match state.queue.pop_front_if(fits) {
                None => break,
                Some(Item::Events(frames, _budget)) => {
                    tidy(&mut state);
                    return Out::Frames(frames);
                }
                Some(Item::Reply(message)) => {
                    total += message.len();
                    state.reply_bytes = state.reply_bytes.saturating_sub(message.len());
                    taken.push(message);
                }
            }
        }
        tidy(&mut state);
        Out::Messages(taken)
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

/// A burst must not keep its room for as long as the connection lives.
fn tidy(state: &mut State) {
    if state.queue.is_empty() {
        state.queue.shrink_to(16);
    }
}

/// A text as a whole frame of a server: final, and without a mask, so that all sockets can share it.
pub fn text_frame(pieces: &[&[u8]]) -> Bytes {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let header = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
    let mut frame = Vec::with_capacity(length + HEADER_BYTES);
    if let Err(error) = header.format(length as u64, &mut frame) {
        tracing::error!(%error, "a frame's header could not be written");
    }
    pieces.iter().for_each(|piece| frame.extend_from_slice(piece));
    frame.into()
}

/// A whole text message around shared bytes: the server's frames carry no mask, so nothing is copied but into the socket's buffer.
fn text_message(text: Bytes) -> Message {
    Message::Frame(Frame::message(text, OpCode::Data(Data::Text), true))
}
