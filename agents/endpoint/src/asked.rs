//! A request in no dialect: what the script needs of it, and nothing else.

use serde_json::Value;
use triplane_script::{SUMMARY_ASK, Script, ToolResult, summary, words};

/// Blocks that agents add to a user's message on their own account.
const INJECTED: &[&str] = &[
    "system-reminder",
    "system_reminder",
    "environment_context",
    "environment_details",
    "user_instructions",
    "session_context",
    "current_datetime",
    "context",
];
/// Tags round the user's own words, which are kept.
const WRAPPERS: &[&str] = &["task", "user_message", "user_input", "user_query"];

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A text part of the user's.
    User(String),
    /// Anything of the model's.
    Assistant,
    /// What a tool has answered.
    Result(String),
}

/// What was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Oldest first, without system messages.
    pub(crate) said: Vec<Said>,
    /// Messages, without those of the system.
    pub(crate) messages: usize,
}

/// A script and where it stands.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) prompt: String,
    pub(crate) results: Vec<String>,
    /// Set when a summary was asked for: nothing of the script is carried out.
    pub(crate) summary: Option<String>,
}

impl Asked {
    /// The last thing that the user really said, and what tools have answered since.
    pub(crate) fn scene(&self) -> Scene {
        let mut results = Vec::new();
        for said in self.said.iter().rev() {
            match said {
                Said::Result(text) => results.push(text.clone()),
                Said::Assistant => {}
                Said::User(text) => {
                    let prompt = own_words(text);
                    if !prompt.is_empty() {
                        results.reverse();
                        let asked = prompt.starts_with(SUMMARY_ASK);
                        let summary = asked.then(|| summary(self.messages.saturating_sub(1)));
                        return Scene { prompt, results, summary };
                    }
                }
            }
        }
        results.reverse();
        Scene { prompt: String::new(), results, summary: None }
    }
}

impl Scene {
    pub(crate) fn script(&self) -> Script {
        Script::parse(&self.prompt)
    }

    pub(crate) fn tool_results(&self) -> Vec<ToolResult<'_>> {
        self.results.iter().map(|text| ToolResult { text }).collect()
    }

    /// Tokens are words, as everywhere in this model.
    pub(crate) fn input_words(&self) -> u64 {
        words(&self.prompt) + self.results.iter().map(|text| words(text)).sum::<u64>()
    }

    /// After the first turn the prompt counts as served from a cache.
    pub(crate) fn cached_words(&self) -> u64 {
        if self.results.is_empty() { 0 } else { words(&self.prompt) }
    }
}

/// The text without what agents add, and without the tags that they put round it.
fn own_words(given: &str) -> String {
    let mut text = given.to_owned();
    for tag in INJECTED {
        while let Some((from, to)) = block(&text, tag) {
            text.replace_range(from..to, "");
        }
    }
    for tag in WRAPPERS {
        text = text.replace(&format!("<{tag}>"), "").replace(&format!("</{tag}>"), "");
    }
    // A prompt that nobody has wrapped is echoed as it is, the spaces of other scripts at its ends included.
    if text == given { text } else { text.trim().to_owned() }
}

/// Where `<tag …>…</tag>` stands.
fn block(text: &str, tag: &str) -> Option<(usize, usize)> {
    let close = format!("</{tag}>");
    let open = format!("<{tag}");
    let from = text.match_indices(&open).map(|(at, _)| at).find(|at| {
        let behind = text.get(at + open.len()..).and_then(|rest| rest.chars().next());
        matches!(behind, Some('>' | ' '))
    })?;
    let to = from + text.get(from..)?.find(&close)? + close.len();
    Some((from, to))
}

/// The text of a content: a text, a part, or a list of parts.
pub(crate) fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(flat).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => match (part.get("text"), part.get("content")) {
            (Some(Value::String(text)), _) => text.clone(),
            (_, Some(content)) => flat(content),
            _ => String::new(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// A user's content part by part: a client that lost a turn may merge two prompts, and then only the last counts.
pub(crate) fn user_parts(content: &Value) -> Vec<Said> {
    match content {
        Value::Array(parts) => parts.iter().map(|part| Said::User(flat(part))).collect(),
        other => vec![Said::User(flat(other))],
    }
}

/// Members of a request that may be absent.
pub(crate) fn text_of(body: &Value, key: &str) -> String {
    body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The array at `key`, or nothing.
pub(crate) fn list<'a>(body: &'a Value, key: &str) -> &'a [Value] {
    body.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_own_last_words_are_the_script() {
        let user = |text: &str| Said::User(text.into());
        let asked = Asked {
            said: vec![
                user("/say lost"),
                user("<user_input>/tool ls\n/say b</user_input>"),
                user("<system-reminder x=1>no</system-reminder>\n<context>c</context>"),
                Said::Assistant,
                Said::Result("one".into()),
                Said::Result("two".into()),
            ],
            ..Asked::default()
        };
        let scene = asked.scene();
        assert_eq!((scene.prompt.as_str(), scene.results), ("/tool ls\n/say b", vec!["one".into(), "two".into()]));
        assert_eq!(own_words("<contexts>a</contexts>"), "<contexts>a</contexts>");
        assert_eq!(own_words("<context>open"), "<context>open");
    }
}
