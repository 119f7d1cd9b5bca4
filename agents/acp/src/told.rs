//! What an agent tells during a run, as events and messages of ours, one to one and in its order.
//! Invariants: every tool call that was begun is ended, by the agent or at the run's end; a message goes to the history before
//! the event that tells of it; what is not known here is passed on as it came.

use serde_json::{Value, json};
use std::{path::PathBuf, time::Instant};
use triplane_core::session::{ChangeGuard, RunSink, ToolKind};
use triplane_protocol::{
    AgentEvent, CallId, Message, MessageId, Part, Role, Stop, Usage,
    event::{PlanEntry, PlanState, SettingsPatch},
};

/// Characters of a diff that an event carries.
const DIFF_CHARS: usize = 64 << 10;

/// One run, as far as it was told.
pub(crate) struct Telling {
    sink: RunSink,
    model: String,
    /// Turns so far.
    pub(crate) turns: u32,
    /// Whether the agent is saying something that has no end yet.
    speaking: bool,
    text: String,
    thinking: String,
    calls: Vec<Call>,
    /// What was said last.
    pub(crate) reply: String,
    /// The last message that the history has.
    pub(crate) last: MessageId,
}

/// A tool call.
struct Call {
    id: String,
    kind: String,
    title: String,
    input: Value,
    /// Its text so far.
    output: String,
    diffs: Vec<(String, String)>,
    /// Whether it has ended.
    over: bool,
    began: Instant,
    /// Files that were kept before it changes them.
    guards: Vec<ChangeGuard>,
}

impl Telling {
    /// Nothing is told yet; `last` is the prompt's message.
    pub(crate) fn new(sink: RunSink, model: String, last: MessageId) -> Self {
        let (text, thinking, reply) = Default::default();
        Self { sink, model, turns: 0, speaking: false, text, thinking, calls: Vec::new(), reply, last }
    }

    /// One `session/update`.
    pub(crate) async fn update(&mut self, update: Value) {
        let text = |update: &Value| content_text(update.get("content").unwrap_or(&Value::Null));
        match update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default() {
            "agent_message_chunk" => match text(&update) {
                Some(text) => self.say(text).await,
                None => self.pass_on("agent_message_chunk", update).await,
            },
            "agent_thought_chunk" => match text(&update) {
                Some(text) => self.think(text).await,
                None => self.pass_on("agent_thought_chunk", update).await,
            },
            "tool_call" | "tool_call_update" => self.call(&update).await,
            "plan" => self.plan(&update).await,
            "session_info_update" if update.get("title").is_some_and(Value::is_string) => {
                let title = update.get("title").and_then(Value::as_str).map(str::to_owned);
                self.sink.emit(AgentEvent::SettingsChanged(SettingsPatch { title, ..SettingsPatch::default() })).await;
            }
            // Some agents echo the prompt.
            "user_message_chunk" => {}
            other => {
                let name = other.to_owned();
                self.pass_on(&name, update).await;
            }
        }
    }

    /// What has no event here, under the agent's own name for it.
    pub(crate) async fn pass_on(&self, name: &str, data: Value) {
        self.sink.emit(AgentEvent::Extension { name: format!("acp/{name}"), data }).await;
    }

    async fn speak(&mut self) {
        if !self.speaking {
            self.speaking = true;
            self.turns += 1;
            self.sink.emit(AgentEvent::TurnStart { turn: self.turns, model: self.model.clone() }).await;
            self.sink.emit(AgentEvent::LlmStart { model: self.model.clone() }).await;
        }
    }

    async fn say(&mut self, text: String) {
        if !text.is_empty() {
            self.speak().await;
            self.text.push_str(&text);
            self.sink.emit(AgentEvent::LlmDelta { text }).await;
        }
    }

    async fn think(&mut self, text: String) {
        if !text.is_empty() {
            self.speak().await;
            self.thinking.push_str(&text);
            self.sink.emit(AgentEvent::LlmThinkingDelta { text }).await;
        }
    }

