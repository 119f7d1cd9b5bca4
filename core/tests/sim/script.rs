//! What befalls the sessions of a process, drawn from a seed: a list of steps that mean something in any state, so that a script
//! stays a script when steps are taken out of it.

use crate::{disk::Fault, world::SESSIONS};
use fastrand::Rng;
use triplane_protocol::{Stop, event::CloseReason};

/// One step. A number picks among what is there at that moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    Prompt {
        queue: bool,
    },
    Withdraw(u8),
    /// `seen`: the caller names a run, the current one or an earlier one.
    Cancel {
        seen: Option<u8>,
    },
    Event,
    Message,
    Ask {
        answerable: bool,
    },
    /// A message, event or request of a run that is over.
    Late(u8),
    End(Stop),
    Answer {
        request: u8,
        option: u8,
    },
    Set(u8),
    Record,
    Clear {
        now: bool,
    },
    Reserve,
    Release {
        rewind: bool,
    },
    Compact,
    Summary {
        ok: bool,
    },
    TaskStart,
    TaskEnd {
        task: u8,
        ok: bool,
    },
    StopTask(u8),
    Detach(CloseReason),
    Evict,
    Drain,
    /// The run does not fit: refused by the provider, or seen by the agent.
    Overflow {
        early: bool,
    },
    /// The machine goes down; `keep` of 256 parts of what was written but not synced survive.
    PowerCut {
        keep: u8,
    },
    /// The process dies, with some of the last spooled events.
    Kill {
        lost: u8,
    },
    /// The next appends fail.
    DiskFails {
        fault: Fault,
        count: u8,
    },
    DiskWorks,
    /// The next reservation of seqs fails.
    SpoolFails,
    /// The older half of the spooled events goes.
    Trim,
    /// Clients that read one session.
    Join,
    Leave(u8),
    Seek {
        reader: u8,
        after: u8,
    },
    Read {
        reader: u8,
        max: u8,
    },
    /// Clients that read the node's feed.
    Watch,
    Unwatch(u8),
    Peek {
        watcher: u8,
        max: u8,
    },
    Wait {
        ms: u16,
    },
}

/// The script of a seed.
pub(crate) fn script(seed: u64, steps: usize) -> Vec<(usize, Step)> {
    let mut rng = Rng::with_seed(seed);
    // Some lives are quiet, some stormy: what is rare in one seed is common in another.
    let (faults, closes) = (rng.u32(0..4), rng.u32(0..4));
    (0..steps).map(|_| (rng.usize(0..SESSIONS), step(&mut rng, faults, closes))).collect()
}

fn step(rng: &mut Rng, faults: u32, closes: u32) -> Step {
    let weights = [
        14, 10, 3, 6, 12, 8, 8, 3, 12, 10, 4, 3, 3, 3, 5, 3, 6, 6, 6, 2, closes, closes, closes, faults, faults,
        faults, 4, 5, 2, 1, 1, 3, 1, 2, 12, 1, 1, 8,
    ];
    let mut at = rng.u32(0..weights.iter().sum());
    let mut kind = 0;
    while at >= weights[kind] {
        at -= weights[kind];
        kind += 1;
    }
    let n = rng.u8(..);
    match kind {
        0 => Step::Prompt { queue: false },
        1 => Step::Prompt { queue: true },
        2 => Step::Withdraw(n),
        3 => Step::Cancel { seen: rng.bool().then_some(n) },
        4 => Step::Event,
        5 => Step::Message,
        6 => Step::Ask { answerable: n > 30 },
        7 => Step::Late(n),
        8 => Step::End([Stop::Completed, Stop::Aborted, Stop::Error, Stop::MaxTurns][usize::from(n) % 4]),
        9 => Step::Answer { request: n, option: rng.u8(..5) },
        10 => Step::Set(n),
        11 => Step::Record,
        12 => Step::Clear { now: n > 127 },
        13 => Step::Reserve,
        14 => Step::Release { rewind: n > 127 },
        15 => Step::Compact,
        16 => Step::Summary { ok: n > 60 },
        17 => Step::TaskStart,
        18 => Step::TaskEnd { task: n, ok: n > 60 },
        19 => Step::StopTask(n),
        20 => Step::Detach([CloseReason::Explicit, CloseReason::Deleted, CloseReason::Rewind][usize::from(n) % 3]),
        21 => Step::Evict,
        22 => Step::Drain,
        23 if n > 127 => Step::PowerCut { keep: rng.u8(..) },
        23 => Step::Kill { lost: n },
        24 => {
            let part = rng.u8(..);
            let faults = [Fault::Refused, Fault::Short(part), Fault::Ragged(part), Fault::Unsynced, Fault::Dies(part)];
            Step::DiskFails { fault: faults[usize::from(n) % 5], count: 1 + n % 4 }
        }
        25 => Step::DiskWorks,
        26 => Step::Wait { ms: rng.u16(0..6000) },
        27 => Step::Overflow { early: n > 127 },
        28 => Step::SpoolFails,
        29 => Step::Trim,
        30 => Step::Join,
        31 => Step::Leave(n),
        32 => Step::Seek { reader: n, after: rng.u8(..) },
        33 => Step::Read { reader: n, max: rng.u8(1..9) },
        34 => Step::Watch,
        35 => Step::Unwatch(n),
        _ => Step::Peek { watcher: n, max: rng.u8(1..20) },
    }
}
