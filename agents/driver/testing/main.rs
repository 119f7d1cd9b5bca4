//! A driver that misbehaves on request, for tests: what a session is called, or the last word of the prompt, says how.
//! `die`, `hang`, `garbage`, `deep`, `long`, `twice`, `flood`, `slow`, `linger`, and for prompts `ask`, `odd`, `tool`, `deaf`, `fail` too.
//! Variables: `TEST_DRIVER_PROTOCOL` (the version that it says), `TEST_DRIVER_START` (`hang`, `die`), `TEST_DRIVER_LOG` (a file that
//! gets a line for each start and each call).

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::zombie_processes,
    reason = "a test's tool: what it cannot do fails the test"
)]

use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::{self, BufRead, Write},
    process::{Command, exit},
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

/// Answers to permission requests, by session.
static ANSWERS: Mutex<Option<HashMap<String, mpsc::Sender<Value>>>> = Mutex::new(None);

fn main() {
    log("start");
    match std::env::var("TEST_DRIVER_START").as_deref() {
        Ok("hang") => thread::sleep(Duration::from_secs(600)),
        Ok("die") => die(),
        _ => {}
    }
    for line in io::stdin().lock().lines() {
        let line = line.expect("a line");
        let call: Value = serde_json::from_str(&line).expect("JSON");
        log(call["method"].as_str().expect("a method"));
        // Each on a thread of its own: one that hangs keeps nobody waiting.
        thread::spawn(move || serve(&call));
    }
}

fn log(text: &str) {
    if let Some(path) = std::env::var_os("TEST_DRIVER_LOG") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the log");
        file.write_all(format!("{text}\n").as_bytes()).expect("a line in the log");
    }
}

fn say(value: &Value) {
    raw(&value.to_string());
}

fn raw(text: &str) {
    let mut stdout = io::stdout().lock();
    // The other side may be gone; then so are we.
    if stdout.write_all(format!("{text}\n").as_bytes()).and_then(|()| stdout.flush()).is_err() {
        exit(0);
    }
}

fn reply(call: &Value, result: Value) {
    say(&json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
}

fn refuse(call: &Value, code: &str, message: &str) {
    let error =
        json!({"code": -32000, "message": message, "data": {"code": code, "cause": format!("cause: {message}")}});
    say(&json!({"jsonrpc": "2.0", "id": call["id"], "error": error}));
}

fn event(id: &Value, event: Value) {
    say(&json!({"jsonrpc": "2.0", "method": "session.event", "params": {"id": id, "event": event}}));
}

fn die() -> ! {
    eprint!("first line\nthe disk is on fire\n");
    exit(3);
}

/// What a name asks for; `true` when the call is not to be answered any more.
fn misbehave(how: &str, call: &Value) -> bool {
    match how {
        "die" => die(),
        "hang" => thread::sleep(Duration::from_secs(600)),
        "garbage" => raw("Traceback (most recent call last):"),
        "deep" => raw(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000))),
        "long" => raw(&"x".repeat(17 << 20)),
        "slow" => thread::sleep(Duration::from_millis(300)),
        "twice" => reply(call, json!({"stop": "completed"})),
        // Holds our output open when we are gone.
        "linger" => {
            Command::new("sleep").arg("600").spawn().expect("sleep");
            die();
        }
        _ => {}
    }
    matches!(how, "hang" | "garbage" | "deep" | "long")
}

fn session(id: &Value) -> Value {
    let message = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}], "at": 1});
    json!({"version": 1, "id": id, "agent": "test", "cwd": "/", "created": 1, "updated": 2, "messages": [message]})
}

