//! `bash`: a shell command, here or as a background task.
//! Invariant: when a call or a task ends, in whatever way, nothing of its process group is left; after a cancel or a time-out
//! nothing at all that it started. Faults: CP-04, CP-13.

use super::{Builtin, CANCELLED, Desk, Outcome, Prepared, output::Output, text::title};
use crate::{
    NativeConfig,
    host::{Host, TaskText},
    proc::{self, Running},
    sandbox::Hold,
    shelf::Job,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{process::ExitStatus, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use triplane_core::session::ToolKind;
use triplane_protocol::{AgentEvent, CallId};

/// How long a command may take unless it says otherwise.
const TIMEOUT_MS: u64 = 120_000;

/// How long it may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// How long output is waited for once the command has ended; who still holds the pipe is not waited for.
const DRAIN: Duration = Duration::from_millis(200);

/// Bytes of one read.
const BUFFER_BYTES: usize = 16 << 10;

/// Input of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bash {
    /// The command line, for a shell in the session's directory. Its standard input is empty.
    command: String,
    /// How long it may take, in milliseconds: 120000 when absent, 600000 at most; for a background command no limit when absent.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Whether it goes on in the background: the call ends at once, and the output is told when the command ends, or by `bash_output`.
    #[serde(default)]
    background: bool,
    /// Whether it runs without the sandbox, where there is one: the person is asked, so only when the sandbox is in the way.
    #[serde(default)]
    unconfined: bool,
}

impl Builtin for Bash {
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = "Runs a shell command and answers its output, standard error included, and its exit code \
        unless that is 0. Long output is cut in the middle. What the command leaves running is ended with it; for a server or \
        a long job set `background`.";

    fn prepare(self, desk: &Desk, call: &CallId) -> Result<Prepared, String> {
        if self.command.trim().is_empty() {
            return Err("command: must not be empty".to_owned());
        }
        if self.command.contains('\0') {
            return Err("command: must not contain NUL".to_owned());
        }
        if self.timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
            return Err(format!("timeout_ms: must be from 1 to {MAX_TIMEOUT_MS}; for longer set `background`"));
        }
        let (desk, call, kept) = (desk.clone(), call.clone(), desk.hold());
        let (kind, hold) = match kept {
            Hold::Confined(..) if self.unconfined => (ToolKind::Unconfined, Hold::Free),
            Hold::Missing { asked_for: true, .. } => (ToolKind::Unconfined, kept),
            Hold::Free | Hold::Confined(..) | Hold::Missing { asked_for: false, .. } => (ToolKind::Execute, kept),
        };
        Ok(Prepared {
            kind,
            title: title("bash", &self.command),
            subject: self.command.clone(),
            outside: false,
            changes: None,
            hold: Some(hold.told()),
            work: Box::pin(async move {
                if self.background {
                    in_background(desk, self, hold).await
                } else {
                    in_foreground(desk, call, self, hold).await
                }
            }),
        })
    }
}

async fn in_foreground(desk: Desk, call: CallId, input: Bash, hold: Hold) -> Outcome {
    let limit = Duration::from_millis(input.timeout_ms.unwrap_or(TIMEOUT_MS));
    let out = Out::Call(call, Arc::clone(&desk.host));
    let cancel = desk.cancel.clone();
    run(&desk, &input.command, &hold, Some(limit), &out, &cancel).await
}

async fn in_background(desk: Desk, input: Bash, hold: Hold) -> Outcome {
    let (host, shelf) = (Arc::clone(&desk.host), Arc::clone(&desk.shelf));
    let name = title("bash", &input.command);
    let job = Arc::new(Job::default());
    let kept = Arc::clone(&job);
    let work = move |text: TaskText, cancel: CancellationToken| -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
        Box::pin(async move {
            let limit = input.timeout_ms.map(Duration::from_millis);
            // Ended by the plane's token or by ours.
            let ours = job.stop.clone();
            let told = Arc::clone(&job);
            let both: TaskText = Arc::new(move |piece: &str| {
                told.push(piece);
                text(piece);
            });
            let out = Out::Task(both);
            let work = run(&desk, &input.command, &hold, limit, &out, &ours);
            tokio::pin!(work);
            let outcome = tokio::select! {
                outcome = &mut work => outcome,
                () = cancel.cancelled() => {
                    ours.cancel();
                    work.await
                }
            };
            let how = outcome.text.lines().last().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            job.end(if outcome.error { how } else { "exit code 0".to_owned() });
            (!outcome.error, outcome.text)
        })
    };
    match host.spawn_task(name, Box::new(work)).await {
        Ok(task) => {
            shelf.keep(task.clone(), kept);
            Outcome::ok(format!(
                "started as background task {task}; its output is told when it ends, or by `bash_output`; `bash_stop` ends it"
            ))
        }
        Err(err) => Outcome::failed(err),
    }
}

