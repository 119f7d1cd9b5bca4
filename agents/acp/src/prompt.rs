//! What goes into a prompt: the parts of a message as the agent's content blocks, and a history that it does not have.

use serde_json::{Value, json};
use std::sync::Arc;
use triplane_protocol::{
    Message, Part, Role,
    ir::{Boundary, KnownPart},
};

/// Characters of a tool's output in a history that is told.
const OUTPUT_CHARS: usize = 2000;

/// What an agent takes beside text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    /// Pictures.
    pub(crate) image: bool,
    /// Files with their text.
    pub(crate) embedded: bool,
}

/// A message as content blocks. What the agent does not take is told in text, never left out silently.
pub(crate) fn blocks(message: &Message, takes: Takes) -> Vec<Value> {
    message.parts.iter().filter_map(|part| block(part, takes)).collect()
}

fn block(part: &Part, takes: Takes) -> Option<Value> {
    let text = |text: String| json!({"type": "text", "text": text});
    let Part::Known(part) = part else { return None };
    Some(match part {
        KnownPart::Text { text: said, .. } => text(said.clone()),
        KnownPart::Image { mime, data: Some(data), .. } if takes.image => {
            json!({"type": "image", "mimeType": mime, "data": data})
        }
        KnownPart::Image { uri: Some(uri), mime, .. } => {
            json!({"type": "resource_link", "uri": uri, "name": uri, "mimeType": mime})
        }
        KnownPart::Image { mime, .. } => text(format!("[a picture ({mime}) that this agent cannot take]")),
        KnownPart::File { path, uri, mime, text: inside, .. } => {
            let uri = uri.clone().or_else(|| path.as_ref().map(|path| format!("file://{path}")))?;
            match inside {
                Some(inside) if takes.embedded => {
                    let resource =
                        json!({"uri": uri, "mimeType": mime.as_deref().unwrap_or("text/plain"), "text": inside});
                    json!({"type": "resource", "resource": resource})
                }
                Some(inside) => text(format!("{uri}:\n{inside}")),
                None => {
                    let name = uri.rsplit('/').next().unwrap_or(&uri).to_owned();
                    json!({"type": "resource_link", "uri": uri, "name": name})
                }
            }
        }
        KnownPart::Thinking { .. } | KnownPart::Call { .. } | KnownPart::Result { .. } | KnownPart::Boundary { .. } => {
            return None;
        }
    })
}

/// A history as text, for an agent whose own session does not have it.
pub(crate) fn told(history: &[Arc<Message>]) -> String {
    let mut out = String::from("This conversation was begun elsewhere. So far:\n");
    for message in history {
        for part in &message.parts {
            let Part::Known(part) = part else { continue };
            match part {
                KnownPart::Text { text, .. } => {
                    let who = match message.role {
                        Role::User => "User",
                        Role::Assistant | Role::Tool => "Assistant",
                        Role::System => "Note",
                    };
                    out.push_str(&format!("\n{who}: {text}\n"));
                }
                KnownPart::Call { name, input, .. } => out.push_str(&format!("\n[tool {name} {input}]\n")),
                KnownPart::Result { output, .. } => {
                    let text: Vec<&str> = output.iter().filter_map(Part::as_text).collect();
                    let text: String = text.join("\n").chars().take(OUTPUT_CHARS).collect();
                    out.push_str(&format!("[result: {text}]\n"));
                }
                KnownPart::Boundary { why: Boundary::Compact, summary: Some(summary), .. } => {
                    out.push_str(&format!("\nSummary of what came before: {summary}\n"));
                }
                KnownPart::Boundary { .. } | KnownPart::Thinking { .. } => {}
                KnownPart::Image { .. } => out.push_str("[a picture]\n"),
                KnownPart::File { path, uri, .. } => {
                    out.push_str(&format!("[file {}]\n", path.as_deref().or(uri.as_deref()).unwrap_or("?")));
                }
            }
        }
    }
    out.push_str("\nGo on from here. The user says now:\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::{MessageId, ir::Extra};

    fn message(parts: Vec<Part>) -> Message {
        Message::of(MessageId::from("m"), Role::User, parts, 1)
    }

    fn image() -> Part {
        let data = Some("aGk=".into());
        Part::Known(KnownPart::Image { mime: "image/png".into(), data, uri: None, extra: Extra::new() })
    }

    fn file() -> Part {
        let (path, text) = (Some("/a/b.txt".into()), Some("inside".into()));
        Part::Known(KnownPart::File { path, uri: None, mime: None, text, extra: Extra::new() })
    }

    #[test]
    fn pictures_and_files_go_as_the_agent_takes_them() {
        let message = message(vec![Part::text("see"), image(), file()]);
        let all = blocks(&message, Takes { image: true, embedded: true });
        let kinds: Vec<_> = all.iter().map(|block| block["type"].as_str().unwrap_or_default()).collect();
        assert_eq!(kinds, ["text", "image", "resource"]);
        assert_eq!(all[2]["resource"]["uri"], "file:///a/b.txt");
        let plain = blocks(&message, Takes::default());
        assert!(plain.iter().all(|block| block["type"] == "text"), "{plain:?}");
        assert!(plain[1]["text"].as_str().unwrap().contains("cannot take"));
        assert!(plain[2]["text"].as_str().unwrap().contains("inside"));
    }

    #[test]
    fn a_history_is_told_with_who_said_what() {
        let user = Arc::new(message(vec![Part::text("hello")]));
        let assistant = Arc::new(Message::text(MessageId::from("n"), Role::Assistant, "hi", 2));
        let text = told(&[user, assistant]);
        assert!(text.contains("User: hello") && text.contains("Assistant: hi"), "{text}");
    }
}
