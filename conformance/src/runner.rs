//! Runs one case on one wire to its verdict: needs checked, a time limit on the whole, panics caught, and, after the case,
//! what every server must leave behind: nothing on stdout but ready lines (C07), no process (C09).

use crate::{
    case::{Case, Need, Wire},
    ctx::Ctx,
    lacks::{self, Lacks},
    target::{Target, process},
    verdict::{Outcome, Stop, Verdict},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// How cases are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest wait for one answer.
    pub deadline: Duration,
    /// Whether cases that need long are run.
    pub slow: bool,
    /// Whether the server is known to run the scripted model.
    pub script: bool,
    /// Whether a server that the runner does not start itself has tools that never ask.
    pub bypass: bool,
    /// What the server does not have.
    pub lacks: Arc<Lacks>,
    /// When the cases must have ended, whatever they wait for.
    pub end: Option<Instant>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            slow: false,
            script: true,
            bypass: false,
            lacks: Arc::default(),
            end: None,
        }
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
    let limit = options.end.map_or(limit, |end| limit.min(end.saturating_duration_since(Instant::now())));
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
        Ok(()) if !target.spawned() => {
            ctx.trails().iter().for_each(|trail| process::clear(&trail.mark));
            Ok(())
        }
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
    if let Some(clause) = case.clauses.iter().find(|clause| options.lacks.has(clause)) {
        return Some(format!("the server lacks {clause}"));
    }
    case.needs.iter().find_map(|need| match need {
        Need::Process if !target.spawned() => Some("needs a server process of its own".to_owned()),
        Need::Fresh if !target.apart() => Some("needs a server without sessions".to_owned()),
        Need::Files if !target.spawned() => Some("needs the session directory".to_owned()),
        Need::Slow if !options.slow => {
            Some("slow; asked for with --slow, or CONFORMANCE_SLOW=1 under cargo test".to_owned())
        }
        Need::Script if !options.script || options.lacks.has(lacks::SCRIPT) => {
            Some("needs the scripted model".to_owned())
        }
        Need::Process | Need::Fresh | Need::Files | Need::Slow | Need::Script => None,
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
