//! `triplane serve`: one plane, the chosen wires, and an orderly end.
//! Clauses: C01, C07, C09, H01, L21, S04.

use crate::{
    cli::{ServeArgs, Transport},
    exit::{CommandError, Exit},
    home,
    settings::{Place, Settings, resolve},
    signals::Signals,
};
use std::time::Duration;

/// How long runs may go on after the order to end. Clause: C09.
const GRACE: Duration = Duration::from_secs(5);

/// What is served, with nothing left open.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) settings: Settings,
    /// Each once, in the order that they were named.
    pub(crate) transports: Vec<Transport>,
}

impl Serving {
    /// Settles what `args` ask for. Errors: settings that are wrong; no transport.
    pub(crate) fn settle(args: ServeArgs) -> Result<Self, CommandError> {
        let settings = resolve(Place::here()?, args.plane, args.serve)?;
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
        Ok(Self { settings, transports })
    }

    /// Whether one thread does: a single peer on pipes is answered faster without hand-overs.
    pub(crate) fn is_stdio_alone(&self) -> bool {
        self.transports == [Transport::Stdio]
    }
}

/// Serves until a signal, or until a wire is done.
pub(crate) async fn run(serving: Serving) -> Result<Exit, CommandError> {
    let mut signals = Signals::catch()?;
    serving.settings.warn_unread();
    let plane = home::open(&serving.settings)?;
    signals.next().await;
    tokio::select! {
        () = plane.shutdown(GRACE) => Ok(Exit::Done),
        never = signals.exit_at_next() => match never {},
    }
}
