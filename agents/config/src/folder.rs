//! The config of one agent in its own files: which layout a root has, and the calls of the plane.

use crate::{
    format::{Format, Place},
    read::{self, under},
    root::Root,
    write,
};
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;
use triplane_core::agent::{ConfigStore, StoreFailure};
use triplane_protocol::{
    ErrorCode,
    config::{AgentConfig, ConfigAction, ConfigKind, ConfigScope},
};

/// The config of one agent.
#[derive(Debug)]
pub struct FolderConfig {
    format: &'static Format,
    user: PathBuf,
    cwd: PathBuf,
    /// One import at a time: each reads, then writes.
    writing: Mutex<()>,
}

/// Where the items of one root are.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) scope: ConfigScope,
    pub(crate) places: Vec<Place>,
}

impl Layout {
    /// The kind that a folder is the place of.
    pub(crate) fn owner(&self, path: &str) -> Option<ConfigKind> {
        self.places.iter().find(|place| place.path == path).map(|place| place.kind)
    }
}

impl FolderConfig {
    /// The config of the agent of `format`. `user`: its own home folder (`~/.claude`); `cwd`: where this process works.
    pub fn new(format: &'static Format, user: PathBuf, cwd: PathBuf) -> Self {
        Self { format, user, cwd, writing: Mutex::default() }
    }

    /// The user's own folder, the agent's folder in a project, or a project.
    fn layout(&self, root: &Path) -> Layout {
        let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if whole(root) == whole(&self.user) {
            return Layout { scope: ConfigScope::User, places: self.format.user.to_vec() };
        }
        let project = self.format.project.iter().copied();
        let places = if root.file_name().is_some_and(|name| name == self.format.folder) {
            let inside = |place: Place| {
                let rest = place.path.strip_prefix(self.format.folder)?;
                let path = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
                Some(Place { path, ..place })
            };
            project.filter_map(inside).collect()
        } else {
            project.collect()
        };
        Layout { scope: ConfigScope::Project, places }
    }

    fn open(&self, root: &Path) -> (Root, Layout) {
        let layout = self.layout(root);
        (Root::new(root, layout.scope == ConfigScope::User), layout)
    }
}

#[async_trait]
impl ConfigStore for FolderConfig {
    fn root(&self) -> PathBuf {
        if self.format.at_project { self.cwd.clone() } else { self.user.clone() }
    }

    async fn read(&self, root: &Path) -> Result<AgentConfig, StoreFailure> {
        let (files, layout) = self.open(root);
        let items = blocking(move || read::read(&files, &layout)).await?;
        let items = items.map_err(|why| StoreFailure::new(ErrorCode::Invalid, why))?;
        Ok(AgentConfig { agent: self.format.id.into(), dir: root.to_string_lossy().into(), items })
    }

    async fn write(&self, root: &Path, config: &AgentConfig, dry: bool) -> Result<Vec<ConfigAction>, StoreFailure> {
        let _turn = self.writing.lock().await;
        let (files, layout) = self.open(root);
        let (format, config) = (self.format, config.clone());
        blocking(move || write::write(&files, &layout, format, &config, dry)).await
    }
}

/// Runs `work` where it may block. A caller that goes away does not stop it half-way.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreFailure> {
    let failed = |error| StoreFailure::new(ErrorCode::Internal, format!("the work on config files broke: {error}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// Why `name` cannot be a file or a folder below `folder`, if it cannot.
pub(crate) fn check_path(name: &str, nested: bool) -> Result<(), String> {
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > if nested { 6 } else { 1 } {
        return Err("its name has too many `/`".into());
    }
    let plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.len() <= 200
            && !part.chars().any(|c| c.is_control() || c == '\\')
    };
    if parts.iter().all(plain) { Ok(()) } else { Err("its name cannot be a file's".into()) }
}

/// A path of an item, for an action that changed nothing.
pub(crate) fn shown(root: &Root, path: &str) -> String {
    root.path(&under("", path)).to_string_lossy().into_owned()
}
