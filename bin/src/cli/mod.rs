//! What can be typed: the commands, their flags and their help. Parses, decides nothing.
//! Invariant: a flag that a settings file may give is an `Option` here (or an empty list), so that its absence can be told.

mod conformance;
mod flags;
mod parse;

pub(crate) use conformance::{ConformanceArgs, ReportKind};
#[cfg(test)]
pub(crate) use flags::DurabilityFlag;
pub(crate) use flags::{Disconnect, PlaneFlags, SandboxFlag, ServeFlags, Transport};
pub(crate) use parse::parse;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use triplane_protocol::SessionId;

const EXIT_CODES: &str = "\
Exit codes:
  0    done; for `prompt`: the run ended with `completed`; for `serve`: an orderly shutdown
  1    the run or the command failed
  2    a flag, an environment variable or a settings file is wrong
  130  cancelled by Ctrl-C (143: ended by a second SIGTERM)

Settings come from flags, then the environment, then `triplane.toml` in the current directory, then
`triplane.toml` in $TRIPLANE_HOME. A key there is a flag's name with `_` for `-`.
Logs go to stderr; $TRIPLANE_LOG (or $RUST_LOG) says how much, as in `info` or `triplane_core=debug`.";

const SERVE_EXAMPLES: &str = "\
Examples:
  triplane serve --transport http
      HTTP and SSE on 127.0.0.1:4096; prints {\"url\",\"token\"} once it listens
  triplane serve --transport ws --port 0
      WebSocket JSON-RPC on a free port; prints {\"port\",\"token\"}
  triplane serve --transport stdio
      one JSON object a line on stdin and stdout
  triplane serve --transport ws,http --session-dir /srv/sessions
      both wires on one set of sessions
  TRIPLANE_TOKEN=$(cat token) triplane serve --transport http --addr 127.0.0.1:0
      a token of your own, out of the process list";

const PROMPT_EXAMPLES: &str = "\
Examples:
  triplane prompt \"what is in this directory?\"
  triplane prompt --mode plan \"how would you split src/main.rs?\"
  git diff | triplane prompt -
      the prompt comes from stdin; then nobody can be asked, so tools that ask are refused
  triplane prompt --json \"hello\" | grep '\"final\"'
      one event a line
  triplane prompt '/say hello'
      the built-in model script/echo: plain text is echoed, a line with `/` is a directive

The reply goes to stdout, everything else to stderr. Ctrl-C cancels the run; twice ends the program.
Exit code 0 only if the run ended with `completed`.";

const SCRIPT_MODEL_EXAMPLES: &str = "\
Prints {\"url\",\"port\"} once it listens. The last user message is the script: plain text is echoed, a line with `/` is a
directive: /say, /think, /repeat N, /tool NAME JSON, /also NAME JSON, /sleep MS, /fail 429 2, /fail broken.
GET /requests shows what was asked and how it ended.

Examples:
  triplane script-model --port 4100
  OPENAI_BASE_URL=http://127.0.0.1:4100/v1 triplane prompt --model openai/echo '/say hello'
  ANTHROPIC_BASE_URL=http://127.0.0.1:4100 ANTHROPIC_API_KEY=x triplane prompt --model anthropic/echo hello
  curl -N http://127.0.0.1:4100/v1/chat/completions \\
      -d '{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"/tool ls\"}]}'";

#[cfg(feature = "mcp")]
const MCP_EXAMPLES: &str = "\
Servers come from [mcp.NAME] in triplane.toml of the home (yours) or of the project, and from the project's .mcp.json.
One that the project names is started only after it was approved, and again after its definition changed.

Examples:
  triplane mcp list --check
  triplane mcp approve github";

const CONFIG_EXAMPLES: &str = "\
Examples:
  triplane config list --dir .
      what each agent would find in this project
  triplane config show claude --dir . --json
      the items with their files, as data
  triplane config copy --from claude --to codex --dir . --dry-run
      what would become of them for Codex; without --dry-run it is done

Exit code 1 when something could not be read, or no item could be copied.";

/// A session plane for coding agents: many sessions, three wires (WebSocket, HTTP + SSE, stdio).
#[derive(Debug, Parser)]
#[command(name = "triplane", version, after_help = EXIT_CODES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves sessions over one or more wires until SIGINT or SIGTERM
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Runs one prompt in the current directory and streams it to the terminal
    #[command(after_help = PROMPT_EXAMPLES)]
    Prompt(PromptArgs),
    /// Lists, shows, moves and deletes stored sessions
    Sessions(SessionsArgs),
    /// Counts, shows and copies the config of agents: instructions, rules, commands, skills, MCP servers
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(ConfigArgs),
    /// Lists the agents that can be used
    Agents(AgentsArgs),
    /// Lists this directory's MCP servers, and approves those that the project names
    #[cfg(feature = "mcp")]
    #[command(after_help = MCP_EXAMPLES)]
    Mcp(McpArgs),
    /// Writes the wires' documents: JSON Schema, OpenRPC, OpenAPI
    Schema(SchemaArgs),
    /// Serves the scripted model on loopback, as OpenAI, Anthropic, Gemini and Ollama do, until SIGINT or SIGTERM
    #[command(after_help = SCRIPT_MODEL_EXAMPLES)]
    ScriptModel(ScriptModelArgs),
    /// Judges a server of a wire, this one or anybody's, clause by clause
    #[command(after_help = conformance::HELP)]
    Conformance(ConformanceArgs),
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) serve: ServeFlags,
    #[command(flatten)]
    pub(crate) plane: PlaneFlags,
}

/// Flags of `prompt`.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// What to say; `-` reads it from stdin
    pub(crate) text: String,
    /// Print every event as one line of JSON instead
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on with this session (an id, the beginning of one, or `latest`) instead of a new one
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) plane: PlaneFlags,
}

