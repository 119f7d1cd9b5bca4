//! Checks a JSON text in one pass, before anything is built from it: all three wires refuse the same texts.
//! Refused: what is no JSON, lone surrogates, numbers past an `f64`, more than [`MAX_DEPTH`] levels, text after the value,
//! and a key given twice at any depth. Nothing is kept but the keys of the objects that are open. Clauses: C02, C15.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{borrow::Cow, collections::HashSet, fmt};

/// The deepest nesting that is taken; serde_json's own bound, so that every later pass agrees.
pub const MAX_DEPTH: usize = 127;

/// Keys of one object that are compared one by one; above it they are hashed.
const FEW_KEYS: usize = 16;

/// The longest piece of a client's text that an error repeats, in characters.
pub const ECHO_CHARS: usize = 64;

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Which rule it breaks.
    pub kind: FaultKind,
    /// One line for the client: what, and where (line and column, or the key).
    pub message: String,
}

/// Which rule a text breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// It is no JSON, or too deep. `-32700`, 400.
    Syntax,
    /// A key is given twice, outside of a top-level `params`. `-32600`, 400.
    Envelope,
    /// A key is given twice inside the top-level `params`. `-32602`, 400.
    Params,
}

/// Checks `text`. A syntax fault wins over a duplicate key, wherever the two stand.
pub fn check(text: &str) -> Result<(), Fault> {
    let mut scan = Scan::default();
    let mut de = serde_json::Deserializer::from_str(text);
    let syntax = |err: serde_json::Error| Fault { kind: FaultKind::Syntax, message: err.to_string() };
    Value { scan: &mut scan, place: Place::Top }.deserialize(&mut de).map_err(syntax)?;
    de.end().map_err(syntax)?;
    scan.duplicate.map_or(Ok(()), Err)
}

/// A client's text for an error message: escaped, and cut at [`ECHO_CHARS`] characters.
pub fn echo(text: &str) -> String {
    let mut out: String = text.chars().flat_map(char::escape_default).take(ECHO_CHARS).collect();
    if text.chars().flat_map(char::escape_default).nth(ECHO_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// What is open, and the first duplicate.
#[derive(Default)]
struct Scan<'de> {
    /// Keys of all open objects, one after another: each object knows where its own begin.
    keys: Vec<Cow<'de, str>>,
    duplicate: Option<Fault>,
}

impl<'de> Scan<'de> {
    fn twice(&mut self, key: &str, place: Place) {
        if self.duplicate.is_some() {
            return;
        }
        let kind = match place {
            Place::Top | Place::Envelope => FaultKind::Envelope,
            Place::Params => FaultKind::Params,
        };
        self.duplicate = Some(Fault { kind, message: format!("the key `{}` is given twice", echo(key)) });
    }
}

/// Where a value stands in the message.
#[derive(Clone, Copy)]
enum Place {
    Top,
    Envelope,
    Params,
}

struct Value<'s, 'de> {
    scan: &'s mut Scan<'de>,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let place = self.place.below("");
        while items.next_element_seed(Value { scan: &mut *self.scan, place })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { scan, place } = self;
        let base = scan.keys.len();
        let mut many: Option<HashSet<Cow<'de, str>>> = None;
        while let Some(key) = members.next_key_seed(Key)? {
            let below = place.below(&key);
            let mine = scan.keys.get(base..).unwrap_or_default();
            let seen = match &many {
                Some(set) => set.contains(&key),
                None => mine.contains(&key),
            };
            if seen {
                scan.twice(&key, place);
            } else if let Some(set) = &mut many {
                set.insert(key);
            } else if mine.len() < FEW_KEYS {
                scan.keys.push(key);
            } else {
                many = Some(scan.keys.drain(base..).chain([key]).collect());
            }
            members.next_value_seed(Value { scan: &mut *scan, place: below })?;
        }
        scan.keys.truncate(base);
        Ok(())
    }
}

impl Place {
    /// The place of what stands under `key`.
    fn below(self, key: &str) -> Self {
        match self {
            Self::Top if key == "params" => Self::Params,
            Self::Top | Self::Envelope => Self::Envelope,
            Self::Params => Self::Params,
        }
    }
}

/// A key, borrowed where it has no escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    fn kind(text: &str) -> Option<FaultKind> {
        check(text).err().map(|fault| fault.kind)
    }

    #[test]
    fn the_same_texts_are_refused_everywhere() {
        let many: Vec<String> = (0..40).map(|n| format!("\"k{n}\":{n}")).collect();
        let many = many.join(",");
        let table: &[(&str, Option<FaultKind>)] = &[
            ("null", None),
            (" [1, -0, 1.5, 1e2, true, \"\\ud83d\\ude00\"] \n", None),
            ("", Some(FaultKind::Syntax)),
            ("{} {}", Some(FaultKind::Syntax)),
            ("\u{feff}{}", Some(FaultKind::Syntax)),
            ("[1,]", Some(FaultKind::Syntax)),
            ("nul", Some(FaultKind::Syntax)),
            ("01", Some(FaultKind::Syntax)),
            ("1e400", Some(FaultKind::Syntax)),
            (&"9".repeat(400), Some(FaultKind::Syntax)),
            (r#""\ud800""#, Some(FaultKind::Syntax)),
            (r#""\udc00""#, Some(FaultKind::Syntax)),
            (r#""\ud800\ud800""#, Some(FaultKind::Syntax)),
            (r#"{"\ud800":1}"#, Some(FaultKind::Syntax)),
            ("\"a\u{1}b\"", Some(FaultKind::Syntax)),
            (&nested(MAX_DEPTH), None),
            (&nested(MAX_DEPTH + 1), Some(FaultKind::Syntax)),
            (&nested(100_000), Some(FaultKind::Syntax)),
            (&"[".repeat(100_000), Some(FaultKind::Syntax)),
            (r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}"#, None),
            (r#"{"a":1,"a":2}"#, Some(FaultKind::Envelope)),
            (r#"{"a":1,"\u0061":2}"#, Some(FaultKind::Envelope)),
            (r#"{"id":{"a":1,"a":2}}"#, Some(FaultKind::Envelope)),
            (r#"{"params":{"a":1,"a":2}}"#, Some(FaultKind::Params)),
            (r#"{"params":[{"x":{"a":1,"a":2}}]}"#, Some(FaultKind::Params)),
            (r#"{"params":1,"params":2}"#, Some(FaultKind::Envelope)),
            (r#"[{"a":1,"a":2}]"#, Some(FaultKind::Envelope)),
            (r#"{"a":1,"a":2"#, Some(FaultKind::Syntax)),
            (&format!("{{{many}}}"), None),
            (&format!("{{{many},\"k3\":0}}"), Some(FaultKind::Envelope)),
            (&format!("{{{many},\"k39\":0}}"), Some(FaultKind::Envelope)),
        ];
        for (text, expected) in table {
            assert_eq!(kind(text), *expected, "{}", echo(text));
        }
    }

    #[test]
    fn a_fault_says_where() {
        assert_eq!(check("{\"a\":1,\"a\":2}").unwrap_err().message, "the key `a` is given twice");
        assert_eq!(check("[1,]").unwrap_err().message, "trailing comma at line 1 column 4");
    }

    #[test]
    fn an_echo_is_escaped_and_cut() {
        assert_eq!(echo("a\n\u{202e}b\""), r#"a\n\u{202e}b\""#);
        assert_eq!(echo(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(echo(&"x".repeat(65)), "x".repeat(64) + "…");
    }
}
