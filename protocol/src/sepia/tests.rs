//! Names, casing and schemas of the wire, against what the documents say.

use super::*;
use crate::{AgentEvent, SessionId, event::*, ir::*, schemas::dangling, table};
use serde_json::{Value, json};

#[test]
fn the_methods_are_those_of_the_document() {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let document = "manifest agents.list sessions.list sessions.get sessions.summary sessions.export sessions.import \
        sessions.convert sessions.history sessions.attach sessions.detach sessions.create sessions.prompt sessions.cancel \
        sessions.permission sessions.delete sessions.patch_meta projects.list projects.create projects.rename \
        projects.delete config.list config.get config.import sessions.restore sessions.rewind sessions.subscribe \
        events.subscribe shutdown";
    let mut ours = names.clone();
    let mut theirs: Vec<&str> = document.split_whitespace().collect();
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
    assert!(served().all(|name| names.contains(&name)));
}

/// One event of every kind, and the name that it has here.
fn every_event() -> Vec<(AgentEvent, &'static str)> {
    let text = || "x".to_owned();
    let message = Message::text("m".into(), Role::Assistant, "x", 1);
    let request = PermissionRequest {
        request_id: "p".into(),
        call_id: "c".into(),
        tool: text(),
        title: text(),
        input: json!({}),
        options: vec![PermissionOption { id: text(), name: text(), kind: OptionKind::AllowOnce }],
    };
    vec![
        (AgentEvent::Status { busy: true, outcome: None }, "runStarted"),
        (AgentEvent::Status { busy: false, outcome: Some(Stop::Completed) }, "runFinished"),
        (AgentEvent::UserMessage { id: "m".into(), text: text(), origin: Origin::Client }, "userMessage"),
        (AgentEvent::TurnStart { turn: 1, model: text() }, "turnStarted"),
        (AgentEvent::LlmStart { model: text() }, "llmStarted"),
        (AgentEvent::LlmDelta { text: text() }, "textDelta"),
        (AgentEvent::LlmThinkingDelta { text: text() }, "thinkingDelta"),
        (AgentEvent::LlmRetry { attempt: 1, delay_ms: 2, message: text() }, "llmRetry"),
        (AgentEvent::LlmEnd { message, usage: Usage::default(), stop: Stop::Completed }, "messageFinished"),
        (
            AgentEvent::ToolCallStart { call_id: "c".into(), name: text(), input: json!({}), title: Some(text()) },
            "toolCallStarted",
        ),
        (AgentEvent::ToolCallOutput { call_id: "c".into(), text: text() }, "toolCallOutput"),
        (
            AgentEvent::ToolCallEnd {
                call_id: "c".into(),
                output: vec![Part::text("x")],
                error: false,
                duration_ms: 3,
                diff: Some(text()),
            },
            "toolCallFinished",
        ),
        (AgentEvent::PermissionRequest(request), "permissionRequest"),
        (
            AgentEvent::PermissionResolved {
                request_id: "p".into(),
                outcome: Outcome::Denied,
                reason: Some(text()),
                by: Some(text()),
            },
            "permissionResolved",
        ),
        (AgentEvent::Plan { entries: vec![PlanEntry { text: text(), state: PlanState::Active }] }, "plan"),
        (AgentEvent::TaskStart { task_id: "t".into(), title: text() }, "taskStarted"),
        (AgentEvent::TaskEnd { task_id: "t".into(), state: TaskState::Done, text: text() }, "taskFinished"),
        (AgentEvent::Compaction { before_tokens: 1, after_tokens: 2, summary: text() }, "compacted"),
        (
            AgentEvent::SettingsChanged(SettingsPatch { model: Some(text()), ..SettingsPatch::default() }),
            "settingsChanged",
        ),
        (AgentEvent::Usage(Usage::default()), "usage"),
        (
            AgentEvent::Final {
                reply: text(),
                usage: Usage::default(),
                turns_used: 1,
                stopped_reason: Stop::Completed,
                run_id: "r".into(),
            },
            "final",
        ),
        (AgentEvent::Error { code: crate::ErrorCode::Unavailable, message: text(), retryable: true }, "error"),
        (AgentEvent::SessionClosed { reason: CloseReason::Idle }, "sessionClosed"),
        (AgentEvent::Extension { name: text(), data: json!([1]) }, "extension"),
    ]
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |out, word| out + &word[..1].to_uppercase() + &word[1..])
}

#[test]
fn every_event_has_its_name_its_seq_and_the_same_members_in_camel_case() {
    for (event, name) in every_event() {
        let ours: Value = serde_json::from_slice(&encode(7, &event)).unwrap();
        let Value::Object(mut expected) = serde_json::to_value(&event).unwrap() else { panic!("an object") };
        expected.insert("type".into(), name.into());
        expected.insert("seq".into(), 7.into());
        if matches!(event, AgentEvent::Status { .. }) {
            expected.remove("busy");
        }
        let expected: serde_json::Map<String, Value> =
            expected.into_iter().map(|(member, value)| (camel(&member), value)).collect();
        assert_eq!(ours, Value::Object(expected), "{name}");
    }
}

