//! Each tool, in a directory of its own, as the loop would run it.

use super::*;
use crate::fake::{Fake, Said};
use serde_json::json;
use std::{path::Path, time::Duration};
use triplane_protocol::AgentEvent;

struct Room {
    _dir: tempfile::TempDir,
    root: PathBuf,
    fake: Arc<Fake>,
    desk: Desk,
}

fn room() -> Room {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("w");
    std::fs::create_dir(&root).unwrap();
    let fake = Arc::new(Fake::new());
    let host = Arc::clone(&fake) as Arc<dyn Host>;
    let desk = Desk {
        cwd: root.clone(),
        host,
        cancel: CancellationToken::new(),
        config: Arc::default(),
        tools: Arc::default(),
        shelf: crate::fake::shelf(),
    };
    Room { _dir: dir, root, fake, desk }
}

impl Room {
    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    async fn call(&self, name: &str, input: Value) -> Outcome {
        match self.desk.tools.prepare(&self.desk, &CallId::from("c1"), name, &input).await {
            Ok(prepared) => tokio::time::timeout(Duration::from_secs(20), prepared.work).await.expect("the tool hangs"),
            Err(text) => Outcome::failed(text),
        }
    }

    /// The text of a call that works.
    async fn ok(&self, name: &str, input: Value) -> String {
        let outcome = self.call(name, input).await;
        assert!(!outcome.error, "{}", outcome.text);
        outcome.text
    }

    /// The text of a call that fails.
    async fn err(&self, name: &str, input: Value) -> String {
        let outcome = self.call(name, input).await;
        assert!(outcome.error, "{}", outcome.text);
        outcome.text
    }
}

#[test]
fn every_tool_has_a_schema_that_tells_its_fields() {
    for spec in ToolSet::default().specs() {
        let schema = &spec.schema;
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        for (field, of) in schema["properties"].as_object().unwrap() {
            assert!(of["description"].is_string(), "{}.{field}", spec.name);
        }
    }
    let names: Vec<String> = ToolSet::default().specs().iter().map(|s| s.name.to_string()).collect();
    let all = ["read", "write", "edit", "ls", "glob", "grep", "bash", "bash_output", "bash_stop", "todo", "fetch"];
    assert_eq!(names, all[..names.len()]);
}

#[tokio::test]
async fn read_gives_lines_as_they_are() {
    let room = room();
    room.file("f", "a\r\nb\nc").file("empty", "").file("bin", b"a\0b").file("latin", b"caf\xe9\n");
    let read = |input| room.ok("read", input);
    assert_eq!(read(json!({"path": "f"})).await, "a\r\nb\nc");
    assert_eq!(read(json!({"path": "f", "offset": 2, "limit": 1})).await, "b\n[… more: go on with offset 3 …]");
    assert_eq!(read(json!({"path": "f", "offset": 3})).await, "c");
    assert_eq!(read(json!({"path": "f", "limit": 3})).await, "a\r\nb\nc");
    assert_eq!(read(json!({"path": "empty"})).await, "(the file is empty)");
    assert_eq!(read(json!({"path": "latin"})).await, "caf\u{fffd}\n");
    let err = |input| room.err("read", input);
    assert_eq!(err(json!({"path": "f", "offset": 4})).await, "offset: f has only 3 lines");
    assert_eq!(err(json!({"path": "f", "offset": 0})).await, "offset: lines are counted from 1");
    assert_eq!(err(json!({"path": "bin"})).await, "bin is a binary file");
    assert!(err(json!({"path": "."})).await.ends_with("is a directory; use `ls`"));
    assert!(err(json!({"path": "none"})).await.ends_with("none does not exist"));
}

#[tokio::test]
async fn read_is_bounded_on_a_character() {
    let room = room();
    room.file("long", format!("x{}", "😀".repeat(100_000))).file("many", "y\n".repeat(5000));
    let text = room.ok("read", json!({"path": "long"})).await;
    assert!(text.len() <= read::READ_BYTES + 100 && !text.contains('\u{fffd}'));
    assert!(text.ends_with("[… cut in line 1: 65536 bytes are the most of one read …]"));
    let text = room.ok("read", json!({"path": "many"})).await;
    assert!(text.ends_with("y\n[… more: go on with offset 2001 …]"));
}

