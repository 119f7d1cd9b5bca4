//! A JSON-RPC client for lich and sepia that keeps every frame in the order it came, and holds each against the specification
//! (C02) and the wire's table: envelope, an answer only to what was asked and only once, schema of the result, declared codes.

use super::{
    stdio::{Line, Lines},
    ws::{End, Got, Socket},
};
use crate::{
    book::RpcBook,
    json::Json,
    verdict::{Blame, Outcome, Stop, shorten},
};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// What carries the frames.
#[derive(Debug)]
pub enum Pipe {
    /// One message a text frame.
    Ws(Box<Socket>),
    /// One message a line.
    Stdio(Box<Lines>),
}

/// A frame from the server.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its place among all frames of this connection, from 0.
    pub at: usize,
    /// As it came.
    pub text: String,
    /// Decoded.
    pub json: Value,
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "frame {} {}", self.at, shorten(&self.text))
    }
}

/// An error answer.
#[derive(Debug, Clone)]
pub struct RpcError {
    /// `error.code`.
    pub number: i64,
    /// `error.message`.
    pub message: String,
    /// `error.data.code`.
    pub code: Option<String>,
    /// `error.data.cause`.
    pub cause: Option<String>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The place of its frame.
    pub at: usize,
    /// The frame, for messages.
    pub text: String,
    /// What it says.
    pub result: Result<Value, RpcError>,
}

impl Reply {
    /// The result; an error makes the server break the clause, or skips the case when the row is not built.
    pub fn ok(self) -> Outcome<Value> {
        match self.result {
            Ok(value) => Ok(value),
            Err(err) if err.code.as_deref() == Some("unsupported") && err.message.contains("is not built") => {
                Err(Stop::skip(err.message))
            }
            Err(_) => Err(Stop::broke(format!("an error where a result is due: {}", shorten(&self.text)))),
        }
    }

