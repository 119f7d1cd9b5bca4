//! Markdown with front matter: `---`, YAML, `---`, then the body, byte for byte.
//! What people write there is often no YAML (`globs: **/*.ts`, `description: Use this: when …`); then each line says what it
//! says, as text. What is written is always YAML. Anchors and aliases are text: expanding them could fill the memory.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value};

/// Bytes of front matter that are read as such.
const FRONT_BYTES: usize = 64 << 10;

/// A text apart: what stands in its front matter, and the body.
pub(crate) fn split(text: &str) -> (Map<String, Value>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return (Map::new(), text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (front, body) = (rest.get(..at), rest.get(at + line.len()..));
            if let (Some(front), Some(body)) = (front, body) {
                return (read(front), body);
            }
        }
        at += line.len();
        if at > FRONT_BYTES {
            break;
        }
    }
    (Map::new(), text)
}

/// The text that [`split`] takes apart again.
pub(crate) fn join(front: &Map<String, Value>, body: &str) -> String {
    let looks_like_front = body.starts_with("---\n") || body.starts_with("---\r\n") || body.starts_with('\u{feff}');
    if front.is_empty() && !looks_like_front {
        return body.to_owned();
    }
    let mut text = String::from("---\n");
    for (key, value) in front {
        text.push_str(&scalar(key));
        text.push(':');
        match value {
            Value::Array(items) if !items.is_empty() && items.iter().all(is_plain) => {
                for item in items {
                    text.push_str("\n  - ");
                    text.push_str(&flow(item));
                }
            }
            value => {
                text.push(' ');
                text.push_str(&flow(value));
            }
        }
        text.push('\n');
    }
    text.push_str("---\n");
    text.push_str(body);
    text
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// A value on one line. JSON is YAML when a space follows each colon, so what is not plain text is written as JSON.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => compound(other),
    }
}

fn compound(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(compound).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(key, member): (&String, &Value)| format!("{}: {}", quoted(key), compound(member));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.to_string(),
    }
}

/// A text as a plain scalar where that reads back as the same text, else in quotes.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_alphabetic() || c == '/')
        && !text.ends_with([' ', ':'])
        && text.chars().all(|c| c.is_alphanumeric() || " -_./,()'+=@$!?".contains(c))
        && !text.contains("--")
        && load(text) == Some(Value::String(text.to_owned()));
    if plain { text.to_owned() } else { quoted(text) }
}

/// JSON's quotes, and escapes for what YAML does not take as it is.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in Value::String(text.to_owned()).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

fn read(front: &str) -> Map<String, Value> {
    if !has_alias(front)
        && let Some(Value::Object(map)) = load(front)
    {
        return map;
    }
    by_line(front)
}

/// Whether something outside of quotes looks like an anchor or an alias; a glob does.
fn has_alias(text: &str) -> bool {
    text.lines().any(|line| {
        let mut chars = line.chars().peekable();
        // What stood before, and the last of it that is no space: quotes count only where a value begins.
        let (mut before, mut solid) = (' ', ':');
        while let Some(c) = chars.next() {
            let begins = matches!(before, ' ' | '\t' | '[' | '{' | ',');
            if begins && matches!(c, '*' | '&') && chars.peek().is_some_and(|next| !next.is_whitespace()) {
                return true;
            }
            if begins && matches!(c, '"' | '\'') && matches!(solid, ':' | '-' | '[' | '{' | ',') {
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' if c == '"' => drop(chars.next()),
                        inner if inner == c => break,
                        _ => {}
                    }
                }
            }
            before = c;
            if !c.is_whitespace() {
                solid = c;
            }
        }
        false
    })
}

/// One YAML document as JSON; `None` when it is none, or says what JSON cannot.
fn load(text: &str) -> Option<Value> {
    let documents = Yaml::load_from_str(text).ok()?;
    match documents.as_slice() {
        [] => Some(Value::Object(Map::new())),
        [document] => json(document),
        _ => None,
    }
}

fn json(yaml: &Yaml<'_>) -> Option<Value> {
    Some(match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::from(*value),
        Yaml::Value(Scalar::FloatingPoint(value)) => Value::Number(serde_json::Number::from_f64(value.0)?),
        Yaml::Value(Scalar::String(text)) => Value::String(text.to_string()),
        Yaml::Sequence(items) => Value::Array(items.iter().map(json).collect::<Option<_>>()?),
        Yaml::Mapping(members) => {
            let member = |(key, value): (&Yaml<'_>, &Yaml<'_>)| {
                let key = match json(key)? {
                    Value::String(key) => key,
                    other if is_plain(&other) => other.to_string(),
                    _ => return None,
                };
                Some((key, json(value)?))
            };
            Value::Object(members.iter().map(member).collect::<Option<_>>()?)
        }
        Yaml::Representation(..) | Yaml::Tagged(..) | Yaml::Alias(_) | Yaml::BadValue => return None,
    })
}

