//! One session under a seeded scheduler: clients that submit, queue, withdraw, cancel, answer, set, clear, compact, reserve and
//! close, an agent that says and asks and ends at random, background tasks, a disk that fails and forgets, crashes and restarts.
//! After every step the machine is compared with a model. A seed that fails prints itself and the shortest script that still
//! fails; `SIM_SEED=n cargo test -p triplane-core --test sim` runs it again, `SIM_SEEDS=n` runs more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod model;
mod script;
mod world;

use script::{Step, script};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

const STEPS: usize = 300;
const SEEDS: u64 = 3000;

/// Seeds that found something once.
const REGRESSIONS: &[u64] = &[];

/// Runs a script; the error tells at which step what was wrong.
fn run(script: &[Step]) -> Result<(), String> {
    let run = || {
        let mut world = World::new();
        for (at, step) in script.iter().enumerate() {
            world.apply(*step).map_err(|why| format!("step {at} {step:?}: {why}"))?;
        }
        world.finish().map_err(|why| format!("after the last step: {why}"))
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panicked".into()))
}

/// Takes out what the failure does not need.
fn shrink(mut script: Vec<Step>) -> Vec<Step> {
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
    let mut seen = world::Seen::default();
    for seed in 0..40 {
        let mut world = World::new();
        script(seed, STEPS).into_iter().for_each(|step| drop(world.apply(step)));
        seen.add(&world.seen);
    }
    assert!(seen.everything(), "{seen:?}");
}
