//! An in-process server, and a client that sends bytes and reads answers as they are.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test support: each file uses its part"
)]

pub mod puppet;

use std::{
    collections::BTreeMap,
    io::Write,
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use triplane_common::{ready::ReadyLine, token::Token};
use triplane_core::{Plane, PlaneConfig, limits::Limits, store::Durability};
use triplane_http::{HttpConfig, HttpLimits, ServeError, ServerInfo};
use triplane_protocol::{
    event::SettingsPatch,
    larik::{Node, Sandbox},
};

/// No await in a test may take longer.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// The token of every test server.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub struct Server {
    pub addr: SocketAddr,
    pub ready: serde_json::Value,
    pub stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
    pub plane: Plane,
    pub home: tempfile::TempDir,
}

struct Channel(mpsc::Sender<Vec<u8>>);
impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.send(bytes.to_vec()).unwrap();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn config() -> HttpConfig {
    HttpConfig {
        addr: "127.0.0.1:0".into(),
        token: Token::choose(Some(TOKEN.into()), |_| None).unwrap(),
        allow_remote: false,
        allow_origins: vec!["https://app.example".parse().unwrap()],
        info: ServerInfo {
            version: "1.2.3".into(),
            providers: Vec::new(),
            sandbox: Sandbox { kind: "none".into(), enforced: false },
            node: Node { id: "n".into(), name: "test".into() },
            transports: vec!["http".into()],
        },
        limits: HttpLimits::default(),
    }
}

pub fn plane(home: &std::path::Path, abort_on_disconnect: bool) -> Plane {
    let config = PlaneConfig {
        cwd: home.to_owned(),
        session_dir: home.join("sessions"),
        home: home.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch::default(),
        limits: Limits::default(),
        overlay: true,
        abort_on_disconnect,
    };
    Plane::open(config, vec![Arc::new(puppet::Puppet)]).unwrap()
}

impl Server {
    pub async fn start() -> Self {
        Self::with(HttpLimits::default()).await
    }

    pub async fn with(limits: HttpLimits) -> Self {
        Self::configured(HttpConfig { limits, ..config() }).await
    }

    pub async fn configured(config: HttpConfig) -> Self {
        let home = tempfile::tempdir().unwrap();
        let plane = plane(home.path(), false);
        Self::of(config, plane, home).await
    }

