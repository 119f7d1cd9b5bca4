//! Opening the plane of a command: which agents this build has, and where things live.

use crate::{exit::CommandError, models, models::Known, settings::Settings};
use std::sync::Arc;
use triplane_core::{
    Plane,
    agent::{Agent, Parts},
};
use triplane_native::{Models, NativeAgent, NativeConfig};
use triplane_protocol::larik::{Provider, Sandbox};
use triplane_stores::{Kind, Places};

/// The agents of this build, the preferred one first. Errors: a provider's settings that are wrong.
pub(crate) fn agents(settings: &Settings) -> Result<Vec<Arc<dyn Agent>>, CommandError> {
    let shim = std::env::current_exe();
    if let Err(error) = &shim {
        tracing::warn!("{error}: this program's path is not known, so commands may outlive it when it is killed");
    }
    let Known { models, hidden, .. } = known(settings)?;
    let fallbacks = fallbacks(settings, &models)?;
    let native = NativeAgent::new(NativeConfig { models, fallbacks, hidden, shim: shim.ok() });
    let mut agents: Vec<Arc<dyn Agent>> = vec![Arc::new(native)];
    agents.extend(stores(settings));
    Ok(agents)
}

/// Agents whose sessions can be read here, whether or not they are installed. Clause: S06.
fn stores(settings: &Settings) -> Vec<Arc<dyn Agent>> {
    let Some(home) = settings.place.user_home.clone() else { return Vec::new() };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let places = Places { home, variable: &variable };
    let parts = |kind: Kind| -> Arc<dyn Agent> {
        Arc::new(Parts {
            id: kind.id().into(),
            name: kind.name().into(),
            runner: None,
            store: Some((places.store(kind), kind.writes())),
            config: None,
        })
    };
    Kind::all().map(parts).collect()
}

/// Opens the plane that `settings` ask for. Starts no agent. Errors: a directory that cannot be made or is not ours.
pub(crate) fn open(settings: &Settings) -> Result<Plane, CommandError> {
    Ok(Plane::open(settings.plane_config(), agents(settings)?)?)
}

/// Model providers that have what they need to be asked.
pub(crate) fn providers(settings: &Settings) -> Result<Vec<Provider>, CommandError> {
    Ok(known(settings)?.ready)
}

fn known(settings: &Settings) -> Result<Known, CommandError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    models::known(&settings.models, &variable).map_err(CommandError::Usage)
}

/// A fallback that nobody has would be noticed only when it is needed.
fn fallbacks(settings: &Settings, models: &Models) -> Result<Vec<String>, CommandError> {
    let fallbacks = settings.models.models.fallbacks.clone().unwrap_or_default();
    for model in &fallbacks {
        models.find(model).map_err(|why| CommandError::Usage(format!("[models] fallbacks: `{model}`: {why}")))?;
    }
    Ok(fallbacks)
}

/// How commands of the built-in agent are kept in.
pub(crate) fn sandbox() -> Sandbox {
    Sandbox { kind: "none".into(), enforced: false }
}