    /// Ends the case unless this is the error `code`, with the number that C03 gives it; its message.
    pub fn fails(self, code: &str) -> Outcome<RpcError> {
        let number = triplane_protocol::ErrorCode::ALL
            .iter()
            .find(|known| known.as_str() == code)
            .map(|known| i64::from(known.rpc()))
            .ok_or_else(|| Stop::harness(format!("no code {code}")))?;
        match self.result {
            Err(err) if err.code.as_deref() == Some(code) && err.number == number => Ok(err),
            _ => Err(Stop::broke(format!("want the error `{code}` ({number}), got {}", shorten(&self.text)))),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Rpc {
    pipe: Pipe,
    deadline: Duration,
    book: Arc<RpcBook>,
    next_id: i64,
    /// Ids of our own that wait for an answer, and their methods.
    waiting: HashMap<i64, String>,
    /// Frames that nobody has asked for yet.
    inbox: VecDeque<Frame>,
    count: usize,
}

impl Rpc {
    /// Speaks over `pipe`; answers are held against `book`.
    pub fn new(pipe: Pipe, book: Arc<RpcBook>, deadline: Duration) -> Self {
        Self { pipe, deadline, book, next_id: 1, waiting: HashMap::new(), inbox: VecDeque::new(), count: 0 }
    }

    /// Longest wait for anything.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Waits longer, or shorter, from now on.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The pipe, for bytes that are no JSON-RPC.
    pub fn pipe(&mut self) -> &mut Pipe {
        &mut self.pipe
    }

    /// Sends a text as one frame.
    pub async fn raw(&mut self, text: &str) -> Outcome {
        self.book.may_send(text)?;
        match &mut self.pipe {
            Pipe::Ws(socket) => socket.text(text).await,
            Pipe::Stdio(lines) => lines.line(text).await,
        }
    }

    /// Sends a request and returns its id at once.
    pub async fn send(&mut self, method: &str, params: Value) -> Outcome<i64> {
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.insert(id, method.to_owned());
        self.raw(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await?;
        Ok(id)
    }

    /// Waits for the answer to a request; frames in between stay in the inbox.
    pub async fn reply(&mut self, id: i64) -> Outcome<Reply> {
        let frame =
            self.take(&format!("the reply to id {id}"), |frame| frame.json.get("id") == Some(&json!(id))).await?;
        let reply = read_reply(&frame);
        if let Err(error) = &reply.result {
            self.book.lacking(error.code.as_deref(), &error.message)?;
        }
        Ok(reply)
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Outcome<Reply> {
        let id = self.send(method, params).await?;
        self.reply(id).await
    }

    /// The result of a call that should succeed.
    pub async fn call(&mut self, method: &str, params: Value) -> Outcome<Value> {
        self.ask(method, params).await?.ok()
    }

    /// The error of a call that should fail with this code.
    pub async fn fails(&mut self, method: &str, params: Value, code: &str) -> Outcome<RpcError> {
        let asked = format!("{method} {}", shorten(&params.to_string()));
        self.ask(method, params).await?.fails(code).map_err(|stop| match stop {
            Stop::Broke { clause, seen } => Stop::Broke { clause, seen: format!("{asked}: {seen}") },
            other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
        })
    }

    /// The next notification of this name; other frames stay in the inbox.
    pub async fn notification(&mut self, name: &str) -> Outcome<Frame> {
        self.take(&format!("a `{name}` notification"), |frame| is_notification(frame, name)).await
    }

    /// The next notification of this name whose params fit.
    pub async fn notified(&mut self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Outcome<Frame> {
        self.take(&format!("`{name}`: {what}"), |frame| {
            is_notification(frame, name) && frame.json.get("params").is_some_and(&fits)
        })
        .await
    }

    /// The notifications of this name that have come, and that nobody has asked for yet.
    pub fn arrived(&mut self, name: &str) -> Vec<Frame> {
        let (found, rest) = self.inbox.drain(..).partition(|frame| is_notification(frame, name));
        self.inbox = rest;
        found.into_iter().collect()
    }

    /// The first frame that fits, out of the inbox or to come.
    pub async fn take(&mut self, what: &str, fits: impl Fn(&Frame) -> bool) -> Outcome<Frame> {
        if let Some(at) = self.inbox.iter().position(&fits) {
            return self.inbox.remove(at).ok_or_else(|| Stop::harness("the inbox moved"));
        }
        loop {
            match self.receive(self.deadline).await? {
                Some(frame) if fits(&frame) => return Ok(frame),
                Some(frame) => self.inbox.push_back(frame),
                None => {
                    let waiting: Vec<String> = self.inbox.iter().map(|frame| shorten(&frame.text)).collect();
                    let last = waiting.iter().rev().take(5).collect::<Vec<_>>();
                    return Err(Stop::broke(format!(
                        "no {what} within {:?}; unread, latest first: {last:?}",
                        self.deadline
                    )));
                }
            }
        }
    }

    /// The next frame in the order of arrival.
    pub async fn next(&mut self) -> Outcome<Frame> {
        self.take("frame", |_| true).await
    }

    /// Ends the case if any frame is unread or comes within `wait`.
    pub async fn quiet(&mut self, wait: Duration) -> Outcome {
        let first = match self.inbox.pop_front() {
            Some(frame) => Some(frame),
            None => self.receive(wait).await?,
        };
        match first {
            None => Ok(()),
            Some(frame) => Err(Stop::broke(format!("a frame that nothing asked for: {frame}"))),
        }
    }

    /// Waits for the end of the connection; the frames before it go to the inbox.
    pub async fn end(&mut self) -> Outcome<End> {
        loop {
            match self.read(self.deadline).await? {
                None => return Err(Stop::broke(format!("the connection did not end within {:?}", self.deadline))),
                Some(Got::End(end)) => return Ok(end),
                Some(Got::Text(text)) => {
                    let frame = self.accept(text)?;
                    self.inbox.push_back(frame);
                }
            }
        }
    }

    /// The frames that came and that nobody has asked for, in order; empties the inbox.
    pub fn unread(&mut self) -> Vec<Frame> {
        self.inbox.drain(..).collect()
    }

    async fn receive(&mut self, wait: Duration) -> Outcome<Option<Frame>> {
        match self.read(wait).await? {
            None => Ok(None),
            Some(Got::Text(text)) => self.accept(text).map(Some),
            Some(Got::End(end)) => {
                let asked: Vec<&String> = self.waiting.values().collect();
                Err(Stop::broke(format!("the connection ended ({end:?}); still unanswered: {asked:?}")))
            }
        }
    }

    async fn read(&mut self, wait: Duration) -> Outcome<Option<Got>> {
        match &mut self.pipe {
            Pipe::Ws(socket) => socket.next(wait).await,
            Pipe::Stdio(lines) => Ok(lines.next(wait).await?.map(|line| match line {
                Line::Text(text) => Got::Text(text),
                Line::End => Got::End(End::Silent),
            })),
        }
    }

    /// Holds a frame against the specification and the table.
    fn accept(&mut self, text: String) -> Outcome<Frame> {
        let broke = |what: &str| Stop::Broke { clause: Some("C02"), seen: format!("{what}: {}", shorten(&text)) };
        let json: Value =
            serde_json::from_str(&text).map_err(|err| broke(&format!("a frame that is no JSON ({err})")))?;
        match &json {
            Value::Object(_) => self.check(&json, &text)?,
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    self.check(item, &text)?;
                }
            }
            _ => return Err(broke("a frame that is neither an object nor a batch")),
        }
        let at = self.count;
        self.count += 1;
        Ok(Frame { at, text, json })
    }

    fn check(&mut self, json: &Value, text: &str) -> Outcome {
        let broke = |what: &str| Stop::Broke { clause: Some("C02"), seen: format!("{what}: {}", shorten(text)) };
        if json.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(broke("no `jsonrpc: \"2.0\"`"));
        }
        if let Some(name) = json.get("method") {
            if json.get("id").is_some() || json.get("result").is_some() || json.get("error").is_some() {
                return Err(broke("a notification with `id`, `result` or `error`"));
            }
            let name = name.as_str().ok_or_else(|| broke("`method` is no string"))?;
            return self.book.notification(name, json.get("params").unwrap_or(&Value::Null));
        }
        let id = json.get("id").ok_or_else(|| broke("neither a notification nor an answer"))?;
        let method = id.as_i64().and_then(|id| self.waiting.remove(&id));
        match (json.get("result"), json.get("error")) {
            (Some(result), None) => method.map_or(Ok(()), |method| self.book.result(&method, result)),
            (None, Some(error)) => {
                error.int("/code").of("C02")?;
                error.text("/message").of("C02")?;
                self.book.error(method.as_deref(), error)
            }
            _ => Err(broke("an answer needs exactly one of `result` and `error`")),
        }
    }
}

fn is_notification(frame: &Frame, name: &str) -> bool {
    frame.json.get("method").and_then(Value::as_str) == Some(name)
}

/// What an answer says; the frame has been held against the specification already.
pub fn read_reply(frame: &Frame) -> Reply {
    let result = match frame.json.get("error") {
        None => Ok(frame.json.get("result").cloned().unwrap_or_default()),
        Some(error) => {
            let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            Err(RpcError {
                number: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                message: text("/message").unwrap_or_default(),
                code: text("/data/code"),
                cause: text("/data/cause"),
            })
        }
    };
    Reply { at: frame.at, text: frame.text.clone(), result }
}
