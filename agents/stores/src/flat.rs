//! A session taken apart into what formats hold. What a format has no place for is left out here and counted, so that no
//! writer can forget to report it.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use triplane_protocol::{
    Message, Part, Role, Session, Stop, Usage,
    ir::{Extra, KnownPart},
};

/// What a format can hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    /// The agent; members that it wrote itself are no loss.
    pub(crate) agent: &'static str,
    pub(crate) thinking: Thinking,
    /// Pictures in prompts.
    pub(crate) images: bool,
    /// Pictures in results.
    pub(crate) result_images: bool,
    /// Whether a result failed.
    pub(crate) errors: bool,
    pub(crate) usage: bool,
    pub(crate) stop: bool,
}

/// Whether reasoning has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    No,
    /// The text alone.
    Plain,
    /// Text and signature.
    Both,
    /// Only with a signature: the provider refuses it without.
    Signed,
}

/// A piece that formats hold.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Thinking { text: String, signature: Option<String> },
    Call { id: String, name: String, input: Value },
    Result { id: String, name: String, output: Vec<Out>, error: bool },
    Image(Image),
}

/// A piece of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Out {
    Text(String),
    Image(Image),
}

/// A picture, inline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Image {
    pub(crate) mime: String,
    pub(crate) data: String,
}

impl Image {
    /// `data:image/png;base64,…`
    pub(crate) fn url(&self) -> String {
        format!("data:{};base64,{}", self.mime, self.data)
    }

    /// The part that a data URL stands for.
    pub(crate) fn part(url: &str) -> Part {
        match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((mime, data)) => image(mime, data),
            None => Part::Known(KnownPart::Image {
                mime: "image/*".into(),
                data: None,
                uri: Some(url.into()),
                extra: Extra::new(),
            }),
        }
    }
}

/// A picture as a part.
pub(crate) fn image(mime: &str, data: &str) -> Part {
    Part::Known(KnownPart::Image { mime: mime.into(), data: Some(data.into()), uri: None, extra: Extra::new() })
}

/// A message that has something in it. Role `system` does not occur.
#[derive(Debug, Clone)]
pub(crate) struct Flat {
    pub(crate) role: Role,
    pub(crate) blocks: Vec<Block>,
    pub(crate) at: i64,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<Stop>,
    /// What this agent once wrote beside the message.
    pub(crate) own: Map<String, Value>,
}

impl Flat {
    /// Its texts joined by newlines.
    pub(crate) fn text(&self) -> String {
        let texts = self
            .blocks
            .iter()
            .filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Whether it asks for tools.
    pub(crate) fn calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Call { .. }))
    }
}

/// The text of a result for formats that have only that.
pub(crate) fn output_text(output: &[Out]) -> String {
    let texts = output.iter().filter_map(|out| if let Out::Text(text) = out { Some(text.as_str()) } else { None });
    texts.collect::<Vec<_>>().join("\n")
}

/// What was left out: how many messages of each kind.
#[derive(Debug, Default)]
pub(crate) struct Lost(BTreeMap<&'static str, u64>);

impl Lost {
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// One line each.
    pub(crate) fn lines(self) -> Vec<String> {
        self.0
            .into_iter()
            .map(|(what, count)| if count == 1 { what.to_owned() } else { format!("{what} (in {count} places)") })
            .collect()
    }
}

/// Takes a session apart for a format.
pub(crate) fn flatten(session: &Session, holds: Holds, lost: &mut Lost) -> Vec<Flat> {
    for (set, what) in [
        (session.effort.is_some(), "the session's effort"),
        (session.mode.is_some(), "the session's permission mode"),
        (session.parent.is_some(), "the session that it was forked from"),
        (session.extra.keys().any(|key| key != holds.agent), "members of the session that only another agent knows"),
    ] {
        if set {
            lost.note(what);
        }
    }
    let mut names = HashMap::new();
    let mut flats = Vec::new();
    for message in &session.messages {
        let mut blocks = Vec::new();
        for part in &message.parts {
            blocks.extend(block(part, message.role, holds, &mut names, lost));
        }
        if message.extra.keys().any(|key| key != holds.agent) {
            lost.note("members of messages that only another agent knows");
        }
        if message.role == Role::System && !blocks.is_empty() {
            lost.note("system messages");
            continue;
        }
        flats.extend(split(message, blocks, holds, lost));
    }
    flats
}

/// Results in a message of their own, so that every message has one kind of content.
fn split(message: &Message, blocks: Vec<Block>, holds: Holds, lost: &mut Lost) -> Vec<Flat> {
    if message.usage.is_some() && !holds.usage {
        lost.note("usage");
    }
    if message.stop.is_some() && !holds.stop {
        lost.note("why a turn stopped");
    }
    let own = message.extra.get(holds.agent).and_then(Value::as_object).cloned().unwrap_or_default();
    let flat = |role, blocks| Flat {
        role,
        blocks,
        at: message.at,
        model: message.model.clone(),
        usage: message.usage,
        stop: message.stop,
        own: own.clone(),
    };
    let (results, rest): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| matches!(block, Block::Result { .. }));
    let role = if message.role == Role::Tool { Role::User } else { message.role };
    let mut flats = Vec::new();
    if !results.is_empty() {
        flats.push(flat(Role::Tool, results));
    }
    if !rest.is_empty() {
        flats.push(flat(role, rest));
    }
    flats
}

