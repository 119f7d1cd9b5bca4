//! Other implementations of WebSocket drive the real binary, so that our own client library does not judge itself.
//!
//! `TRIPLANE_PEERS_PYTHON` names a Python with PyPI `websockets`, `NODE_PATH` a directory with npm `ws`; `.ci/websocket` makes both.
//! Without them a peer is skipped, and says why. Clauses: those that the scripts in `peers/` print.

#![allow(clippy::print_stdout, reason = "a test without the usual harness tells why it skips")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    time::Duration,
};

/// Longest time for a whole script.
const DEADLINE: Duration = Duration::from_secs(60);
/// What every server here takes; it guards nothing.
const TOKEN: &str = "a-token-for-tests-only";

/// A script, what runs it, how to see whether that is there, and how many checks it has.
struct Peer {
    name: &'static str,
    program: OsString,
    probe: [&'static str; 2],
    script: &'static str,
    checks: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let python = std::env::var_os("TRIPLANE_PEERS_PYTHON").unwrap_or_else(|| "python3".into());
    let peers = [
        Peer {
            name: "lich::python-websockets",
            program: python,
            probe: ["-c", "import websockets.asyncio.client"],
            script: "lich_websockets.py",
            checks: 14,
        },
        Peer {
            name: "lich::node-ws",
            program: "node".into(),
            probe: ["-e", "require('ws')"],
            script: "lich_ws.mjs",
            checks: 10,
        },
    ];
    let trials = peers.into_iter().map(|peer| Trial::ignorable_test(peer.name, move || peer.run())).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

impl Peer {
    fn run(self) -> Result<Completion, Failed> {
        let Self { program, probe, script, checks, .. } = self;
        let probed = Command::new(&program).args(probe).stdin(Stdio::null()).output();
        let why = match probed {
            Ok(out) if out.status.success() => None,
            Ok(out) => Some(last_line(&out.stderr)),
            Err(err) => Some(err.to_string()),
        };
        if let Some(why) = why {
            let why = format!("`{} {}`: {why}", program.display(), probe.join(" "));
            // Also where the harness does not show it.
            println!("peers: {script} is skipped: {why}");
            return Ok(Completion::ignored_with(why));
        }
        let served = Served::start()?;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script);
        let (code, text) = finish(&program, [path.as_os_str(), served.port.as_ref(), TOKEN.as_ref()])?;
        let held = text.lines().filter(|line| line.starts_with("ok ")).count();
        if code == Some(0) && held == checks {
            return Ok(Completion::Completed);
        }
        Err(Failed::from(format!("{held} of {checks} checks held, exit code {code:?}:\n{text}")))
    }
}

/// Runs a script to its end, or kills it at the deadline: its exit code, and all that it said.
fn finish<'a>(program: &OsStr, args: impl IntoIterator<Item = &'a OsStr>) -> Result<(Option<i32>, String), Failed> {
    let mut child =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut out, mut err) = (child.stdout.take().ok_or("no stdout")?, child.stderr.take().ok_or("no stderr")?);
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        let _ = tell.send(text);
    });
    let text = told.recv_timeout(DEADLINE);
    if text.is_err() {
        child.kill()?;
    }
    let code = child.wait()?.code();
    let text = text.unwrap_or_else(|_| format!("not done within {DEADLINE:?}\n"));
    Ok((code, text + &errors.join().unwrap_or_default()))
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let error = text.lines().find(|line| line.starts_with("Error:")).or_else(|| text.trim_end().lines().last());
    error.unwrap_or_default().to_owned()
}

/// A server in an empty directory; killed when it is dropped.
struct Served {
    child: Child,
    port: String,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start() -> Result<Self, Failed> {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(program()?);
        command.args(["serve", "--transport", "ws"]).current_dir(dir.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", dir.path());
        command.env("TRIPLANE_HOME", dir.path().join("home")).env("TRIPLANE_TOKEN", TOKEN);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = child.stdout.take();
        let mut served = Self { child, port: String::new(), _dir: dir };
        let mut line = String::new();
        BufReader::new(stdout.ok_or("no stdout")?).read_line(&mut line)?;
        let ready: serde_json::Value = serde_json::from_str(&line)?;
        served.port = ready.get("port").ok_or_else(|| format!("no port in {line:?}"))?.to_string();
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test: named by `TRIPLANE_BIN`, or built here.
fn program() -> Result<PathBuf, Failed> {
    if let Some(path) = std::env::var_os("TRIPLANE_BIN") {
        return Ok(std::path::absolute(path)?);
    }
    let out = Command::new(env!("CARGO"))
        .args(["build", "-p", "triplane", "--message-format=json-render-diagnostics"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let built = String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "triplane" && message["target"]["kind"][0] == "bin")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    Ok(built.ok_or_else(|| format!("cargo build: {}", String::from_utf8_lossy(&out.stderr)))?)
}
