//! Servers under test: started in an empty directory, waited for, weighed and stopped.
//! Invariant: a server that was started is dead when its handle is dropped.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The token of every server here; nothing that is measured is worth guarding.
pub const TOKEN: &str = "benchmark-token-of-no-worth";

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
        let mut sum = 0;
        for task in fs::read_dir(self.proc("task"))? {
            let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
            sum += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).context("an odd schedstat")?;
        }
        Ok(sum)
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
