//! The tool calls of a turn: start, permission, work, result, end. Each is always answered, with a message in the history.

use super::{collect::Call, text_parts};
use crate::tools::{CANCELLED, Desk, Outcome, Prepared};
use futures_util::{StreamExt, stream::FuturesOrdered};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use triplane_core::session::{PermissionAsk, ToolKind, Verdict};
use triplane_protocol::{AgentEvent, Message, Part, Role};

/// Calls of one turn that may be at work at the same time.
const BESIDE: usize = 8;

/// A call that was read and told, and waits for its work.
struct Begun {
    call: Call,
    prepared: Result<Prepared, String>,
    began: Instant,
}

impl Begun {
    /// Whether it changes nothing, so that it may go on beside others like it.
    fn only_looks(&self) -> bool {
        self.prepared.as_ref().map_or(true, |prepared| prepared.kind == ToolKind::Read && !prepared.outside)
    }

    fn start(&self) -> AgentEvent {
        let Self { call, prepared, .. } = self;
        AgentEvent::ToolCallStart {
            call_id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            title: prepared.as_ref().ok().map(|p| p.title.clone()),
        }
    }

    async fn work(self, desk: &Desk) -> (Call, Outcome, Duration) {
        let Self { call, prepared, began } = self;
        let outcome = match prepared {
            Ok(prepared) => permitted(desk, &call, prepared).await,
            Err(text) => Outcome::failed(text),
        };
        (call, outcome, began.elapsed())
    }
}

/// Runs all `calls` of a turn (or, with `runs` false, only answers them) and returns the messages that were appended.
/// Neighbours that only look go on side by side; their starts and their results are told in the order of the calls.
pub(super) async fn run_all(desk: &Desk, calls: Vec<Call>, runs: bool) -> Vec<Arc<Message>> {
    let (mut told, mut beside) = (Vec::new(), Vec::new());
    for call in calls {
        let prepared = match runs {
            true if desk.cancel.is_cancelled() => Err(CANCELLED.to_owned()),
            true => desk.tools.prepare(desk, &call.id, &call.name, &call.input).await,
            false => Err("not run: the reply was cut off before it was whole; call again".to_owned()),
        };
        let begun = Begun { call, prepared, began: Instant::now() };
        let event = begun.start();
        let alone = !begun.only_looks();
        if alone || beside.len() >= BESIDE {
            finish(desk, std::mem::take(&mut beside), &mut told).await;
        }
        desk.host.emit(event).await;
        beside.push(begun);
        if alone {
            finish(desk, std::mem::take(&mut beside), &mut told).await;
        }
    }
    finish(desk, beside, &mut told).await;
    told
}

async fn finish(desk: &Desk, calls: Vec<Begun>, told: &mut Vec<Arc<Message>>) {
    // An answer waits for those before it only.
    let mut work: FuturesOrdered<_> = calls.into_iter().map(|begun| begun.work(desk)).collect();
    while let Some((call, outcome, took)) = work.next().await {
        told.push(tell(desk, call, outcome, took).await);
    }
}

/// Asks, and runs what is allowed.
async fn permitted(desk: &Desk, call: &Call, prepared: Prepared) -> Outcome {
    let ask = PermissionAsk {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        kind: prepared.kind,
        title: match &prepared.hold {
            Some(hold) => format!("{} ({hold})", prepared.title),
            None => prepared.title,
        },
        input: call.input.clone(),
        subject: prepared.subject,
        outside: prepared.outside,
        options: None,
    };
    let verdict = tokio::select! {
        biased;
        () = desk.cancel.cancelled() => Verdict::Expired,
        verdict = desk.host.ask(ask) => verdict,
    };
    match verdict {
        // A tool sees the cancel itself: it has children to end or a change to finish.
        Verdict::Allowed { .. } => {
            let mut outcome = prepared.work.await;
            if let Some(path) = prepared.changes.filter(|_| !outcome.error)
                && let Some(told) = desk.config.extensions.after_change(desk, &path).await
            {
                outcome.text.push_str(&format!("\n{told}"));
            }
            outcome
        }
        Verdict::Denied { reason, .. } => Outcome::failed(format!("denied: {reason}")),
        Verdict::Expired => Outcome::failed(CANCELLED.to_owned()),
    }
}

/// The result goes into the history; then it is told.
async fn tell(desk: &Desk, call: Call, outcome: Outcome, took: Duration) -> Arc<Message> {
    let mut output = text_parts(outcome.text);
    output.extend(outcome.images);
    let result = Part::result(call.id.clone(), output.clone(), outcome.error);
    let message = Message::of(desk.host.message_id(), Role::Tool, vec![result], desk.host.now_ms());
    desk.host.message(message.clone()).await;
    let end = AgentEvent::ToolCallEnd {
        call_id: call.id,
        output,
        error: outcome.error,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        diff: outcome.diff,
    };
    desk.host.emit(end).await;
    Arc::new(message)
}
