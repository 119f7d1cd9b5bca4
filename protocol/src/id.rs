//! Newtypes of the ids that cross a wire.
//! Invariant: a [`SessionId`] is safe as one file name component; nothing else builds a path from an id. Clauses: C16, L08.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::{fmt, sync::Arc};

/// The longest session id that is taken, in bytes.
pub const SESSION_ID_BYTES: usize = 128;

/// A session's id: letters, digits, `-`, `_` and `.`, not beginning with a dot, at most [`SESSION_ID_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[schemars(transparent)]
pub struct SessionId(#[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"))] Arc<str>);

impl SessionId {
    /// Checks the grammar. The error is one line for the client.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("a session id must not be empty");
        }
        if text.len() > SESSION_ID_BYTES {
            return Err("a session id has at most 128 bytes");
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if text.starts_with('.') || !text.bytes().all(plain) {
            return Err("a session id has letters, digits, '-', '_' and '.' only, and no leading dot");
        }
        Ok(Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! text_id {
    ($( $(#[doc = $doc:literal])+ $name:ident; )+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self { Self(text.into()) }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self { Self(text.into()) }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
    )+ };
}

text_id! {
    /// One prompt to its stop.
    RunId;
    /// A permission request.
    RequestId;
    /// A background task.
    TaskId;
    /// A message of a session.
    MessageId;
    /// A tool call, as the model named it.
    CallId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ids_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "/etc/passwd",
            "a\0b",
            "a\n",
            "\u{2025}",
            ".hidden",
            &"a".repeat(129),
        ] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["0192d5c0-1111-7000-8000-000000000000", "ses_ab.c", &"a".repeat(128)] {
            assert_eq!(SessionId::parse(good).unwrap().as_str(), good);
        }
        assert!(serde_json::from_str::<SessionId>("\"../x\"").is_err());
    }
}
