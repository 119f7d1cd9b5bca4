//! The token that every TCP client must show: where it comes from, and how it is compared.
//! Invariant: its text leaves this module through [`Token::expose`] alone, which only the ready line calls. Clauses: C06, C08.

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, fmt, sync::Arc};
use subtle::ConstantTimeEq;

/// Variables that may hold the token, first found first.
pub const TOKEN_VARS: [&str; 2] = ["TRIPLANE_TOKEN", "LARIK_SERVER_TOKEN"];

/// Bytes below which a chosen token is warned about: 128 bits, were they random.
const SHORT_BYTES: usize = 16;

/// Why a token cannot be used. Never holds the token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// An empty token is not "no token".
    #[error("{0} is empty; leave it out to have a random token made")]
    Empty(&'static str),
    /// It could not be sent in a header.
    #[error("{0} may hold visible ASCII only, without spaces")]
    NotVisible(&'static str),
    /// The system gave no random bits.
    #[error("no random bits for a token: {0}")]
    NoRandom(String),
}

/// The token. Prints as nothing.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// `flag` if it was given, else the first of [`TOKEN_VARS`] that is set, else 256 random bits. A short one is taken with a warning.
    pub fn choose(flag: Option<String>, var: impl Fn(&'static str) -> Option<String>) -> Result<Self, TokenError> {
        if let Some(text) = flag {
            return Self::check("--token", text);
        }
        for name in TOKEN_VARS {
            if let Some(text) = var(name) {
                return Self::check(name, text);
            }
        }
        Self::random()
    }

    /// [`Token::choose`] from this process's environment.
    pub fn from_flag_or_env(flag: Option<String>) -> Result<Self, TokenError> {
        // A value that is not UTF-8 is not visible ASCII either: its lossy text is refused by the check.
        Self::choose(flag, |name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    /// 256 bits from the system, as 64 hex digits.
    pub fn random() -> Result<Self, TokenError> {
        let mut bits = [0_u8; 32];
        getrandom::fill(&mut bits).map_err(|err| TokenError::NoRandom(err.to_string()))?;
        let text: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(text.into()))
    }

    fn check(from: &'static str, text: String) -> Result<Self, TokenError> {
        if text.is_empty() {
            return Err(TokenError::Empty(from));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NotVisible(from));
        }
        if text.len() < SHORT_BYTES {
            tracing::warn!("{from} has fewer than {SHORT_BYTES} characters and may be guessed");
        }
        Ok(Self(text.into()))
    }

    /// Whether `given` is the token; takes as long for every wrong one of the same length.
    pub fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }

    /// The text, for the ready line and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// What a request shows as `Authorization: Bearer`. Two such headers show nothing that could match; other schemes do not count.
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut found = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (found.next(), found.next());
    match (first, second) {
        (Some(value), None) => value.as_bytes().strip_prefix(b"Bearer "),
        (Some(_), Some(_)) => Some(b""),
        (None, _) => None,
    }
}

/// Every `token=` of a query, percent-decoded.
pub fn query_tokens(query: Option<&str>) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(|pair| pair.strip_prefix("token=")).map(|text| percent_decode_str(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn choose(flag: Option<&str>, vars: &[(&str, &str)]) -> Result<String, TokenError> {
        let var = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        Token::choose(flag.map(str::to_owned), var).map(|token| token.expose().to_owned())
    }

    #[test]
    fn the_flag_wins_then_the_variables_in_order() {
        let both = [("TRIPLANE_TOKEN", "of-triplane"), ("LARIK_SERVER_TOKEN", "of-larik")];
        assert_eq!(choose(Some("of-flag"), &both), Ok("of-flag".into()));
        assert_eq!(choose(None, &both), Ok("of-triplane".into()));
        assert_eq!(choose(None, &both[1..]), Ok("of-larik".into()));
    }

    #[test]
    fn a_token_that_protects_nothing_is_refused() {
        assert_eq!(choose(Some(""), &[]), Err(TokenError::Empty("--token")));
        assert_eq!(choose(None, &[("LARIK_SERVER_TOKEN", "")]), Err(TokenError::Empty("LARIK_SERVER_TOKEN")));
        for bad in ["a b", "tök", "a\n", "\u{7f}"] {
            assert_eq!(choose(Some(bad), &[]), Err(TokenError::NotVisible("--token")), "{bad:?}");
        }
    }

    #[test]
    fn random_tokens_are_long_and_distinct() {
        let made: HashSet<String> = (0..1000).map(|_| choose(None, &[]).unwrap()).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|text| text.len() == 64));
    }

    #[test]
    fn only_the_whole_token_matches_and_it_never_prints() {
        let token = Token::choose(Some("correct-horse-battery".into()), |_| None).unwrap();
        assert!(token.matches(b"correct-horse-battery"));
        for wrong in ["", "correct", "correct-horse-batteryx", "Correct-horse-battery", " correct-horse-battery"] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn one_bearer_header_with_one_space_shows_a_token() {
        let shown = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            bearer(&headers).map(|text| String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(shown(&["Bearer abc"]), Some("abc".into()));
        assert_eq!(shown(&["Bearer  abc"]), Some(" abc".into()));
        assert_eq!(shown(&["Bearer abc", "Bearer abc"]), Some(String::new()));
        for nothing in [&["bearer abc"][..], &["Basic abc"], &["Bearer"], &[]] {
            assert_eq!(shown(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn query_tokens_are_decoded_and_all_told() {
        let all =
            |query| query_tokens(query).map(|text| String::from_utf8_lossy(&text).into_owned()).collect::<Vec<_>>();
        assert_eq!(all(Some("a=1&token=x%2By+z&token=&xtoken=no")), ["x+y+z", ""]);
        assert_eq!(all(None), Vec::<String>::new());
    }
}
