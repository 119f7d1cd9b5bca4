//! Black box suite: judges any server that speaks the lich, larik or sepia wire by what a client of it can see.
//! Knows the wire types and the scripted model, and nothing of the server's own code.
//!
//! Reading order:
//! - [`verdict`]: what a case can end with; "the server broke a clause" apart from "the runner failed".
//! - [`case`](mod@case): what a case declares.
//! - [`target`]: the server under test: spawned here, or reached at an address.
//! - [`client`]: one client a wire, and [`client::Front`], what the three have in common.
//! - [`lacks`]: what a server says that it does not have.
//! - [`book`]: the schemas and error codes that every answer is held against.
//! - [`ctx`]: what a case is given.
//! - [`mod@cases`]: the cases, one file a topic.
//! - [`runner`]: runs one case on one wire to its verdict.
//! - [`probe`]: whether there is a server at all, and whether a prompt is a script to it.
//! - [`suite`]: many cases against one target. [`report`]: what they found, for people and for machines.

pub mod book;
pub mod case;
pub mod cases;
pub mod client;
pub mod ctx;
pub mod json;
pub mod lacks;
pub mod probe;
pub mod report;
pub mod runner;
pub mod suite;
pub mod target;
pub mod verdict;

pub use case::{Case, Need, Wire};
pub use lacks::Lacks;
pub use report::Report;
pub use runner::{Options, run};
pub use suite::judge;
pub use target::Target;
pub use verdict::{Outcome, Stop, Verdict};
