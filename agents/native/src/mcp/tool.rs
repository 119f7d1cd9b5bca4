//! A server's tools as models see them.
//! Invariant: whatever a server says, a name has only the letters that every provider takes and at most 64 of them, names are
//! distinct, and a description and a schema are bounded; what does not fit is left out and told, never the session's trouble.

use serde_json::{Map, Value};
use std::sync::Arc;

/// What begins each name.
pub(crate) const PREFIX: &str = "mcp__";

/// Tools of one server at most.
pub(super) const TOOLS: usize = 128;

/// The longest name that providers take.
const NAME_BYTES: usize = 64;

/// The longest description, in bytes.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// The longest schema, in bytes of JSON.
const SCHEMA_BYTES: usize = 64 << 10;

/// One tool of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// `mcp__server__tool`, for models and rules.
    pub name: String,
    /// The server's own name for it.
    pub own: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON Schema of its input.
    pub schema: Value,
}

/// What a server listed, before it is made fit.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Arc<Map<String, Value>>,
}

/// Makes them fit; what is left out comes in the second list, a line each.
pub(super) fn fit(server: &str, listed: Vec<Listed>) -> (Vec<McpTool>, Vec<String>) {
    let (mut tools, mut left_out): (Vec<McpTool>, Vec<String>) = (Vec::new(), Vec::new());
    let over = listed.len().saturating_sub(TOOLS);
    for one in listed.into_iter().take(TOOLS) {
        let (name, schema) = (name(server, &one.name), Value::Object((*one.schema).clone()));
        let bytes = serde_json::to_vec(&schema).map_or(usize::MAX, |json| json.len());
        let known = super::config::shown(&one.name);
        if one.name.is_empty() {
            left_out.push("a tool without a name".to_owned());
        } else if bytes > SCHEMA_BYTES {
            left_out.push(format!("{known}: its schema has more than {SCHEMA_BYTES} bytes"));
        } else if tools.iter().any(|tool| tool.name == name) {
            left_out.push(format!("{known}: another tool has its name"));
        } else {
            let description = bounded(&one.description, DESCRIPTION_BYTES);
            tools.push(McpTool { name, own: one.name, description, schema: an_object(schema) });
        }
    }
    if over > 0 {
        left_out.push(format!("{over} tools: there are more than {TOOLS}"));
    }
    (tools, left_out)
}

/// `mcp__server__tool`. A name that had to be changed ends with a checksum of the one it was, so that two stay two.
pub(super) fn name(server: &str, own: &str) -> String {
    let plain: String =
        own.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect();
    let whole = format!("{PREFIX}{server}__{plain}");
    if plain == own && whole.len() <= NAME_BYTES {
        return whole;
    }
    let kept: String = whole.chars().take(NAME_BYTES - 9).collect();
    format!("{kept}_{:08x}", checksum(own))
}

/// The server that a name belongs to, and whether it is such a name at all.
pub(crate) fn server_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.split_once("__").map(|(server, _)| server)
}

/// Providers want an object; some servers leave that out.
fn an_object(mut schema: Value) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.entry("type").or_insert_with(|| "object".into());
        if members.get("properties").is_none_or(|properties| !properties.is_object()) {
            members.insert("properties".to_owned(), Value::Object(Map::new()));
        }
    }
    schema
}

/// Without control characters, and at most `bytes` long with a mark where it was cut.
pub(super) fn bounded(text: &str, bytes: usize) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let mut end = bytes.min(clean.len());
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    match clean.get(..end) {
        Some(kept) if kept.len() < clean.len() => format!("{kept}…"),
        Some(_) | None => clean,
    }
}

/// FNV-1a: the same on every machine and in every version, for names go into saved rules.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(name: &str, description: &str, schema: Value) -> Listed {
        let Value::Object(schema) = schema else { panic!() };
        Listed { name: name.into(), description: description.into(), schema: Arc::new(schema) }
    }

    #[test]
    fn names_are_what_providers_take_and_stay_distinct() {
        assert_eq!(name("fs", "read_file"), "mcp__fs__read_file");
        let odd = ["read file", "read/file", "read\nfile", "réad", &"x".repeat(200), &format!("{}y", "x".repeat(199))];
        let mut names: Vec<String> = odd.iter().map(|own| name("fs", own)).collect();
        for name in &names {
            let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            assert!(fits && name.len() <= NAME_BYTES && server_of(name) == Some("fs"), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), odd.len());
        assert_eq!((server_of("mcp__a"), server_of("bash"), server_of("mcp__a__b__c")), (None, None, Some("a")));
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let big = json!({ "x": "y".repeat(SCHEMA_BYTES) });
        let mut all = vec![
            listed("ok", &format!("a\u{1b}[31m\u{0}{}", "é".repeat(DESCRIPTION_BYTES)), json!({})),
            listed("ok", "again", json!({})),
            listed("big", "", big),
            listed("", "", json!({})),
        ];
        all.extend((0..TOOLS).map(|n| listed(&format!("t{n}"), "", json!({"type": "object", "properties": 1}))));
        let (tools, left_out) = fit("s", all);
        assert_eq!((tools.len(), left_out.len()), (TOOLS - 3, 4), "{left_out:?}");
        let first = &tools[0];
        assert!(first.description.starts_with("a[31mé") && first.description.len() <= DESCRIPTION_BYTES + 3);
        assert_eq!(first.schema, json!({"type": "object", "properties": {}}));
        assert_eq!(tools[1].schema, json!({"type": "object", "properties": {}}));
    }
}
