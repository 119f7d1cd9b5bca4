//! What went wrong with a request, in our words: a code, one line with the provider's status and text, whether to try again.
//! Invariant: no key, no request and no address beyond the host is in the text.

use super::{
    Key,
    client::{Line, Open},
};
use crate::model::ModelError;
use genai::webc::StreamTimeout;
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::Value;
use std::{error::Error as StdError, time::Duration};
use triplane_protocol::ErrorCode;

/// Of a provider's text, so much is told.
const TEXT_CHARS: usize = 400;
/// Words by which providers say that the conversation is too long. There is no code for it that they share.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "prompt is too long",
    "input token count",
    "exceeds the maximum number of tokens",
    "exceed context limit",
];
/// Words of a 429 that no wait will change.
const NO_CREDIT: &[&str] = &["insufficient_quota", "billing", "credit balance"];

/// Makes errors of one provider.
pub(super) struct Trouble<'a> {
    line: &'a Line,
    key: Option<&'a Key>,
}

impl<'a> Trouble<'a> {
    pub(super) fn new(line: &'a Line, open: &'a Open) -> Self {
        Self { line, key: open.key.as_ref() }
    }

    /// The library's error.
    pub(super) fn of(&self, error: genai::Error) -> ModelError {
        match error {
            genai::Error::HttpError { status, body, headers, .. } => self.status(status, &body, &headers),
            genai::Error::WebStream { error, .. } => match error.downcast::<genai::Error>() {
                Ok(inner) => self.of(*inner),
                Err(error) => self.network(error.as_ref()),
            },
            genai::Error::ChatResponse { body, .. } => self.told(&body),
            genai::Error::StreamParse { serde_error, .. } => {
                self.error(ErrorCode::Unavailable, &format!("the reply could not be read: {serde_error}"), true)
            }
            genai::Error::WebModelCall { webc_error, .. } => self.network(&webc_error),
            other => self.error(ErrorCode::Invalid, &other.to_string(), false),
        }
    }

    /// The stream ended, and nothing said that the reply had.
    pub(super) fn broken(&self) -> ModelError {
        self.error(ErrorCode::Unavailable, "the reply was broken off", true)
    }

    /// An error event inside of a stream.
    pub(super) fn told(&self, body: &Value) -> ModelError {
        let text = said(body);
        let whole = body.to_string();
        let number = [body, &body["error"]].iter().find_map(|value| value["code"].as_u64());
        let status = number.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        if let Some(status) = status.filter(|status| status.is_client_error() || status.is_server_error()) {
            return self.status(status, &whole, &HeaderMap::new());
        }
        if contains(&whole, TOO_LONG) {
            return self.error(ErrorCode::TooLarge, &text, false);
        }
        if contains(&whole, &["overloaded", "rate_limit"]) {
            return self.error(ErrorCode::Overloaded, &text, true);
        }
        let ours = contains(&whole, &["invalid_request", "authentication", "permission"]);
        self.error(if ours { ErrorCode::Invalid } else { ErrorCode::Unavailable }, &text, !ours)
    }

    fn status(&self, status: StatusCode, body: &str, headers: &HeaderMap) -> ModelError {
        let (code, mut retryable) = match status.as_u16() {
            401 => (ErrorCode::Unauthorized, false),
            403 => (ErrorCode::Forbidden, false),
            408 | 504 => (ErrorCode::Timeout, true),
            413 => (ErrorCode::TooLarge, false),
            429 | 529 => (ErrorCode::Overloaded, true),
            409 | 500..=599 => (ErrorCode::Unavailable, true),
            _ => (ErrorCode::Invalid, false),
        };
        let code = if contains(body, TOO_LONG) && !retryable { ErrorCode::TooLarge } else { code };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        retryable &= header("x-should-retry") != Some("false") && !contains(body, NO_CREDIT);
        let text = serde_json::from_str(body).map_or_else(|_| body.to_owned(), |body: Value| said(&body));
        let reason = status.canonical_reason().unwrap_or_default();
        let mut error = self.error(code, &format!("{} {reason}: {text}", status.as_u16()), retryable);
        error.retry_after = wait(header("retry-after-ms"), header("retry-after"));
        error
    }