#[test]
fn lines_are_what_their_types_say() {
    let id = SessionId::parse("s-1").unwrap();
    let events = every_event();
    let encoded: Vec<Vec<u8>> = events.iter().map(|(event, _)| encode(1, event)).collect();
    let typed = || events.iter().map(|(event, _)| SessionEvent::new(1, event)).collect();
    let params = |line: Vec<u8>, method: &str| {
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&line["jsonrpc"], &line["method"], line.get("id")), (&json!("2.0"), &json!(method), None));
        line["params"].clone()
    };
    let told = SessionEvents { session_id: &id, events: typed(), lagged: None };
    assert_eq!(params(session_events(&id, &encoded), "session.event"), serde_json::to_value(told).unwrap());
    let mut line = EventLine::of_session(&id, 0);
    events.iter().for_each(|(event, _)| line.encode(1, event));
    assert_eq!(line.finish(), session_events(&id, &encoded));
    let told = SessionEvents { session_id: &id, events: Vec::new(), lagged: Some(9) };
    assert_eq!(params(session_lagged(&id, 9), "session.event"), serde_json::to_value(told).unwrap());
    let told = NodeEvent::SessionEvents { session_id: &id, events: typed() };
    assert_eq!(params(node_session_events(&id, &encoded), "node.event"), serde_json::to_value(told).unwrap());
    let told = NodeEvent::Lagged { session_id: None, count: 2 };
    assert_eq!(params(node_event(&told), "node.event"), json!({"type": "lagged", "sessionId": null, "count": 2}));
    let told = NodeEvent::Detached { session_id: &id, agent_id: "native", reason: CloseReason::Shutdown };
    let expected = json!({"type": "detached", "sessionId": "s-1", "agentId": "native", "reason": "shutdown"});
    assert_eq!(params(node_event(&told), "node.event"), expected);
}

#[test]
fn params_are_read_as_the_document_gives_them() {
    fn read<P: serde::de::DeserializeOwned>(text: &str) -> Result<P, String> {
        table::decode(Some(text)).map_err(|failure| failure.message)
    }
    assert_eq!(read::<ListParams>("{}").unwrap(), ListParams { with_locks: false });
    assert_eq!(read::<ListParams>(r#"{"withLocks":true,"x":1}"#).unwrap(), ListParams { with_locks: true });
    assert_eq!(read::<CreateParams>("{}").unwrap_err(), "missing field `cwd`");
    let prompt = read::<PromptParams>(r#"{"id":"s","parts":[{"type":"text","text":"hi","more":1}]}"#).unwrap();
    let parts: Vec<Part> = prompt.parts.into_iter().map(Part::from).collect();
    assert_eq!(serde_json::to_value(parts).unwrap(), json!([{"type": "text", "text": "hi", "more": 1}]));
    let refused = read::<PromptParams>(r#"{"id":"s","parts":[{"type":"text","text":"a"},{"type":"text"}]}"#);
    assert_eq!(refused.unwrap_err(), "parts[1]: missing field `text`");
    let refused = read::<PromptParams>(r#"{"id":"s","parts":[{"type":"hologram"}]}"#).unwrap_err();
    assert!(refused.starts_with("parts[0].type: unknown variant `hologram`"), "{refused}");
    assert_eq!(read::<HistoryParams>(r#"{"id":"s","limit":-1}"#).unwrap_err().split(':').next(), Some("limit"));

    let patch = read::<PatchMetaParams>(r#"{"id":"s","patch":{"model":null,"pinned":true}}"#).unwrap().patch;
    assert_eq!((patch.model, patch.title, patch.pinned), (Some(None), None, Some(true)));
}

#[test]
fn results_are_written_as_the_document_gives_them() {
    let id = SessionId::parse("s-1").unwrap();
    let row = SessionRow {
        id: id.clone(),
        agent_id: "native".into(),
        cwd: "/w".into(),
        title: None,
        model: Some("script/echo".into()),
        created_at: 1,
        updated_at: 2,
        live: true,
        pending: false,
        pinned: false,
        archived: false,
        project_ids: vec![],
        spans: vec![],
        lock: Some(LockState { state: LockWord::Free, holder: None }),
    };
    let summary = serde_json::to_value(Summary { row, message_count: 3 }).unwrap();
    let expected = json!({
        "id": "s-1", "agentId": "native", "cwd": "/w", "model": "script/echo", "createdAt": 1, "updatedAt": 2, "live": true,
        "pending": false, "pinned": false, "archived": false, "projectIds": [], "spans": [], "lock": {"state": "free"},
        "messageCount": 3
    });
    assert_eq!(summary, expected);
    let config = Lifecycle { idle_ttl_ms: None, sweep_ms: 30000, history_limit: 500, probe_idle_ms: 60000 };
    let expected = json!({"idleTtlMs": null, "sweepMs": 30000, "historyLimit": 500, "probeIdleMs": 60000});
    assert_eq!(serde_json::to_value(config).unwrap(), expected);
    let attached = Attached { id, agent_id: "native".into(), read_only: false, model: None };
    let expected = json!({"id": "s-1", "agentId": "native", "readOnly": false, "model": null});
    assert_eq!(serde_json::to_value(attached).unwrap(), expected);
}

#[test]
fn the_document_is_whole() {
    let document = openrpc("0.0.0").unwrap();
    assert_eq!(document["openrpc"], "1.3.2");
    assert_eq!(dangling(&document), None);
    let methods = document["methods"].as_array().unwrap();
    assert_eq!(methods.len(), ROWS.len());
    let prompt = methods.iter().find(|method| method["name"] == "sessions.prompt").unwrap();
    let names: Vec<&Value> = prompt["params"].as_array().unwrap().iter().map(|param| &param["name"]).collect();
    assert_eq!(names, ["id", "parts", "agent"]);
    assert_eq!(prompt["result"]["schema"], json!({"$ref": "#/components/schemas/PromptOutcome"}));
    let told: Vec<&Value> = document["x-notifications"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(told, ["session.event", "node.event"]);
}
