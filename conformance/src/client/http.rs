//! An HTTP/1.1 client that shows what was on the wire: raw requests, every header, bodies decoded strictly, event streams.
//! One connection a request unless a [`Conn`] is held. Every wait is under the deadline. Sends `Host` and the bearer token
//! unless told otherwise; follows nothing, retries nothing.

use super::{
    chunked::Chunked,
    sse::{self, Item},
};
use crate::{
    book::HttpBook,
    json::Json,
    verdict::{Outcome, Stop, shorten},
};
use bytes::BytesMut;
use serde_json::Value;
use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Bytes of a response head at most.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes of a body at most, so that a server cannot fill our memory.
const BODY_BYTES: usize = 256 << 20;

/// An address that speaks HTTP, and the token for it.
#[derive(Debug, Clone)]
pub struct Http {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its token.
    pub token: String,
    /// Longest wait for anything.
    pub deadline: Duration,
    /// What every answer is held against; `None` for an address that is not larik's.
    pub book: Option<Arc<HttpBook>>,
}

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The verb.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, `Host` and `Authorization` included once they are set.
    pub headers: Vec<(String, String)>,
    /// The body; with one, `Content-Length` is added.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: None }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body, as it is.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets the body to JSON, without a content type: the seed's own `curl` sends none that says JSON (H03).
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    fn encode(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The request line it answers, for messages.
    pub to: String,
    /// The status.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Outcome<Value> {
        serde_json::from_slice(&self.body).map_err(|err| Stop::broke(format!("{self}: the body is no JSON: {err}")))
    }

    /// Ends the case unless the status is this one; the JSON body, or null when there is none.
    pub fn want(&self, status: u16) -> Outcome<Value> {
        if self.status != status {
            if self.not_built() {
                return Err(Stop::skip(format!("{self}")));
            }
            return Err(Stop::broke(format!("{self}, want {status}")));
        }
        if self.body.is_empty() { Ok(Value::Null) } else { self.json() }
    }

    /// Ends the case unless this is the error `code` in the shape of C03, with this status; its message.
    pub fn fails(&self, status: u16, code: &str) -> Outcome<String> {
        let body = self.want(status)?;
        let got = body.text("/error/code")?;
        if got != code {
            return Err(Stop::broke(format!("{self}: error.code is {got}, want {code}")));
        }
        body.text("/error/message")
    }

    /// Whether the server says that this row is declared, but not built.
    fn not_built(&self) -> bool {
        self.status == 501 && self.body.windows(12).any(|part| part == b"is not built")
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} → {} {}", self.to, self.status, shorten(&String::from_utf8_lossy(&self.body)))
    }
}

impl Http {
    /// A request with `Host` and the token.
    pub fn request(&self, method: &str, path: &str) -> Request {
        self.bare(method, path).header("Authorization", &format!("Bearer {}", self.token))
    }

    /// A request with `Host` alone.
    pub fn bare(&self, method: &str, path: &str) -> Request {
        Request::new(method, path).header("Host", &self.addr.to_string())
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Outcome<Response> {
        self.send(&self.request("GET", path)).await
    }

    /// `POST` of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Outcome<Response> {
        self.send(&self.request("POST", path).json(body)).await
    }

    /// `PATCH` of JSON.
    pub async fn patch(&self, path: &str, body: &Value) -> Outcome<Response> {
        self.send(&self.request("PATCH", path).json(body)).await
    }

    /// `DELETE`.
    pub async fn delete(&self, path: &str) -> Outcome<Response> {
        self.send(&self.request("DELETE", path)).await
    }

    /// Sends one request on a connection of its own; the response, held against the book.
    pub async fn send(&self, request: &Request) -> Outcome<Response> {
        self.conn().await?.send(request).await
    }

    /// The same, without the book: for requests that are refused before they are read whole.
    pub async fn send_raw(&self, request: &Request) -> Outcome<Response> {
        let mut conn = self.conn().await?;
        conn.book = None;
        conn.send(request).await
    }

    /// Sends bytes as they are, and reads one response.
    pub async fn raw(&self, bytes: &[u8]) -> Outcome<Response> {
        let mut conn = self.conn().await?;
        conn.write(bytes).await?;
        conn.response("GET", &shorten(String::from_utf8_lossy(bytes).lines().next().unwrap_or_default())).await
    }

    /// A connection that stays.
    pub async fn conn(&self) -> Outcome<Conn> {
        let stream = connect(self.addr, self.deadline).await?;
        Ok(Conn { stream, buffer: BytesMut::new(), deadline: self.deadline, book: self.book.clone() })
    }

