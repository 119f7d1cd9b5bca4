//! The flags that a settings file may give too: one struct is both the command line and the file's keys.
//! Clauses: C01, C06, C08, C10, H01, L12, L21, L24, S04.

use clap::{
    Args, ValueEnum,
    builder::{BoolishValueParser, NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser},
};
use serde::{Deserialize, Deserializer};
use std::{num::NonZeroUsize, path::PathBuf};
use triplane_core::store::Durability;
use triplane_native::sandbox::SandboxMode;
use triplane_protocol::ir::{Effort, Mode};

const PLANE: &str = "Sessions";
const WIRES: &str = "Wires";
const NETWORK: &str = "Network";
const LIFE: &str = "Lifecycle";

/// Where sessions live and what new ones are like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = PLANE)]
pub(crate) struct PlaneFlags {
    /// This machine's identity and index [default: ~/.triplane]
    #[arg(long, env = "TRIPLANE_HOME", value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Where transcripts live [default: .triplane/sessions in the current directory]
    #[arg(long, env = "TRIPLANE_SESSION_DIR", value_name = "DIR")]
    pub(crate) session_dir: Option<PathBuf>,
    /// Agent of new sessions [default: the first that can run prompts]
    #[arg(long, env = "TRIPLANE_AGENT", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// Model of new sessions, as provider/name [default: the agent's]
    #[arg(long, env = "TRIPLANE_MODEL", value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,
    /// What asks for a permission in new sessions [default: default]
    #[arg(long, env = "TRIPLANE_MODE", value_name = "MODE", value_parser = mode())]
    pub(crate) mode: Option<Mode>,
    /// How much the model may think in new sessions [default: the agent's]
    #[arg(long, env = "TRIPLANE_EFFORT", value_name = "EFFORT", value_parser = effort())]
    pub(crate) effort: Option<Effort>,
    /// When an acknowledged change is safe: synced to the disk, or handed to the system [default: fsync]
    #[arg(long, env = "TRIPLANE_DURABILITY", value_name = "WHEN")]
    pub(crate) durability: Option<DurabilityFlag>,
    /// How far commands of the built-in agent are kept in [default: workspace-write in the modes accept-edits and bypass]
    #[arg(long, env = "TRIPLANE_SANDBOX", value_name = "HOW")]
    #[serde(skip)]
    pub(crate) sandbox: Option<SandboxFlag>,
}

/// How far commands are kept in. In a file it is `mode` of `[sandbox]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SandboxFlag {
    /// Not at all
    Off,
    /// They write in the session's directory and in temporary ones only
    WorkspaceWrite,
    /// They write nowhere
    ReadOnly,
}

impl From<SandboxFlag> for SandboxMode {
    fn from(flag: SandboxFlag) -> Self {
        match flag {
            SandboxFlag::Off => Self::Off,
            SandboxFlag::WorkspaceWrite => Self::WorkspaceWrite,
            SandboxFlag::ReadOnly => Self::ReadOnly,
        }
    }
}

/// How the wires are served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(default)]
pub(crate) struct ServeFlags {
    /// Wires to serve: ws, http, stdio; repeat the flag or give a list
    #[arg(long, env = "TRIPLANE_TRANSPORT", help_heading = WIRES, value_name = "WIRE", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) transport: Vec<Transport>,

    /// Address of the WebSocket wire [default: 127.0.0.1]
    #[arg(long, env = "TRIPLANE_HOST", help_heading = NETWORK, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
    /// Port of the WebSocket wire; 0 takes a free one [default: 0]
    #[arg(long, env = "TRIPLANE_PORT", help_heading = NETWORK)]
    pub(crate) port: Option<u16>,
    /// Address and port of the HTTP wire; port 0 takes a free one [default: 127.0.0.1:4096]
    #[arg(long, env = "TRIPLANE_ADDR", help_heading = NETWORK, value_name = "HOST:PORT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) addr: Option<String>,
    /// Token that clients must show; prefer the variable: flags are seen in process lists [default: random]
    #[arg(long, env = "TRIPLANE_TOKEN", help_heading = NETWORK, hide_env_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) token: Option<String>,
    /// Listen on addresses beyond loopback and take any Host; whoever has the token can then run commands
    #[arg(long, env = "TRIPLANE_ALLOW_REMOTE", help_heading = NETWORK, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub(crate) allow_remote: Option<bool>,
    /// Web origin that may call, beside loopback ones: scheme, host and port; may be repeated
    #[arg(long, env = "TRIPLANE_ALLOW_ORIGIN", help_heading = NETWORK, value_name = "ORIGIN", value_delimiter = ',')]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) allow_origin: Vec<String>,

