//! A session's events as a response body: a position in the session's log that is read when the client has room.
//! Invariants: the subscription stands before the head is written; nothing is queued for a client beyond one batch; an event's
//! bytes are encoded once, however many read it, and hold no line break of a payload's making.
//! Clauses: H13, H15, H16, H17, C14.

use crate::config::HttpLimits;
use bytes::Bytes;
use std::{
    io::Write,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep, sleep},
};
use tokio_util::sync::{CancellationToken, ReusableBoxFuture, WaitForCancellationFutureOwned};
use triplane_common::framing;
use triplane_core::{
    Plane,
    feed::{Entry, Framed, Gap, Subscription},
};
use triplane_protocol::{
    AgentEvent, ErrorCode, Failure, SessionId,
    event::CloseReason,
    larik::{EventsHeaders, EventsQuery, REPLAY_GAP, ReplayGap},
};

/// Bytes of one frame, unless one event alone is larger (PERF: a write's worth).
const FRAME_BYTES: usize = 16 << 10;
/// Once, at the start: how long a client waits before it connects again.
const RETRY: &[u8] = b"retry: 1000\n\n";
/// Keeps the stream alive.
const COMMENT: &[u8] = b":\n\n";

/// Where a reader left off: the header wins. Errors: `invalid_params` for anything but digits.
pub(crate) fn cursor(query: &EventsQuery, headers: &EventsHeaders) -> Result<Option<u64>, Failure> {
    let given = match (&headers.last_event_id, &query.after) {
        (Some(text), _) => Some(("Last-Event-ID", text)),
        (None, Some(text)) => Some(("after", text)),
        (None, None) => None,
    };
    let parse = |(name, text): (&str, &String)| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let seq = digits.then(|| text.parse().ok()).flatten();
        seq.ok_or_else(|| Failure::new(ErrorCode::InvalidParams, format!("{name}: must be the seq of an event")))
    };
    given.map(parse).transpose()
}

/// What is read, and what is being waited for.
type Next = (Subscription, Framed);

async fn next(mut log: Subscription, session: SessionId) -> Next {
    let framed = log.next_framed(framing::SSE, FRAME_BYTES, |entry| encode(&session, entry)).await;
    (log, framed)
}

/// One client's stream.
pub(crate) struct EventStream {
    session: SessionId,
    plane: Plane,
    /// Holds the subscription.
    next: ReusableBoxFuture<'static, Next>,
    /// Written before anything else.
    head: Bytes,
    /// Taken from the log, not yet written.
    taken: Bytes,
    heartbeat: Duration,
    beat: Pin<Box<Sleep>>,
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    linger: Linger,
    _place: OwnedSemaphorePermit,
}

/// How far the stream's end is.
enum Linger {
    /// The server runs; so long a stream waits when it no longer does.
    Open(Duration),
    /// The server stops; the session's last word is waited for until then.
    Until(Pin<Box<Sleep>>),
    /// Nothing more is written.
    Over,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("session", &self.session).finish_non_exhaustive()
    }
}

impl EventStream {
    /// A stream from `log`'s position. `ending` fires when the server stops.
    pub(crate) fn new(
        plane: Plane,
        session: SessionId,
        log: Subscription,
        limits: &HttpLimits,
        ending: CancellationToken,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            next: ReusableBoxFuture::new(next(log, session.clone())),
            session,
            plane,
            head: Bytes::from_static(RETRY),
            taken: Bytes::new(),
            heartbeat: limits.heartbeat,
            beat: Box::pin(sleep(limits.heartbeat)),
            ending: Box::pin(ending.cancelled_owned()),
            linger: Linger::Open(limits.linger),
            _place: place,
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(frame) = self.frame() {
                return Poll::Ready(Some(frame));
            }
            if matches!(self.linger, Linger::Over) {
                return Poll::Ready(None);
            }
            // Read before the log, so that what was published before it went is still sent.
            let gone = self.stopping(cx) && !self.plane.is_live(&self.session);
            if let Poll::Ready((log, framed)) = self.next.poll(cx) {
                self.take(&log, framed);
                self.next.set(next(log, self.session.clone()));
                continue;
            }
            if gone || self.lingered(cx) {
                self.linger = Linger::Over;
                continue;
            }
            if self.beat.as_mut().poll(cx).is_ready() {
                self.beat.as_mut().reset(Instant::now() + self.heartbeat);
                return Poll::Ready(Some(Bytes::from_static(COMMENT)));
            }
            return Poll::Pending;
        }
    }

    /// What is to be written next. Events alone are shared, not copied.
    fn frame(&mut self) -> Option<Bytes> {
        let (head, taken) = (std::mem::take(&mut self.head), std::mem::take(&mut self.taken));
        match (head.is_empty(), taken.is_empty()) {
            (true, true) => None,
            (true, false) => Some(taken),
            (false, true) => Some(head),
            (false, false) => {
                self.taken = taken;
                Some(head)
            }
        }
    }

    fn take(&mut self, log: &Subscription, framed: Framed) {
        if let Some(gap) = framed.gap {
            self.head = encode_gap(gap, log.epoch());
        }
        if let (Linger::Until(_), Some(last)) = (&self.linger, &framed.last)
            && matches!(last.event, AgentEvent::SessionClosed { reason: CloseReason::Shutdown })
        {
            self.linger = Linger::Over;
        }
        self.taken = framed.bytes;
    }

    /// Whether the server stops; begins to linger when it does.
    fn stopping(&mut self, cx: &mut Context<'_>) -> bool {
        if let Linger::Open(linger) = self.linger
            && self.ending.as_mut().poll(cx).is_ready()
        {
            self.linger = Linger::Until(Box::pin(sleep(linger)));
        }
        !matches!(self.linger, Linger::Open(_))
    }

    fn lingered(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.linger {
            Linger::Until(end) => end.as_mut().poll(cx).is_ready(),
            Linger::Open(_) | Linger::Over => false,
        }
    }
}