    /// Opens an event stream; its head must be 200 and `text/event-stream`.
    pub async fn events(&self, path: &str, headers: &[(&str, &str)]) -> Outcome<Events> {
        let mut request = self.request("GET", path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.stream(&request).await
    }

    /// Opens an event stream with a request of the case's own.
    pub async fn stream(&self, request: &Request) -> Outcome<Events> {
        let mut conn = self.conn().await?;
        conn.write(&request.encode()).await?;
        let to = format!("{} {}", request.method, request.path);
        let mut head = conn.head(&to).await?;
        let streams = head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        if head.status != 200 || !streams {
            head.body = conn.body(&head, &request.method).await.unwrap_or_default();
            return Err(Stop::broke(format!("{head} ({:?}), want an event stream", head.header("content-type"))));
        }
        let chunked = head.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        Ok(Events {
            conn,
            head,
            chunked: chunked.then(Chunked::default),
            parser: sse::Parser::default(),
            ready: VecDeque::new(),
            ended: false,
        })
    }
}

/// Opens a TCP connection.
pub(crate) async fn connect(addr: SocketAddr, deadline: Duration) -> Outcome<TcpStream> {
    let stream = match timeout(deadline, TcpStream::connect(addr)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(err)) => return Err(Stop::broke(format!("no connection to {addr}: {err}"))),
        Err(_) => return Err(Stop::broke(format!("no connection to {addr} within {deadline:?}"))),
    };
    stream.set_nodelay(true).map_err(Stop::harness)?;
    Ok(stream)
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    buffer: BytesMut,
    deadline: Duration,
    book: Option<Arc<HttpBook>>,
}

impl Conn {
    /// Sends one request and reads its response.
    pub async fn send(&mut self, request: &Request) -> Outcome<Response> {
        if let Some(book) = &self.book {
            book.may_call(&request.method, &request.path)?;
        }
        self.write(&request.encode()).await?;
        let response = self.response(&request.method, &format!("{} {}", request.method, request.path)).await?;
        if let Some(book) = &self.book {
            book.check(&request.method, &request.path, &response)?;
        }
        Ok(response)
    }

    /// Sends a request that may switch protocols: a 101 is returned as the response.
    pub(crate) async fn upgrade(&mut self, request: &Request) -> Outcome<Response> {
        self.write(&request.encode()).await?;
        let mut head = self.head(&format!("{} {}", request.method, request.path)).await?;
        if head.status != 101 {
            head.body = self.body(&head, &request.method).await?;
        }
        Ok(head)
    }

    /// Writes bytes as they are. A server that has closed already is no failure here: its answer may still be read.
    pub async fn write(&mut self, bytes: &[u8]) -> Outcome {
        match timeout(self.deadline, self.stream.write_all(bytes)).await {
            Ok(Ok(()) | Err(_)) => Ok(()),
            Err(_) => Err(Stop::broke(format!("{} bytes were not taken within {:?}", bytes.len(), self.deadline))),
        }
    }

    /// Reads one response to a request with this verb.
    pub async fn response(&mut self, method: &str, to: &str) -> Outcome<Response> {
        loop {
            let mut head = self.head(to).await?;
            if head.status >= 200 {
                head.body = self.body(&head, method).await?;
                return Ok(head);
            }
        }
    }

    /// The response's head, with an empty body.
    async fn head(&mut self, to: &str) -> Outcome<Response> {
        loop {
            if let Some(head) =
                parse_head(&mut self.buffer, to).map_err(|what| Stop::broke(format!("{to} → {what}")))?
            {
                return Ok(head);
            }
            if self.buffer.len() > HEAD_BYTES {
                return Err(Stop::broke(format!("{to} → a response head of more than {HEAD_BYTES} bytes")));
            }
            if !self.fill(to).await? {
                let got = String::from_utf8_lossy(&self.buffer).into_owned();
                return Err(Stop::broke(format!("{to} → the connection ended before a response, after {got:?}")));
            }
        }
    }

