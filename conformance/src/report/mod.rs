//! What a run found: a verdict for each case, and for each clause what its cases say together.
//! Invariants: ids are stable (`l03-health::ws`, `L03`); a clause is broken by what a verdict names, whatever case found it.
//!
//! - [`text`]: a table by clause, for people. [`json`], [`junit`]: for machines.

pub mod json;
pub mod junit;
pub mod text;

use crate::{
    case::{Case, Wire},
    lacks,
    verdict::Verdict,
};
use std::{fmt, time::Duration};

/// A case on a wire, judged.
#[derive(Debug, Clone)]
pub struct Judged {
    /// `l03-health::ws`.
    pub id: String,
    /// The clauses that it judges.
    pub clauses: &'static [&'static str],
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

impl Judged {
    /// A verdict under the name of its case.
    pub fn new(case: &Case, wire: Wire, verdict: Verdict) -> Self {
        Self { id: format!("{}::{wire}", case.id), clauses: case.clauses, verdict, took: Duration::ZERO }
    }
}

/// A whole run.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was judged, without a token.
    pub target: String,
    /// What it calls itself.
    pub server: String,
    /// Over which wire.
    pub wire: Wire,
    /// What it lacks.
    pub lacks: Vec<String>,
    /// Why prompts are no scripts there.
    pub no_script: Option<String>,
    /// The cases, in the order of the suite.
    pub cases: Vec<Judged>,
    /// Cases that the runner lost.
    pub lost: usize,
    /// The case after which the server was gone.
    pub gone: Option<String>,
    /// How long all of it took.
    pub took: Duration,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            target: String::new(),
            server: String::new(),
            wire: Wire::Ws,
            lacks: Vec::new(),
            no_script: None,
            cases: Vec::new(),
            lost: 0,
            gone: None,
            took: Duration::ZERO,
        }
    }
}

/// How many cases ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The server did what the clauses say.
    pub held: usize,
    /// The server broke a clause.
    pub broke: usize,
    /// They do not apply here.
    pub skipped: usize,
    /// The runner failed.
    pub harness: usize,
}

/// What the cases of a clause say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// At least one case held, and none broke it.
    Held,
    /// A case saw it broken.
    Broke,
    /// No case could be run.
    Skipped,
    /// Nothing is known: the runner failed, or the cases stopped at another clause.
    Unknown,
}

impl State {
    /// One word for it, the same in all reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broke => "broke",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A clause, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// `L03`.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
    /// What its cases say.
    pub state: State,
    /// Its cases. One that broke another clause counts as skipped: it stopped there.
    pub counts: Counts,
    /// The cases that broke it.
    pub broken_by: Vec<String>,
}

impl Report {
    /// How many cases ended how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { harness: self.lost, ..Counts::default() };
        for case in &self.cases {
            match case.verdict {
                Verdict::Held => counts.held += 1,
                Verdict::Broke { .. } => counts.broke += 1,
                Verdict::Skipped(_) => counts.skipped += 1,
                Verdict::Harness(_) => counts.harness += 1,
            }
        }
        counts
    }

    /// The clauses that a case of this run judges, in their order.
    pub fn clauses(&self) -> Vec<Clause> {
        lacks::clauses().filter_map(|(id, text)| self.clause(id, text)).collect()
    }

    fn clause(&self, id: &'static str, text: &'static str) -> Option<Clause> {
        let mut counts = Counts::default();
        let mut broken_by = Vec::new();
        let mut named = false;
        for case in &self.cases {
            let of = case.clauses.contains(&id);
            named |= of;
            match &case.verdict {
                Verdict::Broke { clause, .. } if *clause == id => {
                    counts.broke += 1;
                    broken_by.push(case.id.clone());
                }
                Verdict::Held if of => counts.held += 1,
                Verdict::Broke { .. } | Verdict::Skipped(_) if of => counts.skipped += 1,
                Verdict::Harness(_) if of => counts.harness += 1,
                Verdict::Held | Verdict::Broke { .. } | Verdict::Skipped(_) | Verdict::Harness(_) => {}
            }
        }
        let stopped = self.cases.iter().any(|case| {
            case.clauses.contains(&id) && matches!(case.verdict, Verdict::Broke { .. } | Verdict::Harness(_))
        });
        let state = match counts {
            Counts { broke: 1.., .. } => State::Broke,
            Counts { held: 1.., .. } => State::Held,
            Counts { .. } if stopped => State::Unknown,
            Counts { .. } => State::Skipped,
        };
        (named || counts.broke > 0).then_some(Clause { id, text, state, counts, broken_by })
    }

    /// 0: no clause was broken. 1: one was. 3: the runner failed, so that nothing is proved.
    pub fn exit_code(&self) -> u8 {
        match self.counts() {
            Counts { broke: 1.., .. } => 1,
            Counts { harness: 1.., .. } => 3,
            Counts { .. } => 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn case(id: &str, clauses: &'static [&'static str], verdict: Verdict) -> Judged {
        Judged { id: id.to_owned(), clauses, verdict, took: Duration::from_millis(12) }
    }

    /// One case of each kind; `l04` breaks a clause that it does not judge.
    pub(crate) fn sample() -> Report {
        let broke = |clause, seen: &str| Verdict::Broke { clause, seen: seen.to_owned() };
        Report {
            target: "ws://127.0.0.1:1/".into(),
            server: "1.0".into(),
            cases: vec![
                case("l01-a::ws", &["L01", "C02"], Verdict::Held),
                case("l03-a::ws", &["L03"], broke("L03", "said <no> & \u{1b}[31m\u{0}\"x\"")),
                case("l04-a::ws", &["L04"], broke("C02", "two replies")),
                case("l05-a::ws", &["L05"], Verdict::Skipped("needs a server process of its own".into())),
                case("l06-a::ws", &["L06"], Verdict::Harness("out of files".into())),
            ],
            took: Duration::from_millis(1234),
            ..Report::default()
        }
    }

    #[test]
    fn a_clause_is_what_its_cases_say_together() {
        let report = sample();
        let states: Vec<(&str, State)> = report.clauses().iter().map(|clause| (clause.id, clause.state)).collect();
        let want = [
            ("C02", State::Broke),
            ("L01", State::Held),
            ("L03", State::Broke),
            ("L04", State::Unknown),
            ("L05", State::Skipped),
            ("L06", State::Unknown),
        ];
        assert_eq!(states, want);
        assert_eq!(report.counts(), Counts { held: 1, broke: 2, skipped: 1, harness: 1 });
    }

    #[test]
    fn the_exit_code_says_broken_before_failed() {
        let mut report = sample();
        assert_eq!(report.exit_code(), 1);
        report.cases.retain(|case| !matches!(case.verdict, Verdict::Broke { .. }));
        assert_eq!(report.exit_code(), 3);
        report.cases.retain(|case| !matches!(case.verdict, Verdict::Harness(_)));
        assert_eq!(report.exit_code(), 0);
        report.lost = 1;
        assert_eq!(report.exit_code(), 3);
    }
}
