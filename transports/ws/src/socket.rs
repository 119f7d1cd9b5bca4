//! One WebSocket, one task: reads messages to a [`Peer`], writes what its [`Outbox`] holds, pings, and parts.
//! Invariant: reading never waits for writing nor writing for reading; what waits is bounded by [`WsLimits`], and a reader
//! that does not read is cut off. Small messages are gathered in tungstenite's buffer; a large one is written from where it
//! lies, so that no socket ever copies it or keeps its room. No permessage-deflate: small messages on a loopback gain nothing from it, every socket
//! would keep a window of tens of KiB, and the size limit would have to hold after inflation as well. Clauses: L01, L23, C05, C14.

use crate::{
    WsLimits,
    outbox::{Out, Outbox},
};
use bytes::Bytes;
use futures_util::{Sink, Stream};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Instant, Sleep, sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        protocol::{
            Role, WebSocketConfig,
            frame::{
                CloseFrame, Frame, FrameHeader,
                coding::{CloseCode, Data, OpCode},
            },
        },
    },
};
use tokio_util::sync::CancellationToken;

/// Bytes that are gathered for one write.
const BATCH_BYTES: usize = 16 << 10;
/// Eagerly allocated for each socket; the default of 128 KiB would be most of what an idle one costs.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// What the write buffer may hold: one batch, the message that passes its mark, and control frames. The outbox is the bound
/// that acts; this one only keeps a defect from growing.
const WRITE_BUFFER_BYTES: usize = 4 * BATCH_BYTES;
/// Bytes on the wire that one message may take, as a multiple of what it may hold: a byte a fragment is seven, and a client
/// that never ends a message (empty fragments hold nothing) is not listened to forever.
const FRAGMENTED: usize = 8;
/// The same, at least.
const FRAGMENTED_BYTES: usize = 64 << 10;
/// Pings that are taken while their pongs cannot be written; after that the socket is not read until they can.
const OWED_PONGS: usize = 32;
/// Messages that are read in a row before what waits is written, however fast they come.
const STREAK: usize = 64;
/// Read and thrown away at most, so that a client that is still sending reads the close frame instead of a reset.
const DISCARD_BYTES: usize = 4 << 20;

/// What stands behind a socket. Neither call may block.
pub trait Peer: Send + 'static {
    /// A text message came.
    fn text(&mut self, text: Utf8Bytes);

    /// A binary message came; the error closes the connection. Refused unless said otherwise.
    fn binary(&mut self, _bytes: Bytes) -> Result<(), CloseFrame> {
        Err(frame(CloseCode::Unsupported, "text messages only"))
    }

    /// Whether more may be read now. Looked at whenever the outbox [wakes](Outbox::wake) the socket.
    fn takes_more(&self) -> bool {
        true
    }

    /// Whether calls are in flight; a server that stops waits for them.
    fn busy(&self) -> bool {
        false
    }

    /// The server begins to stop; calls in flight may end.
    fn stopping(&mut self) {}

    /// The connection is over: nothing that is handed in reaches anybody.
    fn gone(&mut self);
}

/// Makes a peer for each socket.
pub trait Front: Send + Sync + 'static {
    /// What stands behind one socket.
    type Peer: Peer;

    /// A socket is open; `outbox` leads to it.
    fn open(&self, outbox: Outbox) -> Self::Peer;
}

/// A close frame with a fixed reason.
pub fn frame(code: CloseCode, reason: &'static str) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::from_static(reason) }
}

