//! The wire over pipes: the time of one request after another, the CPU of a request among 64 in flight, and what a subscription
//! costs, beside a program that only parses the envelope and one that only writes events.

use super::{DELTA, Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Piped, Place},
    stats::Spread,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Instant;

pub(super) const REQUESTS: Row =
    Row { name: "stdio", about: "time and CPU of a small request over a pipe", run: requests };
pub(super) const EVENTS: Row =
    Row { name: "stdio-events", about: "CPU of an event through one subscription over a pipe", run: events };

/// Requests one after another in a round.
const ONE_BY_ONE: usize = 5000;
/// Requests in flight.
const WINDOW: usize = 64;
/// Windows in a round.
const WINDOWS: usize = 500;
/// Deltas of one run.
const DELTAS: usize = 20_000;

fn requests(setup: &Setup) -> Result<Vec<Figure>> {
    let (here, there) = (Place::new()?, Place::new()?);
    let mut ours = Piped::ours(&setup.programs, &here)?;
    // Both write the same bytes.
    let result = ours.call("agents.list", &json!({}))?.to_string();
    let mut bare = Piped::bare(&setup.programs, &["--answer", &result], &there)?;
    let mut echo = Piped::bare(&setup.programs, &["--stdio"], &there)?;
    let (mut figures, mut echoed) = ([Vec::new(), Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for pair in 0..=setup.pairs {
        let (ours, bare, echo) = (round(&mut ours)?, round(&mut bare)?, round(&mut echo)?);
        // The first round warms all.
        if pair > 0 {
            let [(our_time, echo_time), _, (our_cpu, echo_cpu), _] = pairs(ours, echo);
            echoed.push([(our_time, echo_time), (our_cpu, echo_cpu)]);
            for (figure, pair) in figures.iter_mut().zip(pairs(ours, bare)) {
                figure.push(pair);
            }
        }
    }
    let [time, cpu, piped_cpu, piped_time] = &figures;
    let (echo_time, echo_cpu): (Vec<_>, Vec<_>) = echoed.into_iter().map(|[time, cpu]| (time, cpu)).unzip();
    let figures = [
        Figure::of_pairs("request over a pipe, median time", "us", time, Target::Ratio(1.5)),
        Figure::of_pairs("request over a pipe, CPU", "us", cpu, Target::Information),
        Figure::of_pairs("request over a pipe, 64 in flight, CPU", "us", piped_cpu, Target::Ratio(3.0)),
        Figure::of_pairs("request over a pipe, 64 in flight, time", "us", piped_time, Target::Information),
        Figure::of_pairs("the same beside an echo of bytes, median time", "us", &echo_time, Target::Information),
        Figure::of_pairs("the same beside an echo of bytes, 64 in flight, CPU", "us", &echo_cpu, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// Each figure of two servers.
fn pairs(ours: [f64; 4], other: [f64; 4]) -> [(f64, f64); 4] {
    let [a, b, c, d] = ours;
    let [e, f, g, h] = other;
    [(a, e), (b, f), (c, g), (d, h)]
}

fn request(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"agents.list\",\"params\":{{}}}}\n")
}

/// Median time and mean CPU one by one, then mean CPU and mean time with a window, in microseconds.
fn round(server: &mut Piped) -> Result<[f64; 4]> {
    let cpu = server.cpu_ns()?;
    let mut times = Vec::with_capacity(ONE_BY_ONE);
    for id in 0..ONE_BY_ONE {
        let request = request(id);
        let began = Instant::now();
        server.write(request.as_bytes())?;
        server.read_lines(1)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let one_by_one = (server.cpu_ns()? - cpu) as f64 / 1e3 / ONE_BY_ONE as f64;
    let (cpu, began) = (server.cpu_ns()?, Instant::now());
    for window in 0..WINDOWS {
        let requests: String = (0..WINDOW).map(|n| request(window * WINDOW + n)).collect();
        server.write(requests.as_bytes())?;
        server.read_lines(WINDOW)?;
    }
    let count = (WINDOWS * WINDOW) as f64;
    let time = began.elapsed().as_secs_f64() * 1e6 / count;
    let piped = (server.cpu_ns()? - cpu) as f64 / 1e3 / count;
    Ok([Spread::of(&times).context("no request")?.median, one_by_one, piped, time])
}

fn events(setup: &Setup) -> Result<Vec<Figure>> {
    let (watched_in, alone_in, there) =
        (Place::with("durability = 'flush'")?, Place::with("durability = 'flush'")?, Place::new()?);
    let mut watched = Plane::start(setup, &watched_in, true)?;
    let mut alone = Plane::start(setup, &alone_in, false)?;
    let mut bare = Piped::bare(&setup.programs, &["--stream"], &there)?;
    let (mut cpu, mut whole, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=setup.pairs {
        let (watched, alone, bare) = (watched.run()?, alone.run()?, stream(&mut bare)?);
        if pair > 0 {
            cpu.push((watched.0 - alone.0, bare.0));
            whole.push((watched.0, bare.0));
            rate.push((1e3 / watched.1, 1e3 / bare.1));
        }
    }
    let figures = [
        Figure::of_pairs(
            "event through one subscription, CPU over the same run without",
            "us",
            &cpu,
            Target::Ratio(1.5),
        ),
        Figure::of_pairs("event of a run through one subscription, CPU of all", "us", &whole, Target::Information),
        Figure::of_pairs("events through one subscription", "thousand/s", &rate, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// A plane with one session.
struct Plane {
    server: Piped,
    session: Value,
    watched: bool,
}

impl Plane {
    fn start(setup: &Setup, place: &Place, watched: bool) -> Result<Self> {
        let mut server = Piped::ours(&setup.programs, place)?;
        let made = server.call("sessions.create", &json!({ "cwd": place.work() }))?;
        let session = made.get("id").cloned().context("a session without an id")?;
        if watched {
            server.call("sessions.subscribe", &json!({ "id": session }))?;
        }
        Ok(Self { server, session, watched })
    }

    /// CPU and time an event, in microseconds.
    fn run(&mut self) -> Result<(f64, f64)> {
        let text = format!("/repeat {DELTAS} {}", "x".repeat(DELTA));
        let params = json!({ "id": self.session, "parts": [{ "type": "text", "text": text }] });
        let line =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "sessions.prompt", "params": params }).to_string() + "\n";
        let (cpu, began) = (self.server.cpu_ns()?, Instant::now());
        self.server.write(line.as_bytes())?;
        // Every event comes before the reply, which is the first line with an id.
        let lines = self.server.read_until(|line| !line.starts_with(br#"{"jsonrpc":"2.0","method""#))?;
        let time = began.elapsed().as_secs_f64() * 1e6 / DELTAS as f64;
        let cpu = (self.server.cpu_ns()? - cpu) as f64 / 1e3 / DELTAS as f64;
        let deltas = lines.count(b"\"textDelta\"");
        if self.watched != (deltas == DELTAS) || (!self.watched && deltas > 0) {
            bail!("{deltas} of {DELTAS} deltas came");
        }
        Ok((cpu, time))
    }
}

/// The same of the program that only writes.
fn stream(bare: &mut Piped) -> Result<(f64, f64)> {
    let (cpu, began) = (bare.cpu_ns()?, Instant::now());
    bare.write(format!("{DELTAS} {DELTA}\n").as_bytes())?;
    bare.read_until(|line| line == b"end")?;
    let time = began.elapsed().as_secs_f64() * 1e6 / DELTAS as f64;
    Ok(((bare.cpu_ns()? - cpu) as f64 / 1e3 / DELTAS as f64, time))
}