#[tokio::test]
async fn write_takes_a_checkpoint_first_and_tells_the_change() {
    let room = room();
    let outcome = room.call("write", json!({"path": "d/new", "content": "a\n"})).await;
    assert_eq!(outcome.text, "made d/new (2 bytes)");
    assert!(outcome.diff.unwrap().ends_with("+a\n"));
    let outcome = room.call("write", json!({"path": "d/new", "content": "b\n"})).await;
    assert_eq!(outcome.diff.unwrap(), "--- a/d/new\n+++ b/d/new\n@@ -1 +1 @@\n-a\n+b\n");
    let path = room.root.join("d/new");
    let said = room.fake.said();
    assert!(
        matches!(&said[..], [Said::Before(a), Said::Done(b), Said::Before(_), Said::Done(_)] if *a == path && *b == path)
    );
    assert!(room.err("write", json!({"path": "d", "content": ""})).await.ends_with("is a directory"));
}

#[tokio::test]
async fn edit_replaces_what_is_named_once() {
    let room = room();
    room.file("f", "one\ntwo\none\n").file("crlf", "a\r\nb\r\n").file("bin", b"\xff");
    let err = |input| room.err("edit", input);
    assert!(err(json!({"path": "f", "old": "one", "new": "1"})).await.starts_with("old: occurs 2 times in f"));
    assert!(err(json!({"path": "f", "old": "one  two", "new": "1"})).await.contains("other white space"));
    assert!(err(json!({"path": "f", "old": "zzz", "new": "1"})).await.contains("it is not there"));
    assert!(err(json!({"path": "crlf", "old": "a\nb", "new": "1"})).await.contains("\\r\\n"));
    assert!(err(json!({"path": "f", "old": "", "new": "1"})).await.starts_with("old: must not be empty"));
    assert!(err(json!({"path": "f", "old": "x", "new": "x"})).await.starts_with("new: is the same"));
    assert!(err(json!({"path": "none", "old": "x", "new": "y"})).await.contains("does not exist; use `write`"));
    assert!(err(json!({"path": "bin", "old": "x", "new": "y"})).await.contains("not UTF-8"));
    assert!(room.fake.said().is_empty(), "an edit that does not fit takes no checkpoint");
    let outcome = room.call("edit", json!({"path": "f", "old": "two", "new": "2"})).await;
    assert_eq!((outcome.text.as_str(), outcome.error), ("changed f", false));
    assert_eq!(outcome.diff.unwrap(), "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n one\n");
    assert_eq!(
        room.ok("edit", json!({"path": "f", "old": "one", "new": "1", "all": true})).await,
        "changed f in 2 places"
    );
    assert_eq!(std::fs::read_to_string(room.root.join("f")).unwrap(), "1\n2\n1\n");
    assert!(matches!(&room.fake.said()[..2], [Said::Before(_), Said::Done(_)]));
}

