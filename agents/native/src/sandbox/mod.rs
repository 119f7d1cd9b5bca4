//! The sandbox of commands: which one holds for a mode, and the system's means to keep it.
//! Invariants: a command that was to be confined never runs unconfined: when the means fail, it is not started; what is in force is
//! told to the person who is asked and to the model. Commands are confined, our own tools are not: those ask for each path.
//!
//! Linux has Landlock for files and seccomp for the network (`linux`), macOS has `sandbox-exec` (`macos`); elsewhere nothing.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::OnceLock,
};
use triplane_protocol::ir::Mode;

/// How far commands are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SandboxMode {
    /// Not at all.
    Off,
    /// They write in the session's directory and in temporary ones only.
    WorkspaceWrite,
    /// They write nowhere.
    ReadOnly,
}

impl SandboxMode {
    /// As it is written in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    /// What holds in `mode` when nobody said anything: where no person sees each command, the sandbox does.
    const fn usual(mode: Mode) -> Self {
        match mode {
            Mode::Plan | Mode::Default => Self::Off,
            Mode::AcceptEdits | Mode::Bypass => Self::WorkspaceWrite,
        }
    }
}

/// What is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// `None`: by the session's mode.
    pub mode: Option<SandboxMode>,
    /// Whether confined commands reach the network.
    pub network: bool,
    /// Directories that `workspace-write` may write in too; absolute.
    pub writable: Vec<PathBuf>,
}

/// The system's means; the word for people. `Err`: why there are none.
pub fn available() -> Result<&'static str, &'static str> {
    static FOUND: OnceLock<Result<&'static str, &'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        #[cfg(target_os = "linux")]
        return linux::available();
        #[cfg(target_os = "macos")]
        return macos::available();
        #[cfg(not(any(target_os = "linux", target_os = "macos")))]
        return Err("this system has none that is known");
    })
}

/// What holds for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing, as it is set, or as a person allowed.
    Free,
    /// It is confined.
    Confined(SandboxMode, Confine),
    /// It should be, and cannot be here.
    Missing {
        why: &'static str,
        /// Whether somebody asked for a sandbox outright: then no command goes ahead without a person's word.
        asked_for: bool,
    },
}

impl Hold {
    /// What holds for commands in `cwd`, which is resolved. `shim`: whether commands are started through it.
    pub(crate) fn of(config: &SandboxConfig, mode: Mode, cwd: &Path, shim: bool) -> Self {
        let wanted = config.mode.unwrap_or(SandboxMode::usual(mode));
        let writable = match wanted {
            SandboxMode::Off => return Self::Free,
            SandboxMode::ReadOnly => Vec::new(),
            SandboxMode::WorkspaceWrite => {
                let mut all =
                    vec![cwd.to_owned(), std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")];
                all.extend(config.writable.iter().cloned());
                all
            }
        };
        match available() {
            Err(why) => Self::Missing { why, asked_for: config.mode.is_some() },
            Ok(_) if !shim => {
                Self::Missing { why: "this build has no shim to start it", asked_for: config.mode.is_some() }
            }
            Ok(_) => Self::Confined(wanted, Confine { writable, network: config.network }),
        }
    }

    /// For people and for the model: a few words.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Free => "no sandbox".to_owned(),
            Self::Confined(mode, confine) => {
                format!("sandbox: {}, {}", mode.name(), if confine.network { "network" } else { "no network" })
            }
            Self::Missing { why, .. } => format!("no sandbox: {why}"),
        }
    }

    /// For the model, before the conversation.
    pub(crate) fn taught(&self) -> String {
        match self {
            Self::Free => "none".to_owned(),
            Self::Missing { why, .. } => format!("none ({why})"),
            Self::Confined(mode, confine) => {
                let files = match mode {
                    SandboxMode::Off => "anywhere",
                    SandboxMode::WorkspaceWrite => "only below the working directory and the temporary one",
                    SandboxMode::ReadOnly => "nowhere",
                };
                let network = if confine.network { "they reach the network" } else { "they have no network" };
                format!(
                    "{}: commands of `bash` can write {files}; {network}. When a command fails for that, call again with \
                     `unconfined`, and the person is asked",
                    mode.name()
                )
            }
        }
    }

    /// What to say under a failed command's output when it looks as if the sandbox was the reason.
    pub(crate) fn blamed(&self, output: &str) -> Option<String> {
        let Self::Confined(_, confine) = self else { return None };
        let files = ["Permission denied", "Operation not permitted", "Read-only file system", "EACCES", "EPERM"];
        let network = [
            "Network is unreachable",
            "Couldn't connect",
            "name resolution",
            "Could not resolve",
            "could not resolve",
            "Name or service not known",
            "ENOTFOUND",
            "EAI_AGAIN",
            "dns error",
        ];
        let has = |words: &[&str]| words.iter().any(|word| output.contains(word));
        let stopped = has(&files) || (!confine.network && has(&network));
        stopped.then(|| {
            format!(
                "[the sandbox has probably stopped this ({}); if it is needed, call again with `unconfined`: the person is \
                 asked then]",
                self.told()
            )
        })
    }
}

/// What a confined command may do; goes to the shim as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confine {
    /// Where it may write; what is not there is passed over.
    pub(crate) writable: Vec<PathBuf>,
    /// Whether it reaches the network.
    pub(crate) network: bool,
}

impl Confine {
    /// Starts `program` so that it and all its children are confined. Errors: the means failed; nothing was started.
    pub(crate) fn spawn(
        &self,
        program: &OsString,
        args: Vec<OsString>,
        set: impl FnOnce(&mut Command) + Send,
    ) -> Result<Child, String> {
        #[cfg(target_os = "linux")]
        return linux::spawn(self, program, args, set);
        #[cfg(target_os = "macos")]
        return macos::spawn(self, program, args, set);
        #[cfg(not(any(target_os = "linux", target_os = "macos")))]
        {
            let _ = (program, args, set);
            Err("the sandbox cannot be set up: this system has none that is known".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_person_looks_the_sandbox_does() {
        let hold = |mode, of| Hold::of(&SandboxConfig { mode, ..SandboxConfig::default() }, of, Path::new("/w"), true);
        for mode in [Mode::Plan, Mode::Default] {
            assert_eq!(hold(None, mode), Hold::Free);
        }
        assert_eq!(hold(Some(SandboxMode::Off), Mode::Bypass), Hold::Free);
        match available() {
            Ok(_) => {
                for mode in [Mode::AcceptEdits, Mode::Bypass] {
                    assert_eq!(hold(None, mode).told(), "sandbox: workspace-write, no network");
                }
                assert_eq!(hold(Some(SandboxMode::ReadOnly), Mode::Default).told(), "sandbox: read-only, no network");
            }
            Err(why) => assert_eq!(hold(None, Mode::Bypass), Hold::Missing { why, asked_for: false }),
        }
        let bare = Hold::of(&SandboxConfig::default(), Mode::Bypass, Path::new("/w"), false);
        assert!(matches!(bare, Hold::Missing { asked_for: false, .. }), "{bare:?}");
    }

    #[test]
    fn only_what_the_sandbox_may_have_stopped_is_blamed_on_it() {
        let confine = Confine { writable: Vec::new(), network: true };
        let hold = Hold::Confined(SandboxMode::ReadOnly, confine);
        assert!(hold.blamed("touch: x: Permission denied").unwrap().contains("unconfined"));
        assert_eq!(hold.blamed("curl: (6) Could not resolve host"), None);
        assert_eq!(hold.blamed("assertion failed"), None);
        assert_eq!(Hold::Free.blamed("Permission denied"), None);
    }
}
