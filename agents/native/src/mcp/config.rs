//! Which MCP servers there are: as settings give them, and as a project's `.mcp.json` does.
//! Invariant: nothing is expanded, started or asked here; a variable's value never enters a definition, so what is approved,
//! listed and compared is what stands in the file.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// The file in a project that names servers, in the form that many agents share.
pub const PROJECT_FILE: &str = ".mcp.json";

/// A larger one is a mistake.
const FILE_BYTES: u64 = 1 << 20;

/// Servers of one file at most.
const SERVERS: usize = 64;

/// The longest name of a server; with a tool's name it must fit what models take.
const NAME_BYTES: usize = 32;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Its name, as in `mcp__name__tool`.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// How long a start may take, with all that it downloads.
    pub start_timeout: Duration,
    /// How long nothing may come of a call; progress counts.
    pub call_timeout: Duration,
    /// How long a call may take in all.
    pub max_call: Duration,
    /// Tools that only look, by the server's own names; they do not ask. Never from a project.
    pub read_only: Vec<String>,
}

/// How a server is reached. Values may hold `${NAME}` and `${NAME:-default}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program that is started, and spoken to over its standard streams.
    Stdio {
        /// A path, or a name in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that it sees besides the basic ones.
        env: BTreeMap<String, String>,
        /// Its directory, absolute.
        cwd: PathBuf,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Sent with every request.
        headers: BTreeMap<String, String>,
    },
}

impl McpServer {
    /// A server with the usual time limits. Errors: the name.
    pub fn new(name: &str, reach: Reach) -> Result<Self, String> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if name.is_empty() || name.len() > NAME_BYTES || !plain || name.contains("__") {
            let bound = format!("at most {NAME_BYTES} letters, digits, `-` and single `_`");
            return Err(format!("the name `{}` must have {bound}", shown(name)));
        }
        Ok(Self {
            name: name.to_owned(),
            reach,
            start_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(120),
            max_call: Duration::from_secs(3600),
            read_only: Vec::new(),
        })
    }

    /// What a person approves: all that decides what is started and where it is connected, as it stands in the file.
    pub fn definition(&self) -> String {
        let value = match &self.reach {
            Reach::Stdio { command, args, env, cwd } => {
                json!({ "command": command, "args": args, "env": env, "cwd": cwd.to_string_lossy() })
            }
            Reach::Http { url, headers } => json!({ "url": url, "headers": headers }),
        };
        value.to_string()
    }

    /// How it is reached, on one line for people.
    pub fn line(&self) -> String {
        let line = match &self.reach {
            Reach::Stdio { command, args, .. } => {
                let words: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
                words.join(" ")
            }
            Reach::Http { url, .. } => url.clone(),
        };
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// One server of `.mcp.json`. Members that others know and this does not are skipped.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Reads the `.mcp.json` of `project`; one that is not there names nothing. What is wrong comes in the second list, a line each:
/// one bad entry costs itself only.
pub fn read_project(project: &Path) -> (Vec<McpServer>, Vec<String>) {
    let file = project.join(PROJECT_FILE);
    let told = |what: &str| vec![format!("{}: {what}", file.display())];
    let text = match std::fs::metadata(&file) {
        Err(_) => return (Vec::new(), Vec::new()),
        Ok(meta) if !meta.is_file() || meta.len() > FILE_BYTES => {
            return (Vec::new(), told("not a file of at most 1 MiB"));
        }
        Ok(_) => match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(err) => return (Vec::new(), told(&err.to_string())),
        },
    };
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "mcpServers", default)]
        servers: Map<String, Value>,
    }
    let entries = match serde_json::from_str::<File>(&text) {
        Ok(read) => read.servers,
        Err(err) => return (Vec::new(), told(&err.to_string())),
    };
    let (mut servers, mut wrong) = (Vec::new(), Vec::new());
    for (name, value) in entries.into_iter().take(SERVERS) {
        match entry(&name, value, project) {
            Ok(server) => servers.push(server),
            Err(why) => wrong.extend(told(&format!("{}: {why}", shown(&name)))),
        }
    }
    (servers, wrong)
}

fn entry(name: &str, value: Value, project: &Path) -> Result<McpServer, String> {
    let entry: Entry = serde_json::from_value(value).map_err(|err| err.to_string())?;
    let reach = match (entry.kind.as_deref(), entry.command, entry.url) {
        (None | Some("stdio"), Some(command), None) => {
            Reach::Stdio { command, args: entry.args, env: entry.env, cwd: project.to_owned() }
        }
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
            Reach::Http { url, headers: entry.headers }
        }
        (Some("sse"), _, _) => {
            return Err("the transport `sse` was replaced by streamable HTTP; use type `http`".into());
        }
        _ => return Err("must have `command` (type `stdio`) or `url` (type `http`), not both".into()),
    };
    McpServer::new(name, reach)
}

/// Puts values in the place of `${NAME}` and `${NAME:-default}`. Errors: a variable that is not set and has no default.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((inner, after)) = behind.split_once('}') else { break };
        let (name, default) = inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
        let value = variable(name).or_else(|| default.map(str::to_owned));
        out.push_str(before);
        out.push_str(&value.ok_or_else(|| format!("the variable `{}` is not set", shown(name)))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A foreign text inside a line of ours.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_defaults_are_put_in() {
        let variable = |name: &str| (name == "A").then(|| "1".to_owned());
        let rows = [("${A}b", "1b"), ("x${A}${A}", "x11"), ("${B:-}|${B:-c}", "|c"), ("$A ${A", "$A ${A"), ("", "")];
        for (text, expected) in rows {
            assert_eq!(expand(text, &variable).unwrap(), expected);
        }
        assert_eq!(expand("${B}", &variable).unwrap_err(), "the variable `B` is not set");
    }

    #[test]
    fn a_bad_entry_costs_itself_only() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "args": ["${Y}"], "disabled": false}, "b": {"type": "http", "url": "http://h"},
            "c": {"type": "sse", "url": "u"}, "d": {}, "e": {"command": 1}, "f__g": {"command": "x"}, "i\n j": {"command": "x"}}}"#;
        std::fs::write(dir.path().join(PROJECT_FILE), text).unwrap();
        let (servers, wrong) = read_project(dir.path());
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!((names, wrong.len()), (vec!["a", "b"], 5), "{wrong:?}");
        assert!(servers[0].definition().contains("${Y}") && servers[0].line() == "x ${Y}");
        assert!(wrong.iter().all(|line| !line.contains('\n')), "{wrong:?}");
        std::fs::write(dir.path().join(PROJECT_FILE), "[").unwrap();
        assert_eq!(read_project(dir.path()).1.len(), 1);
        assert_eq!(read_project(&dir.path().join("none")), (vec![], vec![]));
    }
}
