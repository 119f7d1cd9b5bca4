//! Servers under test: started in an empty directory, waited for, weighed and stopped.
//! Invariant: a server that was started is dead when its handle is dropped.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// The token of every server here; nothing that is measured is worth guarding.
pub const TOKEN: &str = "benchmark-token-of-no-worth";

/// Bytes that one read of a pipe takes at most.
const READ_BYTES: usize = 64 << 10;

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The `triplane` command.
    pub ours: PathBuf,
    /// The ceiling.
    pub bare: PathBuf,
}

impl Programs {
    /// Those beside this program, unless named. Errors: one that is not there, with how to build it.
    pub fn find(ours: Option<PathBuf>, bare: Option<PathBuf>) -> Result<Self> {
        let here = std::env::current_exe().context("finding this program")?;
        let beside = |name: &str| here.with_file_name(name);
        let found =
            Self { ours: ours.unwrap_or_else(|| beside("triplane")), bare: bare.unwrap_or_else(|| beside("bare")) };
        for program in [&found.ours, &found.bare] {
            if !program.is_file() {
                bail!("{} is not there; cargo build --release -p triplane -p triplane-bench", program.display());
            }
        }
        Ok(found)
    }
}

/// Which server, and how it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The ceiling.
    Bare,
    /// The ceiling, over WebSocket.
    BareWs,
    /// The plane, over HTTP.
    Http,
    /// The plane, over WebSocket.
    Ws,
}

/// A directory that a server works in, with its home and its sessions. Removed when dropped.
#[derive(Debug)]
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    pub fn new() -> Result<Self> {
        let dir = tempfile::tempdir().context("making a directory")?;
        for name in ["work", "home"] {
            fs::create_dir(dir.path().join(name))?;
        }
        Ok(Self { dir })
    }

    /// An empty one with settings for the plane, as they stand in `triplane.toml`.
    pub fn with(settings: &str) -> Result<Self> {
        let place = Self::new()?;
        fs::write(place.home().join("triplane.toml"), settings)?;
        Ok(place)
    }

    /// Where the server is started.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
    /// From its start to its ready line.
    pub ready: Duration,
}

#[derive(Deserialize)]
struct ReadyLine {
    url: Option<String>,
    port: Option<u16>,
}

impl Server {
    /// Starts one and waits for its ready line.
    pub fn start(programs: &Programs, kind: Kind, place: &Place) -> Result<Self> {
        let mut command = match kind {
            Kind::Bare => Command::new(&programs.bare),
            Kind::BareWs => {
                let mut command = Command::new(&programs.bare);
                command.arg("--ws");
                command
            }
            Kind::Http => ours(programs, &["--transport", "http", "--addr", "127.0.0.1:0"]),
            Kind::Ws => ours(programs, &["--transport", "ws", "--port", "0"]),
        };
        clean(&mut command);
        command.current_dir(place.work()).env("TRIPLANE_HOME", place.home()).env("TRIPLANE_TOKEN", TOKEN);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().with_context(|| format!("starting {kind:?}"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let ready = began.elapsed();
        // Owned from here on, so that every error below ends it.
        let mut server = Self { child, addr: SocketAddr::from(([127, 0, 0, 1], 0)), ready };
        read.with_context(|| format!("reading the ready line of {kind:?}"))?;
        if ready > START {
            bail!("{kind:?} took {ready:?} to start");
        }
        let told: ReadyLine = serde_json::from_str(&line).with_context(|| format!("{kind:?} said {line:?}"))?;
        match (told.url.as_deref().and_then(|url| url.strip_prefix("http://")), told.port) {
            (Some(addr), _) => server.addr = addr.trim_end_matches('/').parse()?,
            (None, Some(port)) => server.addr.set_port(port),
            (None, None) => bail!("{kind:?} said neither url nor port: {line:?}"),
        }
        Ok(server)
    }

    /// Resident memory, in KiB.
    pub fn rss_kib(&self) -> Result<f64> {
        let status = fs::read_to_string(self.proc("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim_end_matches("kB").trim().parse()?)
    }

    /// CPU time of its live threads, in nanoseconds. Threads that ended are not in it: keep the intervals short.
    pub fn cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.child.id())
    }

    fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string()).join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program whose stdin and stdout are pipes.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// Read, and not asked for yet.
    rest: Vec<u8>,
}

/// Lines that were read.
#[derive(Debug)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// How often a text is in them.
    pub fn count(&self, text: &[u8]) -> usize {
        memchr::memmem::find_iter(&self.0, text).count()
    }
}

