//! What a server asks a person while one of its tools runs, put as a permission request: its options are the answers.
//! Invariant: nothing is ever made up in a person's name. A form whose answer is not one of a few choices cannot be answered
//! here: it is told as an event, and declined.

use super::config::shown;
use serde_json::{Map, Value, json};
use triplane_core::session::{PermissionAsk, ToolKind, Verdict};
use triplane_protocol::{
    CallId,
    event::{OptionKind, PermissionOption},
};

/// Choices of one question at most; more are no question that buttons answer.
const CHOICES: usize = 12;

/// The longest message, in characters.
const MESSAGE_CHARS: usize = 2000;

/// Option that declines.
const DECLINE: &str = "decline";

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub(super) server: String,
    pub(super) message: String,
    pub(super) what: What,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// Fields, as a JSON Schema of a flat object.
    Form(Value),
    /// A page that the person is to open.
    Page(String),
}

/// What a person can choose from.
#[derive(Debug, PartialEq)]
enum Choices {
    /// Yes or no; what is sent with a yes.
    Accept(Option<Value>),
    /// One of these: what is shown, and what is sent.
    OneOf(Vec<(String, Value)>),
    /// Something would have to be typed.
    Typed,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// With what was asked for.
    Accept(Option<Value>),
    /// No.
    Decline,
    /// The run ended first.
    Cancel,
}

impl Answer {
    /// The protocol's word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl Question {
    fn choices(&self) -> Choices {
        match &self.what {
            What::Page(_) => Choices::Accept(None),
            What::Form(schema) => choices(schema),
        }
    }

    /// As a permission request; `None` when its options could not answer it.
    pub(super) fn ask(&self, call: &CallId) -> Option<PermissionAsk> {
        let option = |id: String, name: String, kind| PermissionOption { id, name, kind };
        let mut options = match self.choices() {
            Choices::Typed => return None,
            Choices::Accept(_) => vec![option("accept".into(), "Accept".into(), OptionKind::AllowOnce)],
            Choices::OneOf(all) => {
                let numbered = all.into_iter().enumerate();
                numbered.map(|(at, (name, _))| option(at.to_string(), name, OptionKind::AllowOnce)).collect()
            }
        };
        options.push(option(DECLINE.into(), "Decline".into(), OptionKind::RejectOnce));
        let message: String = self.message.chars().take(MESSAGE_CHARS).collect();
        let title: String = message.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(PermissionAsk {
            call_id: call.clone(),
            tool: format!("mcp__{}", self.server),
            kind: ToolKind::Execute,
            title: format!("{} asks: {title}", self.server),
            input: self.data(),
            subject: message,
            outside: true,
            options: Some(options),
        })
    }

    /// What the verdict means. Allowed without a choice (a mode or a rule did it) is a yes only where a yes is all there is.
    pub(super) fn answer(&self, verdict: &Verdict) -> Answer {
        match (verdict, self.choices()) {
            (Verdict::Expired, _) => Answer::Cancel,
            (Verdict::Denied { .. }, _) | (_, Choices::Typed) => Answer::Decline,
            (Verdict::Allowed { .. }, Choices::Accept(content)) => Answer::Accept(content),
            (Verdict::Allowed { option }, Choices::OneOf(all)) => {
                let at = option.as_ref().and_then(|id| id.parse::<usize>().ok());
                let chosen = at.and_then(|at| all.into_iter().nth(at));
                chosen.map_or(Answer::Decline, |(_, content)| Answer::Accept(Some(content)))
            }
        }
    }

    /// For events and requests.
    pub(super) fn data(&self) -> Value {
        let message: String = self.message.chars().take(MESSAGE_CHARS).collect();
        match &self.what {
            What::Form(schema) => json!({ "server": self.server, "message": message, "schema": schema }),
            What::Page(url) => json!({ "server": self.server, "message": message, "url": url }),
        }
    }
}

