//! Every protocol against the scripted model on loopback: what reaches the session, and what the provider is sent.

use super::*;
use crate::{
    NativeConfig,
    fake::{Fake, Said},
    model::Models,
    run,
};
use serde_json::{Value, json};
use std::time::Duration;
use triplane_core::agent::{RunOutcome, Settings, Turn};
use triplane_endpoint::{Ending, Endpoint, Running};
use triplane_protocol::{
    AgentEvent, ErrorCode, Message, MessageId, Part, Role, RunId, Stop, Usage,
    ir::{Effort, Extra, KnownPart, Mode},
};

const SECRET: &str = "sk-very-secret-0";

struct World {
    endpoint: Running,
    dir: tempfile::TempDir,
    fake: Arc<Fake>,
    cancel: CancellationToken,
    effort: Option<Effort>,
    fallbacks: Vec<String>,
    idle: Duration,
}

impl World {
    async fn new() -> Self {
        Self {
            endpoint: Endpoint::bind(0).await.unwrap().start(),
            dir: tempfile::tempdir().unwrap(),
            fake: Arc::new(Fake::new()),
            cancel: CancellationToken::new(),
            effort: None,
            fallbacks: Vec::new(),
            idle: Duration::from_secs(20),
        }
    }

    fn provider(&self, protocol: Protocol) -> Arc<dyn Provider> {
        let mut config = ProviderConfig::new(protocol.name(), protocol);
        config.base_url = Some(self.endpoint.url());
        config.key = KeySource::Value(Key::new(SECRET).unwrap());
        config.retries = Retries { attempts: 2, base: Duration::from_millis(5) };
        config.idle = self.idle;
        Arc::new(NetProvider::new(config).unwrap())
    }

    fn turn(&self, protocol: Protocol, history: Vec<Message>) -> Turn {
        Turn {
            run_id: RunId::from("r1"),
            history: history.into_iter().map(Arc::new).collect(),
            settings: Settings { model: format!("{}/echo", protocol.name()), effort: self.effort, mode: Mode::Bypass },
            cwd: self.dir.path().to_owned(),
            max_turns: 9,
        }
    }

    async fn run(&self, protocol: Protocol, history: Vec<Message>) -> RunOutcome {
        let models = Models::default().with(self.provider(protocol));
        let config = Arc::new(NativeConfig { models, fallbacks: self.fallbacks.clone(), ..NativeConfig::default() });
        let turn = self.turn(protocol, history);
        let run = run::run(&config, crate::fake::shelf(), turn, Arc::clone(&self.fake) as _, self.cancel.clone());
        tokio::time::timeout(Duration::from_secs(30), run).await.expect("the run hangs")
    }

    async fn script(&self, protocol: Protocol, script: &str) -> RunOutcome {
        self.run(protocol, vec![user(script)]).await
    }

    /// The bodies that the provider was sent.
    fn bodies(&self) -> Vec<Value> {
        self.endpoint.record().requests().into_iter().map(|request| request.body).collect()
    }

    fn kinds(&self, kind: &str) -> usize {
        self.fake.events().iter().filter(|event| event.kind() == kind).count()
    }
}

fn user(text: &str) -> Message {
    Message::text(MessageId::from("u1"), Role::User, text, 1)
}

fn assistants(fake: &Fake) -> Vec<Message> {
    let said = fake.said().into_iter().filter_map(|said| match said {
        Said::Message(message) if message.role == Role::Assistant => Some(message),
        _ => None,
    });
    said.collect()
}

