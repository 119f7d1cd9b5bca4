//! The table as a whole, and what the documents say of it.

use super::*;
use crate::{
    AgentEvent,
    rest::{Kind, Verb},
    schemas::dangling,
};
use serde_json::{Value, json};
use std::collections::HashSet;

fn document() -> Value {
    openapi("0.0.0").unwrap()
}

#[test]
fn every_row_is_in_the_document_and_every_reference_resolves() {
    let document = document();
    assert_eq!(dangling(&document), None);
    for row in ROWS {
        let operation = &document["paths"][row.path][row.verb.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], row.name);
        for success in row.success {
            assert!(operation["responses"][success.status.to_string()].is_object(), "{} {}", row.name, success.status);
        }
        assert_eq!(operation["requestBody"].is_object(), row.body.is_some(), "{}", row.name);
    }
    let operations: usize = document["paths"].as_object().unwrap().values().map(|p| p.as_object().unwrap().len()).sum();
    assert_eq!(operations, ROWS.len());
}

#[test]
fn names_and_places_are_unique_and_paths_name_their_parameters() {
    let names: HashSet<&str> = ROWS.iter().map(|row| row.name).collect();
    let places: HashSet<(Verb, &str)> = ROWS.iter().map(|row| (row.verb, row.path)).collect();
    assert_eq!((names.len(), places.len()), (ROWS.len(), ROWS.len()));
    let document = document();
    for row in ROWS {
        let operation = &document["paths"][row.path][row.verb.as_str().to_lowercase()];
        let listed = operation["parameters"].as_array().cloned().unwrap_or_default();
        let listed: Vec<&str> =
            listed.iter().filter(|p| p["in"] == "path").filter_map(|p| p["name"].as_str()).collect();
        let braced: Vec<&str> = row.path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(listed, braced, "{}", row.name);
    }
}

#[test]
fn only_health_is_public_and_only_events_take_a_token_in_the_query() {
    let of = |kind| ROWS.iter().filter(move |row| row.kind == kind).map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(of(Kind::Public), ["health"]);
    assert_eq!(of(Kind::Stream), ["streamEvents"]);
    let document = document();
    assert_eq!(document["paths"]["/v1/health"]["get"]["security"], json!([]));
    assert_eq!(document["security"], json!([{"bearer": []}]));
}

#[test]
fn the_stream_tells_its_events_schema() {
    let document = document();
    let response = &document["paths"]["/v1/sessions/{id}/events"]["get"]["responses"]["200"];
    let schema = &response["content"]["text/event-stream"]["x-event-schema"];
    assert_eq!(schema["$ref"], "#/components/schemas/StreamData");
    let event = serde_json::to_string(&document["components"]["schemas"]["SessionEvent"]).unwrap();
    assert!(event.contains("permission_request") && event.contains("\"seq\""), "{event}");
}

#[test]
fn an_event_carries_its_seq_and_session() {
    let event = AgentEvent::Status { busy: true, outcome: None };
    let data = SessionEvent { event, seq: 7, session: crate::SessionId::parse("a").unwrap() };
    assert_eq!(
        serde_json::to_value(StreamData::Event(Box::new(data))).unwrap(),
        json!({"type": "status", "busy": true, "seq": 7, "session": "a"})
    );
}

#[test]
fn a_whole_number_may_be_written_as_a_double() {
    let at = |text: &str| serde_json::from_str::<ForkBody>(text).map(|body| body.at).map_err(|err| err.to_string());
    for (text, want) in [("{}", None), (r#"{"at":null}"#, None), (r#"{"at":2}"#, Some(2)), (r#"{"at":2.0}"#, Some(2))] {
        assert_eq!(at(text), Ok(want), "{text}");
    }
    for text in [r#"{"at":-1}"#, r#"{"at":-1.0}"#, r#"{"at":0.5}"#, r#"{"at":1e300}"#, r#"{"at":"2"}"#] {
        assert!(at(text).unwrap_err().contains("a whole number"), "{text}");
    }
}
