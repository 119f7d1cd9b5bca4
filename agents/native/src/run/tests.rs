//! The loop, driven by scripts: what goes into the history and what is told, in order.

use super::*;
use crate::{
    fake::{Fake, Said},
    tools,
};
use std::{path::PathBuf, time::Duration};
use triplane_core::agent::Settings;
use triplane_protocol::{
    CallId, MessageId, RunId,
    ir::{KnownPart, Mode},
};

fn turn(cwd: &Path, script: &str) -> Turn {
    Turn {
        run_id: RunId::from("r1"),
        history: vec![Arc::new(Message::text(MessageId::from("u1"), Role::User, script, 1))],
        settings: Settings { model: "script/echo".into(), effort: None, mode: Mode::Default },
        cwd: cwd.to_owned(),
        max_turns: 10,
    }
}

/// Runs a script to its stop, at most ten seconds.
async fn play(fake: &Arc<Fake>, turn: Turn, cancel: &CancellationToken) -> RunOutcome {
    let host: Arc<dyn Host> = Arc::clone(fake) as Arc<dyn Host>;
    let config = Arc::default();
    let run = run(&config, crate::fake::shelf(), turn, host, cancel.clone());
    tokio::time::timeout(Duration::from_secs(10), run).await.expect("the run hangs")
}