/// Where output goes while the command runs.
enum Out {
    Call(CallId, Arc<dyn Host>),
    Task(TaskText),
}

impl Out {
    async fn send(&self, text: String) {
        match self {
            Self::Call(call, host) => host.emit(AgentEvent::ToolCallOutput { call_id: call.clone(), text }).await,
            Self::Task(push) => push(&text),
        }
    }
}

/// Why the command is not waited for any longer.
enum End {
    Exited,
    Cancelled,
    TimedOut(Duration),
}

async fn run(
    desk: &Desk,
    command: &str,
    hold: &Hold,
    limit: Option<Duration>,
    out: &Out,
    cancel: &CancellationToken,
) -> Outcome {
    let confine = match hold {
        Hold::Confined(_, confine) => Some(confine),
        Hold::Free | Hold::Missing { .. } => None,
    };
    let NativeConfig { shim, hidden, .. } = &*desk.config;
    let (mut running, mut pipe) = match proc::start(command, &desk.cwd, shim.as_deref(), hidden, confine).await {
        Ok(started) => started,
        Err(err) if !desk.cwd.is_dir() => {
            return Outcome::failed(format!("the session's directory {} is gone ({err})", desk.cwd.display()));
        }
        Err(err) => return Outcome::failed(format!("the command cannot be started: {err}")),
    };
    let mut output = Output::default();
    let end = watch(&mut running, &mut pipe, &mut output, limit, out, cancel).await;
    let status = match end {
        End::Exited => running.finish().await,
        End::Cancelled | End::TimedOut(_) => running.stop().await,
    };
    let _ = timeout(DRAIN, drain(&mut pipe, &mut output)).await;
    if let Some(last) = output.take(true) {
        out.send(last).await;
    }
    let exited = matches!(end, End::Exited);
    let mut outcome = told(&output, end, status);
    if outcome.error
        && exited
        && let Some(blamed) = hold.blamed(&outcome.text)
    {
        outcome.text.push_str(&format!("\n{blamed}"));
    }
    outcome
}

/// Takes output until the command ends or must end.
async fn watch(
    running: &mut Running,
    pipe: &mut Receiver,
    output: &mut Output,
    limit: Option<Duration>,
    out: &Out,
    cancel: &CancellationToken,
) -> End {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut open = true;
    let began = Instant::now();
    loop {
        let due = output.due().map(Instant::from_std);
        tokio::select! {
            biased;
            () = cancel.cancelled() => return End::Cancelled,
            Some(limit) = passed(limit.map(|l| (began + l, l))) => return End::TimedOut(limit),
            // Before the pipe: what the command left behind may write for ever.
            () = running.ended() => return End::Exited,
            Some(()) = passed(due.map(|d| (d, ()))) => {
                if let Some(text) = output.take(false) {
                    out.send(text).await;
                }
            }
            read = pipe.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => output.push(buffer.get(..n).unwrap_or_default()),
            },
        }
    }
}

/// Resolves at a time, with what was to be told then; at once with `None` when there is no time.
async fn passed<T>(when: Option<(Instant, T)>) -> Option<T> {
    let (when, what) = when?;
    sleep_until(when).await;
    Some(what)
}

async fn drain(pipe: &mut Receiver, output: &mut Output) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(n @ 1..) = pipe.read(&mut buffer).await {
        output.push(buffer.get(..n).unwrap_or_default());
    }
}

fn told(output: &Output, end: End, status: std::io::Result<ExitStatus>) -> Outcome {
    let how = match (end, status) {
        (End::Cancelled, _) => CANCELLED.to_owned(),
        (End::TimedOut(limit), _) => {
            format!("ended after {} ms; raise timeout_ms, or set background", limit.as_millis())
        }
        (End::Exited, Ok(status)) => proc::how_it_ended(status),
        (End::Exited, Err(err)) => format!("how it ended is not known: {err}"),
    };
    let mut text = output.text();
    if how.is_empty() {
        return Outcome::ok(if text.is_empty() { "(no output)".to_owned() } else { text });
    }
    if text.is_empty() {
        return Outcome::failed(how);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Outcome::failed(format!("{text}[{how}]"))
}