#[tokio::test]
async fn ls_glob_and_grep_look_around() {
    let room = room();
    room.file("src/a.rs", "fn main() {}\n// x\n").file("src/deep/b.rs", "fn main2() {}\n").file("c.md", "x fn main\n");
    room.file(".gitignore", "target\n").file("target/d.rs", "fn main\n").file(".git/e.rs", "fn main\n");
    room.file("bin.rs", b"fn main\0\n").file(".hidden/f.rs", "x\n").file("long.txt", "z".repeat(1_000_000));
    std::os::unix::fs::symlink("/etc", room.root.join("away")).unwrap();
    assert_eq!(
        room.ok("ls", json!({})).await,
        ".git/\n.gitignore\n.hidden/\naway@\nbin.rs\nc.md\nlong.txt\nsrc/\ntarget/\n"
    );
    assert_eq!(room.ok("ls", json!({"path": "src"})).await, "a.rs\ndeep/\n");
    assert!(room.err("ls", json!({"path": "c.md"})).await.ends_with("is a file; use `read`"));
    let all = ".hidden/f.rs\nbin.rs\nsrc/a.rs\nsrc/deep/b.rs\n";
    assert_eq!(room.ok("glob", json!({"pattern": "*.rs"})).await, all);
    assert_eq!(room.ok("glob", json!({"pattern": "**/*.rs"})).await, all);
    assert_eq!(room.ok("glob", json!({"pattern": "src/*.rs"})).await, "src/a.rs\n");
    assert_eq!(room.ok("glob", json!({"pattern": "*.{rs,md}", "path": "src"})).await, "a.rs\ndeep/b.rs\n");
    assert_eq!(room.ok("glob", json!({"pattern": "nope"})).await, "no file fits");
    assert!(room.err("glob", json!({"pattern": "[z"})).await.starts_with("pattern: "));
    assert_eq!(room.ok("grep", json!({"pattern": "fn main\\b"})).await, "c.md:1:x fn main\nsrc/a.rs:1:fn main() {}\n");
    assert_eq!(room.ok("grep", json!({"pattern": "fn", "glob": "*.md"})).await, "c.md:1:x fn main\n");
    assert_eq!(room.ok("grep", json!({"pattern": "^//", "path": "src/a.rs"})).await, "src/a.rs:2:// x\n");
    assert_eq!(room.ok("grep", json!({"pattern": "qqq"})).await, "no line fits");
    assert!(room.err("grep", json!({"pattern": "("})).await.starts_with("pattern: "));
    assert!(room.ok("grep", json!({"pattern": "zzz"})).await.len() < 500);
}

#[tokio::test]
async fn searches_are_bounded() {
    let room = room();
    for n in 0..40 {
        room.file(&format!("f{n:02}"), "hit\n".repeat(100));
    }
    let text = room.ok("grep", json!({"pattern": "hit"})).await;
    assert_eq!(text.lines().count(), 501);
    assert!(text.ends_with("narrower pattern, path or glob …]"));
    for n in 0..1100 {
        room.file(&format!("many/g{n:04}"), "");
    }
    let text = room.ok("glob", json!({"pattern": "g*"})).await;
    assert_eq!(text.lines().count(), 1001);
    room.desk.cancel.cancel();
    assert_eq!(room.err("grep", json!({"pattern": "hit"})).await, CANCELLED);
}

#[tokio::test]
async fn what_is_asked_tells_where_a_path_leads() {
    let room = room();
    room.file("f", "");
    std::os::unix::fs::symlink("/etc", room.root.join("away")).unwrap();
    let rows = [
        ("read", json!({"path": "f"}), ToolKind::Read, false, "f"),
        ("read", json!({"path": room.root.join("f")}), ToolKind::Read, false, "f"),
        ("read", json!({"path": "away/passwd"}), ToolKind::Read, true, "/etc/passwd"),
        ("write", json!({"path": "new/x", "content": ""}), ToolKind::Edit, false, "new/x"),
        ("write", json!({"path": "away/x", "content": ""}), ToolKind::Edit, true, "/etc/x"),
        ("edit", json!({"path": "/etc/passwd", "old": "a", "new": "b"}), ToolKind::Edit, true, "/etc/passwd"),
        ("ls", json!({}), ToolKind::Read, false, "."),
        ("ls", json!({"path": "away"}), ToolKind::Read, true, "/etc"),
        ("glob", json!({"pattern": "*", "path": "/"}), ToolKind::Read, true, "/"),
        ("grep", json!({"pattern": "x", "path": "away"}), ToolKind::Read, true, "/etc"),
        ("bash", json!({"command": "cat /etc/passwd"}), ToolKind::Execute, false, "cat /etc/passwd"),
    ];
    for (name, input, kind, outside, subject) in rows {
        let asked = room.desk.tools.prepare(&room.desk, &CallId::from("c"), name, &input).await.unwrap();
        assert_eq!((asked.kind, asked.outside, asked.subject.as_str()), (kind, outside, subject), "{name} {input}");
    }
}

/// Children of this test's own that carry its mark in their command line.
fn living(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.windows(mark.len()).any(|w| w == mark.as_bytes())).count()
}

