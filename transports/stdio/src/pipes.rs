//! Stdin and stdout, read and written without a thread where they are pipes or sockets.
//!
//! Invariant: no flag of an open file that others may share is changed. O_NONBLOCK belongs to the open file description, not to
//! our descriptor: a parent shell, or whatever runs after us on the same stdin, would see it, and so would our own stderr
//! after `2>&1`. So a pipe is opened anew through /proc, which gives a description of our own, and a socket is used with
//! MSG_DONTWAIT, call by call. Everything else (files, terminals, pipes that cannot be opened anew) goes through a thread.

use bytes::{Buf, Bytes};
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd},
    net::unix::pipe,
    sync::mpsc,
};

/// Bytes that the reading thread takes at once.
const THREAD_READ_BYTES: usize = 64 << 10;
/// Pieces that the reading thread is ahead at most; then it waits.
const THREAD_PIECES: usize = 2;

/// Stdin. Errors: it is not open, or the thread cannot be started.
pub(crate) fn stdin() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(match Kind::of(&fd)? {
        Kind::Socket => Box::new(Socket::new(fd)?),
        Kind::Pipe => match pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            Ok(pipe) => Box::new(pipe),
            Err(error) => {
                tracing::debug!(%error, "stdin cannot be opened anew; a thread reads it");
                Box::new(thread(fd)?)
            }
        },
        Kind::Other => Box::new(thread(fd)?),
    })
}

/// Stdout. Errors: it is not open.
pub(crate) fn stdout() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(match Kind::of(&fd)? {
        Kind::Socket => Box::new(Socket::new(fd)?),
        Kind::Pipe => match pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
            Ok(pipe) => Box::new(pipe),
            Err(error) => {
                tracing::debug!(%error, "stdout cannot be opened anew; a thread writes it");
                Box::new(tokio::io::stdout())
            }
        },
        Kind::Other => Box::new(tokio::io::stdout()),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Pipe,
    Socket,
    Other,
}

impl Kind {
    fn of(fd: &OwnedFd) -> io::Result<Self> {
        let kind = File::from(fd.try_clone()?).metadata()?.file_type();
        Ok(if kind.is_fifo() {
            Self::Pipe
        } else if kind.is_socket() {
            Self::Socket
        } else {
            Self::Other
        })
    }
}

/// A socket whose description stays as it is: each call says for itself that it does not wait.
struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    #[expect(deprecated, reason = "its successor is unsafe, for descriptors that are not owned; this one is")]
    fn new(fd: OwnedFd) -> io::Result<Self> {
        AsyncFd::new(fd).map(Self)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let space = out.initialize_unfilled();
            match guard.try_io(|fd| Ok(again(|| recv(fd.get_ref(), &mut *space, RecvFlags::DONTWAIT))?.0)) {
                Ok(read) => {
                    out.advance(read?);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match guard.try_io(|fd| Ok(again(|| send(fd.get_ref(), bytes, flags))?)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Once more when a signal came in between.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// What a thread reads. The thread ends with the input, or when nobody wants more; a read that never returns is left to
/// the end of the process, and keeps nothing from ending.
struct Threaded {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

fn thread(fd: OwnedFd) -> io::Result<Threaded> {
    let (tx, pieces) = mpsc::channel(THREAD_PIECES);
    let mut file = File::from(fd);
    let read = move || {
        let mut buffer = vec![0; THREAD_READ_BYTES];
        loop {
            let piece = match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = piece.is_err();
            if tx.blocking_send(piece).is_err() || failed {
                return;
            }
        }
    };
    std::thread::Builder::new().name("stdin".into()).spawn(read)?;
    Ok(Threaded { pieces, rest: Bytes::new() })
}

impl AsyncRead for Threaded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.pieces.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(piece) => self.rest = piece?,
            }
        }
        let length = self.rest.len().min(out.remaining());
        out.put_slice(self.rest.get(..length).unwrap_or_default());
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::net::UnixStream, time::Duration};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const DEADLINE: Duration = Duration::from_secs(5);

    #[test]
    fn kinds_are_told_apart() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let kind = |fd: OwnedFd| Kind::of(&fd).unwrap();
        assert_eq!(kind(reader.into()), Kind::Pipe);
        assert_eq!(kind(writer.into()), Kind::Pipe);
        assert_eq!(kind(socket.into()), Kind::Socket);
        assert_eq!(kind(file.into()), Kind::Other);
    }

    #[tokio::test]
    async fn a_socket_is_read_and_written_and_its_flags_stay() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let shared: OwnedFd = ours.try_clone().unwrap().into();
        let mut socket = Socket::new(ours.into()).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut theirs = tokio::net::UnixStream::from_std(theirs).unwrap();

        let large = vec![7; 1 << 20];
        let both = async {
            let mut read = vec![0; large.len()];
            let (wrote, got) = tokio::join!(socket.write_all(&large), theirs.read_exact(&mut read));
            wrote.unwrap();
            got.unwrap();
            assert!(read == large);
            theirs.write_all(b"hello").await.unwrap();
            let mut read = [0; 5];
            socket.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"hello");
            drop(theirs);
            assert_eq!(socket.read(&mut read).await.unwrap(), 0);
            assert_eq!(socket.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        };
        tokio::time::timeout(DEADLINE, both).await.unwrap();
        let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }

    #[tokio::test]
    async fn a_thread_reads_to_the_end() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut threaded = thread(reader.into()).unwrap();
        let large = vec![7; 1 << 20];
        let expected = large.clone();
        let feeder = std::thread::spawn(move || writer.write_all(&large).unwrap());
        let mut read = Vec::new();
        tokio::time::timeout(DEADLINE, threaded.read_to_end(&mut read)).await.unwrap().unwrap();
        feeder.join().unwrap();
        assert!(read == expected);
    }
}
