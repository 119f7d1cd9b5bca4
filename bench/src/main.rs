//! The `bench` command: measures rows, prints a table or JSON, and with `--gate` judges.

use anyhow::{Result, bail};
use clap::{Parser, builder::PossibleValuesParser};
use std::{io::Write, path::PathBuf, process::ExitCode};
use triplane_bench::{
    report::Report,
    rows::{ROWS, Row, Setup},
    server::{Programs, load},
};

const EXAMPLES: &str = "\
Examples:
  cargo build --release -p triplane -p triplane-bench
  target/release/bench all
  target/release/bench ready --pairs 16
  target/release/bench all --gate --json > figures.json

Exit codes: 0 measured (and, with --gate, every figure holds); 1 a figure misses its gate, or measuring failed; 2 usage.";

/// Measures the plane beside the least that a server could do, and prints ratios.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = EXAMPLES)]
struct Cli {
    /// What to measure
    #[arg(value_parser = PossibleValuesParser::new(ROWS.iter().map(|row| row.name).chain(["all"])))]
    name: String,
    /// Interleaved pairs a figure
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Fail when a figure misses its target (ratios: by more than 30 %)
    #[arg(long)]
    gate: bool,
    /// The `triplane` to measure [default: beside this program]
    #[arg(long, value_name = "PATH")]
    ours: Option<PathBuf>,
    /// The ceiling to measure against [default: `bare` beside this program]
    #[arg(long, value_name = "PATH")]
    bare: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let mut stderr = std::io::stderr();
    if cfg!(debug_assertions) {
        writeln!(stderr, "bench: this is a debug build; its figures mean nothing")?;
    }
    let setup = Setup { programs: Programs::find(cli.ours, cli.bare)?, pairs: usize::from(cli.pairs) };
    let rows: Vec<&Row> = ROWS.iter().filter(|row| cli.name == "all" || cli.name == row.name).collect();
    if rows.is_empty() {
        bail!("nothing to measure");
    }
    let before = load();
    let mut figures = Vec::new();
    for row in rows {
        writeln!(stderr, "bench: {}: {}", row.name, row.about)?;
        figures.extend((row.run)(&setup)?);
    }
    let report = Report { load: [before, load()], pairs: setup.pairs, figures };
    let text = if cli.json { serde_json::to_string_pretty(&report)? } else { report.table() };
    writeln!(std::io::stdout(), "{text}")?;
    let misses = if cli.gate { report.misses() } else { Vec::new() };
    for miss in &misses {
        writeln!(stderr, "bench: {miss}")?;
    }
    Ok(if misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
