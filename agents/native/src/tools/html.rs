//! HTML as text, well enough to be read by a model: tags go, blocks become lines, what is not shown is left out.
//! Our own, for a parser of the whole language is many crates and seconds of build time, and nothing here depends on its tree.

/// Elements whose content is not text.
const HIDDEN: &[&str] = &["script", "style", "noscript", "template", "svg", "head"];

/// Elements that begin a line.
const BLOCKS: &[&str] = &[
    "p",
    "div",
    "br",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "pre",
    "section",
    "article",
    "header",
    "footer",
    "main",
    "nav",
    "blockquote",
    "dl",
    "dt",
    "dd",
    "hr",
    "title",
    "form",
    "body",
];

/// The text of a page.
pub(super) fn to_text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        out.push_str(&unescape(text));
        if let Some(comment) = tag.strip_prefix("<!--") {
            rest = comment.find("-->").and_then(|end| comment.get(end + 3..)).unwrap_or_default();
            continue;
        }
        let Some(end) = tag_end(tag) else { break };
        let (inside, after) = (tag.get(1..end).unwrap_or_default(), tag.get(end + 1..).unwrap_or_default());
        let name =
            inside.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        if name.is_empty() && !inside.starts_with(['/', '!', '?']) {
            // A sign of less, not a tag.
            out.push('<');
            rest = tag.get(1..).unwrap_or_default();
            continue;
        }
        rest = after;
        if HIDDEN.contains(&name.as_str()) && !inside.starts_with('/') && !inside.ends_with('/') {
            if name == "head" {
                out.push_str(&title(after).unwrap_or_default());
                out.push('\n');
            }
            rest = behind(after, &name);
        } else if BLOCKS.contains(&name.as_str()) {
            out.push('\n');
            if name == "li" && !inside.starts_with('/') {
                out.push_str("- ");
            }
        } else if matches!(name.as_str(), "td" | "th") {
            out.push(' ');
        }
    }
    if !rest.contains('<') {
        out.push_str(&unescape(rest));
    }
    clean(&out)
}

/// Lines without white space at their ends, and at most one empty line in a row; none at all between short blocks.
pub(super) fn clean(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Where a tag ends: a `>` inside a quoted attribute does not end it.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') if tag.get(..at).is_some_and(|before| before.trim_end().ends_with('=')) => {
                quote = Some(byte)
            }
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(_), _) => {}
        }
    }
    // A quote that nothing closes.
    quote.and_then(|_| tag.find('>'))
}

/// What follows the end of element `name`.
fn behind<'a>(text: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("</")) {
        let start = from + at + 2;
        let rest = text.get(start..).unwrap_or_default();
        if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return rest.find('>').and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        }
        from = start;
    }
    ""
}

fn title(head: &str) -> Option<String> {
    let lower = head.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let from = open + lower.get(open..)?.find('>')? + 1;
    let to = from + lower.get(from..)?.find("</title")?;
    head.get(from..to).map(|text| unescape(text.trim()))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let name = from.get(1..).and_then(|t| t.find(';').filter(|end| *end <= 10).and_then(|end| t.get(..end)));
        match name.and_then(|name| entity(name).map(|c| (c, name.len() + 2))) {
            Some((found, length)) => {
                out.push(found);
                rest = from.get(length..).unwrap_or_default();
            }
            None => {
                out.push('&');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "copy" => '©',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_lines() {
        for (html, text) in [
            ("<p>a</p><p>b</p>", "a\nb"),
            ("a<br>b <b>c</b>", "a\nb c"),
            ("<ul><li>x<li>y</ul>", "- x\n- y"),
            ("<a href='x>y'>link</a>", "link"),
            ("<script>if (a < b) {}</script>after", "after"),
            ("<head><title>T &amp; U</title><style>p{}</style></head><body>x", "T & U\nx"),
            ("1 < 2 && 3 > 2", "1 < 2 && 3 > 2"),
            ("<!-- <p>no</p> -->yes", "yes"),
            ("&#65;&#x42;&nope;&lt;", "AB&nope;<"),
            ("<SCRIPT>x</script>y", "y"),
            ("<p title=\"never closed>x</p>", "x"),
            ("x<script>never closed", "x"),
            ("é<p>ü", "é\nü"),
        ] {
            assert_eq!(to_text(html), text, "{html}");
        }
    }
}
