//! One tool call: start, permission, work, result, end. Always answers, and always with a message in the history.

use super::{collect::Call, text_parts};
use crate::tools::{CANCELLED, Desk, Outcome, Prepared};
use std::{sync::Arc, time::Instant};
use triplane_core::session::{PermissionAsk, Verdict};
use triplane_protocol::{AgentEvent, Message, Part, Role};

/// Runs `call` (or, with `runs` false, only answers it) and returns the message that was appended.
pub(super) async fn run(desk: &Desk, call: Call, runs: bool) -> Arc<Message> {
    let began = Instant::now();
    let prepared = match runs {
        true if desk.cancel.is_cancelled() => Err(CANCELLED.to_owned()),
        true => desk.tools.prepare(desk, &call.id, &call.name, &call.input).await,
        false => Err("not run: the reply was cut off before it was whole; call again".to_owned()),
    };
    let title = prepared.as_ref().ok().map(|p| p.title.clone());
    let start = AgentEvent::ToolCallStart {
        call_id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
        title,
    };
    desk.host.emit(start).await;
    let outcome = match prepared {
        Ok(prepared) => permitted(desk, &call, prepared).await,
        Err(text) => Outcome::failed(text),
    };
    tell(desk, call, outcome, began).await
}

/// Asks, and runs what is allowed.
async fn permitted(desk: &Desk, call: &Call, prepared: Prepared) -> Outcome {
    let ask = PermissionAsk {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        kind: prepared.kind,
        title: prepared.title,
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
async fn tell(desk: &Desk, call: Call, outcome: Outcome, began: Instant) -> Arc<Message> {
    let mut output = text_parts(outcome.text);
    output.extend(outcome.images);
    let result = Part::result(call.id.clone(), output.clone(), outcome.error);
    let message = Message::of(desk.host.message_id(), Role::Tool, vec![result], desk.host.now_ms());
    desk.host.message(message.clone()).await;
    let end = AgentEvent::ToolCallEnd {
        call_id: call.id,
        output,
        error: outcome.error,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        diff: outcome.diff,
    };
    desk.host.emit(end).await;
    Arc::new(message)
}
