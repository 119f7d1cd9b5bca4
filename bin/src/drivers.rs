//! Driver processes: where they are looked for, and how they are started. Clause: S31.

use crate::{homes::Homes, settings::Settings};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};
use triplane_core::agent::{Agent, NoAgent};
use triplane_driver::{DriverAgent, Launch, Limits, discover};

/// The directory of drivers; ours first.
const VARIABLES: &[&str] = &["TRIPLANE_DRIVER_DIR", "SEPIA_DRIVER_DIR"];

/// A driver a name, in the directory that is set and then on the path; none of a name in `taken`. Starts none.
pub(crate) fn agents(
    settings: &Settings,
    homes: &Homes<'_>,
    shim: Option<&Path>,
    taken: &[String],
) -> Vec<Arc<dyn Agent>> {
    let cwd = settings.place.cwd.clone();
    let own = homes.first(VARIABLES).map(|dir| cwd.join(dir));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = own.into_iter().chain(std::env::split_paths(&path)).collect();
    let launch = Launch { cwd, prefix: shim.map(prefix).unwrap_or_default(), limits: Limits::default() };
    let free = |name: &str| {
        let free = name != NoAgent::NAME && !taken.iter().any(|taken| taken == name);
        if !free {
            tracing::warn!("driver `{name}` is left out: an agent of this name is built in");
        }
        free
    };
    discover(&dirs)
        .into_iter()
        .filter(|found| free(&found.name))
        .map(|found| Arc::new(DriverAgent::new(found, launch.clone())) as Arc<dyn Agent>)
        .collect()
}

/// The shim that asks for a signal at our death and then becomes the driver.
fn prefix(shim: &Path) -> Vec<OsString> {
    use triplane_native::shim::{ARG, EXEC};
    vec![shim.into(), ARG.into(), EXEC.into(), std::process::id().to_string().into()]
}