#[tokio::test]
async fn text_reasoning_and_usage_arrive() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let outcome = world.script(*protocol, "/think deep thought\nhello big world").await;
        assert_eq!(
            (outcome.stop, outcome.reply.as_str()),
            (Stop::Completed, "hello big world"),
            "{protocol:?}: {outcome:?}"
        );
        let deltas: Vec<_> = world
            .fake
            .events()
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::LlmDelta { text } => Some(text),
                AgentEvent::LlmThinkingDelta { text } => Some(format!("({text})")),
                _ => None,
            })
            .collect();
        assert_eq!(deltas, ["(deep thought)", "hello ", "big ", "world"], "{protocol:?}");
        // Anthropic's stream and Ollama do not tell which tokens were reasoning.
        let reasoning = if matches!(protocol, Protocol::Anthropic | Protocol::Ollama) { 0 } else { 2 };
        assert_eq!(outcome.usage, Usage { input: 6, output: 5, cached: 0, reasoning, cost: None }, "{protocol:?}");
        assert_eq!(world.fake.events().iter().filter(|event| event.kind() == "llm_retry").count(), 0);
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn calls_go_round_and_what_was_signed_goes_back() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        std::fs::write(world.dir.path().join("a.txt"), "alpha").unwrap();
        let script =
            "/think why\n/say look\n/tool read {\"path\":\"a.txt\"}\n/also read {\"path\":\"é.txt\"}\n/say end";
        let outcome = world.script(*protocol, script).await;
        assert_eq!(
            (outcome.stop, outcome.reply.as_str(), outcome.turns),
            (Stop::Completed, "end", 2),
            "{protocol:?}: {outcome:?}"
        );
        let calls: Vec<_> = world
            .fake
            .events()
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::ToolCallStart { name, input, .. } => Some((name, input)),
                _ => None,
            })
            .collect();
        let read = |path: &str| ("read".to_owned(), json!({ "path": path }));
        assert_eq!(calls, [read("a.txt"), read("é.txt")], "{protocol:?}");
        assert!(outcome.usage.cached > 0, "{protocol:?}: {:?}", outcome.usage);
        let first = assistants(&world.fake).remove(0);
        let bodies = world.bodies();
        assert_eq!(bodies.len(), 2, "{protocol:?}");
        assert!(bodies[0].to_string().contains("\"glob\""), "{protocol:?}: no tools were told");
        let second = bodies[1].to_string();
        assert!(second.contains("alpha"), "{protocol:?}: no result in {second}");
        let signed = matches!(protocol, Protocol::OpenAiResponses | Protocol::Anthropic | Protocol::Gemini);
        assert_eq!(second.contains("c2NyaXB0"), signed, "{protocol:?}: {second}\n{first:?}");
        assert_eq!(second.contains("reasoning_content"), *protocol == Protocol::OpenAi, "{protocol:?}");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn the_provider_is_told_who_it_is_and_how_hard_to_think() {
    let places = [
        (Protocol::OpenAi, "/messages/0/content", "/reasoning_effort", json!("high")),
        (Protocol::OpenAiResponses, "/instructions", "/reasoning/effort", json!("high")),
        (Protocol::Anthropic, "/system", "/max_tokens", json!(64000)),
        (
            Protocol::Gemini,
            "/systemInstruction/parts/0/text",
            "/generationConfig/thinkingConfig/thinkingBudget",
            json!(24000),
        ),
        (Protocol::Ollama, "/messages/0/content", "/think", json!("high")),
    ];
    for (protocol, system, effort, expected) in places {
        let mut world = World::new().await;
        world.effort = Some(Effort::High);
        std::fs::write(world.dir.path().join("AGENTS.md"), "use tabs here").unwrap();
        world.script(protocol, "hi").await;
        let body = world.bodies().remove(0);
        let told = body.pointer(system).and_then(Value::as_str).unwrap_or_default();
        assert!(told.contains("coding agent") && told.contains("use tabs here"), "{protocol:?}: {body}");
        assert_eq!(body.pointer(effort), Some(&expected), "{protocol:?}: {body}");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn stops_are_told_apart() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let length = world.script(*protocol, "/say half\n/fail max_tokens").await;
        assert_eq!((length.stop, length.reply.as_str()), (Stop::MaxTokens, "half"), "{protocol:?}");
        if *protocol != Protocol::Ollama {
            // It has no word for a refusal.
            let refused = world.script(*protocol, "/say no\n/fail refused").await;
            assert_eq!(refused.stop, Stop::Refused, "{protocol:?}");
        }
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let outcome = world.script(*protocol, "/fail 429 2\n/say at last").await;
        assert_eq!((outcome.stop, outcome.reply.as_str()), (Stop::Completed, "at last"), "{protocol:?}: {outcome:?}");
        let retries: Vec<_> = world
            .fake
            .events()
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::LlmRetry { attempt, delay_ms, message } => Some((attempt, delay_ms >= 20, message)),
                _ => None,
            })
            .collect();
        let text =
            format!("{}: 429 Too Many Requests: the model failed as its script says: overloaded", protocol.name());
        assert_eq!(retries, [(1, true, text.clone()), (2, true, text)]);
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_broken_stream_is_begun_anew() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let outcome = world.script(*protocol, "one two\n/tool ls\n/fail broken 1\n/say three").await;
        assert_eq!((outcome.stop, outcome.reply.as_str()), (Stop::Completed, "three"), "{protocol:?}: {outcome:?}");
        let outcome = world.script(*protocol, "one two\n/fail broken 1\n/say three").await;
        assert_eq!(
            (outcome.stop, outcome.reply.as_str()),
            (Stop::Completed, "one two\nthree"),
            "{protocol:?}: {outcome:?}"
        );
        assert_eq!(world.kinds("llm_retry"), 2, "{protocol:?}");
        world.endpoint.record().until(|request| request.ending == Some(Ending::Broken)).await;
        let always = world.script(*protocol, "one\n/fail broken").await;
        let error = always.error.expect("it never worked");
        assert_eq!(
            (always.stop, error.code, error.retryable),
            (Stop::Error, ErrorCode::Unavailable, true),
            "{protocol:?}"
        );
        assert_eq!(always.reply, "one\n", "{protocol:?}: what was said last is kept");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_refusal_is_told_with_status_and_text() {
    for protocol in Protocol::ALL {
        for (script, code, status) in [
            ("/fail 400", ErrorCode::Invalid, "400 Bad Request"),
            ("/fail 401", ErrorCode::Unauthorized, "401 Unauthorized"),
        ] {
            let world = World::new().await;
            let outcome = world.script(*protocol, script).await;
            let error = outcome.error.unwrap();
            assert_eq!((outcome.stop, error.code, error.retryable), (Stop::Error, code, false), "{protocol:?}");
            assert!(
                error.message.contains(status) && error.message.contains("as its script says"),
                "{}",
                error.message
            );
            assert_eq!(world.kinds("llm_retry"), 0, "{protocol:?}");
            world.endpoint.stop().await;
        }
    }
}

