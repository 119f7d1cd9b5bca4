//! A report as one JSON object. Members are only ever added.

use super::{Counts, Report};
use crate::verdict::Verdict;
use serde_json::{Value, json};

/// The report.
pub fn render(report: &Report) -> Value {
    let clauses = report.clauses();
    let clauses = clauses.iter().map(|clause| {
        json!({
            "id": clause.id,
            "text": clause.text,
            "state": clause.state.word(),
            "cases": counts(clause.counts),
            "broken_by": clause.broken_by,
        })
    });
    let cases = report.cases.iter().map(|case| {
        let mut told = json!({
            "id": case.id,
            "clauses": case.clauses,
            "duration_ms": u64::try_from(case.took.as_millis()).unwrap_or(u64::MAX),
        });
        let more = match &case.verdict {
            Verdict::Held => json!({"verdict": "held"}),
            Verdict::Broke { clause, seen } => json!({"verdict": "broke", "clause": clause, "seen": seen}),
            Verdict::Skipped(why) => json!({"verdict": "skipped", "why": why}),
            Verdict::Harness(what) => json!({"verdict": "harness", "why": what}),
        };
        if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
            told.extend(more);
        }
        told
    });
    json!({
        "target": report.target,
        "server": report.server,
        "wire": report.wire.flag(),
        "exit_code": report.exit_code(),
        "duration_ms": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        "lacks": report.lacks,
        "no_script": report.no_script,
        "gone_after": report.gone,
        "counts": counts(report.counts()),
        "clauses": clauses.collect::<Vec<_>>(),
        "cases": cases.collect::<Vec<_>>(),
    })
}

fn counts(counts: Counts) -> Value {
    json!({"held": counts.held, "broke": counts.broke, "skipped": counts.skipped, "harness": counts.harness})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn every_case_and_clause_is_told() {
        let told = render(&sample());
        assert_eq!(told["counts"], json!({"held": 1, "broke": 2, "skipped": 1, "harness": 1}));
        assert_eq!(told["exit_code"], 1);
        assert_eq!(told["cases"][2]["clause"], "C02");
        assert_eq!(told["cases"][3]["why"], "needs a server process of its own");
        let broken = json!(["l04-a::ws"]);
        assert_eq!(told["clauses"][0]["broken_by"], broken);
    }
}
