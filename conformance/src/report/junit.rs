//! A report as JUnit XML: a suite for the wire, a test for each case; `classname` is the first clause. A broken clause is a
//! `failure`, a failure of the runner an `error`.

use super::Report;
use crate::verdict::Verdict;
use std::fmt::Write;

/// The report.
pub fn render(report: &Report) -> String {
    let counts = report.counts();
    let totals = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        report.cases.len(),
        counts.broke,
        counts.harness,
        counts.skipped,
        report.took.as_secs_f64(),
    );
    let name = format!("conformance.{}", report.wire);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{name}\" {totals}>\n  <testsuite name=\"{name}\" hostname=\"{}\" {totals}>\n",
        escape(&report.target)
    );
    for case in &report.cases {
        let class = case.clauses.first().copied().unwrap_or("?");
        // Writing to a String does not fail.
        let _ = write!(
            xml,
            "    <testcase classname=\"{class}\" name=\"{}\" time=\"{:.3}\"",
            escape(&case.id),
            case.took.as_secs_f64()
        );
        let _ = match &case.verdict {
            Verdict::Held => writeln!(xml, "/>"),
            Verdict::Broke { clause, seen } => {
                let (first, seen) = (escape(seen.lines().next().unwrap_or_default()), escape(seen));
                writeln!(xml, "><failure type=\"{clause}\" message=\"{first}\">{seen}</failure></testcase>")
            }
            Verdict::Skipped(why) => writeln!(xml, "><skipped message=\"{}\"/></testcase>", escape(why)),
            Verdict::Harness(what) => {
                let (first, what) = (escape(what.lines().next().unwrap_or_default()), escape(what));
                writeln!(xml, "><error type=\"runner\" message=\"{first}\">{what}</error></testcase>")
            }
        };
    }
    xml += "  </testsuite>\n</testsuites>\n";
    xml
}

/// Text for an attribute or an element. Characters that XML cannot hold, which servers do send, become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn what_servers_say_is_escaped() {
        let xml = render(&sample());
        assert!(
            xml.contains("<failure type=\"L03\" message=\"said &lt;no&gt; &amp; \u{fffd}[31m\u{fffd}&quot;x&quot;\">"),
            "{xml}"
        );
        assert!(xml.contains("tests=\"5\" failures=\"2\" errors=\"1\" skipped=\"1\" time=\"1.234\""), "{xml}");
        assert!(xml.contains("<testcase classname=\"L01\" name=\"l01-a::ws\" time=\"0.012\"/>"), "{xml}");
        assert!(xml.contains("<error type=\"runner\" message=\"out of files\">"), "{xml}");
        assert!(!xml.contains('\u{0}') && !xml.contains('\u{1b}'));
    }
}
