//! MCP servers and language servers under the agent, as real processes behind the real guard: this program starts itself as each.
//! Clause: H25. Faults: CP-02, CP-04, CP-06, CP-09, CP-11, WF-07.
#![cfg(all(feature = "mcp", feature = "lsp"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "helpers of tests are tests"
)]

mod fake;
mod house;
mod lsp;
mod mcp;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use triplane_native::shim;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next().and_then(|arg| arg.into_string().ok()).unwrap_or_default();
    match first.as_str() {
        shim::ARG => return shim::run_shim(args),
        fake::MCP => fake::mcp(&args.next().unwrap().to_string_lossy()),
        fake::LSP => fake::lsp(&args.next().unwrap().to_string_lossy()),
        _ => {
            let cases = mcp::cases().into_iter().chain(lsp::cases());
            let trial = |(name, case)| {
                Trial::test(name, move || {
                    house::on_a_runtime(case);
                    Ok(())
                })
            };
            let trials = cases.map(trial).collect();
            return libtest_mimic::run(&Arguments::from_args(), trials).exit_code();
        }
    }
    ExitCode::SUCCESS
}
