//! Every broken server is caught by the case that names its clause, and the same process with nothing broken is not.
//! The committed page is what the rows say; every clause has a row, or a reason why not.
//!
//! `TRIPLANE_BIN` names a binary that is built already. A name as argument runs the rows that hold it.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test that cannot look has failed")]

use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};
use triplane_broken::{rows, table};
use triplane_conformance::{Case, Options, Target, Verdict, Wire, cases, run};

/// The longest wait for one answer of a broken server: what never comes is waited for in full.
const BROKEN: Duration = Duration::from_millis(3000);
/// The same with nothing broken, where a busy machine must not matter.
const WHOLE: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of a trial is waiting for what a broken server never sends.
    arguments.test_threads.get_or_insert(4);
    let scripts = Arc::new(tempfile::tempdir().expect("a directory"));
    let program = if arguments.list { PathBuf::new() } else { program() };
    let mut trials = vec![
        Trial::test("page", page),
        Trial::test("every-clause-has-a-row-or-a-reason", covered),
        Trial::test("rows-name-cases-of-their-clause", named),
    ];
    let mut whole: BTreeMap<(&str, Wire, Wire), &'static Case> = BTreeMap::new();
    for row in rows::all() {
        let Some(case) = find(row.case) else { continue };
        let front = |wire| {
            let other = |act: &triplane_broken::Act| {
                if let triplane_broken::Act::Front(wire) = act { Some(*wire) } else { None }
            };
            row.acts.iter().find_map(other).unwrap_or(wire)
        };
        for &wire in row.wires {
            whole.insert((row.case, wire, front(wire)), case);
            let (program, scripts) = (program.clone(), scripts.clone());
            trials.push(Trial::test(format!("{}-{}::{wire}", row.clause.to_lowercase(), row.name), move || {
                let target = target(scripts.path(), row.name, front(wire), &program)?;
                let verdict = judge(case, wire, &target, BROKEN)?;
                match &verdict {
                    Verdict::Broke { clause, .. } if *clause == row.clause => Ok(()),
                    _ => Err(Failed::from(format!(
                        "{} was to be caught by {} as {}: {verdict}",
                        row.name, row.case, row.clause
                    ))),
                }
            }));
        }
    }
    for ((name, wire, front), case) in whole {
        let (program, scripts) = (program.clone(), scripts.clone());
        trials.push(Trial::test(format!("nothing-broken-{name}::{wire}"), move || {
            let target = target(scripts.path(), "none", front, &program)?;
            match judge(case, wire, &target, WHOLE)? {
                Verdict::Held => Ok(()),
                verdict => Err(Failed::from(format!("{name} with nothing broken: {verdict}"))),
            }
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn find(case: &str) -> Option<&'static Case> {
    cases::all().into_iter().find(|known| known.id == case)
}

fn judge(case: &'static Case, wire: Wire, target: &Target, deadline: Duration) -> Result<Verdict, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(run(case, wire, target, &Options { deadline, slow: true, ..Options::default() })))
}

/// A program that the suite can start like the real one.
fn target(scripts: &Path, name: &str, wire: Wire, program: &Path) -> Result<Target, Failed> {
    let path = scripts.join(format!("{name}-{wire}"));
    if !path.exists() {
        let broken = env!("CARGO_BIN_EXE_broken");
        let text = format!("#!/bin/sh\nexec '{broken}' {name} {wire} '{}' \"$@\"\n", program.display());
        let unfinished = tempfile::NamedTempFile::new_in(scripts)?.into_temp_path();
        fs::write(&unfinished, text)?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o700))?;
        // By a link and a rename: a script that is open for writing cannot be run.
        fs::rename(&unfinished, &path)?;
    }
    Ok(Target::Spawn(path))
}

fn clauses() -> Vec<String> {
    let text = fs::read_to_string(conformance().join("clauses.txt")).expect("clauses.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(id, _)| id.to_owned()).collect()
}

fn conformance() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the suite's directory")
}

fn page() -> Result<(), Failed> {
    let (path, page) = (conformance().join("broken.md"), table::page(&clauses()));
    if std::env::var_os("BROKEN_PAGE").is_some() {
        fs::write(&path, &page)?;
    }
    if fs::read_to_string(&path).unwrap_or_default() == page {
        return Ok(());
    }
    Err(Failed::from(
        "conformance/broken.md is not what the rows say; BROKEN_PAGE=write cargo test -p triplane-broken writes it",
    ))
}

/// A common clause counts on each wire by itself.
fn covered() -> Result<(), Failed> {
    let excused =
        |clause: &str, wire: Wire| rows::NO_BREAK.iter().any(|(of, on, _)| *of == clause && *on == wire.flag());
    let broken =
        |clause: &str, wire: Wire| rows::all().iter().any(|row| row.clause == clause && row.wires.contains(&wire));
    let mut missing = Vec::new();
    for clause in clauses() {
        let wires = match clause.get(..1) {
            Some("L") => cases::WS,
            Some("H") => cases::HTTP,
            Some("S") => cases::STDIO,
            _ => cases::ALL,
        };
        for &wire in wires {
            if broken(&clause, wire) == excused(&clause, wire) {
                missing.push(format!("{clause} on {wire}"));
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Failed::from(format!("neither a broken server nor one reason: {missing:?}")))
    }
}

fn named() -> Result<(), Failed> {
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for row in rows::all() {
        if !names.insert(row.name) {
            wrong.push(format!("{} twice", row.name));
        }
        match find(row.case) {
            None => wrong.push(format!("{}: no case {}", row.name, row.case)),
            Some(case) => {
                if !case.clauses.contains(&row.clause) {
                    wrong.push(format!("{}: {} does not name {}", row.name, row.case, row.clause));
                }
                for wire in row.wires.iter().filter(|wire| !case.wires.contains(wire)) {
                    wrong.push(format!("{}: {} does not run on {wire}", row.name, row.case));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("; "))) }
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
