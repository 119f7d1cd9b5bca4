//! Many sessions: what a stored and a loaded one weigh, how long a start and a list with 10,000 of them take.

use super::{Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server},
    wire::Connection,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

pub(super) const ROW: Row = Row {
    name: "stored",
    about: "memory of stored and loaded sessions; starts, lists and creates with many of them",
    run,
};

const MANY: usize = 10_000;
const PAGE: usize = 100;
/// Sessions that are created to weigh a loaded one.
const LOADED: usize = 1000;
/// Calls a round.
const CALLS: usize = 20;
/// How long a server may settle before it is weighed.
const SETTLE: Duration = Duration::from_millis(500);

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let (many, few, none, bare) = (Place::new()?, Place::new()?, Place::new()?, Place::new()?);
    seed(&many, MANY)?;
    seed(&few, PAGE)?;
    let mut figures = Vec::new();
    figures.extend(starts(setup, &many, &bare)?);
    figures.extend(lists(setup, &many, &few)?);
    figures.extend(weights(setup, &many, &none)?);
    Ok(figures)
}

/// Transcripts as the plane would have written them.
fn seed(place: &Place, count: usize) -> Result<()> {
    let cwd = place.work();
    let dir = cwd.join(".triplane/sessions");
    fs::create_dir_all(&dir)?;
    for n in 0..count {
        let id = format!("01900000-0000-7000-8000-{n:012x}");
        let text = format!(
            "{{\"type\":\"session\",\"v\":1,\"id\":\"{id}\",\"agent\":\"native\",\"cwd\":\"{}\",\"created\":{n}}}\n\
             {{\"type\":\"message\",\"id\":\"m{n}\",\"role\":\"user\",\"parts\":[{{\"type\":\"text\",\"text\":\"hello\"}}],\"at\":{n}}}\n",
            cwd.display()
        );
        fs::write(dir.join(format!("{id}.jsonl")), text)?;
    }
    Ok(())
}

fn starts(setup: &Setup, many: &Place, bare: &Place) -> Result<Option<Figure>> {
    let ready =
        |kind, place| -> Result<f64> { Ok(Server::start(&setup.programs, kind, place)?.ready.as_secs_f64() * 1e3) };
    ready(Kind::Http, many)?;
    let mut pairs = Vec::new();
    for _ in 0..setup.pairs {
        pairs.push((ready(Kind::Http, many)?, ready(Kind::Bare, bare)?));
    }
    Ok(Figure::of_pairs("spawn to ready, 10,000 stored", "ms", &pairs, Target::Ratio(6.0)))
}

fn lists(setup: &Setup, many: &Place, few: &Place) -> Result<Vec<Figure>> {
    let of_many = Server::start(&setup.programs, Kind::Http, many)?;
    let of_few = Server::start(&setup.programs, Kind::Http, few)?;
    let (mut to_many, mut to_few) = (Connection::open(of_many.addr)?, Connection::open(of_few.addr)?);
    let page = format!("/v1/sessions?limit={PAGE}");
    let began = Instant::now();
    let all = to_many.call("GET", "/v1/sessions", "")?;
    let first = began.elapsed().as_secs_f64() * 1e3;
    ensure!(all.matches("\"loaded\"").count() == MANY, "the list has {} rows", all.matches("\"loaded\"").count());
    to_few.call("GET", &page, "")?;
    let (mut pages, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..setup.pairs {
        pages.push((time(&mut to_many, &page, CALLS)?, time(&mut to_few, &page, CALLS)?));
        whole.push(time(&mut to_many, "/v1/sessions", 2)?);
    }
    let figures = [
        Figure::of_ours("list of 10,000, first after a start", "ms", &[first], Target::Information),
        Figure::of_ours("list of 10,000", "ms", &whole, Target::Information),
        Figure::of_pairs("page of 100 out of 10,000, over one out of 100", "ms", &pages, Target::Ratio(1.5)),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// Mean time of a call, in milliseconds.
fn time(connection: &mut Connection, path: &str, calls: usize) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..calls {
        connection.call("GET", path, "")?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / calls as f64)
}

fn weights(setup: &Setup, many: &Place, none: &Place) -> Result<Vec<Figure>> {
    let (mut stored, mut loaded, mut creates) = (Vec::new(), Vec::new(), Vec::new());
    for place in [many, none] {
        let server = Server::start(&setup.programs, Kind::Http, place)?;
        let mut connection = Connection::open(server.addr)?;
        let page = format!("/v1/sessions?limit={PAGE}");
        connection.call("GET", &page, "")?;
        connection.call("POST", "/v1/sessions", "{}")?;
        sleep(SETTLE);
        let before = server.rss_kib()?;
        stored.push(before);
        let began = Instant::now();
        for _ in 0..LOADED {
            connection.call("POST", "/v1/sessions", "{}")?;
        }
        creates.push(LOADED as f64 / began.elapsed().as_secs_f64());
        sleep(SETTLE);
        loaded.push((server.rss_kib()? - before) / LOADED as f64);
    }
    let of_none = stored.pop().context("nothing was weighed")?;
    let each: Vec<f64> = stored.iter().map(|rss| (rss - of_none) / MANY as f64).collect();
    let figures = [
        Figure::of_ours("stored session, of 10,000", "KiB", &each, Target::Size(0.6)),
        Figure::of_ours("loaded session, of 1000", "KiB", &loaded, Target::Size(4.0)),
        Figure::of_ours("creates", "per s", &creates, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}
