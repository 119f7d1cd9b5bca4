//! The directory: ids, resolving, order, deletion, and that nothing leads out of it.

use super::*;
use serde_json::json;
use triplane_protocol::{Message, Role, record::Record};

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

fn header(text: &str) -> Header {
    serde_json::from_value(json!({"v":1,"id":text,"agent":"native","cwd":"/w","created":5})).unwrap()
}

fn said(text: &str) -> Record {
    Record::Message(Message::text(text.into(), Role::User, text, 1))
}

async fn create(dir: &SessionDir, text: &str) -> Transcript {
    let lock = dir.lock(&id(text), "n", false).await.unwrap();
    dir.create(header(text), lock).await.unwrap()
}

fn open(temp: &tempfile::TempDir) -> SessionDir {
    SessionDir::open(&temp.path().join(".triplane/sessions"), Durability::Flush).unwrap()
}

async fn listed(dir: &SessionDir) -> String {
    let list = dir.list().await.unwrap();
    list.iter().map(|stored| stored.id.to_string()).collect::<Vec<_>>().join(" ")
}

async fn resolved(dir: &SessionDir, text: &str) -> String {
    match dir.resolve(text).await {
        Ok(id) => id.to_string(),
        Err(StoreError::NotFound(_)) => "not found".into(),
        Err(StoreError::Ambiguous(_)) => "ambiguous".into(),
        Err(StoreError::InvalidParams(_)) => "invalid".into(),
        Err(err) => format!("{err:?}"),
    }
}

#[tokio::test]
async fn ids_are_resolved_whole_by_prefix_and_as_latest() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    assert_eq!(resolved(&dir, "latest").await, "not found");
    for text in ["abc1", "abc2", "abc", "xyz"] {
        create(&dir, text).await;
    }
    for (text, expected) in [
        ("abc", "abc"),
        ("abc1", "abc1"),
        ("ab", "ambiguous"),
        ("x", "xyz"),
        ("latest", "xyz"),
        ("nope", "not found"),
        ("xyz.jsonl", "not found"),
        ("", "invalid"),
        ("a/b", "invalid"),
        ("a\\b", "invalid"),
        ("..", "invalid"),
        ("a..b", "invalid"),
        ("latest/../abc", "invalid"),
        ("/etc/passwd", "invalid"),
        ("a\0b", "invalid"),
        ("a\n", "invalid"),
        ("\u{2025}", "invalid"),
    ] {
        assert_eq!(resolved(&dir, text).await, expected, "{text:?}");
    }
    assert_eq!(resolved(&dir, &"a".repeat(4096)).await, "invalid");
}

#[tokio::test]
async fn the_newest_is_the_last_written_whatever_the_clock_says() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    let mut a = create(&dir, "a").await;
    let mut b = create(&dir, "b").await;
    create(&dir, "c").await;
    assert_eq!(listed(&dir).await, "c b a");
    b.append(&[said("x")]).await.unwrap();
    a.append(&[said("x")]).await.unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1500);
    File::options().write(true).open(a.path()).unwrap().set_modified(old).unwrap();
    assert_eq!(listed(&dir).await, "a b c");
    assert_eq!(dir.list().await.unwrap()[0].mtime_ms, 1500);
    drop((a, b));
    // Attach, detach and looking are no writes.
    let lock = dir.lock(&id("c"), "n", false).await.unwrap();
    drop(dir.load(&id("c"), lock).await.unwrap());
    dir.read(&id("b")).await.unwrap();
    assert_eq!(listed(&open(&temp)).await, "a b c", "a restart keeps it");
    assert_eq!(resolved(&open(&temp), "latest").await, "a");
    fs::remove_file(dir.root().join("order.log")).unwrap();
    // Both were written within one tick of the file system's clock.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    File::options().write(true).open(dir.path(&id("b"))).unwrap().set_modified(later).unwrap();
    assert_eq!(listed(&open(&temp)).await, "b c a", "lost, it is made from the times");
}

