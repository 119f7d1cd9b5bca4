//! The breaks, one row each.

mod agents;
mod common;
mod larik;
mod lich;
mod sepia;

use crate::act::{Act, Break};
use triplane_conformance::Wire;

/// Every row.
pub fn all() -> Vec<&'static Break> {
    [common::ROWS, lich::ROWS, larik::ROWS, sepia::ROWS, agents::ROWS].into_iter().flatten().collect()
}

const fn row(
    name: &'static str,
    wires: &'static [Wire],
    clause: &'static str,
    case: &'static str,
    acts: &'static [Act],
) -> Break {
    Break { name, wires, clause, case, acts }
}

/// Clauses that nothing can break here: clause, wires, why.
pub const NO_BREAK: &[(&str, &str, &str)] = &[
    ("C02", "http", "speaks of the JSON-RPC wires"),
    ("C11", "http", "has a permission method, so somebody can always answer"),
];
