//! Many event streams, read by one thread through epoll: about an eighth of a microsecond an event, so that the server is what
//! is measured.

use anyhow::{Context, Result, bail};
use memchr::memmem::Finder;
use rustix::event::{Timespec, epoll};
use std::{
    io::{ErrorKind, Read},
    net::TcpStream,
    time::{Duration, Instant},
};

/// No round takes longer.
const DEADLINE: Duration = Duration::from_secs(60);

/// Streams that are read together.
#[derive(Debug)]
pub struct Swarm {
    epoll: rustix::fd::OwnedFd,
    streams: Vec<Stream>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    socket: TcpStream,
    /// The end of what was read before: a marker may be cut in two.
    tail: Vec<u8>,
    counted: usize,
    done: bool,
}

impl Swarm {
    /// An empty one.
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, streams: Vec::new(), buffer: vec![0; 256 << 10] })
    }

    /// Takes a stream whose head was read.
    pub fn add(&mut self, socket: TcpStream) -> Result<()> {
        socket.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(self.streams.len() as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        self.streams.push(Stream { socket, tail: Vec::new(), counted: 0, done: false });
        Ok(())
    }

    /// Reads until every stream has said `last`. Errors: one that said `each` another number of times than `times`; one that ended.
    pub fn read_until(&mut self, last: &str, each: &str, times: usize) -> Result<()> {
        for stream in &mut self.streams {
            (stream.counted, stream.done) = (0, false);
            stream.tail.clear();
        }
        if last.len() > each.len() {
            bail!("`{last}` is longer than `{each}`: what is kept of a read would be counted twice or cut");
        }
        let (last, each) = (Finder::new(last), Finder::new(each));
        let began = Instant::now();
        let mut waiting = self.streams.len();
        let mut events = Vec::with_capacity(256);
        while waiting > 0 {
            let left = DEADLINE.checked_sub(began.elapsed()).context("a subscriber did not get all in time")?;
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            events.clear();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&left))?;
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64())?;
                let stream = self.streams.get_mut(index).context("an event of no stream")?;
                let was_done = stream.done;
                stream.read(&mut self.buffer, &last, &each)?;
                if stream.done && !was_done {
                    waiting -= 1;
                }
            }
        }
        match self.streams.iter().find(|stream| stream.counted != times) {
            Some(stream) => bail!("a subscriber got {} of {times} events", stream.counted),
            None => Ok(()),
        }
    }
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8], last: &Finder<'_>, each: &Finder<'_>) -> Result<()> {
        let kept = self.tail.len();
        let (head, room) = buffer.split_at_mut_checked(kept).context("a tail that is too long")?;
        head.copy_from_slice(&self.tail);
        let read = match self.socket.read(room) {
            Ok(0) => bail!("a stream ended"),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let text = buffer.get(..kept + read).unwrap_or_default();
        // The tail is one byte shorter than what is counted, so nothing in it counts twice.
        self.counted += each.find_iter(text).count();
        self.done |= last.find(text).is_some();
        let keep = each.needle().len() - 1;
        self.tail.clear();
        self.tail.extend_from_slice(text.get(text.len().saturating_sub(keep)..).unwrap_or_default());
        Ok(())
    }
}
