//! What a person gets who asks wrongly: exit code 2 and one line that helps, on stderr.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use support::{Fixture, run};

async fn check(fixture: &Fixture, args: &[&str], expected: &str) {
    let ended = fixture.run(args).await;
    assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
    assert_eq!(ended.stdout, "", "{args:?}");
    assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
}

#[tokio::test]
async fn wrong_flags_are_named() {
    let fixture = Fixture::new();
    check(&fixture, &["serve"], "give --transport ws, http or stdio").await;
    check(&fixture, &["serve", "--transport", "http", "--addr", "nowhere"], "--addr nowhere").await;
    check(&fixture, &["serve", "--transport", "ws", "--port", "70000"], "--port").await;
    check(&fixture, &["serve", "--transport", "http", "--addr", "0.0.0.0:0"], "--allow-remote").await;
    check(&fixture, &["serve", "--transport", "ws", "--host", "192.0.2.1"], "--allow-remote").await;
    check(&fixture, &["serve", "--transport", "http", "--allow-origin", "app"], "`app`").await;
    check(&fixture, &["serv"], "serve").await;
}

#[tokio::test]
async fn a_settings_file_is_wrong_with_its_line() {
    let fixture = Fixture::new();
    fixture.write("work/triplane.toml", "model = 'a/b'\nadr = 'x'\n");
    check(
        &fixture,
        &["serve", "--transport", "http"],
        "triplane.toml:2: unknown key `adr`; the nearest known one is `addr`",
    )
    .await;
    check(&fixture, &["prompt", "x"], "triplane.toml:2").await;
}

#[tokio::test]
async fn the_environment_is_a_layer_and_its_errors_name_the_flag() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["serve"]);
    command.env("TRIPLANE_TRANSPORT", "http,ws").env("TRIPLANE_ADDR", "nowhere");
    let ended = run(command, "").await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--addr nowhere"), "{ended:?}");
}

#[tokio::test]
async fn help_is_a_result() {
    let ended = Fixture::new().run(&["serve", "--help"]).await;
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("Examples:") && ended.stdout.contains("TRIPLANE_ADDR"), "{}", ended.stdout);
    assert!(!ended.stdout.contains(support::TOKEN), "the help shows the token");
    assert!(!ended.stdout.contains('\u{1b}'), "colour without a terminal");
}
