//! A page a wire in Markdown, made from its document (which is made from its rows), around an exchange that is written by hand.
//! Invariant: nothing is told here of a method, a type or a code that the document does not tell.

use serde_json::{Map, Value};
use std::fmt::Write;

/// What a page has beside its document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Its file below the output directory.
    pub(crate) file: &'static str,
    /// The document it is made from.
    pub(crate) document: &'static str,
    /// Before the methods, the worked exchange included.
    head: &'static str,
}

/// Every page.
pub(crate) const PAGES: &[Page] = &[
    Page { file: "wire-lich.md", document: "lich.openrpc.json", head: include_str!("pages/lich.md") },
    Page { file: "wire-larik.md", document: "larik.openapi.json", head: include_str!("pages/larik.md") },
    Page { file: "wire-sepia.md", document: "sepia.openrpc.json", head: include_str!("pages/sepia.md") },
];

/// Renders a page from its document.
pub(crate) fn render(page: &Page, document: &Value) -> String {
    let mut out = format!(
        "<!-- Made by `triplane schema --docs docs` from {}; change the rows, or bin/src/pages. -->\n\n",
        page.document
    );
    out += page.head.trim_end();
    out += "\n\n";
    if document.get("methods").is_some() {
        methods(&mut out, document);
    } else {
        operations(&mut out, document);
    }
    types(&mut out, document);
    out
}

fn methods(out: &mut String, document: &Value) {
    out.push_str("## Methods\n\nEvery error carries `data.code`, one of those named with each method.\n");
    for method in list(document, "/methods") {
        let description = text(method, "/description");
        push(out, format_args!("\n### `{}`\n\n{}\n\n", text(method, "/name"), escape(description)));
        let params: Vec<_> = list(method, "/params").iter().map(Member::param).collect();
        push(out, format_args!("Params:{}\n", members(&params, " none.")));
        let result = method.pointer("/result/schema").unwrap_or(&Value::Null);
        push(out, format_args!("Result: {}\n\n", shape(result)));
        let errors: Vec<String> =
            list(method, "/errors").iter().map(|error| format!("`{}`", last(text(error, "/$ref")))).collect();
        push(out, format_args!("Errors: {}. {}\n", errors.join(", "), clauses(method)));
    }
    out.push_str("\n## Notifications\n\nThe server sends them; they have no `id`, and are never answered.\n");
    for notification in list(document, "/x-notifications") {
        let params = notification.pointer("/params/schema").unwrap_or(&Value::Null);
        let (name, what) = (text(notification, "/name"), text(notification, "/description"));
        push(out, format_args!("\n### `{name}`\n\n{}\n\nParams: {}\n", escape(what), shape(params)));
    }
    out.push_str("\n## Errors\n\n| `data.code` | `code` |\n|---|---|\n");
    for (name, error) in object(document, "/components/errors") {
        push(out, format_args!("| `{name}` | {} |\n", error.get("code").unwrap_or(&Value::Null)));
    }
}

fn operations(out: &mut String, document: &Value) {
    out.push_str("## Operations\n\nEvery body is JSON, and every error has the body [`ErrorBody`](#errorbody).\n");
    for (path, item) in object(document, "/paths") {
        for (verb, operation) in item.as_object().into_iter().flatten() {
            let what = escape(text(operation, "/description"));
            push(out, format_args!("\n### `{} {path}`\n\n{what}\n\n", verb.to_uppercase()));
            let params: Vec<_> = list(operation, "/parameters").iter().map(Member::param).collect();
            push(out, format_args!("Parameters:{}\n", members(&params, " none.")));
            if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema") {
                push(out, format_args!("Body: {}\n\n", shape(body)));
            }
            out.push_str("| status | |\n|---|---|\n");
            for (status, response) in object(operation, "/responses") {
                push(out, format_args!("| {status} | {} |\n", answer(response)));
            }
            push(out, format_args!("\n{}\n", clauses(operation)));
        }
    }
}

/// What a status comes with.
fn answer(response: &Value) -> String {
    if response.get("$ref").is_some() {
        let codes: Vec<String> = text(response, "/description").split(", ").map(|code| format!("`{code}`")).collect();
        return codes.join(", ");
    }
    let content = response.get("content").and_then(Value::as_object);
    let Some((kind, body)) = content.and_then(|content| content.iter().next()) else { return "no body".to_owned() };
    match (body.get("x-event-schema"), body.get("schema")) {
        (Some(event), _) => format!("`{kind}`, the data of each event: {}", shape(event)),
        (None, Some(schema)) if kind == "application/json" => shape(schema),
        (None, Some(_) | None) => format!("`{kind}`"),
    }
}

