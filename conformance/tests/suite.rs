//! Every case on every wire that it names, against the real binary: one test each, its clause first in the name.
//!
//! `TRIPLANE_BIN` names a binary that is built already. `CONFORMANCE_SLOW=1` runs the slow cases too,
//! `CONFORMANCE_DEADLINE_MS` is the longest wait for one answer.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot look has failed")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{path::PathBuf, process::Command, process::ExitCode, time::Duration};
use triplane_conformance::{Options, Target, Verdict, cases, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let program = if arguments.list { PathBuf::new() } else { program() };
    let options = options();
    let mut trials = Vec::new();
    for case in cases::all() {
        for &wire in case.wires {
            let (target, options) = (Target::Spawn(program.clone()), options.clone());
            let name = format!("{}::{wire}", case.id);
            trials.push(Trial::ignorable_test(name, move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                match runtime.block_on(run(case, wire, &target, &options)) {
                    Verdict::Held => Ok(Completion::Completed),
                    Verdict::Skipped(why) => Ok(Completion::ignored_with(why)),
                    verdict @ (Verdict::Broke { .. } | Verdict::Harness(_)) => Err(Failed::from(verdict)),
                }
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn options() -> Options {
    let mut options = Options { slow: std::env::var_os("CONFORMANCE_SLOW").is_some(), ..Options::default() };
    if let Some(ms) = std::env::var("CONFORMANCE_DEADLINE_MS").ok().and_then(|ms| ms.parse().ok()) {
        options.deadline = Duration::from_millis(ms);
    }
    options
}

/// The binary under test: named by `TRIPLANE_BIN`, or built here once.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("TRIPLANE_BIN") {
        return std::path::absolute(path).expect("an absolute path");
    }
    let out = Command::new(env!("CARGO"))
        .args(["build", "-p", "triplane", "--message-format=json-render-diagnostics"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo build");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let built = String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "triplane" && message["target"]["kind"][0] == "bin")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    built.expect("cargo names the binary that it built")
}
