//! `triplane serve`: one plane, the chosen wires, and an orderly end.
//! Invariants: every wire is bound before the first says that it is ready; the process ends by itself only after every wire
//! and the plane are done. Clauses: C01, C07, C08, C09, H01, L21, S04.

use crate::{
    cli::{ServeArgs, Transport},
    exit::{CommandError, Exit},
    home,
    settings::{Place, Settings, resolve},
    signals::Signals,
};
use serde_json::{Value, json};
use std::{io, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use triplane_common::{
    guard::{Guard, WebOrigin},
    ready::ReadyLine,
    token::Token,
};
use triplane_core::Plane;
use triplane_http::{HttpConfig, HttpLimits, ServeError, ServerInfo};
use triplane_protocol::larik;
use triplane_stdio::{Ended, StdioConfig};
use triplane_ws::{Ws, WsConfig};

/// How long runs may go on after the order to end. Clause: C09.
const GRACE: Duration = Duration::from_secs(5);
/// How long the wires wait for calls in flight: the runs' grace, and a second for the replies.
const DRAIN: Duration = Duration::from_secs(6);

/// Lock TTLs that a probed lock state is remembered, unless it is said outright. Clause: S04.
const PROBES_A_TTL: u64 = 10;
/// The least that comes out of that.
const PROBE_FLOOR_MS: u64 = 60_000;

/// What is served, with nothing left open.
#[derive(Debug)]
pub(crate) struct Serving {
    settings: Settings,
    /// Each once, in the order that they were named.
    transports: Vec<Transport>,
    origins: Vec<WebOrigin>,
}

impl Serving {
    /// Settles what `args` ask for. Errors: settings that are wrong; no transport.
    pub(crate) fn settle(args: ServeArgs) -> Result<Self, CommandError> {
        Self::of(resolve(Place::here()?, args.plane, args.serve)?)
    }

    fn of(settings: Settings) -> Result<Self, CommandError> {
        let mut transports = Vec::new();
        for transport in &settings.serve.transport {
            if !transports.contains(transport) {
                transports.push(*transport);
            }
        }
        if transports.is_empty() {
            return Err(CommandError::Usage(
                "no wire to serve: give --transport ws, http or stdio (more than one is fine)".into(),
            ));
        }
        let origin =
            |text: &String| text.parse().map_err(|why| CommandError::Usage(format!("allow-origin: `{text}`: {why}")));
        let origins = settings.serve.allow_origin.iter().map(origin).collect::<Result<_, _>>()?;
        Ok(Self { settings, transports, origins })
    }

    /// Whether one thread does: a single peer on pipes is answered faster without hand-overs.
    pub(crate) fn is_stdio_alone(&self) -> bool {
        self.transports == [Transport::Stdio]
    }

    fn guard(&self) -> Guard {
        Guard { allow_remote: self.allow_remote(), allow_origins: self.origins.clone() }
    }

    fn allow_remote(&self) -> bool {
        self.settings.serve.allow_remote.unwrap_or(false)
    }

    fn ws(&self, token: Token) -> WsConfig {
        let mut config = WsConfig { guard: self.guard(), ..WsConfig::new(token) };
        let flags = &self.settings.serve;
        if let Some(host) = &flags.host {
            config.host.clone_from(host);
        }
        config.port = flags.port.unwrap_or(config.port);
        config.max_session_bags = flags.max_session_bags.map_or(config.max_session_bags, std::num::NonZeroUsize::get);
        config.limits.drain = DRAIN;
        config.limits.stall = self.stall().unwrap_or(config.limits.stall);
        config
    }

    fn http(&self, token: Token, plane: &Plane) -> Result<HttpConfig, CommandError> {
        let node = plane.node();
        Ok(HttpConfig {
            addr: self.settings.serve.addr.clone().unwrap_or_else(|| "127.0.0.1:4096".to_owned()),
            token,
            allow_remote: self.allow_remote(),
            allow_origins: self.origins.clone(),
            info: ServerInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                providers: home::providers(&self.settings)?,
                sandbox: home::sandbox(&self.settings),
                node: larik::Node { id: node.id.clone(), name: node.name.clone() },
                transports: self.transports.iter().map(|transport| transport.name().to_owned()).collect(),
            },
            limits: HttpLimits {
                drain: DRAIN,
                stall_timeout: self.stall().unwrap_or(HttpLimits::default().stall_timeout),
                ..HttpLimits::default()
            },
        })
    }

    /// How long a client may take nothing. Clause: C14.
    fn stall(&self) -> Option<Duration> {
        self.settings.serve.stall_timeout_ms.map(Duration::from_millis)
    }

    /// The stdio wire's config; `listeners` are the ready lines of the others. Clause: S04.
    fn stdio(&self, listeners: Vec<Value>) -> StdioConfig {
        let mut config = StdioConfig::new(env!("CARGO_PKG_VERSION"));
        let flags = &self.settings.serve;
        if let Some(ms) = flags.idle_ttl_ms {
            config.idle_ttl = (ms > 0).then(|| Duration::from_millis(ms));
        }
        if let Some(ms) = flags.sweep_ms {
            config.sweep = Duration::from_millis(ms);
        }
        let by_lock = flags.lock_ttl_ms.map(|ms| ms.saturating_mul(PROBES_A_TTL).max(PROBE_FLOOR_MS));
        if let Some(ms) = flags.probe_idle_ms.or(by_lock) {
            config.probe_idle = Duration::from_millis(ms);
        }
        config.listeners = listeners;
        config.grace = GRACE;
        config
    }
}

