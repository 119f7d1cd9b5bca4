//! Opening the plane of a command: which agents this build has, and where things live.

use crate::{exit::CommandError, settings::Settings};
use std::sync::Arc;
use triplane_core::{Plane, agent::Agent};

/// The agents of this build, the preferred one first.
pub(crate) fn agents() -> Vec<Arc<dyn Agent>> {
    Vec::new()
}

/// Opens the plane that `settings` ask for. Starts no agent. Errors: a directory that cannot be made or is not ours.
pub(crate) fn open(settings: &Settings) -> Result<Plane, CommandError> {
    Ok(Plane::open(settings.plane_config(), agents())?)
}