    /// Ends the message that is being said, with a call when one stands at its end.
    async fn end_message(&mut self, call: Option<Part>, usage: Usage, stop: Stop) {
        let (text, thinking) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thinking));
        let thinking =
            Some(thinking).filter(|thinking| !thinking.is_empty()).map(|thinking| Part::thinking(thinking, None));
        if !text.trim().is_empty() {
            self.reply.clone_from(&text);
        }
        let text = Some(text).filter(|text| !text.is_empty()).map(Part::text);
        let parts = thinking.into_iter().chain(text).chain(call).collect();
        let mut message = Message::of(self.sink.message_id(), Role::Assistant, parts, self.sink.now_ms());
        (message.model, message.stop) = (Some(self.model.clone()), Some(stop));
        message.usage = Some(usage).filter(|usage| *usage != Usage::default());
        self.last = message.id.clone();
        self.sink.message(message.clone()).await;
        self.sink.emit(AgentEvent::LlmEnd { message, usage, stop }).await;
        self.speaking = false;
    }

    /// A call that begins, goes on, or ends. Agents leave out the beginning, titles and kinds, and repeat states.
    pub(crate) async fn call(&mut self, update: &Value) {
        let Some(id) = update.get("toolCallId").and_then(Value::as_str).map(str::to_owned) else {
            return self.pass_on("tool_call", update.clone()).await;
        };
        let at = match self.calls.iter().position(|call| call.id == id) {
            Some(at) => at,
            None => self.begin_call(&id, update).await,
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.over {
            return self.pass_on("tool_call_update", update.clone()).await;
        }
        if let Some(title) = update.get("title").and_then(Value::as_str) {
            title.clone_into(&mut call.title);
        }
        let grown = call.take_content(update.get("content"));
        let status = update.get("status").and_then(Value::as_str).unwrap_or_default();
        if let Some(text) = grown {
            let call_id = CallId::from(id.as_str());
            self.sink.emit(AgentEvent::ToolCallOutput { call_id, text }).await;
        }
        if matches!(status, "completed" | "failed") {
            let raw = update.get("rawOutput").filter(|raw| !raw.is_null()).cloned();
            self.end_call(at, status == "failed", raw).await;
        }
    }

    async fn begin_call(&mut self, id: &str, update: &Value) -> usize {
        let word = |name: &str| update.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let kind = word("kind").unwrap_or("other").to_owned();
        let title = word("title").unwrap_or(&kind).to_owned();
        let input = update.get("rawInput").filter(|input| !input.is_null()).cloned().unwrap_or_else(|| json!({}));
        self.speak().await;
        let call_id = CallId::from(id);
        let part = Part::call(call_id.clone(), kind.clone(), input.clone());
        self.end_message(Some(part), Usage::default(), Stop::Completed).await;
        let (name, shown) = (kind.clone(), Some(title.clone()));
        self.sink.emit(AgentEvent::ToolCallStart { call_id, name, input: input.clone(), title: shown }).await;
        let (output, diffs, guards) = Default::default();
        self.calls.push(Call {
            id: id.to_owned(),
            kind,
            title,
            input,
            output,
            diffs,
            over: false,
            began: Instant::now(),
            guards,
        });
        self.calls.len() - 1
    }

    async fn end_call(&mut self, at: usize, error: bool, raw: Option<Value>) {
        let Some(call) = self.calls.get_mut(at) else { return };
        call.over = true;
        if call.output.is_empty()
            && let Some(raw) = raw
        {
            call.output = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
        }
        let diff =
            (!call.diffs.is_empty()).then(|| call.diffs.iter().map(|(_, diff)| diff.as_str()).collect::<String>());
        let output = vec![Part::text(std::mem::take(&mut call.output))];
        let duration_ms = u64::try_from(call.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (call_id, guards) = (CallId::from(call.id.as_str()), std::mem::take(&mut call.guards));
        for guard in guards {
            guard.done().await;
        }
        let result = Part::result(call_id.clone(), output.clone(), error);
        let message = Message::of(self.sink.message_id(), Role::Tool, vec![result], self.sink.now_ms());
        self.last = message.id.clone();
        self.sink.message(message).await;
        self.sink.emit(AgentEvent::ToolCallEnd { call_id, output, error, duration_ms, diff }).await;
    }

    async fn plan(&mut self, update: &Value) {
        let entries = update.get("entries").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let entry = |entry: &Value| {
            let text = entry.get("content").and_then(Value::as_str)?.to_owned();
            let state = match entry.get("status").and_then(Value::as_str) {
                Some("completed") => PlanState::Done,
                Some("in_progress") => PlanState::Active,
                Some(_) | None => PlanState::Pending,
            };
            Some(PlanEntry { text, state })
        };
        self.sink.emit(AgentEvent::Plan { entries: entries.iter().filter_map(entry).collect() }).await;
    }

    /// The run is over: what is open is ended.
    pub(crate) async fn finish(&mut self, usage: Usage, stop: Stop) {
        for at in 0..self.calls.len() {
            if self.calls.get(at).is_some_and(|call| !call.over) {
                if let Some(call) = self.calls.get_mut(at).filter(|call| call.output.is_empty()) {
                    call.output = "the run ended before the agent said how this call ended".into();
                }
                self.end_call(at, true, None).await;
            }
        }
        if self.speaking {
            self.end_message(None, usage, stop).await;
        }
    }

    /// What a call is, for a permission: its kind, title, input, and the files that it would change.
    pub(crate) fn of_call(&self, id: &str) -> Option<(ToolKind, &str, &str, &Value)> {
        let call = self.calls.iter().find(|call| call.id == id)?;
        Some((tool_kind(&call.kind), &call.kind, &call.title, &call.input))
    }

    /// Keeps what files are before a call that was allowed changes them.
    pub(crate) async fn keep(&mut self, id: &str, paths: Vec<PathBuf>) {
        for path in paths {
            match self.sink.before_change(&path).await {
                Ok(guard) => {
                    if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                        call.guards.push(guard);
                    }
                }
                Err(error) => tracing::debug!("a file could not be kept before an agent changes it: {error}"),
            }
        }
    }
}

