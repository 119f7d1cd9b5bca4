//! 200 subscribers that do not read beside one that does: what they cost the server and the other one, and whether they are
//! told of everything that they missed.

use super::{DELTA, Row, Setup, session};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server},
    wire::Connection,
};
use anyhow::{Context, Result, bail};
use std::{
    io::{ErrorKind, Read},
    net::TcpStream,
    time::{Duration, Instant},
};

pub(super) const ROW: Row =
    Row { name: "stalled", about: "200 subscribers that do not read beside one that does", run };

const STALLED: usize = 200;
/// Runs that nobody of them reads.
const RUNS: usize = 6;
/// Runs until none of them takes any more.
const FILL: usize = 18;
const DELTAS: usize = 1000;
/// Fresh servers that are asked; each takes some seconds.
const SERVERS: usize = 3;
/// Longest wait for what a reader is still owed.
const OWED: Duration = Duration::from_secs(10);

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    super::allow_sockets()?;
    let (mut growth, mut slowdown, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SERVERS.min(setup.pairs.max(1)) {
        let place = Place::with("durability = 'flush'")?;
        let server = Server::start(&setup.programs, Kind::Http, &place)?;
        let mut ask = Connection::open(server.addr)?;
        let id = session(&mut ask)?;
        let events = format!("/v1/sessions/{id}/events");
        let mut reader = Connection::open(server.addr)?.stream(&events)?;
        // Warms up, so that what the log keeps anyway is not counted.
        let mut all = 0;
        for _ in 0..RUNS {
            all = publish(&mut ask, &id, &mut reader)?.1;
        }
        // As many runs without them: what a session's history takes is not theirs.
        let before = server.rss_kib()?;
        for _ in 0..FILL {
            publish(&mut ask, &id, &mut reader)?;
        }
        let alone = six(&mut ask, &id, &mut reader)?;
        let usual = server.rss_kib()? - before;
        let mut stalled =
            (0..STALLED).map(|_| Connection::narrow(server.addr)?.stream(&events)).collect::<Result<Vec<_>>>()?;
        let before = server.rss_kib()?;
        // Fills what the system keeps for them, some MiB each; a reader stalls only once that is full.
        for _ in 0..FILL {
            publish(&mut ask, &id, &mut reader)?;
        }
        let beside = six(&mut ask, &id, &mut reader)?;
        growth.push((server.rss_kib()? - before - usual) / 1024.0);
        slowdown.push((beside * 1e3, alone * 1e3));
        // One of them reads at last: it gets, or is told of, all that there was.
        let (owed, stream) = (all * (FILL + RUNS), stalled.last_mut().context("no subscriber")?);
        silent.push(owed.saturating_sub(account(stream, owed)?) as f64);
    }
    let figures = [
        Figure::of_ours("200 stalled subscribers, growth", "MiB", &growth, Target::Size(8.0)),
        Figure::of_pairs("six runs beside 200 stalled subscribers / alone", "ms", &slowdown, Target::Ratio(1.3)),
        Figure::of_ours("events that a stalled subscriber lost silently", "events", &silent, Target::Size(0.0)),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// The time of as many runs as are compared, in seconds.
fn six(ask: &mut Connection, id: &str, reader: &mut TcpStream) -> Result<f64> {
    (0..RUNS).map(|_| publish(ask, id, reader).map(|run| run.0)).sum()
}

/// One run, read to its end by `reader`: seconds, and how many events it had.
fn publish(ask: &mut Connection, id: &str, reader: &mut TcpStream) -> Result<(f64, usize)> {
    let script = serde_json::json!({ "text": format!("/repeat {DELTAS} {}", "x".repeat(DELTA)) }).to_string();
    let began = Instant::now();
    ask.call("POST", &format!("/v1/sessions/{id}/prompt"), &script)?;
    let (mut seen, mut text, mut buffer) = (0, Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = reader.read(&mut buffer).context("reading events")?;
        if read == 0 {
            bail!("the reader's stream ended");
        }
        text.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let whole = memchr::memmem::rfind(&text, b"\n\n").map_or(0, |end| end + 2);
        let events = text.get(..whole).unwrap_or_default();
        seen += memchr::memmem::find_iter(events, b"\nevent: ").count();
        if memchr::memmem::find(events, b"\"busy\":false").is_some() {
            return Ok((began.elapsed().as_secs_f64(), seen));
        }
        text.drain(..whole);
    }
}

/// How many of `all` events a stream holds or tells as missed.
fn account(stream: &mut TcpStream, all: usize) -> Result<usize> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut told, mut text, mut buffer) = (0, String::new(), vec![0; 1 << 20]);
    let began = Instant::now();
    while told < all && began.elapsed() < OWED {
        let read = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error.into()),
        };
        text.push_str(&String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()));
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            told += match event.split_once("event: replay_gap\ndata: ") {
                Some((_, data)) => {
                    let gap: serde_json::Value = serde_json::from_str(data.trim())?;
                    let at =
                        |name: &str| gap.get(name).and_then(serde_json::Value::as_u64).context("a gap without ends");
                    usize::try_from(at("to")? + 1 - at("from")?)?
                }
                None => usize::from(event.contains("id: ")),
            };
        }
    }
    Ok(told)
}
