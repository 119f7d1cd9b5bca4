//! A submit: its run's events, all of them and in order, and then its result.
//! Invariant: the position in the session's log stands before the prompt is taken; events are pulled from the log as the
//! socket takes them, and are never queued beyond the outbox's budget. Clauses: L14–L18, C10, C14.

use crate::{
    connection::Client,
    outbox::{Outbox, text_frame},
};
use bytes::Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use triplane_common::{framing::WS_TEXT, rpc::Armed};
use triplane_core::{
    feed::{Entry, Framed, Subscription},
    plane::{Prompt, Run, RunResult, WhenBusy},
};
use triplane_protocol::{
    ErrorCode, Failure, SessionId,
    lich::{EVENT, PromptSubmitResult, forwarded},
};

/// Bytes of events that are handed to the socket together: one write.
const BATCH_BYTES: usize = 16 << 10;

/// Prompts and waits for the run's end. `armed` fires when an abort or the connection's end comes first.
pub(crate) async fn run(
    client: &Client,
    armed: &Armed,
    id: &SessionId,
    text: String,
) -> Result<PromptSubmitResult, Failure> {
    let plane = &client.lich.plane;
    let path = plane.get(id).await?.path;
    let mut events = plane.subscribe(id).await?;
    let prompt = Prompt { armed: armed.token().clone(), ..Prompt::text(text, WhenBusy::Queue) };
    let run = {
        let mut begins = std::pin::pin!(plane.prompt(id, prompt));
        tokio::select! {
            biased;
            run = &mut begins => run?,
            () = client.gone.cancelled() => {
                // Nobody would hear of a run that is yet to begin; if it has begun all the same, it is ours to leave or to end.
                armed.token().cancel();
                begins.await?
            }
        }
    };
    armed.begun();
    events.seek(run.seq.saturating_sub(1));
    let end = tokio::select! {
        biased;
        end = follow(&client.outbox, id, &mut events, run) => end?,
        () = client.gone.cancelled() => {
            if plane.config().abort_on_disconnect {
                plane.cancel(id).await?;
            }
            return Err(Failure::new(ErrorCode::Cancelled, "the connection is over"));
        }
    };
    Ok(PromptSubmitResult {
        reply: end.reply,
        usage: end.usage,
        session_path: path.to_string_lossy().into_owned(),
        turns_used: end.turns,
        stopped_reason: end.stop,
        run_id: end.run_id,
    })
}

/// Hands in the run's events up to its last one, and gives its result.
async fn follow(outbox: &Outbox, id: &SessionId, events: &mut Subscription, run: Run) -> Result<RunResult, Failure> {
    let mut finished = std::pin::pin!(run.finished());
    let mut end: Option<RunResult> = None;
    loop {
        if let Some(end) = end.take_if(|end| events.position() >= end.last_seq) {
            return Ok(end);
        }
        tokio::select! {
            biased;
            // Before the events, so that none of a run that follows at once is taken for this one's.
            ended = &mut finished, if end.is_none() => end = Some(ended?),
            batch = events.next_framed(WS_TEXT, BATCH_BYTES, |entry| encode(id, entry)) => {
                if forward(outbox, id, batch).await? {
                    return match end {
                        Some(end) => Ok(end),
                        None => Ok(finished.await?),
                    };
                }
            }
        }
    }
}

/// Hands a batch in, as far as it belongs to the run. `true`: its last event was among them.
async fn forward(outbox: &Outbox, id: &SessionId, batch: Framed) -> Result<bool, Failure> {
    if let Some(gap) = batch.gap {
        // The wire has no way to tell of a loss; a closed connection at least hides none.
        tracing::warn!(session = %id, from = gap.from, to = gap.to, "a client read too slowly and was cut off");
        outbox.close(CloseCode::Again, "too slow: events were lost");
        return Err(Failure::new(ErrorCode::Overloaded, "events were lost: the connection reads too slowly"));
    }
    outbox.events(batch.bytes).await;
    // A piece never goes past the end of a run.
    Ok(batch.last.is_some_and(|last| last.ends_run()))
}

/// The whole notification as a frame, as every socket gets it; nothing for what is not this wire's (L17). The id's grammar
/// leaves nothing to be escaped.
fn encode(id: &SessionId, entry: &Entry) -> Bytes {
    if !forwarded(&entry.event) {
        return Bytes::new();
    }
    let head = format!(r#"{{"jsonrpc":"2.0","method":"{EVENT}","params":{{"session_id":"{id}","event":"#);
    text_frame(&[head.as_bytes(), &entry.json, b"}}"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::{AgentEvent, lich::EventParams};

    #[test]
    fn an_event_is_encoded_as_its_notification() {
        let id = SessionId::parse("ses_a.b-c").unwrap();
        let event = AgentEvent::LlmDelta { text: "\"x\"\n".repeat(40) };
        let frame = encode(&id, &Entry::new(7, event.clone()));
        let (head, text) = frame.split_at(4);
        assert_eq!((head[0], head[1], usize::from(u16::from_be_bytes([head[2], head[3]]))), (0x81, 126, text.len()));
        let mut read: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert_eq!((&read["jsonrpc"], &read["method"]), (&"2.0".into(), &EVENT.into()));
        let params: EventParams = serde_json::from_value(read["params"].take()).unwrap();
        assert_eq!(params, EventParams { session_id: id, event });
    }
}
