//! The agent in a real plane, against an agent process that plays what real ones were seen to do.
//! The test program is three: the tests; with `puppet` the agent; with `__shim` the process between both, as `triplane` is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

mod house;
mod puppet;
mod runs;
mod sessions;
mod trouble;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use triplane_native::shim;

/// A test by its name.
macro_rules! trials {
    ($($module:ident: $($name:ident),+;)+) => {
        vec![$($( Trial::test(concat!(stringify!($module), "::", stringify!($name)), || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on($module::$name());
            Ok(())
        }), )+)+]
    };
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|first| first.to_str()) {
        Some("puppet") => {
            puppet::play();
            ExitCode::SUCCESS
        }
        Some(shim::ARG) => shim::run_shim(args),
        _ => libtest_mimic::run(&Arguments::from_args(), trials()).exit_code(),
    }
}

fn trials() -> Vec<Trial> {
    trials! {
        runs: text_and_thoughts, calls_with_states_that_repeat, a_diff_and_a_plan, what_is_not_known_is_passed_on,
            updates_after_the_answer, permissions_are_asked_with_the_agents_own_options, files_go_through_us;
        sessions: a_conversation_goes_on_after_a_restart, an_agent_that_forgets_is_told, an_undo_is_told_anew,
            models_and_modes_are_set, sessions_share_a_process;
        trouble: a_call_that_never_ends, cancel_while_it_streams, cancel_while_a_permission_waits,
            an_agent_that_does_not_listen_is_ended, death_is_told_and_the_next_run_goes_on, garbage_is_skipped,
            errors_are_told, nothing_is_left_behind;
    }
}
