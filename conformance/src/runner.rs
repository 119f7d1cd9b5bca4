//! Runs one case on one wire to its verdict: needs checked, a time limit on the whole, panics caught, and, after the case,
//! what every server must leave behind: nothing on stdout but ready lines (C07), no process (C09).

use crate::{
    case::{Case, Need, Wire},
    ctx::Ctx,
    target::{Target, process},
    verdict::{Outcome, Stop, Verdict},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, time::Duration};
use tokio::time::timeout;

/// How cases are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest wait for one answer.
    pub deadline: Duration,
    /// Whether cases that need long are run.
    pub slow: bool,
    /// Whether the server is known to run the scripted model.
    pub script: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(5), slow: false, script: true }
    }
}

/// Longest time for a whole case.
const CASE: Duration = Duration::from_secs(60);
/// The same for one that needs long.
const SLOW_CASE: Duration = Duration::from_secs(240);
/// How long processes of a server may outlive it.
const AFTERLIFE: Duration = Duration::from_secs(3);

/// Runs a case on a wire.
pub async fn run(case: &Case, wire: Wire, target: &Target, options: &Options) -> Verdict {
    if let Some(why) = unmet(case, wire, target, options) {
        return Verdict::Skipped(why);
    }
    let mut ctx = match Ctx::new(target, wire, options) {
        Ok(ctx) => ctx,
        Err(stop) => return verdict(case, stop, ""),
    };
    let limit = if case.needs.contains(&Need::Slow) { SLOW_CASE } else { CASE };
    let run = AssertUnwindSafe((case.run)(&mut ctx)).catch_unwind();
    let outcome = match timeout(limit, run).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Stop::Harness(format!("the case panicked: {}", text.unwrap_or_default())))
        }
        Err(_) => Err(Stop::Harness(format!("the case took longer than {limit:?}"))),
    };
    // The case's servers are gone now: they were the case's own, and dropped with it.
    let outcome = match outcome {
        Ok(()) => aftermath(&ctx).await,
        Err(stop) => Err(stop),
    };
    match outcome {
        Ok(()) => Verdict::Held,
        Err(stop) => {
            let logs: Vec<String> = ctx.trails().iter().map(|trail| trail.stderr.text()).collect();
            verdict(case, stop, logs.concat().trim_end())
        }
    }
}

/// Why the case cannot run here.
fn unmet(case: &Case, wire: Wire, target: &Target, options: &Options) -> Option<String> {
    if !target.speaks(wire) {
        return Some(format!("the target does not speak {wire}"));
    }
    case.needs.iter().find_map(|need| match need {
        Need::Process if !target.spawned() => Some("needs a server process of its own".to_owned()),
        Need::Files if !target.spawned() => Some("needs the session directory".to_owned()),
        Need::Slow if !options.slow => Some("slow; asked for with CONFORMANCE_SLOW=1".to_owned()),
        Need::Script if !options.script => Some("needs the scripted model".to_owned()),
        Need::Process | Need::Files | Need::Slow | Need::Script => None,
    })
}

async fn aftermath(ctx: &Ctx) -> Outcome {
    for trail in ctx.trails() {
        process::none_left(&trail.mark, AFTERLIFE).await?;
        trail.check_stdout()?;
    }
    Ok(())
}

/// Bytes of the server's log that a verdict shows.
const LOG_SHOWN: usize = 2000;

fn verdict(case: &Case, stop: Stop, log: &str) -> Verdict {
    let start = log.len().saturating_sub(LOG_SHOWN);
    let tail = (start..=log.len()).find_map(|at| log.get(at..)).unwrap_or_default();
    let tail = if tail.is_empty() { String::new() } else { format!("\n--- the server's stderr, its end:\n{tail}") };
    match stop {
        Stop::Broke { clause, seen } => {
            let clause = clause.or(case.clauses.first().copied()).unwrap_or("?");
            Verdict::Broke { clause, seen: seen + &tail }
        }
        Stop::Skip(why) => Verdict::Skipped(why),
        Stop::Harness(what) => Verdict::Harness(what + &tail),
    }
}
