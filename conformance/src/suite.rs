//! Many cases against one target: beside each other where every case has a server to itself, one after another where they share
//! one. Invariants: every case that was chosen has a verdict in the report; a run that is not slow ends within [`DEFAULT_RUN`].

use crate::{
    Verdict,
    case::{Case, Wire},
    cases,
    client::http::connect,
    report::{Judged, Report},
    runner::{Options, run},
    target::Target,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Longest run over one wire, unless slow cases were asked for.
pub const DEFAULT_RUN: Duration = Duration::from_secs(45);
/// What of it is left for the cases to be cut off and the report to be written.
const RESERVE: Duration = Duration::from_secs(2);

/// Which cases, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The wire.
    pub wire: Wire,
    /// Only cases that judge one of these clauses; empty means all.
    pub only: Vec<String>,
    /// How many cases run beside each other, where the target allows it.
    pub jobs: usize,
    /// How each is run.
    pub options: Options,
}

/// Told of every verdict as it comes: how many of how many, and the verdict.
pub type Progress<'a> = &'a mut (dyn FnMut(usize, usize, &Judged) + Send);

/// Judges a target. The cases come back in the order of the suite.
pub async fn judge(target: &Target, plan: Plan, progress: Progress<'_>) -> Report {
    let began = Instant::now();
    let chosen = choose(&plan);
    let total = chosen.len();
    let mut options = plan.options.clone();
    if !options.slow {
        options.end = Some(options.end.unwrap_or(began + DEFAULT_RUN - RESERVE));
    }
    let mut judged = Vec::with_capacity(total);
    let mut gone = None;
    if target.apart() {
        let mut running = start(target, &plan, &options, chosen);
        while let Some(ended) = running.join_next().await {
            // A task that panicked outside of its case has no name to report under; the count below shows it.
            if let Ok((place, one)) = ended {
                progress(judged.len() + 1, total, &one);
                judged.push((place, one));
            }
        }
    } else {
        for (place, case) in chosen.into_iter().enumerate() {
            let one = match &gone {
                Some(last) => {
                    Judged::new(case, plan.wire, Verdict::Skipped(format!("the server is gone since {last}")))
                }
                None => one(case, plan.wire, target, &options).await,
            };
            if one.verdict != Verdict::Held && gone.is_none() && !answers(target).await {
                gone = Some(one.id.clone());
            }
            progress(judged.len() + 1, total, &one);
            judged.push((place, one));
        }
    }
    judged.sort_by_key(|(place, _)| *place);
    Report {
        target: target.to_string(),
        wire: plan.wire,
        lacks: options.lacks.all().into_iter().map(str::to_owned).collect(),
        lost: total - judged.len(),
        cases: judged.into_iter().map(|(_, one)| one).collect(),
        gone,
        took: began.elapsed(),
        ..Report::default()
    }
}

fn choose(plan: &Plan) -> Vec<&'static Case> {
    let wanted =
        |case: &Case| plan.only.is_empty() || case.clauses.iter().any(|id| plan.only.iter().any(|only| only == id));
    cases::all().into_iter().filter(|case| case.wires.contains(&plan.wire) && wanted(case)).collect()
}

type Running = JoinSet<(usize, Judged)>;

/// Starts all cases, each in a task that waits for its turn. Dropping the set ends them.
fn start(target: &Target, plan: &Plan, options: &Options, chosen: Vec<&'static Case>) -> Running {
    let turns = Arc::new(Semaphore::new(plan.jobs.max(1)));
    let mut running = JoinSet::new();
    for (place, case) in chosen.into_iter().enumerate() {
        let (target, options, turns, wire) = (target.clone(), options.clone(), turns.clone(), plan.wire);
        running.spawn(async move {
            // Closed never: the set holds it as long as a task waits.
            let _turn = turns.acquire().await;
            (place, one(case, wire, &target, &options).await)
        });
    }
    running
}

/// One case, if there is time for it.
async fn one(case: &'static Case, wire: Wire, target: &Target, options: &Options) -> Judged {
    let began = Instant::now();
    let verdict = match options.end {
        Some(end) if began >= end => {
            Verdict::Harness(format!("not begun within the {DEFAULT_RUN:?} of a default run; --slow takes its time"))
        }
        Some(_) | None => run(case, wire, target, options).await,
    };
    Judged { took: began.elapsed(), ..Judged::new(case, wire, verdict) }
}

/// Whether a server that listens still takes connections.
async fn answers(target: &Target) -> bool {
    let Some(addr) = target.addr() else { return true };
    // One that is cut off by its limits may need a moment.
    for wait in [0, 200, 1000] {
        sleep_until(Instant::now() + Duration::from_millis(wait)).await;
        if connect(addr, Duration::from_secs(2)).await.is_ok() {
            return true;
        }
    }
    false
}
