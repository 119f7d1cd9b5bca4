//! What a transcript survives: cuts at every byte, damage, failing writes and syncs, foreign hands.

use super::super::{Committer, SessionDir};
use super::*;
use serde_json::json;
use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use triplane_protocol::{Message, MessageId, Role};

fn id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn header() -> Header {
    serde_json::from_value(json!({"v":1,"id":"s1","agent":"native","cwd":"/w","created":5,"colour":"red"})).unwrap()
}

fn user(id: &str) -> Record {
    Record::Message(Message::text(id.into(), Role::User, format!("text of {id} é\n\u{2028}"), 6))
}

struct Bed {
    _temp: tempfile::TempDir,
    dir: SessionDir,
    path: PathBuf,
}

fn bed(durability: Durability, committer: Committer) -> Bed {
    let temp = tempfile::tempdir().unwrap();
    let dir = SessionDir::open_with(&temp.path().join("sessions"), durability, committer).unwrap();
    Bed { path: dir.path(&id()), dir, _temp: temp }
}

impl Bed {
    async fn create(&self) -> Transcript {
        let lock = self.dir.lock(&id(), "n", false).await.unwrap();
        self.dir.create(header(), lock).await.unwrap()
    }

    async fn load(&self) -> Loaded {
        let lock = self.dir.lock(&id(), "n", false).await.unwrap();
        self.dir.load(&id(), lock).await.unwrap()
    }

    /// Ids of the messages, and the report as `torn/bad/unknown`.
    async fn read(&self) -> (String, String) {
        let (history, report) = self.dir.read(&id()).await.unwrap();
        (ids(&history), format!("{}/{}/{}", report.torn_bytes, report.bad_lines, report.unknown))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }
}

fn ids(history: &History) -> String {
    history.messages().iter().map(|message| message.id.to_string()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_file_is_there_at_once_and_the_header_comes_with_the_first_append() {
    let bed = bed(Durability::Fsync, Committer::default());
    let mut transcript = bed.create().await;
    assert_eq!((bed.text().as_str(), transcript.is_pending()), ("", true));
    let (history, report) = bed.dir.read(&id()).await.unwrap();
    assert_eq!((history.header(), report), (None, LoadReport::default()));
    transcript.append(&[user("u1"), user("u2")]).await.unwrap();
    transcript.append(&[Record::clear("b".into(), 9)]).await.unwrap();
    assert_eq!(bed.text().lines().count(), 4);
    drop(transcript);
    let loaded = bed.load().await;
    assert_eq!((ids(&loaded.history).as_str(), loaded.report), ("u1 u2 b", LoadReport::default()));
    assert_eq!(loaded.history.header(), Some(&header()));
    assert!(!loaded.transcript.is_pending());
}

#[tokio::test]
async fn a_header_can_be_given_to_an_empty_transcript_after_a_restart() {
    let bed = bed(Durability::Flush, Committer::default());
    drop(bed.create().await);
    let mut loaded = bed.load().await;
    assert!(loaded.transcript.is_pending());
    loaded.transcript.adopt_header(header());
    loaded.transcript.append(&[user("u1")]).await.unwrap();
    loaded.transcript.adopt_header(header());
    loaded.transcript.append(&[user("u2")]).await.unwrap();
    assert_eq!(bed.text().matches("\"session\"").count(), 1);
}

#[tokio::test]
async fn a_tail_cut_at_any_byte_costs_only_what_was_cut() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1"), user("u2"), user("u3")]).await.unwrap();
    drop(transcript);
    let whole = fs::read(&bed.path).unwrap();
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &whole).collect();
    for cut in ends[1]..whole.len() {
        fs::write(&bed.path, &whole[..cut]).unwrap();
        // A record without its newline is whole all the same.
        let kept = ends.iter().filter(|end| cut >= **end).count() - 1;
        let expected = ["u1", "u2", "u3"][..kept].join(" ");
        let torn = if ends.contains(&cut) { 0 } else { cut - ends[kept] - 1 };
        assert_eq!(bed.read().await, (expected.clone(), format!("{torn}/0/0")), "cut at {cut}");
        assert_eq!(fs::metadata(&bed.path).unwrap().len(), cut as u64, "a reader changes nothing");
        let mut loaded = bed.load().await;
        assert_eq!((ids(&loaded.history), loaded.report.torn_bytes), (expected.clone(), torn as u64), "cut at {cut}");
        loaded.transcript.append(&[user("new")]).await.unwrap();
        drop(loaded);
        assert_eq!(bed.read().await, (format!("{expected} new"), "0/0/0".into()), "cut at {cut}");
        assert!(bed.text().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }
}

#[tokio::test]
async fn damage_in_the_middle_costs_its_lines_and_stays_on_disk() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    drop(transcript);
    let bad = [
        "{\"type\":\"mess",
        "{}{}",
        "",
        "{\"type\":\"message\",\"id\":1}",
        "[1]",
        "{\"kind\":\"x\"}",
        "{\"type\":\"message\",\"id\":\"m\",\"role\":\"user\",\"at\":1,\"parts\":[{\"type\":\"text\",\"text\":\"\\ud800\"}]}",
        &"[".repeat(100_000),
        "\0\0\0",
        "{\"type\":\"future\",\"x\":1}",
    ];
    let mut text = bed.text() + &bad.join("\n") + "\n";
    for n in 0..500 {
        text += &(serde_json::to_string(&user(&format!("g{n}"))).unwrap() + "\n");
    }
    fs::write(&bed.path, &text).unwrap();
    let mut loaded = bed.load().await;
    assert_eq!(loaded.history.messages().len(), 501);
    assert_eq!(loaded.report, LoadReport { torn_bytes: 0, bad_lines: bad.len() as u64 - 1, unknown: 1 });
    loaded.transcript.append(&[user("new")]).await.unwrap();
    assert!(bed.text().starts_with(&text));
}