/// The clauses that a row answers to, where the document names them.
fn clauses(row: &Value) -> String {
    let clauses: Vec<&str> = list(row, "/x-clauses").iter().filter_map(Value::as_str).collect();
    if clauses.is_empty() { String::new() } else { format!("Clauses: {}.", clauses.join(", ")) }
}

fn types(out: &mut String, document: &Value) {
    out.push_str("\n## Types\n\nA member that is not marked optional is always there.\n");
    for (name, schema) in object(document, "/components/schemas") {
        push(out, format_args!("\n### {name}\n\n{}\n\n", escape(text(schema, "/description"))));
        let own = properties(schema);
        let choices: Vec<&Value> = list(schema, "/oneOf").iter().chain(list(schema, "/anyOf")).collect();
        if !own.is_empty() {
            out.push_str(members(&own, "").trim_start());
            out.push('\n');
        }
        if choices.is_empty() && own.is_empty() {
            push(out, format_args!("{}\n", shape(schema)));
        } else if choices.iter().all(|choice| choice.get("const").is_some()) {
            for choice in choices {
                push(out, format_args!("- {}: {}\n", shape(choice), escape(text(choice, "/description"))));
            }
        } else if !choices.is_empty() {
            out.push_str("| one of | members | |\n|---|---|---|\n");
            choices.iter().for_each(|choice| variant(out, choice));
        }
    }
}

/// A row for one choice of several; objects are told by their `type`.
fn variant(out: &mut String, choice: &Value) {
    let tag = choice.pointer("/properties/type/const").and_then(Value::as_str);
    let inner: Vec<String> = properties(choice)
        .iter()
        .filter(|member| tag.is_none() || member.name != "type")
        .map(|member| format!("`{}`{}: {}", member.name, if member.required { "" } else { "?" }, member.shape))
        .collect();
    let name =
        tag.map_or_else(|| if inner.is_empty() { shape(choice) } else { "object".into() }, |tag| format!("`{tag}`"));
    push(out, format_args!("| {name} | {} | {} |\n", inner.join(", "), escape(text(choice, "/description"))));
}

/// A member of an object, or a parameter.
struct Member {
    name: String,
    shape: String,
    required: bool,
    what: String,
}

impl Member {
    fn param(param: &Value) -> Self {
        let place = text(param, "/in");
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        Self {
            name: text(param, "/name").to_owned(),
            shape: param.get("schema").map_or_else(String::new, shape) + &place,
            required: param.get("required") == Some(&Value::Bool(true)),
            what: escape(text(param, "/description")),
        }
    }
}

fn properties(schema: &Value) -> Vec<Member> {
    let required = list(schema, "/required");
    let member = |(name, of): (&String, &Value)| Member {
        name: name.clone(),
        shape: shape(of),
        required: required.iter().any(|one| one == name.as_str()),
        what: escape(text(of, "/description")),
    };
    object(schema, "/properties").map(member).collect()
}

fn members(members: &[Member], none: &str) -> String {
    if members.is_empty() {
        return format!("{none}\n");
    }
    let mut out = "\n\n| name | type | |\n|---|---|---|\n".to_owned();
    for member in members {
        let optional = if member.required { "" } else { ", optional" };
        push(&mut out, format_args!("| `{}` | {}{optional} | {} |\n", member.name, member.shape, member.what));
    }
    out
}

/// A schema in a few words, with links to the types below.
fn shape(schema: &Value) -> String {
    if let Some(to) = schema.get("$ref").and_then(Value::as_str) {
        let name = last(to);
        return format!("[`{name}`](#{})", name.to_lowercase());
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    let choices: Vec<&Value> = list(schema, "/anyOf").iter().chain(list(schema, "/oneOf")).collect();
    if !choices.is_empty() {
        return choices.into_iter().map(shape).collect::<Vec<_>>().join(" or ");
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            format!("list of {}", schema.get("items").map_or_else(|| "anything".to_owned(), shape))
        }
        Some(Value::String(kind)) if kind == "object" => match schema.get("additionalProperties") {
            Some(of @ Value::Object(_)) => format!("object of {}", shape(of)),
            Some(_) | None => "object".to_owned(),
        },
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Some(_) | None => "anything".to_owned(),
    }
}

/// Doc text within a table: one line, no column ends, and links of rustdoc without their brackets.
fn escape(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(what);
}

fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn object<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}