fn block(part: &Part, role: Role, holds: Holds, names: &mut HashMap<String, String>, lost: &mut Lost) -> Option<Block> {
    let Part::Known(part) = part else {
        lost.note("parts of a kind that is not known");
        return None;
    };
    match part {
        KnownPart::Text { text, extra } => {
            told(extra, lost);
            (!text.is_empty()).then(|| Block::Text(text.clone()))
        }
        KnownPart::Thinking { text, signature, .. } => thinking(text, signature.clone(), holds.thinking, lost),
        KnownPart::Call { id, name, input, .. } => {
            names.insert(id.as_str().to_owned(), name.clone());
            let input = if input.is_object() {
                input.clone()
            } else {
                lost.note("the form of a tool's input that is no object; it is kept as `input`");
                json!({"input": input})
            };
            Some(Block::Call { id: id.as_str().into(), name: name.clone(), input })
        }
        KnownPart::Result { id, output, error, .. } => {
            let output = output.iter().filter_map(|part| out(part, holds, lost)).collect();
            if *error && !holds.errors {
                lost.note("that a tool failed; its text is kept");
            }
            let name = names.get(id.as_str()).cloned().unwrap_or_else(|| "tool".into());
            Some(Block::Result { id: id.as_str().into(), name, output, error: *error })
        }
        KnownPart::Image { mime, data: Some(data), .. } if holds.images && role != Role::Assistant => {
            Some(Block::Image(Image { mime: mime.clone(), data: data.clone() }))
        }
        KnownPart::Image { data, .. } => {
            lost.note(if data.is_some() { "images" } else { "images that are only an address" });
            None
        }
        KnownPart::File { path, uri, text, .. } => {
            lost.note("that a file was attached; its name and text are kept as text");
            let name = path.as_deref().or(uri.as_deref()).unwrap_or("file");
            Some(Block::Text(text.as_ref().map_or_else(|| name.to_owned(), |text| format!("{name}\n{text}"))))
        }
        KnownPart::Boundary { .. } => {
            lost.note("where the history was cleared or summarised");
            None
        }
    }
}

fn thinking(text: &str, signature: Option<String>, holds: Thinking, lost: &mut Lost) -> Option<Block> {
    let signature = match holds {
        Thinking::No => {
            lost.note("thinking");
            return None;
        }
        Thinking::Signed if signature.is_none() => {
            lost.note("thinking without a signature, which the model's provider refuses");
            return None;
        }
        Thinking::Plain => {
            if signature.is_some() {
                lost.note("signatures of thinking");
            }
            None
        }
        Thinking::Signed | Thinking::Both => signature,
    };
    Some(Block::Thinking { text: text.to_owned(), signature })
}

fn out(part: &Part, holds: Holds, lost: &mut Lost) -> Option<Out> {
    match part {
        Part::Known(KnownPart::Text { text, .. }) => Some(Out::Text(text.clone())),
        Part::Known(KnownPart::Image { mime, data: Some(data), .. }) if holds.result_images => {
            Some(Out::Image(Image { mime: mime.clone(), data: data.clone() }))
        }
        Part::Known(KnownPart::Image { .. }) => {
            lost.note("images in results");
            None
        }
        Part::Known(
            KnownPart::Thinking { .. }
            | KnownPart::Call { .. }
            | KnownPart::Result { .. }
            | KnownPart::File { .. }
            | KnownPart::Boundary { .. },
        )
        | Part::Other(_) => {
            lost.note("parts of results that are neither text nor image");
            None
        }
    }
}

fn told(extra: &Extra, lost: &mut Lost) {
    if !extra.is_empty() {
        lost.note("members of parts that are not known");
    }
}

/// The first prompt in one short line: what agents show when a session has no title.
pub(crate) fn first_prompt(flats: &[Flat]) -> String {
    flats.iter().find(|flat| flat.role == Role::User).map(Flat::text).unwrap_or_default()
}