    async fn body(&mut self, head: &Response, method: &str) -> Outcome<Vec<u8>> {
        let to = &head.to;
        let all = |name: &str| head.headers.iter().filter(|(key, _)| key == name).count();
        if all("content-length") > 1
            || all("transfer-encoding") > 1
            || all("content-length") + all("transfer-encoding") > 1
        {
            return Err(Stop::broke(format!("{to} → a body with two lengths: {:?}", head.headers)));
        }
        if method == "HEAD" || head.status == 204 || head.status == 304 {
            return Ok(Vec::new());
        }
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length") {
            let length: usize = length.parse().map_err(|_| Stop::broke(format!("{to} → content-length {length:?}")))?;
            while self.buffer.len() < length.min(BODY_BYTES) {
                if !self.fill(to).await? {
                    return Err(Stop::broke(format!(
                        "{to} → the body ended at {} of {length} bytes",
                        self.buffer.len()
                    )));
                }
            }
            body.extend_from_slice(&self.buffer.split_to(length.min(self.buffer.len())));
        } else if head.header("transfer-encoding").is_some() {
            let mut decoder = Chunked::default();
            while !decoder.feed(&mut self.buffer, &mut body).map_err(|what| Stop::broke(format!("{to} → {what}")))? {
                if body.len() > BODY_BYTES || !self.fill(to).await? {
                    return Err(Stop::broke(format!("{to} → the chunked body has no end after {} bytes", body.len())));
                }
            }
        } else {
            while self.fill(to).await? {}
            body.extend_from_slice(&self.buffer.split());
        }
        Ok(body)
    }

    /// Reads more; false at the end of the connection.
    async fn fill(&mut self, to: &str) -> Outcome<bool> {
        match timeout(self.deadline, self.stream.read_buf(&mut self.buffer)).await {
            Ok(Ok(0) | Err(_)) => Ok(false),
            Ok(Ok(_)) => Ok(true),
            Err(_) => Err(Stop::broke(format!("{to} → nothing more within {:?}", self.deadline))),
        }
    }

    /// Ends our side of the connection; the server's stays.
    pub async fn half_close(&mut self) -> Outcome {
        self.stream.shutdown().await.map_err(Stop::harness)
    }

    /// Whether the server closes the connection within the deadline, and sends nothing more before.
    pub async fn closes(&mut self) -> Outcome<bool> {
        let before = self.buffer.len();
        match self.fill("(waiting for the end)").await {
            Ok(more) => Ok(!more && before == 0),
            Err(Stop::Broke { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

/// A whole head at the front of `buffer`, taken out of it.
fn parse_head(buffer: &mut BytesMut, to: &str) -> Result<Option<Response>, String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    let used = match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(err) => return Err(format!("no HTTP response ({err}): {:?}", shorten(&String::from_utf8_lossy(buffer)))),
    };
    if parsed.version != Some(1) && parsed.code.is_none_or(|code| code < 400) {
        return Err("a response that is not HTTP/1.1".to_owned());
    }
    let mut list = Vec::new();
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| format!("header `{}` is no UTF-8", header.name))?;
        list.push((header.name.to_ascii_lowercase(), value.to_owned()));
    }
    let status = parsed.code.unwrap_or_default();
    let _ = buffer.split_to(used);
    Ok(Some(Response { to: to.to_owned(), status, headers: list, body: Vec::new() }))
}

/// An open event stream.
#[derive(Debug)]
pub struct Events {
    conn: Conn,
    /// The response's head.
    pub head: Response,
    chunked: Option<Chunked>,
    parser: sse::Parser,
    ready: VecDeque<Item>,
    ended: bool,
}

impl Events {
    /// The next item; `None` when the server has ended the stream.
    pub async fn item(&mut self) -> Outcome<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            self.decode()?;
            if self.ready.is_empty() && !self.ended && !self.conn.fill(&self.head.to).await? {
                self.ended = true;
                if self.chunked.is_some() {
                    return Err(Stop::broke(format!("{}: the stream was cut off without a last chunk", self.head.to)));
                }
            }
        }
    }

    fn decode(&mut self) -> Outcome {
        let mut bytes = Vec::new();
        let broke = |what| Stop::broke(format!("{}: {what}", self.head.to));
        match &mut self.chunked {
            Some(decoder) => self.ended = decoder.feed(&mut self.conn.buffer, &mut bytes).map_err(broke)?,
            None => bytes.extend_from_slice(&self.conn.buffer.split()),
        }
        let mut items = Vec::new();
        self.parser.feed(&bytes, &mut items).map_err(broke)?;
        self.ready.extend(items);
        Ok(())
    }

    /// The next message, comments and `retry` skipped, held against H13: `data` is JSON, `event` is its `type`, `id` its `seq`.
    pub async fn next(&mut self) -> Outcome<Option<Fact>> {
        loop {
            match self.item().await? {
                None => return Ok(None),
                Some(Item::Comment(_) | Item::Retry(_)) => {}
                Some(Item::Message(message)) => return Fact::read(message, self.conn.book.as_deref()).map(Some),
            }
        }
    }

    /// The next message; the stream may not end here.
    pub async fn fact(&mut self) -> Outcome<Fact> {
        self.next().await?.ok_or_else(|| Stop::broke(format!("{}: the stream ended", self.head.to)))
    }

    /// Reads on to the first event of this type, which is the last of the list.
    pub async fn until(&mut self, kind: &str) -> Outcome<Vec<Fact>> {
        self.until_fact(kind, |fact| fact.kind == kind).await
    }

    /// Reads on to the first event that fits, which is the last of the list.
    pub async fn until_fact(&mut self, what: &str, fits: impl Fn(&Fact) -> bool) -> Outcome<Vec<Fact>> {
        let mut seen: Vec<Fact> = Vec::new();
        loop {
            let next = self.fact().await.map_err(|stop| match stop {
                Stop::Broke { clause, seen: why } => {
                    let kinds: Vec<&str> = seen.iter().map(|fact| fact.kind.as_str()).collect();
                    Stop::Broke { clause, seen: format!("{why} while waiting for {what}, after {kinds:?}") }
                }
                other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
            })?;
            let found = fits(&next);
            seen.push(next);
            if found {
                return Ok(seen);
            }
        }
    }
}

