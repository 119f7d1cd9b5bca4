//! `config.*`: the config that a driver's agent keeps.

use crate::config::AgentConfig;
use serde::{Deserialize, Serialize};

/// Which config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadConfigParams {
    /// The root; the driver's own default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// What to install.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteConfigParams {
    /// The root; the driver's own default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// The items.
    pub config: AgentConfig,
    /// Tell what would be done, and do nothing.
    #[serde(default)]
    pub dry: bool,
}
