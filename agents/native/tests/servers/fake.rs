//! Scripted servers, as real processes: one of tools, one of a language. Each does what its tool's name, or its file's text, says.

use serde_json::{Value, json};
use std::{
    io::{BufRead, Read, Write, stdin, stdout},
    thread::sleep,
    time::Duration,
};

/// Makes this program a server of tools; the next argument says what kind of one.
pub(crate) const MCP: &str = "__mcp";

/// Makes this program a language server.
pub(crate) const LSP: &str = "__lsp";

struct Mcp {
    kind: String,
    /// Ids of calls that were cancelled.
    cancelled: Vec<Value>,
    grown: bool,
    /// A call that waits for a person's answer.
    asks: Option<Value>,
}

pub(crate) fn mcp(kind: &str) {
    if kind == "dies" {
        eprintln!("no licence");
        std::process::exit(3);
    }
    let mut server = Mcp { kind: kind.to_owned(), cancelled: Vec::new(), grown: false, asks: None };
    for line in stdin().lock().lines() {
        let Ok(line) = line else { return };
        let message: Value = serde_json::from_str(&line).unwrap();
        server.hear(&message);
    }
    if kind == "stubborn" {
        sleep(Duration::from_secs(600));
    }
}

fn say(message: &Value) {
    let mut out = stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}

fn answer(id: &Value, result: Value) {
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn text(id: &Value, text: impl Into<String>) {
    answer(id, json!({ "content": [{ "type": "text", "text": text.into() }] }));
}

impl Mcp {
    fn hear(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") if self.kind == "mute" => {}
            Some("initialize") => {
                println!("this line is no message");
                let info = json!({ "name": "fake", "version": "1" });
                let tools = json!({ "tools": { "listChanged": true } });
                answer(id, json!({ "protocolVersion": "2025-06-18", "capabilities": tools, "serverInfo": info }));
            }
            Some("tools/list") => self.list(id),
            Some("ping") if self.kind == "frozen" => {}
            Some("ping") => answer(id, json!({})),
            Some("tools/call") => self.call(id, params),
            Some("notifications/cancelled") => self.cancelled.push(params["requestId"].clone()),
            Some(_) => {}
            None => {
                if let Some(call) = self.asks.take() {
                    text(&call, message["result"].to_string());
                }
            }
        }
    }

    fn list(&self, id: &Value) {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let mut names = vec![
            "echo",
            "pid",
            "env",
            "die",
            "hang",
            "huge",
            "flood",
            "progress",
            "ask",
            "grow",
            "picture",
            "cancelled",
            "fail",
        ];
        if self.grown {
            names.push("extra");
        }
        let mut tools: Vec<Value> = names.into_iter().map(tool).collect();
        if self.kind == "hostile" {
            let deep = (0..5000).fold(json!({}), |inner, _| json!({ "x": "y".repeat(20), "z": inner }));
            drop(deep);
            tools
                .push(json!({ "name": "bad\u{1b}[2J/../name", "description": "d".repeat(1 << 20), "inputSchema": {} }));
            tools.push(json!({ "name": "large", "inputSchema": { "x": "y".repeat(1 << 20) } }));
        }
        answer(id, json!({ "tools": tools }));
    }

    fn call(&mut self, id: &Value, params: &Value) {
        let input = &params["arguments"];
        match params["name"].as_str().unwrap() {
            "echo" => text(id, input["text"].as_str().unwrap_or_default()),
            "pid" => text(id, std::process::id().to_string()),
            "env" => text(id, std::env::vars().map(|(name, value)| format!("{name}={value}\n")).collect::<String>()),
            "die" => {
                eprintln!("boom");
                std::process::exit(7);
            }
            "hang" => {}
            "huge" => text(id, "é".repeat(1 << 20)),
            "flood" => {
                // One line that never ends.
                let mut out = stdout().lock();
                while out.write_all(&[b'x'; 1 << 16]).is_ok() {}
            }
            "progress" => {
                for done in 1..=3 {
                    let params = json!({ "progressToken": params["_meta"]["progressToken"], "progress": done, "total": 3, "message": "on\nit" });
                    say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
                    sleep(Duration::from_millis(400));
                }
                text(id, "through");
            }
            "ask" => {
                let field = json!({ "color": { "type": "string", "enum": ["red", "green"] } });
                let schema = json!({ "type": "object", "properties": field, "required": ["color"] });
                let params = json!({ "message": "which color?", "requestedSchema": schema });
                say(&json!({ "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": params }));
                self.asks = Some(id.clone());
            }
            "grow" => {
                self.grown = true;
                say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
                text(id, "grown");
            }
            "extra" => text(id, "the new one"),
            "picture" => {
                answer(id, json!({ "content": [{ "type": "image", "data": "aGk=", "mimeType": "image/png" }] }))
            }
            "cancelled" => text(id, self.cancelled.len().to_string()),
            "fail" => answer(id, json!({ "content": [{ "type": "text", "text": "it is bad" }], "isError": true })),
            other => {
                let error = json!({ "code": -32602, "message": format!("no tool {other}") });
                say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        }
    }
}

/// Every line with `BAD` is an error; a file with `DIE` ends the server, one with `QUIET` is never reported.
pub(crate) fn lsp(kind: &str) {
    let mut stdin = stdin().lock();
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stdin.read_line(&mut line).unwrap() == 0 {
                return;
            }
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None => break,
            }
        }
        let mut body = vec![0; length];
        stdin.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        let (id, params) = (&message["id"], &message["params"]);
        let document = &params["textDocument"];
        let answer = |result: Value| framed(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        match message["method"].as_str() {
            Some("initialize") if kind == "garbage" => println!("Traceback (most recent call last):"),
            Some("initialize") => answer(json!({ "capabilities": { "textDocumentSync": 1 } })),
            Some("textDocument/didOpen") => report(document, document["text"].as_str().unwrap()),
            Some("textDocument/didChange") => report(document, params["contentChanges"][0]["text"].as_str().unwrap()),
            Some("textDocument/definition") => {
                let range = json!({ "start": params["position"], "end": params["position"] });
                answer(json!({ "uri": document["uri"], "range": range }));
            }
            Some("textDocument/documentSymbol") => {
                answer(json!([{ "name": format!("pid{}", std::process::id()), "kind": 12 }]));
            }
            Some("textDocument/references") => {}
            Some("exit") => return,
            Some(_) if !id.is_null() => answer(Value::Null),
            _ => {}
        }
        stdout().flush().unwrap();
    }
}

fn framed(message: &Value) {
    let body = message.to_string();
    let mut out = stdout().lock();
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    out.flush().unwrap();
}

fn report(document: &Value, text: &str) {
    if text.contains("DIE") {
        eprintln!("index out of range");
        std::process::exit(9);
    }
    if text.contains("QUIET") {
        return;
    }
    let bad = text.lines().enumerate().filter_map(|(row, line)| Some((row, line.find("BAD")?)));
    let problem = |(row, column): (usize, usize)| json!({ "severity": 1, "message": "it is bad", "range": { "start": { "line": row, "character": column } } });
    let problems: Vec<Value> = bad.map(problem).collect();
    let params = json!({ "uri": document["uri"], "version": document["version"], "diagnostics": problems });
    framed(&json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params }));
}