/// One event of a stream.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Its `type`.
    pub kind: String,
    /// `seq`; a `replay_gap` has none.
    pub seq: Option<u64>,
    /// The whole data.
    pub data: Value,
}

impl Fact {
    fn read(message: sse::Message, book: Option<&HttpBook>) -> Outcome<Self> {
        let broke = |what: String| Stop::Broke { clause: Some("H13"), seen: what };
        let shown = || shorten(&format!("{message:?}"));
        let data: Value = serde_json::from_str(&message.data)
            .map_err(|err| broke(format!("data is no JSON ({err}): {}", shown())))?;
        let kind = message.event.clone().ok_or_else(|| broke(format!("a message without `event:`: {}", shown())))?;
        if kind == "replay_gap" {
            if message.id.is_some() {
                return Err(Stop::Broke { clause: Some("H15"), seen: format!("a replay_gap with an id: {}", shown()) });
            }
            if let Some(book) = book {
                book.event(&data)?;
            }
            return Ok(Self { kind, seq: None, data });
        }
        let seq = data.pointer("/seq").and_then(Value::as_u64);
        let fits = seq.is_some_and(|seq| message.id.as_deref() == Some(seq.to_string().as_str()));
        let typed = data.pointer("/type").and_then(Value::as_str) == Some(kind.as_str());
        let owned = data.pointer("/session").is_some_and(Value::is_string);
        if !fits || !typed || !owned {
            return Err(broke(format!(
                "`id`, `event`, `data.seq`, `data.type`, `data.session` do not agree: {}",
                shown()
            )));
        }
        if let Some(book) = book {
            book.event(&data)?;
        }
        Ok(Self { kind, seq, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_taken_once_it_is_whole() {
        let mut buffer = BytesMut::from("HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nX: 1");
        assert!(parse_head(&mut buffer, "t").unwrap().is_none());
        buffer.extend_from_slice(b"\r\n\r\nbody");
        let head = parse_head(&mut buffer, "t").unwrap().unwrap();
        assert_eq!((head.status, head.header("content-type"), head.header("x")), (404, Some("a/b"), Some("1")));
        assert_eq!(&buffer[..], b"body");
        assert!(parse_head(&mut BytesMut::from("nonsense\r\n\r\n"), "t").is_err());
        assert!(parse_head(&mut BytesMut::from("HTTP/1.0 200 OK\r\n\r\n"), "t").is_err());
    }

    #[test]
    fn an_event_must_agree_with_its_own_lines() {
        let message = |id: &str, event: &str, data: &str| sse::Message {
            id: (!id.is_empty()).then(|| id.to_owned()),
            event: Some(event.to_owned()),
            data: data.to_owned(),
        };
        let good = r#"{"type":"final","seq":7,"session":"s"}"#;
        assert_eq!(Fact::read(message("7", "final", good), None).unwrap().seq, Some(7));
        assert!(Fact::read(message("8", "final", good), None).is_err());
        assert!(Fact::read(message("", "final", good), None).is_err());
        assert!(Fact::read(message("7", "error", good), None).is_err());
        assert!(Fact::read(message("7", "final", "{"), None).is_err());
        assert!(Fact::read(message("", "replay_gap", r#"{"from":1,"to":2}"#), None).is_ok());
        assert!(Fact::read(message("2", "replay_gap", r#"{"from":1,"to":2}"#), None).is_err());
    }

    #[test]
    fn a_request_is_written_as_it_was_built() {
        let request = Request::new("POST", "/x?y=1").header("Host", "h").json(&serde_json::json!({"a": 1}));
        assert_eq!(request.encode(), b"POST /x?y=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
    }
}
