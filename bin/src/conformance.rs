//! `triplane conformance`: judges a server of a wire, ours or anybody's, by what a client of it can see. Serves the scripted model
//! meanwhile, so that the server's own agent can be pointed to a model whose answers are known.
//! Invariant: stdout carries the report and nothing else; progress and addresses go to stderr. Exit codes: see the command's help.

use crate::{
    cli::{ConformanceArgs, ReportKind},
    exit::{CommandError, Exit},
    plain,
    signals::Signals,
};
use std::{
    collections::BTreeSet,
    fs,
    io::{IsTerminal, Write},
    num::NonZero,
    sync::Arc,
    thread::available_parallelism,
};
use triplane_conformance::{
    Lacks, Options, Report, Target, Wire, judge, lacks, probe,
    report::{Judged, json, junit, text},
    suite::Plan,
    target::{Command, address},
};
use triplane_endpoint::Endpoint;

/// Cases beside each other: they mostly wait.
const JOBS_PER_CPU: usize = 2;

/// A shorter token would be found in answers by chance.
const TOKEN_BYTES: usize = 8;

/// Judges, and says what was found. Code 0: no clause was broken; 1: one was; 2: no server; 3: the runner failed.
pub(crate) async fn run(args: ConformanceArgs) -> Result<Exit, CommandError> {
    let mut signals = Signals::catch()?;
    let lacks = named(&args)?;
    let (mut target, wire) = target(&args)?;
    let bound = Endpoint::bind(args.model_port).await;
    let endpoint = bound.map_err(CommandError::io(format!("cannot listen on 127.0.0.1:{}", args.model_port)))?;
    let model = endpoint.start();
    let env = model_env(&model.url());
    tell_model(&env, args.quiet);
    if let Target::Stdio(command) = &mut target {
        command.env = env;
    }
    let judged = tokio::select! {
        judged = judge_all(&args, &target, wire, lacks) => judged,
        _ = signals.next() => return Ok(Exit::Cancelled),
    };
    model.stop().await;
    let report = judged?;
    write(&args, &report)?;
    Ok(Exit::Code(report.exit_code()))
}

async fn judge_all(
    args: &ConformanceArgs,
    target: &Target,
    wire: Wire,
    mut lacks: Lacks,
) -> Result<Report, CommandError> {
    let mut options = Options { slow: args.slow, bypass: args.bypass, ..Options::default() };
    // A program of ours is started by each case, and some judge that it starts at all.
    let mut found = probe::Found::default();
    if !target.spawned() {
        let no_server = |what: String| CommandError::Usage(format!("{target}: {what}"));
        found = probe::probe(target, wire, &options).await.map_err(no_server)?;
        if let Some(methods) = &found.methods {
            lacks.listed(&methods.iter().map(String::as_str).collect::<Vec<_>>());
        }
        lacks.by_answer = true;
        options.script = found.no_script.is_none();
    }
    options.lacks = Arc::new(lacks);
    let jobs = args.jobs.map_or_else(|| available_parallelism().map_or(1, NonZero::get) * JOBS_PER_CPU, NonZero::get);
    let plan = Plan { wire, only: args.only.iter().map(|id| id.to_uppercase()).collect(), jobs, options };
    let mut progress = Progress::new(args.quiet);
    let report = judge(target, plan, &mut |done, total, judged| progress.tell(done, total, judged)).await;
    progress.clear();
    Ok(Report { server: found.server, no_script: found.no_script, ..report })
}

/// Checks the names of `--only` and `--lacks`.
fn named(args: &ConformanceArgs) -> Result<Lacks, CommandError> {
    let clauses: BTreeSet<&str> = lacks::clauses().map(|(id, _)| id).collect();
    if let Some(id) = args.only.iter().find(|id| !clauses.contains(id.to_uppercase().as_str())) {
        return Err(CommandError::Usage(format!("--only {id}: no such clause; they run from C01 to S32")));
    }
    let names = args.lacks.iter().map(|name| {
        let upper = name.to_uppercase();
        if clauses.contains(upper.as_str()) { upper } else { name.clone() }
    });
    Lacks::new(names).map_err(|name| {
        let near = lacks::known()
            .into_iter()
            .max_by(|a, b| strsim::jaro_winkler(a, &name).total_cmp(&strsim::jaro_winkler(b, &name)));
        let near = near.map_or_else(String::new, |near| format!("; is `{near}` meant?"));
        CommandError::Usage(format!("--lacks {name}: neither a clause nor a method nor a word of a path{near}"))
    })
}

