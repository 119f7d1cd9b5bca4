//! Which models this build can ask, from settings and the usual variables.
//! Invariants: nothing is asked and no file is read here; a key goes from the environment into its own type and nowhere else.

use crate::settings::ModelSettings;
use triplane_native::Models;
use triplane_protocol::larik::Provider;

/// The models, and who is ready to be asked.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) models: Models,
    /// Providers that have what they need, for `info`.
    pub(crate) ready: Vec<Provider>,
    /// Variables that may hold a key: commands of an agent do not see them, for what they print goes to a transcript.
    pub(crate) hidden: Vec<String>,
}

impl Known {
    fn scripted() -> Self {
        let script = Provider { name: "script".into(), models: vec!["script/echo".into()] };
        Self { models: Models::default(), ready: vec![script], hidden: Vec::new() }
    }
}

/// Without providers.
#[cfg(not(feature = "providers"))]
pub(crate) fn known(settings: &ModelSettings, _variable: &dyn Fn(&str) -> Option<String>) -> Result<Known, String> {
    if !settings.providers.is_empty() {
        tracing::warn!("[providers] is not read: this build has no providers");
    }
    Ok(Known::scripted())
}

/// Reads `settings` and `variable`. Errors: one line that names the provider, and no key.
#[cfg(feature = "providers")]
pub(crate) fn known(settings: &ModelSettings, variable: &dyn Fn(&str) -> Option<String>) -> Result<Known, String> {
    net::known(settings, variable)
}

#[cfg(feature = "providers")]
mod net {
    use super::*;
    use crate::settings::ProviderTable;
    use std::{sync::Arc, time::Duration};
    use triplane_native::model::net::{Key, KeySource, NetProvider, Protocol, ProviderConfig};

    pub(super) fn known(settings: &ModelSettings, variable: &dyn Fn(&str) -> Option<String>) -> Result<Known, String> {
        let mut known = Known::scripted();
        let mut rows: Vec<(String, Option<&ProviderTable>)> = Vec::new();
        // Who has a table stands in front, so that its first model becomes the default.
        rows.extend(settings.providers.iter().map(|(name, table)| (name.clone(), Some(table))));
        let own = Protocol::ALL.iter().map(|protocol| protocol.name());
        rows.extend(own.filter(|name| !settings.providers.contains_key(*name)).map(|name| (name.to_owned(), None)));
        for (name, table) in rows.into_iter().rev() {
            let config = config(&name, table, settings, variable)?;
            let named = table.and_then(|table| table.key_env.as_deref());
            known.hidden.extend(named.or(config.protocol.key_variable()).map(str::to_owned));
            if is_ready(&config, table.is_some()) {
                let models = config.models.iter().map(|model| format!("{name}/{model}")).collect();
                known.ready.insert(0, Provider { name, models });
            }
            known.models = known.models.with(Arc::new(NetProvider::new(config)?));
        }
        Ok(known)
    }

    fn config(
        name: &str,
        table: Option<&ProviderTable>,
        settings: &ModelSettings,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ProviderConfig, String> {
        let wrong = |what: String| format!("[providers.{name}]: {what}");
        if name.is_empty()
            || name == "script"
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Err(wrong("the name must be letters, digits, `-`, `_` or `.`, and not `script`".to_owned()));
        }
        let own: Option<Protocol> = name.parse().ok();
        let given = table.and_then(|table| table.protocol.as_deref());
        let given = given.map(str::parse).transpose().map_err(|error| wrong(format!("protocol: {error}")))?;
        let protocol = given.or(own).ok_or_else(|| {
            wrong("protocol: must be openai, openai-responses, anthropic, gemini or ollama".to_owned())
        })?;
        // Another name's address is its own; only the provider itself is where its variable says.
        let is_own = own == Some(protocol);
        let mut config = ProviderConfig::new(name, protocol);
        config.base_url = table.and_then(|table| table.base_url.clone());
        if config.base_url.is_none() && is_own {
            config.base_url = variable(protocol.address_variable());
        }
        config.key = key(table, protocol, is_own, config.base_url.is_some(), variable);
        if let Some(table) = table {
            config.models.clone_from(&table.models);
            config.max_tokens = table.max_tokens;
            config.context = table.context.map(std::num::NonZeroU64::get);
        }
        if let Some(ms) = settings.models.idle_timeout_ms {
            config.idle = Duration::from_millis(ms.get());
        }
        if let Some(retries) = settings.models.retries {
            config.retries.attempts = retries;
        }
        Ok(config)
    }

