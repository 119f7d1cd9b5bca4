//! `script/echo`: the scripted model behind the loop. Needs no network and no key, and is the default.
//! Tokens are words: `input` counts the last prompt and the results since, so that a long history costs nothing to count.

use super::{Model, ModelError, ModelOut, ModelRequest, Piece, Provider, Purpose, TurnEnd, shown};
use async_trait::async_trait;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio_util::sync::CancellationToken;
use triplane_protocol::{ErrorCode, Message, Part, Role, Stop, Usage, ir::KnownPart};
use triplane_script::{Failure, Script, Step, ToolResult, clock_text, summary, words};

/// The provider `script`.
#[derive(Debug, Clone, Copy)]
pub struct ScriptProvider;

impl Provider for ScriptProvider {
    fn id(&self) -> &str {
        "script"
    }

    fn names(&self) -> Vec<String> {
        vec!["echo".to_owned()]
    }

    fn model(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        match name {
            "echo" => Ok(Arc::new(Echo)),
            other => Err(format!("model: `script` has no `{}`", shown(other))),
        }
    }
}

/// The model `script/echo`.
#[derive(Debug)]
struct Echo;

#[async_trait]
impl Model for Echo {
    async fn turn(
        &self,
        request: ModelRequest<'_>,
        out: &mut dyn ModelOut,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, ModelError> {
        match request.purpose {
            Purpose::Turn => turn(request.history, out, cancel).await,
            Purpose::Summary => {
                let text = summary(request.history.len());
                let usage = Usage { output: words(&text), ..Usage::default() };
                out.put(Piece::Text(text)).await;
                Ok(TurnEnd { stop: Stop::Completed, usage })
            }
        }
    }
}

async fn turn(
    history: &[Arc<Message>],
    out: &mut dyn ModelOut,
    cancel: &CancellationToken,
) -> Result<TurnEnd, ModelError> {
    let (prompt, results) = conversation(history);
    let script = Script::parse(&prompt);
    let results: Vec<ToolResult<'_>> = results.iter().map(|text| ToolResult { text }).collect();
    let mut steps = script.turn(&results);
    let mut stop = Stop::Completed;
    for step in steps.by_ref() {
        // A long `/repeat` is always ready; without this no other session of this thread would move.
        tokio::task::coop::consume_budget().await;
        if cancel.is_cancelled() {
            break;
        }
        match step {
            Step::Text(text) => out.put(Piece::Text(text.into_owned())).await,
            Step::Think(text) => out.put(Piece::Thinking(text.to_owned())).await,
            Step::Clock => out.put(Piece::Text(clock_text(SystemTime::now()))).await,
            Step::Sleep { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Call { name, input } => {
                out.put(Piece::Call { id: None, name: name.to_owned(), input: input.clone(), signature: None }).await;
            }
            Step::Task { ms, text } => out.put(Piece::Task { ms, text: text.to_owned() }).await,
            Step::Fail(failure) => stop = stopped(failure)?,
        }
    }
    let input = words(&prompt) + results.iter().map(|r| words(r.text)).sum::<u64>();
    let usage = Usage { input, output: steps.output_words(), reasoning: steps.thought_words(), ..Usage::default() };
    Ok(TurnEnd { stop, usage })
}

/// The last thing the user said, and what tools have answered since.
fn conversation(history: &[Arc<Message>]) -> (String, Vec<String>) {
    let Some(at) = history.iter().rposition(|m| m.role == Role::User) else {
        return (String::new(), Vec::new());
    };
    let (prompt, since) = history.split_at(at + 1);
    let prompt = prompt.last().map(|m| m.plain_text()).unwrap_or_default();
    let parts = since.iter().filter(|m| m.role == Role::Tool).flat_map(|m| &m.parts);
    let results = parts.filter_map(|part| match part {
        Part::Known(KnownPart::Result { output, .. }) => Some(joined(output)),
        Part::Known(_) | Part::Other(_) => None,
    });
    (prompt, results.collect())
}

fn joined(output: &[Part]) -> String {
    output.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n")
}

/// A stop, or the error that the script asked for.
fn stopped(failure: Failure) -> Result<Stop, ModelError> {
    let code = match failure {
        Failure::Refused => return Ok(Stop::Refused),
        Failure::MaxTokens => return Ok(Stop::MaxTokens),
        Failure::Invalid => ErrorCode::Invalid,
        Failure::Unauthorized => ErrorCode::Unauthorized,
        Failure::Forbidden => ErrorCode::Forbidden,
        Failure::Timeout => ErrorCode::Timeout,
        Failure::TooLarge => ErrorCode::TooLarge,
        Failure::Overloaded => ErrorCode::Overloaded,
        Failure::Internal => ErrorCode::Internal,
        Failure::Unavailable | Failure::Broken => ErrorCode::Unavailable,
    };
    let message = format!("the model failed as its script says: {}", failure.word());
    Err(ModelError { code, message, retryable: failure.retryable(), retry_after: None })
}
