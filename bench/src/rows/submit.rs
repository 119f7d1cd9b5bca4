//! One run over a WebSocket: what the server pays for each event, and how long until the reply.

use super::{DELTA, Row, Setup};
use crate::{
    report::{Figure, Target},
    server::{Kind, Place, Server, TOKEN},
    sock::Socket,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Instant;

pub(super) const ROW: Row = Row { name: "submit", about: "CPU an event of a submit over WebSocket", run };

const DELTAS: usize = 5000;

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let (here, there) = (Place::with("durability = 'flush'")?, Place::new()?);
    let ours = Server::start(&setup.programs, Kind::Ws, &here)?;
    let bare = Server::start(&setup.programs, Kind::BareWs, &there)?;
    let path = format!("/?token={TOKEN}");
    let (mut on_ours, mut on_bare) = (Socket::open(ours.addr, &path)?, Socket::open(bare.addr, &path)?);
    on_ours.send(
        &json!({"jsonrpc": "2.0", "id": 1, "method": "session.create", "params": {"source": "bench"}}).to_string(),
    )?;
    let made: Value = serde_json::from_slice(on_ours.frame()?)?;
    let id = made.pointer("/result/session_id").and_then(Value::as_str).context("no session")?.to_owned();
    let text = format!("/repeat {DELTAS} {}", "x".repeat(DELTA));
    let ask_ours =
        json!({"jsonrpc": "2.0", "id": 2, "method": "prompt.submit", "params": {"session_id": id, "text": text}});
    let ask_bare =
        json!({"jsonrpc": "2.0", "id": 2, "method": "prompt.submit", "params": {"n": DELTAS, "bytes": DELTA}});
    let (mut cpu, mut time) = (Vec::new(), Vec::new());
    for pair in 0..=setup.pairs {
        let ours = round(&ours, &mut on_ours, &ask_ours.to_string())?;
        let bare = round(&bare, &mut on_bare, &ask_bare.to_string())?;
        // The first round warms both.
        if pair > 0 {
            cpu.push((ours.0, bare.0));
            time.push((ours.1, bare.1));
        }
    }
    let figures = [
        Figure::of_pairs("event of a submit over WebSocket, CPU", "us", &cpu, Target::Information),
        Figure::of_pairs("submit of 5000 deltas over WebSocket, to its reply", "ms", &time, Target::Information),
    ];
    Ok(figures.into_iter().flatten().collect())
}

/// CPU an event in microseconds, and the time to the reply in milliseconds.
fn round(server: &Server, socket: &mut Socket, ask: &str) -> Result<(f64, f64)> {
    let (cpu, began) = (server.cpu_ns()?, Instant::now());
    socket.send(ask)?;
    let delta = memchr::memmem::Finder::new("\"llm_delta\"");
    let mut deltas = 0;
    loop {
        let frame = socket.frame()?;
        if !frame.get(..64).unwrap_or(frame).windows(8).any(|piece| piece == b"\"method\"") {
            break;
        }
        deltas += usize::from(delta.find(frame).is_some());
    }
    let time = began.elapsed().as_secs_f64() * 1e3;
    if deltas != DELTAS {
        bail!("{deltas} of {DELTAS} deltas came");
    }
    Ok(((server.cpu_ns()? - cpu) as f64 / 1e3 / DELTAS as f64, time))
}