    fn key(
        table: Option<&ProviderTable>,
        protocol: Protocol,
        is_own: bool,
        elsewhere: bool,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> KeySource {
        let of = |name: &str| variable(name).as_deref().and_then(Key::new).map(KeySource::Value);
        let missing = |name: &str| KeySource::Missing { help: format!("set {name}, or key_file in [providers]") };
        if let Some(name) = table.and_then(|table| table.key_env.as_deref()) {
            return of(name).unwrap_or_else(|| missing(name));
        }
        if let Some(path) = table.and_then(|table| table.key_file.clone()) {
            return KeySource::File(path);
        }
        // The usual variable's key goes to its own provider only.
        match protocol.key_variable().filter(|_| is_own) {
            Some(name) => match of(name) {
                Some(key) => key,
                // A server of one's own may want none.
                None if elsewhere => KeySource::None,
                None => missing(name),
            },
            None => KeySource::None,
        }
    }

    /// Ollama wants nothing, so it is ready when somebody says that it is there.
    fn is_ready(config: &ProviderConfig, named: bool) -> bool {
        match &config.key {
            KeySource::Missing { .. } => false,
            KeySource::Value(_) | KeySource::File(_) => true,
            KeySource::None => named || config.base_url.is_some(),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::settings::ModelSettings;

        fn ready(toml: &str, variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
            let settings: ModelSettings = toml::from_str(toml).unwrap();
            let variable =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let known = known(&settings, &variable)?;
            let text = format!("{known:?}");
            assert!(!text.contains("sk-"), "{text}");
            Ok(known.ready.into_iter().map(|provider| provider.name).collect())
        }

        #[test]
        fn who_has_a_key_or_an_address_is_ready() {
            type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
            let rows: &[Row<'_>] = &[
                ("", &[], &["script"]),
                ("", &[("ANTHROPIC_API_KEY", "sk-a")], &["anthropic", "script"]),
                ("", &[("OPENAI_API_KEY", "sk-o")], &["openai", "openai-responses", "script"]),
                ("", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")], &["openai", "openai-responses", "script"]),
                ("", &[("OLLAMA_HOST", ":1")], &["ollama", "script"]),
                ("[providers.x]\nprotocol = 'openai'\nkey_env = 'X'", &[], &["script"]),
                ("[providers.x]\nprotocol = 'openai'\nkey_env = 'X'", &[("X", "sk-x")], &["x", "script"]),
                ("[providers.gemini]\nkey_file = '/k'", &[], &["gemini", "script"]),
                // The key of the usual variable does not go to another's address.
                ("[providers.x]\nprotocol = 'anthropic'\nbase_url = 'http://h'", &[], &["x", "script"]),
            ];
            for (toml, variables, expected) in rows {
                assert_eq!(ready(toml, variables).unwrap(), *expected, "{toml} {variables:?}");
            }
        }

        #[test]
        fn mistakes_name_the_provider() {
            for (toml, named) in [
                ("[providers.x]", "[providers.x]: protocol"),
                ("[providers.x]\nprotocol = 'soap'", "[providers.x]: protocol: must be one of"),
                ("[providers.script]\nprotocol = 'openai'", "[providers.script]: the name"),
                ("[providers.x]\nprotocol = 'openai'\nbase_url = 'h'", "base_url of `x`"),
            ] {
                let error = ready(toml, &[]).unwrap_err();
                assert!(error.contains(named), "{error}");
            }
        }

        #[test]
        fn the_first_named_model_is_the_default() {
            let settings: ModelSettings =
                toml::from_str("[providers.openai]\nmodels = ['m1', 'm2']\nbase_url = 'http://127.0.0.1:1'").unwrap();
            let known = known(&settings, &|_| None).unwrap();
            assert_eq!(known.models.names(), ["openai/m1", "openai/m2", "script/echo"]);
            assert!(known.models.find("openai/other").is_ok());
            let missing = known.models.find("gemini/x").err().unwrap();
            assert!(missing.contains("GEMINI_API_KEY"), "{missing}");
        }
    }
}