/// `key: value` a line, and `- item` lines below a key; everything else is text.
fn by_line(front: &str) -> Map<String, Value> {
    let mut map = Map::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in front.lines() {
        let line = line.trim_end();
        let key = line
            .split_once(':')
            .filter(|(key, _)| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)));
        match (key, &mut open) {
            (Some((key, value)), _) => {
                close(&mut map, open.take());
                open = Some((key.to_owned(), vec![value.trim()]));
            }
            (None, Some((_, lines))) if !line.trim_start().starts_with('#') => lines.push(line.trim()),
            (None, _) => {}
        }
    }
    close(&mut map, open);
    map
}

fn close(map: &mut Map<String, Value>, open: Option<(String, Vec<&str>)>) {
    let Some((key, mut lines)) = open else { return };
    if lines.first().is_some_and(|first| first.is_empty() || *first == "|" || *first == ">") {
        lines.remove(0);
    }
    lines.retain(|line| !line.is_empty());
    let items: Option<Vec<Value>> = lines.iter().map(|line| line.strip_prefix("- ").map(one)).collect();
    let value = match (lines.as_slice(), items) {
        ([], _) => Value::Null,
        (_, Some(items)) => Value::Array(items),
        ([line], None) => one(line),
        (lines, None) => Value::String(lines.join("\n")),
    };
    map.insert(key, value);
}

/// A value that stands alone: YAML where it is a scalar, else the text.
fn one(text: &str) -> Value {
    let text = text.trim();
    let value = if has_alias(text) && !text.starts_with(['"', '\'']) { None } else { load(text) };
    match value {
        Some(value) if is_plain(&value) || text.starts_with('[') => value,
        Some(_) | None => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, front: Value, body: &str) {
        let (read, rest) = split(text);
        assert_eq!((Value::Object(read), rest), (front, body), "{text}");
    }

    #[test]
    fn front_matter_is_taken_apart() {
        check("no front\n---\n", json!({}), "no front\n---\n");
        check(
            "---\nname: a\ntools: [x, y]\nn: 3\n---\n\nbody\n",
            json!({"name": "a", "tools": ["x", "y"], "n": 3}),
            "\nbody\n",
        );
        check("---\r\nname: a\r\n---\r\nb\r\n", json!({"name": "a"}), "b\r\n");
        check("---\nnever: ended\n", json!({}), "---\nnever: ended\n");
        check("---\n---\n---\n---\n", json!({}), "---\n---\n");
        check("---\nlist:\n  - a\n  - b\n---\n", json!({"list": ["a", "b"]}), "");
    }

    #[test]
    fn what_is_no_yaml_is_read_by_line() {
        check("---\nglobs: **/*.ts\nalwaysApply: true\n---\nx", json!({"globs": "**/*.ts", "alwaysApply": true}), "x");
        check("---\ndescription: Use this: when\nn: 1\n---\n", json!({"description": "Use this: when", "n": 1}), "");
        check("---\npaths:\n  - *.ts\n  - \"src/**\"\n---\n", json!({"paths": ["*.ts", "src/**"]}), "");
        check("---\nargument-hint: [file] [n]\n---\n", json!({"argument-hint": "[file] [n]"}), "");
    }

    #[test]
    fn a_bomb_is_text() {
        let mut bomb = String::from("---\na0: &a0 [x,x]\n");
        for level in 1..40 {
            bomb.push_str(&format!("a{level}: &a{level} [*a{0},*a{0}]\n", level - 1));
        }
        let (map, body) = split(&bomb);
        assert_eq!((map.len(), body), (0, bomb.as_str()));
        bomb.push_str("---\n");
        assert_eq!(split(&bomb).0["a39"], json!("&a39 [*a38,*a38]"));
        let deep = format!("---\na: {}\n---\n", "[".repeat(60_000));
        assert_eq!(split(&deep).0.len(), 1);
    }

    #[test]
    fn what_is_written_reads_back() {
        for value in [
            json!("plain"),
            json!("true"),
            json!("1"),
            json!(""),
            json!(" x"),
            json!("a: b"),
            json!("#"),
            json!("null"),
            json!("- x"),
            json!("*a"),
            json!("a #b"),
            json!("é\u{85}\u{2028}\u{feff}\"'\\\n\t\u{0}"),
            json!("~"),
            json!("0x1f"),
            json!([]),
            json!({}),
            json!(["a", 1, null, "*.ts"]),
            json!({"a": {"b": [1.5, true]}}),
            json!(-3),
            json!("---"),
            json!("1e3"),
            json!("yes"),
            json!(".5"),
            json!("😀"),
            json!("a, b"),
        ] {
            let Value::Object(front) = json!({"key": value, "a b": 1}) else { unreachable!() };
            let text = join(&front, "body");
            assert_eq!(split(&text), (front, "body"), "{text}");
        }
        for body in ["---\nx: 1\n---\n", "\u{feff}x", "", "---"] {
            assert_eq!(split(&join(&Map::new(), body)), (Map::new(), body));
        }
    }
}