impl Call {
    /// Takes the call's content, which each update gives as a whole; answers with the text that is new.
    fn take_content(&mut self, content: Option<&Value>) -> Option<String> {
        let blocks = content?.as_array()?;
        let mut text = String::new();
        for block in blocks {
            match block.get("type").and_then(Value::as_str) {
                Some("content") => text.push_str(&content_text(block.get("content")?).unwrap_or_default()),
                Some("diff") => self.take_diff(block),
                // A terminal that the agent owns itself; its output comes as the call's own.
                Some(_) | None => {}
            }
        }
        if text.is_empty() || text == self.output {
            return None;
        }
        let new = text.strip_prefix(self.output.as_str()).map_or_else(|| text.clone(), str::to_owned);
        self.output = text;
        Some(new)
    }

    fn take_diff(&mut self, block: &Value) {
        let word = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, old, new) = (word("path"), word("oldText"), word("newText"));
        let diff = similar::TextDiff::from_lines(old, new);
        let diff = diff.unified_diff().header(&format!("a/{path}"), &format!("b/{path}")).to_string();
        let diff: String = diff.chars().take(DIFF_CHARS).collect();
        match self.diffs.iter_mut().find(|(known, _)| known == path) {
            Some((_, known)) => *known = diff,
            None => self.diffs.push((path.to_owned(), diff)),
        }
    }
}

/// What a tool does, by the protocol's kinds; what is not known may do anything.
pub(crate) fn tool_kind(kind: &str) -> ToolKind {
    match kind {
        "read" | "search" | "think" => ToolKind::Read,
        "edit" | "delete" | "move" => ToolKind::Edit,
        "fetch" => ToolKind::Fetch,
        _ => ToolKind::Execute,
    }
}

/// The text of a content block; `None` for what is no text.
fn content_text(content: &Value) -> Option<String> {
    match content.get("type").and_then(Value::as_str) {
        Some("text") => content.get("text").and_then(Value::as_str).map(str::to_owned),
        Some("resource") => content.pointer("/resource/text").and_then(Value::as_str).map(str::to_owned),
        Some(_) | None => None,
    }
}
