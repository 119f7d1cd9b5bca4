//! Which provider, spoken to how, and where.
//! Invariant: an address always ends in `/` and has the version that the library joins its paths to.

use super::KeySource;
use crate::model::Retries;
use reqwest::Url;
use std::{net::IpAddr, str::FromStr, time::Duration};

/// What a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI chat completions, and all that are like it.
    OpenAi,
    /// OpenAI responses.
    OpenAiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini.
    Gemini,
    /// Ollama's own.
    Ollama,
}

/// Not a protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of openai, openai-responses, anthropic, gemini, ollama")]
pub struct UnknownProtocol;

impl Protocol {
    /// Every protocol.
    pub const ALL: &[Self] = &[Self::OpenAi, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Its name in a settings file, and that of the provider whose own it is.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The variable that has the key, if one is needed.
    pub const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// The variable that has the address.
    pub const fn address_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
            Self::Ollama => "OLLAMA_HOST",
        }
    }

    /// Where the protocol's own provider is.
    pub(super) fn default_address(self) -> Result<Url, String> {
        let text = match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://127.0.0.1:11434/",
        };
        Url::parse(text).map_err(|error| error.to_string())
    }

    /// What an address without a path is given.
    const fn version(self) -> Option<&'static str> {
        match self {
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic => Some("v1"),
            Self::Gemini => Some("v1beta"),
            Self::Ollama => None,
        }
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        Self::ALL.iter().copied().find(|protocol| protocol.name() == text).ok_or(UnknownProtocol)
    }
}

/// One provider, as it is set up.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// What stands before the `/` of its models.
    pub id: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it is; `None`: where the protocol's own provider is.
    pub base_url: Option<String>,
    /// Its key.
    pub key: KeySource,
    /// Names of models, for people; others are taken too.
    pub models: Vec<String>,
    /// Tokens of a reply at most; `None`: what the library knows of the model.
    pub max_tokens: Option<u32>,
    /// Tokens that its models take in all; `None`: by the model's name, where that is known.
    pub context: Option<u64>,
    /// How long nothing may come, from the request to the end. There is no limit to the whole.
    pub idle: Duration,
    /// How often a failed request is made again.
    pub retries: Retries,
}

impl ProviderConfig {
    /// How long nothing may come, unless it is said.
    pub const IDLE: Duration = Duration::from_secs(300);
    /// How often a failed request is made again, unless it is said.
    pub const RETRIES: Retries = Retries { attempts: 4, base: Duration::from_millis(500) };

    /// The protocol's own provider, without a key.
    pub fn new(id: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            id: id.into(),
            protocol,
            base_url: None,
            key: KeySource::None,
            models: Vec::new(),
            max_tokens: None,
            context: None,
            idle: Self::IDLE,
            retries: Self::RETRIES,
        }
    }

    /// The address that was given, whole. Errors: one line that does not repeat it, for it may hold a password.
    pub(super) fn given_address(&self) -> Result<Option<Url>, String> {
        let given = self.base_url.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let whole = given.map(|given| address(self.protocol, given)).transpose();
        whole.map_err(|why| format!("base_url of `{}`: {why}", self.id))
    }
}

/// What models of well-known names take. A model behind another server may take less: that is what the setting is for.
pub(super) fn usual_context(name: &str) -> Option<u64> {
    const TABLE: &[(&str, u64)] = &[
        ("claude-", 200_000),
        ("gpt-5", 400_000),
        ("gpt-4.1", 1_000_000),
        ("gpt-4o", 128_000),
        ("gpt-4-turbo", 128_000),
        ("o1", 200_000),
        ("o3", 200_000),
        ("o4", 200_000),
        ("gemini-", 1_000_000),
        ("deepseek-", 128_000),
    ];
    // Routers put the maker in front.
    let name = name.rsplit('/').next().unwrap_or(name);
    TABLE.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, tokens)| *tokens)
}

fn address(protocol: Protocol, given: &str) -> Result<Url, String> {
    let text = match (protocol, given.contains("://")) {
        // As its own command reads it: `host`, `host:port` or `:port`.
        (Protocol::Ollama, false) => {
            let host = if given.starts_with(':') { format!("127.0.0.1{given}") } else { given.to_owned() };
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if has_port { format!("http://{host}") } else { format!("http://{host}:11434") }
        }
        (_, true) => given.to_owned(),
        (_, false) => return Err("must begin with http:// or https://".to_owned()),
    };
    let mut url = Url::parse(&text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must begin with http:// or https:// and a host".to_owned());
    }
    if protocol == Protocol::Ollama && url.host_str() == Some("0.0.0.0") {
        // Where it listens, not where it is.
        url.set_ip_host(IpAddr::from([127, 0, 0, 1])).map_err(|()| "no host".to_owned())?;
    }
    let mut path = url.path().trim_end_matches('/').to_owned();
    if let Some(version) = protocol.version() {
        let last = path.rsplit('/').next().unwrap_or_default();
        let versioned = last.starts_with('v') && last.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        // OpenAI's address has its version by custom, so a path there means what it says; the others' has not.
        let whole = path.len() > 1 && matches!(protocol, Protocol::OpenAi | Protocol::OpenAiResponses);
        if !versioned && !whole {
            path = format!("{path}/{version}");
        }
    }
    url.set_path(&format!("{path}/"));
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed_as_each_custom_has_it() {
        for (protocol, given, expected) in [
            (Protocol::OpenAi, "http://h:1", "http://h:1/v1/"),
            (Protocol::OpenAi, "http://h:1/v1", "http://h:1/v1/"),
            (Protocol::OpenAi, "https://h/api/v1/", "https://h/api/v1/"),
            (Protocol::OpenAiResponses, "https://h/openai", "https://h/openai/"),
            (Protocol::Anthropic, "http://h:1/", "http://h:1/v1/"),
            (Protocol::Anthropic, "https://h/proxy", "https://h/proxy/v1/"),
            (Protocol::Anthropic, "https://h/v1", "https://h/v1/"),
            (Protocol::Gemini, "http://h:1", "http://h:1/v1beta/"),
            (Protocol::Gemini, "http://h:1/v1", "http://h:1/v1/"),
            (Protocol::Ollama, "h", "http://h:11434/"),
            (Protocol::Ollama, ":1", "http://127.0.0.1:1/"),
            (Protocol::Ollama, "0.0.0.0:2", "http://127.0.0.1:2/"),
            (Protocol::Ollama, "https://h", "https://h/"),
        ] {
            assert_eq!(address(protocol, given).unwrap().as_str(), expected, "{given}");
        }
        for bad in ["h:1", "ftp://h", "file:///x", "http://"] {
            assert!(address(Protocol::OpenAi, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_protocol_has_its_name() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.name().parse(), Ok(*protocol));
            assert!(protocol.default_address().unwrap().path().ends_with('/'));
        }
        assert!("open".parse::<Protocol>().is_err());
    }
}
