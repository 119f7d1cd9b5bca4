//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once. Clause: C09.

use crate::exit::CommandError;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that asks us to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// From the keyboard.
    Interrupt,
    /// From whoever manages the process.
    Terminate,
}

impl Signal {
    /// What a shell makes of a process that this signal ended.
    pub(crate) const fn exit_code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals that arrive from now on. Dropped, they go on being caught and are no longer seen.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Stream,
    terminate: Stream,
}

impl Signals {
    /// Starts catching. Errors: the system refused.
    pub(crate) fn catch() -> Result<Self, CommandError> {
        let stream = |kind| signal(kind).map_err(CommandError::io("catching signals"));
        Ok(Self { interrupt: stream(SignalKind::interrupt())?, terminate: stream(SignalKind::terminate())? })
    }

    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        // `None` cannot happen while the runtime lives; waiting for ever is then right.
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            else => std::future::pending().await,
        }
    }

    /// Ends the process at the next signal. Runs until then; meant to be raced with an orderly end.
    pub(crate) async fn exit_at_next(&mut self) -> std::convert::Infallible {
        let signal = self.next().await;
        tracing::warn!("a second signal: ending at once");
        std::process::exit(signal.exit_code())
    }
}
