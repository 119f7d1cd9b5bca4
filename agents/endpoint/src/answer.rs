//! A script carried out into a dialect: streamed piece by piece as it goes, or gathered and sent whole.
//! Invariant: a failure that comes before anything was said is a status; one that comes later breaks or ends the stream.

use crate::{
    asked::{Asked, Scene},
    dialect::{Dialect, Ids, Piece, Stop, Usage},
    record::{Ending, Open},
};
use bytes::Bytes;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::sync::mpsc;
use triplane_script::{Failure, Step, clock_text, words};

/// Frames that may wait for a slow client; then the script waits too.
const FRAMES: usize = 8;
/// Scripts whose failed attempts are counted; past it the counts begin anew.
const COUNTED: usize = 1_000;

/// What stands behind every request of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Mind {
    pub(crate) ids: Ids,
    /// Attempts that failed, by script and place in it.
    failed: Mutex<HashMap<(String, usize), u32>>,
}

/// The connection is to be broken off.
#[derive(Debug, thiserror::Error)]
#[error("the script broke the connection")]
pub(crate) struct Broken;

/// What is sent of a stream.
pub(crate) type Frame = Result<Bytes, Broken>;

/// How a request is answered.
pub(crate) enum Answer {
    /// A status and an error.
    Status(Failure),
    /// Everything at once.
    Whole(serde_json::Value),
    /// Nothing: the connection is to be broken off.
    Break,
    /// Piece by piece; the work has to be run.
    Stream(mpsc::Receiver<Frame>, Box<Streamed>),
}

/// A reply that is being streamed.
pub(crate) struct Streamed {
    mind: Arc<Mind>,
    dialect: Dialect,
    asked: Asked,
    scene: Scene,
    failed: u32,
    out: mpsc::Sender<Frame>,
}

impl Mind {
    fn failed(&self, scene: &Scene) -> u32 {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(&(scene.prompt.clone(), scene.results.len())).copied().unwrap_or(0)
    }

    fn fails(&self, scene: &Scene) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= COUNTED {
            failed.clear();
        }
        *failed.entry((scene.prompt.clone(), scene.results.len())).or_default() += 1;
    }
}

/// Answers, up to the first piece of a stream; whatever the script waits for before that is waited for here.
pub(crate) async fn answer(mind: &Arc<Mind>, dialect: Dialect, asked: Asked) -> Answer {
    let scene = asked.scene();
    let failed = mind.failed(&scene);
    if scene.summary.is_none() {
        // A script that says nothing before it fails gets a status, as from a provider that is out of order.
        let script = scene.script();
        let first = script
            .attempt(&scene.tool_results(), failed)
            .find(|step| !matches!(step, Step::Sleep { .. } | Step::Task { .. }));
        if let Some(Step::Fail(failure)) = first
            && failure.http() != 200
        {
            sleep_before(&scene, failed).await;
            mind.fails(&scene);
            return Answer::Status(failure);
        }
    }
    if asked.stream {
        let (out, frames) = mpsc::channel(FRAMES);
        let streamed = Streamed { mind: Arc::clone(mind), dialect, asked, scene, failed, out };
        return Answer::Stream(frames, Box::new(streamed));
    }
    whole(mind, dialect, &asked, &scene, failed).await
}