    /// A server of a plane that exists.
    pub async fn of(config: HttpConfig, plane: Plane, home: tempfile::TempDir) -> Self {
        let (line, lines) = mpsc::channel();
        let stop = CancellationToken::new();
        let bound = triplane_http::bind(config).await.unwrap();
        let task = tokio::spawn(bound.serve(plane.clone(), ReadyLine::to(Channel(line)), stop.clone()));
        let ready = tokio::task::spawn_blocking(move || lines.recv_timeout(DEADLINE).unwrap()).await.unwrap();
        let ready: serde_json::Value = serde_json::from_slice(&ready).unwrap();
        let addr = ready["url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        Self { addr, ready, stop, task, plane, home }
    }

    pub async fn connect(&self) -> TcpStream {
        timeout(DEADLINE, TcpStream::connect(self.addr)).await.unwrap().unwrap()
    }

    /// Sends `bytes` on a connection of their own and reads all that comes back until the server closes.
    pub async fn send(&self, bytes: &[u8]) -> Vec<Answer> {
        let mut stream = self.connect().await;
        // The server may close before it has read all of it.
        let _ = stream.write_all(bytes).await;
        let mut got = Vec::new();
        let _ = timeout(DEADLINE, stream.read_to_end(&mut got)).await.expect("the server closes");
        Answer::all(&got)
    }

    /// One request, `Host` and `Connection: close` added.
    pub async fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.addr);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut answers = self.send(text.as_bytes()).await;
        assert_eq!(answers.len(), 1, "{method} {target}: {answers:?}");
        answers.remove(0)
    }

    /// The same with the token.
    pub async fn call(&self, method: &str, target: &str, body: &str) -> Answer {
        self.ask(method, target, &[("authorization", &format!("Bearer {TOKEN}"))], body).await
    }

    /// A new session's id.
    pub async fn create(&self) -> String {
        let answer = self.call("POST", "/v1/sessions", "{}").await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Prompts and waits for the end of the run.
    pub async fn run(&self, id: &str, text: &str) -> serde_json::Value {
        let body = serde_json::json!({"text": text, "wait": true}).to_string();
        let answer = self.call("POST", &format!("/v1/sessions/{id}/prompt"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Opens an event stream.
    pub async fn events(&self, id: &str, query: &str, headers: &str) -> Events {
        let mut stream = self.connect().await;
        let path = format!("/v1/sessions/{id}/events?token={TOKEN}{query}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Events::new(stream).await
    }

    /// Stops the server, then the plane, as the command does; nothing of it may be left.
    pub async fn end(self) {
        self.stop.cancel();
        self.plane.shutdown(Duration::from_secs(1)).await;
        timeout(DEADLINE, self.task).await.expect("the server ends").unwrap().unwrap();
        assert!(TcpStream::connect(self.addr).await.is_err(), "the port is free");
    }
}

#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The answers in `bytes`; a body without a length goes on to the end.
    pub fn all(mut bytes: &[u8]) -> Vec<Self> {
        let mut answers = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
            let head = std::str::from_utf8(&bytes[..end]).unwrap();
            bytes = &bytes[end + 4..];
            let mut lines = head.split("\r\n");
            let status: u16 = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            if status == 100 {
                continue;
            }
            let mut headers = BTreeMap::new();
            for line in lines {
                let (name, value) = line.split_once(": ").unwrap();
                assert!(headers.insert(name.to_lowercase(), value.to_owned()).is_none(), "twice: {name}");
            }
            let length = headers.get("content-length").map(|text| text.parse().unwrap());
            // The answer to a HEAD has a length and no body.
            let length: usize = length.unwrap_or(if status == 204 { 0 } else { bytes.len() }).min(bytes.len());
            answers.push(Self { status, headers, body: bytes[..length].to_vec() });
            bytes = &bytes[length..];
        }
        answers
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }

    /// Checks that it is a failure in the one shape, and tells its code.
    pub fn code(&self) -> String {
        let body = self.json();
        assert_eq!(self.headers["content-type"], "application/json");
        let code = body["error"]["code"].as_str().unwrap().to_owned();
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        let known: triplane_protocol::ErrorCode = serde_json::from_value(body["error"]["code"].clone()).unwrap();
        assert_eq!(known.http(), self.status, "{body}");
        code
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: Option<u64>,
    pub kind: String,
    pub data: serde_json::Value,
}

/// An open stream, read as a browser would.
pub struct Events {
    stream: TcpStream,
    /// Chunked bytes as they came.
    raw: Vec<u8>,
    /// Text without the chunks.
    text: String,
    /// Lines that begin with a colon.
    pub comments: usize,
    pub head: Answer,
    over: bool,
}

impl Events {
    async fn new(mut stream: TcpStream) -> Self {
        let mut raw = Vec::new();
        let end = loop {
            if let Some(end) = raw.windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
            let read = timeout(DEADLINE, stream.read_buf(&mut raw)).await.unwrap().unwrap();
            assert!(read > 0, "a whole head");
        };
        let head = Answer::all(&raw[..end]).remove(0);
        raw.drain(..end);
        Self { stream, raw, text: String::new(), comments: 0, head, over: false }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                if let Some(event) = self.event(&block) {
                    return Some(event);
                }
            } else if !self.fill().await {
                return None;
            }
        }
    }

    /// Waits for text; `false` at the end.
    pub async fn fill(&mut self) -> bool {
        while !self.unchunk() {
            let read = timeout(DEADLINE, self.stream.read_buf(&mut self.raw)).await.expect("something comes");
            if self.over || read.unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }

    /// Takes whole chunks out of `raw`; whether there was text in them.
    fn unchunk(&mut self) -> bool {
        let before = self.text.len();
        while let Some(line) = self.raw.windows(2).position(|w| w == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&self.raw[..line]).unwrap(), 16).unwrap();
            let end = line + 2 + size;
            if self.raw.len() < end + 2 {
                break;
            }
            self.text.push_str(std::str::from_utf8(&self.raw[line + 2..end]).unwrap());
            self.raw.drain(..end + 2);
            self.over |= size == 0;
        }
        self.text.len() > before
    }

    fn event(&mut self, block: &str) -> Option<Event> {
        let (mut id, mut kind, mut data) = (None, String::new(), None);
        for line in block.lines() {
            match line.split_once(':') {
                Some(("", _)) => self.comments += 1,
                Some(("id", text)) => id = Some(text.trim().parse().unwrap()),
                Some(("event", text)) => kind = text.trim().to_owned(),
                Some(("data", text)) => data = Some(serde_json::from_str(text.trim()).unwrap()),
                Some(("retry", text)) => assert_eq!(text.trim(), "1000"),
                other => assert!(line.is_empty(), "{other:?}"),
            }
        }
        data.map(|data| Event { id, kind, data })
    }

    /// Events up to and with the first of this kind.
    pub async fn until(&mut self, kind: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind}: {events:?}"));
            let last = event.kind == kind;
            events.push(event);
            if last {
                return events;
            }
        }
    }

    /// Events up to and with the `status` that says idle.
    pub async fn until_idle(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while events.last().is_none_or(|event: &Event| event.data["busy"] != false) {
            events.extend(self.until("status").await);
        }
        events
    }
}
