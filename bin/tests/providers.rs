//! The whole path as a person has it: the endpoint in one process, a prompt over a provider's protocol in another.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use serde_json::Value;
use support::{Fixture, Served, run};

/// The endpoint, and its address.
async fn script_model(fixture: &Fixture) -> (Served, String) {
    let mut served = Served::start(fixture.command(&["script-model", "--port", "0"]));
    let ready: Value = served.line().await;
    let url = ready["url"].as_str().unwrap().to_owned();
    assert_eq!(url, format!("http://127.0.0.1:{}", ready["port"]));
    (served, url)
}

#[tokio::test]
async fn a_prompt_goes_over_every_protocol() {
    let fixture = Fixture::new();
    std::fs::write(fixture.work().join("a.txt"), "alpha").unwrap();
    let (endpoint, url) = script_model(&fixture).await;
    for (model, address, key) in [
        ("openai/echo", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("openai-responses/echo", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("anthropic/echo", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("gemini/echo", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        ("ollama/echo", "OLLAMA_HOST", "NO_KEY_IS_NEEDED"),
    ] {
        let mut command =
            fixture.command(&["prompt", "--model", model, "/tool read {\"path\":\"a.txt\"}\n/say done here"]);
        command.env(address, &url).env(key, "sk-very-secret-1").env("TRIPLANE_LOG", "trace");
        let ended = run(command, "").await;
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "done here"), "{model}: {ended:?}");
        assert!(!ended.stderr.contains("sk-very-secret-1"), "{model}: {}", ended.stderr);
    }
    endpoint.signal(rustix::process::Signal::TERM);
    let ended = endpoint.end().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
}

#[tokio::test]
async fn a_provider_of_the_homes_file_is_asked_with_its_key_file() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let (endpoint, url) = script_model(&fixture).await;
    fixture.write("home/key", "sk-very-secret-2\n");
    let key = fixture.work().join("../home/key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let table =
        format!("[providers.mine]\nprotocol = 'openai'\nbase_url = '{url}/v1'\nkey_file = 'key'\nmodels = ['echo']\n");
    fixture.write("home/triplane.toml", &table);
    let loose = fixture.run(&["prompt", "/say hi"]).await;
    assert_eq!(loose.code, Some(1), "{loose:?}");
    assert!(loose.stderr.contains("chmod 600") && !loose.stderr.contains("secret"), "{}", loose.stderr);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ended = fixture.run(&["prompt", "/say hi"]).await;
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "hi"), "{ended:?}");
    fixture.write("home/triplane.toml", &format!("{table}[models]\nfallbacks = ['nobody/x']\n"));
    let wrong = fixture.run(&["prompt", "/say hi"]).await;
    assert!(wrong.code == Some(2) && wrong.stderr.contains("fallbacks: `nobody/x`"), "{wrong:?}");
    endpoint.signal(rustix::process::Signal::TERM);
    endpoint.end().await;
}

#[tokio::test]
async fn commands_do_not_see_the_key() {
    let fixture = Fixture::new();
    let script = "/tool bash {\"command\":\"env\"}";
    let mut command = fixture.command(&["prompt", "--mode", "bypass", "--json", script]);
    command.env("OPENAI_API_KEY", "sk-very-secret-3").env("SEEN", "seen-by-all").env("PATH", "/usr/bin:/bin");
    let ended = run(command, "").await;
    assert!(ended.stdout.contains("seen-by-all") && !ended.stdout.contains("sk-very-secret-3"), "{ended:?}");
}

#[tokio::test]
async fn no_key_is_said_when_the_model_is_named() {
    let fixture = Fixture::new();
    let ended = fixture.run(&["prompt", "--model", "anthropic/x", "hi"]).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("ANTHROPIC_API_KEY"), "{ended:?}");
}

#[tokio::test]
async fn a_conversation_near_its_models_limit_is_compacted_and_goes_on() {
    let fixture = Fixture::new();
    let (endpoint, url) = script_model(&fixture).await;
    fixture.write(
        "home/triplane.toml",
        &format!("[providers.mine]\nprotocol = 'openai'\nbase_url = '{url}/v1'\nmodels = ['echo']\ncontext = 600\n"),
    );
    let long = format!("/say {}", "word ".repeat(300));
    let first = fixture.run(&["prompt", "--json", &long]).await;
    let event: Value = serde_json::from_str(first.stdout.lines().next().unwrap()).unwrap();
    assert!(!first.stdout.contains("\"type\":\"compaction\""), "{first:?}");
    let second = fixture.run(&["prompt", "--session", event["session"].as_str().unwrap(), "--json", "/say on"]).await;
    let kinds: Vec<Value> = second.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(kinds.iter().any(|event| event["type"] == "compaction"), "{second:?}");
    let last = kinds.iter().find(|event| event["type"] == "final").unwrap();
    assert_eq!((&last["reply"], &last["stopped_reason"]), (&"on".into(), &"completed".into()));
    endpoint.signal(rustix::process::Signal::TERM);
    endpoint.end().await;
}

#[tokio::test]
async fn what_was_said_before_a_retry_is_not_in_the_output() {
    let fixture = Fixture::new();
    let (endpoint, url) = script_model(&fixture).await;
    let mut command = fixture.command(&["prompt", "--model", "openai/echo", "/say once\n/fail broken 1\n/say more"]);
    command.env("OPENAI_BASE_URL", &url).env("OPENAI_API_KEY", "sk-very-secret-4");
    let ended = run(command, "").await;
    assert_eq!((ended.code, ended.stdout.matches("once").count()), (Some(0), 1), "{ended:?}");
    assert!(ended.stderr.contains("retry 1"), "{ended:?}");
    endpoint.signal(rustix::process::Signal::TERM);
    endpoint.end().await;
}
