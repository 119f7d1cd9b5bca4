//! One live session: a pure state machine inside one owning task.

mod sink;

pub use sink::{ChangeGuard, PermissionAsk, RunSink, ToolKind, Verdict};
