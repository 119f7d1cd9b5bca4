//! An ACP agent for the tests: the first word of a prompt says which oddity of a real agent it plays.
//! One thread, blocking: it reads on only where an agent of its kind would.

use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{BufRead, Write},
    process::{Command, Stdio},
    time::Duration,
};

/// Plays until stdin ends.
pub(crate) fn play() {
    let mut puppet = Puppet { heard: VecDeque::new(), next: 0, deaf: false };
    while let Some(message) = puppet.hear() {
        puppet.take(&message);
    }
    if puppet.deaf {
        // Ignores the end of its stdin, as some do.
        std::thread::sleep(Duration::from_secs(300));
    }
}

struct Puppet {
    heard: VecDeque<Value>,
    /// Id of its next request; begins at 0, as all real ones do.
    next: i64,
    deaf: bool,
}

impl Puppet {
    fn hear(&mut self) -> Option<Value> {
        if let Some(message) = self.heard.pop_front() {
            return Some(message);
        }
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line).unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The next message that fits; the others are kept for later.
    fn wait(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut kept = VecDeque::new();
        let found = loop {
            match self.hear() {
                None => break None,
                Some(message) if fits(&message) => break Some(message),
                Some(message) => kept.push_back(message),
            }
        };
        kept.append(&mut self.heard);
        self.heard = kept;
        found
    }

    fn send(&self, message: &Value) {
        let mut out = std::io::stdout().lock();
        // Nobody listens any more: the end of stdin tells.
        let _ = writeln!(out, "{message}");
        let _ = out.flush();
    }

    fn answer(&self, to: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": to["id"], "result": result}));
    }

    fn refuse(&self, to: &Value, code: i64, message: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": to["id"], "error": {"code": code, "message": message}}));
    }

