//! The `triplane` command.
//! Reading order: [`cli`] what can be typed; [`settings`] flags, environment and files in layers; then a module a command.
//! Invariant: results go to stdout, everything else to stderr; with stdio served, stdout is that wire's alone. Clause: C07.

mod agents;
mod cli;
mod config;
mod conformance;
mod drivers;
mod exit;
mod foreign;
mod home;
mod homes;
mod log;
#[cfg(feature = "mcp")]
mod mcp;
mod models;
mod pages;
mod plain;
mod prompt;
mod schema;
mod script_model;
mod serve;
#[cfg(any(feature = "mcp", feature = "lsp"))]
mod servers;
mod sessions;
mod settings;
mod signals;

use cli::Command;
use exit::{CommandError, Exit};
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let mut argv = std::env::args_os();
    if argv.nth(1).is_some_and(|first| first == triplane_native::shim::ARG) {
        return triplane_native::shim::run_shim(argv);
    }
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with code 0, the rest to stderr with code 2. Nobody left to read it is no failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    log::start();
    exit::code(run(cli.command))
}

fn run(command: Command) -> Result<Exit, CommandError> {
    match command {
        Command::Serve(args) => {
            let serving = serve::Serving::settle(args)?;
            let runtime = if serving.is_stdio_alone() { one_thread()? } else { two_workers()? };
            finish(runtime, serve::run(serving))
        }
        Command::Prompt(args) => finish(one_thread()?, prompt::run(args)),
        Command::Sessions(args) => finish(one_thread()?, sessions::run(args)),
        Command::Config(args) => finish(one_thread()?, config::run(args)),
        Command::Agents(args) => finish(one_thread()?, agents::run(args)),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => finish(one_thread()?, mcp::run(args)),
        Command::Schema(args) => schema::run(&args),
        Command::ScriptModel(args) => finish(one_thread()?, script_model::run(args)),
        Command::Conformance(args) => finish(two_workers()?, conformance::run(args)),
    }
}

/// Runs `work`, and does not wait for threads that may be stuck in a system call: all that must be on disk is there by now.
fn finish(runtime: Runtime, work: impl Future<Output = Result<Exit, CommandError>>) -> Result<Exit, CommandError> {
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

fn one_thread() -> Result<Runtime, CommandError> {
    Builder::new_current_thread().enable_all().build().map_err(CommandError::io("starting the runtime"))
}

/// Two workers keep one busy session from delaying the others; more were not measured to help. See `bench/README.md`.
fn two_workers() -> Result<Runtime, CommandError> {
    let built = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(CommandError::io("starting the runtime"))
}