fn serve(call: &Value) {
    let (params, id) = (&call["params"], &call["params"]["id"]);
    let name = id.as_str().unwrap_or_default();
    match call["method"].as_str().unwrap_or_default() {
        "manifest" => {
            let protocol = std::env::var("TEST_DRIVER_PROTOCOL").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
            let can = json!({"prompt": true, "read": true, "write": true, "delete": true, "config": true});
            reply(call, json!({"protocol": protocol, "name": "Test", "version": "7", "capabilities": can}));
        }
        "session.list" => {
            let row = |id| json!({"id": id, "cwd": "/", "title": "t", "created": 1, "updated": 2});
            reply(call, json!({"sessions": [row("one"), row("two")]}));
        }
        "session.load" if name == "none" => refuse(call, "not_found", "no such session"),
        "session.load" if name == "wrong" => reply(call, json!({"session": {"version": "x"}})),
        "session.load" => {
            if !misbehave(name, call) {
                reply(call, json!({"session": session(id)}));
            }
        }
        "session.save" => reply(call, json!({"id": params["id"].as_str().unwrap_or("fresh"), "lost": ["images"]})),
        "session.prompt" => prompt(call),
        "session.cancel" => {
            if let Some(answers) = ANSWERS.lock().expect("answers").as_ref().and_then(|all| all.get(name)) {
                let _ = answers.send(json!({"outcome": "cancel"}));
            }
            reply(call, json!({}));
        }
        "session.permission" => {
            if let Some(answers) = ANSWERS.lock().expect("answers").as_ref().and_then(|all| all.get(name)) {
                let _ = answers.send(params.clone());
            }
            reply(call, json!({}));
        }
        "config.read" => {
            reply(call, json!({"agent": "test", "dir": params["dir"].as_str().unwrap_or("own"), "items": []}))
        }
        "config.write" => {
            let items = params["config"]["items"].as_array().cloned().unwrap_or_default();
            let action =
                |item: &Value| json!({"action": "created", "kind": item["kind"], "name": item["name"], "path": "/x"});
            reply(call, json!({"actions": items.iter().map(action).collect::<Vec<_>>()}));
        }
        "session.delete" | "session.open" | "session.close" => reply(call, json!({})),
        _ => refuse(call, "unsupported", "no such method"),
    }
}

fn prompt(call: &Value) {
    let id = &call["params"]["id"];
    let last = call["params"]["messages"].as_array().and_then(|all| all.last()).expect("a message");
    let text = last["parts"][0]["text"].as_str().unwrap_or_default();
    let how = text.split(' ').next_back().unwrap_or_default();
    let (sender, answers) = mpsc::channel();
    ANSWERS.lock().expect("answers").get_or_insert_default().insert(id.as_str().unwrap_or_default().into(), sender);
    event(id, json!({"type": "turn_start", "turn": 1, "model": "test/default"}));
    event(id, json!({"type": "llm_delta", "text": "so "}));
    if misbehave(how, call) {
        return;
    }
    let reply_text = match how {
        "flood" => {
            for _ in 0..20_000 {
                event(id, json!({"type": "llm_delta", "text": "x"}));
            }
            "flooded".to_owned()
        }
        "odd" => {
            event(id, json!({"type": "mood", "level": 3}));
            event(id, json!({"type": "llm_delta", "text": 7}));
            event(id, json!({"type": "final", "reply": "I am the plane"}));
            event(id, json!("no object"));
            say(&json!({"jsonrpc": "2.0", "method": "weather", "params": {}}));
            say(&json!({"jsonrpc": "2.0", "id": 5, "method": "fs.read", "params": {}}));
            say(&json!({"jsonrpc": "2.0", "id": 99_999, "result": {}}));
            "odd".to_owned()
        }
        "tool" => {
            event(id, json!({"type": "tool_call_start", "call_id": "c", "name": "look"}));
            let output = json!([{"type": "text", "text": "seen"}]);
            event(id, json!({"type": "tool_call_end", "call_id": "c", "output": output}));
            "looked".to_owned()
        }
        "ask" => {
            let options = json!([{"id": "yes-please", "name": "Yes", "kind": "allow_once"}, {"id": "no", "name": "No", "kind": "reject_once"}]);
            let ask = json!({"type": "permission_request", "request_id": "r", "call_id": "c", "tool": "look", "options": options});
            event(id, ask);
            let answer = answers.recv().expect("an answer");
            format!(
                "{} {}",
                answer["outcome"].as_str().unwrap_or_default(),
                answer["option"].as_str().unwrap_or_default()
            )
        }
        // Until it is cancelled.
        "wait" => {
            let _ = answers.recv();
            "stopped".to_owned()
        }
        // Not even then.
        "deaf" => {
            thread::sleep(Duration::from_secs(600));
            String::new()
        }
        "fail" => {
            let error = json!({"code": "overloaded", "message": "too many", "retryable": true});
            return reply(call, json!({"stop": "error", "error": error}));
        }
        _ => format!("you said {text}"),
    };
    let message = json!({"parts": [{"type": "text", "text": reply_text}]});
    let usage = json!({"input": 3, "output": 2, "cached": 0, "reasoning": 0});
    event(id, json!({"type": "llm_end", "message": message, "usage": usage}));
    reply(call, json!({"stop": "completed"}));
}
