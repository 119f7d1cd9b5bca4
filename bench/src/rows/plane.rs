//! The plane without a wire: what publishing costs with many readers, replay from memory, durable appends, a large transcript.
//! Measured by the example `speed` of the plane's crate, a process a figure: this program may not know the plane.

use super::{Row, Setup};
use crate::report::{Figure, Target};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{path::PathBuf, process::Command};

pub(super) const ROW: Row = Row {
    name: "plane",
    about: "publishing to 1 and 1000 readers, replay, durable appends by 64 writers, a transcript of 100 MiB",
    run,
};

const READERS: &str = "1000";
const WRITERS: &str = "64";
const MIB: &str = "100";

/// What the example says; each of its measurements says some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    publish_ns: f64,
    replay_ns: f64,
    commits_per_s: f64,
    bare_per_s: f64,
    load_ms: f64,
    kept_mib: f64,
    grew_mib: f64,
}

fn run(setup: &Setup) -> Result<Vec<Figure>> {
    let program = setup.programs.ours.with_file_name("examples").join("speed");
    if !program.is_file() {
        bail!("{} is not there; cargo build --release -p triplane-core --example speed", program.display());
    }
    let say = |args: &[&str]| say(&program, args);
    let (mut publish, mut replay, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setup.pairs {
        publish.push((say(&["publish", READERS])?.publish_ns, say(&["publish", "1"])?.publish_ns));
        replay.push((say(&["replay", "50"])?.replay_ns, say(&["replay", "1"])?.replay_ns));
        let said = say(&["commits", WRITERS])?;
        // As time for one, so that less is better, as in every ratio here.
        commits.push((1e6 / said.commits_per_s, 1e6 / said.bare_per_s));
    }
    let (kept, rewound) = (say(&["load", MIB, "kept"])?, say(&["load", MIB, "rewound"])?);
    let figures = [
        Figure::of_pairs("publishing an event to 1000 readers, over to 1", "ns", &publish, Target::Ratio(1.5)),
        Figure::of_pairs("replay of an event to 50 readers, over to 1", "ns", &replay, Target::Ratio(1.5)),
        Figure::of_pairs("durable append, 64 writers, over a bare group commit", "us", &commits, Target::Ratio(2.0)),
        Figure::of_ours("load of 100 MiB", "ms", &[kept.load_ms], Target::Information),
        Figure::of_ours(
            "load of 100 MiB, memory over what is kept",
            "x",
            &[kept.grew_mib / kept.kept_mib],
            Target::Size(1.6),
        ),
        Figure::of_ours("load of 100 MiB that were rewound, memory", "MiB", &[rewound.grew_mib], Target::Size(16.0)),
    ];
    Ok(figures.into_iter().flatten().collect())
}

fn say(program: &PathBuf, args: &[&str]) -> Result<Said> {
    let output =
        Command::new(program).args(args).output().with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        bail!("speed {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("speed {} said no figures", args.join(" ")))
}
