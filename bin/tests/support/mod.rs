//! The command as a process, in a directory of its own, with a clean environment and a deadline on everything.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, reason = "test code; not every test uses every part")]

use std::{path::Path, process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Nothing here takes longer on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The token that servers here are given.
pub(crate) const TOKEN: &str = "a-token-for-tests-only";

/// A directory with a `work` and a `home`.
pub(crate) struct Fixture {
    dir: TempDir,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) {
        std::fs::write(self.dir.path().join(path), text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_triplane"));
        command.args(args).env_clear().current_dir(self.work()).kill_on_drop(true);
        command.env("TRIPLANE_HOME", self.dir.path().join("home")).env("TRIPLANE_TOKEN", TOKEN);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        run(self.command(args), "").await
    }
}

/// Runs `command` to its end, with `stdin` if it is not empty.
pub(crate) async fn run(mut command: Command, stdin: &str) -> Ended {
    if !stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(stdin.as_bytes()).await.unwrap();
    }
    let output = timeout(DEADLINE, child.wait_with_output()).await.expect("the command ends in time").unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A server that runs.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) stdout: Lines<BufReader<ChildStdout>>,
}

impl Served {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdout }
    }

    /// The next line of stdout, as JSON.
    pub(crate) async fn line(&mut self) -> serde_json::Value {
        let line = timeout(DEADLINE, self.stdout.next_line()).await.expect("a line in time").unwrap();
        serde_json::from_str(&line.expect("a line before the end")).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The rest of stdout, the exit code, and all of stderr.
    pub(crate) async fn end(mut self) -> Ended {
        let status = timeout(DEADLINE, self.child.wait()).await.expect("it ends in time").unwrap();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        timeout(DEADLINE, self.stdout.get_mut().read_to_string(&mut stdout)).await.unwrap().unwrap();
        timeout(DEADLINE, self.child.stderr.take().unwrap().read_to_string(&mut stderr)).await.unwrap().unwrap();
        Ended { code: status.code(), stdout, stderr }
    }
}
