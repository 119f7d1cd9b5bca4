//! The protocol that driver processes speak: JSON-RPC 2.0, one object a line, on their stdin and stdout, as on the stdio wire.
//! The plane asks, the driver answers; what happens in a run comes as [`EVENT`] notifications. Described for authors of drivers in
//! `docs/driver-protocol.md`. Clauses: S31, S32.
//!
//! - [`Manifest`]: what a driver says of itself.
//! - `session.*`: [`session`]. `config.*`: [`config`].

pub mod config;
pub mod session;

pub use config::*;
pub use session::*;

use crate::ir::Mode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version of this protocol; raised when a driver would break.
pub const PROTOCOL: u32 = 1;

/// Bytes of one line at most, in both directions.
pub const LINE_BYTES: usize = 16 << 20;

/// Name of the notification that carries one event of a run: [`session::Event`].
pub const EVENT: &str = "session.event";

/// A call that the plane makes.
pub trait Call {
    /// Its name.
    const METHOD: &'static str;
    /// What it is given.
    type Params: Serialize + DeserializeOwned + Send;
    /// What it answers.
    type Result: Serialize + DeserializeOwned + Send;
}

macro_rules! calls {
    ($( $(#[doc = $doc:literal])+ $name:ident: $method:literal ($params:ty) -> $result:ty; )+) => { $(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Call for $name {
            const METHOD: &'static str = $method;
            type Params = $params;
            type Result = $result;
        }
    )+
        /// Every method, in the order of the document.
        pub const METHODS: &[&str] = &[ $( $method ),+ ];
    };
}

calls! {
    /// The first call of every process: what it is and what it can do.
    ShowManifest: "manifest" (Hello) -> Manifest;
    /// Every session of its store.
    ListSessions: "session.list" (Nothing) -> Listed;
    /// A whole session.
    LoadSession: "session.load" (Named) -> Loaded;
    /// Writes a session into its store.
    SaveSession: "session.save" (Save) -> SavedAs;
    /// Deletes a session from its store.
    DeleteSession: "session.delete" (Named) -> Nothing;
    /// A session will be prompted; comes again when the process was started anew.
    OpenSession: "session.open" (Open) -> Nothing;
    /// Runs a prompt; answered when the run has ended.
    PromptSession: "session.prompt" (Prompt) -> Outcome;
    /// The run in flight is to end; its prompt is answered soon after.
    CancelSession: "session.cancel" (Named) -> Nothing;
    /// The answer to a permission request of the run.
    AnswerPermission: "session.permission" (Answer) -> Nothing;
    /// A session will not be prompted any more.
    CloseSession: "session.close" (Named) -> Nothing;
    /// The config below a root.
    ReadConfig: "config.read" (ReadConfigParams) -> crate::config::AgentConfig;
    /// Installs config items.
    WriteConfig: "config.write" (WriteConfigParams) -> crate::config::ConfigImported;
}

/// Nothing to say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// What a driver is told first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that the plane speaks: [`PROTOCOL`].
    pub protocol: u32,
}

/// What a driver says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version that it speaks; another than [`PROTOCOL`] is refused.
    pub protocol: u32,
    /// Name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// What it can do; what is absent it cannot.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Models that it names, if it has a closed list.
    #[serde(default)]
    pub models: Vec<String>,
    /// Modes that it takes; without any, all of them.
    #[serde(default)]
    pub modes: Vec<Mode>,
}

/// What a driver can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// `session.open`, `prompt`, `cancel`, `permission`, `close`.
    pub prompt: bool,
    /// `session.list` and `session.load`.
    pub read: bool,
    /// `session.save`.
    pub write: bool,
    /// `session.delete`.
    pub delete: bool,
    /// `config.read` and `config.write`.
    pub config: bool,
}
