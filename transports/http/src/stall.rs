//! A connection whose peer takes nothing for too long is cut off, whatever is being written to it.
//! Invariant: the clock runs only while a write waits. Clause: C14.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// `io`, with a bound on how long a write may wait.
#[derive(Debug)]
pub(crate) struct Stall<T> {
    io: T,
    timeout: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    /// Nothing waits yet.
    pub(crate) fn new(io: T, timeout: Duration) -> Self {
        Self { io, timeout, waiting: None }
    }

    /// Passes `written` on; `TimedOut` when nothing was taken for too long.
    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let timeout = self.timeout;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(timeout)));
        waiting.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, buf);
        this.judge(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::{Instant, advance},
    };

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut_off_and_a_slow_one_is_not() {
        let (ours, mut theirs) = duplex(1);
        let mut ours = Stall::new(ours, Duration::from_secs(30));
        let started = Instant::now();
        let reader = tokio::spawn(async move {
            for _ in 0..3 {
                advance(Duration::from_secs(20)).await;
                theirs.read_u8().await.unwrap();
            }
            theirs
        });
        let err = ours.write_all(b"12345").await.unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed().as_secs(), 90, "three slow bytes, then thirty seconds of nothing");
        drop(reader.await.unwrap());
    }
}
