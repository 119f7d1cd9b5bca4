//! The server's process, seen from in front: its arguments, ready lines, signals and its end.

use super::{Shared, acts, lines, tcp};
use crate::act::{Act, Here, Mem, Start};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};
use triplane_conformance::Wire;

/// Runs `program` with `args`, broken on `wire` as `name` says; its exit status.
pub async fn run(name: &str, wire: Wire, program: PathBuf, args: Vec<String>) -> anyhow::Result<i32> {
    let acts = acts(name)?;
    let fronted = acts.iter().find_map(|act| if let Act::Front(wire) = act { Some(*wire) } else { None });
    let fronted = fronted.unwrap_or(wire);
    let mut start = prepare(args)?;
    for act in acts {
        if let Act::Start(hook) = act {
            hook(&mut start);
        }
    }
    let asked = ask_for_another_port(&mut start.args, fronted);
    let shared = Arc::new(Shared {
        acts,
        here: start.here.clone(),
        mem: Mutex::new(Mem { here: start.here, token: String::new(), ending: false, notes: HashMap::new() }),
        server: AtomicU32::new(0),
    });
    let stdio = serves(&start.args, Wire::Stdio);
    let mut command = Command::new(program);
    command.args(&start.args).envs(start.env);
    let front_stdio = stdio && fronted == Wire::Stdio;
    command.stdin(if front_stdio { Stdio::piped() } else { Stdio::inherit() });
    command.stdout(if stdio && !front_stdio { Stdio::inherit() } else { Stdio::piped() });
    command.stderr(if stdio { Stdio::piped() } else { Stdio::inherit() });
    let mut child = command.spawn().context("the server does not start")?;
    let pid = child.id().context("the server has no process")?;
    shared.server.store(pid, std::sync::atomic::Ordering::Relaxed);
    // Should this process be killed, its pipe to the shell ends, and the shell kills the server.
    let mut guard = Command::new("/bin/sh")
        .args(["-c", "read x; kill -9 \"$0\"", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if acts.iter().any(|act| matches!(act, Act::Child)) {
        let null = || Stdio::null();
        Command::new("sleep").arg("300").process_group(0).stdin(null()).stdout(null()).stderr(null()).spawn()?;
    }
    let mut tasks = Vec::new();
    let ready = Ready { shared: shared.clone(), fronted, asked, told: acts };
    let elsewhere = acts.iter().any(|act| matches!(act, Act::ReadyElsewhere));
    if front_stdio && let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) {
        tasks.extend(lines::front(shared.clone(), stdin, stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        tasks.push(if elsewhere {
            tokio::spawn(ready.follow(stderr, tokio::io::stderr(), tokio::io::stdout()))
        } else {
            tokio::spawn(ready.follow(stderr, tokio::io::stderr(), tokio::io::stderr()))
        });
    } else if let Some(stdout) = child.stdout.take() {
        tasks.push(tokio::spawn(ready.follow(stdout, tokio::io::stdout(), tokio::io::stdout())));
    }
    let code = wait(&mut child, pid, &shared).await?;
    for task in tasks {
        // What the server wrote last still has to get through.
        let _ = tokio::time::timeout(Duration::from_millis(500), task).await;
    }
    let _ = guard.kill().await;
    Ok(acts.iter().find_map(|act| if let Act::Exits(code) = act { Some(*code) } else { None }).unwrap_or(code))
}

fn prepare(args: Vec<String>) -> anyhow::Result<Start> {
    let value = |flag: &str| args.iter().position(|arg| arg == flag).and_then(|at| args.get(at + 1)).cloned();
    let work = std::env::current_dir()?;
    let sessions = value("--session-dir").map_or_else(|| work.join(".triplane").join("sessions"), PathBuf::from);
    let user = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".triplane");
    let home = std::env::var_os("TRIPLANE_HOME").map_or_else(user, PathBuf::from);
    Ok(Start { here: Here { work, sessions, home }, args, env: Vec::new() })
}

fn serves(args: &[String], wire: Wire) -> bool {
    args.iter().any(|arg| arg == wire.flag())
}

/// Where the client wants the wire; the server itself is sent to a free port.
fn ask_for_another_port(args: &mut [String], wire: Wire) -> Option<u16> {
    let flag = match wire {
        Wire::Ws => "--port",
        Wire::Http => "--addr",
        Wire::Stdio => return None,
    };
    let at = args.iter().position(|arg| arg == flag)? + 1;
    let value = args.get_mut(at)?;
    let (host, port) = value.rsplit_once(':').unwrap_or(("", value.as_str()));
    let port: u16 = port.parse().ok()?;
    *value = if host.is_empty() { "0".to_owned() } else { format!("{host}:0") };
    Some(port)
}

/// Waits for the server's end; signals are passed on, as the acts want them.
async fn wait(child: &mut Child, pid: u32, shared: &Shared) -> anyhow::Result<i32> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut nth = 0;
    loop {
        let number = tokio::select! {
            status = child.wait() => return Ok(status?.code().unwrap_or(137)),
            _ = term.recv() => Signal::TERM.as_raw(),
            _ = int.recv() => Signal::INT.as_raw(),
        };
        nth += 1;
        shared.mem().ending = true;
        let hook = shared.acts.iter().find_map(|act| if let Act::Signals(hook) = act { Some(hook) } else { None });
        let sent = hook.map_or(Some(number), |hook| hook(nth, number));
        if let (Some(sent), Some(pid)) =
            (sent.and_then(Signal::from_named_raw), i32::try_from(pid).ok().and_then(Pid::from_raw))
        {
            let _ = kill_process(pid, sent);
        }
    }
}

/// Ends the server, and this process with it.
pub(super) fn die(shared: &Shared) -> ! {
    let pid = shared.server.load(std::sync::atomic::Ordering::Relaxed);
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    std::process::exit(1)
}

/// Reads ready lines, listens in the server's stead, and tells where.
struct Ready {
    shared: Arc<Shared>,
    fronted: Wire,
    asked: Option<u16>,
    told: &'static [Act],
}

impl Ready {
    async fn follow(
        self,
        from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        mut ready_to: impl AsyncWrite + Unpin,
    ) {
        let mut lines = BufReader::new(from).split(b'\n');
        while let Ok(Some(mut line)) = lines.next_segment().await {
            line.push(b'\n');
            let Some(wire) = ready_wire(&line) else {
                let _ = to.write_all(&line).await;
                let _ = to.flush().await;
                continue;
            };
            let Some(line) = self.ready(wire, &line).await else { continue };
            let _ = ready_to.write_all(line.as_bytes()).await;
            let _ = ready_to.flush().await;
        }
    }

    /// What is told instead of a ready line.
    async fn ready(&self, wire: Wire, line: &[u8]) -> Option<String> {
        let args: Vec<String> = std::env::args().collect();
        if !args.iter().any(|arg| arg.split(',').any(|one| one == wire.flag())) {
            // A wire that nobody but a hook asked for.
            return None;
        }
        let mut value: Value = serde_json::from_slice(line).ok()?;
        if wire == self.fronted {
            self.listen(&mut value).await?;
        }
        let mut text = String::new();
        for act in self.told {
            match act {
                Act::Ready(hook) => hook(&mut value),
                Act::Prints(more) => text = format!("{more}\n"),
                Act::Logs(hook) => {
                    let said = hook(value.get("token").and_then(Value::as_str).unwrap_or_default());
                    let _ = tokio::io::stderr().write_all(format!("{said}\n").as_bytes()).await;
                }
                _ => {}
            }
        }
        Some(format!("{value}\n{text}"))
    }

    async fn listen(&self, value: &mut Value) -> Option<()> {
        let real: SocketAddr = match value.get("port").and_then(Value::as_u64) {
            Some(port) => ([127, 0, 0, 1], u16::try_from(port).ok()?).into(),
            None => value.get("url")?.as_str()?.strip_prefix("http://")?.trim_end_matches('/').parse().ok()?,
        };
        let everywhere = self.told.iter().any(|act| matches!(act, Act::Everywhere));
        let ip = if everywhere { [0, 0, 0, 0].into() } else { real.ip() };
        let listener = TcpListener::bind((ip, self.asked.unwrap_or(0))).await.ok()?;
        let port = listener.local_addr().ok()?.port();
        self.shared.mem().token = value.get("token")?.as_str()?.to_owned();
        if value.get("port").is_some() {
            value.as_object_mut()?.insert("port".into(), json!(port));
        } else {
            value.as_object_mut()?.insert("url".into(), json!(format!("http://{}", SocketAddr::new(real.ip(), port))));
        }
        let reach = if real.ip().is_unspecified() { ([127, 0, 0, 1], real.port()).into() } else { real };
        tokio::spawn(tcp::accept(self.shared.clone(), listener, reach));
        Some(())
    }
}

fn ready_wire(line: &[u8]) -> Option<Wire> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value.get("token")?;
    match (value.get("port"), value.get("url")) {
        (Some(_), _) => Some(Wire::Ws),
        (None, Some(_)) => Some(Wire::Http),
        (None, None) => None,
    }
}