fn target(args: &ConformanceArgs) -> Result<(Target, Wire), CommandError> {
    let token = args.token.clone();
    if token.as_ref().is_some_and(|token| token.len() < TOKEN_BYTES) {
        let why = format!(
            "--token: cases look for it in answers, so the server must be given one of {TOKEN_BYTES} characters or more"
        );
        return Err(CommandError::Usage(why));
    }
    let target = match (&args.target.ws, &args.target.http, &args.target.stdio, &args.target.program) {
        (Some(url), _, _, _) => (address::ws(url, token).map_err(CommandError::Usage)?, Wire::Ws),
        (_, Some(url), _, _) => (address::http(url, token).map_err(CommandError::Usage)?, Wire::Http),
        (_, _, Some(command), _) => {
            let here = std::env::current_dir().map_err(CommandError::io("finding the current directory"))?;
            (Target::Stdio(Command::parse(command, &here).map_err(CommandError::Usage)?), Wire::Stdio)
        }
        (_, _, _, Some(program)) => {
            let program = std::path::absolute(program).map_err(CommandError::io("finding the program"))?;
            let wire =
                args.wire.ok_or_else(|| CommandError::Usage("--program needs --wire ws, http or stdio".into()))?;
            (Target::Spawn(program), wire.into())
        }
        (None, None, None, None) => return Err(CommandError::Usage("one of --ws, --http, --stdio is needed".into())),
    };
    Ok(target)
}

/// What points an agent to the model: the variables that the usual providers' libraries read.
fn model_env(url: &str) -> Vec<(String, String)> {
    let host = url.trim_start_matches("http://");
    let pairs = [
        ("TRIPLANE_SCRIPT_MODEL", url.to_owned()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_KEY", "script".to_owned()),
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("ANTHROPIC_API_KEY", "script".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
        ("GEMINI_API_KEY", "script".to_owned()),
        ("OLLAMA_HOST", host.to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn tell_model(env: &[(String, String)], quiet: bool) {
    if quiet {
        return;
    }
    let shown: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    anstream::eprintln!("the scripted model, for the server under test:\n  {}", shown.join("\n  "));
}

fn write(args: &ConformanceArgs, report: &Report) -> Result<(), CommandError> {
    let painted = args.out.is_none() && std::io::stdout().is_terminal();
    let rendered = match args.report {
        ReportKind::Text => text::render(report, if painted { text::Paint::COLORS } else { text::Paint::default() }),
        ReportKind::Json => format!("{:#}\n", json::render(report)),
        ReportKind::Junit => junit::render(report),
    };
    match &args.out {
        Some(path) => fs::write(path, rendered).map_err(CommandError::io(format!("writing {}", path.display()))),
        // It drops colours where nobody would see them.
        None => anstream::stdout().write_all(rendered.as_bytes()).map_err(CommandError::io("printing")),
    }
}

/// One line on a terminal's stderr that tells how far it is; elsewhere nothing.
struct Progress {
    shown: bool,
    broke: usize,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        Self { shown: !quiet && std::io::stderr().is_terminal(), broke: 0 }
    }

    fn tell(&mut self, done: usize, total: usize, judged: &Judged) {
        self.broke += usize::from(matches!(judged.verdict, triplane_conformance::Verdict::Broke { .. }));
        if self.shown {
            let line = format!("{done}/{total} judged, {} broke: {}", self.broke, plain::line(&judged.id));
            anstream::eprint!("\r\x1b[2K{line:.100}");
        }
    }

    fn clear(&self) {
        if self.shown {
            anstream::eprint!("\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> ConformanceArgs {
        let cli = Cli::try_parse_from(["triplane", "conformance"].into_iter().chain(line.split(' '))).unwrap();
        let Command::Conformance(args) = cli.command else { panic!("conformance was asked for") };
        args
    }

    #[test]
    fn names_are_checked_and_the_nearest_is_told() {
        let refused = |line: &str| named(&args(line)).unwrap_err().to_string();
        assert!(refused("--ws ws://h --only L99").contains("--only L99"));
        assert!(refused("--ws ws://h --lacks project").contains("is `projects` meant?"));
        let lacks = named(&args("--ws ws://h --lacks h22,fork")).unwrap();
        assert!(lacks.has("H22") && lacks.has("fork"));
    }

    #[test]
    fn one_target_is_needed() {
        assert!(target(&args("--http http://127.0.0.1:1 --token t")).unwrap_err().to_string().contains("--token"));
        let refused = |line: &[&str]| Cli::try_parse_from(["triplane", "conformance"].iter().chain(line)).unwrap_err();
        assert_eq!(refused(&[]).exit_code(), 2);
        assert_eq!(refused(&["--ws", "ws://h", "--http", "http://h"]).exit_code(), 2);
        assert!(target(&args("--http ftp://h")).unwrap_err().to_string().contains("http://"));
        assert!(target(&args("--program x")).unwrap_err().to_string().contains("--wire"));
    }
}