#[tokio::test]
async fn cancel_breaks_the_request_off() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let run = world.script(*protocol, "/say half\n/sleep 60000\n/say more");
        let (outcome, ()) = tokio::join!(run, async {
            world.fake.until(|said| matches!(said, Said::Event(AgentEvent::LlmDelta { .. }))).await;
            world.cancel.cancel();
        });
        assert_eq!((outcome.stop, outcome.reply.as_str()), (Stop::Aborted, "half"), "{protocol:?}");
        let gone = world.endpoint.record().until(|request| request.ending == Some(Ending::ClientGone));
        tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the request goes on");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn silence_ends_after_the_idle_time() {
    for protocol in Protocol::ALL {
        let mut world = World::new().await;
        world.idle = Duration::from_millis(150);
        let outcome = world.script(*protocol, "/say half\n/sleep 60000").await;
        let error = outcome.error.unwrap();
        assert_eq!((outcome.stop, error.code), (Stop::Error, ErrorCode::Timeout), "{protocol:?}: {error:?}");
        assert_eq!(world.kinds("llm_retry"), 2, "{protocol:?}");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_fallback_goes_on_when_nothing_else_does() {
    let mut world = World::new().await;
    world.fallbacks = vec!["openai/echo".into(), "nobody/x".into(), "script/echo".into()];
    let outcome = world.script(Protocol::OpenAi, "/fail 503 3\n/say x").await;
    // The scripted model in this process counts no attempts, so it fails as well.
    assert_eq!(outcome.stop, Stop::Error);
    let models: Vec<_> = world
        .fake
        .events()
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::LlmStart { model } => Some(model),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["openai/echo", "openai/echo", "openai/echo", "script/echo"]);
    let last = world.fake.events().into_iter().rev().find_map(|event| match event {
        AgentEvent::LlmRetry { message, .. } => Some(message),
        _ => None,
    });
    assert!(last.is_some_and(|message| message.ends_with("going on with script/echo")));
}

