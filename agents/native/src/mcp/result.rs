//! What a tool answered, as parts of a message.
//! Invariant: text and pictures of one result are bounded; what is cut or cannot be shown is said in its place.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Map;
use triplane_protocol::{Part, ir::KnownPart};

/// Bytes of text that a model is told at most, as with the output of a command.
const TEXT_BYTES: usize = 64 << 10;

/// Pictures of one result at most.
const IMAGES: usize = 8;

/// Bytes of a picture in base64 at most; more is refused by providers.
const IMAGE_BYTES: usize = 5 << 20;

/// What providers take.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct McpAnswer {
    /// All of its text.
    pub text: String,
    /// Its pictures.
    pub images: Vec<Part>,
    /// Whether the server says that it failed.
    pub error: bool,
}

impl McpAnswer {
    pub(super) fn of(result: CallToolResult) -> Self {
        let mut answer = Self { text: String::new(), images: Vec::new(), error: result.is_error == Some(true) };
        let empty = result.content.is_empty();
        for block in result.content {
            answer.block(block);
        }
        // Some tools answer with data only.
        if let Some(data) = result.structured_content.filter(|_| empty) {
            answer.line(&data.to_string());
        }
        answer.text = cut(answer.text);
        answer
    }

    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.line(&text.text),
            ContentBlock::Image(image) => self.image(image.mime_type, image.data),
            ContentBlock::Audio(audio) => self.not_shown("audio", &audio.mime_type, audio.data.len()),
            ContentBlock::ResourceLink(link) => {
                let about = link.description.or(link.title).unwrap_or_default();
                self.line(&format!("[resource {} {}] {about}", link.name, link.uri));
            }
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.line(&format!("[resource {uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    self.line(&format!("[resource {uri}]"));
                    self.image(mime_type.unwrap_or_default(), blob);
                }
                // Theirs may grow.
                _ => self.line("[a resource of a kind that is not known here]"),
            },
            _ => self.line("[content of a kind that is not known here]"),
        }
    }

    fn image(&mut self, mime: String, data: String) {
        let fits = IMAGE_TYPES.contains(&mime.as_str()) && data.len() <= IMAGE_BYTES && self.images.len() < IMAGES;
        let base64 = data.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
        if !fits || !base64 {
            return self.not_shown("data", &mime, data.len());
        }
        self.images.push(Part::Known(KnownPart::Image { mime, data: Some(data), uri: None, extra: Map::new() }));
    }

    fn not_shown(&mut self, what: &str, mime: &str, bytes: usize) {
        self.line(&format!("[{what} that is not shown: {}, {bytes} bytes of base64]", super::config::shown(mime)));
    }

    /// More than the bound is not even put together: many large blocks must not cost their sum.
    fn line(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
        if self.text.len() > 4 * TEXT_BYTES {
            self.text = cut(std::mem::take(&mut self.text));
        }
    }
}

/// The beginning and the end, with a mark between.
fn cut(text: String) -> String {
    if text.len() <= TEXT_BYTES {
        return text;
    }
    let (mut head, mut tail) = (TEXT_BYTES / 2, text.len() - TEXT_BYTES / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let (first, last) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!("{first}\n[… {} bytes cut …]\n{last}", tail - head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(content: Value) -> McpAnswer {
        McpAnswer::of(serde_json::from_value(json!({ "content": content, "isError": true })).unwrap())
    }

    #[test]
    fn text_pictures_and_the_rest() {
        let said = answer(json!([
            {"type": "text", "text": "a"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "image", "data": "aGk=", "mimeType": "image/svg+xml"}, {"type": "image", "data": "<>", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "t"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "aGk=", "mimeType": "image/gif"}},
            {"type": "resource_link", "uri": "x:3", "name": "n"},
        ]));
        let expected = "a\n[data that is not shown: image/svg+xml, 4 bytes of base64]\n\
            [data that is not shown: image/png, 2 bytes of base64]\n[audio that is not shown: audio/wav, 4 bytes of base64]\n\
            [resource x:1]\nt\n[resource x:2]\n[resource n x:3] ";
        assert_eq!((said.text.as_str(), said.images.len(), said.error), (expected, 2, true));
    }

    #[test]
    fn data_alone_is_told_and_beside_text_is_not_doubled() {
        let only = json!({ "content": [], "structuredContent": {"a": 1} });
        assert_eq!(McpAnswer::of(serde_json::from_value(only).unwrap()).text, r#"{"a":1}"#);
        let both = json!({ "content": [{"type": "text", "text": "t"}], "structuredContent": {"a": 1} });
        assert_eq!(McpAnswer::of(serde_json::from_value(both).unwrap()).text, "t");
    }

    #[test]
    fn much_is_cut_with_a_mark() {
        let block = json!({"type": "text", "text": "é".repeat(100_000)});
        let said = answer(Value::Array(vec![block; 20]));
        assert!(said.text.len() <= TEXT_BYTES + 64 && said.text.contains(" bytes cut …]"), "{}", said.text.len());
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        assert_eq!(answer(Value::Array(vec![image; 20])).images.len(), IMAGES);
        let image = json!({"type": "image", "data": "a".repeat(IMAGE_BYTES + 1), "mimeType": "image/png"});
        assert!(answer(json!([image])).images.is_empty());
    }
}