/// Serves an upgraded stream to its end; `early` are bytes that came behind the handshake.
pub(crate) async fn run<S, P>(
    stream: S,
    early: Vec<u8>,
    mut peer: P,
    outbox: Outbox,
    limits: &WsLimits,
    stop: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Peer,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(BATCH_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
        .accept_unmasked_frames(false);
    let most = limits.message_bytes.saturating_mul(FRAGMENTED).max(FRAGMENTED_BYTES);
    let ws = WebSocketStream::from_partially_read(Meter::new(stream, most), early, Role::Server, Some(config)).await;
    let mut wire = Wire {
        ws,
        outbox: outbox.clone(),
        unflushed: false,
        large: None,
        blocked: false,
        owed: 0,
        streak: 0,
        deaf: false,
        pinged: None,
    };
    let end = wire.serve(&mut peer, limits, stop).await;
    // Forwarders end and budgets are free before the parting, which may take a while.
    peer.gone();
    if matches!(end, End::Fault(_)) {
        // What was answered before the fault came is owed.
        let rest = std::future::poll_fn(|cx| wire.poll_rest(cx));
        let _ = timeout(limits.closing, rest).await;
    }
    outbox.shut();
    wire.part(end, limits).await;
}

/// Why a socket ends.
#[derive(Debug)]
enum End {
    /// The peer closed; its close frame is answered.
    Over,
    /// The peer is gone; there is nobody to tell.
    Gone,
    /// We close, and say why.
    Close(CloseFrame),
    /// We close because of what was sent to us, and say why.
    Fault(CloseFrame),
    /// We close on a reader that does not read.
    Stalled,
}

/// What a turn of the socket brought.
enum Step {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// A server that stops has nothing more to say here.
    Drained,
    End(End),
}

/// The socket and what is known of the other side.
struct Wire<S> {
    ws: WebSocketStream<Meter<S>>,
    outbox: Outbox,
    /// Whether bytes were handed to the WebSocket since the last whole flush.
    unflushed: bool,
    /// A large frame of ours, or frames that are shared, being written past the WebSocket's own buffer.
    large: Option<Large>,
    /// Whether the last flush had to wait for the reader.
    blocked: bool,
    /// Pings read since the last whole flush.
    owed: usize,
    /// Messages read since something was written.
    streak: usize,
    /// Whether nothing is read for now; what is not listened to is not silent.
    deaf: bool,
    /// When the silence was last answered with a ping.
    pinged: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    async fn serve<P: Peer>(&mut self, peer: &mut P, limits: &WsLimits, stop: &CancellationToken) -> End {
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut timer = std::pin::pin!(sleep_until(Instant::now() + look_every(limits)));
        let mut drain_by: Option<Instant> = None;
        loop {
            let draining = drain_by.is_some();
            let step = tokio::select! {
                biased;
                () = &mut stopped, if !draining => {
                    drain_by = Some(Instant::now() + limits.drain);
                    timer.as_mut().reset(Instant::now());
                    peer.stopping();
                    continue;
                }
                step = std::future::poll_fn(|cx| self.poll(cx, peer, draining, limits)) => step,
                () = &mut timer => match self.tick(timer.as_mut(), drain_by, limits) {
                    Some(end) => return end,
                    None => continue,
                },
            };
            match step {
                Step::Text(text) => peer.text(text),
                Step::Binary(bytes) => {
                    if let Err(close) = peer.binary(bytes) {
                        return End::Fault(close);
                    }
                }
                Step::Drained => return End::Close(frame(CloseCode::Away, "the server stops")),
                Step::End(end) => return end,
            }
        }
    }

    /// Reads while there is something to read and little to write; else writes a batch. Cancel safe: the state is in `self`.
    fn poll<P: Peer>(&mut self, cx: &mut Context<'_>, peer: &mut P, draining: bool, limits: &WsLimits) -> Poll<Step> {
        self.outbox.watch(cx.waker());
        loop {
            let look = self.outbox.look();
            if let Some(close) = look.close {
                return Poll::Ready(Step::End(End::Close(close)));
            }
            let may_read = look.reply_bytes < limits.reply_bytes && self.owed < OWED_PONGS && peer.takes_more();
            self.deaf = !may_read;
            // Replies gather while requests are waiting, so that a burst is answered in few writes.
            let read_first = may_read && look.reply_bytes < BATCH_BYTES && self.streak < STREAK;
            if read_first && let Poll::Ready(read) = self.poll_read(cx) {
                match read {
                    Some(step) => return Poll::Ready(step),
                    None => continue,
                }
            }
            match self.poll_write(cx) {
                Poll::Ready(Ok(wrote)) => {
                    self.streak = 0;
                    if wrote || (may_read && !read_first) {
                        continue;
                    }
                    if draining && !peer.busy() && !self.outbox.look().waiting {
                        return Poll::Ready(Step::Drained);
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Step::End(End::Gone)),
                // A reader that is slow can still say stop.
                Poll::Pending if may_read && !read_first => {
                    if let Poll::Ready(read) = self.poll_read(cx) {
                        match read {
                            Some(step) => return Poll::Ready(step),
                            None => continue,
                        }
                    }
                }
                Poll::Pending => {}
            }
            return Poll::Pending;
        }
    }

    /// Reads one message. `None`: a control message that is dealt with.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        let read = ready!(Pin::new(&mut self.ws).poll_next(cx));
        self.streak += 1;
        Poll::Ready(self.read(read))
    }

    /// Writes one batch to the system. `false`: nothing was there to be written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        if !self.unflushed && self.owed == 0 && self.large.is_none() {
            let batch = match self.outbox.take(BATCH_BYTES) {
                Out::Messages(batch) if batch.is_empty() => return Poll::Ready(Ok(false)),
                Out::Messages(batch) => batch,
                Out::Frames(frames) => {
                    self.large = Some(Large { head: Vec::new(), payload: frames, written: 0 });
                    self.ws.get_mut().gated = true;
                    Vec::new()
                }
            };
            for message in batch {
                match Large::of(message) {
                    Ok(large) => {
                        // It comes alone, and all that went before is flushed: its bytes are the next ones on the wire.
                        self.large = Some(large);
                        self.ws.get_mut().gated = true;
                    }
                    // Never more than one batch beyond what was flushed: the buffer has room.
                    Err(message) => {
                        Pin::new(&mut self.ws).start_send(message)?;
                        self.unflushed = true;
                    }
                }
            }
        }
        let flushed = if self.large.is_some() { self.poll_large(cx) } else { Pin::new(&mut self.ws).poll_flush(cx) };
        if flushed.is_pending() && !self.blocked {
            self.blocked = true;
            self.ws.get_mut().wrote = Instant::now();
        }
        ready!(flushed)?;
        self.blocked = false;
        if self.large.take().is_some() {
            // Pongs may have become due while it was written; the next turn sends them.
            self.ws.get_mut().gated = false;
        } else {
            (self.unflushed, self.owed) = (false, 0);
        }
        Poll::Ready(Ok(true))
    }

    /// Writes all that waits.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Ok(true) = ready!(self.poll_write(cx)) {}
        Poll::Ready(())
    }

    /// Writes on at the large frame, past the gate that holds everything else back.
    fn poll_large(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(large) = &mut self.large else { return Poll::Ready(Ok(())) };
        let meter = self.ws.get_mut();
        while let Some(rest) = large.rest() {
            let count = ready!(Pin::new(&mut meter.inner).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(Error::Io(io::ErrorKind::WriteZero.into())));
            }
            meter.wrote = Instant::now();
            large.written += count;
        }
        Poll::Ready(Ok(()))
    }

    /// What a read means; `None`: a control message that is dealt with.
    fn read(&mut self, read: Option<Result<Message, Error>>) -> Option<Step> {
        match read {
            Some(Ok(Message::Text(text))) => {
                self.ws.get_mut().unended = 0;
                Some(Step::Text(text))
            }
            Some(Ok(Message::Binary(bytes))) => {
                self.ws.get_mut().unended = 0;
                Some(Step::Binary(bytes))
            }
            Some(Ok(Message::Ping(payload))) => {
                self.ws.get_mut().control(payload.len());
                // tungstenite owes the pong, and keeps only the last one while none can be written.
                self.owed += 1;
                None
            }
            Some(Ok(Message::Pong(payload))) => {
                self.ws.get_mut().control(payload.len());
                None
            }
            Some(Ok(Message::Frame(_))) => None,
            Some(Ok(Message::Close(_))) | None => Some(Step::End(End::Over)),
            Some(Err(_)) if self.ws.get_ref().over() => {
                // What still comes is thrown away, and counted elsewhere.
                self.ws.get_mut().most = usize::MAX;
                Some(Step::End(End::Fault(frame(CloseCode::Size, "the message has too many fragments"))))
            }
            Some(Err(err)) => Some(Step::End(failed(&err))),
        }
    }

    /// Looks at the clocks, and sets the timer for the next look.
    fn tick(&mut self, mut timer: Pin<&mut Sleep>, drain_by: Option<Instant>, limits: &WsLimits) -> Option<End> {
        let now = Instant::now();
        if self.deaf {
            self.ws.get_mut().heard = now;
        }
        let Meter { heard, wrote, .. } = *self.ws.get_ref();
        if self.blocked && now >= wrote + limits.stall {
            return Some(End::Stalled);
        }
        // What a slow reader does not read it cannot answer either: its stall is the judge, not its silence.
        if !self.blocked && now >= heard + limits.silence {
            tracing::debug!("a client fell silent");
            return Some(End::Gone);
        }
        if drain_by.is_some_and(|by| now >= by) {
            return Some(End::Close(frame(CloseCode::Away, "the server stops")));
        }
        if self.pinged.is_some_and(|at| heard > at) {
            self.pinged = None;
        }
        let since = self.pinged.unwrap_or(heard);
        if now >= since + limits.ping_after && !self.blocked {
            self.outbox.push(Message::Ping(Bytes::new()));
            self.pinged = Some(now);
        }
        let mut next = now + look_every(limits);
        next = next.min(self.pinged.unwrap_or(heard) + limits.ping_after);
        next = if self.blocked { next.min(wrote + limits.stall) } else { next.min(heard + limits.silence) };
        next = drain_by.map_or(next, |by| next.min(by));
        // A blocked socket's ping is due and cannot be sent: never spin on it.
        timer.as_mut().reset(next.max(now + limits.ping_after / 16));
        None
    }

    /// The closing handshake, as far as the other side goes along with it.
    async fn part(&mut self, end: End, limits: &WsLimits) {
        let (close, patience) = match end {
            End::Gone => return,
            End::Over => (None, limits.closing),
            End::Close(close) | End::Fault(close) => (Some(close), limits.closing),
            End::Stalled => {
                tracing::info!("a client that does not read was cut off");
                (Some(frame(CloseCode::Again, "too slow")), limits.parting)
            }
        };
        let tell = async {
            // A frame that is begun is ended, or no other can follow.
            std::future::poll_fn(|cx| self.poll_large(cx)).await.ok()?;
            self.ws.get_mut().gated = false;
            if let Some(close) = close {
                std::future::poll_fn(|cx| Pin::new(&mut self.ws).poll_ready(cx)).await.ok()?;
                Pin::new(&mut self.ws).start_send(Message::Close(Some(close))).ok()?;
            }
            std::future::poll_fn(|cx| Pin::new(&mut self.ws).poll_flush(cx)).await.ok()
        };
        if !matches!(timeout(patience, tell).await, Ok(Some(()))) {
            return;
        }
        let agree = async {
            // Up to the client's own close frame; after a fault of its own it is read no further, and the rest thrown away.
            while let Some(Ok(_)) = std::future::poll_fn(|cx| Pin::new(&mut self.ws).poll_next(cx)).await {}
            discard(self.ws.get_mut()).await
        };
        // Whether it agrees makes no difference.
        let _ = timeout(limits.closing, agree).await;
    }
}