    /// Asks the client, and waits for its answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.wait(|message| message["id"] == json!(id) && message.get("method").is_none()).unwrap_or(Value::Null)
    }

    fn take(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => self.answer(message, hello()),
            "session/new" => {
                let id = format!("puppet-{}", std::process::id());
                let id = format!("{id}-{}", sessions().len());
                keep(&id, &[]);
                let modes = json!({"currentModeId": "code", "availableModes": [{"id": "code", "name": "C"}, {"id": "plan", "name": "P"}]});
                let options =
                    json!([{"id": "m", "category": "model", "options": [{"value": "small"}, {"value": "large"}]}]);
                self.answer(message, json!({"sessionId": id, "modes": modes, "configOptions": options}));
            }
            "session/load" => self.load(message),
            "session/set_mode" | "session/set_config_option" => {
                std::fs::write(
                    format!(".puppet-{}", params["modeId"].as_str().or(params["value"].as_str()).unwrap()),
                    "",
                )
                .unwrap();
                self.answer(message, json!({}));
            }
            "session/set_model" => self.refuse(message, -32601, "no such method"),
            "session/prompt" => self.prompt(message),
            "session/cancel" => {}
            _ if message.get("id").is_some() && message.get("method").is_some() => {
                self.refuse(message, -32601, "no such method")
            }
            _ => {}
        }
    }

    /// Replays one piece before its answer and the rest behind it.
    fn load(&mut self, message: &Value) {
        let id = message["params"]["sessionId"].as_str().unwrap();
        let Some((_, prompts)) = sessions().into_iter().find(|(known, _)| known == id) else {
            return self.refuse(message, -32602, "no such session");
        };
        self.update(
            id,
            json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": prompts.first()}}),
        );
        self.answer(message, json!({"modes": null}));
        for prompt in prompts.iter().skip(1) {
            self.update(
                id,
                json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": prompt}}),
            );
        }
    }

    fn update(&self, session: &str, update: Value) {
        let params = json!({"sessionId": session, "update": update});
        self.send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn say(&self, session: &str, text: &str) {
        self.update(
            session,
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        );
    }

    fn prompt(&mut self, message: &Value) {
        let session = message["params"]["sessionId"].as_str().unwrap().to_owned();
        let blocks = message["params"]["prompt"].as_array().unwrap().clone();
        let text = blocks.last().and_then(|block| block["text"].as_str()).unwrap_or_default().to_owned();
        let mut prompts =
            sessions().into_iter().find(|(id, _)| *id == session).map(|(_, prompts)| prompts).unwrap_or_default();
        prompts.push(text.clone());
        keep(&session, &prompts);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let reason = self.play(&session, word, rest, &blocks, prompts.len());
        match reason {
            Ok(reason) => {
                self.answer(message, json!({"stopReason": reason, "usage": {"inputTokens": 7, "outputTokens": 3}}))
            }
            Err((code, text)) => self.refuse(message, code, &text),
        }
        if word == "late" {
            self.update(&session, json!({"sessionUpdate": "usage_update", "used": 5, "size": 100}));
        }
    }

    fn play(
        &mut self,
        session: &str,
        word: &str,
        rest: &str,
        blocks: &[Value],
        prompts: usize,
    ) -> Result<&'static str, (i64, String)> {
        match word {
            "think" => {
                let thought =
                    json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": rest}});
                self.update(session, thought);
                self.say(session, "thought");
            }
            "history" => self.say(session, &format!("{prompts} prompts, {} blocks", blocks.len())),
            "kinds" => {
                let kinds: Vec<&str> = blocks.iter().filter_map(|block| block["type"].as_str()).collect();
                self.say(session, &kinds.join(","));
            }
            "late" => self.say(session, "before the answer"),
            "echo" => {
                self.update(
                    session,
                    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": rest}}),
                );
                self.say(session, rest);
            }
            "plan" => {
                let entries = json!([{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}, {"content": "three"}]);
                self.update(session, json!({"sessionUpdate": "plan", "entries": entries}));
            }
            "states" => self.states(session),
            "diff" => {
                let content = json!([{"type": "diff", "path": "a.txt", "oldText": "old\n", "newText": "new\n"}]);
                let call = json!({"sessionUpdate": "tool_call", "toolCallId": "d", "kind": "edit", "title": "Edit a.txt", "status": "pending", "content": content});
                self.update(session, call);
                self.update(
                    session,
                    json!({"sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "completed"}),
                );
            }
            "never" => {
                let call = json!({"sessionUpdate": "tool_call", "toolCallId": "n", "title": "for ever", "status": "in_progress"});
                self.update(session, call);
            }
            "permit" => return self.permit(session),
            "write" | "read" => self.file(session, word, rest),
            "unknown" => {
                self.send(
                    &json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"sessionId": session}}),
                );
                self.send(&json!({"jsonrpc": "2.0", "method": "x/notify", "params": {"sessionId": session, "odd": 1}}));
                self.update(session, json!({"sessionUpdate": "never_heard_of", "depth": 3}));
                let answer = self.ask("craft/drainMidTurnQueue", json!({"sessionId": session}));
                self.say(session, &answer["error"]["code"].to_string());
            }
            "silent-error" => {}
            "error" => return Err((400, "the model said 400".into())),
            "login" => return Err((-32000, "Authentication required".into())),
            "garbage" => {
                let mut out = std::io::stdout().lock();
                out.write_all(
                    b"Welcome!\n\xff\xfe not text\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\n{broken\n",
                )
                .unwrap();
                drop(out);
                self.say(session, "still here");
            }
            "die" => {
                self.say(session, "last words");
                let mut errors = std::io::stderr().lock();
                errors.write_all(&vec![b'e'; 5 << 20]).unwrap();
                errors.write_all(b"\nfatal: out of cheese\n").unwrap();
                std::process::exit(3);
            }
            "hang" => {
                self.say(session, "hanging");
                self.wait(|message| message["method"] == "session/cancel");
                return Ok("cancelled");
            }
            "deaf" => {
                self.deaf = true;
                self.say(session, "I do not listen");
                std::thread::sleep(Duration::from_secs(300));
            }
            "daemon" => {
                let child = Command::new("setsid")
                    .args(["sleep", "300"])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                self.say(session, &child.unwrap().id().to_string());
            }
            _ => {
                self.say(session, "you said ");
                self.say(session, &format!("{word} {rest}"));
            }
        }
        Ok("end_turn")
    }

    /// States that repeat, content that grows, and an end that comes twice.
    fn states(&self, session: &str) {
        let content = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let update = |status: Option<&str>, text: &str| {
            self.update(session, json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status, "content": content(text)}));
        };
        self.update(session, json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "title": "ls", "status": "pending", "rawInput": {"command": "ls"}}));
        update(Some("pending"), "");
        update(None, "one\n");
        update(Some("in_progress"), "one\n");
        update(Some("in_progress"), "one\ntwo\n");
        update(Some("completed"), "one\ntwo\n");
        update(Some("completed"), "one\ntwo\n");
        self.say(session, "listed");
    }

    /// A permission for a call that nobody heard of, without a title, with kinds that repeat.
    fn permit(&mut self, session: &str) -> Result<&'static str, (i64, String)> {
        let options = json!([
            {"optionId": "proceed", "name": "Yes", "kind": "allow_once"},
            {"optionId": "project", "name": "Here", "kind": "allow_always"},
            {"optionId": "user", "name": "Everywhere", "kind": "allow_always"},
            {"optionId": "stop", "name": "No", "kind": "reject_once"},
        ]);
        let call = json!({"toolCallId": "p", "kind": "execute", "rawInput": {"command": "rm x"}});
        let answer =
            self.ask("session/request_permission", json!({"sessionId": session, "toolCall": call, "options": options}));
        let outcome = &answer["result"]["outcome"];
        if outcome["outcome"] == "cancelled" {
            self.wait(|message| message["method"] == "session/cancel");
            return Ok("cancelled");
        }
        let chosen = outcome["optionId"].as_str().unwrap_or("nothing").to_owned();
        let status = if chosen == "stop" { "failed" } else { "completed" };
        self.update(session, json!({"sessionUpdate": "tool_call_update", "toolCallId": "p", "status": status}));
        self.say(session, &chosen);
        Ok("end_turn")
    }

    fn file(&mut self, session: &str, word: &str, rest: &str) {
        let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
        let path = std::env::current_dir().unwrap().join(path);
        let answer = match word {
            "write" => self.ask("fs/write_text_file", json!({"sessionId": session, "path": path, "content": content})),
            _ => self.ask("fs/read_text_file", json!({"sessionId": session, "path": path, "line": 2, "limit": 1})),
        };
        let text = match (&answer["error"]["message"], &answer["result"]["content"]) {
            (Value::String(error), _) => format!("refused: {error}"),
            (_, Value::String(content)) => content.clone(),
            _ => "done".to_owned(),
        };
        self.say(session, &text);
    }
}

fn hello() -> Value {
    let load = std::env::var_os("PUPPET_FORGETS").is_none();
    let prompts = json!({"image": true, "embeddedContext": false});
    json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": load, "promptCapabilities": prompts}})
}

/// The sessions of this directory, with their prompts.
fn sessions() -> Vec<(String, Vec<String>)> {
    let kept = std::fs::read_to_string(".puppet-sessions").unwrap_or_default();
    let mut sessions: Vec<(String, Vec<String>)> = Vec::new();
    for line in kept.lines() {
        let (id, prompts): (String, Vec<String>) = serde_json::from_str(line).unwrap();
        sessions.retain(|(known, _)| *known != id);
        sessions.push((id, prompts));
    }
    sessions
}

fn keep(id: &str, prompts: &[String]) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(".puppet-sessions").unwrap();
    writeln!(file, "{}", json!([id, prompts])).unwrap();
}