/// A number of seconds that no other test sleeps.
fn unique(n: u32) -> String {
    format!("3{n}.{}", std::process::id())
}

async fn gone(mark: &str) {
    for _ in 0..100 {
        if living(mark) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} of {mark} live", living(mark));
}

#[tokio::test]
async fn bash_tells_output_and_exit() {
    let room = room();
    let bash = |command: &str| json!({"command": command});
    assert_eq!(room.ok("bash", bash("echo a; echo b >&2; echo c")).await, "a\nb\nc\n");
    assert_eq!(room.ok("bash", bash("true")).await, "(no output)");
    assert_eq!(room.err("bash", bash("echo x; exit 3")).await, "x\n[exit code 3]");
    assert_eq!(room.err("bash", bash("kill -9 $$")).await, "ended by signal 9");
    assert_eq!(room.ok("bash", bash("pwd")).await, format!("{}\n", room.root.display()));
    assert_eq!(room.ok("bash", bash("cat; printf 'no newline'")).await, "no newline");
    assert_eq!(room.err("bash", bash("--version")).await.lines().last().unwrap(), "[exit code 127]");
    let text = room.ok("bash", bash("yes é | head -c 999999")).await;
    assert!(text.len() < (64 << 10) + 100 && text.contains("bytes cut …]") && !text.contains('\u{fffd}'));
    for (input, field) in [
        (json!({"command": " "}), "command: "),
        (json!({"command": "a\0b"}), "command: "),
        (json!({"command": "x", "timeout_ms": 600_001}), "timeout_ms: "),
        (json!({"command": "x", "timeout_ms": 0}), "timeout_ms: "),
    ] {
        assert!(room.err("bash", input).await.starts_with(field));
    }
    let huge = room.err("bash", bash(&format!("true {}", "x".repeat(300_000)))).await;
    assert!(huge.starts_with("the command cannot be started: "), "{huge}");
}

#[tokio::test]
async fn bash_streams_what_comes() {
    let room = room();
    let run = room.ok("bash", json!({"command": "echo one; read x < pipe; echo two"}));
    assert!(std::process::Command::new("mkfifo").arg(room.root.join("pipe")).status().unwrap().success());
    let (text, ()) = tokio::join!(run, async {
        room.fake.until(|s| matches!(s, Said::Event(AgentEvent::ToolCallOutput { text, .. }) if text == "one\n")).await;
        let pipe = room.root.join("pipe");
        tokio::task::spawn_blocking(move || std::fs::write(pipe, "go\n").unwrap()).await.unwrap();
    });
    assert_eq!(text, "one\ntwo\n");
}

#[tokio::test]
async fn bash_marks_what_it_starts() {
    let room = room();
    let env = room.ok("bash", json!({"command": "env | grep -c ^TRIPLANE_RUN="})).await;
    assert_eq!(env, "1\n");
}

#[tokio::test]
async fn a_cancelled_command_leaves_nothing() {
    let room = room();
    let mark = unique(1);
    let command = format!("sleep {mark} & setsid sleep {mark} & (trap '' TERM; sleep {mark}) & echo up; sleep {mark}");
    let run = room.err("bash", json!({"command": command}));
    let (text, ()) = tokio::join!(run, async {
        room.fake.until(|s| matches!(s, Said::Event(AgentEvent::ToolCallOutput { .. }))).await;
        assert!(living(&format!("sleep\0{mark}")) >= 1);
        room.desk.cancel.cancel();
    });
    assert_eq!(text, "up\n[cancelled]");
    assert_eq!(living(&format!("sleep\0{mark}")), 0);
}

#[tokio::test]
async fn a_command_that_takes_too_long_leaves_nothing() {
    let room = room();
    let mark = unique(2);
    let command = format!("setsid sleep {mark} & sleep {mark}");
    let text = room.err("bash", json!({"command": command, "timeout_ms": 300})).await;
    assert_eq!(text, "ended after 300 ms; raise timeout_ms, or set background");
    assert_eq!(living(&format!("sleep\0{mark}")), 0);
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let room = room();
    let mark = unique(3);
    let command = format!("setsid sleep {mark} & echo up; sleep {mark}");
    let prepared =
        room.desk.tools.prepare(&room.desk, &CallId::from("c1"), "bash", &json!({"command": command})).await.unwrap();
    tokio::select! {
        outcome = prepared.work => panic!("{outcome:?}"),
        () = room.fake.until(|s| matches!(s, Said::Event(AgentEvent::ToolCallOutput { .. }))) => {}
    }
    gone(&format!("sleep\0{mark}")).await;
}

