//! The shim, as a real process: this program starts itself as one, and as a parent that is killed.
//! The last cases drive the whole agent in a plane through it. Faults: CP-02, CP-03, CP-04, CP-09, CP-10, CP-13.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs,
    reason = "helpers of tests are tests"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use triplane_core::{
    Plane, PlaneConfig,
    limits::Limits,
    plane::{Created, HoldPolicy, Prompt, WhenBusy},
    store::Durability,
};
use triplane_native::{NativeAgent, NativeConfig, shim};
use triplane_protocol::{AgentEvent, event::SettingsPatch, ir::Mode};

/// Makes this program a parent that starts a guard and waits to be killed.
const PARENT: &str = "__parent";

/// Makes this program a server with one session, which runs one script and says what its tools say.
const SERVER: &str = "__server";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().and_then(|a| a.into_string().ok()).as_deref() {
        Some(shim::ARG) => return shim::run_shim(args),
        Some(PARENT) => {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let mut child = child.arg(shim::ARG).args(args).stdin(Stdio::piped()).spawn().unwrap();
            // Held while it waits; `wait` alone would close it.
            let _lifeline = child.stdin.take();
            let _ = child.wait();
            return ExitCode::SUCCESS;
        }
        Some(SERVER) => return server(args.next().unwrap(), &args.next().unwrap().to_string_lossy()),
        // A filter or a flag of the test runner.
        Some(_) | None => {}
    }
    let cases: [(&str, fn()); 12] = [
        ("a guard ends as its program does", ends_alike),
        ("what a program leaves in its group ends with it", leftovers),
        ("a closed stdin ends the whole tree", closed_stdin),
        ("a killed parent takes the whole tree along", killed_parent),
        ("a relay hands stdin on and its end too", relay_hands_on),
        ("a relay ends a tree that reads nothing", relay_deaf),
        ("exec dies with its parent", exec_dies),
        ("exec refuses a parent that is gone", exec_refuses),
        ("a wrong call is told", wrong_call),
        ("a command sees no secret of the server", no_secret),
        ("a confined program writes only where it may, and has no network", confined),
        ("a killed server takes its commands along", killed_server),
    ];
    for (name, case) in cases {
        case();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn this(mode: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(mode);
    command
}

fn guard(script: &str) -> Command {
    let mut command = this(shim::ARG);
    command.args([shim::GUARD, "/bin/sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// How it ended by itself: its stdin stays open meanwhile, since the guard ends the tree when it closes.
fn ended(mut command: Command) -> std::process::ExitStatus {
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let status = child.wait().unwrap();
    drop(stdin);
    status
}

/// A number of seconds that nobody else sleeps.
fn mark(n: u32) -> String {
    format!("4{n}.{}", std::process::id())
}

fn living(mark: &str) -> usize {
    let wanted = format!("sleep\0{mark}\0").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()).filter(|line| *line == wanted).count()
}

fn within(seconds: u64, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        assert!(Instant::now() < end, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the first line that a child says.
fn line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line
}

/// Four sleepers: in the group, deaf to the polite signal, in a session of its own, and there without our environment.
fn tree(mark: &str) -> String {
    format!(
        "sleep {mark} & (trap '' TERM; exec sleep {mark}) & setsid sleep {mark} & setsid env -i /bin/sh -c 'sleep {mark} & exit' & \
         while [ $(pgrep -fxc 'sleep {mark}') -lt 4 ]; do sleep 0.02; done; echo up; wait; sleep {mark}"
    )
}

fn ends_alike() {
    assert_eq!(ended(guard("exit 7")).code(), Some(7));
    assert_eq!(ended(guard("exit 0")).code(), Some(0));
    assert_eq!(ended(guard("kill -TERM $$")).signal(), Some(15));
    assert_eq!(ended(guard("kill -KILL $$")).signal(), Some(9));
    let output = this(shim::ARG).args([shim::GUARD, "/no/such"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = output.unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such cannot be started"));
    // The program has no stdin of ours, and sees its own arguments only.
    let mut child = guard("cat; echo \"$0 $#\"").spawn().unwrap();
    // Held until it has ended by itself; `wait` alone would close it.
    let lifeline = child.stdin.take();
    assert_eq!(line(&mut child), "/bin/sh 0\n");
    assert!(child.wait().unwrap().success());
    drop(lifeline);
}

fn leftovers() {
    let mark = mark(1);
    assert!(ended(guard(&format!("sleep {mark} & exit 0"))).success());
    within(5, "the leftover ends", || living(&mark) == 0);
}

fn closed_stdin() {
    let mark = mark(2);
    let mut child = guard(&tree(&mark)).spawn().unwrap();
    assert_eq!(line(&mut child), "up\n");
    assert_eq!(living(&mark), 4);
    drop(child.stdin.take());
    let began = Instant::now();
    within(6, "the guard ends", || child.try_wait().unwrap().is_some());
    assert!(began.elapsed() >= Duration::from_millis(1900), "the deaf one had its time");
    assert_eq!(living(&mark), 0);
}

fn relay(script: &str) -> Child {
    let mut command = this(shim::ARG);
    command.args([shim::RELAY, "/bin/sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn relay_hands_on() {
    let mut child = relay("cat; exit 5");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    assert_eq!(line(&mut child), "one\n");
    let much = "x".repeat(1 << 20);
    let writer = std::thread::spawn(move || stdin.write_all(much.as_bytes()).unwrap());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    writer.join().unwrap();
    // What was on its way when our end closed still arrives, and the program ends as it likes.
    assert_eq!((said.len(), child.wait().unwrap().code()), (1 << 20, Some(5)));
}

fn relay_deaf() {
    let mark = mark(6);
    let mut child = relay(&format!("trap '' TERM; echo up; sleep {mark} & sleep {mark}"));
    assert_eq!(line(&mut child), "up\n");
    let mut stdin = child.stdin.take().unwrap();
    // More than the program's pipe holds, less than that and ours: the relay stands, and we do not.
    stdin.write_all(&[b'x'; 100_000]).unwrap();
    within(5, "both run", || living(&mark) == 2);
    drop(stdin);
    within(8, "the tree ends", || living(&mark) == 0);
    child.wait().unwrap();
}

fn killed_parent() {
    let mark = mark(3);
    let mut parent = this(PARENT);
    parent.args([shim::GUARD, "/bin/sh", "-c", &tree(&mark)]).stdout(Stdio::piped());
    let mut parent = parent.spawn().unwrap();
    assert_eq!(line(&mut parent), "up\n");
    assert_eq!(living(&mark), 4);
    kill_process(Pid::from_child(&parent), Signal::KILL).unwrap();
    parent.wait().unwrap();
    within(6, "the tree ends", || living(&mark) == 0);
}

fn exec_dies() {
    let mark = mark(4);
    // The shell is the parent, and its own death is what counts.
    let exe = std::env::current_exe().unwrap();
    let script = format!("\"$0\" {} {} $$ sleep {mark} & wait", shim::ARG, shim::EXEC);
    let mut parent = Command::new("/bin/sh").args(["-c", &script]).arg(exe).process_group(0).spawn().unwrap();
    within(5, "the program runs", || living(&mark) == 1);
    kill_process(Pid::from_child(&parent), Signal::KILL).unwrap();
    parent.wait().unwrap();
    within(5, "the program ends", || living(&mark) == 0);
}

fn exec_refuses() {
    let mut child = this(shim::ARG);
    let mut child =
        child.args([shim::EXEC, "1", "echo", "no"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("", Some(127)));
}

fn wrong_call() {
    for args in [&[][..], &["nope"], &["guard"], &["exec"], &["exec", "x", "y"]] {
        let status = this(shim::ARG).args(args).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(127), "{args:?}");
    }
}

fn server(root: OsString, script: &str) -> ExitCode {
    let root = std::path::PathBuf::from(root);
    let config = PlaneConfig {
        cwd: root.clone(),
        session_dir: root.join("sessions"),
        home: root.join("home"),
        durability: Durability::Flush,
        agent: None,
        defaults: SettingsPatch { mode: Some(Mode::Bypass), ..SettingsPatch::default() },
        limits: Limits::default(),
        overlay: true,
        abort_on_disconnect: false,
    };
    let shim = std::env::current_exe().ok();
    let agent = NativeAgent::new(NativeConfig { shim, ..NativeConfig::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let plane = Plane::open(config, vec![Arc::new(agent)]).unwrap();
        let hold = plane.hold(HoldPolicy { name: "test", ..HoldPolicy::default() });
        let id = plane.create(&hold, Created::default()).await.unwrap().row.id;
        let mut events = plane.subscribe(&id).await.unwrap();
        plane.prompt(&id, Prompt::text(script, WhenBusy::Refuse)).await.unwrap();
        loop {
            for entry in events.next(16).await.entries {
                match &entry.event {
                    AgentEvent::ToolCallOutput { text, .. } => print!("{text}"),
                    AgentEvent::Status { busy: false, .. } => return,
                    _ => {}
                }
            }
            std::io::stdout().flush().unwrap();
        }
    });
    ExitCode::SUCCESS
}

fn bash(command: &str) -> String {
    format!("/tool bash {}", serde_json::json!({ "command": command }))
}

fn no_secret() {
    let fds = "ls /proc/self/fd | xargs";
    let dir = tempfile::tempdir().unwrap();
    let mut server = this(SERVER);
    server.arg(dir.path()).arg(bash(&format!("env; {fds}")));
    server.env("TRIPLANE_TOKEN", "s3cret").env("LARIK_SERVER_TOKEN", "s3cret").env("KEPT", "yes");
    let output = server.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("KEPT=yes") && text.contains("TRIPLANE_RUN="), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    // No more open files than a child of this test has: none of the server's.
    let bare = Command::new("/bin/sh").args(["-c", fds]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text.lines().last(), String::from_utf8_lossy(&bare.stdout).lines().last());
}

fn killed_server() {
    let mark = mark(5);
    let dir = tempfile::tempdir().unwrap();
    let mut server = this(SERVER);
    let mut server = server.arg(dir.path()).arg(bash(&tree(&mark))).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(line(&mut server), "up\n");
    assert_eq!(living(&mark), 4);
    kill_process(Pid::from_child(&server), Signal::KILL).unwrap();
    server.wait().unwrap();
    within(6, "the tree ends", || living(&mark) == 0);
}

/// What a confined program can do, told word by word.
fn confined() {
    if let Err(why) = triplane_native::sandbox::available() {
        println!("skipped: no sandbox here: {why}");
        return;
    }
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kept = outside.path().join("kept");
    std::fs::write(&kept, "kept").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "cd {inside}; can() {{ if (eval \"$2\") 2>/dev/null >/dev/null; then echo $1 yes; else echo $1 no; fi; }}
         can read 'cat {kept}'
         can write 'echo x >made && mv made moved && rm moved'
         can write-outside 'echo x >{outside}/made'
         can append-outside 'echo x >>{kept}'
         can truncate-outside 'truncate -s 0 {kept}'
         can remove-outside 'rm {kept}'
         can move-outside 'echo x >here && mv here {outside}/there'
         can null 'echo x >/dev/null'
         can child 'sh -c \"echo x >{outside}/by-child\"'
         can connect 'exec 3<>/dev/tcp/127.0.0.1/{port}'
         can signal 'kill -0 {me}'
         can environ 'cat /proc/{me}/environ'",
        inside = inside.path().display(),
        outside = outside.path().display(),
        kept = kept.display(),
        me = std::process::id(),
    );
    let told = |network: bool| {
        let spec = format!("{{\"writable\":[\"{}\"],\"network\":{network}}}", inside.path().display());
        let mut command = this(shim::ARG);
        command.args(["boxed", &spec, "/bin/bash", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _lifeline = child.stdin.take();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        text.lines().map(|line| line.replace(' ', ":")).collect::<Vec<_>>().join(" ")
    };
    let files = "read:yes write:yes write-outside:no append-outside:no truncate-outside:no remove-outside:no \
        move-outside:no null:yes child:no";
    assert_eq!(told(false), format!("{files} connect:no signal:no environ:no"));
    assert_eq!(told(true), format!("{files} connect:yes signal:no environ:no"));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);

    // A spec that cannot be read starts nothing.
    let mut command = this(shim::ARG);
    command.args(["boxed", "{}", "/bin/sh", "-c", "exit 0"]).stderr(Stdio::null());
    assert_eq!(ended(command).code(), Some(127));
}
