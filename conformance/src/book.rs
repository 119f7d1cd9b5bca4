//! What every answer is held against: the schemas and the error codes that the wires' tables declare.
//! Results and events are what a server writes, so their schemas are made for serializing. Clauses: C03, C04 and each row's own.

use crate::{
    client::http::Response,
    json::Json,
    lacks::Lacks,
    verdict::{Blame, Outcome, Stop, shorten},
};
use jsonschema::Validator;
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};
use triplane_protocol::{
    ErrorCode,
    rest::{Kind, RestRow},
    table::{Notification, Row},
};

/// Codes that every JSON-RPC method may answer with.
const EVERYWHERE: &[ErrorCode] = &[ErrorCode::InvalidParams, ErrorCode::Closing, ErrorCode::Internal];

/// How a table makes a schema.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of one declared type as a validator.
fn validator(schema: SchemaOf) -> Result<Validator, Stop> {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut root = schema(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    if let Some(object) = root.as_object_mut() {
        object.insert("$defs".to_owned(), Value::Object(definitions));
    }
    jsonschema::validator_for(&root).map_err(|err| Stop::harness(format!("a schema does not compile: {err}")))
}

/// Ends the case unless the value fits.
fn hold(validator: &Validator, value: &Value, clause: Option<&'static str>, what: &str) -> Outcome {
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(err) => {
            let at = err.instance_path().to_string();
            let seen = format!("{what} does not fit its schema at `{at}`: {err}; in {}", shorten(&value.to_string()));
            Err(Stop::Broke { clause, seen: shorten(&seen) })
        }
    }
}

fn known(code: &str) -> Option<ErrorCode> {
    ErrorCode::ALL.iter().copied().find(|known| known.as_str() == code)
}

/// The table of a JSON-RPC wire.
#[derive(Debug, Clone, Default)]
pub struct RpcBook {
    methods: Arc<HashMap<&'static str, RpcEntry>>,
    notifications: Arc<HashMap<&'static str, Validator>>,
    lacks: Arc<Lacks>,
}

#[derive(Debug)]
struct RpcEntry {
    row: &'static Row,
    result: Validator,
}

impl RpcBook {
    /// Compiles the schemas of a table.
    pub fn new(rows: &'static [Row], notifications: &'static [Notification]) -> Outcome<Self> {
        let (mut methods, mut declared) = (HashMap::new(), HashMap::new());
        for row in rows {
            methods.insert(row.name, RpcEntry { row, result: validator(row.result)? });
        }
        for notification in notifications {
            declared.insert(notification.name, validator(notification.params)?);
        }
        Ok(Self { methods: Arc::new(methods), notifications: Arc::new(declared), lacks: Arc::default() })
    }

    /// The same table for a server that does not have all of it.
    #[must_use]
    pub fn with_lacks(&self, lacks: &Arc<Lacks>) -> Self {
        Self { lacks: lacks.clone(), ..self.clone() }
    }

    /// Skips the case if this text is a request whose method the server lacks.
    pub fn may_send(&self, text: &str) -> Outcome {
        if self.lacks.is_empty() {
            return Ok(());
        }
        let request: Option<Value> = serde_json::from_str(text).ok();
        let method = request.as_ref().and_then(|request| request.get("method")).and_then(Value::as_str);
        method.map_or(Ok(()), |method| self.lacks.method(method))
    }

    /// Skips the case if an error says that the server lacks what was asked for.
    pub fn lacking(&self, code: Option<&str>, message: &str) -> Outcome {
        if self.lacks.by_answer && code == Some(ErrorCode::Unsupported.as_str()) {
            return Err(Stop::skip(format!("the server says that it lacks this: {}", shorten(message))));
        }
        Ok(())
    }

    /// Holds a result against its row.
    pub fn result(&self, method: &str, result: &Value) -> Outcome {
        let Some(entry) = self.methods.get(method) else { return Ok(()) };
        hold(&entry.result, result, entry.row.clauses.first().copied(), &format!("the result of {method}"))
    }

    /// Holds a notification against its declaration; one that is not declared is refused.
    pub fn notification(&self, name: &str, params: &Value) -> Outcome {
        if self.notifications.is_empty() {
            return Ok(());
        }
        match self.notifications.get(name) {
            Some(validator) => hold(validator, params, None, &format!("the params of `{name}`")),
            None => Err(Stop::broke(format!("a notification that is not declared: `{name}`"))),
        }
    }

