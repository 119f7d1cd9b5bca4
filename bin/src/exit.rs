//! How the program ends: the exit codes that its help promises, and what a person is told on stderr.

use crate::{plain, settings::SettingsError};
use std::{error::Error as _, io, process::ExitCode};
use triplane_core::PlaneError;

/// How a command ended, when nothing went wrong on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// The run did not complete; what there is to say was said.
    Failed,
    /// Cancelled from the keyboard.
    Cancelled,
    /// A command with codes of its own; its help tells them.
    Code(u8),
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// A flag, a variable or a settings file is wrong.
    #[error("{0}")]
    Usage(String),
    /// Settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The plane refused.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// A mistake of ours.
    #[error("{0}; this is a defect")]
    Defect(String),
    /// Reading or writing failed.
    #[error("{doing} failed")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl CommandError {
    /// `map_err` for the system.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.into(), source }
    }

    /// Whether whoever read our stdout went away, as `head` does; that is no failure.
    fn reader_left(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Settings(_) => 2,
            Self::Plane(_) | Self::Io { .. } | Self::Defect(_) => 1,
        }
    }
}

/// The exit code of a command; an error is told on stderr, with its causes.
pub(crate) fn code(result: Result<Exit, CommandError>) -> ExitCode {
    match result {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::FAILURE,
        Ok(Exit::Cancelled) => ExitCode::from(130),
        Ok(Exit::Code(code)) => ExitCode::from(code),
        Err(error) if error.reader_left() => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(next) = cause {
                text = format!("{text}: {next}");
                cause = next.source();
            }
            anstream::eprintln!("triplane: {}", plain::line(&text));
            ExitCode::from(error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_help() {
        let usage = CommandError::Usage("no".into());
        let io = |kind| CommandError::io("writing")(io::Error::from(kind));
        assert_eq!(usage.code(), 2);
        assert_eq!(CommandError::Plane(PlaneError::NoAgent).code(), 1);
        assert!(io(io::ErrorKind::BrokenPipe).reader_left());
        assert!(!io(io::ErrorKind::StorageFull).reader_left());
    }
}
