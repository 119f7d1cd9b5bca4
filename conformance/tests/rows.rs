//! The three tables as a whole: every row says what it is and which clauses it answers to, the rows that are declared but not
//! built are exactly those of a committed list, and cases name clauses that exist.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot look has failed")]

use std::{collections::BTreeSet, fs, path::Path};
use triplane_conformance::cases;
use triplane_protocol::{larik, lich, sepia};

/// What the three kinds of rows have in common.
struct Row {
    /// `wire method`.
    name: String,
    doc: &'static str,
    clauses: &'static [&'static str],
    built: bool,
}

fn rows() -> Vec<Row> {
    let rpc = |wire: &'static str| {
        move |row: &triplane_protocol::table::Row| Row {
            name: format!("{wire} {}", row.name),
            doc: row.doc,
            clauses: row.clauses,
            built: row.built,
        }
    };
    let rest = larik::ROWS.iter().map(|row| Row {
        name: format!("larik {} {}", row.verb.as_str(), row.path),
        doc: row.doc,
        clauses: row.clauses,
        built: row.built,
    });
    lich::ROWS.iter().map(rpc("lich")).chain(rest).chain(sepia::ROWS.iter().map(rpc("sepia"))).collect()
}

/// Rows that answer to no clause: additions of our own. There are none.
const WITHOUT_CLAUSE: &[&str] = &[];

/// The lines of a committed list.
fn committed(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    text.lines().map(str::to_owned).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The clauses' ids.
fn clauses() -> BTreeSet<String> {
    committed("clauses.txt").iter().filter_map(|line| line.split_once(' ')).map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn clauses_are_sorted_and_say_something() {
    let lines = committed("clauses.txt");
    let ids: Vec<&str> = lines.iter().map(|line| line.split_once(' ').expect("an id and a statement").0).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(ids, sorted, "clauses.txt is sorted, each clause once");
    let well_formed = |id: &str| {
        id.len() == 3 && id.starts_with(['C', 'L', 'H', 'S']) && id[1..].bytes().all(|byte| byte.is_ascii_digit())
    };
    assert!(ids.iter().all(|id| well_formed(id)), "{ids:?}");
}

#[test]
fn every_row_is_documented_and_answers_to_clauses() {
    let known = clauses();
    for row in rows() {
        assert!(row.doc.trim().len() > 10, "{} has no doc", row.name);
        assert_eq!(
            row.clauses.is_empty(),
            WITHOUT_CLAUSE.contains(&row.name.as_str()),
            "{}: {:?}",
            row.name,
            row.clauses
        );
        for clause in row.clauses {
            assert!(known.contains(*clause), "{} names {clause}, which is not in clauses.txt", row.name);
        }
    }
}

#[test]
fn what_is_not_built_is_committed() {
    let mut missing: Vec<String> = rows().into_iter().filter(|row| !row.built).map(|row| row.name).collect();
    missing.sort();
    assert_eq!(committed("not-built.txt"), missing, "not-built.txt lists the rows marked `later`, sorted");
}

#[test]
fn cases_have_one_name_each_and_known_clauses() {
    let known = clauses();
    let mut names = BTreeSet::new();
    for case in cases::all() {
        assert!(names.insert(case.id), "{} twice", case.id);
        assert!(!case.wires.is_empty(), "{} runs on no wire", case.id);
        let first = case.clauses.first().expect("a clause").to_lowercase();
        assert!(case.id.starts_with(&format!("{first}-")), "{} does not begin with its clause {first}", case.id);
        for clause in case.clauses {
            assert!(known.contains(*clause), "{} names {clause}, which is not in clauses.txt", case.id);
        }
    }
}

/// Clauses without a case. Shrinks; a clause that gets a case must leave it.
#[test]
fn clauses_without_a_case_are_committed() {
    let judged: BTreeSet<&str> = cases::all().iter().flat_map(|case| case.clauses.iter().copied()).collect();
    let missing: Vec<String> = clauses().into_iter().filter(|clause| !judged.contains(clause.as_str())).collect();
    assert_eq!(committed("not-judged.txt"), missing, "not-judged.txt lists the clauses that no case names, sorted");
}
