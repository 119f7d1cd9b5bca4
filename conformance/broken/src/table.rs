//! The rows as a page: every clause, the breaks of it, and the case that catches each.

use crate::{
    act::{Act, Break},
    rows::{NO_BREAK, all},
};
use std::fmt::Write as _;

/// The page, for these clauses in this order.
pub fn page(clauses: &[String]) -> String {
    let rows = all();
    let mut page = String::from(
        "# Servers broken on purpose\n\n\
         Made from the rows in `conformance/broken`; a test compares it, runs each server with the case beside it, and fails\n\
         unless the case blames the clause. It runs the same case against the same process with nothing broken too, which must pass.\n\
         To write it anew: `BROKEN_PAGE=write cargo test -p triplane-broken`.\n\n\
         | clause | broken server | wire | how | case that catches it |\n|---|---|---|---|---|\n",
    );
    for clause in clauses {
        for row in rows.iter().filter(|row| row.clause == clause) {
            let wires: Vec<&str> = row.wires.iter().map(|wire| wire.flag()).collect();
            // Writing to a string does not fail.
            let _ =
                writeln!(page, "| {clause} | {} | {} | {} | `{}` |", row.name, wires.join(", "), how(row), row.case);
        }
        for (_, wire, why) in NO_BREAK.iter().filter(|(of, ..)| of == clause) {
            let _ = writeln!(page, "| {clause} | none | {wire} | {why} | |");
        }
    }
    let runs: usize = rows.iter().map(|row| row.wires.len()).sum();
    let _ = writeln!(page, "\n{} servers, {runs} with their wires; {} clauses.", rows.len(), clauses.len());
    page
}

/// What is meddled with.
fn how(row: &Break) -> String {
    let mut words: Vec<&str> = row.acts.iter().filter_map(word).collect();
    words.dedup();
    words.join(", ")
}

fn word(act: &Act) -> Option<&'static str> {
    Some(match act {
        Act::Start(_) => "the start: flags, variables, files",
        Act::Front(_) => return None,
        Act::Everywhere => "the address it listens on",
        Act::Ready(_) | Act::ReadyElsewhere => "the ready line",
        Act::Prints(_) => "stdout",
        Act::Logs(_) => "stderr",
        Act::Child => "a process",
        Act::Signals(_) => "signals",
        Act::Exits(_) => "the exit status",
        Act::KeepsStdin => "the end of stdin",
        Act::Dies => "the process",
        Act::Mute => "refusals",
        Act::Before(_) => "files",
        Act::Up(_) => "messages to the server",
        Act::Down(_) => "messages from the server",
        Act::Frame(_) => "frames",
        Act::Request(_) => "requests",
        Act::Response(_) => "responses",
        Act::Event(_) => "the event stream",
    })
}