/// The sleeps that stand before a failure.
async fn sleep_before(scene: &Scene, failed: u32) {
    let script = scene.script();
    let results = scene.tool_results();
    for step in script.attempt(&results, failed) {
        if let Step::Sleep { ms } = step {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
    }
}

async fn whole(mind: &Mind, dialect: Dialect, asked: &Asked, scene: &Scene, failed: u32) -> Answer {
    let (mut pieces, mut stop) = (Vec::new(), Stop::Done);
    let mut usage = Usage { input: scene.input_words(), cached: scene.cached_words(), ..Usage::default() };
    if let Some(summary) = &scene.summary {
        usage.output = words(summary);
        pieces.push(Piece::Text(summary.clone()));
    } else {
        let script = scene.script();
        let mut turn = script.attempt(&scene.tool_results(), failed);
        for step in turn.by_ref() {
            match step {
                Step::Text(text) => pieces.push(Piece::Text(text.into_owned())),
                Step::Think(text) => pieces.push(Piece::Think(text.to_owned())),
                Step::Clock => pieces.push(Piece::Text(clock_text(SystemTime::now()))),
                Step::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
                Step::Call { name, input } => {
                    stop = Stop::Tool;
                    pieces.push(Piece::Call { name: name.to_owned(), input: input.clone() });
                }
                Step::Task { .. } => {}
                Step::Fail(failure) => match stopped(failure) {
                    Some(early) => stop = early,
                    None => {
                        mind.fails(scene);
                        return if failure == Failure::Broken { Answer::Break } else { Answer::Status(failure) };
                    }
                },
            }
        }
        usage.output = turn.output_words();
        usage.thought = turn.thought_words();
    }
    Answer::Whole(dialect.whole(&asked.model, &pieces, stop, usage, &mind.ids))
}

/// The stop that a failure stands for, when it is none.
const fn stopped(failure: Failure) -> Option<Stop> {
    match failure {
        Failure::Refused => Some(Stop::Refused),
        Failure::MaxTokens => Some(Stop::Length),
        Failure::Invalid
        | Failure::Unauthorized
        | Failure::Forbidden
        | Failure::Timeout
        | Failure::TooLarge
        | Failure::Overloaded
        | Failure::Internal
        | Failure::Unavailable
        | Failure::Broken => None,
    }
}

/// The client is gone.
struct Gone;

impl Streamed {
    /// Carries the script out. Ends at once when the client goes away.
    pub(crate) async fn run(self, open: Open) {
        let out = self.out.clone();
        let ending = tokio::select! {
            biased;
            () = out.closed() => return,
            ending = self.go() => ending,
        };
        match ending {
            Ok(ending) => open.end(ending),
            Err(Gone) => drop(open),
        }
    }

    async fn send(&self, frames: &mut String) -> Result<(), Gone> {
        if frames.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(frames));
        self.out.send(Ok(bytes)).await.map_err(|_| Gone)
    }

    async fn go(&self) -> Result<Ending, Gone> {
        let (ids, mut frames) = (&self.mind.ids, String::new());
        let mut stream = self.dialect.stream(&self.asked.model, ids);
        let mut usage =
            Usage { input: self.scene.input_words(), cached: self.scene.cached_words(), ..Usage::default() };
        stream.begin(&mut frames);
        let mut stop = Stop::Done;
        if let Some(summary) = &self.scene.summary {
            usage.output = words(summary);
            stream.piece(&mut frames, &Piece::Text(summary.clone()), ids);
        } else {
            let script = self.scene.script();
            let results = self.scene.tool_results();
            let mut turn = script.attempt(&results, self.failed);
            for step in turn.by_ref() {
                let piece = match step {
                    Step::Text(text) => Piece::Text(text.into_owned()),
                    Step::Think(text) => Piece::Think(text.to_owned()),
                    Step::Clock => Piece::Text(clock_text(SystemTime::now())),
                    Step::Call { name, input } => {
                        stop = Stop::Tool;
                        Piece::Call { name: name.to_owned(), input: input.clone() }
                    }
                    Step::Sleep { ms } => {
                        self.send(&mut frames).await?;
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        continue;
                    }
                    Step::Task { .. } => continue,
                    Step::Fail(failure) => match stopped(failure) {
                        Some(early) => {
                            stop = early;
                            continue;
                        }
                        None => return self.broken(frames).await,
                    },
                };
                stream.piece(&mut frames, &piece, ids);
                self.send(&mut frames).await?;
            }
            usage.output = turn.output_words();
            usage.thought = turn.thought_words();
        }
        stream.end(&mut frames, stop, usage);
        self.send(&mut frames).await?;
        Ok(Ending::Complete)
    }

    /// Whatever fails in the middle breaks the connection off: no dialect has a status for it there.
    async fn broken(&self, mut frames: String) -> Result<Ending, Gone> {
        self.mind.fails(&self.scene);
        self.send(&mut frames).await?;
        self.out.send(Err(Broken)).await.map_err(|_| Gone)?;
        Ok(Ending::Broken)
    }
}
