//! Two real processes and one lock: the child is this test binary, run again with [`child`] alone.

use super::*;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
};

const DEADLINE: Duration = Duration::from_secs(20);
const CHILD_DIR: &str = "TRIPLANE_TEST_LOCK_DIR";

fn id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn take(dir: &Path, takeover: bool) -> Result<SessionLock, StoreError> {
    SessionLock::acquire(dir, &id(), "node-a", takeover)
}

fn probe(dir: &Path) -> LockState {
    SessionLock::probe(dir, &id()).unwrap()
}

fn put(lock: &SessionLock, dir: &Path, text: &str) -> Result<(), StoreError> {
    lock.fenced_write(|| {
        let file = File::options().append(true).create(true).open(dir.join("data"));
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(StoreError::io("test"))
    })
}

/// A process that has the session and does what it is told, a word a line.
struct Other {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Other {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::lock::tests::child", "--nocapture", "--test-threads=1"])
            .env(CHILD_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // libtest's own text may stand before ours on the line.
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, word)) = line.split_once('@')
                    && sender.send(word.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        let other = Self { child, stdin, lines };
        assert_eq!(other.hear(), "held");
        other
    }

    fn hear(&self) -> String {
        self.lines.recv_timeout(DEADLINE).unwrap()
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.stdin, "{word}").unwrap();
    }

    fn ask(&mut self, word: &str) -> String {
        self.tell(word);
        self.hear()
    }

    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Stops it and waits until the system says that it is stopped.
    fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let until = Instant::now() + DEADLINE;
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Not a test of its own: what the other process does.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(PathBuf::from) else { return };
    let mut lock = Some(SessionLock::acquire(&dir, &id(), "node-b", false).unwrap());
    println!("@held");
    for word in std::io::stdin().lines().map_while(Result::ok) {
        let held = lock.as_ref();
        let said = match word.as_str() {
            "write" => match put(held.unwrap(), &dir, "b") {
                Ok(()) => "written".to_owned(),
                Err(err) => format!("{err:?}"),
            },
            "await lost" => {
                while !held.unwrap().lost() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                "lost".to_owned()
            }
            "stop inside" => {
                let me = rustix::process::getpid();
                let stop = || rustix::process::kill_process(me, rustix::process::Signal::STOP).unwrap();
                let done = held.unwrap().fenced_write(|| {
                    stop();
                    // The signal may reach another thread first; this one must not leave meanwhile.
                    while !dir.join("go").exists() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                });
                format!("{done:?}")
            }
            "release" => {
                lock = None;
                "released".to_owned()
            }
            other => other.to_owned(),
        };
        println!("@{said}");
    }
}

#[test]
fn one_holder_at_a_time_also_within_a_process() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    assert_eq!(probe(dir), LockState::Free);
    let first = take(dir, false).unwrap();
    assert_eq!((first.holder().generation, first.holder().pid), (1, std::process::id()));
    assert_eq!(probe(dir), LockState::Held(first.holder().clone()));
    assert!(matches!(take(dir, false), Err(StoreError::Held(holder)) if holder == *first.holder()));
    assert!(!first.lost());
    put(&first, dir, "a").unwrap();
    drop(first);
    assert_eq!(probe(dir), LockState::Free);
    assert_eq!(take(dir, false).unwrap().holder().generation, 2);
}

#[test]
fn another_process_holds_it_until_it_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let other = Other::start(dir);
    let LockState::Held(holder) = probe(dir) else { panic!("not held") };
    assert_eq!((holder.node.as_str(), holder.pid), ("node-b", other.child.id()));
    assert!(matches!(take(dir, false), Err(StoreError::Held(named)) if named == holder));
    drop(other);
    assert_eq!(probe(dir), LockState::Stale(holder));
    let mine = take(dir, false).unwrap();
    assert_eq!(mine.holder().generation, 2);
}

#[test]
fn files_alone_keep_nothing_locked() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    fs::write(dir.join("s1.lock"), "1").unwrap();
    fs::write(dir.join("s1.holder"), r#"{"node":"elsewhere","pid":1,"since":0,"generation":7}"#).unwrap();
    assert!(matches!(probe(dir), LockState::Stale(Holder { pid: 1, generation: 7, .. })));
    let lock = take(dir, false).unwrap();
    assert_eq!(lock.holder().generation, 8);
    put(&lock, dir, "a").unwrap();
    drop(lock);
    for damage in ["", "\0\0", "{", &"x".repeat(10_000)] {
        fs::write(dir.join("s1.holder"), damage).unwrap();
        let lock = take(dir, false).unwrap();
        put(&lock, dir, "a").unwrap();
        assert_eq!(probe(dir), LockState::Held(lock.holder().clone()));
    }
}

#[test]
fn a_holder_that_answers_stores_its_end_and_hands_over() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut other = Other::start(dir);
    other.tell("await lost");
    let (mine, took) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let begin = Instant::now();
            (take(dir, true).unwrap(), begin.elapsed())
        });
        assert_eq!(other.hear(), "lost");
        assert_eq!(other.ask("write"), "written", "asked is not fenced: the run's end can still be stored");
        assert_eq!(other.ask("release"), "released");
        taker.join().unwrap()
    });
    assert!(took < Duration::from_millis(900), "no need to wait it out: {took:?}");
    assert_eq!(mine.holder().generation, 2);
    assert!(!mine.lost());
    put(&mine, dir, "a").unwrap();
    assert_eq!(fs::read_to_string(dir.join("data")).unwrap(), "ba");
}

#[test]
fn a_holder_that_does_not_answer_is_fenced() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut other = Other::start(dir);
    assert_eq!(other.ask("write"), "written");
    other.signal(rustix::process::Signal::STOP);
    other.stopped();
    let mine = take(dir, true).unwrap();
    assert_eq!(mine.holder().generation, 2);
    put(&mine, dir, "a").unwrap();
    other.tell("write");
    other.signal(rustix::process::Signal::CONT);
    assert_eq!(other.hear(), "Fenced");
    assert_eq!(other.ask("await lost"), "lost");
    assert_eq!(other.ask("release"), "released");
    assert_eq!(probe(dir), LockState::Held(mine.holder().clone()), "its release takes nothing from us");
    put(&mine, dir, "a").unwrap();
    assert!(matches!(take(dir, false), Err(StoreError::Held(_))));
    assert_eq!(fs::read_to_string(dir.join("data")).unwrap(), "baa");
}

#[test]
fn a_holder_that_stopped_inside_a_write_keeps_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let mut other = Other::start(dir);
    other.tell("stop inside");
    other.stopped();
    let begin = Instant::now();
    let Err(StoreError::Held(holder)) = take(dir, true) else { panic!("taken under its hands") };
    assert_eq!(holder.pid, other.child.id());
    assert!(begin.elapsed() < Duration::from_secs(5));
    fs::write(dir.join("go"), "").unwrap();
    other.signal(rustix::process::Signal::CONT);
    assert_eq!(other.hear(), "Ok(())");
    assert_eq!(other.ask("write"), "written");
}

#[test]
fn of_many_takers_one_wins_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let inside = std::sync::atomic::AtomicU32::new(0);
    let wins = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let Ok(lock) = take(dir, false) else { continue };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    wins.fetch_add(1, Ordering::SeqCst);
                    put(&lock, dir, "x").unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(wins.into_inner() > 1);
}

#[test]
fn a_removed_record_fences_its_holder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let first = take(dir, false).unwrap();
    fs::remove_file(dir.join("s1.holder")).unwrap();
    assert!(matches!(put(&first, dir, "a"), Err(StoreError::Fenced)));
    assert!(first.lost());
}