    /// Holds an error against C02, C03 and the row of its method.
    pub fn error(&self, method: Option<&str>, error: &Value) -> Outcome {
        let number = error.int("/code").of("C02")?;
        let shown =
            || format!("{} for {}", shorten(&error.to_string()), method.unwrap_or("a request without a known id"));
        let entry = method.and_then(|method| self.methods.get(method));
        match number {
            -32700 | -32600 => return Ok(()),
            -32601 if entry.is_none() => return Ok(()),
            -32601 => {
                return Err(Stop::Broke {
                    clause: Some("C02"),
                    seen: format!("a method of the wire is not known: {}", shown()),
                });
            }
            _ => {}
        }
        let code = error.text("/data/code").of("C03")?;
        let Some(code) = known(&code).filter(|code| i64::from(code.rpc()) == number) else {
            return Err(Stop::Broke {
                clause: Some("C03"),
                seen: format!("`data.code` and `code` do not agree: {}", shown()),
            });
        };
        let Some(RpcEntry { row, .. }) = entry else { return Ok(()) };
        let lacking = code == ErrorCode::Unsupported && (!row.built || self.lacks.by_answer);
        let declared = EVERYWHERE.contains(&code) || row.errors.contains(&code) || lacking;
        if declared {
            return Ok(());
        }
        Err(Stop::Broke { clause: Some("C03"), seen: format!("a code that the row does not declare: {}", shown()) })
    }
}

/// The table of larik.
#[derive(Debug, Clone, Default)]
pub struct HttpBook {
    rows: Arc<Vec<HttpEntry>>,
    event: Option<Arc<Validator>>,
    lacks: Arc<Lacks>,
}

#[derive(Debug)]
struct HttpEntry {
    row: &'static RestRow,
    success: Vec<(u16, Option<Validator>)>,
}

impl HttpBook {
    /// Compiles the schemas of a table.
    pub fn new(rows: &'static [RestRow]) -> Outcome<Self> {
        let (mut entries, mut event) = (Vec::new(), None);
        for row in rows {
            let mut success = Vec::new();
            for one in row.success {
                let json = one.status != 204 && row.kind != Kind::Text;
                success.push((one.status, json.then(|| validator(one.schema)).transpose()?));
            }
            if row.kind == Kind::Stream {
                event = success.pop().and_then(|(_, validator)| validator).map(Arc::new);
            }
            entries.push(HttpEntry { row, success });
        }
        Ok(Self { rows: Arc::new(entries), event, lacks: Arc::default() })
    }

    /// The same table for a server that does not have all of it.
    #[must_use]
    pub fn with_lacks(&self, lacks: &Arc<Lacks>) -> Self {
        Self { lacks: lacks.clone(), ..self.clone() }
    }

    /// Skips the case if the server lacks the operation.
    pub fn may_call(&self, verb: &str, path: &str) -> Outcome {
        self.lacks.path(verb, path)
    }

    /// Holds a response against its row, or, where no row fits, an error against C03.
    pub fn check(&self, method: &str, path: &str, response: &Response) -> Outcome {
        if method == "HEAD" || response.status < 200 {
            return Ok(());
        }
        let entry = self.rows.iter().find(|entry| entry.row.verb.as_str() == method && fits(entry.row.path, path));
        if self.lacks.by_answer && response.status == ErrorCode::Unsupported.http() {
            return Err(Stop::skip(format!("the server says that it lacks this: {response}")));
        }
        if response.status >= 400 {
            return error(entry.map(|entry| entry.row), response);
        }
        let Some(entry) = entry else { return Ok(()) };
        if entry.row.kind == Kind::Stream {
            return Ok(());
        }
        let clause = entry.row.clauses.first().copied();
        match entry.success.iter().find(|(status, _)| *status == response.status) {
            None => Err(Stop::Broke { clause, seen: format!("{response}: a status that the row does not declare") }),
            Some((_, None)) => Ok(()),
            Some((_, Some(validator))) => {
                let json = response.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
                if !json {
                    return Err(Stop::Broke { clause, seen: format!("{response}: not application/json") });
                }
                hold(validator, &response.json()?, clause, &format!("the body of {}", response.to))
            }
        }
    }

    /// Holds the data of one event against the stream's schema.
    pub fn event(&self, data: &Value) -> Outcome {
        match &self.event {
            None => Ok(()),
            Some(validator) => hold(validator, data, Some("H13"), "an event"),
        }
    }
}

