//! Servers' answers as lines for models, and a model's place as the protocol's.
//! Invariant: every text is bounded; lines and columns are from 1 and count characters, as `grep` and `read` do.

use super::server::path_of;
use serde_json::{Value, json};
use std::path::Path;

/// Lines of one answer at most.
const LINES: usize = 100;

/// The longest message of one problem, in characters.
const MESSAGE_CHARS: usize = 300;

/// Symbols inside symbols, at most.
const DEPTH: usize = 8;

/// One line a problem: errors first, then by place. `None`: there is none worth telling.
pub(super) fn problems(problems: &[Value], least: u64) -> Option<String> {
    let severity = |problem: &Value| problem.get("severity").and_then(Value::as_u64).unwrap_or(1);
    let place = |problem: &Value| {
        let start = problem.pointer("/range/start").cloned().unwrap_or_default();
        (number(&start, "line"), number(&start, "character"))
    };
    let mut told: Vec<&Value> = problems.iter().filter(|problem| severity(problem) <= least).collect();
    told.sort_by_key(|problem| (severity(problem), place(problem)));
    let line = |problem: &&Value| {
        let word = match severity(problem) {
            1 => "error",
            2 => "warning",
            3 => "info",
            _ => "hint",
        };
        let (line, column) = place(problem);
        let message = problem.get("message").and_then(Value::as_str).unwrap_or_default();
        let code = match problem.get("code") {
            Some(Value::String(code)) => format!(" [{}]", clean(code, 60)),
            Some(Value::Number(code)) => format!(" [{code}]"),
            _ => String::new(),
        };
        format!("{word} {}:{}: {}{code}", line + 1, column + 1, clean(message, MESSAGE_CHARS))
    };
    (!told.is_empty()).then(|| joined(told.iter().map(line).collect()))
}

/// Places, one a line, with the text that stands there.
pub(super) async fn places(result: &Value, root: &Path) -> String {
    let all: Vec<&Value> = match result {
        Value::Array(all) => all.iter().collect(),
        Value::Object(_) => vec![result],
        _ => Vec::new(),
    };
    let mut lines = Vec::new();
    let over = all.len().saturating_sub(LINES);
    for one in all.into_iter().take(LINES) {
        let uri = one.get("targetUri").or_else(|| one.get("uri")).and_then(Value::as_str).unwrap_or_default();
        let start = one.pointer("/targetSelectionRange/start").or_else(|| one.pointer("/range/start"));
        let (row, column) = start.map_or((0, 0), |start| (number(start, "line"), number(start, "character")));
        let Some(path) = path_of(uri) else {
            lines.push(clean(uri, MESSAGE_CHARS));
            continue;
        };
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        // Only what lies in the directory is read: the address is a server's word.
        let text = match path.starts_with(root) {
            true => tokio::fs::read_to_string(&path).await.unwrap_or_default(),
            false => String::new(),
        };
        let text = usize::try_from(row).ok().and_then(|row| text.lines().nth(row)).unwrap_or_default();
        lines.push(format!("{}:{}:{}: {}", clean(&shown, 400), row + 1, column + 1, clean(text.trim(), 160)));
    }
    lines.sort();
    lines.dedup();
    if over > 0 {
        lines.push(format!("… and {over} more"));
    }
    joined(lines)
}

/// Symbols of a file, or of the directory, one a line.
pub(super) fn symbols(result: &Value, root: &Path) -> String {
    let mut lines = Vec::new();
    for one in result.as_array().into_iter().flatten() {
        symbol(one, root, 0, &mut lines);
    }
    joined(lines)
}

fn symbol(one: &Value, root: &Path, depth: usize, lines: &mut Vec<String>) {
    if depth > DEPTH || lines.len() > 4 * LINES {
        return;
    }
    let name = clean(one.get("name").and_then(Value::as_str).unwrap_or_default(), 120);
    let kind = kind(one.get("kind").and_then(Value::as_u64).unwrap_or_default());
    let start = ["/selectionRange/start", "/location/range/start", "/range/start"].iter().find_map(|p| one.pointer(p));
    let row = start.map_or(0, |start| number(start, "line")) + 1;
    let inside = one.get("containerName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let inside = inside.map(|name| format!(" in {}", clean(name, 120))).unwrap_or_default();
    let file = one.pointer("/location/uri").and_then(Value::as_str).and_then(path_of);
    let file =
        file.map(|path| format!("{}:", clean(&path.strip_prefix(root).unwrap_or(&path).display().to_string(), 400)));
    lines.push(format!("{}{}{row}: {kind} {name}{inside}", "  ".repeat(depth), file.unwrap_or_default()));
    for child in one.get("children").and_then(Value::as_array).into_iter().flatten() {
        symbol(child, root, depth + 1, lines);
    }
}

fn kind(number: u64) -> &'static str {
    match number {
        1 => "file",
        2 => "module",
        3 => "namespace",
        5 => "class",
        6 => "method",
        7 | 8 => "field",
        9 => "constructor",
        10 => "enum",
        11 => "interface",
        12 => "function",
        13 => "variable",
        14 => "constant",
        22 => "variant",
        23 => "struct",
        26 => "type parameter",
        _ => "symbol",
    }
}

