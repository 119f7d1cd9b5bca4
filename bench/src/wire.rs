//! A client of HTTP and of WebSocket handshakes on blocking sockets: it must cost less than what it measures.

use crate::server::TOKEN;
use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// No answer takes longer.
const DEADLINE: Duration = Duration::from_secs(20);
/// Room for what a reader does not read.
const NARROW_BYTES: usize = 4 << 10;
/// Bytes of a response's head at most.
const HEAD_BYTES: usize = 16 << 10;

/// A connection that is kept.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// What was read and not yet used.
    ahead: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub fn open(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, DEADLINE).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(Self { stream, ahead: Vec::new() })
    }

    /// Connects with the smallest room for what it does not read.
    pub fn narrow(addr: SocketAddr) -> Result<Self> {
        use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_recv_buffer_size(&socket, NARROW_BYTES)?;
        connect(&socket, &addr).context("connecting")?;
        Ok(Self { stream: socket.into(), ahead: Vec::new() })
    }

    /// One request with its whole response; the body as text. Errors: a status other than 2xx.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Result<String> {
        self.send(method, path, &format!("Content-Length: {}\r\n", body.len()), body)?;
        self.response(&format!("{method} {path}"))
    }

    /// The whole response to what was sent; its body as text. Errors: a status other than 2xx, with what was asked for.
    pub fn response(&mut self, asked: &str) -> Result<String> {
        let head = self.head()?;
        let length = header(&head, "content-length").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        while self.ahead.len() < length {
            self.fill()?;
        }
        let text = String::from_utf8(self.ahead.drain(..length).collect())?;
        if !head.starts_with("HTTP/1.1 2") {
            bail!("{asked}: {} {text}", head.lines().next().unwrap_or_default());
        }
        Ok(text)
    }

    /// Opens a stream of events and reads no further than the response's head.
    pub fn stream(mut self, path: &str) -> Result<TcpStream> {
        self.send("GET", path, "Accept: text/event-stream\r\n", "")?;
        let head = self.head()?;
        if !head.starts_with("HTTP/1.1 200") {
            bail!("GET {path}: {}", head.lines().next().unwrap_or_default());
        }
        Ok(self.stream)
    }

    /// Upgrades to WebSocket.
    pub fn upgrade(mut self, path: &str) -> Result<TcpStream> {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        self.send("GET", path, upgrade, "")?;
        let head = self.head()?;
        if !head.starts_with("HTTP/1.1 101") {
            bail!("GET {path}: {}", head.lines().next().unwrap_or_default());
        }
        Ok(self.stream)
    }

    /// Sends a request, and does not wait for its response.
    pub fn send(&mut self, method: &str, path: &str, more: &str, body: &str) -> Result<()> {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n{body}");
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    /// A response's head, with its empty line.
    fn head(&mut self) -> Result<String> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.ahead, b"\r\n\r\n") {
                return Ok(String::from_utf8(self.ahead.drain(..end + 4).collect())?);
            }
            if self.ahead.len() > HEAD_BYTES {
                bail!("a response with an endless head");
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        let read = self.stream.read(&mut buffer).context("reading a response")?;
        if read == 0 {
            bail!("the server closed the connection");
        }
        self.ahead.extend_from_slice(buffer.get(..read).unwrap_or_default());
        Ok(())
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then(|| value.trim()))
}
