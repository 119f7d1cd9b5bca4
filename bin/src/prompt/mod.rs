//! `triplane prompt`: one run through a plane in this process, as a person or a script sees it.
//! Invariant: the exit code is 0 only if the run ended with `completed`. Clause: C11.

mod ask;
mod print;

use crate::{
    cli::{PromptArgs, ServeFlags},
    exit::{CommandError, Exit},
    home,
    settings::{Place, resolve},
    signals::Signals,
};
use ask::{Asker, Said, question};
use print::Printer;
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Read, Write},
    time::Duration,
};
use tokio::task::JoinHandle;
use triplane_core::{
    Plane, PlaneError,
    feed::{Entry, Subscription},
    plane::{Answer, Choice, Created, HoldPolicy, Prompt, RunResult, WhenBusy},
};
use triplane_protocol::{AgentEvent, SessionId, Stop};

/// Bytes of a prompt from stdin at most: what the plane takes, and one to see that there is more.
const STDIN_BYTES: u64 = (16 << 20) + 1;
/// Entries that are printed before the writers are flushed and the keyboard is looked at again.
const BATCH: usize = 256;
/// How long the plane may take to put everything away.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `args` to its end.
pub(crate) async fn run(args: PromptArgs) -> Result<Exit, CommandError> {
    let mut signals = Signals::catch()?;
    let settings = resolve(Place::here()?, args.plane, ServeFlags::default())?;
    settings.warn_unread();
    let text = if args.text == "-" { from_stdin()? } else { args.text };
    // A prompt that came through stdin leaves nobody there to answer.
    let answers = io::stdin().is_terminal();
    let plane = home::open(&settings)?;
    let policy = HoldPolicy { name: "prompt", answers, ..HoldPolicy::default() };
    let hold = plane.hold(policy);
    let ran = async {
        let id = match &args.session {
            Some(text) => {
                let id = plane.resolve(text).await?;
                plane.attach(&hold, &id).await?.row.id
            }
            None => plane.create(&hold, Created { source: Some("prompt".into()), ..Created::default() }).await?.row.id,
        };
        let events = plane.subscribe(&id).await?;
        let run = plane.prompt(&id, Prompt::text(text, WhenBusy::Refuse)).await?;
        let show = Show::new(args.json, answers)?;
        let mut watch = Watch { plane: &plane, id, show, cancelling: None };
        let result = watch.until_end(events, run.finished(), &mut signals).await?;
        watch.show.close()?;
        Ok(result)
    };
    let result: Result<RunResult, CommandError> = ran.await;
    tokio::select! {
        () = plane.shutdown(GRACE) => {}
        never = signals.exit_at_next() => match never {},
    }
    match result?.stop {
        Stop::Completed => Ok(Exit::Done),
        Stop::Aborted => Ok(Exit::Cancelled),
        Stop::MaxTurns | Stop::MaxTokens | Stop::Refused | Stop::Error => Ok(Exit::Failed),
    }
}

fn from_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    io::stdin().lock().take(STDIN_BYTES).read_to_string(&mut text).map_err(CommandError::io("reading the prompt"))?;
    if text.trim().is_empty() {
        return Err(CommandError::Usage("the prompt on stdin is empty".into()));
    }
    Ok(text)
}

/// One run, watched.
struct Watch<'a> {
    plane: &'a Plane,
    id: SessionId,
    show: Show,
    /// A cancel on its way; its run's events are still printed meanwhile.
    cancelling: Option<JoinHandle<Result<bool, PlaneError>>>,
}