impl Piped {
    /// The plane over stdio.
    pub fn ours(programs: &Programs, place: &Place) -> Result<Self> {
        Self::start(ours(programs, &["--transport", "stdio"]), place)
    }

    /// The ceiling, with these arguments.
    pub fn bare(programs: &Programs, args: &[&str], place: &Place) -> Result<Self> {
        let mut command = Command::new(&programs.bare);
        command.args(args);
        Self::start(command, place)
    }

    fn start(mut command: Command, place: &Place) -> Result<Self> {
        clean(&mut command);
        command.current_dir(place.work()).env("TRIPLANE_HOME", place.home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else { bail!("a child without pipes") };
        Ok(Self { child, stdin, stdout, rest: Vec::with_capacity(READ_BYTES) })
    }

    /// Writes all of it.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdin.write_all(bytes).context("writing to a server")
    }

    /// Reads so many lines and lets go of them.
    pub fn read_lines(&mut self, mut count: usize) -> Result<()> {
        loop {
            let here = memchr::memchr_iter(b'\n', &self.rest).count();
            if here >= count {
                // Nothing more was asked for, so nothing more is there.
                self.rest.clear();
                return Ok(());
            }
            count -= here;
            self.rest.clear();
            self.fill()?;
        }
    }

    /// Reads up to a line that is the last.
    pub fn read_until(&mut self, last: impl Fn(&[u8]) -> bool) -> Result<Lines> {
        let mut start = 0;
        let mut scanned = 0;
        loop {
            while let Some(at) = memchr::memchr(b'\n', self.rest.get(scanned..).unwrap_or_default()) {
                let end = scanned + at;
                let ended = last(self.rest.get(start..end).unwrap_or_default());
                (start, scanned) = (end + 1, end + 1);
                if ended {
                    let rest = self.rest.split_off(start);
                    return Ok(Lines(std::mem::replace(&mut self.rest, rest)));
                }
            }
            scanned = self.rest.len();
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        let length = self.rest.len();
        self.rest.resize(length + READ_BYTES, 0);
        let read = self.stdout.read(self.rest.get_mut(length..).unwrap_or_default())?;
        self.rest.truncate(length + read);
        if read == 0 { bail!("the server ended") } else { Ok(()) }
    }

    /// The result of a call. Errors: the server's.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.write(format!("{request}\n").as_bytes())?;
        let Lines(text) = self.read_until(|line| line.starts_with(br#"{"jsonrpc":"2.0","id":1"#))?;
        let line = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut reply: Value = serde_json::from_slice(line)?;
        match reply.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("{method}: {reply}"),
        }
    }

    /// CPU time of its live threads, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.child.id())
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of the live threads of a process, in nanoseconds.
fn cpu_ns(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))? {
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        sum += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).context("an odd schedstat")?;
    }
    Ok(sum)
}

fn ours(programs: &Programs, args: &[&str]) -> Command {
    let mut command = Command::new(&programs.ours);
    command.arg("serve").args(args);
    command
}

/// Settings of whoever runs the benchmark are not measured.
fn clean(command: &mut Command) {
    let ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("TRIPLANE_")
            || name.starts_with("SEPIA_")
            || name == "RUST_LOG"
            || name == "LARIK_SERVER_TOKEN"
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
}

/// Load average of the last minute.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}
