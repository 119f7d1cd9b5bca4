//! Rows follow the files, whoever changed them, and are not read twice.

use super::super::{Durability, SessionDir, Transcript};
use super::*;
use serde_json::json;
use triplane_protocol::{MessageId, event::SettingsPatch, record::Header};

struct Bed {
    _temp: tempfile::TempDir,
    dir: SessionDir,
}

fn bed() -> Bed {
    let temp = tempfile::tempdir().unwrap();
    let dir = SessionDir::open(&temp.path().join("sessions"), Durability::Flush).unwrap();
    Bed { dir, _temp: temp }
}

fn header(id: &str) -> Header {
    serde_json::from_value(json!({"v":1,"id":id,"agent":"native","cwd":"/w","created":5})).unwrap()
}

fn message(id: &str, at: i64) -> Record {
    Record::Message(Message::text(MessageId::from(id), triplane_protocol::Role::User, "\"at\":999", at))
}

fn titled(title: &str) -> Record {
    Record::set(SettingsPatch { title: Some(title.into()), model: Some("p/m".into()), ..SettingsPatch::default() })
}

impl Bed {
    async fn create(&self, id: &str, records: &[Record]) -> Transcript {
        let header = header(id);
        let lock = self.dir.lock(&header.id, "n", false).await.unwrap();
        let mut transcript = self.dir.create(header, lock).await.unwrap();
        transcript.append(records).await.unwrap();
        transcript
    }

    /// `id title messages updated`, a row each.
    async fn rows(&self) -> Vec<String> {
        let rows = self.dir.index().await.unwrap();
        rows.iter().map(show).collect()
    }
}

fn show(row: &Arc<IndexRow>) -> String {
    let count = row.messages.map_or("?".to_owned(), |count| count.to_string());
    format!("{} {} {count} {}", row.id, row.title.as_deref().unwrap_or("-"), row.updated)
}

#[tokio::test]
async fn rows_tell_what_the_transcript_tells() {
    let bed = bed();
    let mut a = bed.create("a", &[message("u1", 10), titled("one"), message("u2", 20)]).await;
    bed.create("b", &[]).await;
    assert_eq!(bed.rows().await[1], "a one 2 20");
    let row = bed.dir.index().await.unwrap()[1].clone();
    let bytes = std::fs::metadata(a.path()).unwrap().len();
    assert_eq!((row.agent.as_str(), row.cwd.as_str(), row.model.as_deref()), ("native", "/w", Some("p/m")));
    assert_eq!((row.created, row.bytes), (5, bytes));
    a.append(&[message("u3", 30), titled("two")]).await.unwrap();
    assert_eq!(bed.rows().await[0], "a two 3 30", "seen at once, and the newest now");
    a.append(&[Record::Rewind { to: Some("u1".into()) }]).await.unwrap();
    assert_eq!(bed.rows().await[0], "a two 1 30");
    a.append(&[message("u4", 40), titled("")]).await.unwrap();
    assert_eq!(bed.rows().await[0], "a - 2 40");
    let empty = bed.dir.index().await.unwrap()[1].clone();
    assert_eq!((empty.bytes, empty.agent.as_str(), empty.created == empty.updated), (0, "", true));
}

#[tokio::test]
async fn an_unchanged_transcript_is_not_opened_again() {
    let bed = bed();
    let a = bed.create("a", &[message("u1", 10), titled("first")]).await;
    let mut b = bed.create("b", &[]).await;
    assert_eq!(bed.rows().await.len(), 2);
    // Same size and time, another text: whoever opens it sees it.
    let mtime = std::fs::metadata(a.path()).unwrap().modified().unwrap();
    let text = std::fs::read_to_string(a.path()).unwrap().replace("first", "FIRST");
    std::fs::write(a.path(), text).unwrap();
    File::options().write(true).open(a.path()).unwrap().set_modified(mtime).unwrap();
    b.append(&[message("u1", 1)]).await.unwrap();
    assert!(bed.rows().await.contains(&"a first 1 10".to_owned()));
}

#[tokio::test]
async fn what_others_do_to_the_directory_is_seen() {
    let bed = bed();
    let a = bed.create("a", &[message("u1", 10)]).await;
    assert_eq!(bed.rows().await, ["a - 1 10"]);
    let other = SessionDir::open(bed.dir.root(), Durability::Flush).unwrap();
    let text = std::fs::read(a.path()).unwrap();
    std::fs::write(bed.dir.root().join("copy.jsonl"), &text).unwrap();
    assert_eq!(bed.rows().await.len(), 2);
    let lock = other.lock(&header("c").id, "m", false).await.unwrap();
    let mut c = other.create(header("c"), lock).await.unwrap();
    c.append(&[message("u1", 3)]).await.unwrap();
    assert_eq!(bed.rows().await[0], "c - 1 5");
    std::fs::remove_file(a.path()).unwrap();
    assert_eq!(bed.rows().await.len(), 2);
    std::fs::remove_file(bed.dir.root().join("order.log")).unwrap();
    assert_eq!(bed.rows().await.len(), 2, "the directory is the authority");
}

#[tokio::test]
async fn foreign_and_damaged_files_spoil_nothing() {
    let bed = bed();
    bed.create("a", &[message("u1", 10)]).await;
    let put = |name: &str, text: &str| std::fs::write(bed.dir.root().join(name), text).unwrap();
    for name in [".DS_Store", "x.jsonl~", "x.jsonl.tmp", "y.json", ".jsonl", ".hidden.jsonl", "a b.jsonl", "é.jsonl"] {
        put(name, "{}");
    }
    std::fs::create_dir(bed.dir.root().join("dir.jsonl")).unwrap();
    put("rubbish.jsonl", "\0\0rubbish\n{\"type\":\n");
    put(
        "foreign.jsonl",
        "{ \"at\": 7, \"type\": \"message\", \"id\": \"m\", \"role\": \"user\", \"parts\": [] }\n{\"type\":\"message\",\"id",
    );
    let rows = bed.rows().await;
    let of = |id: &str| rows.iter().find(|row| row.starts_with(id)).unwrap();
    assert_eq!(rows.len(), 3);
    assert!(of("rubbish").starts_with("rubbish - 0 "));
    assert!(of("foreign").starts_with("foreign - 1 "));
}

#[tokio::test]
async fn a_huge_transcript_is_read_at_its_ends_only() {
    let bed = bed();
    let mut a = bed.create("a", &[titled("first"), message("u1", 1)]).await;
    File::options().write(true).open(a.path()).unwrap().set_len(3 << 30).unwrap();
    a.append(&[message("u2", 50)]).await.unwrap();
    let begin = Instant::now();
    assert_eq!(bed.rows().await, ["a first ? 50"]);
    assert!(begin.elapsed() < Duration::from_secs(2));
    a.append(&[titled("late")]).await.unwrap();
    assert_eq!(bed.rows().await, ["a late ? 50"]);
}

#[tokio::test]
async fn ten_thousand_sessions_are_listed_quickly_and_again_at_once() {
    let bed = bed();
    for n in 0..10_000 {
        let head = serde_json::to_string(&Record::Session(header(&format!("s{n}")))).unwrap();
        std::fs::write(bed.dir.root().join(format!("s{n}.jsonl")), head + "\n").unwrap();
    }
    let begin = Instant::now();
    assert_eq!(bed.dir.index().await.unwrap().len(), 10_000);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // The directory has to rest for a moment before it can be trusted to be unchanged.
    let rows = bed.dir.index().await.unwrap();
    let again = bed.dir.index().await.unwrap();
    assert_eq!(rows.len(), again.len());
    println!("first {:?}", begin.elapsed());
}
