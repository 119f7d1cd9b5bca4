//! What a server says, or its owner says of it, that it does not have: a case that needs that is skipped, and counted.
//! Names come from the wires' tables alone: a clause, a method (`sessions.convert`) or the group before its dot (`projects`),
//! a word of a path (`fork`, `tasks`), and `script` for the scripted model.

use crate::verdict::{Outcome, Stop};
use std::collections::BTreeSet;
use triplane_protocol::{larik, lich, sepia};

/// Stands for the scripted model among the names.
pub const SCRIPT: &str = "script";

/// The text of the clauses, a line each.
const CLAUSES: &str = include_str!("../clauses.txt");

/// Every clause: its id, and what it says.
pub fn clauses() -> impl Iterator<Item = (&'static str, &'static str)> {
    CLAUSES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// What is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Names that were given.
    names: BTreeSet<String>,
    /// Methods that the server's own list leaves out.
    unlisted: BTreeSet<&'static str>,
    /// Whether the answer `unsupported` counts as saying so. It does for other people's servers; ours is held to its tables.
    pub by_answer: bool,
}

impl Lacks {
    /// Takes names. Errors: the first that names nothing, and what is there.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let known = known();
        let names: BTreeSet<String> = names.into_iter().collect();
        match names.iter().find(|name| !known.contains(name.as_str())) {
            None => Ok(Self { names, ..Self::default() }),
            Some(name) => Err(name.clone()),
        }
    }

    /// The methods that a server lists: the table's others are lacking.
    pub fn listed(&mut self, methods: &[&str]) {
        self.unlisted = sepia::ROWS.iter().map(|row| row.name).filter(|name| !methods.contains(name)).collect();
    }

    /// Whether nothing is lacking, so that no request needs to be looked at.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.unlisted.is_empty()
    }

    /// Whether a clause or [`SCRIPT`] is lacking.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Everything that is lacking, for reports.
    pub fn all(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).chain(self.unlisted.iter().copied()).collect()
    }

    /// Skips the case if this method is lacking.
    pub fn method(&self, method: &str) -> Outcome {
        let group = method.split_once('.').map_or(method, |(group, _)| group);
        if self.names.contains(method) || self.names.contains(group) || self.unlisted.contains(method) {
            return Err(Stop::skip(format!("the server lacks `{method}`")));
        }
        Ok(())
    }

    /// Skips the case if a word of this path is lacking.
    pub fn path(&self, verb: &str, path: &str) -> Outcome {
        let path = path.split('?').next().unwrap_or(path);
        if !self.names.is_empty() && path.split('/').any(|word| self.names.contains(word)) {
            return Err(Stop::skip(format!("the server lacks `{verb} {path}`")));
        }
        Ok(())
    }
}

/// Every name that can be lacking.
pub fn known() -> BTreeSet<&'static str> {
    let methods = lich::ROWS.iter().chain(sepia::ROWS).map(|row| row.name);
    let groups =
        lich::ROWS.iter().chain(sepia::ROWS).filter_map(|row| row.name.split_once('.')).map(|(group, _)| group);
    let words = larik::ROWS.iter().flat_map(|row| row.path.split('/'));
    let words = words.filter(|word| !word.is_empty() && *word != "v1" && !word.starts_with('{'));
    clauses().map(|(id, _)| id).chain(methods).chain(groups).chain(words).chain([SCRIPT]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_tables() {
        let lacks = |names: &[&str]| Lacks::new(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(lacks(&["H22", "nonsense"]), Err("nonsense".to_owned()));
        let some = lacks(&["H22", "projects", "sessions.convert", "fork"]).unwrap();
        assert!(some.has("H22") && !some.has("H23"));
        for (method, there) in [("projects.list", false), ("sessions.convert", false), ("sessions.get", true)] {
            assert_eq!(some.method(method).is_ok(), there, "{method}");
        }
        assert!(some.path("POST", "/v1/sessions/a/fork?x=1").is_err());
        assert_eq!(some.path("POST", "/v1/sessions/a/undo"), Ok(()));
    }

    #[test]
    fn what_a_manifest_leaves_out_is_lacking() {
        let mut lacks = Lacks::default();
        lacks.listed(&["manifest", "sessions.list"]);
        assert_eq!(lacks.method("sessions.list"), Ok(()));
        assert!(matches!(lacks.method("sessions.convert"), Err(Stop::Skip(_))));
        assert_eq!(lacks.method("of.no.wire"), Ok(()), "what is in no table may be tried");
    }
}
