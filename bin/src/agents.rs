//! `triplane agents`: what can run prompts here, or holds sessions or config that can be read.

use crate::{
    cli::{AgentsArgs, PlaneFlags, ServeFlags},
    exit::{CommandError, Exit},
    home, plain,
    prompt::json_line,
    settings::{Place, resolve},
};
use serde_json::json;
use std::io::Write;
use triplane_core::agent::{self, Capabilities, Descriptor};

/// Lists the agents of this build.
pub(crate) async fn run(args: AgentsArgs) -> Result<Exit, CommandError> {
    let printing = || CommandError::io("printing");
    let settings = resolve(Place::here()?, PlaneFlags::default(), ServeFlags::default())?;
    let mut stdout = anstream::stdout();
    let agents = home::agents(&settings)?;
    agent::learn(&agents).await;
    for agent in agents {
        let (descriptor, model) = (agent.descriptor(), agent.default_model());
        agent.close().await;
        if args.json {
            json_line(&row(&descriptor, &model)).map_err(printing())?;
        } else {
            let state = if descriptor.installed { "installed" } else { "not installed" };
            let (id, can) = (plain::line(&descriptor.id), verbs(descriptor.can).join(", "));
            writeln!(stdout, "{id:<16} {state:<14} {can:<28} {}", plain::line(&model)).map_err(printing())?;
        }
    }
    Ok(Exit::Done)
}

fn row(descriptor: &Descriptor, model: &str) -> serde_json::Value {
    let Descriptor { id, name, version, installed, can, models, modes } = descriptor;
    json!({
        "id": id, "name": name, "version": version, "installed": installed, "can": verbs(*can),
        "model": model, "models": models, "modes": modes,
    })
}

fn verbs(can: Capabilities) -> Vec<&'static str> {
    let Capabilities { prompt, read, write, delete, config } = can;
    let all = [(prompt, "prompt"), (read, "read"), (write, "write"), (delete, "delete"), (config, "config")];
    all.into_iter().filter_map(|(able, verb)| able.then_some(verb)).collect()
}
