//! The tables `[providers.NAME]` and `[models]`: who can be asked, and how patiently.
//! Invariant: a checkout cannot set a provider, for it could send somebody's key to an address of its own.

use super::beside;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

/// `[providers.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderTable {
    /// What it speaks; may be left out where the name says it.
    pub(crate) protocol: Option<String>,
    /// Where it is.
    pub(crate) base_url: Option<String>,
    /// The variable that has the key.
    pub(crate) key_env: Option<String>,
    /// A file of mode 0600 that has the key.
    pub(crate) key_file: Option<PathBuf>,
    /// Models that are named to people; the first is the default when nobody names one.
    #[serde(default)]
    pub(crate) models: Vec<String>,
    /// Tokens of a reply at most.
    pub(crate) max_tokens: Option<u32>,
    /// Tokens that its models take in all, reply included; compaction goes by it.
    pub(crate) context: Option<NonZeroU64>,
}

/// `[models]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelsTable {
    /// Models that are asked in this order when the session's own cannot answer.
    pub(crate) fallbacks: Option<Vec<String>>,
    /// How long nothing may come of a reply.
    pub(crate) idle_timeout_ms: Option<NonZeroU64>,
    /// How often a failed request is made again.
    pub(crate) retries: Option<u32>,
}

/// Both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ModelSettings {
    #[serde(default)]
    pub(crate) providers: BTreeMap<String, ProviderTable>,
    #[serde(default)]
    pub(crate) models: ModelsTable,
}

impl ModelSettings {
    /// What is absent here is taken from `lower`; a provider is taken whole.
    pub(crate) fn over(self, lower: Self) -> Self {
        let mut providers = lower.providers;
        providers.extend(self.providers);
        let ModelsTable { fallbacks, idle_timeout_ms, retries } = self.models;
        let models = ModelsTable {
            fallbacks: fallbacks.or(lower.models.fallbacks),
            idle_timeout_ms: idle_timeout_ms.or(lower.models.idle_timeout_ms),
            retries: retries.or(lower.models.retries),
        };
        Self { providers, models }
    }

    /// Paths are relative to the file.
    pub(super) fn beside(mut self, file: &Path) -> Self {
        for table in self.providers.values_mut() {
            table.key_file = table.key_file.take().map(|path| beside(file, path));
        }
        self
    }
}