/// Flags of `sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

/// What can be done with stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Lists the sessions of this directory, last written first
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// Of every directory and every agent's own store too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Shows one session with its messages
    Show {
        /// Its id, the beginning of one, or `latest`
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        id: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Prints one session as JSON, for `import`
    Export {
        /// Its id
        #[arg(value_parser = session_id)]
        id: SessionId,
        /// The agent that owns it, when several have one of this id
        #[arg(long, value_name = "AGENT")]
        from: Option<String>,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Writes an exported session into an agent's store; prints its id, and on stderr what the store cannot hold
    Import {
        /// The file; `-` reads stdin
        file: PathBuf,
        /// The agent whose store it goes to
        #[arg(long, value_name = "AGENT")]
        to: String,
        /// Its id there [default: a fresh one]
        #[arg(long, value_parser = session_id)]
        id: Option<SessionId>,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Copies a session into another agent's store; prints its id, and on stderr what the store cannot hold
    Convert {
        /// Its id
        #[arg(value_parser = session_id)]
        id: SessionId,
        /// The agent whose store gets the copy
        #[arg(long, value_name = "AGENT")]
        to: String,
        /// The agent that owns it, when several have one of this id
        #[arg(long, value_name = "AGENT")]
        from: Option<String>,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Deletes one session from the store that owns it
    Delete {
        /// Its id
        #[arg(value_parser = session_id)]
        id: SessionId,
        /// The agent that owns it, when several have one of this id
        #[arg(long, value_name = "AGENT")]
        from: Option<String>,
        #[command(flatten)]
        plane: PlaneFlags,
    },
}

fn session_id(text: &str) -> Result<SessionId, &'static str> {
    SessionId::parse(text)
}

/// Flags of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What can be done with the config of agents.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Counts the items of every agent, kind by kind
    List {
        /// Only this agent
        #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        agent: Option<String>,
        /// A project, or an agent's folder in one [default: each agent's own folder in the home directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<String>,
        /// Print one JSON object an agent
        #[arg(long)]
        json: bool,
    },
    /// Shows one agent's config
    Show {
        /// The agent
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        agent: String,
        /// A project, or the agent's folder in one [default: its own folder in the home directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<String>,
        /// Print one JSON object, which `config.import` takes
        #[arg(long)]
        json: bool,
    },
    /// Copies one agent's config to another; deletes nothing, and says what cannot be copied
    Copy {
        /// The agent whose config it is
        #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        from: String,
        /// The agent that gets it
        #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        to: String,
        /// A project [default: each agent's own folder in the home directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<String>,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Print one JSON object an item
        #[arg(long)]
        json: bool,
    },
}

/// Flags of `agents`.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Print one JSON object an agent
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `mcp`.
#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: McpCommand,
}

/// What can be done with MCP servers.
#[cfg(feature = "mcp")]
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Lists the servers and how they stand
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
        /// Start those that may be started, and see what they offer
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Lets a server that the project names be started, as it is defined now
    Approve {
        /// Its name
        name: String,
        #[command(flatten)]
        plane: PlaneFlags,
    },
    /// Takes an approval back
    Revoke {
        /// Its name
        name: String,
        #[command(flatten)]
        plane: PlaneFlags,
    },
}

/// Flags of `schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Where the documents go
    #[arg(long, value_name = "DIR", required_unless_present = "docs")]
    pub(crate) out: Option<PathBuf>,
    /// Where the wires' pages in Markdown go
    #[arg(long, value_name = "DIR")]
    pub(crate) docs: Option<PathBuf>,
    /// Write nothing; fail if a file there differs from what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

/// Flags of `script-model`.
#[derive(Debug, Args)]
pub(crate) struct ScriptModelArgs {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Every flag of `serve` has the environment variable that its name says, so nobody has to look it up.
    #[test]
    fn every_flag_has_its_variable() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for arg in serve.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
            let id = arg.get_id().as_str();
            assert_eq!(arg.get_long(), Some(id.replace('_', "-").as_str()), "{id}");
            let expected = format!("TRIPLANE_{}", id.to_uppercase());
            assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(expected.as_str()), "{id}");
            assert!(arg.get_help().is_some(), "{id} has no help text");
        }
    }

    #[test]
    fn the_help_never_shows_the_token_of_the_environment() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        let token = serve.get_arguments().find(|arg| arg.get_id() == "token").unwrap();
        assert!(token.is_hide_env_values_set());
    }

    #[test]
    fn transports_repeat_and_take_lists() {
        let cli = Cli::try_parse_from(["triplane", "serve", "--transport", "ws,http", "--transport", "stdio"]).unwrap();
        let Command::Serve(args) = cli.command else { panic!("serve was asked for") };
        assert_eq!(args.serve.transport, [Transport::Ws, Transport::Http, Transport::Stdio]);
    }

    #[test]
    fn a_bare_switch_is_true_and_can_be_told_false() {
        let allow = |flag: &str| {
            let cli = Cli::try_parse_from(["triplane", "serve", flag]).unwrap();
            let Command::Serve(args) = cli.command else { panic!("serve was asked for") };
            args.serve.allow_remote
        };
        assert_eq!(allow("--allow-remote"), Some(true));
        assert_eq!(allow("--allow-remote=false"), Some(false));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (args, named) in [
            (&["--port", "70000"][..], "--port"),
            (&["--port=-1"], "--port"),
            (&["--mode", "yolo"], "--mode"),
            (&["--transport", "carrier-pigeon"], "--transport"),
            (&["--max-session-bags", "0"], "--max-session-bags"),
            (&["--token", ""], "--token"),
        ] {
            let argv = ["triplane", "serve"].iter().chain(args.iter());
            let error = Cli::try_parse_from(argv).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
