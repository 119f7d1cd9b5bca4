//! What can be done to a server, and what the hooks of a break are given.
//! A hook is a plain function; what it remembers is in [`Mem`] (the process) and [`Talk`] (one connection).

use crate::proxy::http::{Request, Response};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use triplane_conformance::Wire;

/// One break.
#[derive(Debug, Clone, Copy)]
pub struct Break {
    /// Names it: what the broken server does.
    pub name: &'static str,
    /// The wires that it is run on, once each.
    pub wires: &'static [Wire],
    /// The clause that it breaks.
    pub clause: &'static str,
    /// The case that must catch it.
    pub case: &'static str,
    /// How it is done.
    pub acts: &'static [Act],
}

/// What is done to the server.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// Changes the command line, the environment or files before the server starts.
    Start(fn(&mut Start)),
    /// Stands in front of this wire, and not of the case's own.
    Front(Wire),
    /// Listens on every address.
    Everywhere,
    /// Changes the ready line.
    Ready(fn(&mut Value)),
    /// Prints the ready lines on the other one of stdout and stderr.
    ReadyElsewhere,
    /// Writes to stdout behind the ready line.
    Prints(&'static str),
    /// Writes to stderr, given the token.
    Logs(fn(&str) -> String),
    /// Leaves a child behind.
    Child,
    /// What the nth signal (from 1) becomes: what the server is sent, if anything.
    Signals(fn(u32, i32) -> Option<i32>),
    /// Ends with this status, however the server ended.
    Exits(i32),
    /// Never hears the end of stdin.
    KeepsStdin,
    /// Ends at the first bytes that are no message.
    Dies,
    /// Refuses bytes that are no request without a body.
    Mute,
    /// Done before each answer leaves.
    Before(fn(&Here)),
    /// A message from the client.
    Up(fn(&mut Mem, &mut Talk, &str)),
    /// A message from the server.
    Down(fn(&mut Mem, &mut Talk, &str)),
    /// A frame on a socket, either way.
    Frame(fn(&mut Frame)),
    /// A request.
    Request(fn(&mut Mem, &mut Request)),
    /// The answer to it.
    Response(fn(&mut Mem, &Request, &mut Response)),
    /// A message of an event stream; what is pushed goes out.
    Event(fn(&mut Mem, &Request, Message, &mut Vec<Message>)),
}

/// Where the server works.
#[derive(Debug, Clone)]
pub struct Here {
    /// Its directory.
    pub work: PathBuf,
    /// Its transcripts.
    pub sessions: PathBuf,
    /// `$TRIPLANE_HOME`.
    pub home: PathBuf,
}

impl Here {
    /// A session's transcript.
    pub fn transcript(&self, id: &str) -> PathBuf {
        self.sessions.join(format!("{id}.jsonl"))
    }

    /// The files of a directory whose name ends so.
    pub fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).map(|dir| dir.flatten().collect::<Vec<_>>()).unwrap_or_default();
        let paths = entries.into_iter().map(|entry| entry.path());
        paths.filter(|path| path.to_string_lossy().ends_with(suffix)).collect()
    }

    /// Rewrites each transcript.
    pub fn rewrite(&self, change: impl Fn(Vec<String>) -> Vec<String>) {
        for path in Self::files(&self.sessions, ".jsonl") {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let lines = change(text.lines().map(str::to_owned).collect());
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            // A failure leaves the server whole, and the break is not caught.
            let _ = std::fs::write(&path, text);
        }
    }
}

/// A start, before it happens.
#[derive(Debug)]
pub struct Start {
    /// Where it will work.
    pub here: Here,
    /// The arguments.
    pub args: Vec<String>,
    /// Variables that are added.
    pub env: Vec<(String, String)>,
}

impl Start {
    /// Takes out a flag and its value.
    pub fn without(&mut self, flag: &str) {
        if let Some(at) = self.args.iter().position(|arg| arg == flag) {
            self.args.drain(at..(at + 2).min(self.args.len()));
        }
    }

    /// Adds arguments.
    pub fn with(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    }

    /// Whether a flag is given.
    pub fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg == flag)
    }
}

/// What a process remembers.
#[derive(Debug)]
pub struct Mem {
    /// Where it works.
    pub here: Here,
    /// The server's token.
    pub token: String,
    /// Whether the server has been told to end.
    pub ending: bool,
    /// Whatever a hook wants to keep.
    pub notes: HashMap<String, Value>,
}

impl Mem {
    /// Counts, from 1.
    pub fn count(&mut self, name: &str) -> u64 {
        let next = self.notes.get(name).and_then(Value::as_u64).unwrap_or(0) + 1;
        self.notes.insert(name.to_owned(), json!(next));
        next
    }

    /// Whether something was noted.
    pub fn noted(&self, name: &str) -> bool {
        self.notes.contains_key(name)
    }