/// One word a thing that was said.
fn shown(said: &[Said]) -> String {
    let words = said.iter().map(|s| match s {
        Said::Event(AgentEvent::LlmDelta { text }) => format!("[{text}]"),
        Said::Event(AgentEvent::LlmThinkingDelta { text }) => format!("think[{text}]"),
        Said::Event(AgentEvent::LlmEnd { message, stop, .. }) => format!("llm_end:{}:{stop:?}", message.id),
        Said::Event(AgentEvent::ToolCallStart { call_id, .. }) => format!("start:{call_id}"),
        Said::Event(AgentEvent::ToolCallEnd { call_id, error, .. }) => {
            format!("end:{call_id}{}", if *error { "!" } else { "" })
        }
        Said::Event(event) => event.kind().to_owned(),
        Said::Message(message) => format!("+{}{}", message.id, parts(message)),
        Said::Ask(ask) => format!("ask:{}", ask.subject),
        Said::Before(_) => "before".to_owned(),
        Said::Done(_) => "done".to_owned(),
        Said::TaskEnd(ok, text) => format!("task_end:{ok}:{text}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn parts(message: &Message) -> String {
    let each = message.parts.iter().map(|part| match part {
        Part::Known(KnownPart::Text { text, .. }) => format!("\"{text}\""),
        Part::Known(KnownPart::Thinking { text, .. }) => format!("think\"{text}\""),
        Part::Known(KnownPart::Call { id, .. }) => format!("call:{id}"),
        Part::Known(KnownPart::Result { id, output, error, .. }) => {
            let text = output.iter().filter_map(Part::as_text).collect::<String>();
            format!("result:{id}:{error}:{text}")
        }
        Part::Known(_) | Part::Other(_) => format!("{part:?}"),
    });
    format!("({})", each.collect::<Vec<_>>().join(","))
}

#[track_caller]
fn usage(input: u64, output: u64, reasoning: u64) -> Usage {
    Usage { input, output, reasoning, ..Usage::default() }
}

#[tokio::test]
async fn text_comes_word_by_word_and_is_kept_once() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    let outcome = play(&fake, turn(dir.path(), "hello big world"), &CancellationToken::new()).await;
    let expected = RunOutcome {
        stop: Stop::Completed,
        reply: "hello big world".into(),
        usage: usage(3, 3, 0),
        turns: 1,
        error: None,
    };
    assert_eq!(outcome, expected);
    assert_eq!(
        shown(&fake.said()),
        "turn_start llm_start [hello ] [big ] [world] +m1(\"hello big world\") llm_end:m1:Completed usage"
    );
}

#[tokio::test]
async fn a_call_is_permitted_run_answered_and_told() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    std::fs::write(dir.path().join("f"), "one two\n").unwrap();
    let script = "/think hm\n/tool read {\"path\":\"f\"}\n/say bye";
    let outcome = play(&fake, turn(dir.path(), script), &CancellationToken::new()).await;
    assert_eq!((outcome.stop, outcome.reply.as_str(), outcome.turns), (Stop::Completed, "bye", 2));
    assert_eq!(
        shown(&fake.said()),
        "turn_start llm_start think[hm] +m1(think\"hm\",call:m1-1) llm_end:m1:Completed usage \
         start:m1-1 ask:f +m2(result:m1-1:false:one two\n) end:m1-1 \
         turn_start llm_start [bye] +m3(\"bye\") llm_end:m3:Completed usage"
    );
}

#[tokio::test]
async fn what_a_model_gets_wrong_is_told_to_it() {
    let (dir, mut fake) = (tempfile::tempdir().unwrap(), Fake::new());
    fake.deny = Some("rm");
    let fake = Arc::new(fake);
    let script =
        "/tool nope {}\n/tool read {\"pth\":\"f\"}\n/tool bash {\"command\":\"rm x\"}\n/tool read {\"path\":3}";
    let outcome = play(&fake, turn(dir.path(), script), &CancellationToken::new()).await;
    assert_eq!((outcome.stop, outcome.turns), (Stop::Completed, 5));
    let texts: Vec<&str> = outcome.reply.lines().collect();
    assert!(texts[0].starts_with("tool nope: there is no tool `nope`; there are read, write, edit, "), "{}", texts[0]);
    assert!(
        texts[1].starts_with("tool read: bad input for `read`: pth: unknown field `pth`, expected one of"),
        "{}",
        texts[1]
    );
    assert_eq!(texts[2], "tool bash: denied: not today");
    assert!(texts[3].starts_with("tool read: bad input for `read`: path: invalid type: integer `3`"), "{}", texts[3]);
}

#[tokio::test]
async fn stops_of_the_model_and_of_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [
        ("a\n/fail refused", Stop::Refused, "a\n", None),
        ("a\n/fail max_tokens", Stop::MaxTokens, "a\n", None),
        ("a\n/fail overloaded", Stop::Error, "a\n", Some((ErrorCode::Overloaded, true))),
        ("/fail 400", Stop::Error, "", Some((ErrorCode::Invalid, false))),
    ];
    for (script, stop, reply, error) in rows {
        let fake = Arc::new(Fake::new());
        let outcome = play(&fake, turn(dir.path(), script), &CancellationToken::new()).await;
        let code = outcome.error.map(|e| (e.code, e.retryable));
        assert_eq!((outcome.stop, outcome.reply.as_str(), code), (stop, reply, error), "{script:?}");
    }
    let fake = Arc::new(Fake::new());
    let mut limited = turn(dir.path(), "/tool ls\n/tool ls\n/tool ls");
    limited.max_turns = 2;
    let outcome = play(&fake, limited, &CancellationToken::new()).await;
    assert_eq!((outcome.stop, outcome.turns), (Stop::MaxTurns, 2));
    let ends = fake.events().iter().filter(|e| e.kind() == "tool_call_end").count();
    assert_eq!(ends, 2);
}

#[tokio::test]
async fn cancel_keeps_what_was_said_and_answers_every_call() {
    let dir = tempfile::tempdir().unwrap();
    let (fake, cancel) = (Arc::new(Fake::new()), CancellationToken::new());
    let run = play(&fake, turn(dir.path(), "/say half\n/sleep 60000\n/say more"), &cancel);
    let (outcome, ()) = tokio::join!(run, async {
        fake.until(|s| matches!(s, Said::Event(AgentEvent::LlmDelta { .. }))).await;
        cancel.cancel();
    });
    assert_eq!((outcome.stop, outcome.reply.as_str()), (Stop::Aborted, "half"));
    assert_eq!(shown(&fake.said()), "turn_start llm_start [half] +m1(\"half\") llm_end:m1:Aborted usage");

    let (fake, cancel) = (Arc::new(Fake::new()), CancellationToken::new());
    let script = "/tool bash {\"command\":\"echo hi; sleep 300\"}";
    let run = play(&fake, turn(dir.path(), script), &cancel);
    let (outcome, ()) = tokio::join!(run, async {
        fake.until(|s| matches!(s, Said::Event(AgentEvent::ToolCallOutput { .. }))).await;
        cancel.cancel();
    });
    assert_eq!(outcome.stop, Stop::Aborted);
    let told = shown(&fake.said());
    assert!(told.ends_with("tool_call_output +m2(result:m1-1:true:hi\n[cancelled]) end:m1-1!"), "{told}");
}