/// A wire that is bound and not yet served.
#[derive(Debug)]
enum Wire {
    Ws(Box<Ws>),
    Http(Box<triplane_http::Bound>),
    Stdio,
}

/// Why a wire ended.
#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] ServeError),
}

impl Wire {
    async fn bind(transport: Transport, serving: &Serving, plane: &Plane, token: &Token) -> Result<Self, CommandError> {
        match transport {
            Transport::Ws => {
                let config = serving.ws(token.clone());
                let place = format!("cannot listen on {}:{}", config.host, config.port);
                let bound = Ws::bind(plane.clone(), config).await;
                bound.map(|ws| Self::Ws(Box::new(ws))).map_err(|error| not_bound(place, error))
            }
            Transport::Http => match triplane_http::bind(serving.http(token.clone(), plane)?).await {
                Ok(bound) => Ok(Self::Http(Box::new(bound))),
                Err(ServeError::Bind { addr, source }) => Err(not_bound(format!("cannot listen on {addr}"), source)),
                Err(error @ (ServeError::Addr(_) | ServeError::Ready(_) | ServeError::Table(_))) => {
                    Err(CommandError::Usage(error.to_string()))
                }
            },
            Transport::Stdio => Ok(Self::Stdio),
        }
    }

    /// The ready line that it will write; `None` for one that nobody has to connect to.
    fn ready(&self, token: &Token) -> Option<Value> {
        match self {
            Self::Ws(ws) => Some(json!({ "port": ws.address().port(), "token": token.expose() })),
            Self::Http(http) => Some(json!({ "url": http.url(), "token": token.expose() })),
            Self::Stdio => None,
        }
    }
}

/// An address that may not be used is a mistake in the flags; one that is taken is not.
fn not_bound(doing: String, error: io::Error) -> CommandError {
    if error.kind() == io::ErrorKind::InvalidInput {
        return CommandError::Usage(format!("{doing}: {error}"));
    }
    CommandError::Io { doing, source: error }
}

/// Serves until a signal, or until a wire ends.
pub(crate) async fn run(serving: Serving) -> Result<Exit, CommandError> {
    let mut signals = Signals::catch()?;
    serving.settings.warn_unread();
    // Nobody asks for it on stdio; then no variable about it can be wrong either.
    let token = if serving.is_stdio_alone() {
        Token::random()
    } else {
        Token::from_flag_or_env(serving.settings.serve.token.clone())
    };
    let token = token.map_err(|error| CommandError::Usage(error.to_string()))?;
    let plane = home::open(&serving.settings)?;
    let stop = CancellationToken::new();
    let mut wires = Vec::new();
    for transport in &serving.transports {
        wires.push(Wire::bind(*transport, &serving, &plane, &token).await?);
    }
    let listeners: Vec<Value> = wires.iter().filter_map(|wire| wire.ready(&token)).collect();
    let stdout_is_a_wire = serving.transports.contains(&Transport::Stdio);
    let mut serves = JoinSet::new();
    for wire in wires {
        let (plane, stop) = (plane.clone(), stop.clone());
        let ready = if stdout_is_a_wire { ReadyLine::stderr() } else { ReadyLine::stdout() };
        let config = serving.stdio(listeners.clone());
        serves.spawn(async move {
            match wire {
                Wire::Ws(ws) => Ok(ws.serve(ready, stop).await?),
                Wire::Http(http) => Ok(http.serve(plane, ready, stop).await?),
                Wire::Stdio => match triplane_stdio::serve(plane, config, stop).await? {
                    Ended::Eof | Ended::Broken | Ended::Shutdown | Ended::Stopped => Ok(()),
                },
            }
        });
    }
    let first = tokio::select! {
        signal = signals.next() => {
            tracing::info!(?signal, "shutting down");
            Ok(())
        }
        ended = serves.join_next() => ended.map_or(Ok(()), judge),
    };
    stop.cancel();
    let end = async {
        let drain = async {
            let mut result = first;
            while let Some(ended) = serves.join_next().await {
                result = result.and(judge(ended));
            }
            result
        };
        let (result, ()) = tokio::join!(drain, plane.shutdown(GRACE));
        result
    };
    tokio::select! {
        result = end => result.map(|()| Exit::Done),
        never = signals.exit_at_next() => match never {},
    }
}