#[tokio::test]
async fn a_newer_format_is_refused_and_not_touched() {
    let bed = bed(Durability::Flush, Committer::default());
    drop(bed.create().await);
    let text = "{\"type\":\"session\",\"v\":2,\"id\":\"s1\",\"agent\":\"a\",\"cwd\":\"/\",\"created\":1}\n{\"to";
    fs::write(&bed.path, text).unwrap();
    let lock = bed.dir.lock(&id(), "n", false).await.unwrap();
    assert!(matches!(bed.dir.load(&id(), lock).await, Err(StoreError::NewerFormat(2))));
    assert!(matches!(bed.dir.read(&id()).await, Err(StoreError::NewerFormat(2))));
    assert_eq!(bed.text(), text);
}

/// Every kind of record keeps the members that it has no place for, over a load and a fork.
#[tokio::test]
async fn c15_members_that_no_record_knows_survive_a_fork() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    let lines = [
        json!({"type":"set","model":"m","x-set":1}),
        json!({"type":"run","id":"r","state":"started","x-started":1}),
        json!({"type":"message","id":"u1","role":"user","at":1,"parts":[]}),
        json!({"type":"checkpoint","path":"/a","before":null,"message":"u1","x-before":1}),
        json!({"type":"checkpoint","path":"/a","before":null,"after":"h","message":"u1","x-after":1}),
        json!({"type":"run","id":"r","state":"ended","stop":"completed","x-ended":1}),
        json!({"type":"boundary","why":"compact","summary":"s","id":"b","at":2,"kept":"u1","x-boundary":1}),
    ];
    let records = lines.map(|line| serde_json::from_value(line).unwrap());
    transcript.append(&records).await.unwrap();
    let members = ["x-set", "x-started", "x-before", "x-after", "x-ended", "x-boundary"];
    let mut history = bed.dir.read(&id()).await.unwrap().0;
    for name in ["f1", "f2"] {
        let fork = SessionId::parse(name).unwrap();
        let lock = bed.dir.lock(&fork, "n", false).await.unwrap();
        drop(bed.dir.fork(&history, Header { id: fork.clone(), ..header() }, lock).await.unwrap());
        let text = fs::read_to_string(bed.dir.path(&fork)).unwrap();
        for member in members {
            assert_eq!(text.matches(member).count(), 1, "{member} in {name}: {text}");
        }
        assert!(text.contains(r#""kept":"u1""#) && text.contains(r#"{"type":"boundary""#), "{text}");
        history = bed.dir.read(&fork).await.unwrap().0;
        assert_eq!((history.interrupted(), history.context().len()), (None, 2));
    }
}

#[tokio::test]
async fn unknown_lines_and_members_survive_a_fork() {
    let bed = bed(Durability::Fsync, Committer::default());
    let mut transcript = bed.create().await;
    let message =
        json!({"type":"message","id":"u1","role":"user","at":1,"parts":[{"type":"hologram","n":1}],"more":[2]});
    transcript.append(&[serde_json::from_value(message).unwrap(), user("u2")]).await.unwrap();
    drop(transcript);
    let future = "{\"type\":\"future\",\"n\":1.50}";
    let reply = serde_json::to_string(&Record::Message(Message::text("a3".into(), Role::Assistant, "x", 7))).unwrap();
    fs::write(&bed.path, format!("{}{future}\n{reply}\n{}\n", bed.text(), serde_json::to_string(&user("u4")).unwrap()))
        .unwrap();
    let (history, _) = bed.dir.read(&id()).await.unwrap();

    let fork = SessionId::parse("f1").unwrap();
    let lock = bed.dir.lock(&fork, "n", false).await.unwrap();
    let head = Header { id: fork.clone(), parent: Some(id()), ..header() };
    let mut forked = bed.dir.fork(&history.filtered(), head.clone(), lock.clone()).await.unwrap();
    forked.append(&[user("u5")]).await.unwrap();
    assert_eq!(forked.path(), bed.dir.path(&fork));
    let (again, report) = bed.dir.read(&fork).await.unwrap();
    assert_eq!((ids(&again).as_str(), report.unknown), ("u1 u2 a3 u5", 1));
    assert_eq!(again.header(), Some(&head));
    assert_eq!(again.messages()[0].extra["more"], json!([2]));
    let text = fs::read_to_string(bed.dir.path(&fork)).unwrap();
    assert_eq!(text.lines().nth(3), Some(future), "in its place, letter by letter");
    assert!(matches!(bed.dir.fork(&history, head, lock).await, Err(StoreError::Exists(_))));
    let left: Vec<_> = fs::read_dir(bed.dir.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[tokio::test]
async fn foreign_hands_are_seen() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    fs::write(&bed.path, bed.text() + "{\"half").unwrap();
    transcript.append(&[user("u2")]).await.unwrap();
    assert_eq!(bed.read().await, ("u1 u2".into(), "0/1/0".into()));
    let first = bed.text().find('\n').unwrap() + 1;
    fs::write(&bed.path, &bed.text()[..first]).unwrap();
    transcript.append(&[user("u3")]).await.unwrap();
    assert_eq!(bed.read().await, ("u3".into(), "0/0/0".into()));
    fs::remove_file(&bed.path).unwrap();
    assert!(matches!(transcript.append(&[user("u4")]).await, Err(StoreError::NotFound(_))));
    assert!(!bed.path.exists(), "a deleted session does not come back");
}

/// A committer that fails while the switch is on.
fn failing() -> (Committer, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(false));
    let now = broken.clone();
    let sync = move |_: &File| match now.load(Ordering::SeqCst) {
        true => Err(io::Error::from_raw_os_error(5)),
        false => Ok(()),
    };
    (Committer::with(sync), broken)
}

#[tokio::test]
async fn an_append_whose_sync_failed_is_not_there() {
    let (committer, broken) = failing();
    let bed = bed(Durability::Fsync, committer);
    let mut transcript = bed.create().await;
    broken.store(true, Ordering::SeqCst);
    assert!(matches!(transcript.append(&[user("u1")]).await, Err(StoreError::Io { .. })));
    assert_eq!((bed.text().as_str(), transcript.is_pending()), ("", true));
    broken.store(false, Ordering::SeqCst);
    transcript.append(&[user("u2")]).await.unwrap();
    broken.store(true, Ordering::SeqCst);
    transcript.append(&[user("u3")]).await.unwrap_err();
    broken.store(false, Ordering::SeqCst);
    transcript.append(&[user("u4")]).await.unwrap();
    assert_eq!(bed.read().await, ("u2 u4".into(), "0/0/0".into()));
    assert!(bed.text().starts_with("{\"type\":\"session\""), "the header came with the first that went well");
}

#[tokio::test]
async fn what_a_failed_sync_left_uncertain_is_written_again_before_the_next() {
    let (committer, broken) = failing();
    let bed = bed(Durability::Fsync, committer);
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    transcript.write(&[user("u2")]).unwrap();
    broken.store(true, Ordering::SeqCst);
    transcript.sync().await.unwrap_err();
    assert_eq!(bed.read().await.0, "u1 u2", "what was only written stays");
    assert!(transcript.suspect && transcript.synced < transcript.len);
    // Only a write changes the time.
    transcript.file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    broken.store(false, Ordering::SeqCst);
    transcript.sync().await.unwrap();
    assert!(!transcript.suspect && transcript.synced == transcript.len);
    assert!(fs::metadata(&bed.path).unwrap().modified().unwrap() > std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(bed.read().await, ("u1 u2".into(), "0/0/0".into()));
}

#[tokio::test]
async fn a_creation_whose_sync_failed_leaves_no_session() {
    let (committer, broken) = failing();
    let bed = bed(Durability::Fsync, committer);
    broken.store(true, Ordering::SeqCst);
    let lock = bed.dir.lock(&id(), "n", false).await.unwrap();
    bed.dir.create(header(), lock).await.unwrap_err();
    assert!(!bed.path.exists());
}

#[tokio::test]
async fn a_record_that_no_reader_would_take_is_refused() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    let huge = Record::Message(Message::text(MessageId::from("u1"), Role::User, "x".repeat(LINE_BYTES), 1));
    assert!(matches!(transcript.append(&[user("u0"), huge]).await, Err(StoreError::TooLarge { .. })));
    assert_eq!(bed.text(), "");
}

#[tokio::test]
async fn a_line_over_the_limit_costs_itself_only() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    drop(transcript);
    let long = "y".repeat(LINE_BYTES + 1);
    fs::write(&bed.path, format!("{}{long}\n{}\n{long}", bed.text(), serde_json::to_string(&user("u2")).unwrap()))
        .unwrap();
    assert_eq!(bed.read().await, ("u1 u2".into(), format!("{}/1/0", LINE_BYTES + 1)));
}

