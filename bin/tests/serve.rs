//! A server's life as its parent sees it: ready lines, signals, exit codes. Clauses: C01, C07, C08, C09, H01, L21.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use rustix::process::Signal;
use support::{DEADLINE, Fixture, Served, TOKEN, run};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const HTTP: &[&str] = &["serve", "--transport", "http", "--addr", "127.0.0.1:0"];

/// One request on a connection of its own; the whole answer.
async fn ask(address: &str, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    timeout(DEADLINE, exchange).await.expect("an answer in time")
}

fn health() -> String {
    "GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".to_owned()
}

#[tokio::test]
async fn each_tcp_wire_says_once_that_it_is_ready_and_a_signal_ends_all() {
    for signal in [Signal::TERM, Signal::INT] {
        let fixture = Fixture::new();
        let command =
            fixture.command(&["serve", "--transport", "ws,http", "--addr", "127.0.0.1:0", "--transport", "ws"]);
        let mut served = Served::start(command);
        let lines = [served.line().await, served.line().await];
        let url = lines.iter().find_map(|line| line.get("url")?.as_str()).expect("a line of the HTTP wire");
        let port = lines.iter().find_map(|line| line.get("port")?.as_u64()).expect("a line of the WebSocket wire");
        assert!(lines.iter().all(|line| line["token"] == TOKEN && line.as_object().unwrap().len() == 2), "{lines:?}");
        let answer = ask(url.strip_prefix("http://").unwrap(), &health()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer =
            ask(&format!("127.0.0.1:{port}"), &health().replace("/v1/health", &format!("/?token={TOKEN}"))).await;
        assert!(answer.starts_with("HTTP/1.1 426"), "{answer}");
        served.signal(signal);
        let ended = served.end().await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
        assert!(!ended.stderr.contains(TOKEN), "{ended:?}");
    }
}

#[tokio::test]
async fn without_a_token_a_random_one_is_made() {
    let fixture = Fixture::new();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut command = fixture.command(HTTP);
        command.env_remove("TRIPLANE_TOKEN");
        let token = Served::start(command).line().await["token"].as_str().unwrap().to_owned();
        assert!(token.len() >= 43, "256 bits need more than {token}");
        tokens.push(token);
    }
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn the_token_may_come_by_its_older_name_and_a_flag_goes_before_both() {
    let fixture = Fixture::new();
    let token = async |flags: &[&str], ours: Option<&str>| {
        let mut command = fixture.command(&[HTTP, flags].concat());
        command.env_remove("TRIPLANE_TOKEN").env("LARIK_SERVER_TOKEN", "the-older-name-of-it");
        if let Some(ours) = ours {
            command.env("TRIPLANE_TOKEN", ours);
        }
        Served::start(command).line().await["token"].as_str().unwrap().to_owned()
    };
    assert_eq!(token(&[], None).await, "the-older-name-of-it");
    assert_eq!(token(&[], Some("ours-before-the-older")).await, "ours-before-the-older");
    assert_eq!(token(&["--token", "a-flag-before-them-all"], Some("ours")).await, "a-flag-before-them-all");
}

#[tokio::test]
async fn a_port_that_is_taken_is_a_failure_before_anything_is_announced() {
    let fixture = Fixture::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let args = ["serve", "--transport", "http,ws", "--addr", "127.0.0.1:0", "--port", &port];
    let ended = run(fixture.command(&args), "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{ended:?}");
}

#[tokio::test]
async fn a_parent_that_is_gone_ends_the_server() {
    let fixture = Fixture::new();
    let mut command = fixture.command(HTTP);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let ended = run(command, "").await;
    assert_ne!(ended.code, None, "{ended:?}");
    assert!(ended.stderr.contains("ready line"), "{ended:?}");
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[tokio::test]
async fn settings_files_set_up_a_server() {
    let fixture = Fixture::new();
    fixture.write("home/triplane.toml", "transport = 'http'\naddr = '127.0.0.1:0'\ntoken = 'from-the-home-file'\n");
    let mut command = fixture.command(&["serve"]);
    command.env_remove("TRIPLANE_TOKEN");
    assert_eq!(Served::start(command).line().await["token"], "from-the-home-file");
}

/// A request of the stdio wire as a line.
fn line(id: u32, method: &str, params: serde_json::Value) -> String {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

#[tokio::test]
async fn with_stdio_among_the_wires_stdout_is_its_own_and_its_end_ends_all() {
    let fixture = Fixture::new();
    let command = fixture.command(&["serve", "--transport", "stdio,http", "--addr", "127.0.0.1:0"]);
    let ended = run(command, &line(1, "manifest", serde_json::json!({}))).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let manifest: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(manifest["result"]["listeners"], serde_json::json!([ready]));
    assert_eq!(ready["token"], TOKEN);
}

#[tokio::test]
async fn lifecycle_settings_come_back_in_the_manifest() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["serve", "--transport", "stdio", "--idle-ttl-ms", "0"]);
    command.env("SEPIA_HISTORY_LIMIT", "7").env("SEPIA_SWEEP_MS", "8").env("TRIPLANE_SWEEP_MS", "9");
    let ended = run(command, &line(1, "manifest", serde_json::json!({}))).await;
    let manifest: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let expected = serde_json::json!({ "idleTtlMs": null, "sweepMs": 9, "historyLimit": 7, "probeIdleMs": 60000 });
    assert_eq!(manifest["result"]["config"], expected, "{ended:?}");
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_a_run() {
    let fixture = Fixture::new();
    let mut command = fixture.command(&["serve", "--transport", "stdio"]);
    command.stdin(std::process::Stdio::piped()).env("TRIPLANE_LOG", "triplane=info");
    let mut served = Served::start(command);
    let mut stdin = served.child.stdin.take().unwrap();
    let cwd = fixture.work();
    stdin.write_all(line(1, "sessions.create", serde_json::json!({ "cwd": cwd })).as_bytes()).await.unwrap();
    let id = served.line().await["result"]["id"].clone();
    stdin.write_all(line(2, "sessions.subscribe", serde_json::json!({ "id": id })).as_bytes()).await.unwrap();
    served.line().await;
    let parts = serde_json::json!([{ "type": "text", "text": "/sleep 60000" }]);
    stdin
        .write_all(line(3, "sessions.prompt", serde_json::json!({ "id": id, "parts": parts })).as_bytes())
        .await
        .unwrap();
    while !served.line().await.to_string().contains("runStarted") {}
    served.signal(Signal::TERM);
    let mut stderr = served.child.stderr.take().unwrap();
    let told = async {
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("shutting down") {
            stderr.read_buf(&mut text).await.unwrap();
        }
    };
    timeout(DEADLINE, told).await.expect("the first signal is told");
    served.signal(Signal::TERM);
    let status = timeout(DEADLINE, served.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
}
