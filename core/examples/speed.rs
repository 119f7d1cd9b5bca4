//! Figures of the plane that no wire shows, one measurement a process, as one line of JSON for `bench plane`.
//!
//! `speed publish READERS`: CPU time of the publisher for an event, with as many readers that wait for it.
//! `speed commits WRITERS`: durable appends a second through the group commit, and through a bare one over a single file.
//! `speed replay READERS`: CPU time for an event of a full ring, framed for one reader after another.
//! `speed load MIB kept|rewound`: a transcript is loaded: time, what it keeps, and by how much memory grew at its highest.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for measuring, whose result is its output")]

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use triplane_core::{
    feed::{Entry, Framing, Log, Subscription},
    store::{Durability, SessionDir, StoreError},
};
use triplane_protocol::{AgentEvent, Message, Role, SessionId, record::Header, record::Record};

/// Events that memory keeps of a session.
const RING: (usize, usize) = (4096, 8 << 20);
/// Events that are published.
const EVENTS: u64 = 20_000;
/// How long commits are counted.
const COUNTED: Duration = Duration::from_secs(2);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let figures = match args.as_slice() {
        ["publish", readers] => publish(readers.parse().unwrap()),
        ["commits", writers] => commits(writers.parse().unwrap()),
        ["replay", readers] => replay(readers.parse().unwrap()),
        ["load", mib, what] => load(mib.parse().unwrap(), *what == "kept"),
        _ => {
            serde_json::json!({"usage": "speed publish READERS | commits WRITERS | replay READERS | load MIB kept|rewound"})
        }
    };
    println!("{figures}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn log(dir: &Path) -> Arc<Log> {
    let dir = SessionDir::open(dir, Durability::Flush).unwrap();
    Arc::new(Log::over(Arc::new(dir), SessionId::parse("s").unwrap(), 1, "e", RING))
}

fn entry(seq: u64) -> Arc<Entry> {
    Arc::new(Entry::new(seq, AgentEvent::LlmDelta { text: "x".repeat(150) }))
}

/// The publisher has a thread of its own, whose CPU time is what it pays; the readers share the runtime's.
fn publish(readers: usize) -> serde_json::Value {
    let (temp, runtime) = (tempfile::tempdir().unwrap(), runtime());
    let log = log(temp.path());
    let read = Arc::new(AtomicU64::new(0));
    for _ in 0..readers {
        let (mut reader, read) = (Subscription::at_end(log.clone()), read.clone());
        runtime.spawn(async move {
            while reader.position() < EVENTS {
                read.fetch_add(reader.next(64).await.entries.len() as u64, Ordering::Relaxed);
            }
        });
    }
    let handle = runtime.handle().clone();
    let publisher = std::thread::spawn(move || {
        let _runtime = handle.enter();
        let entries: Vec<_> = (1..=EVENTS).map(entry).collect();
        let before = cpu_ns(ClockId::ThreadCPUTime);
        for (n, entry) in entries.iter().enumerate() {
            log.publish(std::slice::from_ref(entry));
            // As fast as a quick model speaks, so that readers are asleep between two events.
            if n % 20 == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        (cpu_ns(ClockId::ThreadCPUTime) - before) / EVENTS as f64
    });
    let ns = publisher.join().unwrap();
    runtime.shutdown_background();
    serde_json::json!({"publish_ns": ns, "read": read.load(Ordering::Relaxed)})
}

fn replay(readers: usize) -> serde_json::Value {
    let temp = tempfile::tempdir().unwrap();
    let log = log(temp.path());
    let count = RING.0 as u64;
    (1..=count).for_each(|seq| log.publish(&[entry(seq)]));
    let before = cpu_ns(ClockId::ThreadCPUTime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes = runtime.block_on(async {
        let mut bytes = 0;
        for _ in 0..readers {
            let mut reader = Subscription::at_end(log.clone());
            reader.seek(0);
            while reader.position() < count {
                let framed = reader.next_framed(Framing::new(0), 16 << 10, |entry| entry.json.clone()).await;
                bytes += framed.bytes.len();
            }
        }
        bytes
    });
    let ns = cpu_ns(ClockId::ThreadCPUTime) - before;
    serde_json::json!({"replay_ns": ns / (count as f64 * readers as f64), "bytes": bytes})
}

fn header(id: &SessionId) -> Header {
    serde_json::from_value(serde_json::json!({"v":1,"id":id,"agent":"a","cwd":"/","created":1})).unwrap()
}

fn message(n: usize, bytes: usize) -> Record {
    let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
    Record::Message(Message::text(format!("m{n}").into(), role, "x".repeat(bytes), 1))
}

fn commits(writers: usize) -> serde_json::Value {
    let runtime = runtime();
    let temp = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let ours = runtime.block_on(async {
        let dir = SessionDir::open(&temp.path().join("sessions"), Durability::Fsync).unwrap();
        let mut all = tokio::task::JoinSet::new();
        for n in 0..writers {
            let id = SessionId::parse(&format!("s{n}")).unwrap();
            let lock = dir.lock(&id, "n", false).await.unwrap();
            let mut transcript = dir.create(header(&id), lock).await.unwrap();
            let stop = stop.clone();
            all.spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    transcript.append(&[message(count, 200)]).await?;
                    count += 1;
                }
                Ok::<_, StoreError>(count)
            });
        }
        tokio::time::sleep(COUNTED).await;
        stop.store(true, Ordering::Relaxed);
        all.join_all().await.into_iter().map(Result::unwrap).sum::<usize>()
    });
    let per_s = |count: usize| count as f64 / COUNTED.as_secs_f64();
    let bare = bare_commits(&temp.path().join("bare"), writers);
    serde_json::json!({"commits_per_s": per_s(ours), "bare_per_s": per_s(bare)})
}

/// The least that a group commit could be: one file, one write and one sync for all that wait.
fn bare_commits(path: &Path, writers: usize) -> usize {
    let mut file = File::create(path).unwrap();
    let text = "x".repeat(300).repeat(writers);
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < COUNTED {
        file.write_all(text.as_bytes()).unwrap();
        file.sync_data().unwrap();
        count += writers;
    }
    count
}

/// `kept`: all of it is history; else a rewind takes nearly all of it back.
fn load(mib: usize, kept: bool) -> serde_json::Value {
    let temp = tempfile::tempdir().unwrap();
    let id = SessionId::parse("s").unwrap();
    let dir = SessionDir::open(&temp.path().join("sessions"), Durability::Flush).unwrap();
    let mut file = BufWriter::new(File::create(dir.path(&id)).unwrap());
    let mut put = |record: &Record| writeln!(file, "{}", serde_json::to_string(record).unwrap()).unwrap();
    put(&Record::Session(header(&id)));
    for n in 0..mib * 256 {
        put(&message(n, 4000));
        if !kept && n % 1000 == 999 {
            put(&Record::Rewind { to: Some("m9".into()) });
        }
    }
    drop(file);
    let bytes = fs::metadata(dir.path(&id)).unwrap().len();
    let before = memory("VmRSS:");
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (history, _) = runtime.block_on(dir.read(&id)).unwrap();
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    let keeps: usize = history.messages().iter().map(|message| Bytes::from(message.plain_text()).len()).sum();
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    serde_json::json!({
        "load_ms": ms, "mib": mib(bytes as f64), "kept_mib": mib(keeps as f64), "grew_mib": (memory("VmHWM:") - before) / 1024.0
    })
}

/// In KiB; 0 where the system does not tell.
fn memory(what: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|line| line.trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0)
}