#[tokio::test]
async fn cancel_ends_a_wait_for_a_permission() {
    let (dir, mut fake) = (tempfile::tempdir().unwrap(), Fake::new());
    fake.hang = Some("echo");
    let (fake, cancel) = (Arc::new(fake), CancellationToken::new());
    let run = play(&fake, turn(dir.path(), "/tool bash {\"command\":\"echo hi\"}"), &cancel);
    let (outcome, ()) = tokio::join!(run, async {
        fake.until(|s| matches!(s, Said::Ask(_))).await;
        cancel.cancel();
    });
    assert_eq!(outcome.stop, Stop::Aborted);
    assert!(shown(&fake.said()).ends_with("ask:echo hi +m2(result:m1-1:true:cancelled) end:m1-1!"));
}

#[tokio::test]
async fn a_long_repeat_can_be_cancelled() {
    let (dir, fake, cancel) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()), CancellationToken::new());
    let run = play(&fake, turn(dir.path(), "/repeat 1000000 x"), &cancel);
    let (outcome, ()) = tokio::join!(run, async {
        fake.until(|s| matches!(s, Said::Event(AgentEvent::LlmDelta { .. }))).await;
        cancel.cancel();
    });
    assert_eq!(outcome.stop, Stop::Aborted);
    let deltas = fake.events().iter().filter(|e| e.kind() == "llm_delta").count();
    assert!(deltas < 1_000_000 && outcome.reply.len() >= deltas && outcome.reply.len() <= deltas + 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_on_its_own() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    let outcome = play(&fake, turn(dir.path(), "/task 5000 it is done\n/say ok"), &CancellationToken::new()).await;
    assert_eq!(outcome.reply, "ok");
    fake.until(|s| matches!(s, Said::TaskEnd(true, text) if text == "it is done")).await;
}

#[tokio::test]
async fn a_directory_that_is_gone_is_said_and_not_final() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    let cwd: PathBuf = dir.path().join("later");
    let outcome = play(&fake, turn(&cwd, "hi"), &CancellationToken::new()).await;
    let error = outcome.error.unwrap();
    assert!(error.message.contains("later") && error.message.contains("prompt again"), "{}", error.message);
    assert!(fake.said().is_empty());
    std::fs::create_dir(&cwd).unwrap();
    assert_eq!(play(&fake, turn(&cwd, "hi"), &CancellationToken::new()).await.stop, Stop::Completed);
}

#[tokio::test]
async fn a_summary_runs_no_directive() {
    let dir = tempfile::tempdir().unwrap();
    let ask = turn(dir.path(), "/fail 500\n/tool bash {\"command\":\"touch x\"}");
    let (text, _) = summarize(&NativeConfig::default(), &ask, &CancellationToken::new()).await.unwrap();
    assert_eq!(text, "summary of 1 messages");
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert_eq!(summarize(&NativeConfig::default(), &ask, &cancelled).await.unwrap_err().code, ErrorCode::Cancelled);
}

/// Brings one tool, one whose name is taken, and a word about each change.
struct Guest(Vec<Arc<dyn tools::Tool>>);

struct Greet(crate::model::ToolSpec);

#[async_trait::async_trait]
impl tools::Tool for Greet {
    fn spec(&self) -> &crate::model::ToolSpec {
        &self.0
    }

    async fn prepare(&self, _: &Desk, _: &CallId, input: &serde_json::Value) -> Result<tools::Prepared, String> {
        let name = input["name"].as_str().ok_or("name: must be a text")?.to_owned();
        Ok(tools::Prepared {
            kind: triplane_core::session::ToolKind::Execute,
            title: "greet".into(),
            subject: name.clone(),
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move { tools::Outcome::ok(format!("hello {name}")) }),
        })
    }
}

#[async_trait::async_trait]
impl tools::set::Extension for Guest {
    async fn tools(&self, _desk: &Desk) -> Vec<Arc<dyn tools::Tool>> {
        self.0.clone()
    }

