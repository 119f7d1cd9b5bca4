//! How old an event is when its reader has it, at 500 events a second: the model says what time it is, by the machine's own clock.

use super::{Row, Setup, session};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server},
    stats::{clock_ns, percentile},
    wire::Connection,
};
use anyhow::{Context, Result, bail};
use std::{io::Read, net::TcpStream};

pub(super) const ROW: Row = Row { name: "latency", about: "age of an event at its reader, 500 a second", run };

/// Events of one sample; two seconds of them.
const EVENTS: usize = 1000;
/// Milliseconds between two.
const EVERY_MS: usize = 2;
/// Samples at most: each takes two seconds of each server.
const SAMPLES: usize = 8;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let (here, there) = (Place::with("durability = 'flush'")?, Place::new()?);
    let ours = Server::start(&setup.programs, Kind::Http, &here)?;
    let bare = Server::start(&setup.programs, Kind::Bare, &there)?;
    let mut ask_ours = Connection::open(ours.addr)?;
    let mut ask_bare = Connection::open(bare.addr)?;
    let id = session(&mut ask_ours)?;
    let mut stream_ours = Connection::open(ours.addr)?.stream(&format!("/v1/sessions/{id}/events"))?;
    let mut stream_bare = Connection::open(bare.addr)?.stream("/events")?;
    let script = serde_json::json!({ "text": format!("/clock {EVENTS} {EVERY_MS}") }).to_string();
    let (mut middle, mut late) = (Vec::new(), Vec::new());
    for _ in 0..setup.pairs.min(SAMPLES) {
        ask_ours.call("POST", &format!("/v1/sessions/{id}/prompt"), &script)?;
        let ours = ages_us(&mut stream_ours, r#""busy":false"#)?;
        ask_bare.call("POST", &format!("/publish?n={EVENTS}&every_ms={EVERY_MS}"), "")?;
        let bare = ages_us(&mut stream_bare, "event: final")?;
        let at = |ages: &[f64], of_hundred| percentile(ages, of_hundred).context("no event came");
        middle.push((at(&ours, 50)?, at(&bare, 50)?));
        late.push((at(&ours, 99)?, at(&bare, 99)?));
    }
    let figures = [
        Figure::of_pairs("age of an event at its reader, p50", "us", &middle, Target::Ratio(1.3)),
        Figure::of_pairs("age of an event at its reader, p99", "us", &late, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// The age of each delta when it was read, up to the event with `last` in it.
fn ages_us(stream: &mut TcpStream, last: &str) -> Result<Vec<f64>> {
    let (mut ages, mut text, mut buffer) = (Vec::new(), String::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer).context("reading events")?;
        let now = clock_ns();
        if read == 0 {
            bail!("a stream ended");
        }
        text.push_str(&String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()));
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            if event.contains(last) {
                if ages.len() != EVENTS {
                    bail!("{} of {EVENTS} deltas came", ages.len());
                }
                return Ok(ages);
            }
            if let Some((_, said)) = event.split_once("\"text\":\"").filter(|_| event.contains("event: llm_delta")) {
                let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
                let then: u128 = digits.parse().context("a delta that is no time")?;
                ages.push(now.saturating_sub(then) as f64 / 1e3);
            }
        }
    }
}
