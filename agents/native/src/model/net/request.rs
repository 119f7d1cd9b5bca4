//! The history in the library's words, so that every provider takes it.
//! Invariants: every call is followed by its result and every result has its call; what one provider signed is handed back to
//! no other; a summary is asked for in plain text.

use super::{Protocol, ProviderConfig, client::Open, reply::Notes};
use crate::{
    model::{ModelRequest, Purpose},
    run::collect::{SEALED, SIGNATURE},
};
use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, CustomPart, MessageContent,
    MessageOptions, ReasoningEffort, Tool, ToolCall, ToolResponse,
};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};
use triplane_protocol::{
    Message, Part, Role,
    ir::{Boundary, Effort, KnownPart},
};
use triplane_script::SUMMARY_ASK;

/// What a summary is asked for with, behind [`SUMMARY_ASK`].
const SUMMARY: &str = ", for yourself: you will go on from it and see nothing else. Keep the task, what was decided and why, \
which files were read or changed and how, what was tried and failed, and what is left to do. Plain text; call no tool.";
/// The result of a call whose own was lost.
const LOST: &str = "no result was kept";
/// Model names that end like an effort, which the library would cut off as one.
const EFFORTS: &[&str] = &["zero", "none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The conversation.
pub(super) fn chat(config: &ProviderConfig, request: &ModelRequest<'_>) -> ChatRequest {
    let mut messages = match request.purpose {
        Purpose::Turn => Writer::new(config, request.history).write(),
        Purpose::Summary => {
            let mut messages: Vec<_> = request.history.iter().filter_map(|message| told(message)).collect();
            messages.push(ChatMessage::user(format!("{SUMMARY_ASK}{SUMMARY}")));
            messages
        }
    };
    if config.protocol == Protocol::Anthropic
        && let Some(last) = messages.last_mut()
    {
        // Everything before it is then served from the cache in the next turn.
        last.options = Some(MessageOptions::from(CacheControl::Ephemeral));
    }
    let mut chat = ChatRequest::from_messages(messages);
    chat.system = request.system.map(str::to_owned);
    if !request.tools.is_empty() {
        let tool = |spec: &crate::model::ToolSpec| {
            let mut schema = spec.schema.clone();
            if let Some(schema) = schema.as_object_mut() {
                schema.remove("$schema");
                schema.remove("title");
            }
            Tool {
                schema: Some(schema),
                ..Tool::new(spec.name.to_string()).with_description(spec.description.to_string())
            }
        };
        chat = chat.with_tools(request.tools.iter().map(tool));
    }
    chat
}

/// What is asked for beside it.
pub(super) fn options(
    config: &ProviderConfig,
    name: &str,
    request: &ModelRequest<'_>,
    open: &Open,
    notes: Arc<Notes>,
) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_stream_header_timeout(config.idle)
        .with_stream_read_timeout(config.idle)
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(shows_reasoning(config.protocol, name))
        .with_raw_frame_sink_arc(notes);
    options.max_tokens = config.max_tokens;
    options.reasoning_effort = request.effort.map(|effort| match effort {
        Effort::Minimal => ReasoningEffort::Minimal,
        Effort::Low => ReasoningEffort::Low,
        Effort::Medium => ReasoningEffort::Medium,
        Effort::High => ReasoningEffort::High,
    });
    let ends_like_effort = name.rsplit_once('-').is_some_and(|(_, last)| EFFORTS.contains(&last));
    if options.reasoning_effort.is_none() && ends_like_effort {
        options.extra_body = match config.protocol {
            Protocol::OpenAi => Some(json!({ "model": name, "reasoning_effort": null })),
            Protocol::OpenAiResponses => Some(json!({ "model": name, "reasoning": null })),
            Protocol::Anthropic | Protocol::Gemini | Protocol::Ollama => None,
        };
    }
    if config.protocol == Protocol::Ollama
        && let Some(key) = &open.key
    {
        // The library sends Ollama no key; its hosted service wants one.
        options = options.with_extra_headers(("Authorization".to_owned(), format!("Bearer {}", key.expose())));
    }
    options
}