fn choices(schema: &Value) -> Choices {
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
    let (mut content, mut open) = (Map::new(), Vec::new());
    for (name, field) in fields {
        match field.get("default") {
            Some(default) => drop(content.insert(name.clone(), default.clone())),
            None if required.contains(&name.as_str()) => open.push((name, field)),
            None => {}
        }
    }
    let with = |name: &String, value: Value| {
        let mut content = content.clone();
        content.insert(name.clone(), value);
        Value::Object(content)
    };
    match open.as_slice() {
        [] => Choices::Accept(Some(Value::Object(content))),
        [(name, field)] => match values(field) {
            Some(all) => Choices::OneOf(all.into_iter().map(|(text, value)| (text, with(name, value))).collect()),
            None => Choices::Typed,
        },
        [_, _, ..] => Choices::Typed,
    }
}

/// The few values that a field can have, with what is shown for each.
fn values(field: &Value) -> Option<Vec<(String, Value)>> {
    let text = |value: &Value| shown(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    if field.get("type").and_then(Value::as_str) == Some("boolean") {
        return Some(vec![("Yes".to_owned(), true.into()), ("No".to_owned(), false.into())]);
    }
    let all: Vec<(String, Value)> = if let Some(all) = field.get("enum").and_then(Value::as_array) {
        let names = field.get("enumNames").and_then(Value::as_array);
        let name = |at: usize, value: &Value| text(names.and_then(|names| names.get(at)).unwrap_or(value));
        all.iter().enumerate().map(|(at, value)| (name(at, value), value.clone())).collect()
    } else {
        let all = field.get("oneOf").and_then(Value::as_array)?;
        let pair = |one: &Value| {
            let value = one.get("const")?;
            Some((text(one.get("title").unwrap_or(value)), value.clone()))
        };
        all.iter().map(pair).collect::<Option<_>>()?
    };
    (1..=CHOICES).contains(&all.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: Value) -> Question {
        Question { server: "s".into(), message: "really\u{7}?".into(), what: What::Form(schema) }
    }

    fn allowed(option: Option<&str>) -> Verdict {
        Verdict::Allowed { option: option.map(str::to_owned) }
    }

    #[test]
    fn a_choice_is_options_and_its_value_is_sent() {
        let fields = json!({"size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]}, "n": {"type": "number", "default": 3}});
        let question = form(json!({"type": "object", "properties": fields, "required": ["size"]}));
        let ask = question.ask(&CallId::from("c")).unwrap();
        let names: Vec<String> = ask.options.unwrap().into_iter().map(|o| format!("{}={}", o.id, o.name)).collect();
        assert_eq!(names, ["0=Small", "1=Medium", "decline=Decline"]);
        assert_eq!(ask.title, "s asks: really ?");
        assert_eq!(question.answer(&allowed(Some("1"))), Answer::Accept(Some(json!({"n": 3, "size": "m"}))));
        // Nobody chose: nothing is made up.
        for verdict in [allowed(None), allowed(Some("7")), allowed(Some("x"))] {
            assert_eq!(question.answer(&verdict), Answer::Decline);
        }
        let denied = Verdict::Denied { reason: String::new(), option: Some("0".into()) };
        assert_eq!((question.answer(&denied), question.answer(&Verdict::Expired)), (Answer::Decline, Answer::Cancel));
    }

    #[test]
    fn the_kinds_of_forms() {
        let required = |fields: Value| {
            let names: Vec<String> = fields.as_object().unwrap().keys().cloned().collect();
            choices(&json!({"type": "object", "properties": fields, "required": names}))
        };
        assert_eq!(required(json!({"a": {"type": "string"}})), Choices::Typed);
        assert_eq!(required(json!({"a": {"type": "boolean"}, "b": {"type": "boolean"}})), Choices::Typed);
        assert_eq!(
            required(json!({"a": {"type": "string", "default": "x"}})),
            Choices::Accept(Some(json!({"a": "x"})))
        );
        assert!(
            matches!(required(json!({"a": {"oneOf": [{"const": 1, "title": "One"}]}})), Choices::OneOf(all) if all[0].0 == "One")
        );
        assert_eq!(required(json!({"a": {"enum": vec!["x"; CHOICES + 1]}})), Choices::Typed);
        assert_eq!(choices(&json!({"properties": {"a": {"type": "string"}}})), Choices::Accept(Some(json!({}))));
        assert_eq!(choices(&json!(3)), Choices::Accept(Some(json!({}))));
        let page = Question { server: "s".into(), message: "m".into(), what: What::Page("https://h".into()) };
        assert_eq!(page.answer(&allowed(Some("accept"))), Answer::Accept(None));
    }
}