    fn network(&self, error: &(dyn StdError + 'static)) -> ModelError {
        let causes = causes(error);
        if let Some(timeout) = causes.iter().find_map(|cause| cause.downcast_ref::<StreamTimeout>()) {
            let idle = self.line.config.idle;
            let what = match timeout {
                StreamTimeout::Headers => "no answer",
                StreamTimeout::Read => "nothing more came",
            };
            return self.error(ErrorCode::Timeout, &format!("{what} within {} s", idle.as_secs_f32()), true);
        }
        let request = causes.iter().find_map(|cause| cause.downcast_ref::<reqwest::Error>());
        let host = self.line.host();
        // The outer texts have the address in them; the innermost is the system's.
        let root = causes.last().map_or_else(String::new, ToString::to_string);
        match request {
            Some(request) if request.is_connect() => {
                self.error(ErrorCode::Unavailable, &format!("cannot reach {host}: {root}"), true)
            }
            Some(request) if request.is_timeout() => {
                self.error(ErrorCode::Timeout, &format!("{host} did not answer in time"), true)
            }
            Some(request) if request.is_builder() => {
                self.error(ErrorCode::Invalid, "the request could not be made; look at base_url and the key", false)
            }
            Some(_) | None => {
                self.error(ErrorCode::Unavailable, &format!("the connection to {host} broke: {root}"), true)
            }
        }
    }

    fn error(&self, code: ErrorCode, text: &str, retryable: bool) -> ModelError {
        let text = self.key.map_or_else(|| text.to_owned(), |key| key.blot(text));
        let message = format!("{}: {}", self.line.config.id, one_line(&text));
        ModelError { code, message, retryable, retry_after: None }
    }
}

/// An error and all that is behind it.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> Vec<&'e (dyn StdError + 'static)> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        causes.push(error);
        next = error.source();
    }
    causes
}

/// The text of an error, wherever a provider puts it.
fn said(body: &Value) -> String {
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
    let text = error.as_str().or_else(|| error["message"].as_str()).or_else(|| body["detail"].as_str());
    text.map_or_else(|| body.to_string(), str::to_owned)
}

fn contains(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = words.chars().filter(|c| !c.is_control()).take(TEXT_CHARS).collect();
    if plain.len() < words.len() { format!("{plain}…") } else { plain }
}

/// How long the provider wants to be left alone. Dates are not taken: clocks differ, and providers send seconds.
fn wait(ms: Option<&str>, seconds: Option<&str>) -> Option<Duration> {
    let number = |text: Option<&str>| text?.trim().parse::<f64>().ok();
    let seconds = number(ms).map(|ms| ms / 1000.0).or_else(|| number(seconds))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::net::{KeySource, Protocol, ProviderConfig};
    use serde_json::json;

    fn with<T>(check: impl FnOnce(&Trouble<'_>) -> T) -> T {
        let key = Key::new("sk-secret-1").unwrap();
        let mut config = ProviderConfig::new("p", Protocol::OpenAi);
        config.key = KeySource::Value(key.clone());
        let line = Line::new(config).unwrap();
        check(&Trouble { line: &line, key: Some(&key) })
    }

    #[test]
    fn statuses_say_what_to_do_and_never_the_key() {
        let too_long = r#"{"error":{"message":"This model's maximum context length is 8 tokens"}}"#;
        let rows = [
            (
                400,
                r#"{"error":{"message":"bad sk-secret-1"}}"#,
                ErrorCode::Invalid,
                false,
                "p: 400 Bad Request: bad [key]",
            ),
            (401, "{\"error\":\"no\"}", ErrorCode::Unauthorized, false, "p: 401 Unauthorized: no"),
            (400, too_long, ErrorCode::TooLarge, false, "maximum context length"),
            (429, "{}", ErrorCode::Overloaded, true, "p: 429 Too Many Requests: {}"),
            (429, r#"{"error":{"code":"insufficient_quota","message":"q"}}"#, ErrorCode::Overloaded, false, "q"),
            (502, "<html>\nbad\u{7} gateway", ErrorCode::Unavailable, true, "p: 502 Bad Gateway: <html> bad gateway"),
            (529, "", ErrorCode::Overloaded, true, "529"),
        ];
        for (status, body, code, retryable, text) in rows {
            let status = StatusCode::from_u16(status).unwrap();
            let error = with(|trouble| trouble.status(status, body, &HeaderMap::new()));
            assert_eq!((error.code, error.retryable), (code, retryable), "{status}");
            assert!(error.message.contains(text), "{}", error.message);
        }
    }

    #[test]
    fn events_inside_of_a_stream_are_told() {
        for (body, code, retryable) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
                ErrorCode::Overloaded,
                true,
            ),
            (json!({"message": "m", "code": 502}), ErrorCode::Unavailable, true),
            (json!({"error": {"code": 400, "message": "m"}}), ErrorCode::Invalid, false),
            (json!({"code": "context_length_exceeded", "message": "m"}), ErrorCode::TooLarge, false),
            (json!({"type": "invalid_request_error", "message": "m"}), ErrorCode::Invalid, false),
        ] {
            let error = with(|trouble| trouble.told(&body));
            assert_eq!((error.code, error.retryable), (code, retryable), "{body}");
        }
    }

    #[test]
    fn waits_are_read() {
        let ms = |ms, seconds| wait(ms, seconds).map(|wait| wait.as_millis());
        assert_eq!(ms(Some("20"), Some("1")), Some(20));
        assert_eq!(ms(None, Some("1.5")), Some(1500));
        for bad in ["", "soon", "-1", "NaN", "1e400", "Mon, 30 Nov 2026 10:00:00 GMT"] {
            assert_eq!(ms(None, Some(bad)), None, "{bad}");
        }
    }
}
