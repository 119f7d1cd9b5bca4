//! What hyper answers by itself to a head that it cannot read is a bare status; here it gets a body like every other refusal.
//! Invariant: only a write that is such a bare head and nothing else is changed: an answer of ours with these statuses has a
//! body, and no body of ours holds a CR LF (JSON and event streams cannot), so none can begin like a head. Clauses: C03, H27.

use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use triplane_protocol::{ErrorCode, Failure, rest::ErrorBody};

/// How hyper's own refusals go on behind the status line.
const BARE: &[u8] = b"\r\nconnection: close\r\ncontent-length: 0\r\n";

/// `io`, with words for bare refusals.
#[derive(Debug)]
pub(crate) struct Worded<T> {
    io: T,
    /// What is left of a worded refusal, and how many bytes it stands for.
    refusal: Option<(Bytes, usize)>,
}

impl<T> Worded<T> {
    /// Nothing is refused yet.
    pub(crate) fn new(io: T) -> Self {
        Self { io, refusal: None }
    }
}

/// The refusal with a body, if `head` is a bare one.
fn worded(head: &[u8]) -> Option<Bytes> {
    let rest = head.strip_prefix(b"HTTP/1.1 ")?;
    let failure = match rest.get(..4)? {
        b"400 " => Failure::new(ErrorCode::InvalidParams, "the request is no well-formed HTTP/1.1"),
        b"431 " => Failure::new(ErrorCode::TooLarge, "the request's line and headers are too large or too many"),
        _ => return None,
    };
    let line = head.iter().position(|byte| *byte == b'\r')?;
    let (line, rest) = head.split_at_checked(line)?;
    let rest = rest.strip_prefix(BARE)?;
    if !rest.ends_with(b"\r\n\r\n") {
        return None;
    }
    let body = serde_json::to_vec(&ErrorBody { error: failure }).ok()?;
    let more = format!(
        "\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         x-content-type-options: nosniff\r\n",
        body.len()
    );
    Some([line, more.as_bytes(), rest, &body].concat().into())
}

impl<T: AsyncWrite + Unpin> Worded<T> {
    /// Writes on at a refusal; the bytes that hyper thinks it wrote.
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<usize>>> {
        let Some((rest, stands_for)) = &mut self.refusal else { return Poll::Ready(None) };
        while !rest.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, rest)) {
                Ok(0) => return Poll::Ready(Some(Err(io::ErrorKind::WriteZero.into()))),
                Ok(count) => rest.advance(count),
                Err(err) => return Poll::Ready(Some(Err(err))),
            }
        }
        let written = *stands_for;
        self.refusal = None;
        Poll::Ready(Some(Ok(written)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Worded<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Worded<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.refusal.is_none() {
            this.refusal = worded(buf).map(|refusal| (refusal, buf.len()));
        }
        match ready!(this.poll_refusal(cx)) {
            Some(written) => Poll::Ready(written),
            None => Pin::new(&mut this.io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.refusal.is_none()
            && let Some(first) = bufs.iter().find(|buf| !buf.is_empty())
        {
            this.refusal = worded(first).map(|refusal| (refusal, first.len()));
        }
        match ready!(this.poll_refusal(cx)) {
            Some(written) => Poll::Ready(written),
            None => Pin::new(&mut this.io).poll_write_vectored(cx, bufs),
        }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// What arrives of a write, byte by byte.
    async fn check(written: &[u8]) -> String {
        let (ours, mut theirs) = duplex(1);
        let mut ours = Worded::new(ours);
        let reader = tokio::spawn(async move {
            let mut all = String::new();
            theirs.read_to_string(&mut all).await.map(|_| all)
        });
        ours.write_all(written).await.unwrap();
        drop(ours);
        reader.await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_bare_refusal_gets_a_body_and_nothing_else_does() {
        let bare = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let told = check(bare.as_bytes()).await;
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n") && head.ends_with("\r\ndate: now"), "{head}");
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
        assert!(body.starts_with("{\"error\":{\"code\":\"invalid_params\","), "{body}");
        for whole in [
            bare.replace("400 Bad Request", "204 No Content"),
            bare.replace("content-length: 0", "content-length: 2") + "{}",
            bare.trim_end().to_owned(),
            serde_json::to_string(bare).unwrap(),
        ] {
            assert_eq!(check(whole.as_bytes()).await, whole);
        }
    }
}
