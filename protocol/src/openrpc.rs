//! OpenRPC 1.3.2 documents from a JSON-RPC wire's rows. Nothing is written here that the rows do not say.
//! Params are objects, listed by name. Notifications that the server sends stand in `x-notifications`, since OpenRPC has no
//! word for them.

use crate::{
    ErrorCode,
    schemas::{Field, Schemas, sorted},
    table::{Notification, Row},
};
use serde_json::{Value, json};

/// Codes that every method may answer with.
const ALWAYS: [ErrorCode; 3] = [ErrorCode::InvalidParams, ErrorCode::Closing, ErrorCode::Internal];

/// What a document says of the whole wire.
#[derive(Debug, Clone, Copy)]
pub struct Info<'a> {
    /// The wire.
    pub title: &'a str,
    /// Version of the program that serves it.
    pub version: &'a str,
    /// One line.
    pub summary: &'a str,
}

/// Renders `rows` and `notifications`, keys sorted.
/// Errors: the name of a type that is read and written with different schemas.
pub fn document(info: &Info<'_>, rows: &[Row], notifications: &[Notification]) -> Result<Value, String> {
    let mut schemas = Schemas::new("/components/schemas");
    let failure = schemas.output(|g| g.subschema_for::<ErrorCode>());
    let methods: Vec<Value> = rows.iter().map(|row| method(&mut schemas, row)).collect();
    let notifications: Vec<Value> = notifications
        .iter()
        .map(|notification| {
            json!({
                "name": notification.name,
                "description": notification.doc.trim(),
                "params": { "name": "params", "schema": schemas.output(notification.params) },
            })
        })
        .collect();
    let errors: serde_json::Map<String, Value> =
        ErrorCode::ALL.iter().map(|code| (code.as_str().to_owned(), error(*code))).collect();
    Ok(sorted(json!({
        "openrpc": "1.3.2",
        "info": { "title": info.title, "version": info.version, "description": info.summary },
        "methods": methods,
        "components": { "schemas": schemas.finish()?, "errors": errors },
        "x-notifications": notifications,
        "x-error-data": {
            "type": "object",
            "properties": { "code": failure, "cause": { "type": "string" } },
            "required": ["code"],
        },
    })))
}

fn method(schemas: &mut Schemas, row: &Row) -> Value {
    let doc = one_line(row.doc);
    let summary = doc.split_once(". ").map_or(doc.trim_end_matches('.'), |(first, _)| first);
    let errors: Vec<Value> =
        ALWAYS.iter().chain(row.errors).map(|code| json!({ "$ref": format!("#/components/errors/{code}") })).collect();
    let params: Vec<Value> = schemas.fields(row.params).into_iter().map(param).collect();
    json!({
        "name": row.name,
        "summary": summary,
        "description": doc,
        "paramStructure": "by-name",
        "params": params,
        "result": { "name": "result", "schema": schemas.output(row.result) },
        "errors": errors,
        "x-built": row.built,
        "x-clauses": row.clauses,
    })
}

fn param(field: Field) -> Value {
    let Field { name, schema, description, required } = field;
    json!({ "name": name, "description": description.unwrap_or_default(), "required": required, "schema": schema })
}

fn error(code: ErrorCode) -> Value {
    json!({ "code": code.rpc(), "message": code.as_str(), "data": { "code": code.as_str() } })
}

/// A row's doc text without its line breaks.
fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
