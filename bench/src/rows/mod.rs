//! What is measured, a file a row. A new row: a file here, and a line in [`ROWS`].

mod fanout;
mod idle;
mod latency;
mod plane;
mod ready;
mod relay;
mod rpc;
mod stalled;
mod stdio;
mod stored;
mod submit;

use crate::{
    report::Figure,
    server::{Kind, Place, Programs, Server},
    swarm::Swarm,
    wire::Connection,
};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// What a row is given.
#[derive(Debug)]
pub struct Setup {
    /// The programs under test.
    pub programs: Programs,
    /// Interleaved pairs a figure.
    pub pairs: usize,
}

/// One measurement.
#[derive(Debug)]
pub struct Row {
    /// As it is named on the command line.
    pub name: &'static str,
    /// What it tells, in a line.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&Setup) -> Result<Vec<Figure>>,
}

/// Every row, in the order that `all` runs them.
pub const ROWS: &[Row] = &[
    fanout::ROW,
    relay::ROW,
    submit::ROW,
    latency::ROW,
    stalled::ROW,
    rpc::ROW,
    idle::ROW,
    ready::ROW,
    stored::ROW,
    plane::ROW,
    stdio::REQUESTS,
    stdio::EVENTS,
];

/// Characters of one delta; with what both servers put around it, an event has about 200 bytes.
const DELTA: usize = 83;
/// Bytes of one event.
const EVENT: usize = 200;

/// A server with subscribers, asked to publish again and again.
struct Fed {
    server: Server,
    ask: Connection,
    swarm: Swarm,
    /// Where a run is asked for.
    path: String,
    kind: Kind,
    _place: Place,
}

/// What one run of deltas cost.
struct Fed1 {
    cpu_ns: f64,
    time: Duration,
}

impl Fed {
    /// Starts a server and `subscribers` of one session.
    fn start(setup: &Setup, kind: Kind, settings: &str, subscribers: usize) -> Result<Self> {
        let place = Place::with(settings)?;
        let server = Server::start(&setup.programs, kind, &place)?;
        let mut ask = Connection::open(server.addr)?;
        let (events, path) = match kind {
            Kind::Bare => ("/events".to_owned(), "/publish".to_owned()),
            Kind::Http | Kind::Ws | Kind::BareWs => {
                let id = session(&mut ask)?;
                (format!("/v1/sessions/{id}/events"), format!("/v1/sessions/{id}/prompt"))
            }
        };
        let mut swarm = Swarm::new()?;
        for _ in 0..subscribers {
            swarm.add(Connection::open(server.addr)?.stream(&events)?)?;
        }
        Ok(Self { server, ask, swarm, path, kind, _place: place })
    }

    /// Publishes `deltas` and reads them all. Errors: a subscriber that got fewer.
    fn run(&mut self, deltas: usize) -> Result<Fed1> {
        let text = "x".repeat(DELTA);
        let (path, body, last) = match self.kind {
            Kind::Bare => (format!("{}?n={deltas}&bytes={EVENT}", self.path), String::new(), "event: final"),
            Kind::Http | Kind::Ws | Kind::BareWs => {
                let script = serde_json::json!({ "text": format!("/repeat {deltas} {text}") });
                (self.path.clone(), script.to_string(), r#""busy":false"#)
            }
        };
        let cpu = self.server.cpu_ns()?;
        let began = Instant::now();
        self.ask.call("POST", &path, &body)?;
        self.swarm.read_until(last, "event: llm_delta", deltas)?;
        let time = began.elapsed();
        Ok(Fed1 { cpu_ns: (self.server.cpu_ns()? - cpu) as f64, time })
    }
}

/// A fresh session.
fn session(ask: &mut Connection) -> Result<String> {
    let session: serde_json::Value = serde_json::from_str(&ask.call("POST", "/v1/sessions", "{}")?)?;
    Ok(session.get("id").and_then(|id| id.as_str()).context("a session without an id")?.to_owned())
}

/// Raises the limit of open files, here and (by inheritance) in the servers.
fn allow_sockets() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("raising the limit of open files")
}