#[cfg(unix)]
#[tokio::test]
async fn modes_are_private_and_links_are_nothing() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    drop(transcript);
    fs::set_permissions(&bed.path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(bed.load().await);
    for entry in fs::read_dir(bed.dir.root()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    let outside = bed._temp.path().join("outside.jsonl");
    fs::rename(&bed.path, &outside).unwrap();
    symlink(&outside, &bed.path).unwrap();
    assert!(matches!(bed.dir.read(&id()).await, Err(StoreError::NotFound(_))));
    let lock = bed.dir.lock(&id(), "n", false).await.unwrap();
    assert!(matches!(bed.dir.load(&id(), lock.clone()).await, Err(StoreError::NotFound(_))));
    assert!(matches!(bed.dir.create(header(), lock).await, Err(StoreError::Exists(_))));
    assert!(!bed.dir.exists(&id()) && bed.dir.list().await.unwrap().is_empty());
}

/// Run again by the next test, under a limit on the size of files.
#[tokio::test]
async fn writer_under_a_limit() {
    let Some(dir) = std::env::var_os("TRIPLANE_TEST_LIMITED_DIR") else { return };
    let dir = SessionDir::open(Path::new(&dir), Durability::Flush).unwrap();
    let lock = dir.lock(&id(), "n", false).await.unwrap();
    let mut transcript = dir.create(header(), lock).await.unwrap();
    transcript.append(&[user("u1")]).await.unwrap();
    let large = Record::Message(Message::text("u2".into(), Role::User, "x".repeat(6000), 6));
    for _ in 0..2 {
        assert!(matches!(transcript.append(std::slice::from_ref(&large)).await, Err(StoreError::Io { .. })));
    }
    transcript.append(&[user("u3")]).await.unwrap();
    println!("done");
}

#[cfg(unix)]
#[tokio::test]
async fn a_short_write_is_taken_back() {
    let bed = bed(Durability::Flush, Committer::default());
    let exe = std::env::current_exe().unwrap();
    let test = "store::transcript::tests::writer_under_a_limit";
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\" --nocapture";
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", script, exe.to_str().unwrap(), test]).env("TRIPLANE_TEST_LIMITED_DIR", bed.dir.root());
    let output = command.kill_on_drop(true).output();
    let output = tokio::time::timeout(Duration::from_secs(20), output).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("done"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bed.read().await, ("u1 u3".into(), "0/0/0".into()));
}

#[tokio::test]
async fn a_fenced_writer_leaves_no_byte() {
    let bed = bed(Durability::Flush, Committer::default());
    let mut transcript = bed.create().await;
    transcript.append(&[user("u1")]).await.unwrap();
    let taken = bed.dir.lock(&id(), "other", true).await.unwrap();
    let before = bed.text();
    assert!(matches!(transcript.append(&[user("u2")]).await, Err(StoreError::Fenced)));
    drop(transcript);
    assert_eq!(bed.text(), before);
    let mut loaded = bed.dir.load(&id(), taken).await.unwrap();
    loaded.transcript.append(&[user("u3")]).await.unwrap();
    assert_eq!(bed.read().await.0, "u1 u3");
}
