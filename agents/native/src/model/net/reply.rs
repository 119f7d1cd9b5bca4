//! The library's stream as our pieces.
//! Invariants: calls are put out at the end, from what was gathered, because the library's chunks repeat what came before;
//! a stream whose end the provider did not write is broken.

use super::{Protocol, trouble::Trouble};
use crate::model::{ModelError, ModelOut, Piece, TurnEnd};
use futures_util::StreamExt;
use genai::chat::{
    ChatFrameSink, ChatStream, ChatStreamEvent, ContentPart, FrameCtx, RawFrameRef, StopReason, StreamEnd, ToolCall,
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};
use triplane_protocol::{CallId, Stop, Usage};

/// What the library does not tell of a stream: why it was refused or has failed.
#[derive(Debug, Default)]
pub(super) struct Notes {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone)]
struct Seen {
    refused: bool,
    failed: Option<Value>,
}

impl Notes {
    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ChatFrameSink for Notes {
    fn on_frame(&self, _ctx: &FrameCtx, frame: RawFrameRef<'_>) {
        let data = frame.data;
        // Few frames are worth reading twice.
        let refused = data.contains("\"blockReason\"") || data.contains("\"content_filter\"");
        let failed = data.contains("\"response.failed\"");
        if !refused && !failed {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.refused |= value["promptFeedback"]["blockReason"].is_string()
            || value["response"]["incomplete_details"]["reason"] == "content_filter";
        if value["type"] == "response.failed" {
            seen.failed = Some(value["response"]["error"].clone());
        }
    }
}

/// Takes the stream to its end.
pub(super) async fn take(
    protocol: Protocol,
    mut stream: ChatStream,
    notes: &Notes,
    trouble: &Trouble<'_>,
    out: &mut dyn ModelOut,
) -> Result<TurnEnd, ModelError> {
    // Anthropic signs in pieces; the signature is whole when something else follows.
    let mut signature = String::new();
    loop {
        let event = match stream.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return failed(error, notes, trouble),
            None => return Err(trouble.broken()),
        };
        if !matches!(event, ChatStreamEvent::ThoughtSignatureChunk(_) | ChatStreamEvent::Heartbeat)
            && !signature.is_empty()
        {
            out.put(Piece::Signature(std::mem::take(&mut signature))).await;
        }
        match event {
            ChatStreamEvent::Chunk(chunk) => out.put(Piece::Text(chunk.content)).await,
            ChatStreamEvent::ReasoningChunk(chunk) => out.put(Piece::Thinking(chunk.content)).await,
            ChatStreamEvent::ThoughtSignatureChunk(chunk) if protocol == Protocol::Anthropic => {
                signature.push_str(&chunk.content);
            }
            ChatStreamEvent::End(end) => return ended(protocol, end, notes, trouble, out).await,
            // Gemini's signatures come again with the calls that they sign.
            ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::Start
            | ChatStreamEvent::Heartbeat => {}
        }
    }
}

fn failed(error: genai::Error, notes: &Notes, trouble: &Trouble<'_>) -> Result<TurnEnd, ModelError> {
    let seen = notes.seen();
    if seen.refused {
        return Ok(TurnEnd { stop: Stop::Refused, usage: Usage::default() });
    }
    Err(match seen.failed {
        Some(body) => trouble.told(&body),
        None => trouble.of(error),
    })
}

async fn ended(
    protocol: Protocol,
    end: StreamEnd,
    notes: &Notes,
    trouble: &Trouble<'_>,
    out: &mut dyn ModelOut,
) -> Result<TurnEnd, ModelError> {
    let stop = match (&end.captured_stop_reason, protocol) {
        (Some(reason), _) => stopped(reason, notes.seen().refused),
        // Its end is a line of its own, and some servers give no reason.
        (None, Protocol::OpenAi) => Some(Stop::Completed),
        (None, Protocol::Ollama) if end.captured_usage.is_some() => Some(Stop::Completed),
        // The library makes an end up where the connection just closed.
        (None, Protocol::OpenAiResponses | Protocol::Anthropic | Protocol::Gemini | Protocol::Ollama) => None,
    };
    let Some(stop) = stop else { return Err(trouble.broken()) };
    let usage = end.captured_usage.map(usage).unwrap_or_default();
    let mut ids = HashSet::new();
    for part in end.captured_content.into_iter().flat_map(|content| content.into_parts()) {
        match part {
            ContentPart::ThoughtSignature(signature) if protocol == Protocol::OpenAiResponses => {
                out.put(Piece::Signature(signature)).await;
            }
            ContentPart::Custom(custom) if protocol == Protocol::Anthropic => out.put(Piece::Sealed(custom.data)).await,
            ContentPart::ToolCall(call) => out.put(called(protocol, call, &mut ids)).await,
            ContentPart::ThoughtSignature(_)
            | ContentPart::Custom(_)
            | ContentPart::Text(_)
            | ContentPart::ReasoningContent(_)
            | ContentPart::Binary(_)
            | ContentPart::ToolResponse(_) => {}
        }
    }
    Ok(TurnEnd { stop, usage })
}

fn called(protocol: Protocol, call: ToolCall, ids: &mut HashSet<String>) -> Piece {
    let ToolCall { call_id, fn_name, fn_arguments, thought_signatures } = call;
    // What stands in for an id that the provider did not give is made anew each time.
    let given = !call_id.is_empty() && !call_id.starts_with("call#") && ids.insert(call_id.clone());
    let input = match fn_arguments {
        Value::Null => json!({}),
        Value::String(text) if text.trim().is_empty() => json!({}),
        other => other,
    };
    let signature = thought_signatures.filter(|_| protocol == Protocol::Gemini);
    let signature = signature.and_then(|all| all.into_iter().next());
    Piece::Call { id: given.then(|| CallId::from(call_id)), name: fn_name, input, signature }
}

/// `None`: the provider says itself that the reply is not whole.
fn stopped(reason: &StopReason, refused: bool) -> Option<Stop> {
    if refused {
        return Some(Stop::Refused);
    }
    match reason {
        StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) => Some(Stop::Completed),
        StopReason::MaxTokens(_) => Some(Stop::MaxTokens),
        StopReason::ContentFilter(_) => Some(Stop::Refused),
        StopReason::Other(word) => match word.as_str() {
            "failed" | "cancelled" | "error" | "ERROR" | "load" | "unload" | "MALFORMED_FUNCTION_CALL" => None,
            word => {
                tracing::debug!(word, "an unknown stop reason");
                Some(Stop::Completed)
            }
        },
    }
}

fn usage(usage: genai::chat::Usage) -> Usage {
    let count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    Usage {
        input: count(usage.prompt_tokens),
        output: count(usage.completion_tokens),
        cached: count(usage.prompt_tokens_details.and_then(|details| details.cached_tokens)),
        reasoning: count(usage.completion_tokens_details.and_then(|details| details.reasoning_tokens)),
        cost: None,
    }
}