/// Older models refuse to be asked for their reasoning.
fn shows_reasoning(protocol: Protocol, name: &str) -> bool {
    let old: &[&str] = match protocol {
        Protocol::OpenAiResponses => &["gpt-3", "gpt-4", "chatgpt-"],
        Protocol::Gemini => &["gemini-1", "gemini-2.0"],
        Protocol::OpenAi | Protocol::Anthropic | Protocol::Ollama => &[],
    };
    !old.iter().any(|old| name.starts_with(old))
}

/// Writes the history of one request.
struct Writer<'a> {
    config: &'a ProviderConfig,
    history: &'a [Arc<Message>],
    /// Where the last thing that the user said stands.
    last_user: usize,
    /// Calls whose results are still to come, in order: id, the id that is sent, name.
    waiting: Vec<(String, String, String)>,
    /// Results that have come for them.
    results: HashMap<String, String>,
    messages: Vec<ChatMessage>,
}

impl<'a> Writer<'a> {
    fn new(config: &'a ProviderConfig, history: &'a [Arc<Message>]) -> Self {
        let last_user = history.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        Self { config, history, last_user, waiting: Vec::new(), results: HashMap::new(), messages: Vec::new() }
    }

    fn write(mut self) -> Vec<ChatMessage> {
        for (at, message) in self.history.iter().enumerate() {
            match message.role {
                Role::Tool => self.results(message),
                Role::Assistant => {
                    self.answer_calls();
                    self.assistant(message, at > self.last_user);
                }
                Role::User => {
                    self.answer_calls();
                    self.push_user(user_parts(self.config.protocol, message));
                }
                Role::System => {
                    self.answer_calls();
                    let notes = message.parts.iter().filter_map(noted).map(ContentPart::from_text).collect();
                    self.push_user(notes);
                }
            }
        }
        self.answer_calls();
        self.messages
    }

    fn push_user(&mut self, parts: Vec<ContentPart>) {
        if !parts.is_empty() {
            self.messages.push(ChatMessage::user(MessageContent::from_parts(parts)));
        }
    }

    fn results(&mut self, message: &Message) {
        for part in &message.parts {
            if let Part::Known(KnownPart::Result { id, output, .. }) = part {
                let text = output.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n");
                self.results.insert(id.to_string(), text);
            }
        }
    }

    /// All results of the last calls, together: some providers want them in one message.
    fn answer_calls(&mut self) {
        let mut results = std::mem::take(&mut self.results);
        let answers: Vec<ToolResponse> = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|(id, sent, name)| {
                let text = results.remove(&id).unwrap_or_else(|| LOST.to_owned());
                ToolResponse::new(sent, text).with_fn_name(name)
            })
            .collect();
        if answers.is_empty() {
            return;
        }
        if self.config.protocol == Protocol::Ollama {
            // Of several in one message the library would send the last.
            self.messages.extend(answers.into_iter().map(ChatMessage::from));
        } else {
            self.messages.push(ChatMessage::tool(MessageContent::from_tool_responses(answers)));
        }
    }

    fn assistant(&mut self, message: &Message, in_run: bool) {
        let ours = message.model.as_deref().and_then(|model| model.split_once('/'));
        let ours = ours.is_some_and(|(provider, _)| provider == self.config.id);
        let mut parts = Vec::new();
        for part in &message.parts {
            match part {
                Part::Known(KnownPart::Text { text, .. }) if !text.is_empty() => {
                    parts.push(ContentPart::Text(text.clone()));
                }
                Part::Known(KnownPart::Thinking { text, signature, extra, .. }) if ours => {
                    self.thinking(&mut parts, text, signature.as_deref(), extra.get(SEALED), in_run);
                }
                Part::Known(KnownPart::Call { id, name, input, extra }) => {
                    let sent = self.sent_id(id.as_str(), message.id.as_str(), name);
                    self.waiting.push((id.to_string(), sent.clone(), name.clone()));
                    let signature = extra.get(SIGNATURE).and_then(Value::as_str).filter(|_| ours);
                    parts.push(ContentPart::ToolCall(ToolCall {
                        call_id: sent,
                        fn_name: name.clone(),
                        // Providers take nothing but an object back.
                        fn_arguments: if input.is_object() { input.clone() } else { json!({ "malformed": input }) },
                        thought_signatures: signature.map(|signature| vec![signature.to_owned()]),
                    }));
                }
                Part::Known(_) | Part::Other(_) => {}
            }
        }
        if !parts.is_empty() {
            self.messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
        }
    }

    fn thinking(
        &self,
        parts: &mut Vec<ContentPart>,
        text: &str,
        signature: Option<&str>,
        sealed: Option<&Value>,
        in_run: bool,
    ) {
        match (self.config.protocol, signature, sealed) {
            (Protocol::Anthropic, _, Some(sealed)) => {
                parts.push(ContentPart::Custom(CustomPart { model_iden: None, data: sealed.clone() }));
            }
            (Protocol::Anthropic, Some(signature), None) => {
                parts.push(ContentPart::ThoughtSignature(signature.to_owned()));
                parts.push(ContentPart::ReasoningContent(text.to_owned()));
            }
            (Protocol::OpenAiResponses, Some(signature), _) => {
                parts.push(ContentPart::ThoughtSignature(signature.to_owned()));
            }
            // Servers that show reasoning this way want it back within a run, and refuse or forget it later.
            (Protocol::OpenAi, ..) if in_run && !text.is_empty() => {
                parts.push(ContentPart::ReasoningContent(text.to_owned()));
            }
            (
                Protocol::OpenAi
                | Protocol::OpenAiResponses
                | Protocol::Anthropic
                | Protocol::Gemini
                | Protocol::Ollama,
                ..,
            ) => {}
        }
    }

    /// Gemini matches calls that it gave no id by their order; an id of ours would puzzle it.
    fn sent_id(&self, id: &str, message: &str, name: &str) -> String {
        let made = id.strip_prefix(message).is_some_and(|rest| rest.starts_with('-'));
        if self.config.protocol == Protocol::Gemini && made {
            return format!("call#{name}#{}", self.waiting.len());
        }
        id.to_owned()
    }
}

