//! `triplane script-model`: the scripted model as an endpoint of real providers' dialects, on loopback.

use crate::{
    cli::ScriptModelArgs,
    exit::{CommandError, Exit},
    prompt::json_line,
    signals::Signals,
};
use serde_json::json;
use triplane_endpoint::Endpoint;

/// Serves until a signal. The first line of stdout is `{"url","port"}`, once requests are taken.
pub(crate) async fn run(args: ScriptModelArgs) -> Result<Exit, CommandError> {
    let mut signals = Signals::catch()?;
    let bound = Endpoint::bind(args.port).await;
    let endpoint = bound.map_err(CommandError::io(format!("cannot listen on 127.0.0.1:{}", args.port)))?;
    let ready = json!({ "url": endpoint.url(), "port": endpoint.port() });
    let running = endpoint.start();
    json_line(&ready).map_err(CommandError::io("printing"))?;
    signals.next().await;
    tokio::select! {
        () = running.stop() => Ok(Exit::Done),
        never = signals.exit_at_next() => match never {},
    }
}
