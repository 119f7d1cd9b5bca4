//! A report for people: a table by clause, then what broke and what the runner failed at, then the counts.
//! Invariant: what a server sent reaches a terminal without control characters.

use super::{Report, State};
use crate::verdict::Verdict;
use std::{collections::BTreeMap, fmt::Write};

/// Marks for the words of a state; empty ones for a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Paint {
    /// Before `held`.
    pub good: &'static str,
    /// Before `broke`.
    pub bad: &'static str,
    /// Before the others.
    pub dim: &'static str,
    /// Behind each.
    pub end: &'static str,
}

impl Paint {
    /// Green, red and faint.
    pub const COLORS: Self = Self { good: "\x1b[32m", bad: "\x1b[31m", dim: "\x1b[2m", end: "\x1b[0m" };

    const fn of(self, state: State) -> &'static str {
        match state {
            State::Held => self.good,
            State::Broke => self.bad,
            State::Skipped | State::Unknown => self.dim,
        }
    }
}

/// The report.
pub fn render(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(out, "{} over {}: {}\n", clean(&report.target), report.wire, clean(&report.server));
    let _ = writeln!(out, "clause  state     held broke skipped  what it says");
    for clause in report.clauses() {
        let counts = clause.counts;
        let skipped = counts.skipped + counts.harness;
        let _ = writeln!(
            out,
            "{:<6}  {}{:<8}{} {:>5} {:>5} {:>7}  {}",
            clause.id,
            paint.of(clause.state),
            clause.state,
            paint.end,
            counts.held,
            counts.broke,
            skipped,
            clause.text
        );
    }
    verdicts(report, paint, &mut out);
    footer(report, &mut out);
    out
}

fn verdicts(report: &Report, paint: Paint, out: &mut String) {
    for case in &report.cases {
        let _ = match &case.verdict {
            Verdict::Broke { clause, seen } => {
                writeln!(out, "\n{}broke {clause}{} {}\n  {}", paint.bad, paint.end, case.id, indent(seen))
            }
            Verdict::Harness(what) => {
                writeln!(out, "\n{}the runner failed{} {}\n  {}", paint.dim, paint.end, case.id, indent(what))
            }
            Verdict::Held | Verdict::Skipped(_) => Ok(()),
        };
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &report.cases {
        if let Verdict::Skipped(why) = &case.verdict {
            *reasons.entry(why.lines().next().unwrap_or_default()).or_default() += 1;
        }
    }
    if !reasons.is_empty() {
        let _ = writeln!(out, "\nskipped:");
    }
    for (why, count) in reasons {
        let _ = writeln!(out, "{count:>5}  {}", clean(why));
    }
}

fn footer(report: &Report, out: &mut String) {
    let counts = report.counts();
    if let Some(why) = &report.no_script {
        let _ = writeln!(out, "\nprompts are no scripts here, so cases that need that were skipped: {}", clean(why));
    }
    if let Some(last) = &report.gone {
        let _ = writeln!(out, "\nthe server is gone since {last}; the cases after it were not run");
    }
    let _ = writeln!(
        out,
        "\n{} held, {} broke, {} skipped, {} failed in the runner, in {:.1} s",
        counts.held,
        counts.broke,
        counts.skipped,
        counts.harness,
        report.took.as_secs_f64()
    );
}

/// Text of a server's for a terminal: nothing that could move the cursor.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn indent(text: &str) -> String {
    clean(text.trim_end()).replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn the_table_names_clauses_and_hides_control_characters() {
        let text = render(&sample(), Paint::default());
        let line = |id: &str| text.lines().find(|line| line.starts_with(id)).unwrap_or_default().to_owned();
        assert!(line("L01").starts_with("L01     held         1     0       0  "), "{text}");
        assert!(line("C02").starts_with("C02     broke        1     1       0  "), "{text}");
        assert!(text.contains("broke C02 l04-a::ws\n  two replies\n"), "{text}");
        assert!(text.contains("    1  needs a server process of its own\n"), "{text}");
        assert!(text.ends_with("1 held, 2 broke, 1 skipped, 1 failed in the runner, in 1.2 s\n"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{0}'));
        assert!(render(&sample(), Paint::COLORS).contains("\u{1b}[31mbroke"));
    }
}
