//! Opening the plane of a command: which agents this build has, and where things live.

use crate::{exit::CommandError, settings::Settings};
use std::sync::Arc;
use triplane_core::{Plane, agent::Agent};
use triplane_native::{NativeAgent, NativeConfig};
use triplane_protocol::larik::{Provider, Sandbox};

/// The agents of this build, the preferred one first.
pub(crate) fn agents() -> Vec<Arc<dyn Agent>> {
    let shim = std::env::current_exe();
    if let Err(error) = &shim {
        tracing::warn!("{error}: this program's path is not known, so commands may outlive it when it is killed");
    }
    vec![Arc::new(NativeAgent::new(NativeConfig { shim: shim.ok(), ..NativeConfig::default() }))]
}

/// Opens the plane that `settings` ask for. Starts no agent. Errors: a directory that cannot be made or is not ours.
pub(crate) fn open(settings: &Settings) -> Result<Plane, CommandError> {
    Ok(Plane::open(settings.plane_config(), agents())?)
}

/// Model providers that this build can ask.
pub(crate) fn providers() -> Vec<Provider> {
    vec![Provider { name: "script".into(), models: vec!["script/echo".into()] }]
}

/// How commands of the built-in agent are kept in.
pub(crate) fn sandbox() -> Sandbox {
    Sandbox { kind: "none".into(), enforced: false }
}
