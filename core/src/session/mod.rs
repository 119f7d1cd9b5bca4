//! One live session: a pure state machine inside one owning task.
//!
//! - `machine`: the state and its one `step`; `input`: what goes in and what comes out.
//! - `asks`: permission requests. `tasks`: background tasks. `overflow`: a run whose context does not fit.
//! - `upkeep`: what is done to a session at rest: clear, compaction, reservations.
//! - `actor`: the task that owns the machine and carries its effects out.
//! - `live`: the session as the rest of the plane sees it. `sink`: as its running agent sees it.

mod actor;
mod asks;
pub mod input;
mod live;
mod machine;
#[cfg(test)]
mod machine_tests;
mod overflow;
mod sink;
mod tasks;
mod upkeep;

pub(crate) use actor::Actor;
pub(crate) use live::{Live, Parts, Services, fresh_id, now_ms, run_id};
pub use machine::Machine;
pub use sink::{ChangeGuard, PermissionAsk, RunSink, TaskOutput, ToolKind, Verdict};
