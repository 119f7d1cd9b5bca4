//! Flags of `conformance`.

use clap::{Args, ValueEnum};
use std::{num::NonZero, path::PathBuf};
use triplane_conformance::Wire;

/// Behind the flags.
pub(super) const HELP: &str = "\
Exit codes:
  0  every clause that was judged held
  1  the server broke a clause
  2  nothing answers there, or it is no server of the wire; or a flag is wrong
  3  the runner itself failed, so that nothing is proved

Examples:
  triplane conformance --stdio \"triplane serve --transport stdio\"
  TRIPLANE_TOKEN=$(cat token) triplane conformance --http http://127.0.0.1:4096
  triplane conformance --ws ws://127.0.0.1:4100 --only L16,L18 --report json --out report.json
  triplane conformance --stdio \"node my-server.js\" --lacks projects,sessions.convert,S31
  triplane conformance --model-port 4101 --http http://127.0.0.1:4096
      the server was started with OPENAI_BASE_URL=http://127.0.0.1:4101/v1 or the like

docs/conformance.md tells what a server under test needs.";

/// Flags of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The token of a server that listens; better given as a variable, out of the process list
    #[arg(long, env = "TRIPLANE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The wire that `--program` is judged over
    #[arg(long, value_enum, requires = "program")]
    pub(crate) wire: Option<WireFlag>,
    /// How the report is written
    #[arg(long, value_enum, default_value_t = ReportKind::Text)]
    pub(crate) report: ReportKind,
    /// Writes the report there instead of to stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Also runs the cases that have to wait long; without it a run ends within 45 s
    #[arg(long)]
    pub(crate) slow: bool,
    /// Only cases that judge one of these clauses
    #[arg(long, value_name = "CLAUSE", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// What the server does not have: clauses, methods (`sessions.convert`), groups of them (`projects`), words of a path
    /// (`fork`), or `script`, if its model cannot be the scripted one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) lacks: Vec<String>,
    /// The server's tools never ask: cases that need that are run too
    #[arg(long)]
    pub(crate) bypass: bool,
    /// Where the scripted model is served on 127.0.0.1; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) model_port: u16,
    /// Cases beside each other, where each has a server to itself; two for each CPU unless told
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZero<usize>>,
    /// Nothing on stderr but errors
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The server under test; one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArgs {
    /// A lich server that listens: `ws://127.0.0.1:4100`
    #[arg(long, value_name = "URL")]
    pub(crate) ws: Option<String>,
    /// A larik server that listens: `http://127.0.0.1:4096`
    #[arg(long, value_name = "URL")]
    pub(crate) http: Option<String>,
    /// A command that speaks sepia on its stdin and stdout
    #[arg(long, value_name = "COMMAND")]
    pub(crate) stdio: Option<String>,
    /// A program that takes the flags of `triplane serve`: then also flags, signals, restarts and files are judged
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportKind {
    /// A table by clause
    Text,
    /// One JSON object
    Json,
    /// JUnit XML
    Junit,
}

/// A wire, as in `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireFlag {
    /// WebSocket
    Ws,
    /// HTTP + SSE
    Http,
    /// stdio
    Stdio,
}

impl From<WireFlag> for Wire {
    fn from(wire: WireFlag) -> Self {
        match wire {
            WireFlag::Ws => Self::Ws,
            WireFlag::Http => Self::Http,
            WireFlag::Stdio => Self::Stdio,
        }
    }
}