    /// Notes something.
    pub fn note(&mut self, name: &str, value: Value) {
        self.notes.insert(name.to_owned(), value);
    }
}

/// One JSON-RPC connection.
#[derive(Debug, Default)]
pub struct Talk {
    asked: HashMap<String, Value>,
    /// Messages that are held back.
    pub held: Vec<String>,
    /// What goes to the server.
    pub(crate) ups: Vec<String>,
    /// What goes to the client.
    pub(crate) downs: Vec<String>,
}

impl Talk {
    /// Sends to the server.
    pub fn up(&mut self, text: impl Into<String>) {
        self.ups.push(text.into());
    }

    /// Sends to the client.
    pub fn down(&mut self, text: impl Into<String>) {
        self.downs.push(text.into());
    }

    pub(crate) fn remember(&mut self, text: &str) {
        let request = parse(text);
        if let Some(id) = request.get("id").filter(|_| request.get("method").is_some()) {
            self.asked.insert(id.to_string(), request.clone());
        }
    }

    /// The request that an answer is for.
    pub fn request(&self, answer: &Value) -> Value {
        let id = answer.get("id").filter(|_| answer.get("method").is_none());
        id.and_then(|id| self.asked.get(&id.to_string())).cloned().unwrap_or_default()
    }

    /// Whether a text is the answer to this method.
    pub fn answers(&self, text: &str, method: &str) -> bool {
        self.request(&parse(text)).get("method") == Some(&json!(method))
    }

    /// Passes a text down; the result in it, if it answers this method, is changed first.
    pub fn result(&mut self, text: &str, method: &str, change: impl FnOnce(&mut Value)) {
        let mut answer = parse(text);
        match answer.get_mut("result") {
            Some(result) if self.answers(text, method) => {
                change(result);
                self.down(answer.to_string());
            }
            _ => self.down(text),
        }
    }

    /// Passes a text down; the error in it, if there is one, is changed first.
    pub fn error(&mut self, text: &str, change: impl FnOnce(&mut Value)) {
        let mut answer = parse(text);
        match answer.get_mut("error") {
            Some(error) => {
                change(error);
                self.down(answer.to_string());
            }
            None => self.down(text),
        }
    }

    /// Passes a text up; its params, if it calls this method, are changed first.
    pub fn params(&mut self, text: &str, method: &str, change: impl FnOnce(&mut Value)) {
        let mut request = parse(text);
        if request.get("method") == Some(&json!(method))
            && let Some(params) = request.get_mut("params")
        {
            change(params);
            self.up(request.to_string());
        } else {
            self.up(text);
        }
    }

    /// Answers a request with an error, in the server's stead.
    pub fn refuse(&mut self, text: &str, number: i64, code: &str) {
        let id = parse(text).get("id").cloned().unwrap_or_default();
        let error = json!({"code": number, "message": code, "data": {"code": code}});
        self.down(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
    }

    /// Passes on all that was held back.
    pub fn release_up(&mut self) {
        self.ups.append(&mut self.held);
    }

    /// Passes on all that was held back.
    pub fn release_down(&mut self) {
        self.downs.append(&mut self.held);
    }
}

/// The message, or null where it is no JSON.
pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// What a request calls, or a notification is named.
pub fn method(text: &str) -> String {
    parse(text).get("method").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Changes a member, if it is there.
pub fn set(value: &mut Value, pointer: &str, to: Value) {
    if let Some(place) = value.pointer_mut(pointer) {
        *place = to;
    }
}

/// Adds a member.
pub fn add(value: &mut Value, name: &str, to: Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), to);
    }
}

/// Takes a member out.
pub fn drop_member(value: &mut Value, name: &str) {
    if let Some(object) = value.as_object_mut() {
        object.shift_remove(name);
    }
}

/// A list inside.
pub fn list<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    value.pointer_mut(pointer).and_then(Value::as_array_mut)
}

/// The text of a member.
pub fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A WebSocket frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Whether the client sent it.
    pub up: bool,
    /// The first byte: FIN, the reserved bits, the opcode.
    pub head: u8,
    /// The payload, unmasked.
    pub payload: Vec<u8>,
}

/// A message of an event stream, as its lines.
#[derive(Debug, Clone)]
pub struct Message {
    /// The lines without the blank one.
    pub lines: Vec<String>,
}

impl Message {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Its `event:`.
    pub fn kind(&self) -> &str {
        self.field("event").unwrap_or_default()
    }

    /// Its data.
    pub fn data(&self) -> Value {
        parse(self.field("data").unwrap_or_default())
    }

    /// Puts other data into it.
    pub fn set_data(&mut self, data: &Value) {
        self.set_field("data", &data.to_string());
    }

    /// Puts another value into a field that is there.
    pub fn set_field(&mut self, name: &str, value: &str) {
        for line in &mut self.lines {
            if line.starts_with(&format!("{name}: ")) {
                *line = format!("{name}: {value}");
            }
        }
    }
}
