//! Files whose members are items: JSON with comments, and TOML. Edits touch what they change and nothing else: comments, order
//! and layout of the rest stay as they are.

use jsonc_parser::{
    ParseOptions,
    cst::{CstContainerNode, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, TableLike};

/// What a file's members are now. An empty file has none. `name` is for the error, which is one line.
pub(crate) fn read(name: &str, text: &str) -> Result<Map<String, Value>, String> {
    if is_toml(name) {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            format!("{name} is no TOML: {}", error.message().replace('\n', ", "))
        })?;
        return Ok(document.iter().filter_map(|(key, item)| Some((key.to_owned(), of_toml(item)?))).collect());
    }
    let root = parse(name, text)?;
    match root.to_serde_value() {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err(format!("{name} must have an object at its top")),
    }
}

/// The text with the member at `path` (one or two names) set to `value`. Errors: as [`read`], one line.
pub(crate) fn set(name: &str, text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    if is_toml(name) {
        let mut document: DocumentMut = text.parse().map_err(|_| format!("{name} is no TOML"))?;
        set_toml(document.as_table_mut(), path, value)
            .ok_or_else(|| format!("{name}: `{}` is no table", path.join(".")))?;
        return Ok(document.to_string());
    }
    let root = parse(name, text)?;
    let top = root.object_value_or_create().ok_or_else(|| format!("{name} must have an object at its top"))?;
    set_json(&top, path, value).ok_or_else(|| format!("{name}: `{}` is no object", path.join(".")))?;
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Whether what the file holds can be told in `value`'s words: TOML has no null.
pub(crate) fn can_hold(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => !is_toml(name),
        Value::Array(items) => items.iter().all(|item| can_hold(name, item)),
        Value::Object(members) => members.values().all(|member| can_hold(name, member)),
        Value::Number(number) => !is_toml(name) || number.is_i64() || number.is_f64(),
        Value::Bool(_) | Value::String(_) => true,
    }
}

fn is_toml(name: &str) -> bool {
    name.ends_with(".toml")
}

fn parse(name: &str, text: &str) -> Result<CstRootNode, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    CstRootNode::parse(text, &options).map_err(|error| format!("{name} is no JSON: {error}"))
}

fn set_json(object: &CstObject, path: &[&str], value: &Value) -> Option<()> {
    let (key, rest) = path.split_first()?;
    if rest.is_empty() {
        put_json(object, key, value);
        return Some(());
    }
    set_json(&object.object_value_or_create(key)?, rest, value)
}

/// Changes a member to `value`, as little as that takes.
fn put_json(object: &CstObject, key: &str, value: &Value) {
    let Some(there) = object.get(key) else {
        object.append(key, input(value));
        return;
    };
    let now = there.value().and_then(|node| node.to_serde_value());
    if now.as_ref() == Some(value) {
        return;
    }
    match (value, there.value()) {
        (Value::Object(members), Some(CstNode::Container(CstContainerNode::Object(inner)))) => {
            for property in inner.properties() {
                if !property.decoded_name().is_some_and(|name| members.contains_key(&name)) {
                    property.remove();
                }
            }
            for (key, member) in members {
                put_json(&inner, key, member);
            }
        }
        (value, _) => there.set_value(input(value)),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(key, member)| (key.clone(), input(member))).collect())
        }
    }
}

fn set_toml(table: &mut dyn TableLike, path: &[&str], value: &Value) -> Option<()> {
    let (key, rest) = path.split_first()?;
    if rest.is_empty() {
        put_toml(table, key, value);
        return Some(());
    }
    if table.get(key).is_none_or(Item::is_none) {
        let mut fresh = toml_edit::Table::new();
        // `[mcp_servers]` alone would say nothing; its members have headers of their own.
        fresh.set_implicit(true);
        table.insert(key, Item::Table(fresh));
    }
    set_toml(table.get_mut(key)?.as_table_like_mut()?, rest, value)
}

fn put_toml(table: &mut dyn TableLike, key: &str, value: &Value) {
    if table.get(key).and_then(of_toml).as_ref() == Some(value) {
        return;
    }
    if let (Value::Object(members), Some(inner)) = (value, table.get_mut(key).and_then(Item::as_table_like_mut)) {
        let gone: Vec<String> =
            inner.iter().map(|(key, _)| key.to_owned()).filter(|key| !members.contains_key(key)).collect();
        for key in gone {
            inner.remove(&key);
        }
        for (key, member) in members {
            put_toml(inner, key, member);
        }
        return;
    }
    let fresh = match value {
        Value::Object(members) => {
            let mut inner = toml_edit::Table::new();
            for (key, member) in members {
                put_toml(&mut inner, key, member);
            }
            Some(Item::Table(inner))
        }
        value => toml_value(value).map(Item::Value),
    };
    match (fresh, table.get_mut(key)) {
        (None, _) => {}
        // Comments around the old value stay.
        (Some(Item::Value(mut fresh)), Some(Item::Value(old))) => {
            *fresh.decor_mut() = old.decor().clone();
            *old = fresh;
        }
        (Some(fresh), _) => drop(table.insert(key, fresh)),
    }
}

