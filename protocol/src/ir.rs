//! The session as data: what export, import, history and every store agree on.
//! Field names are one word, so that no wire's casing bends them; members and parts that are not known are kept. Clause: C15.

use crate::{CallId, MessageId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Members that this version does not know, kept as they came.
pub type Extra = Map<String, Value>;

/// A whole session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Version of this shape; 1.
    pub version: u32,
    /// The session's id.
    pub id: SessionId,
    /// The agent that owns it.
    pub agent: String,
    /// Absolute directory that its tools work in.
    pub cwd: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `provider/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Milliseconds since the epoch, of the last write.
    pub updated: i64,
    /// The session that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Tokens summed over all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Oldest first.
    pub messages: Vec<Message>,
    /// Members that are not known here.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Unique within the session.
    pub id: MessageId,
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub parts: Vec<Part>,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the turn that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the turn stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Members that are not known here.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Message {
    /// A message of one text part.
    pub fn text(id: MessageId, role: Role, text: impl Into<String>, at: i64) -> Self {
        Self::of(id, role, vec![Part::text(text)], at)
    }

    /// A message of `parts`, with nothing else told.
    pub fn of(id: MessageId, role: Role, parts: Vec<Part>, at: i64) -> Self {
        Self { id, role, parts, at, model: None, usage: None, stop: None, extra: Extra::new() }
    }

    /// The text parts joined by newlines.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or program that prompts.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
    /// The plane: boundaries and notes.
    System,
}

/// A piece of a message. What is not known is kept in [`Part::Other`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Part {
    /// A piece that this version knows.
    Known(KnownPart),
    /// A piece that it does not know, as it came.
    Other(Map<String, Value>),
}

/// The pieces that are known, by `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Reasoning that the model showed.
    Thinking {
        /// The text.
        text: String,
        /// The provider's signature, needed to hand it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A tool call of the assistant.
    Call {
        /// Names the call; its result has the same id.
        id: CallId,
        /// The tool.
        name: String,
        /// The tool's arguments.
        input: Value,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a tool call, in a message of role `tool`.
    Result {
        /// The call's id.
        id: CallId,
        /// What the tool said.
        output: Vec<Part>,
        /// Whether it failed.
        #[serde(default)]
        error: bool,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A picture, inline or by address.
    Image {
        /// Media type.
        mime: String,
        /// Base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// Address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A file, by path or address.
    File {
        /// Path on this node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
        /// Media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// Its text, when it was taken along.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Where the history was cleared or compacted; alone in a system message.
    Boundary {
        /// What happened here.
        why: Boundary,
        /// The summary that stands for what came before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Members that are not known here.
        #[serde(flatten)]
        extra: Extra,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Known(KnownPart::Text { text: text.into(), extra: Extra::new() })
    }

    /// A thinking part.
    pub fn thinking(text: impl Into<String>, signature: Option<String>) -> Self {
        Self::Known(KnownPart::Thinking { text: text.into(), signature, extra: Extra::new() })
    }

    /// A tool call.
    pub fn call(id: CallId, name: impl Into<String>, input: Value) -> Self {
        Self::Known(KnownPart::Call { id, name: name.into(), input, extra: Extra::new() })
    }

    /// A tool's result.
    pub fn result(id: CallId, output: Vec<Part>, error: bool) -> Self {
        Self::Known(KnownPart::Result { id, output, error, extra: Extra::new() })
    }

    /// A boundary.
    pub fn boundary(why: Boundary, summary: Option<String>) -> Self {
        Self::Known(KnownPart::Boundary { why, summary, extra: Extra::new() })
    }

    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Known(KnownPart::Text { text, .. }) = self { Some(text) } else { None }
    }
}

/// Why a boundary stands in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Everything before it was forgotten.
    Clear,
    /// Everything before it was summarised.
    Compact,
}

/// Tokens, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read by the model.
    pub input: u64,
    /// Tokens written by it.
    pub output: u64,
    /// Of `input`, those served from the provider's cache.
    #[serde(default)]
    pub cached: u64,
    /// Of `output`, those spent on reasoning.
    #[serde(default)]
    pub reasoning: u64,
    /// US dollars, where the provider tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cached = self.cached.saturating_add(more.cached);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
        self.cost = match (self.cost, more.cost) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
    }
}

/// Why a turn or a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model was done.
    Completed,
    /// Cancelled.
    Aborted,
    /// The run reached its limit of turns.
    MaxTurns,
    /// The model ran out of tokens.
    MaxTokens,
    /// The model refused.
    Refused,
    /// The agent or the provider failed.
    Error,
}

macro_rules! words {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $vdoc:literal])+ $variant:ident = $text:literal ),+ $(,)? } )+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $( $(#[doc = $vdoc])+ #[serde(rename = $text)] $variant ),+ }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[ $( Self::$variant ),+ ];

            /// The value as it stands on the wire.
            pub const fn as_str(self) -> &'static str { match self { $( Self::$variant => $text ),+ } }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $( $text => Ok(Self::$variant), )+
                    _ => Err(format!("must be one of {}", [$( $text ),+].join(", "))),
                }
            }
        }
    )+ };
}

words! {
    /// How much the model may think.
    Effort {
        /// As little as possible.
        Minimal = "minimal",
        /// Little.
        Low = "low",
        /// The usual.
        Medium = "medium",
        /// Much.
        High = "high",
    }
    /// What needs a permission.
    Mode {
        /// Nothing is changed.
        Plan = "plan",
        /// Edits and commands ask.
        Default = "default",
        /// Commands ask.
        AcceptEdits = "accept-edits",
        /// Nothing asks.
        Bypass = "bypass",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_parts_and_members_survive() {
        let text = json!({
            "id": "m1", "role": "assistant", "at": 1, "colour": "red",
            "parts": [
                {"type": "text", "text": "a", "annotations": [1]},
                {"type": "hologram", "depth": 3},
                {"type": "result", "id": "c", "output": [{"type": "text", "text": "b"}], "error": false},
                {"type": "image", "mime": "image/png"}
            ]
        });
        let message: Message = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), text);
        assert!(matches!(message.parts[1], Part::Other(_)));
    }

    #[test]
    fn words_parse_what_they_print() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse::<Mode>().unwrap(), *mode);
        }
        assert_eq!("loud".parse::<Effort>().unwrap_err(), "must be one of minimal, low, medium, high");
    }
}
