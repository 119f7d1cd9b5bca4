//! Opening the plane of a command: which agents this build has, and where things live.

#[cfg(any(feature = "mcp", feature = "lsp"))]
use crate::servers;
use crate::{drivers, exit::CommandError, foreign, homes::Homes, models, models::Known, settings::Settings};
use std::{ffi::OsString, sync::Arc};
use triplane_core::{Plane, agent::Agent};
use triplane_native::{Extensions, Models, NativeAgent, NativeConfig, sandbox::SandboxMode, tools::Helpers};
use triplane_protocol::larik::{Provider, Sandbox};

/// The agents of this build, the preferred one first. Errors: a provider's settings that are wrong.
pub(crate) fn agents(settings: &Settings) -> Result<Vec<Arc<dyn Agent>>, CommandError> {
    agents_with(settings, Helpers::default())
}

fn agents_with(settings: &Settings, helpers: Helpers) -> Result<Vec<Arc<dyn Agent>>, CommandError> {
    let shim = std::env::current_exe();
    if let Err(error) = &shim {
        tracing::warn!("{error}: this program's path is not known, so commands may outlive it when it is killed");
    }
    let Known { models, hidden, .. } = known(settings)?;
    if hidden.iter().any(|name| std::env::var_os(name).is_some()) {
        triplane_native::proc::shut_environment();
    }
    let fallbacks = fallbacks(settings, &models)?;
    let shim = shim.ok();
    let extensions = Extensions::default();
    #[cfg(feature = "mcp")]
    let extensions = extensions.with_mcp(servers::mcp(settings, shim.clone())?);
    #[cfg(feature = "lsp")]
    let extensions = extensions.with_lsp(servers::lsp(settings, shim.clone(), hidden.clone())?);
    let native = NativeAgent::new(NativeConfig {
        models,
        fallbacks,
        hidden,
        shim: shim.clone(),
        extensions,
        sandbox: settings.sandbox_config(),
        user_home: settings.place.user_home.clone(),
        fetch_private: settings.fetch_private(),
        helpers,
    });
    let mut agents: Vec<Arc<dyn Agent>> = vec![Arc::new(native)];
    // Without a home directory there are no settings either, so this stands in for none.
    let user = settings.place.user_home.clone().unwrap_or_else(|| settings.home.clone());
    let homes = Homes::new(user, &variable);
    agents.extend(foreign::agents(settings, &homes, shim.as_deref()));
    let taken: Vec<String> = agents.iter().map(|agent| agent.id()).collect();
    agents.extend(drivers::agents(settings, &homes, shim.as_deref(), &taken));
    Ok(agents)
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Opens the plane that `settings` ask for. Starts no agent. Errors: a directory that cannot be made or is not ours.
pub(crate) fn open(settings: &Settings) -> Result<Plane, CommandError> {
    let helpers = Helpers::default();
    let plane = Plane::open(settings.plane_config(), agents_with(settings, helpers.clone())?)?;
    helpers.live_in(&plane);
    Ok(plane)
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

/// How commands of the built-in agent are kept in: by the system's means, unless they are turned off or not there.
pub(crate) fn sandbox(settings: &Settings) -> Sandbox {
    let none = || Sandbox { kind: "none".into(), enforced: false };
    if settings.sandbox_config().mode == Some(SandboxMode::Off) {
        return none();
    }
    match triplane_native::sandbox::available() {
        Ok(kind) => Sandbox { kind: kind.into(), enforced: true },
        Err(why) => {
            tracing::warn!("commands are not kept in: {why}");
            none()
        }
    }
}