#[tokio::test]
async fn delete_takes_all_of_a_session_and_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    create(&dir, "keep").await;
    let lock = dir.lock(&id("go"), "n", false).await.unwrap();
    drop(dir.create(header("go"), lock.clone()).await.unwrap());
    let (mut spool, _) = dir.spool(&id("go"), lock.clone()).await.unwrap();
    spool.reserve(1).await.unwrap();
    dir.delete(lock.clone()).await.unwrap();
    assert!(matches!(dir.delete(lock).await, Err(StoreError::NotFound(_) | StoreError::Fenced)));
    drop(spool);
    let left: Vec<String> =
        fs::read_dir(dir.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.starts_with("go")), "{left:?}");
    assert_eq!(listed(&dir).await, "keep");
    assert_eq!(dir.index().await.unwrap().len(), 1);
    assert!(matches!(dir.read(&id("go")).await, Err(StoreError::NotFound(_))));
    let again = dir.lock(&id("go"), "n", false).await.unwrap();
    dir.create(header("go"), again).await.unwrap();
}

#[tokio::test]
async fn a_project_cannot_choose_where_sessions_go() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    assert_eq!(fs::read_to_string(temp.path().join(".triplane/.gitignore")).unwrap(), "/sessions/\n");
    fs::write(temp.path().join(".triplane/.gitignore"), "mine").unwrap();
    drop(open(&temp));
    assert_eq!(fs::read_to_string(temp.path().join(".triplane/.gitignore")).unwrap(), "mine", "people may change it");
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(dir.root()), mode(&temp.path().join(".triplane"))), (0o700, 0o700));
        let evil = temp.path().join("evil/.triplane");
        fs::create_dir_all(&evil).unwrap();
        symlink(temp.path(), evil.join("sessions")).unwrap();
        assert!(SessionDir::open(&evil.join("sessions"), Durability::Flush).is_err());
        let evil = temp.path().join("evil2");
        fs::create_dir_all(&evil).unwrap();
        symlink(temp.path(), evil.join(".triplane")).unwrap();
        assert!(SessionDir::open(&evil.join(".triplane/sessions"), Durability::Flush).is_err());
        // One that somebody named by hand may be a link.
        let link = temp.path().join("link");
        symlink(dir.root(), &link).unwrap();
        assert_eq!(SessionDir::open(&link, Durability::Flush).unwrap().root(), dir.root());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn irregular_files_are_no_sessions_and_nothing_hangs() {
    use rustix::fs::{CWD, FileType, mknodat};
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    create(&dir, "real").await;
    std::os::unix::fs::symlink(dir.path(&id("real")), dir.path(&id("link"))).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.root().join("link.events")).unwrap();
    fs::create_dir(dir.path(&id("dir"))).unwrap();
    mknodat(CWD, dir.path(&id("fifo")), FileType::Fifo, 0o600.into(), 0).unwrap();
    mknodat(CWD, dir.root().join("fifo.events"), FileType::Fifo, 0o600.into(), 0).unwrap();
    let all = async {
        for name in ["link", "dir", "fifo"] {
            assert!(!dir.exists(&id(name)));
            assert!(matches!(dir.read(&id(name)).await, Err(StoreError::NotFound(_))), "{name}");
            let lock = dir.lock(&id(name), "n", false).await.unwrap();
            assert!(matches!(dir.load(&id(name), lock).await, Err(StoreError::NotFound(_))), "{name}");
            assert_eq!(resolved(&dir, name).await, "not found");
            assert_eq!(dir.spool_state(&id(name)).await.unwrap(), None);
            assert_eq!(dir.replay(&id(name), 0, 1, 1).await.unwrap(), SpoolPage::default());
        }
        assert_eq!(listed(&dir).await, "real");
        assert_eq!(dir.index().await.unwrap().len(), 1);
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), all).await.unwrap();
}

#[tokio::test]
async fn lock_states_are_told() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(&temp);
    let mine = create(&dir, "a").await;
    let LockState::Held(holder) = dir.lock_state(&id("a")).await.unwrap() else { panic!("not held") };
    assert_eq!((holder.node.as_str(), holder.pid), ("n", std::process::id()));
    let Err(err) = dir.lock(&id("a"), "m", false).await else { panic!("taken twice") };
    let failure = triplane_protocol::Failure::from(crate::PlaneError::from(err));
    assert!(serde_json::to_string(&failure.cause).unwrap().contains("of node n"), "{failure:?}");
    drop(mine);
    assert_eq!(dir.lock_state(&id("a")).await.unwrap(), LockState::Free);
}
