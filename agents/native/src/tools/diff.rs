//! What a change looks like to people: a unified diff, bounded in size and in time.

use super::text::clip;
use std::time::Duration;

/// The longest diff that goes out, in bytes.
const DIFF_BYTES: usize = 64 << 10;

/// After this the diff is a coarse one.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// The diff from `before` (`None`: the file is new) to `after`. `None`: it cannot be shown as text, or nothing changed.
pub(super) fn unified(path: &str, before: Option<&[u8]>, after: &[u8]) -> Option<String> {
    let old = std::str::from_utf8(before.unwrap_or_default()).ok()?;
    let new = std::str::from_utf8(after).ok()?;
    let from = if before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let diff = similar::TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let text = diff.unified_diff().context_radius(3).header(&from, &format!("b/{path}")).to_string();
    if text.is_empty() {
        return None;
    }
    let kept = clip(&text, DIFF_BYTES);
    let cut = text.len() - kept.len();
    Some(if cut == 0 { text } else { format!("{kept}\n[… {cut} bytes cut …]\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_names_the_file_and_is_bounded() {
        let diff = unified("f", Some(b"a\nb\n"), b"a\nc\n").unwrap();
        assert_eq!(diff, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        assert!(unified("f", None, b"x\n").unwrap().starts_with("--- /dev/null\n+++ b/f\n"));
        assert_eq!(unified("f", Some(b"a"), b"a"), None);
        assert_eq!(unified("f", Some(b"\xff"), b"a"), None);
        let large = unified("f", None, "😀\n".repeat(50_000).as_bytes()).unwrap();
        assert!(large.len() < DIFF_BYTES + 64 && large.ends_with("cut …]\n"));
    }
}