    /// What a client's runs do when its connection ends [default: continue]
    #[arg(long, env = "TRIPLANE_ON_DISCONNECT", help_heading = LIFE, value_name = "WHAT")]
    pub(crate) on_disconnect: Option<Disconnect>,
    /// How long a client of the WebSocket or HTTP wire may take nothing of what it is sent before it is cut off [default: 30000]
    #[arg(long, env = "TRIPLANE_STALL_TIMEOUT_MS", help_heading = LIFE, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) stall_timeout_ms: Option<u64>,
    /// Sessions that the WebSocket wire keeps loaded, least recently used out first [default: 32]
    #[arg(long, env = "TRIPLANE_MAX_SESSION_BAGS", help_heading = LIFE, value_name = "N")]
    pub(crate) max_session_bags: Option<NonZeroUsize>,
    /// Idle time after which the stdio wire lets a session go; 0: never [default: 600000]
    #[arg(long, env = "TRIPLANE_IDLE_TTL_MS", help_heading = LIFE, value_name = "MS")]
    pub(crate) idle_ttl_ms: Option<u64>,
    /// How often idle sessions are looked for [default: 30000]
    #[arg(long, env = "TRIPLANE_SWEEP_MS", help_heading = LIFE, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sweep_ms: Option<u64>,
    /// Messages of one history page at most [default: 500]
    #[arg(long, env = "TRIPLANE_HISTORY_LIMIT", help_heading = LIFE, value_name = "N")]
    pub(crate) history_limit: Option<NonZeroUsize>,
    /// How long a probed lock state is remembered [default: ten lock TTLs, at least 60000]
    #[arg(long, env = "TRIPLANE_PROBE_IDLE_MS", help_heading = LIFE, value_name = "MS")]
    pub(crate) probe_idle_ms: Option<u64>,
    /// How long a lock's holder may be silent before it counts as stale
    #[arg(long, env = "TRIPLANE_LOCK_TTL_MS", help_heading = LIFE, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) lock_ttl_ms: Option<u64>,
}

/// A wire and what carries it. Clause: C01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// JSON-RPC over WebSocket
    Ws,
    /// HTTP and Server-Sent Events
    Http,
    /// JSON-RPC, one object a line, on stdin and stdout
    Stdio,
}

impl Transport {
    /// As it is written on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ws => "ws",
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

/// What a client's runs do when its connection ends. Clause: C10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Disconnect {
    /// They go on: a run belongs to its session
    Continue,
    /// They are cancelled
    Abort,
}

/// When an acknowledged change is safe. Clause: C12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DurabilityFlag {
    /// Synced to the disk
    Fsync,
    /// Written to the system; a power cut may take the last moments
    Flush,
}

impl From<DurabilityFlag> for Durability {
    fn from(flag: DurabilityFlag) -> Self {
        match flag {
            DurabilityFlag::Fsync => Self::Fsync,
            DurabilityFlag::Flush => Self::Flush,
        }
    }
}

impl PlaneFlags {
    /// What is absent here is taken from `lower`.
    pub(crate) fn over(self, lower: Self) -> Self {
        let Self { home, session_dir, agent, model, mode, effort, durability, sandbox } = self;
        Self {
            home: home.or(lower.home),
            session_dir: session_dir.or(lower.session_dir),
            agent: agent.or(lower.agent),
            model: model.or(lower.model),
            mode: mode.or(lower.mode),
            effort: effort.or(lower.effort),
            durability: durability.or(lower.durability),
            sandbox: sandbox.or(lower.sandbox),
        }
    }
}

impl ServeFlags {
    /// What is absent here is taken from `lower`; a list is taken whole.
    pub(crate) fn over(self, lower: Self) -> Self {
        let Self { transport, host, port, addr, token, allow_remote, allow_origin, on_disconnect, .. } = self;
        let Self {
            stall_timeout_ms,
            max_session_bags,
            idle_ttl_ms,
            sweep_ms,
            history_limit,
            probe_idle_ms,
            lock_ttl_ms,
            ..
        } = self;
        Self {
            transport: if transport.is_empty() { lower.transport } else { transport },
            host: host.or(lower.host),
            port: port.or(lower.port),
            addr: addr.or(lower.addr),
            token: token.or(lower.token),
            allow_remote: allow_remote.or(lower.allow_remote),
            allow_origin: if allow_origin.is_empty() { lower.allow_origin } else { allow_origin },
            on_disconnect: on_disconnect.or(lower.on_disconnect),
            stall_timeout_ms: stall_timeout_ms.or(lower.stall_timeout_ms),
            max_session_bags: max_session_bags.or(lower.max_session_bags),
            idle_ttl_ms: idle_ttl_ms.or(lower.idle_ttl_ms),
            sweep_ms: sweep_ms.or(lower.sweep_ms),
            history_limit: history_limit.or(lower.history_limit),
            probe_idle_ms: probe_idle_ms.or(lower.probe_idle_ms),
            lock_ttl_ms: lock_ttl_ms.or(lower.lock_ttl_ms),
        }
    }
}

fn mode() -> ValueParser {
    let names = Mode::ALL.iter().map(|mode| mode.as_str());
    PossibleValuesParser::new(names).try_map(|text| text.parse::<Mode>()).into()
}

fn effort() -> ValueParser {
    let names = Effort::ALL.iter().map(|effort| effort.as_str());
    PossibleValuesParser::new(names).try_map(|text| text.parse::<Effort>()).into()
}

/// `transport = "ws"` and `transport = ["ws", "http"]` mean what they say.
fn one_or_many<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OneOrMany<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for OneOrMany<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a text or a list of texts")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(serde::de::value::StrDeserializer::new(text)).map(|one| vec![one])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = seq.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMany(std::marker::PhantomData))
}
