//! A driver's sessions and its config, as stores of the plane.

use crate::supervisor::Supervisor;
use async_trait::async_trait;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use triplane_core::agent::{ConfigStore, Saved, SessionStore, StoreFailure, StoreRow};
use triplane_protocol::{
    ErrorCode, Session, SessionId,
    config::{AgentConfig, ConfigAction},
    driver::{
        DeleteSession, ListSessions, LoadSession, Named, Nothing, ReadConfig, ReadConfigParams, Row, Save, SaveSession,
        WriteConfig, WriteConfigParams,
    },
};

/// The sessions that a driver keeps.
#[derive(Debug)]
pub(crate) struct Sessions(pub(crate) Arc<Supervisor>);

#[async_trait]
impl SessionStore for Sessions {
    async fn list(&self) -> Result<Vec<StoreRow>, StoreFailure> {
        let listed = self.0.call::<ListSessions>(&Nothing {}).await?;
        let row =
            |Row { id, cwd, title, model, created, updated }| StoreRow { id, cwd, title, model, created, updated };
        Ok(listed.sessions.into_iter().map(row).collect())
    }

    async fn load(&self, id: &SessionId) -> Result<Session, StoreFailure> {
        Ok(self.0.call::<LoadSession>(&Named { id: id.clone() }).await?.session)
    }

    async fn save(&self, session: &Session, id: Option<&SessionId>) -> Result<Saved, StoreFailure> {
        let saved = self.0.call::<SaveSession>(&Save { session: session.clone(), id: id.cloned() }).await?;
        Ok(Saved { id: saved.id, lost: saved.lost })
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreFailure> {
        self.0.call::<DeleteSession>(&Named { id: id.clone() }).await.map(drop)
    }
}

/// The config that a driver keeps. Its own default root is known to the driver alone, and is an empty path here.
#[derive(Debug)]
pub(crate) struct Config(pub(crate) Arc<Supervisor>);

#[async_trait]
impl ConfigStore for Config {
    fn root(&self) -> PathBuf {
        PathBuf::new()
    }

    async fn read(&self, root: &Path) -> Result<AgentConfig, StoreFailure> {
        self.0.call::<ReadConfig>(&ReadConfigParams { dir: dir(root) }).await
    }

    async fn write(&self, root: &Path, config: &AgentConfig, dry: bool) -> Result<Vec<ConfigAction>, StoreFailure> {
        let params = WriteConfigParams { dir: dir(root), config: config.clone(), dry };
        let actions = self.0.call::<WriteConfig>(&params).await?.actions;
        if actions.len() != config.items.len() {
            let told = format!("{} actions for {} items", actions.len(), config.items.len());
            return Err(StoreFailure::new(
                ErrorCode::Unavailable,
                "the driver told something else than an action an item",
            )
            .because(told));
        }
        Ok(actions)
    }
}

fn dir(root: &Path) -> Option<String> {
    (!root.as_os_str().is_empty()).then(|| root.to_string_lossy().into_owned())
}
