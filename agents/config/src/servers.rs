//! MCP servers: each agent's way of writing one down, and the one way of the IR.
//! The IR has `{command, args, env}` for a child process and `{type: http | sse, url, headers}` for an address; whatever else an
//! agent says of a server is kept beside that as it came.

use crate::format::Style;
use serde_json::{Map, Value};

/// Members that say how a server is reached: a new way replaces the old one whole.
pub(crate) const TRANSPORT: &[&str] =
    &["type", "command", "args", "env", "environment", "cwd", "url", "httpUrl", "headers", "http_headers"];

/// The members that every agent understands.
const COMMON: &[&str] = &["type", "command", "args", "env", "cwd", "url", "headers"];

/// A server as its agent has it, in the IR's way. Errors: one line.
pub(crate) fn read(style: Style, server: &Value) -> Result<Map<String, Value>, String> {
    let mut server = server.as_object().cloned().ok_or("must be an object")?;
    match style {
        Style::Common => {}
        Style::HttpUrl => {
            if let Some(url) = server.shift_remove("httpUrl") {
                server.insert("type".into(), "http".into());
                server.insert("url".into(), url);
            } else if server.contains_key("url") && !server.contains_key("type") {
                server.insert("type".into(), "sse".into());
            }
        }
        Style::Opencode => {
            rename(&mut server, "environment", "env");
            if server.get("type").is_some_and(|kind| kind == "remote") {
                server.insert("type".into(), "http".into());
            } else {
                server.shift_remove("type");
                if let Some(Value::Array(line)) = server.get("command").cloned() {
                    let mut line = line.into_iter();
                    server.insert("command".into(), line.next().ok_or("`command` is empty")?);
                    let args: Vec<Value> = line.collect();
                    if !args.is_empty() {
                        server.insert("args".into(), Value::Array(args));
                    }
                }
            }
        }
        Style::Codex => {
            rename(&mut server, "http_headers", "headers");
            if server.contains_key("url") {
                server.insert("type".into(), "http".into());
            }
        }
    }
    if server.get("type").is_some_and(|kind| kind == "stdio") {
        server.shift_remove("type");
    }
    Ok(server)
}

/// The other way. Errors: one line, why this agent cannot have the server.
pub(crate) fn write(style: Style, server: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut server = server.clone();
    let remote = server.contains_key("url");
    if remote == server.contains_key("command") {
        return Err("a server has either `command` or `url`".into());
    }
    let sse = server.get("type").is_some_and(|kind| kind == "sse");
    match style {
        Style::Common => {}
        Style::HttpUrl => {
            if remote {
                server.shift_remove("type");
                if !sse {
                    rename(&mut server, "url", "httpUrl");
                }
            }
        }
        Style::Opencode => {
            rename(&mut server, "env", "environment");
            if server.contains_key("cwd") {
                return Err("opencode has no `cwd` of a server".into());
            }
            if !remote {
                let first = server.get("command").cloned().unwrap_or_default();
                let args = server.shift_remove("args").and_then(|args| args.as_array().cloned()).unwrap_or_default();
                server.insert("command".into(), std::iter::once(first).chain(args).collect());
            }
            server.insert("type".into(), if remote { "remote" } else { "local" }.into());
        }
        Style::Codex => {
            if sse {
                return Err("Codex does not speak SSE with a server".into());
            }
            rename(&mut server, "headers", "http_headers");
            server.shift_remove("type");
        }
    }
    Ok(server)
}

/// What another agent understands of a server, and the names of what it does not.
pub(crate) fn portable(server: &Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
    let (kept, left): (Map<_, _>, Map<_, _>) =
        server.clone().into_iter().partition(|(key, _)| COMMON.contains(&key.as_str()));
    (kept, left.into_iter().map(|(key, _)| key).collect())
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.shift_remove(from) {
        map.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(style: Style, theirs: Value, ours: Value) {
        let read = read(style, &theirs).unwrap();
        assert_eq!(Value::Object(read.clone()), ours, "{style:?}");
        assert_eq!(Value::Object(write(style, &read).unwrap()), theirs, "{style:?}");
    }

    #[test]
    fn every_style_is_read_and_written() {
        let child = json!({"command": "x", "args": ["a"], "env": {"K": "v"}, "timeout": 3});
        check(Style::Common, child.clone(), child.clone());
        check(Style::HttpUrl, child.clone(), child.clone());
        check(Style::Codex, child.clone(), child.clone());
        let opencode = json!({"type": "local", "command": ["x", "a"], "environment": {"K": "v"}, "timeout": 3});
        check(Style::Opencode, opencode, child);
        let remote = json!({"type": "http", "url": "u", "headers": {"H": "v"}});
        check(Style::Common, remote.clone(), remote.clone());
        check(Style::HttpUrl, json!({"httpUrl": "u", "headers": {"H": "v"}}), remote.clone());
        check(Style::HttpUrl, json!({"url": "u"}), json!({"type": "sse", "url": "u"}));
        check(Style::Codex, json!({"url": "u", "http_headers": {"H": "v"}}), remote.clone());
        check(Style::Opencode, json!({"type": "remote", "url": "u", "headers": {"H": "v"}}), remote);
        assert_eq!(read(Style::Common, &json!({"type": "stdio", "command": "x"})).unwrap().len(), 1);
    }

    #[test]
    fn what_an_agent_cannot_have_is_refused() {
        let server = |value: Value| value.as_object().cloned().unwrap();
        assert!(write(Style::Codex, &server(json!({"type": "sse", "url": "u"}))).is_err());
        assert!(write(Style::Common, &server(json!({"command": "x", "url": "u"}))).is_err());
        assert!(write(Style::Common, &server(json!({}))).is_err());
        assert!(read(Style::Common, &json!("x")).is_err());
    }
}