/// What the end of a wire means for the process.
fn judge(ended: Result<Result<(), WireError>, tokio::task::JoinError>) -> Result<(), CommandError> {
    let failed = |error: String| CommandError::Io { doing: "serving".to_owned(), source: io::Error::other(error) };
    match ended {
        Ok(served) => served.map_err(|error| failed(error.to_string())),
        // The hook has logged the panic itself.
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{PlaneFlags, ServeFlags};

    fn serving(serve: ServeFlags) -> Result<Serving, CommandError> {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { cwd: dir.path().to_owned(), user_home: Some(dir.path().to_owned()) };
        Serving::of(resolve(place, PlaneFlags::default(), serve).unwrap())
    }

    fn token() -> Token {
        Token::choose(Some("a-token-for-tests".into()), |_| None).unwrap()
    }

    #[test]
    fn a_wire_named_twice_is_served_once() {
        let transport = vec![Transport::Http, Transport::Ws, Transport::Http];
        let serving = serving(ServeFlags { transport, ..ServeFlags::default() }).unwrap();
        assert_eq!(serving.transports, [Transport::Http, Transport::Ws]);
        assert!(!serving.is_stdio_alone());
    }

    #[test]
    fn no_wire_and_a_bad_origin_are_usage_errors() {
        let nothing = serving(ServeFlags::default()).unwrap_err();
        assert!(matches!(nothing, CommandError::Usage(_)), "{nothing}");
        let flags =
            ServeFlags { transport: vec![Transport::Http], allow_origin: vec!["app".into()], ..ServeFlags::default() };
        let origin = serving(flags).unwrap_err();
        assert!(origin.to_string().contains("`app`"), "{origin}");
    }

    #[test]
    fn the_stdio_wire_is_tuned_as_s04_says() {
        let resolved = |flags: ServeFlags| {
            let config = serving(ServeFlags { transport: vec![Transport::Stdio], ..flags }).unwrap().stdio(Vec::new());
            let ms = |duration: Duration| duration.as_millis();
            (config.idle_ttl.map(ms), ms(config.sweep), ms(config.probe_idle))
        };
        assert_eq!(resolved(ServeFlags::default()), (Some(600_000), 30_000, 60_000));
        let off = ServeFlags { idle_ttl_ms: Some(0), sweep_ms: Some(5), lock_ttl_ms: Some(7), ..ServeFlags::default() };
        assert_eq!(resolved(off), (None, 5, 60_000));
        let locks = ServeFlags { lock_ttl_ms: Some(7_000), ..ServeFlags::default() };
        assert_eq!(resolved(locks), (Some(600_000), 30_000, 70_000));
        let both = ServeFlags { lock_ttl_ms: Some(7_000), probe_idle_ms: Some(9), ..ServeFlags::default() };
        assert_eq!(resolved(both), (Some(600_000), 30_000, 9));
    }

    #[test]
    fn flags_reach_the_websocket_wire_and_absent_ones_leave_its_defaults() {
        let defaults = serving(ServeFlags { transport: vec![Transport::Ws], ..ServeFlags::default() }).unwrap();
        let config = defaults.ws(token());
        assert_eq!((config.host.as_str(), config.port, config.max_session_bags), ("127.0.0.1", 0, 32));
        assert!(!config.guard.allow_remote);
        let flags = ServeFlags {
            transport: vec![Transport::Ws],
            host: Some("::1".into()),
            port: Some(7),
            max_session_bags: std::num::NonZeroUsize::new(2),
            allow_remote: Some(true),
            ..ServeFlags::default()
        };
        let config = serving(flags).unwrap().ws(token());
        assert_eq!((config.host.as_str(), config.port, config.max_session_bags), ("::1", 7, 2));
        assert!(config.guard.allow_remote);
    }
}
