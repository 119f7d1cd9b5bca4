//! WebSocket for lich: a client that shows frames and closes, the bare handshake, and frames made by hand.

use super::http::{Conn, Http, Request, Response, connect};
use crate::verdict::{Outcome, Stop};
use futures_util::{SinkExt, StreamExt};
use std::{net::SocketAddr, time::Duration};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, client::IntoClientRequest, http::HeaderValue, protocol::WebSocketConfig},
};

/// Where a lich server listens, and its token.
#[derive(Debug, Clone)]
pub struct WsAddr {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Path and query in front of the token.
    pub path: String,
    /// Its token.
    pub token: String,
    /// Longest wait for anything.
    pub deadline: Duration,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With a close frame of this code.
    Close(u16),
    /// With a close frame without a code, or without one at all.
    Silent,
}

/// What came next on a socket.
#[derive(Debug)]
pub enum Got {
    /// A text message.
    Text(String),
    /// The end.
    End(End),
}

/// An open socket.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<TcpStream>,
    deadline: Duration,
}

impl WsAddr {
    /// Opens a socket, the token in `x-lich-token`.
    pub async fn open(&self) -> Outcome<Socket> {
        let stream = connect(self.addr, self.deadline).await?;
        let mut request = format!("ws://{}{}", self.addr, self.path).into_client_request().map_err(Stop::harness)?;
        let token = HeaderValue::from_str(&self.token).map_err(Stop::harness)?;
        request.headers_mut().insert("x-lich-token", token);
        let config = WebSocketConfig::default().max_message_size(Some(64 << 20)).max_frame_size(Some(64 << 20));
        match timeout(self.deadline, client_async_with_config(request, stream, Some(config))).await {
            Ok(Ok((stream, _))) => Ok(Socket { stream, deadline: self.deadline }),
            Ok(Err(err)) => Err(Stop::broke(format!("no WebSocket at {}: {err}", self.addr))),
            Err(_) => Err(Stop::broke(format!("no WebSocket at {} within {:?}", self.addr, self.deadline))),
        }
    }

    /// The upgrade request, with `Host` but without a token.
    pub fn upgrade(&self, path: &str) -> Request {
        self.upgrade_without_host(path).header("Host", &self.addr.to_string())
    }

    /// The upgrade request without `Host` and without a token.
    pub fn upgrade_without_host(&self, path: &str) -> Request {
        Request::new("GET", path)
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    /// Plain HTTP to the same address.
    pub fn http(&self) -> Http {
        Http { addr: self.addr, token: self.token.clone(), deadline: self.deadline, book: None }
    }

    /// Sends one request as plain HTTP; a 101 comes back like any other status, without a body.
    pub async fn shake(&self, request: &Request) -> Outcome<Response> {
        Ok(self.shake_and_keep(request).await?.0)
    }

    /// The same, and the connection to go on with.
    pub async fn shake_and_keep(&self, request: &Request) -> Outcome<(Response, Conn)> {
        let mut conn = self.http().conn().await?;
        let response = conn.upgrade(request).await?;
        Ok((response, conn))
    }
}

impl Socket {
    /// Sends a text message; a server that has closed already is no failure here.
    pub async fn text(&mut self, text: &str) -> Outcome {
        self.message(Message::text(text)).await
    }

    /// Sends a binary message.
    pub async fn binary(&mut self, bytes: &[u8]) -> Outcome {
        self.message(Message::binary(bytes.to_vec())).await
    }

    async fn message(&mut self, message: Message) -> Outcome {
        match timeout(self.deadline, self.stream.send(message)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stop::broke(format!("a message was not taken within {:?}", self.deadline))),
        }
    }

    /// Writes bytes on the connection as they are, between frames.
    pub async fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        match timeout(self.deadline, self.stream.get_mut().write_all(bytes)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stop::broke(format!("bytes were not taken within {:?}", self.deadline))),
        }
    }

    /// What comes next; `None` when nothing does for `wait`.
    pub async fn next(&mut self, wait: Duration) -> Outcome<Option<Got>> {
        let read = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(Got::Text(text.to_string())),
                    Some(Ok(Message::Close(frame))) => {
                        return Ok(Got::End(frame.map_or(End::Silent, |frame| End::Close(frame.code.into()))));
                    }
                    Some(Ok(Message::Binary(bytes))) => {
                        return Err(Stop::Broke {
                            clause: Some("L01"),
                            seen: format!("a binary frame of {} bytes", bytes.len()),
                        });
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Err(_)) | None => return Ok(Got::End(End::Silent)),
                }
            }
        };
        timeout(wait, read).await.ok().transpose()
    }

    /// Reads on to the end of the connection.
    pub async fn end(&mut self) -> Outcome<End> {
        loop {
            match self.next(self.deadline).await? {
                Some(Got::Text(_)) => {}
                Some(Got::End(end)) => return Ok(end),
                None => return Err(Stop::broke(format!("the connection was not closed within {:?}", self.deadline))),
            }
        }
    }
}

/// A frame by hand: final, masked with zeros, the length as given so that it may lie.
pub fn frame_head(opcode: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    match length {
        0..=125 => bytes.push(0x80 | length.to_le_bytes()[0]),
        126..=65535 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&length.to_be_bytes()[6..]);
        }
        _ => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_shortest_form() {
        assert_eq!(frame_head(1, 5), [0x81, 0x85, 0, 0, 0, 0]);
        assert_eq!(frame_head(2, 126), [0x82, 0xfe, 0, 126, 0, 0, 0, 0]);
        assert_eq!(frame_head(1, 65536), [0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