#[tokio::test]
async fn a_call_ends_with_its_command_not_with_what_it_left() {
    let room = room();
    let mark = unique(4);
    let began = std::time::Instant::now();
    assert_eq!(room.ok("bash", json!({"command": format!("sleep {mark} & echo hi")})).await, "hi\n");
    assert!(began.elapsed() < Duration::from_secs(5));
    gone(&format!("sleep\0{mark}")).await;
}

#[tokio::test]
async fn a_background_command_is_a_task() {
    let room = room();
    let mark = unique(5);
    let input = json!({"command": format!("echo up; sleep {mark}"), "background": true});
    let text = room.ok("bash", input).await;
    assert!(text.starts_with("started as background task t1; its output is told when it ends"), "{text}");
    room.fake.tasks.cancel();
    room.fake
        .until(|s| matches!(s, Said::TaskEnd(false, text) if text.ends_with("cancelled]") || text == CANCELLED))
        .await;
    assert_eq!(living(&format!("sleep\0{mark}")), 0);
    let done = room_with_task("echo fine").await;
    assert_eq!(done, (true, "fine\n".to_owned()));
}

async fn room_with_task(command: &str) -> (bool, String) {
    let room = room();
    room.ok("bash", json!({"command": command, "background": true})).await;
    room.fake.until(|s| matches!(s, Said::TaskEnd(..))).await;
    let ends = room
        .fake
        .said()
        .into_iter()
        .find_map(|s| if let Said::TaskEnd(ok, text) = s { Some((ok, text)) } else { None });
    ends.unwrap()
}

#[tokio::test]
async fn a_directory_that_went_away_is_named() {
    let room = room();
    std::fs::remove_dir(&room.root).unwrap();
    let text = room.err("bash", json!({"command": "true"})).await;
    assert!(text.contains("is gone") && text.contains(&*Path::new(&room.root).to_string_lossy()), "{text}");
}

#[tokio::test]
async fn a_background_command_is_read_and_stopped() {
    let room = room();
    let command = json!({"command": "echo one; sleep 300", "background": true});
    let started = room.ok("bash", command).await;
    assert!(started.contains("background task t1"), "{started}");
    let text = room.ok("bash_output", json!({"task_id": "t1", "wait_ms": 10_000})).await;
    assert_eq!(text, "one\n[still running]");
    assert_eq!(room.ok("bash_output", json!({"task_id": "t1"})).await, "[still running]");
    assert_eq!(room.ok("bash_stop", json!({"task_id": "t1"})).await, "[ended: cancelled]");
    assert_eq!(room.ok("bash_output", json!({"task_id": "t1"})).await, "[ended: cancelled]");
    assert!(room.err("bash_stop", json!({"task_id": "t9"})).await.contains("task_id: no background command"));
    assert!(room.err("bash_output", json!({"task_id": "t1", "wait_ms": 60_001})).await.starts_with("wait_ms: "));
}

#[tokio::test]
async fn a_list_of_steps_is_told_as_a_plan() {
    let room = room();
    let steps = json!({"steps": [{"text": "look", "state": "done"}, {"text": "build", "state": "active"}]});
    assert_eq!(room.ok("todo", steps).await, "1 of 2 done");
    let plan = room.fake.events().into_iter().find_map(|e| match e {
        AgentEvent::Plan { entries } => Some(entries.into_iter().map(|e| e.text).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(plan.unwrap(), ["look", "build"]);
    let bad = room.err("todo", json!({"steps": [{"text": " ", "state": "done"}]})).await;
    assert!(bad.starts_with("steps[0].text: "), "{bad}");
    assert!(room.err("todo", json!({"steps": [{"text": "x", "state": "odd"}]})).await.contains("steps[0].state"));
}