impl Watch<'_> {
    /// Prints until the run is over and its last event is printed.
    async fn until_end(
        &mut self,
        mut events: Subscription,
        finished: impl Future<Output = Result<RunResult, PlaneError>>,
        signals: &mut Signals,
    ) -> Result<RunResult, CommandError> {
        let mut finished = std::pin::pin!(finished);
        let result = loop {
            // Every arm is cancel safe: a dropped one has lost nothing.
            tokio::select! {
                batch = events.next(BATCH) => {
                    if let Some(gap) = batch.gap {
                        self.show.lost(gap.from, gap.to)?;
                    }
                    for entry in &batch.entries {
                        self.show.entry(&self.id, entry)?;
                    }
                }
                result = &mut finished => break result?,
                said = self.show.answer() => self.answer(said).await?,
                signal = signals.next() => {
                    if self.cancelling.is_some() {
                        std::process::exit(signal.exit_code());
                    }
                    let (plane, id) = (self.plane.clone(), self.id.clone());
                    self.cancelling = Some(tokio::spawn(async move { plane.cancel(&id).await }));
                }
            }
        };
        loop {
            let batch = events.try_next(BATCH);
            if batch.entries.is_empty() {
                return Ok(result);
            }
            for entry in batch.entries.iter().filter(|entry| entry.seq <= result.last_seq) {
                self.show.entry(&self.id, entry)?;
            }
        }
    }

    async fn answer(&mut self, said: Said) -> Result<(), CommandError> {
        let (request, choice) = match said {
            Said::Unclear => return self.show.question(),
            Said::Option(request, option) => (request, Choice::Option(option)),
            Said::Nothing(request) => (request, Choice::Kind { allow: false, always: false }),
        };
        let answer = Answer { choice, reason: None, by: Some("terminal".into()) };
        match self.plane.answer(&self.id, &request, answer).await {
            Ok(answered) => {
                if let Some(error) = answered.error {
                    self.show.remark(&format!("the rule was not saved: {error}"))?;
                }
            }
            // Answered or expired meanwhile: the event tells how.
            Err(PlaneError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.show.next_question()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(cancelling) = self.cancelling.take() {
            cancelling.abort();
        }
    }
}

/// Where events go: for people or as lines of JSON; and who is asked.
struct Show {
    style: ShowStyle,
    asker: Option<Asker>,
}

enum ShowStyle {
    People(Box<Printer<anstream::AutoStream<io::Stdout>, anstream::AutoStream<io::Stderr>>>),
    Json,
}

/// One event as a line.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    session: &'a SessionId,
    #[serde(flatten)]
    event: &'a AgentEvent,
}

impl Show {
    fn new(json: bool, answers: bool) -> Result<Self, CommandError> {
        let style = if json {
            ShowStyle::Json
        } else {
            ShowStyle::People(Box::new(Printer::new(
                anstream::AutoStream::auto(io::stdout()),
                anstream::AutoStream::auto(io::stderr()),
                io::stdout().is_terminal(),
            )))
        };
        let asker = if answers {
            Some(Asker::start().map_err(CommandError::io("starting the terminal's reader"))?)
        } else {
            None
        };
        Ok(Self { style, asker })
    }

    fn entry(&mut self, id: &SessionId, entry: &Entry) -> Result<(), CommandError> {
        let printed = match &mut self.style {
            ShowStyle::People(printer) => printer.event(&entry.event),
            ShowStyle::Json => json_line(&Line { seq: entry.seq, session: id, event: &entry.event }),
        };
        printed.map_err(CommandError::io("printing"))?;
        let Some(asker) = &mut self.asker else { return Ok(()) };
        if let AgentEvent::PermissionRequest(request) = &entry.event {
            if asker.ask(request.clone()) {
                self.question()?;
            }
        } else if let AgentEvent::PermissionResolved { request_id, .. } = &entry.event
            && asker.forget(request_id)
        {
            self.next_question()?;
        }
        Ok(())
    }

    /// Shows the next question, if there is one, with what it is about.
    fn next_question(&mut self) -> Result<(), CommandError> {
        match self.asker.as_ref().and_then(Asker::question).map(|request| format!("asks: {}", request.title)) {
            Some(title) => {
                self.remark(&title)?;
                self.question()
            }
            None => Ok(()),
        }
    }

    /// Shows what can be answered to the question that waits.
    fn question(&mut self) -> Result<(), CommandError> {
        let Some(request) = self.asker.as_ref().and_then(Asker::question) else { return Ok(()) };
        let mut stderr = anstream::stderr().lock();
        let shown = write!(stderr, "{}", question(&request.options)).and_then(|()| stderr.flush());
        shown.map_err(CommandError::io("asking"))
    }

    async fn answer(&mut self) -> Said {
        match &mut self.asker {
            Some(asker) => asker.answer().await,
            None => std::future::pending().await,
        }
    }

    fn lost(&mut self, from: u64, to: u64) -> Result<(), CommandError> {
        self.remark(&format!("events {from} to {to} were lost here; the session has them"))
    }

    fn remark(&mut self, text: &str) -> Result<(), CommandError> {
        match &mut self.style {
            ShowStyle::People(printer) => printer.note(&anstyle::Style::new().dimmed(), text),
            ShowStyle::Json => {
                tracing::warn!("{text}");
                Ok(())
            }
        }
        .map_err(CommandError::io("printing"))
    }

    fn close(&mut self) -> Result<(), CommandError> {
        match &mut self.style {
            ShowStyle::People(printer) => printer.end_line().map_err(CommandError::io("printing")),
            ShowStyle::Json => Ok(()),
        }
    }
}

/// Writes `value` as one line of stdout, at once.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}