fn error(row: Option<&RestRow>, response: &Response) -> Outcome {
    let broke = |what: &str| Stop::Broke { clause: Some("C03"), seen: format!("{response}: {what}") };
    let body = response.json().of("C03")?;
    let code = body.text("/error/code").of("C03")?;
    body.text("/error/message").of("C03")?;
    let Some(code) = known(&code) else { return Err(broke("a code that is not in the list")) };
    if code.http() != response.status {
        return Err(broke(&format!("`{code}` is {}", code.http())));
    }
    if row.is_some_and(|row| !row.all_errors().contains(&code)) {
        return Err(broke("a code that the row does not declare"));
    }
    Ok(())
}

/// Whether a path is one that the template names.
fn fits(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(want), Some(got)) if want == got || (want.starts_with('{') && !got.is_empty()) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use triplane_protocol::table::Queue;

    /// The error object of a JSON-RPC answer.
    fn error_object(number: i64, code: &str) -> Value {
        json!({"code": number, "message": "", "data": {"code": code}})
    }

    static ROWS: &[Row] = &[Row {
        name: "sum",
        doc: "Adds.",
        clauses: &["X01"],
        queue: Queue::None,
        errors: &[ErrorCode::Busy],
        built: true,
        params: |generator| generator.subschema_for::<i64>(),
        result: |generator| generator.subschema_for::<triplane_protocol::Usage>(),
    }];

    #[test]
    fn a_result_and_an_error_are_held_against_their_row() {
        let book = RpcBook::new(ROWS, &[]).unwrap();
        let usage = serde_json::to_value(triplane_protocol::Usage::default()).unwrap();
        assert_eq!(book.result("sum", &usage), Ok(()));
        assert!(matches!(book.result("sum", &json!("x")), Err(Stop::Broke { clause: Some("X01"), .. })));
        assert_eq!(book.error(Some("sum"), &error_object(-32000, "busy")), Ok(()));
        assert_eq!(book.error(Some("sum"), &error_object(-32602, "invalid_params")), Ok(()));
        for (number, code) in [(-32000, "locked"), (-32000, "nonsense"), (-32602, "busy"), (-32601, "busy")] {
            assert!(book.error(Some("sum"), &error_object(number, code)).is_err(), "{number} {code}");
        }
        assert!(book.error(Some("sum"), &json!({"code": -32000, "message": "x"})).is_err());
        assert_eq!(book.error(Some("other"), &json!({"code": -32601, "message": "x"})), Ok(()));
    }

    /// No row of any wire takes just anything: what has the wrong type is refused, and so is what nobody declared.
    #[test]
    fn every_row_of_every_wire_bites() {
        use triplane_protocol::{larik, lich, sepia};
        let wrong = json!({"id": [], "session_id": 1, "status": {}, "subscribed": "x", "type": 1});
        for (rows, notifications) in [(lich::ROWS, lich::NOTIFICATIONS), (sepia::ROWS, sepia::NOTIFICATIONS)] {
            let book = RpcBook::new(rows, notifications).unwrap();
            for row in rows {
                assert!(book.result(row.name, &json!(7)).is_err(), "{} takes a number", row.name);
                assert!(book.error(Some(row.name), &error_object(-32000, "timeout")).is_err(), "{}", row.name);
            }
            for notification in notifications {
                assert!(book.notification(notification.name, &wrong).is_err(), "{}", notification.name);
            }
            assert!(book.notification("nobody.declared", &json!({})).is_err());
        }
        let book = HttpBook::new(larik::ROWS).unwrap();
        assert!(book.event(&wrong).is_err());
        let response = |status, body: &str| Response {
            to: String::new(),
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
        };
        for row in larik::ROWS.iter().filter(|row| matches!(row.kind, Kind::Call | Kind::Public)) {
            let path: String = row.path.replace(['{', '}'], "");
            let check = |status, body| book.check(row.verb.as_str(), &path, &response(status, body));
            let refusal = r#"{"error":{"code":"upgrade_required","message":"x"}}"#;
            assert!(check(206, "{}").is_err(), "{path}: a status of no row");
            assert!(check(426, refusal).is_err(), "{path}: a code of no row");
            let json = row.success.iter().find(|success| success.status != 204);
            if let Some(success) = json {
                assert!(check(success.status, "7").is_err(), "{} {path} takes a number", row.verb.as_str());
            }
        }
    }

    #[test]
    fn a_template_fits_whole_segments() {
        assert!(fits("/v1/sessions/{id}", "/v1/sessions/a?x=1"));
        assert!(!fits("/v1/sessions/{id}", "/v1/sessions/a/b"));
        assert!(!fits("/v1/sessions/{id}", "/v1/sessions/"));
        assert!(!fits("/v1/sessions", "/v1/session"));
    }
}
