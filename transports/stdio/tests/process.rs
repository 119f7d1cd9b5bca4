//! The wire on a real process's stdin and stdout: pipes, sockets and files, their flags, and the ends that a parent makes.
//! Run without the usual harness, which would write to stdout: this file is the server too, when it is told to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test without its harness")]

mod support;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use triplane_stdio::StdioConfig;

const SERVER: &str = "TRIPLANE_TEST_STDIO_SERVER";
const MANIFEST: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"manifest\"}\n";

fn main() {
    if let Some(dir) = std::env::var_os(SERVER) {
        return server(dir.into());
    }
    let tests: [(&str, fn()); 6] = [
        ("pipes", pipes),
        ("sockets", sockets),
        ("files", files),
        ("closed_stdout", closed_stdout),
        ("flags_stay", flags_stay),
        ("null_input", null_input),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().map(trial).collect()).exit();
}

/// Serves on one thread, as the command does; exits with 0.
fn server(dir: std::path::PathBuf) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plane = support::plane(&dir, |_| {}).0;
        let config = StdioConfig { grace: Duration::from_millis(200), ..StdioConfig::new("1") };
        triplane_stdio::serve(plane, config, Default::default()).await.unwrap();
    });
    runtime.shutdown_background();
}

struct Server {
    child: Child,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(stdin: Stdio, stdout: Stdio) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .env(SERVER, dir.path())
            .stdin(stdin)
            .stdout(stdout)
            .spawn()
            .unwrap();
        Self { child, _dir: dir }
    }

    /// Waits for an orderly end.
    fn ends(mut self) {
        let deadline = Instant::now() + support::DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn manifest(from: &mut impl BufRead) {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    let reply: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(reply["result"]["name"], "triplane");
}

fn pipes() {
    let mut server = Server::start(Stdio::piped(), Stdio::piped());
    let (mut stdin, stdout) = (server.child.stdin.take().unwrap(), server.child.stdout.take().unwrap());
    let mut stdout = BufReader::new(stdout);
    for _ in 0..3 {
        stdin.write_all(MANIFEST.as_bytes()).unwrap();
        manifest(&mut stdout);
    }
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    server.ends();
}

fn sockets() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stdout = OwnedFd::from(theirs.try_clone().unwrap());
    let server = Server::start(OwnedFd::from(theirs).into(), stdout.into());
    let mut reader = BufReader::new(ours.try_clone().unwrap());
    for _ in 0..3 {
        (&ours).write_all(MANIFEST.as_bytes()).unwrap();
        manifest(&mut reader);
    }
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    server.ends();
}

fn files() {
    let (mut input, mut output) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    input.write_all(MANIFEST.repeat(3).as_bytes()).unwrap();
    input.rewind().unwrap();
    Server::start(input.into(), output.try_clone().unwrap().into()).ends();
    output.rewind().unwrap();
    let mut reader = BufReader::new(&output);
    (0..3).for_each(|_| manifest(&mut reader));
}

fn closed_stdout() {
    let mut server = Server::start(Stdio::piped(), Stdio::piped());
    let mut stdin = server.child.stdin.take().unwrap();
    drop(server.child.stdout.take());
    stdin.write_all(MANIFEST.as_bytes()).unwrap();
    // Stdin stays open: only the closed stdout ends it.
    server.ends();
    drop(stdin);
}

fn flags_stay() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let shared = reader.try_clone().unwrap();
    let (output, out_end) = std::io::pipe().unwrap();
    let shared_out = out_end.try_clone().unwrap();
    let server = Server::start(reader.into(), out_end.into());
    writer.write_all(MANIFEST.as_bytes()).unwrap();
    let mut output = BufReader::new(output);
    manifest(&mut output);
    for fd in [OwnedFd::from(shared), OwnedFd::from(shared_out)] {
        let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
    drop(writer);
    server.ends();
}

fn null_input() {
    let null = File::open("/dev/null").unwrap();
    Server::start(null.into(), Stdio::null()).ends();
}