/// A value in line; `None` for what TOML cannot say.
fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => toml_edit::Value::Array(items.iter().filter_map(toml_value).collect()),
        Value::Object(members) => {
            let mut inline = toml_edit::InlineTable::new();
            for (key, member) in members {
                if let Some(member) = toml_value(member) {
                    inline.insert(key, member);
                }
            }
            toml_edit::Value::InlineTable(inline)
        }
    })
}

fn of_toml(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(of_toml_value(value)),
        Item::Table(table) => Some(of_table(table)),
        Item::ArrayOfTables(tables) => Some(Value::Array(tables.iter().map(|table| of_table(table)).collect())),
    }
}

fn of_table(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().filter_map(|(key, item)| Some((key.to_owned(), of_toml(item)?))).collect())
}

/// A date has no JSON of its own: it is its text.
fn of_toml_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Integer(integer) => Value::from(*integer.value()),
        toml_edit::Value::Float(float) => {
            serde_json::Number::from_f64(*float.value()).map_or_else(|| Value::String(float.to_string()), Value::Number)
        }
        toml_edit::Value::Boolean(value) => Value::Bool(*value.value()),
        toml_edit::Value::Datetime(date) => Value::String(date.value().to_string()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(of_toml_value).collect()),
        toml_edit::Value::InlineTable(table) => of_table(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_keeps_comments_and_order() {
        let before = "{\n  // mine\n  \"z\": 1, // one\n  \"mcp\": {\n    /* two */\n    \"a\": { \"command\": [\"x\"], \"k\": 1 }\n  },\n}\n";
        let after = set("o.jsonc", before, &["mcp", "a"], &json!({"command": ["x"], "k": 2})).unwrap();
        assert_eq!(after, before.replace("\"k\": 1", "\"k\": 2"));
        let more = set("o.jsonc", &after, &["mcp", "b"], &json!({"url": "u"})).unwrap();
        assert!(more.contains("// mine") && more.contains("/* two */") && more.contains("// one"), "{more}");
        assert_eq!(read("o.jsonc", &more).unwrap()["mcp"]["b"], json!({"url": "u"}));
        assert_eq!(set("x.json", "", &["a", "b"], &json!(1)).unwrap(), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n");
    }

    #[test]
    fn toml_keeps_comments_and_order() {
        let before =
            "# mine\nmodel = \"m\" # why\n\n[mcp_servers.a]\ncommand = \"x\" # c\nstart = 3\n\n[tail]\nk = 1\n";
        let after = set("c.toml", before, &["mcp_servers", "a"], &json!({"command": "y", "start": 3})).unwrap();
        assert_eq!(after, before.replace("\"x\"", "\"y\""));
        let more = set("c.toml", &after, &["mcp_servers", "b"], &json!({"args": ["1"], "env": {"A": "B"}})).unwrap();
        assert!(more.contains("# mine") && more.contains("# why") && more.contains("# c"), "{more}");
        let members = read("c.toml", &more).unwrap();
        assert_eq!(members["mcp_servers"]["b"], json!({"args": ["1"], "env": {"A": "B"}}));
        assert_eq!(members["tail"], json!({"k": 1}));
    }

    #[test]
    fn what_is_broken_is_named() {
        assert!(read("s.json", "{\"a\": }").unwrap_err().starts_with("s.json is no JSON: "));
        assert!(read("s.json", "[1]").unwrap_err().contains("object at its top"));
        assert!(read("c.toml", "a = ").unwrap_err().starts_with("c.toml is no TOML: "));
        assert!(set("s.json", "{\"a\": 1}", &["a", "b"], &json!(1)).unwrap_err().contains("`a.b` is no object"));
        assert!(read("s.json", &"[".repeat(100_000)).is_err());
        assert!(read("c.toml", &format!("a = {}", "[".repeat(100_000))).is_err());
        assert_eq!(read("s.json", "  // nothing\n").unwrap().len(), 0);
    }
}
