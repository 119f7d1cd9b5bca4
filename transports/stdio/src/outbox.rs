//! What waits to be written, in the order in which it was handed in.
//! Invariants: a line is written whole and never mixed with another; waiting output is bounded by the two budgets and one
//! line past them for each that hands in. A closed outbox takes everything and keeps nothing. Clause: C14.

use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Bytes that one write takes at most.
pub(crate) const WRITE_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    readable: Notify,
    /// Told whenever something was taken, or the outbox was closed.
    taken: Notify,
    reply_bytes: usize,
    event_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Bytes>,
    /// How much of the first line is taken.
    begun: usize,
    /// What is in `lines` and not taken.
    bytes: usize,
    closed: bool,
}

impl Outbox {
    /// Replies wait once `reply_bytes` do, events once `event_bytes` do.
    pub(crate) fn new(reply_bytes: usize, event_bytes: usize) -> Self {
        Self { state: Mutex::default(), readable: Notify::new(), taken: Notify::new(), reply_bytes, event_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands in a line, without its end, at once.
    pub(crate) fn push(&self, line: Bytes) {
        let mut state = self.state();
        if !state.closed {
            state.bytes += line.len() + 1;
            state.lines.push_back(line);
            drop(state);
            self.readable.notify_one();
        }
    }

    /// Hands in a reply once there is room for replies.
    pub(crate) async fn reply(&self, line: Bytes) {
        self.room(self.reply_bytes).await;
        self.push(line);
    }

    /// Waits for room for events. `false`: the outbox is closed.
    pub(crate) async fn event_room(&self) -> bool {
        self.room(self.event_bytes).await
    }

    async fn room(&self, budget: usize) -> bool {
        loop {
            let taken = self.taken.notified();
            {
                let state = self.state();
                if state.closed || state.bytes < budget {
                    return !state.closed;
                }
            }
            taken.await;
        }
    }

    /// Whether so much waits that reading should stop.
    pub(crate) fn crowded(&self) -> bool {
        self.state().bytes >= self.reply_bytes
    }

    /// Waits until something is there to be taken, or may be.
    pub(crate) async fn readable(&self) {
        self.readable.notified().await;
    }

    /// Moves waiting lines, each with its end, into `out`: whole ones as long as they fit into [`WRITE_BYTES`]; one that
    /// never would in pieces.
    pub(crate) fn take(&self, out: &mut Vec<u8>) {
        let mut state = self.state();
        let before = out.len();
        while let Some(line) = state.lines.front() {
            let rest = line.get(state.begun..).unwrap_or_default();
            let room = WRITE_BYTES.saturating_sub(out.len());
            if rest.len() < room {
                out.extend_from_slice(rest);
                out.push(b'\n');
                state.begun = 0;
                state.lines.pop_front();
            } else if out.is_empty() {
                let piece = rest.get(..room).unwrap_or(rest);
                out.extend_from_slice(piece);
                state.begun += piece.len();
                break;
            } else {
                break;
            }
        }
        let taken = out.len() - before;
        state.bytes = state.bytes.saturating_sub(taken);
        drop(state);
        if taken > 0 {
            self.taken.notify_waiters();
        }
    }

    /// Drops what waits, and takes nothing more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        *state = State { closed: true, ..State::default() };
        drop(state);
        self.taken.notify_waiters();
        self.readable.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn take(outbox: &Outbox) -> String {
        let mut out = Vec::new();
        outbox.take(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn small_lines_are_put_together_and_large_ones_are_cut() {
        let outbox = Outbox::new(1, 1);
        let large = "x".repeat(WRITE_BYTES + 10);
        for line in ["a", "b", &large, "c", &"y".repeat(WRITE_BYTES - 1), "d"] {
            outbox.push(Bytes::copy_from_slice(line.as_bytes()));
        }
        assert_eq!(take(&outbox), "a\nb\n");
        assert_eq!(take(&outbox), "x".repeat(WRITE_BYTES));
        assert_eq!(take(&outbox), format!("{}\nc\n", "x".repeat(10)));
        assert_eq!(take(&outbox), "y".repeat(WRITE_BYTES - 1) + "\n");
        assert_eq!(take(&outbox), "d\n");
        assert_eq!(take(&outbox), "");
        assert_eq!(outbox.state().bytes, 0);
    }

    #[test]
    fn a_line_as_long_as_a_write_still_gets_its_end() {
        let outbox = Outbox::new(1, 1);
        outbox.push("x".repeat(WRITE_BYTES).into());
        assert_eq!(take(&outbox), "x".repeat(WRITE_BYTES));
        assert_eq!(take(&outbox), "\n");
    }

    #[test]
    fn events_wait_before_replies_do_and_a_closed_outbox_lets_all_go() {
        let outbox = Outbox::new(100, 10);
        outbox.push(vec![b'x'; 50].into());
        assert!(!outbox.crowded());
        assert_eq!(outbox.event_room().now_or_never(), None);
        outbox.reply(vec![b'x'; 60].into()).now_or_never().unwrap();
        assert!(outbox.crowded());
        let mut waiting = Box::pin(outbox.reply(Bytes::new()));
        assert_eq!((&mut waiting).now_or_never(), None);
        outbox.close();
        assert_eq!(waiting.now_or_never(), Some(()));
        assert_eq!(outbox.event_room().now_or_never(), Some(false));
        assert_eq!(take(&outbox), "");
    }
}
