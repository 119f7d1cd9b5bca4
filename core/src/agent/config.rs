//! Config that another program keeps in its own format. Clauses: S19, S20, S28.

use super::StoreFailure;
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use triplane_protocol::config::{AgentConfig, ConfigAction};

/// The config of one agent, in its own files.
#[async_trait]
pub trait ConfigStore: Send + Sync {
    /// The root that is meant when none is given.
    fn root(&self) -> PathBuf;

    /// Everything under `root` that this version understands. Errors: `Invalid`, `Unavailable`.
    async fn read(&self, root: &Path) -> Result<AgentConfig, StoreFailure>;

    /// Installs items, one action each in their order; deletes nothing, touches nothing outside `root`, keeps what it does not
    /// understand. `dry`: tells the actions only. Errors: `Invalid`, `Unavailable`.
    async fn write(&self, root: &Path, config: &AgentConfig, dry: bool) -> Result<Vec<ConfigAction>, StoreFailure>;
}
