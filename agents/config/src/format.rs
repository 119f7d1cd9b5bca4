//! Which files each agent's config has: one row an agent. A row was measured with the real agent, or says so where it was only
//! read about. To add an agent, add a row.

use triplane_protocol::config::ConfigKind::{self, *};

/// The config of one agent, as data.
#[derive(Debug)]
pub struct Format {
    /// The agent.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Its folder in a project; a root of this name is that folder, any other the project itself.
    pub folder: &'static str,
    /// Files of a project, relative to it.
    pub(crate) project: &'static [Place],
    /// Files of a user, relative to the agent's own home folder.
    pub(crate) user: &'static [Place],
    /// Whether the project is meant when no root is given, not the user.
    pub at_project: bool,
    /// How a command names its arguments.
    pub(crate) arguments: &'static str,
}

/// One place that items of a kind are in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) kind: ConfigKind,
    /// Relative to the root.
    pub(crate) path: &'static str,
    pub(crate) shape: Shape,
}

/// How items lie in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One file, one item, all of it text.
    Text,
    /// A folder with a file an item, markdown with front matter; the extension.
    Files(&'static str),
    /// A folder with a TOML file an item, whose `prompt` is the body.
    Prompts,
    /// A folder with a folder an item, that has this file and others beside it.
    Folders(&'static str),
    /// A member of a JSON or TOML file with a member an MCP server.
    Servers(&'static str, Style),
    /// A member of a JSON file with a member a hook event.
    Hooks(&'static str),
    /// Every other member at the top of a JSON or TOML file.
    Settings(&'static [&'static str]),
}

/// How an agent writes an MCP server down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `{command, args, env}` or `{type: http | sse, url, headers}`.
    Common,
    /// The same with `httpUrl` for streaming HTTP and a bare `url` for SSE.
    HttpUrl,
    /// `{type: local, command: [..], environment}` or `{type: remote, url, headers}`.
    Opencode,
    /// `{command, args, env}` or `{url, http_headers}`.
    Codex,
}

const fn at(kind: ConfigKind, path: &'static str, shape: Shape) -> Place {
    Place { kind, path, shape }
}

const fn text(path: &'static str) -> Place {
    at(Instructions, path, Shape::Text)
}

const fn skills(path: &'static str) -> Place {
    at(Skill, path, Shape::Folders("SKILL.md"))
}

const fn servers(path: &'static str, style: Style) -> Place {
    at(McpServer, path, Shape::Servers("mcpServers", style))
}

const SHARED_SKILLS: Place = skills(".agents/skills");
const AGENTS_MD: Place = text("AGENTS.md");
const MD: Shape = Shape::Files("md");

/// Members of a settings file that are items of their own kinds.
const SERVERS_AND_HOOKS: Shape = Shape::Settings(&["mcpServers", "hooks", "$schema"]);

/// Every agent whose config is known. The first place of a kind is where new items go.
pub const FORMATS: &[Format] = &[
    Format {
        id: "claude",
        name: "Claude Code",
        folder: ".claude",
        project: &[
            text("CLAUDE.md"),
            text(".claude/CLAUDE.md"),
            text("CLAUDE.local.md"),
            at(Rule, ".claude/rules", MD),
            at(Command, ".claude/commands", MD),
            skills(".claude/skills"),
            at(Subagent, ".claude/agents", MD),
            servers(".mcp.json", Style::Common),
            at(Hook, ".claude/settings.json", Shape::Hooks("hooks")),
            at(Setting, ".claude/settings.json", SERVERS_AND_HOOKS),
        ],
        user: &[
            text("CLAUDE.md"),
            at(Rule, "rules", MD),
            at(Command, "commands", MD),
            skills("skills"),
            at(Subagent, "agents", MD),
            at(Hook, "settings.json", Shape::Hooks("hooks")),
            at(Setting, "settings.json", SERVERS_AND_HOOKS),
        ],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    Format {
        id: "codex",
        name: "Codex",
        folder: ".codex",
        project: &[
            AGENTS_MD,
            SHARED_SKILLS,
            skills(".codex/skills"),
            at(McpServer, ".codex/config.toml", Shape::Servers("mcp_servers", Style::Codex)),
            at(Setting, ".codex/config.toml", Shape::Settings(&["mcp_servers"])),
        ],
        user: &[
            AGENTS_MD,
            skills("skills"),
            at(McpServer, "config.toml", Shape::Servers("mcp_servers", Style::Codex)),
            at(Setting, "config.toml", Shape::Settings(&["mcp_servers"])),
        ],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    Format {
        id: "opencode",
        name: "opencode",
        folder: ".opencode",
        project: &[
            AGENTS_MD,
            at(Command, ".opencode/command", MD),
            at(Command, ".opencode/commands", MD),
            skills(".opencode/skill"),
            skills(".opencode/skills"),
            at(Subagent, ".opencode/agent", MD),
            at(Subagent, ".opencode/agents", MD),
            at(McpServer, "opencode.json", Shape::Servers("mcp", Style::Opencode)),
            at(McpServer, "opencode.jsonc", Shape::Servers("mcp", Style::Opencode)),
            at(Setting, "opencode.json", Shape::Settings(&["mcp", "$schema"])),
            at(Setting, "opencode.jsonc", Shape::Settings(&["mcp", "$schema"])),
        ],
        user: &[
            AGENTS_MD,
            at(Command, "command", MD),
            at(Command, "commands", MD),
            skills("skills"),
            skills("skill"),
            at(Subagent, "agent", MD),
            at(Subagent, "agents", MD),
            at(McpServer, "opencode.json", Shape::Servers("mcp", Style::Opencode)),
            at(McpServer, "opencode.jsonc", Shape::Servers("mcp", Style::Opencode)),
            at(Setting, "opencode.json", Shape::Settings(&["mcp", "$schema"])),
            at(Setting, "opencode.jsonc", Shape::Settings(&["mcp", "$schema"])),
        ],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    Format {
        id: "gemini",
        name: "Gemini CLI",
        folder: ".gemini",
        project: &[
            text("GEMINI.md"),
            at(Command, ".gemini/commands", Shape::Prompts),
            skills(".gemini/skills"),
            SHARED_SKILLS,
            servers(".gemini/settings.json", Style::HttpUrl),
            at(Hook, ".gemini/settings.json", Shape::Hooks("hooks")),
            at(Setting, ".gemini/settings.json", SERVERS_AND_HOOKS),
        ],
        user: &[
            text("GEMINI.md"),
            at(Command, "commands", Shape::Prompts),
            skills("skills"),
            servers("settings.json", Style::HttpUrl),
            at(Hook, "settings.json", Shape::Hooks("hooks")),
            at(Setting, "settings.json", SERVERS_AND_HOOKS),
        ],
        at_project: false,
        arguments: "{{args}}",
    },
    Format {
        id: "qwen",
        name: "Qwen Code",
        folder: ".qwen",
        project: &[
            text("QWEN.md"),
            AGENTS_MD,
            at(Command, ".qwen/commands", MD),
            skills(".qwen/skills"),
            SHARED_SKILLS,
            at(Subagent, ".qwen/agents", MD),
            servers(".qwen/settings.json", Style::HttpUrl),
            at(Hook, ".qwen/settings.json", Shape::Hooks("hooks")),
            at(Setting, ".qwen/settings.json", SERVERS_AND_HOOKS),
        ],
        user: &[
            text("QWEN.md"),
            at(Command, "commands", MD),
            skills("skills"),
            at(Subagent, "agents", MD),
            servers("settings.json", Style::HttpUrl),
            at(Hook, "settings.json", Shape::Hooks("hooks")),
            at(Setting, "settings.json", SERVERS_AND_HOOKS),
        ],
        at_project: false,
        arguments: "{{args}}",
    },
    Format {
        id: "kimi",
        name: "Kimi Code",
        folder: ".kimi-code",
        project: &[AGENTS_MD, skills(".kimi-code/skills"), SHARED_SKILLS, at(Subagent, ".kimi-code/agents", MD)],
        user: &[AGENTS_MD, skills("skills")],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    // Its default root is the workspace, as the document of the stdio wire says. MCP servers of the user are only read about.
    Format {
        id: "cline",
        name: "Cline",
        folder: ".clinerules",
        project: &[
            AGENTS_MD,
            text(".clinerules"),
            at(Rule, ".clinerules", MD),
            at(Command, ".clinerules/workflows", MD),
        ],
        user: &[servers("data/settings/cline_mcp_settings.json", Style::Common)],
        at_project: true,
        arguments: "$ARGUMENTS",
    },
    // Only read about, as it needs a login.
    Format {
        id: "cursor",
        name: "Cursor",
        folder: ".cursor",
        project: &[
            AGENTS_MD,
            text(".cursorrules"),
            at(Rule, ".cursor/rules", Shape::Files("mdc")),
            at(Command, ".cursor/commands", MD),
            servers(".cursor/mcp.json", Style::Common),
            at(Hook, ".cursor/hooks.json", Shape::Hooks("hooks")),
        ],
        user: &[
            at(Command, "commands", MD),
            servers("mcp.json", Style::Common),
            at(Hook, "hooks.json", Shape::Hooks("hooks")),
        ],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    // Only read about, as it needs a login.
    Format {
        id: "devin",
        name: "Devin",
        folder: ".devin",
        project: &[
            AGENTS_MD,
            skills(".devin/skills"),
            at(Subagent, ".devin/agents", Shape::Folders("AGENT.md")),
            at(Hook, ".devin/hooks.v1.json", Shape::Hooks("hooks")),
            servers(".devin/config.json", Style::Common),
            at(Setting, ".devin/config.json", SERVERS_AND_HOOKS),
        ],
        user: &[AGENTS_MD, servers("config.json", Style::Common), at(Setting, "config.json", SERVERS_AND_HOOKS)],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
    Format {
        id: "vibe",
        name: "Mistral Vibe",
        folder: ".vibe",
        project: &[AGENTS_MD, skills(".vibe/skills"), SHARED_SKILLS],
        user: &[AGENTS_MD, skills("skills")],
        at_project: false,
        arguments: "$ARGUMENTS",
    },
];

impl Format {
    /// The row of an agent.
    pub fn of(id: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_plain_and_agents_are_named_once() {
        for (index, format) in FORMATS.iter().enumerate() {
            assert_eq!(FORMATS.iter().position(|other| other.id == format.id), Some(index));
            for place in format.project.iter().chain(format.user) {
                let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
                assert!(place.path.split('/').all(plain), "{}: {}", format.id, place.path);
            }
        }
    }
}
