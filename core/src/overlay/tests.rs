use super::*;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};
use triplane_protocol::{
    event::SettingsPatch,
    ir::Extra,
    record::{Header, TRANSCRIPT_VERSION},
};

const DEADLINE: Duration = Duration::from_secs(60);

struct Bed {
    temp: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    fn home(&self) -> PathBuf {
        self.temp.path().join("home")
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("sessions")
    }

    fn db(&self) -> PathBuf {
        self.home().join("plane.db")
    }

    fn open(&self) -> Overlay {
        crate::store::files::private_dir(&self.home()).unwrap();
        Overlay::new(&self.home(), &self.dir(), Durability::Flush)
    }
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

fn titled(title: &str) -> MetaPatch {
    MetaPatch { title: Some(Some(title.into())), ..MetaPatch::default() }
}

fn project(name: &str, created: i64) -> Project {
    Project { id: format!("p-{name}"), name: name.into(), created }
}

fn given(name: &str, created: i64) -> Pending {
    let header = Header {
        v: TRANSCRIPT_VERSION,
        id: id(name),
        agent: "native".into(),
        cwd: "/work".into(),
        created,
        parent: None,
        label: Some("a label".into()),
        source: None,
        extra: Extra::new(),
    };
    let settings = SettingsPatch { model: Some("a/b".into()), ..SettingsPatch::default() };
    Pending { header, settings, fallbacks: vec!["c/d".into()] }
}

fn span(started: i64) -> Span {
    Span { agent: "native".into(), model: Some("a/b".into()), started, ended: None }
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("it hangs")
}

#[tokio::test]
async fn s17_a_patch_changes_what_it_names_and_null_clears() {
    let bed = Bed::new();
    let overlay = bed.open();
    let first = overlay.create_project(project("x", 1)).await.unwrap();
    let all = MetaPatch {
        title: Some(Some("t".into())),
        pinned: Some(true),
        archived: Some(true),
        project_ids: Some(vec![first.id.clone(), first.id.clone()]),
        model: Some(Some("a/b".into())),
    };
    let whole = Meta {
        title: Some("t".into()),
        pinned: true,
        archived: true,
        project_ids: vec![first.id],
        model: Some("a/b".into()),
    };
    assert_eq!(overlay.patch(&id("s"), all).await.unwrap(), whole);
    assert_eq!(overlay.patch(&id("s"), MetaPatch::default()).await.unwrap(), whole);
    let clear = MetaPatch { model: Some(None), pinned: Some(false), ..MetaPatch::default() };
    let rest = Meta { model: None, pinned: false, ..whole };
    assert_eq!(overlay.patch(&id("s"), clear).await.unwrap(), rest);
    assert_eq!(*overlay.meta(&id("s")).await.unwrap(), rest);
    assert_eq!(*overlay.meta(&id("other")).await.unwrap(), Meta::default());
    overlay.forget(&id("s")).await.unwrap();
    assert_eq!(overlay.metas().await.unwrap().len(), 0);
}

#[tokio::test]
async fn s17_a_patch_that_fails_changes_nothing_though_others_in_its_batch_succeed() {
    let bed = Bed::new();
    let overlay = bed.open();
    let x = overlay.create_project(project("x", 1)).await.unwrap().id;
    let first = MetaPatch { project_ids: Some(vec![x.clone()]), ..titled("before") };
    let before = overlay.patch(&id("s"), first).await.unwrap();
    // It fails after it has taken the session out of its projects.
    let bad = MetaPatch { project_ids: Some(vec!["p-nope".into()]), ..titled("half") };
    let patches = (0..50).map(|n| {
        let (overlay, bad) = (overlay.clone(), bad.clone());
        async move {
            let (s, name) = (id("s"), format!("n{n}"));
            let other = id(&name);
            tokio::join!(overlay.patch(&s, bad), overlay.patch(&other, titled(&name)))
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    patches.for_each(|patch| drop(tasks.spawn(patch)));
    while let Some(done) = in_time(tasks.join_next()).await {
        let (bad, good) = done.unwrap();
        assert_eq!(bad, Err(OverlayError::NoProject("p-nope".into())));
        good.unwrap();
    }
    assert_eq!((&*overlay.meta(&id("s")).await.unwrap(), &before.project_ids), (&before, &vec![x]));
    assert_eq!(overlay.metas().await.unwrap().len(), 51);
}

#[tokio::test]
async fn s18_a_deleted_project_leaves_every_session() {
    let bed = Bed::new();
    let overlay = bed.open();
    let [a, b] = [project("a", 2), project("b", 1)];
    for project in [&a, &b] {
        overlay.create_project(project.clone()).await.unwrap();
    }
    assert_eq!(overlay.projects().await.unwrap(), [b.clone(), a.clone()]);
    for name in ["1", "2", "3"] {
        let both = MetaPatch { project_ids: Some(vec![a.id.clone(), b.id.clone()]), ..MetaPatch::default() };
        overlay.patch(&id(name), both).await.unwrap();
    }
    overlay.delete_project(a.id.clone()).await.unwrap();
    let metas = overlay.metas().await.unwrap();
    assert!(metas.len() == 3 && metas.values().all(|meta| meta.project_ids == ["p-b"]), "{metas:?}");
    assert_eq!(overlay.projects().await.unwrap(), [b]);
    let gone = Err(OverlayError::NoProject(a.id.clone()));
    assert_eq!(overlay.delete_project(a.id.clone()).await, gone);
    assert_eq!(overlay.rename_project(a.id.clone(), "z".into()).await.map(drop), gone);
    assert_eq!(overlay.rename_project("p-b".into(), "z".into()).await.unwrap().name, "z");
}

#[tokio::test]
async fn s06_spans_open_close_and_are_mended_after_a_kill() {
    let bed = Bed::new();
    let overlay = bed.open();
    let s = id("s");
    overlay.opened(&s, 1, span(10), 0);
    overlay.closed(&s, 1, 20);
    overlay.opened(&s, 2, span(30), 15);
    let spans = overlay.spans(None).await.unwrap();
    assert_eq!(spans[&s], [Span { ended: Some(20), ..span(10) }, span(30)]);
    // The process of the second one was killed; its last write was at 35.
    overlay.opened(&s, 3, span(50), 35);
    // A holder that was taken over says so late.
    overlay.closed(&s, 2, 99);
    let spans = overlay.spans(Some(&s)).await.unwrap();
    assert_eq!(spans[&s][1..], [Span { ended: Some(35), ..span(30) }, span(50)]);
    for generation in 4..100 {
        overlay.opened(&s, generation, span(1000), 0);
    }
    let spans = overlay.spans(Some(&s)).await.unwrap();
    assert_eq!(spans[&s].len(), 32, "bounded");
    assert_eq!(spans[&s][31], span(1000));
}

#[tokio::test]
async fn sl13_pending_rows_outlive_the_process_and_are_swept() {
    let bed = Bed::new();
    fs::create_dir(bed.dir()).unwrap();
    let overlay = bed.open();
    let now = crate::session::now_ms();
    for (name, created) in [("young", now), ("gone", 1), ("flushed", 1), ("old", 1), ("posted", 1)] {
        overlay.keep_pending(given(name, created)).await.unwrap();
    }
    fs::write(bed.dir().join("flushed.jsonl"), "x\n").unwrap();
    fs::write(bed.dir().join("old.jsonl"), "").unwrap();
    let other = Overlay::new(&bed.home(), &bed.temp.path().join("elsewhere"), Durability::Flush);
    other.keep_pending(given("unmounted", 1)).await.unwrap();
    assert_eq!(other.pending(&id("old")).await.unwrap(), None, "of another directory");
    overlay.flushed(&id("posted"));
    in_time(overlay.close()).await;
    // The first write of a connection sweeps.
    overlay.patch(&id("s"), titled("t")).await.unwrap();
    let mut left: Vec<_> = overlay.all_pending().await.unwrap().into_keys().collect();
    left.sort();
    assert_eq!(left, [id("old"), id("young")]);
    assert_eq!(overlay.pending(&id("old")).await.unwrap(), Some(given("old", 1)));
    assert_eq!(other.all_pending().await.unwrap().len(), 1, "its directory may come back");
    overlay.forget(&id("old")).await.unwrap();
    assert_eq!(overlay.pending(&id("old")).await.unwrap(), None);
}

#[tokio::test]
async fn nothing_is_made_before_it_is_needed() {
    let bed = Bed::new();
    let overlay = bed.open();
    assert_eq!(overlay.metas().await.unwrap().len(), 0);
    assert_eq!(overlay.projects().await.unwrap(), []);
    assert_eq!(overlay.spans(None).await.unwrap().len(), 0);
    overlay.forget(&id("s")).await.unwrap();
    overlay.close().await;
    assert!(!bed.db().exists());
}

#[cfg(unix)]
#[tokio::test]
async fn c16_every_file_is_private_whatever_it_was() {
    use std::os::unix::fs::PermissionsExt;
    rustix::process::umask(rustix::fs::Mode::empty());
    let bed = Bed::new();
    let modes = || {
        let mode = |entry: fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o777;
        fs::read_dir(bed.home()).unwrap().map(|entry| mode(entry.unwrap())).collect::<Vec<_>>()
    };
    let overlay = bed.open();
    overlay.patch(&id("s"), titled("t")).await.unwrap();
    assert_eq!(modes(), [0o600; 3], "the file, its log and its index");
    in_time(overlay.close()).await;
    assert_eq!(modes(), [0o600], "a clean end leaves no log");
    fs::set_permissions(bed.db(), fs::Permissions::from_mode(0o644)).unwrap();
    overlay.patch(&id("s"), titled("u")).await.unwrap();
    assert_eq!(modes(), [0o600; 3]);
}

#[tokio::test]
async fn two_in_one_home_see_each_other_at_once() {
    let bed = Bed::new();
    let (one, two) = (bed.open(), bed.open());
    for turn in 0..20 {
        let (writer, reader) = if turn % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let title = format!("{turn}");
        writer.patch(&id("s"), titled(&title)).await.unwrap();
        assert_eq!(reader.meta(&id("s")).await.unwrap().title, Some(title));
    }
    let known = one.metas().await.unwrap();
    two.opened(&id("s"), 1, span(1), 0);
    two.spans(None).await.unwrap();
    assert!(Arc::ptr_eq(&known, &one.metas().await.unwrap()), "a span is no reason to read it all again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cr13_many_writers_of_many_planes_lose_nothing() {
    let bed = Bed::new();
    let mut tasks = tokio::task::JoinSet::new();
    for plane in 0..4 {
        let overlay = bed.open();
        for writer in 0..10 {
            let overlay = overlay.clone();
            tasks.spawn(async move {
                for turn in 0..10 {
                    let name = format!("s{plane}-{writer}-{turn}");
                    overlay.patch(&id(&name), titled(&name)).await.unwrap();
                    overlay.metas().await.unwrap();
                }
            });
        }
    }
    while let Some(done) = in_time(tasks.join_next()).await {
        done.unwrap();
    }
    assert_eq!(bed.open().metas().await.unwrap().len(), 400);
}

#[tokio::test]
async fn s28_a_file_that_is_none_fails_softly_and_comes_back() {
    let bed = Bed::new();
    let overlay = bed.open();
    fs::write(bed.db(), "this is no database, and long enough to be looked at as one".repeat(100)).unwrap();
    for error in [
        overlay.patch(&id("s"), titled("t")).await.map(drop),
        overlay.projects().await.map(drop),
        overlay.metas().await.map(drop),
    ] {
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("no overlay store: "), "{text}");
    }
    assert_eq!(overlay.without(overlay.metas().await).len(), 0);
    overlay.opened(&id("s"), 1, span(1), 0);
    assert!(fs::read_to_string(bed.db()).unwrap().starts_with("this is no"), "it is left as it is");
    fs::remove_file(bed.db()).unwrap();
    in_time(async {
        while overlay.patch(&id("s"), titled("t")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(overlay.metas().await.unwrap().len(), 1);
}

#[tokio::test]
async fn s28_a_file_of_a_later_version_a_directory_or_a_link_is_left_alone() {
    let newer = Bed::new();
    newer.open().patch(&id("s"), titled("t")).await.unwrap();
    let conn = rusqlite::Connection::open(newer.db()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let dir = Bed::new();
    dir.open();
    fs::create_dir(dir.db()).unwrap();
    let beds = [(newer, "newer than this program"), (dir, "not a regular file")];
    for (bed, why) in &beds {
        let error = bed.open().patch(&id("s"), titled("u")).await.unwrap_err();
        assert!(matches!(&error, OverlayError::Absent(text) if text.contains(why)), "{error:?}");
    }
    #[cfg(unix)]
    {
        let link = Bed::new();
        let overlay = link.open();
        fs::write(link.temp.path().join("target"), "").unwrap();
        std::os::unix::fs::symlink(link.temp.path().join("target"), link.db()).unwrap();
        let error = overlay.patch(&id("s"), titled("u")).await.unwrap_err();
        assert!(matches!(error, OverlayError::Absent(_)), "{error:?}");
        assert_eq!(fs::read(link.temp.path().join("target")).unwrap(), b"");
    }
    let off = Overlay::off();
    assert!(matches!(off.patch(&id("s"), titled("u")).await, Err(OverlayError::Absent(_))));
    assert!(matches!(off.projects().await, Err(OverlayError::Absent(_))));
}

#[tokio::test]
async fn a_file_of_version_0_is_brought_up_once_and_keeps_what_is_in_it() {
    let bed = Bed::new();
    bed.open();
    let conn = rusqlite::Connection::open(bed.db()).unwrap();
    conn.execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('kept');").unwrap();
    drop(conn);
    let opened: Vec<Overlay> = (0..4).map(|_| bed.open()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for (n, overlay) in opened.into_iter().enumerate() {
        tasks.spawn(async move { overlay.patch(&id(&format!("s{n}")), titled("t")).await });
    }
    while let Some(done) = in_time(tasks.join_next()).await {
        done.unwrap().unwrap();
    }
    let conn = rusqlite::Connection::open(bed.db()).unwrap();
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let kept: String = conn.query_row("SELECT text FROM notes", [], |row| row.get(0)).unwrap();
    assert_eq!((version, kept.as_str()), (2, "kept"));
}

#[tokio::test]
async fn a_file_that_is_removed_under_our_hands_is_made_again() {
    let bed = Bed::new();
    let overlay = bed.open();
    overlay.patch(&id("a"), titled("t")).await.unwrap();
    overlay.metas().await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(format!("{}{suffix}", bed.db().display())).unwrap();
    }
    assert_eq!(overlay.metas().await.unwrap().len(), 0);
    overlay.patch(&id("b"), titled("t")).await.unwrap();
    assert_eq!(bed.open().metas().await.unwrap().len(), 1, "what was answered is in the file that has the name");
}

#[tokio::test]
async fn reads_go_on_while_another_process_holds_the_file() {
    let bed = Bed::new();
    let overlay = bed.open();
    overlay.patch(&id("a"), titled("t")).await.unwrap();
    let holder = rusqlite::Connection::open(bed.db()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let write = tokio::spawn({
        let overlay = overlay.clone();
        async move { overlay.patch(&id("b"), titled("t")).await }
    });
    overlay.opened(&id("a"), 1, span(1), 0);
    assert_eq!(in_time(overlay.metas()).await.unwrap().len(), 1);
    assert_eq!(in_time(overlay.spans(None)).await.unwrap().len(), 0, "the note waits, the reader does not");
    assert!(!write.is_finished());
    holder.execute_batch("ROLLBACK").unwrap();
    in_time(write).await.unwrap().unwrap();
    assert_eq!(in_time(overlay.spans(None)).await.unwrap().len(), 1);
}

/// What the tests below start as processes of their own; says each title when it is answered.
#[tokio::test]
#[ignore = "a process of other tests"]
async fn writes_until_killed() {
    let Ok(home) = std::env::var("OVERLAY_TEST_HOME") else { return };
    let (name, count) = (std::env::var("OVERLAY_TEST_NAME").unwrap(), std::env::var("OVERLAY_TEST_COUNT").unwrap());
    let home = Path::new(&home);
    let overlay = Overlay::new(home, &home.join("sessions"), Durability::Flush);
    println!("ready");
    for turn in 0..count.parse::<u32>().unwrap() {
        let session = format!("{name}-{turn}");
        overlay.opened(&id(&session), 1, span(1), 0);
        overlay.patch(&id(&session), titled(&session)).await.unwrap();
        println!("done {session}");
    }
}

fn process(bed: &Bed, name: &str, count: u32) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "overlay::tests::writes_until_killed", "--ignored", "--nocapture"])
        .env("OVERLAY_TEST_HOME", bed.home())
        .env("OVERLAY_TEST_NAME", name)
        .env("OVERLAY_TEST_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The titles that it said, until there are `most`.
fn answered(child: &mut std::process::Child, most: usize) -> Vec<String> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.filter_map(|line| line.split("done ").nth(1).map(str::to_owned)).take(most).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_hammer_one_home() {
    let bed = Bed::new();
    let overlay = bed.open();
    let children: Vec<_> = ["one", "two"].iter().map(|name| process(&bed, name, 100)).collect();
    for turn in 0..100 {
        overlay.patch(&id(&format!("here-{turn}")), titled("t")).await.unwrap();
    }
    for mut child in children {
        let done = in_time(async {
            tokio::task::spawn_blocking(move || (answered(&mut child, usize::MAX), child.wait())).await
        });
        let (titles, status) = done.await.unwrap();
        assert_eq!((titles.len(), status.unwrap().success()), (100, true));
    }
    assert_eq!(overlay.metas().await.unwrap().len(), 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_kill_loses_nothing_that_was_answered_and_the_file_stays_usable() {
    let bed = Bed::new();
    let overlay = bed.open();
    for (round, most) in [1, 3, 17].into_iter().enumerate() {
        let mut child = process(&bed, &format!("k{round}"), 100_000);
        let done = tokio::task::spawn_blocking(move || {
            let titles = answered(&mut child, most);
            child.kill().unwrap();
            child.wait().unwrap();
            titles
        });
        let titles = in_time(done).await.unwrap();
        assert_eq!(titles.len(), most);
        let metas = overlay.metas().await.unwrap();
        for title in titles {
            assert_eq!(metas[&id(&title)].title.as_ref(), Some(&title));
        }
        overlay.patch(&id("mine"), titled("t")).await.unwrap();
    }
}
