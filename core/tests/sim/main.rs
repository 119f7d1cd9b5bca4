//! The plane's rules under a seeded scheduler and a virtual clock: a process with a few sessions, whose clients submit, queue,
//! withdraw, cancel, answer, set, clear, compact, reserve, read, come back with a cursor and close; an agent that says, asks, runs
//! over and ends at random; background tasks; a disk that refuses, cuts short and forgets; kills and power cuts.
//!
//! Real are the state machine, the fold of a transcript, the ring, the live map and the node's feed. In memory are the transcript
//! (`disk`), the spool (`spool`) and what the session's task does between them (`session`). After every step all of it is compared
//! with a plain model (`model`, `readers`, `node`): one answer a request, one end a run, one run a session at a time, a seq never
//! used twice, every reader without a hole that it was not told of, exact counts of what was lost, a permission resolved once,
//! acknowledged means stored, live map equals markers, `detached` last, queues within bounds, nothing alive after the end.
//!
//! A seed that fails prints itself and the shortest script that still fails; `SIM_SEED=n cargo test -p triplane-core --test sim`
//! runs it again, `SIM_SEEDS=n` runs more of them.
//!
//! That it bites was tried by breaking the code; the seed is the first of those below 1000 that fails.
//!
//! | broken on purpose | seed | told as |
//! |---|---|---|
//! | a cancel reaches whatever run is in flight | 6 | cancelled, and nobody asked for it |
//! | a cancel leaves permissions pending | 57 | two verdicts on one request |
//! | an answer leaves its request pending | 6 | pending are other requests than are shown |
//! | the start of a run is not synced | 6 | accepted before it is on disk |
//! | settings are changed in memory first | 0 | settings are not what the disk has |
//! | one prompt too many may wait | 6 | 4 wait, not 3 |
//! | a session with a waiting prompt or a task is evicted | 24 | an eviction waits for a busy session |
//! | a refused context is helped without end | 18 | helped twice |
//! | a cancelled run is still compacted | 54 | made smaller, and it is cancelled |
//! | a compaction in a run forgets its prompt | 6 | the prompt is not what comes last |
//! | a task's end is told, and not noted | 6 | it is occupied, and has nothing to do |
//! | what left memory is not looked for in the spool | 6 | a reader waits before the end |
//! | a gap swallows what the spool still has | 6 | told as gone, and is on the disk |
//! | a reader does not follow a new seq space | 4 | a new space goes untold |
//! | the ring has no bound in bytes | 6 | memory holds too much |
//! | the feed counts one lost item too many | 6 | 30 are told as lost, 29 are |
//! | `detached` before `deleted` | 5 | another item is read than was told |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod agent;
mod disk;
mod model;
mod node;
mod readers;
mod script;
mod seen;
mod session;
mod spool;
mod world;

use script::{Step, script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

const STEPS: usize = 300;
const SEEDS: u64 = 1000;

/// Seeds that found something once.
const REGRESSIONS: &[u64] = &[6, 54, 272];

/// Runs a script; the error tells at which step what was wrong.
fn run(script: &[(usize, Step)]) -> Result<(), String> {
    let run = || {
        let mut world = World::new()?;
        for (at, (slot, step)) in script.iter().enumerate() {
            world.apply(*slot, *step).map_err(|why| format!("step {at} {step:?} of session {slot}: {why}"))?;
        }
        world.finish().map_err(|why| format!("after the last step: {why}"))
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panicked".into()))
}

/// Takes out what the failure does not need.
fn shrink(mut script: Vec<(usize, Step)>) -> Vec<(usize, Step)> {
    let mut chunk = script.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..(at + chunk).min(script.len()));
            if run(&shorter).is_err() {
                script = shorter;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    script
}

#[track_caller]
fn check(seed: u64) {
    let steps = script(seed, STEPS);
    if let Err(why) = run(&steps) {
        let short = shrink(steps);
        let last = run(&short).err().unwrap_or_default();
        panic!(
            "seed {seed}: {why}\nshortest script: {short:#?}\nthere: {last}\nagain: SIM_SEED={seed} cargo test -p triplane-core --test sim"
        );
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_machine_does_what_the_model_says() {
    match number("SIM_SEED") {
        Some(seed) => check(seed),
        None => REGRESSIONS.iter().copied().chain(0..number("SIM_SEEDS").unwrap_or(SEEDS)).for_each(check),
    }
}

#[test]
fn a_script_depends_on_its_seed_alone() {
    assert_eq!(script(7, STEPS), script(7, STEPS));
    assert_ne!(script(7, STEPS), script(8, STEPS));
}

/// Else the simulation would prove little: it must get to where it is hard.
#[test]
fn the_seeds_reach_everything() {
    let mut seen = seen::Seen::default();
    for seed in 0..40 {
        let mut world = World::new().unwrap();
        script(seed, STEPS).into_iter().for_each(|(slot, step)| drop(world.apply(slot, step)));
        seen.add(&world.seen());
    }
    assert!(seen.missing().is_empty(), "never happened: {:?}", seen.missing());
}
