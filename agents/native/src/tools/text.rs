//! Text is cut on character boundaries, and says that it was cut. Fault: UE-01.

/// The longest title, in bytes.
pub(super) const TITLE_BYTES: usize = 120;

/// The longest prefix of `text` with at most `bytes` bytes.
pub(super) fn clip(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A line of at most `bytes` bytes, with a mark where it was cut.
pub(super) fn clip_marked(text: &str, bytes: usize) -> String {
    let kept = clip(text, bytes);
    if kept.len() == text.len() { text.to_owned() } else { format!("{kept}…") }
}

/// One line for people.
pub(super) fn title(word: &str, what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    let cut = line.len() > TITLE_BYTES || what.lines().nth(1).is_some();
    format!("{word} {}{}", clip(line, TITLE_BYTES), if cut { "…" } else { "" })
}

/// A model's own text inside an error: short and on one line.
pub(super) fn shown(text: &str) -> String {
    clip(text, 64).escape_debug().to_string()
}

/// Joins `lines` up to `bytes`; what does not fit is counted in `mark`'s line.
pub(super) fn lines_up_to(lines: &[String], bytes: usize) -> (String, usize) {
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        if out.len() + line.len() + 1 > bytes {
            return (out, lines.len() - at);
        }
        out.push_str(line);
        out.push('\n');
    }
    (out, 0)
}

/// How many bytes there are without a last character that has only begun.
pub(super) fn whole_bytes(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needs = match bytes.get(at) {
            Some(0x80..=0xBF) => continue,
            Some(0xF0..=0xF7) => 4,
            Some(0xE0..=0xEF) => 3,
            Some(0xC0..=0xDF) => 2,
            Some(_) | None => 1,
        };
        return if needs > back { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_never_inside_a_character() {
        let text = "😀".repeat(100);
        for bytes in 0..=text.len() + 3 {
            let kept = clip(&text, bytes);
            assert!(kept.len() <= bytes && kept.len().is_multiple_of(4) && kept.len() + 4 > bytes.min(text.len()));
        }
        assert_eq!(clip_marked("abc", 2), "ab…");
        assert_eq!(title("bash", "a\nb"), "bash a…");
        assert_eq!(title("bash", "a\n"), "bash a");
    }
}
