//! A stream of lines, none longer than a bound: a longer one is an error of the stream, before it is in memory.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, ReadBuf};

/// The stream.
#[derive(Debug)]
pub(super) struct Capped<R> {
    inner: R,
    most: usize,
    line: usize,
}

impl<R> Capped<R> {
    pub(super) fn new(inner: R, most: usize) -> Self {
        Self { inner, most, line: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Capped<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        let fresh = buf.filled().get(before..).unwrap_or_default();
        this.line = match fresh.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => fresh.len() - at - 1,
            None => this.line + fresh.len(),
        };
        if this.line > this.most {
            return Poll::Ready(Err(io::Error::other(format!("a message of more than {} bytes", this.most))));
        }
        read
    }
}