/// How often a socket's clocks are looked at: it may block at any moment, and its stall is to be noticed in time.
fn look_every(limits: &WsLimits) -> std::time::Duration {
    (limits.ping_after / 2).min(limits.stall)
}

/// Ends our side and reads what is underway, so that the system does not answer it with a reset.
async fn discard<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut Meter<S>) -> io::Result<()> {
    stream.shutdown().await?;
    let mut sink = vec![0_u8; READ_BUFFER_BYTES];
    let mut left = DISCARD_BYTES;
    while left > 0 {
        match stream.read(&mut sink).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

/// The close code that RFC 6455 has for a failed read.
fn failed(err: &Error) -> End {
    match err {
        Error::Capacity(_) => End::Fault(frame(CloseCode::Size, "the message is too large")),
        Error::Utf8(_) => End::Fault(frame(CloseCode::Invalid, "a text message must be UTF-8")),
        Error::Protocol(tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            End::Gone
        }
        Error::Protocol(_) => End::Fault(frame(CloseCode::Protocol, "this is no WebSocket frame")),
        // There is nobody left to be told.
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Io(_)
        | Error::Tls(_)
        | Error::WriteBufferFull(_)
        | Error::AttackAttempt
        | Error::Url(_)
        | Error::Http(_)
        | Error::HttpFormat(_) => End::Gone,
    }
}

/// A frame that is too large to be copied.
struct Large {
    head: Vec<u8>,
    payload: Bytes,
    /// Bytes of both that are on the wire.
    written: usize,
}

impl Large {
    /// `Err`: the message is small, or none of data.
    fn of(message: Message) -> Result<Self, Message> {
        if message.len() <= BATCH_BYTES {
            return Err(message);
        }
        let (opcode, payload) = match message {
            Message::Text(text) => (OpCode::Data(Data::Text), Bytes::from(text)),
            Message::Binary(bytes) => (OpCode::Data(Data::Binary), bytes),
            Message::Frame(frame) => (frame.header().opcode, frame.into_payload()),
            small @ (Message::Ping(_) | Message::Pong(_) | Message::Close(_)) => return Err(small),
        };
        // Final, without a mask: a server's.
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let mut head = Vec::new();
        let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        match header.format(length, &mut head) {
            Ok(()) => Ok(Self { head, payload, written: 0 }),
            Err(_) => Err(Message::Frame(Frame::message(payload, opcode, true))),
        }
    }

    /// What comes next; `None`: it is written whole.
    fn rest(&self) -> Option<&[u8]> {
        let (head, payload) = match self.written.checked_sub(self.head.len()) {
            None => (self.head.get(self.written..).unwrap_or_default(), 0),
            Some(payload) => (&[][..], payload),
        };
        let rest = if head.is_empty() { self.payload.get(payload..).unwrap_or_default() } else { head };
        (!rest.is_empty()).then_some(rest)
    }
}

/// A stream that knows when it last moved a byte in either direction, and how many came since a message ended.
struct Meter<S> {
    inner: S,
    heard: Instant,
    wrote: Instant,
    /// Whether the WebSocket must not write: a frame that it does not know of is underway.
    gated: bool,
    /// Bytes that came since a message of data ended, without those of control frames.
    unended: usize,
    /// What `unended` may reach.
    most: usize,
}

/// Bytes of a client's control frame beside its payload.
const CONTROL_BYTES: usize = 6;

impl<S> Meter<S> {
    fn new(inner: S, most: usize) -> Self {
        let now = Instant::now();
        Self { inner, heard: now, wrote: now, gated: false, unended: 0, most }
    }

    /// A control frame may come at any time, and is no part of a message.
    fn control(&mut self, payload: usize) {
        self.unended = self.unended.saturating_sub(payload + CONTROL_BYTES);
    }

    fn over(&self) -> bool {
        self.unended > self.most
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Meter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.over() {
            return Poll::Ready(Err(io::Error::other("a message that does not end")));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let count = buf.filled().len().saturating_sub(before);
        if count > 0 {
            self.heard = Instant::now();
            self.unended = self.unended.saturating_add(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Meter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.gated {
            // Whoever opens the gate flushes next.
            return Poll::Pending;
        }
        let count = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.wrote = Instant::now();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
