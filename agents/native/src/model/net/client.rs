//! The line to one provider: key, address and connection pool, made at the first turn and kept.
//! Invariants: an idle process has no TLS roots and no pool, and has not even run the code that reads an address, unless one was given; a redirect is not followed, for it would carry the key elsewhere.

use super::{Key, Protocol, ProviderConfig};
use crate::model::ModelError;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    resolver::{AuthData, Endpoint},
};
use reqwest::{Url, redirect::Policy};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::sync::OnceCell;
use triplane_protocol::ErrorCode;

/// How long a connection may take; a provider that thinks long has long answered the call by then.
const CONNECT: Duration = Duration::from_secs(30);
/// What a server that wants no key is sent as one.
const NO_KEY: &str = "none";

/// A provider, and what is open to it.
pub(super) struct Line {
    pub(super) config: ProviderConfig,
    /// What was given, checked; the protocol's own is read when it is needed.
    given: Option<Url>,
    open: OnceCell<Arc<Open>>,
}

/// What a turn needs.
pub(super) struct Open {
    pub(super) client: Client,
    pub(super) key: Option<Key>,
    address: Url,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address may hold a password.
        f.debug_struct("Line").field("id", &self.config.id).field("host", &self.host()).finish_non_exhaustive()
    }
}

impl Line {
    pub(super) fn new(config: ProviderConfig) -> Result<Self, String> {
        let given = config.given_address()?;
        Ok(Self { config, given, open: OnceCell::new() })
    }

    /// Where the provider is, for people.
    pub(super) fn host(&self) -> String {
        let Ok(address) = self.address() else { return String::new() };
        let host = address.host_str().unwrap_or_default();
        address.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn address(&self) -> Result<Url, String> {
        self.given.clone().map_or_else(|| self.config.protocol.default_address(), Ok)
    }

    /// Opens the line, once. A failure is not kept: a key file can be mended.
    pub(super) async fn open(&self) -> Result<Arc<Open>, ModelError> {
        self.open.get_or_try_init(|| self.make()).await.cloned()
    }

    async fn make(&self) -> Result<Arc<Open>, ModelError> {
        let (source, address) = (self.config.key.clone(), self.address());
        // Reads files: the key and, for TLS, the system's roots.
        let made = tokio::task::spawn_blocking(move || {
            let (key, address) = (source.read()?, address?);
            let client = Client::builder().with_reqwest(pool(&address)?).build().map_err(|error| error.to_string())?;
            Ok::<_, String>(Open { client, key, address })
        });
        let open = made.await.unwrap_or_else(|error| Err(error.to_string()));
        open.map(Arc::new).map_err(|why| ModelError {
            code: ErrorCode::Invalid,
            message: format!("{}: {why}", self.config.id),
            retryable: false,
            retry_after: None,
        })
    }
}

impl Open {
    pub(super) fn target(&self, protocol: Protocol, name: &str) -> ServiceTarget {
        let kind = match protocol {
            Protocol::OpenAi => AdapterKind::OpenAI,
            Protocol::OpenAiResponses => AdapterKind::OpenAIResp,
            Protocol::Anthropic => AdapterKind::Anthropic,
            Protocol::Gemini => AdapterKind::Gemini,
            Protocol::Ollama => AdapterKind::Ollama,
        };
        let key = self.key.as_ref().map_or(NO_KEY, Key::expose);
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.address.as_str()),
            auth: AuthData::Key(key.to_owned()),
            model: ModelIden::new(kind, name),
        }
    }
}

fn pool(address: &Url) -> Result<reqwest::Client, String> {
    // An error means that there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(Policy::none())
        .user_agent(concat!("triplane/", env!("CARGO_PKG_VERSION")));
    if address.scheme() == "http" {
        // No roots are loaded for a server that has no certificate.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(address) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| format!("no TLS here: {error}"))
}

fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
