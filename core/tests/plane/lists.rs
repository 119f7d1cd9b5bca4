//! Lists of many stored sessions, over restarts and beside other processes: no transcript is opened twice in the same state.
//! Clauses: H06, S06, C13; FAULTS PC-09; PERF rows 8 and 9.

use crate::support::{Bed, soon};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
};
use triplane_protocol::SessionId;

/// Enough that the rows are worth keeping.
const MANY: usize = 200;

fn id(n: usize) -> SessionId {
    SessionId::parse(&format!("s{n:04}")).unwrap()
}

/// A transcript whose title is `title`.
fn plant(bed: &Bed, n: usize, title: &str) {
    let text = format!(
        "{{\"type\":\"session\",\"v\":1,\"id\":\"{}\",\"agent\":\"test\",\"cwd\":\"/w\",\"created\":{n}}}\n\
         {{\"type\":\"set\",\"title\":\"{title}\"}}\n",
        id(n)
    );
    fs::create_dir_all(&bed.plane.config().session_dir).unwrap();
    fs::write(bed.transcript(&id(n)), text).unwrap();
}

/// Another text of the same size and time: only who opens the file sees it.
fn change_unseen(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let mtime = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, fs::read_to_string(path).unwrap().replace(from, to)).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(mtime).unwrap();
}

async fn titles(bed: &Bed) -> BTreeMap<String, String> {
    let rows = soon(bed.plane.list(None, None)).await.unwrap().rows;
    rows.into_iter().map(|row| (row.id.to_string(), row.title.unwrap_or_default())).collect()
}

#[tokio::test]
async fn h06_a_restart_opens_only_what_changed_since() {
    let bed = Bed::new();
    (0..MANY).for_each(|n| plant(&bed, n, "first"));
    assert_eq!(titles(&bed).await.len(), MANY);
    // Unseen, seen by its size, gone, and new.
    change_unseen(&bed.transcript(&id(0)), "first", "FIRST");
    fs::remove_file(bed.transcript(&id(2))).unwrap();
    let bed = bed.restart().await;
    plant(&bed, 1, "the second");
    plant(&bed, MANY, "new");
    let found = titles(&bed).await;
    assert_eq!(found.len(), MANY);
    let title = |n: usize| found.get(id(n).as_str()).map(String::as_str);
    assert_eq!([title(0), title(1), title(2), title(MANY)], [Some("first"), Some("the second"), None, Some("new")]);
    // What a restart found is kept again, a single change too.
    let bed = bed.restart().await;
    change_unseen(&bed.transcript(&id(1)), "the second", "THE SECOND");
    assert_eq!(titles(&bed).await, found);
}

#[tokio::test]
async fn the_kept_rows_may_be_thrown_away_or_spoiled_at_any_time() {
    let bed = Bed::new();
    (0..MANY).for_each(|n| plant(&bed, n, "first"));
    let found = titles(&bed).await;
    let bed = bed.restart().await;
    let file = bed.plane.config().home.join("plane.db");
    let conn = rusqlite::Connection::open(&file).unwrap();
    let kept: i64 = conn.query_row("SELECT count(*) FROM listed", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, MANY as i64);
    conn.execute("UPDATE listed SET row = '{\"no\":\"row\"}' WHERE session < 's0100'", []).unwrap();
    drop(conn);
    assert_eq!(titles(&bed).await, found);
    let bed = bed.restart().await;
    fs::remove_file(&file).unwrap();
    assert_eq!(titles(&bed).await, found);
}

#[tokio::test]
async fn two_processes_on_one_home_and_directory_list_the_same() {
    let one = Bed::new();
    (0..MANY).for_each(|n| plant(&one, n, "first"));
    let two = Bed::at(one.temp.clone(), one.agent.clone(), |_| ());
    for round in 0..4 {
        for n in (0..MANY).skip(round).step_by(3) {
            let mut file = File::options().append(true).open(one.transcript(&id(n))).unwrap();
            writeln!(file, r#"{{"type":"set","title":"round {round}, {n}"}}"#).unwrap();
        }
        // Makes both look at every file.
        plant(&one, MANY + round, "new");
        let (a, b) = tokio::join!(titles(&one), titles(&two));
        assert_eq!(a, b);
        let newest = id((0..MANY).skip(round).step_by(3).next_back().unwrap());
        assert!(a.get(newest.as_str()).unwrap().starts_with(&format!("round {round}")), "{a:?}");
    }
    let (one, _) = tokio::join!(one.restart(), two.restart());
    assert_eq!(titles(&one).await.len(), MANY + 4);
}

#[tokio::test]
async fn a_few_sessions_cost_no_file() {
    let bed = Bed::new();
    (0..5).for_each(|n| plant(&bed, n, "first"));
    assert_eq!(titles(&bed).await.len(), 5);
    let bed = bed.restart().await;
    assert!(!bed.plane.config().home.join("plane.db").exists());
}
