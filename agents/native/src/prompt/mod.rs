//! What a model is told before the conversation: how to work here, where it is, and what the project asks for.
//! Invariant: bounded by [`instructions::TOTAL_BYTES`] and little more, however many files there are.

pub(crate) mod folders;
mod instructions;

use std::{path::Path, time::SystemTime};

/// How to work. Short: every turn carries it, and models know the rest.
const MANNER: &str = "\
You are Triplane, a coding agent that works in a person's directory through tools.

- Look before you act: read the files that matter; search with `grep` and `glob` rather than guess.
- Make the smallest change that does what was asked, in the style of what is there. Change nothing else.
- After a change, run what checks it (build, tests, linter) where the project has it, and fix what you broke.
- Call tools that do not depend on each other in one turn. Paths are relative to the working directory.
- A refused permission is a decision: do not try the same by another way; say what you would have done.
- Never print, store or send secrets. Never undo work of others in the tree.
- Answer briefly and plainly: what was done, where, and what is left. No preamble.";

/// The system prompt of a run in `cwd`; `sandbox` is what keeps its commands in. Never fails: what cannot be read is left out.
pub(crate) async fn system(cwd: &Path, user: Option<&Path>, sandbox: String) -> String {
    let (cwd, user) = (cwd.to_owned(), user.map(Path::to_owned));
    let made = tokio::task::spawn_blocking(move || {
        let instructions = instructions::read(&cwd, user.as_deref());
        let skills = folders::skills(&cwd, user.as_deref());
        compose(&cwd, &date(SystemTime::now()), &sandbox, &instructions, &skills)
    });
    made.await.unwrap_or_else(|_| MANNER.to_owned())
}

fn compose(cwd: &Path, date: &str, sandbox: &str, instructions: &str, skills: &str) -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let mut text = format!(
        "{MANNER}\n\n<environment>\nworking directory: {}\nplatform: {os} {arch}\ndate: {date}\nsandbox: {sandbox}\n</environment>",
        cwd.display()
    );
    if !skills.is_empty() {
        text.push_str("\n\nSkills: where one fits the work, read its file first and follow it.\n");
        text.push_str(skills);
    }
    if !instructions.is_empty() {
        text.push_str(
            "\n\nThe project's own instructions follow. Those of a deeper directory go before those above it.\n",
        );
        text.push_str(instructions);
    }
    text
}

/// The day as `YYYY-MM-DD`, in UTC.
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Days to a civil date, after Howard Hinnant: years begin in March, so that the leap day is the last.
    let days = seconds / 86_400 + 719_468;
    let era_day = days % 146_097;
    let year_of_era = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + days / 146_097 * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_civil() {
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_796_083_008, "2026-11-30"),
        ] {
            assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), day);
        }
    }

    #[tokio::test]
    async fn the_prompt_says_where_it_is_and_what_the_project_asks() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "use tabs").unwrap();
        let text = system(dir.path(), None, "none".into()).await;
        assert!(text.starts_with(MANNER) && text.contains("use tabs"), "{text}");
        assert!(text.contains(&format!("working directory: {}", dir.path().display())), "{text}");
    }
}
