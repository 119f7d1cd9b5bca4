//! Histories of many records and lines of many bytes: they are listed, paged and prompted, and memory stays within bounds.
//! Clauses: S11; FAULTS PC-18.

use crate::support::{Bed, soon};
use std::{
    fs::File,
    io::{BufWriter, Write},
};
use triplane_protocol::SessionId;

/// Records of the long one.
const RECORDS: usize = 200_000;
/// Bytes of the long line.
const LINE: usize = 40 << 20;

fn begin(bed: &Bed, name: &str) -> (SessionId, BufWriter<File>) {
    let id = SessionId::parse(name).unwrap();
    std::fs::create_dir_all(&bed.plane.config().session_dir).unwrap();
    let mut file = BufWriter::new(File::create(bed.transcript(&id)).unwrap());
    writeln!(file, r#"{{"type":"session","v":1,"id":"{name}","agent":"test","cwd":"/","created":1}}"#).unwrap();
    (id, file)
}

fn message(n: usize, text: &str) -> String {
    let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
    format!(r#"{{"type":"message","id":"m{n}","role":"{role}","parts":[{{"type":"text","text":"{text}"}}],"at":{n}}}"#)
}

#[tokio::test]
async fn pc18_a_history_of_200_000_records_is_paged_within_bounds() {
    let bed = Bed::new();
    let (id, mut file) = begin(&bed, "long");
    for n in 0..RECORDS {
        writeln!(file, "{}", message(n, "some words that somebody said")).unwrap();
    }
    drop(file);
    assert_eq!(soon(bed.plane.list(None, None)).await.unwrap().rows.len(), 1);
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    let limits = &bed.plane.config().limits;
    // However much is asked for, a page has no more than it may, and pages join.
    let (mut before, mut count, mut pages) = (None, 0, 0);
    while pages < 20 {
        let page = soon(bed.plane.history(&id, None, Some(usize::MAX), before.as_ref())).await.unwrap();
        let bytes: usize = page.messages.iter().map(|message| serde_json::to_vec(message).unwrap().len()).sum();
        assert!(page.messages.len() <= limits.history_limit && bytes <= limits.history_bytes);
        (count, pages, before) = (count + page.messages.len(), pages + 1, page.before);
    }
    assert_eq!(before, Some(format!("m{}", RECORDS - count).into()));
    let start = soon(bed.plane.history(&id, None, None, Some(&"m9".into()))).await.unwrap();
    assert_eq!((start.messages.len(), start.before), (9, None));
    assert_eq!(bed.run(&id, "next").await.reply, "next");
}

#[tokio::test]
async fn pc18_a_line_of_40_mib_is_a_page_of_its_own_and_spoils_no_list() {
    let bed = Bed::new();
    let (id, mut file) = begin(&bed, "wide");
    writeln!(file, "{}\n{}\n{}", message(0, "first"), message(1, &"x".repeat(LINE)), message(2, "last")).unwrap();
    drop(file);
    assert_eq!(soon(bed.plane.list(None, None)).await.unwrap().rows.len(), 1);
    let (mut before, mut pages) = (None, Vec::new());
    while pages.is_empty() || before.is_some() {
        let page = soon(bed.plane.history(&id, None, None, before.as_ref())).await.unwrap();
        pages.push(page.messages.iter().map(|message| message.id.to_string()).collect::<Vec<_>>().join(" "));
        before = page.before;
    }
    assert_eq!(pages, ["m2", "m1", "m0"]);
}
