//! A server in this process, a raw client that speaks bytes, and a real one. Every await is under [`DEADLINE`].

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, Utf8Bytes, client::IntoClientRequest, protocol::CloseFrame},
};
use tokio_util::sync::CancellationToken;
use triplane_common::{guard::Guard, token::Token};
use triplane_ws::{
    WsLimits,
    outbox::{Outbox, text_frame},
    server::Server,
    socket::{Front, Peer},
};

pub const DEADLINE: Duration = Duration::from_secs(10);
pub const TOKEN: &str = "a-token-for-tests-only";

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("the deadline passed")
}

pub fn token() -> Token {
    Token::choose(Some(TOKEN.into()), |_| None).unwrap()
}

/// Echoes text; a text `flood N` is answered with N messages of 16 KiB, `close` with nothing more.
pub struct Echo;
pub struct Echoing(Outbox);

impl Front for Echo {
    type Peer = Echoing;

    fn open(&self, outbox: Outbox) -> Echoing {
        Echoing(outbox)
    }
}

impl Peer for Echoing {
    fn text(&mut self, text: Utf8Bytes) {
        match text.strip_prefix("flood ") {
            None => self.0.reply(Bytes::from(text)),
            Some(count) => {
                let outbox = self.0.clone();
                let count: usize = count.parse().unwrap();
                tokio::spawn(async move {
                    for _ in 0..count {
                        outbox.events(text_frame(&[&[b'x'; 16 << 10]])).await;
                    }
                    outbox.reply(Bytes::from_static(b"done"));
                });
            }
        }
    }

    fn gone(&mut self) {}
}

pub struct Running {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn echo(limits: WsLimits) -> Self {
        let server = Server::bind("127.0.0.1", 0, Guard::default(), token(), limits).await.unwrap();
        Self::start(server, Echo)
    }

    pub fn start<F: Front>(server: Server, front: F) -> Self {
        let stop = CancellationToken::new();
        let address = server.address();
        let task = tokio::spawn(server.run(front, stop.clone()));
        Self { address, stop, task }
    }

    /// Stops it, and fails unless every socket's task has ended in time.
    pub async fn end(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }

    /// Sends `request` (`{port}` is filled in) and gives the answer up to the end of the connection.
    pub async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = request.replace("{port}", &self.address.port().to_string());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Whatever was answered is told, also when the other side then resets.
        let _ = within(stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub async fn client(&self) -> Client {
        client(self.address).await
    }

    /// An upgraded stream, for frames by hand.
    pub async fn bare(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "GET /?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(within(stream.read_u8()).await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
        stream
    }
}

pub struct Client(pub WebSocketStream<TcpStream>);

pub async fn client(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).await.unwrap();
    let request = format!("ws://{address}/?token={TOKEN}").into_client_request().unwrap();
    let (ws, _) = within(tokio_tungstenite::client_async(request, stream)).await.unwrap();
    Client(ws)
}

impl Client {
    pub async fn send(&mut self, text: impl Into<String>) {
        within(self.0.send(Message::text(text.into()))).await.unwrap();
    }

    /// The next text; other messages but a close are passed over.
    pub async fn text(&mut self) -> String {
        loop {
            match within(self.0.next()).await.expect("the connection ended").unwrap() {
                Message::Text(text) => return text.to_string(),
                Message::Close(close) => panic!("closed: {close:?}"),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// The code that the server closes with; texts before it are passed over.
    pub async fn close_code(&mut self) -> Option<u16> {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Close(close))) => return close.map(|CloseFrame { code, .. }| code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

/// A masked client frame with a mask of zeroes.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        len @ 0..=125 => out.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    out
}

/// Reads frames until a close; gives its code, `None` when the stream ends without one.
pub async fn close_of(stream: &mut TcpStream) -> Option<u16> {
    loop {
        let first = within(stream.read_u8()).await.ok()?;
        let short = within(stream.read_u8()).await.ok()?;
        let len = match short {
            126 => within(stream.read_u16()).await.ok()?.into(),
            127 => within(stream.read_u64()).await.ok()?,
            len => len.into(),
        };
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        within(stream.read_exact(&mut payload)).await.ok()?;
        if first == 0x88 {
            return payload.get(..2).map(|code| u16::from_be_bytes([code[0], code[1]]));
        }
    }
}
