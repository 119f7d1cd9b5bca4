//! OpenAPI 3.1 documents from a REST wire's rows. Nothing is written here that the rows do not say.

use crate::{
    ErrorCode,
    rest::{ErrorBody, Kind, RestRow},
    schemas::{DIALECT, Field, Schemas, sorted},
};
use serde_json::{Map, Value, json};

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

/// Renders `rows`, keys sorted. The data of a stream's events stands in `x-event-schema`, since 3.1 has no word for it.
/// Errors: the name of a type that is read and written with different schemas.
pub fn document(info: &Info<'_>, rows: &[RestRow]) -> Result<Value, String> {
    let mut schemas = Schemas::new("/components/schemas");
    let error = schemas.output(|g| g.subschema_for::<ErrorBody>());
    let mut paths = Map::new();
    let mut tags: Vec<&str> = Vec::new();
    for row in rows {
        if !tags.contains(&row.tag()) {
            tags.push(row.tag());
        }
        let operation = operation(&mut schemas, row);
        if let Value::Object(item) = paths.entry(row.path).or_insert_with(|| Value::Object(Map::new())) {
            item.insert(row.verb.as_str().to_ascii_lowercase(), operation);
        }
    }
    Ok(sorted(json!({
        "openapi": "3.1.1",
        "jsonSchemaDialect": DIALECT,
        "info": { "title": info.title, "version": info.version, "summary": info.summary },
        "servers": [{ "url": "http://127.0.0.1:4096", "description": "The default of `triplane serve --transport http`." }],
        "tags": tags.into_iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas.finish()?,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "The token of the ready line." },
                "query": { "type": "apiKey", "in": "query", "name": "token", "description": "For event streams only." },
            },
            "responses": { "Error": { "description": "It failed.", "content": { "application/json": { "schema": error } } } },
        },
    })))
}

fn operation(schemas: &mut Schemas, row: &RestRow) -> Value {
    let mut parameters = Vec::new();
    for (place, of) in [("path", row.path_params), ("query", row.query), ("header", row.headers)] {
        parameters.extend(schemas.fields(of).into_iter().map(|field| parameter(place, field)));
    }
    let doc = row.doc.trim();
    let (summary, description) = match doc.split_once(". ") {
        Some((first, _)) => (first, doc),
        None => (doc.trim_end_matches('.'), doc),
    };
    let mut operation = Map::from_iter([
        ("operationId".to_owned(), json!(row.name)),
        ("summary".to_owned(), json!(summary)),
        ("description".to_owned(), json!(description)),
        ("tags".to_owned(), json!([row.tag()])),
        ("responses".to_owned(), responses(schemas, row)),
    ]);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), json!(parameters));
    }
    if let Some(of) = row.body {
        let required = schemas.fields(of).iter().any(|field| field.required);
        let schema = schemas.input(of);
        let body = json!({ "required": required, "content": { "application/json": { "schema": schema } } });
        operation.insert("requestBody".to_owned(), body);
    }
    match row.kind {
        Kind::Public => drop(operation.insert("security".to_owned(), json!([]))),
        Kind::Stream => drop(operation.insert("security".to_owned(), json!([{ "bearer": [] }, { "query": [] }]))),
        Kind::Call | Kind::Text => {}
    }
    Value::Object(operation)
}

fn parameter(place: &str, field: Field) -> Value {
    let Field { name, schema, description, required } = field;
    json!({
        "name": name,
        "in": place,
        "required": required || place == "path",
        "description": description.unwrap_or_default(),
        "schema": not_null(schema),
    })
}

/// A parameter is there or it is not; it cannot be null.
fn not_null(mut schema: Value) -> Value {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|word| word != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema["type"] = only;
        }
    }
    schema
}

fn responses(schemas: &mut Schemas, row: &RestRow) -> Value {
    let mut responses = Map::new();
    for success in row.success {
        let schema = (success.status != 204).then(|| schemas.output(success.schema));
        let response = match (row.kind, schema) {
            (_, None) => json!({ "description": "Done; no body." }),
            (Kind::Call | Kind::Public, Some(schema)) => {
                json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } })
            }
            (Kind::Text, Some(schema)) => {
                json!({ "description": "Done.", "content": { "text/plain": { "schema": schema } } })
            }
            (Kind::Stream, Some(schema)) => json!({
                "description": "Server-Sent Events, until the client or the server ends.",
                "content": { "text/event-stream": { "schema": { "type": "string" }, "x-event-schema": schema } },
            }),
        };
        responses.insert(success.status.to_string(), response);
    }
    for (status, codes) in by_status(&row.all_errors()) {
        let response = json!({ "$ref": "#/components/responses/Error", "description": codes });
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

/// Each status once, with the codes that it stands for.
fn by_status(codes: &[ErrorCode]) -> Vec<(u16, String)> {
    let mut statuses: Vec<(u16, String)> = Vec::new();
    for code in codes {
        match statuses.iter_mut().find(|(status, _)| *status == code.http()) {
            Some((_, told)) => {
                told.push_str(", ");
                told.push_str(code.as_str());
            }
            None => statuses.push((code.http(), code.as_str().to_owned())),
        }
    }
    statuses
}
