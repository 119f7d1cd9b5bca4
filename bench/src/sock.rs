//! A WebSocket client on a blocking socket: whole text frames out, whole frames in. It must cost less than what it measures.

use crate::wire::Connection;
use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 256 << 10;
/// Final, text.
const TEXT: u8 = 0x81;

/// An open socket.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    /// Read, and not asked for yet: from `at` on.
    rest: Vec<u8>,
    at: usize,
}

impl Socket {
    /// Connects and upgrades at `path`.
    pub fn open(addr: SocketAddr, path: &str) -> Result<Self> {
        Ok(Self { stream: Connection::open(addr)?.upgrade(path)?, rest: Vec::new(), at: 0 })
    }

    /// Sends a text. The mask is nought, so that nothing is masked.
    pub fn send(&mut self, text: &str) -> Result<()> {
        let mut frame = Vec::with_capacity(text.len() + 14);
        frame.push(TEXT);
        match (u8::try_from(text.len()), u16::try_from(text.len())) {
            (Ok(short @ ..=125), _) => frame.push(0x80 | short),
            (_, Ok(medium)) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&medium.to_be_bytes());
            }
            _ => bail!("{} bytes are more than this client sends", text.len()),
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        Ok(self.stream.write_all(&frame)?)
    }

    /// The payload of the next frame.
    pub fn frame(&mut self) -> Result<&[u8]> {
        let (head, length) = loop {
            if let Some(found) = self.head()? {
                break found;
            }
            self.fill()?;
        };
        while self.rest.len() < self.at + head + length {
            self.fill()?;
        }
        let start = self.at + head;
        self.at = start + length;
        self.rest.get(start..self.at).context("a frame that was read")
    }

    /// Bytes of the next frame's head and payload, if its head is there.
    fn head(&self) -> Result<Option<(usize, usize)>> {
        let bytes = self.rest.get(self.at..).unwrap_or_default();
        let Some([first, second]) = bytes.first_chunk() else { return Ok(None) };
        if *first == 0x88 {
            bail!("the server closed the socket");
        }
        Ok(match *second {
            126 => bytes.get(2..4).and_then(|two| Some((4, u16::from_be_bytes(two.try_into().ok()?).into()))),
            127 => bytes
                .get(2..10)
                .and_then(|eight| Some((10, usize::try_from(u64::from_be_bytes(eight.try_into().ok()?)).ok()?))),
            short => Some((2, usize::from(short))),
        })
    }

    fn fill(&mut self) -> Result<()> {
        self.rest.drain(..self.at);
        self.at = 0;
        let length = self.rest.len();
        self.rest.resize(length + READ_BYTES, 0);
        let read = self.stream.read(self.rest.get_mut(length..).unwrap_or_default()).context("reading a socket")?;
        self.rest.truncate(length + read);
        if read == 0 { bail!("the server ended a socket") } else { Ok(()) }
    }
}
