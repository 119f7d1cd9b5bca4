//! What a case declares: the clauses that it judges, the wires that it runs on, what it needs, and the function that runs it.

use crate::{ctx::Ctx, verdict::Outcome};
use futures_util::future::BoxFuture;
use std::fmt;

/// A wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wire {
    /// lich: JSON-RPC over WebSocket.
    Ws,
    /// larik: HTTP and server-sent events.
    Http,
    /// sepia: JSON-RPC, a line each, over stdio.
    Stdio,
}

impl Wire {
    /// All three.
    pub const ALL: &[Self] = &[Self::Ws, Self::Http, Self::Stdio];

    /// As in `--transport`.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Ws => "ws",
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.flag())
    }
}

/// What a case needs beside a server to talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The server is started by the runner: flags, environment, signals, restarts.
    Process,
    /// The server has no sessions but those that the case makes.
    Fresh,
    /// The session directory can be read and written.
    Files,
    /// More than some seconds; run only when asked for.
    Slow,
    /// The server runs the scripted model, so that a prompt's outcome is known.
    Script,
}

/// The function of a case.
pub type Run = for<'a> fn(&'a mut Ctx) -> BoxFuture<'a, Outcome>;

/// One case.
pub struct Case {
    /// Names it; begins with its first clause, in lower case.
    pub id: &'static str,
    /// The clauses that it judges, the main one first.
    pub clauses: &'static [&'static str],
    /// The wires that it is run on, once each.
    pub wires: &'static [Wire],
    /// What it needs.
    pub needs: &'static [Need],
    /// Runs it.
    pub run: Run,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("wires", &self.wires).finish_non_exhaustive()
    }
}

/// Declares the cases of one file: `"l03-name" on WS [L03, C02] needs [Script] => function;`.
#[macro_export]
macro_rules! cases {
    ($( $id:literal on $wires:ident [$($clause:ident),+] $(needs [$($need:ident),+])? => $run:path; )+) => {
        /// The cases of this file.
        pub const CASES: &[$crate::Case] = &[ $( $crate::Case {
            id: $id,
            clauses: &[$(stringify!($clause)),+],
            wires: $wires,
            needs: &[$($($crate::Need::$need),+)?],
            run: |ctx| Box::pin($run(ctx)),
        } ),+ ];
    };
}