/// A user's message, pictures included.
fn user_parts(protocol: Protocol, message: &Message) -> Vec<ContentPart> {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Known(KnownPart::Text { text, .. }) => (!text.is_empty()).then(|| ContentPart::Text(text.clone())),
        Part::Known(KnownPart::Image { mime, data: Some(data), .. }) => {
            Some(ContentPart::Binary(Binary::from_base64(mime.as_str(), data.as_str(), None)))
        }
        Part::Known(KnownPart::Image { mime, data: None, uri: Some(uri), .. }) => Some(match protocol {
            Protocol::OpenAi | Protocol::OpenAiResponses | Protocol::Gemini => {
                ContentPart::Binary(Binary::from_url(mime.as_str(), uri.as_str(), None))
            }
            // The library would leave it out without a word.
            Protocol::Anthropic | Protocol::Ollama => ContentPart::Text(format!("[a picture at {uri}]")),
        }),
        Part::Known(KnownPart::File { path, uri, text, .. }) => {
            let place = path.as_deref().or(uri.as_deref()).unwrap_or("unnamed");
            Some(ContentPart::Text(match text {
                Some(text) => format!("<file path=\"{place}\">\n{text}\n</file>"),
                None => format!("[the file {place}]"),
            }))
        }
        Part::Known(_) | Part::Other(_) => None,
    });
    parts.collect()
}

/// What the plane notes in a history.
fn noted(part: &Part) -> Option<String> {
    match part {
        Part::Known(KnownPart::Boundary { why: Boundary::Compact, summary: Some(summary), .. }) => {
            Some(format!("What came before, summarized:\n{summary}"))
        }
        Part::Known(KnownPart::Text { text, .. }) => Some(text.clone()),
        Part::Known(_) | Part::Other(_) => None,
    }
}

/// A message as plain text: a request without tools may have no calls in it.
fn told(message: &Message) -> Option<ChatMessage> {
    let lines: Vec<String> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Known(KnownPart::Call { name, input, .. }) => Some(format!("[called {name} {input}]")),
            Part::Known(KnownPart::Result { output, .. }) => {
                let text = output.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n");
                Some(format!("[result: {text}]"))
            }
            Part::Known(KnownPart::Image { .. }) => Some("[a picture]".to_owned()),
            other => noted(other),
        })
        .collect();
    if lines.is_empty() {
        return None;
    }
    let text = lines.join("\n");
    Some(match message.role {
        Role::Assistant => ChatMessage::assistant(text),
        Role::User | Role::Tool | Role::System => ChatMessage::user(text),
    })
}
