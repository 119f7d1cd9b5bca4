//! The runner as a user starts it: against this program, against a server in another language, and against what is no server.
//! Without `python3` the foreign server is skipped, and says why.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_triplane");
/// Long enough that no answer holds it by chance.
const TOKEN: &str = "a-token-for-tests-only";

fn conformance(args: &[&str]) -> Output {
    conformance_with(args, &[])
}

fn conformance_with(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("conformance").args(args).env_remove("TRIPLANE_TOKEN").envs(env.iter().copied());
    command.stdin(Stdio::null()).output().expect("the program runs")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|err| panic!("{err}: {text}; {}", String::from_utf8_lossy(&output.stderr)))
}

/// What is said when there is no server, and how soon.
fn given_up(args: &[&str], said: &str) {
    let began = Instant::now();
    let output = conformance(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(stderr.contains(said), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{args:?} took {:?}", began.elapsed());
}

#[test]
fn what_is_no_server_is_given_up_on_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    given_up(&["--http", &format!("http://{closed}")], "no connection to");
    given_up(&["--ws", &format!("ws://{closed}")], "no connection to");
    given_up(&["--stdio", "cat"], "only sends back what it is sent");
    given_up(&["--stdio", "false"], "it ended with exit status: 1");
    given_up(&["--stdio", "/no/such/program"], "does not start");
    given_up(&["--stdio", "echo hello"], "does not speak JSON-RPC");
    let echo = echo();
    given_up(&["--http", &format!("http://{echo}")], "GET /v1/health");
    given_up(&["--ws", &format!("ws://{echo}")], "no WebSocket at");
}

#[test]
fn a_wrong_token_is_no_verdict() {
    let server = Served::start("http");
    given_up(&["--http", &server.url, "--token", "another-token"], "--token");
}

/// Sends back what it is sent, until the test ends.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut stream, mut buffer) = (stream, [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// A server of our own that listens.
struct Served {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start(transport: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--transport", transport, "--token", TOKEN]).current_dir(dir.path());
        if transport == "http" {
            command.args(["--addr", "127.0.0.1:0"]);
        }
        command.env("TRIPLANE_HOME", dir.path().join("home")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let url = match ready["url"].as_str() {
            Some(url) => url.to_owned(),
            None => format!("ws://127.0.0.1:{}", ready["port"]),
        };
        Self { child, url, _dir: dir }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Some clauses of each wire, over an address and over a command: all held, and what cannot be judged from outside is counted.
#[test]
fn our_own_server_holds_over_every_wire() {
    for (transport, flag, only) in [("ws", "--ws", "L03,L14,L23"), ("http", "--http", "H04,H18,H19")] {
        let server = Served::start(transport);
        let output = conformance(&[flag, &server.url, "--token", TOKEN, "--only", only, "--report", "json", "--quiet"]);
        held(&output, &only.split(',').collect::<Vec<_>>());
    }
    let command = format!("'{PROGRAM}' serve --transport stdio");
    let output = conformance(&["--stdio", &command, "--only", "S02,S15,S25", "--report", "json", "--quiet"]);
    held(&output, &["S02", "S15", "S25"]);
    let output =
        conformance(&["--program", PROGRAM, "--wire", "stdio", "--only", "S03", "--report", "json", "--quiet"]);
    held(&output, &["S03"]);
}

fn held(output: &Output, clauses: &[&str]) {
    let report = json(output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{:#} {stderr}", report["cases"]);
    assert_eq!(report["no_script"], Value::Null, "{stderr}");
    assert_eq!((&report["counts"]["broke"], &report["counts"]["harness"]), (&0.into(), &0.into()));
    for id in clauses {
        let clause = report["clauses"].as_array().unwrap().iter().find(|clause| clause["id"] == *id);
        assert_eq!(
            clause.map(|clause| clause["state"].as_str().unwrap()),
            Some("held"),
            "{id}: {:#}",
            report["clauses"]
        );
    }
    assert!(output.stderr.is_empty(), "--quiet: {stderr}");
}

#[test]
fn what_is_said_to_be_lacking_is_skipped_and_counted() {
    let command = format!("'{PROGRAM}' serve --transport stdio");
    let args = ["--stdio", &command, "--only", "S18,S10", "--lacks", "projects,S10", "--report", "json", "--quiet"];
    let output = conformance(&args);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["counts"]["held"], 0, "{report:#}");
    let reasons: Vec<&str> =
        report["cases"].as_array().unwrap().iter().filter_map(|case| case["why"].as_str()).collect();
    assert!(reasons.contains(&"the server lacks S10"), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.starts_with("the server lacks `projects.")), "{reasons:?}");
}

/// A server in Python, its model being the one that the runner serves: it holds what it serves, and is caught when it breaks.
#[test]
fn a_foreign_server_is_judged() {
    if let Err(why) = Command::new("python3").args(["-c", "import asyncio"]).output() {
        println!("conformance: the foreign server is skipped: python3: {why}");
        return;
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance/peers/foreign/server.py");
    let command = format!("python3 '{}'", script.display());
    let args = ["--stdio", &command, "--only", "C02,S02,S14,S27", "--report", "json", "--quiet"];
    let output = conformance(&args);
    held(&output, &["C02", "S02", "S14", "S27"]);
    let lacking = json(&output)["lacks"].as_array().unwrap().clone();
    assert!(lacking.contains(&"sessions.attach".into()), "{lacking:?}");
    for (breaks, clause) in [("answers-notifications", "C02"), ("forgets-final", "S22")] {
        let output = conformance_with(&args, &[("FOREIGN_BREAKS", breaks)]);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(1), "{breaks}");
        let mut broken = report["cases"].as_array().unwrap().iter().filter(|case| case["verdict"] == "broke");
        assert!(broken.any(|case| case["clause"] == clause), "{breaks}: {:#}", report["clauses"]);
    }
}

#[test]
fn reports_go_where_they_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("junit.xml");
    let command = format!("'{PROGRAM}' serve --transport stdio");
    let file = out.to_str().unwrap();
    let args = ["--stdio", &command, "--only", "S02", "--report", "junit", "--out", file];
    let output = conformance(&args);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("OPENAI_BASE_URL=http://127.0.0.1:"));
    let xml = std::fs::read_to_string(&out).unwrap();
    assert!(xml.contains("<testcase classname=\"S02\" name=\"s02-manifest::stdio\""), "{xml}");
    let text = conformance(&["--stdio", &command, "--only", "S02", "--quiet"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\nS02     held ") && !text.contains('\u{1b}'), "{text}");
}