/// `id`, `event` and `data` of one event, with its blank line. JSON text holds no raw line break, the type is one of a closed
/// set, and the id is a number: nothing in a payload can begin a field of its own.
fn encode(session: &SessionId, entry: &Entry) -> Bytes {
    let (seq, kind) = (entry.seq, entry.event.kind());
    // An event is an object with a `type`, so that members can be put before its brace.
    let open = entry.json.strip_suffix(b"}").unwrap_or(&entry.json);
    let comma = if open == b"{" { "" } else { "," };
    let mut out = Vec::with_capacity(open.len() + session.as_str().len() + 96);
    // Writing to memory does not fail.
    let _ = write!(out, "id: {seq}\nevent: {kind}\ndata: ");
    out.extend_from_slice(open);
    let _ = write!(out, "{comma}\"seq\":{seq},\"session\":\"{session}\"}}\n\n");
    out.into()
}

/// Has no `id:`, so that a client's cursor stays where it was.
fn encode_gap(gap: Gap, epoch: String) -> Bytes {
    let data = ReplayGap { from: gap.from, to: gap.to, epoch };
    let json = serde_json::to_string(&data).unwrap_or_default();
    format!("event: {REPLAY_GAP}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_wins_and_only_digits_are_a_cursor() {
        let at = |header: Option<&str>, after: Option<&str>| {
            let query = EventsQuery { after: after.map(str::to_owned) };
            let headers = EventsHeaders { last_event_id: header.map(str::to_owned) };
            cursor(&query, &headers).map_err(|failure| failure.message)
        };
        assert_eq!(at(None, None), Ok(None));
        assert_eq!(at(Some("37"), Some("10")), Ok(Some(37)));
        assert_eq!(at(None, Some("0")), Ok(Some(0)));
        for bad in ["", "-1", "+1", "abc", "1.0", " 1", "18446744073709551616", "１"] {
            assert_eq!(at(None, Some(bad)), Err("after: must be the seq of an event".into()), "{bad:?}");
            assert_eq!(at(Some(bad), Some("1")), Err("Last-Event-ID: must be the seq of an event".into()), "{bad:?}");
        }
    }

    #[test]
    fn no_payload_breaks_out_of_its_event() {
        let text = "\r\nevent: permission_resolved\r\ndata: {}\r\n\r\n\u{2028}\0";
        let entry = Entry::new(7, AgentEvent::LlmDelta { text: text.into() });
        let bytes = encode(&SessionId::parse("a").unwrap(), &entry);
        let frame = std::str::from_utf8(&bytes).unwrap();
        let lines: Vec<&str> = frame.split('\n').collect();
        assert_eq!(lines.len(), 5, "{frame:?}");
        assert_eq!((lines[0], lines[1], lines[3], lines[4]), ("id: 7", "event: llm_delta", "", ""));
        let data: serde_json::Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data, serde_json::json!({"type": "llm_delta", "text": text, "seq": 7, "session": "a"}));
        assert!(!frame.contains('\r') && !frame.contains('\0'));
    }

    #[test]
    fn a_gap_has_no_id() {
        let bytes = encode_gap(Gap { from: 101, to: 903 }, "e1".into());
        assert_eq!(
            std::str::from_utf8(&bytes).unwrap(),
            "event: replay_gap\ndata: {\"from\":101,\"to\":903,\"epoch\":\"e1\"}\n\n"
        );
    }
}