    fn tool(&self, name: &str) -> Option<Arc<dyn tools::Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name).cloned()
    }

    async fn after_change(&self, _desk: &Desk, path: &Path) -> Option<String> {
        Some(format!("seen {}", path.file_name()?.display()))
    }
}

#[tokio::test]
async fn an_extension_brings_tools_and_speaks_about_changes() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    let greet = |name: &'static str| {
        let spec = crate::model::ToolSpec { name: name.into(), description: "".into(), schema: serde_json::json!({}) };
        Arc::new(Greet(spec)) as Arc<dyn tools::Tool>
    };
    let mut config = NativeConfig::default();
    config.extensions.push(Arc::new(Guest(vec![greet("mcp__a__greet"), greet("read")])));
    let script = "/tool mcp__a__greet {\"name\":\"you\"}\n/tool mcp__a__greet {}\n\
        /tool write {\"path\":\"f\",\"content\":\"x\"}\n/tool read {\"path\":\"f\"}";
    let host: Arc<dyn Host> = Arc::clone(&fake) as Arc<dyn Host>;
    let config = Arc::new(config);
    let run = run(&config, crate::fake::shelf(), turn(dir.path(), script), host, CancellationToken::new());
    let outcome = tokio::time::timeout(Duration::from_secs(10), run).await.expect("the run hangs");
    assert_eq!(
        outcome.reply,
        "tool mcp__a__greet: hello you\ntool mcp__a__greet: name: must be a text\n\
         tool write: made f (1 bytes)\nseen f\ntool read: x"
    );
}

/// Ends only when three of its kind are at work.
struct Meet(crate::model::ToolSpec, Arc<tokio::sync::Barrier>);

#[async_trait::async_trait]
impl tools::Tool for Meet {
    fn spec(&self) -> &crate::model::ToolSpec {
        &self.0
    }

    async fn prepare(&self, _: &Desk, _: &CallId, input: &serde_json::Value) -> Result<tools::Prepared, String> {
        let (barrier, text) = (Arc::clone(&self.1), input.to_string());
        Ok(tools::Prepared {
            kind: triplane_core::session::ToolKind::Read,
            title: "meet".into(),
            subject: "meet".into(),
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                barrier.wait().await;
                tools::Outcome::ok(text)
            }),
        })
    }
}

#[tokio::test]
async fn calls_that_only_look_go_on_side_by_side_and_are_told_in_order() {
    let (dir, fake) = (tempfile::tempdir().unwrap(), Arc::new(Fake::new()));
    let spec = crate::model::ToolSpec { name: "meet".into(), description: "".into(), schema: serde_json::json!({}) };
    let mut config = NativeConfig::default();
    config.extensions.push(Arc::new(Guest(vec![Arc::new(Meet(spec, Arc::new(tokio::sync::Barrier::new(3))))])));
    let config = Arc::new(config);
    let host: Arc<dyn Host> = Arc::clone(&fake) as Arc<dyn Host>;
    let shelf = crate::fake::shelf();
    let begun = Run::begin(&config, shelf, turn(dir.path(), "x"), host, CancellationToken::new()).await.unwrap();
    let call = |id: &str, name: &str, input| collect::Call { id: CallId::from(id), name: name.into(), input };
    let calls = vec![
        call("a", "meet", serde_json::json!({"n": 1})),
        call("b", "meet", serde_json::json!({"n": 2})),
        call("c", "nope", serde_json::json!({})),
        call("d", "meet", serde_json::json!({"n": 3})),
        call("e", "write", serde_json::json!({"path": "f", "content": "x"})),
        call("f", "read", serde_json::json!({"path": "f"})),
    ];
    let all = call::run_all(&begun.desk, calls, true);
    let results = tokio::time::timeout(Duration::from_secs(10), all).await.expect("they do not go on side by side");
    assert_eq!(results.len(), 6);
    let told = shown(&fake.said());
    let order: Vec<&str> = told.split(' ').filter(|w| w.starts_with("start:") || w.starts_with("end:")).collect();
    assert_eq!(
        order,
        [
            "start:a", "start:b", "start:c", "start:d", "end:a", "end:b", "end:c!", "end:d", "start:e", "end:e",
            "start:f", "end:f"
        ]
    );
}
