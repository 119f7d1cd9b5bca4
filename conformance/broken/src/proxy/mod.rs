//! The process in front of the server. Invariant: whatever becomes of it, the server behind it ends too.

pub mod frames;
pub mod http;
mod lines;
mod process;
mod tcp;

use crate::act::{Act, Break, Frame, Here, Mem, Talk};
use std::sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU32};

pub use process::run;

/// What all connections of the process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) acts: &'static [Act],
    pub(crate) here: Here,
    pub(crate) mem: Mutex<Mem>,
    /// The server's process.
    pub(crate) server: AtomicU32,
}

impl Shared {
    pub(crate) fn mem(&self) -> MutexGuard<'_, Mem> {
        self.mem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn before(&self) {
        for act in self.acts {
            if let Act::Before(hook) = act {
                hook(&self.here);
            }
        }
    }

    pub(crate) fn dies(&self) -> bool {
        self.acts.iter().any(|act| matches!(act, Act::Dies))
    }

    pub(crate) fn frame(&self, frame: &mut Frame) {
        for act in self.acts {
            if let Act::Frame(hook) = act {
                hook(frame);
            }
        }
    }

    /// A message from the client through the hook, if there is one.
    pub(crate) fn up(&self, talk: &mut Talk, text: &str) {
        talk.remember(text);
        match self.acts.iter().find_map(|act| if let Act::Up(hook) = act { Some(hook) } else { None }) {
            Some(hook) => hook(&mut self.mem(), talk, text),
            None => talk.up(text),
        }
    }

    /// A message from the server through the hook, if there is one.
    pub(crate) fn down(&self, talk: &mut Talk, text: &str) {
        self.before();
        match self.acts.iter().find_map(|act| if let Act::Down(hook) = act { Some(hook) } else { None }) {
            Some(hook) => hook(&mut self.mem(), talk, text),
            None => talk.down(text),
        }
    }
}

/// What a break of this name does; `none` does nothing.
pub(crate) fn acts(name: &str) -> anyhow::Result<&'static [Act]> {
    if name == "none" {
        return Ok(&[]);
    }
    let found = crate::rows::all().into_iter().find(|row: &&Break| row.name == name);
    Ok(found.ok_or_else(|| anyhow::anyhow!("no break is named {name}"))?.acts)
}