#[tokio::test]
async fn the_key_is_shown_nowhere() {
    let world = World::new().await;
    let provider = world.provider(Protocol::OpenAi);
    let outcome = world.script(Protocol::OpenAi, "/fail 401").await;
    assert!(!format!("{outcome:?} {:?}", world.fake.said()).contains(SECRET));
    assert!(!format!("{:?} {:?}", provider.names(), world.endpoint.record().requests()).contains(SECRET));
    let mut config = ProviderConfig::new("x", Protocol::OpenAi);
    config.key = KeySource::Value(Key::new(SECRET).unwrap());
    config.base_url = Some(format!("http://user:{SECRET}@127.0.0.1:1"));
    // Shown by whoever shows a config: the address is as secret as what is in it.
    let line = format!("{:?}", NetProvider::new(config.clone()).unwrap());
    assert!(!line.contains(SECRET), "{line}");
    let models = Models::default().with(Arc::new(NetProvider::new(config).unwrap()));
    let native = Arc::new(NativeConfig { models, ..NativeConfig::default() });
    assert!(!format!("{native:?}").contains(SECRET));
    let mut turn = world.turn(Protocol::OpenAi, vec![user("hi")]);
    turn.settings.model = "x/echo".into();
    world.cancel.cancel();
    let refused = run::run(&native, crate::fake::shelf(), turn, Arc::new(Fake::new()), CancellationToken::new());
    let told = tokio::time::timeout(Duration::from_secs(30), refused).await.unwrap();
    let text = format!("{told:?}");
    assert!(text.contains("cannot reach 127.0.0.1:1") && !text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_missing_key_is_said_before_anything_is_asked() {
    let mut config = ProviderConfig::new("openai", Protocol::OpenAi);
    config.key = KeySource::Missing { help: "set OPENAI_API_KEY".into() };
    let models = Models::default().with(Arc::new(NetProvider::new(config).unwrap()));
    let error = models.find("openai/gpt").err().unwrap();
    assert!(error.contains("set OPENAI_API_KEY"), "{error}");
    assert!(models.find("openai/g pt").is_err());
}

fn of(id: &str, role: Role, parts: Vec<Part>, model: Option<&str>) -> Message {
    let mut message = Message::of(MessageId::from(id), role, parts, 1);
    message.model = model.map(str::to_owned);
    message
}

/// A history that was begun elsewhere: a call without its result, a result without its call, somebody else's signature, an
/// input that is no object, a picture.
fn foreign() -> Vec<Message> {
    let call = |id: &str, input: Value| Part::call(id.into(), "read", input);
    let picture = Part::Known(KnownPart::Image {
        mime: "image/png".into(),
        data: Some("aGk=".into()),
        uri: None,
        extra: Extra::new(),
    });
    vec![
        of(
            "s",
            Role::System,
            vec![Part::boundary(triplane_protocol::ir::Boundary::Compact, Some("so far".into()))],
            None,
        ),
        of("u1", Role::User, vec![Part::text("look"), picture], None),
        of(
            "a1",
            Role::Assistant,
            vec![
                Part::thinking("hm", Some("foreign-signature".into())),
                call("c1", json!("{broken")),
                call("c2", json!({})),
            ],
            Some("elsewhere/x"),
        ),
        of("t1", Role::Tool, vec![Part::result("c1".into(), vec![Part::text("one")], false)], None),
        of("t2", Role::Tool, vec![Part::result("stray".into(), vec![Part::text("stray")], false)], None),
        of("u2", Role::User, vec![Part::text("go on")], None),
    ]
}

#[tokio::test]
async fn a_history_from_elsewhere_is_made_fit() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let outcome = world.run(*protocol, foreign()).await;
        assert_eq!((outcome.stop, outcome.reply.as_str()), (Stop::Completed, "go on"), "{protocol:?}: {outcome:?}");
        let body = world.bodies().remove(0).to_string();
        for there in ["so far", "aGk=", "no result was kept", "{broken"] {
            assert!(body.contains(there), "{protocol:?}: `{there}` is not in {body}");
        }
        for gone in ["foreign-signature", "stray"] {
            assert!(!body.contains(gone), "{protocol:?}: `{gone}` is in {body}");
        }
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_summary_is_asked_for_in_plain_text() {
    for protocol in Protocol::ALL {
        let world = World::new().await;
        let models = Models::default().with(world.provider(*protocol));
        let config = NativeConfig { models, ..NativeConfig::default() };
        let turn = world.turn(*protocol, foreign());
        let (text, usage) = run::summarize(&config, &turn, &world.cancel).await.unwrap();
        assert!(text.starts_with("summary of ") && usage.output == 4, "{protocol:?}: {text}");
        let body = world.bodies().remove(0).to_string();
        assert!(!body.contains("\"tools\"") && body.contains("[called read"), "{protocol:?}: {body}");
        world.endpoint.stop().await;
    }
}

#[tokio::test]
async fn a_name_that_ends_like_an_effort_stays_whole() {
    for protocol in [Protocol::OpenAi, Protocol::OpenAiResponses] {
        let world = World::new().await;
        let models = Models::default().with(world.provider(protocol));
        let mut turn = world.turn(protocol, vec![user("hi")]);
        turn.settings.model = format!("{}/qwen-max", protocol.name());
        let config = Arc::new(NativeConfig { models, ..NativeConfig::default() });
        run::run(&config, crate::fake::shelf(), turn, Arc::clone(&world.fake) as _, CancellationToken::new()).await;
        let body = world.bodies().remove(0);
        assert_eq!(body["model"], "qwen-max", "{body}");
        assert!(body["reasoning_effort"].is_null() && body["reasoning"]["effort"].is_null(), "{body}");
        world.endpoint.stop().await;
    }
}