/// Where `symbol` stands in line `line` (from 1) of `text`, as the protocol wants it: from 0, in UTF-16 units.
/// Without a line the first place in the file counts. Errors are for the model.
pub(super) fn position(text: &str, line: Option<u64>, symbol: &str) -> Result<Value, String> {
    if symbol.is_empty() {
        return Err("symbol: must not be empty; give the name as it stands in the file".to_owned());
    }
    let rows = || text.lines().enumerate().filter(|(row, _)| line.is_none_or(|line| line == *row as u64 + 1));
    let whole = rows().find_map(|(row, content)| Some((row, content, word(content, symbol)?)));
    let found = whole.or_else(|| rows().find_map(|(row, content)| Some((row, content, content.find(symbol)?))));
    if let Some((row, content, at)) = found {
        let before: usize = content.get(..at).unwrap_or_default().chars().map(char::len_utf16).sum();
        return Ok(json!({ "line": row, "character": before }));
    }
    Err(match line {
        Some(line) => format!("symbol: it does not stand in line {line}; read the file, or leave `line` out"),
        None => "symbol: it does not stand in the file".to_owned(),
    })
}

/// Where `symbol` stands as a whole word.
fn word(line: &str, symbol: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(symbol).map(|(at, _)| at).find(|at| {
        let before = line.get(..*at).and_then(|text| text.chars().next_back());
        let after = line.get(at + symbol.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default().min(u64::from(u32::MAX))
}

/// On one line, and at most `chars` long.
fn clean(text: &str, chars: usize) -> String {
    let line: String = text.chars().take(chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(chars).is_some() { format!("{line}…") } else { line }
}

fn joined(mut lines: Vec<String>) -> String {
    let over = lines.len().saturating_sub(LINES + 1);
    if over > 0 {
        lines.truncate(LINES);
        lines.push(format!("… and {} more", over + 1));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_as_a_word_in_utf16() {
        let text = "let xs = 1;\nfn é😀(x: u8) { x }";
        let rows = [(Some(1), "xs", "0:4"), (None, "x", "1:7"), (Some(2), "u8", "1:10"), (None, "= 1", "0:7")];
        for (line, symbol, expected) in rows {
            let at = position(text, line, symbol).unwrap();
            assert_eq!(format!("{}:{}", at["line"], at["character"]), expected, "{symbol}");
        }
        assert!(position(text, Some(1), "u8").unwrap_err().contains("line 1"));
        assert!(position(text, None, "zz").is_err() && position(text, None, "").is_err());
    }

    #[test]
    fn problems_are_errors_first_and_bounded() {
        let one = |severity: u64, line: u64, message: &str| json!({"severity": severity, "message": message, "code": "c", "range": {"start": {"line": line, "character": 2}}});
        let all = [one(2, 0, "w"), one(1, 5, "b\nc"), one(4, 0, "h"), one(1, 1, &"x".repeat(1000))];
        let text = problems(&all, 2).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1], lines[2]), (3, "error 6:3: b c [c]", "warning 1:3: w [c]"));
        assert!(lines[0].starts_with("error 2:3: xxx") && lines[0].len() < 400);
        assert_eq!(problems(&all[2..3], 2), None);
        let many = vec![one(1, 0, "m"); 1000];
        assert_eq!(problems(&many, 2).unwrap().lines().last(), Some("… and 900 more"));
    }

    #[tokio::test]
    async fn places_and_symbols() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.rs"), "one\n  two\n").unwrap();
        let uri = super::super::server::uri_of(&dir.path().join("a.rs"));
        let start = json!({"start": {"line": 1, "character": 2}});
        let found =
            json!([{"uri": uri, "range": start}, {"targetUri": "file:///etc/passwd", "targetSelectionRange": start}]);
        assert_eq!(places(&found, dir.path()).await, "/etc/passwd:2:3: \na.rs:2:3: two");
        assert_eq!(places(&Value::Null, dir.path()).await, "");
        let tree = json!([{"name": "S", "kind": 23, "selectionRange": start, "children": [{"name": "f", "kind": 6, "selectionRange": start}]},
            {"name": "g", "kind": 12, "containerName": "m", "location": {"uri": uri, "range": start}}]);
        assert_eq!(symbols(&tree, dir.path()), "2: struct S\n  2: method f\na.rs:2: function g in m");
        let deep = (0..50).fold(json!({"name": "x"}), |inner, _| json!({"name": "x", "children": [inner]}));
        assert_eq!(symbols(&json!([deep]), dir.path()).lines().count(), DEPTH + 1);
    }
}
