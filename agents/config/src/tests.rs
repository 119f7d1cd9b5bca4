//! Whole folders: read, imported, copied from agent to agent, and attacked.

use crate::{FORMATS, FolderConfig, Format};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::{fs, os::unix::fs::symlink, path::Path};
use triplane_core::agent::ConfigStore;
use triplane_protocol::config::{AgentConfig, ConfigAction, ConfigItem, ConfigKind, ConfigScope, ConfigVerb};

struct Fixture {
    dir: tempfile::TempDir,
    config: FolderConfig,
}

impl Fixture {
    /// An agent whose user folder is `user` and whose project is `project`.
    fn new(agent: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["user", "project"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let format = Format::of(agent).unwrap();
        let config = FolderConfig::new(format, dir.path().join("user"), dir.path().join("project"));
        Self { dir, config }
    }

    fn put(&self, path: &str, text: &str) -> &Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).unwrap_or_default()
    }

    fn read(&self, root: &str) -> Result<AgentConfig, String> {
        block(self.config.read(&self.dir.path().join(root))).map_err(|failure| failure.message)
    }

    fn write(&self, root: &str, config: &AgentConfig, dry: bool) -> Vec<ConfigAction> {
        block(self.config.write(&self.dir.path().join(root), config, dry)).unwrap()
    }

    /// Kind, name and meta of what is there.
    fn told(&self, root: &str) -> Vec<(ConfigKind, String, Value, String)> {
        let told = |item: ConfigItem| (item.kind, item.name, Value::Object(item.meta), item.body);
        self.read(root).unwrap().items.into_iter().map(told).collect()
    }
}

fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn item(kind: ConfigKind, name: &str, meta: Value, body: &str) -> ConfigItem {
    let Value::Object(meta) = meta else { panic!("meta is an object") };
    ConfigItem { kind, name: name.into(), scope: ConfigScope::Project, path: String::new(), meta, body: body.into() }
}

fn config(agent: &str, items: Vec<ConfigItem>) -> AgentConfig {
    AgentConfig { agent: agent.into(), dir: String::new(), items }
}

fn verbs(actions: &[ConfigAction]) -> Vec<ConfigVerb> {
    actions.iter().map(|action| action.action).collect()
}

fn files(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.is_symlink() {
            found.extend(files(&entry));
        } else {
            found.push((entry.to_string_lossy().into_owned(), fs::read_to_string(&entry).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_claude_project_is_read_whole() {
    let on = Fixture::new("claude");
    on.put("project/CLAUDE.md", "be kind\n")
        .put("project/CLAUDE.local.md", "mine")
        .put("project/.claude/rules/web/css.md", "---\npaths: [\"*.css\"]\n---\nno floats")
        .put("project/.claude/commands/git/commit.md", "---\ndescription: Commits\n---\n$ARGUMENTS")
        .put("project/.claude/agents/critic.md", "---\nname: critic\nmodel: opus\n---\nbe hard")
        .put("project/.claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads\n---\nsteps")
        .put("project/.claude/skills/pdf/scripts/x.py", "print()")
        .put("project/.claude/skills/empty/notes.txt", "no skill")
        .put("project/.mcp.json", r#"{"mcpServers": {"db": {"command": "db", "args": ["--ro"]}}}"#)
        .put(
            "project/.claude/settings.json",
            r#"{"permissions": {"deny": ["Read(.env)"]}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}"#,
        );
    use ConfigKind::*;
    let expected = vec![
        (Instructions, "CLAUDE.md".into(), json!({}), "be kind\n".into()),
        (Instructions, "CLAUDE.local.md".into(), json!({}), "mine".into()),
        (Rule, "web/css".into(), json!({"paths": ["*.css"]}), "no floats".into()),
        (Command, "git/commit".into(), json!({"description": "Commits"}), "$ARGUMENTS".into()),
        (
            Skill,
            "pdf".into(),
            json!({"name": "pdf", "description": "Reads", "$files": {"scripts/x.py": "print()"}}),
            "steps".into(),
        ),
        (Subagent, "critic".into(), json!({"name": "critic", "model": "opus"}), "be hard".into()),
        (McpServer, "db".into(), json!({"command": "db", "args": ["--ro"]}), String::new()),
        (
            Hook,
            "Stop".into(),
            json!({"event": "Stop", "hooks": [{"hooks": [{"type": "command", "command": "x"}]}]}),
            String::new(),
        ),
        (Setting, "permissions".into(), json!({"value": {"deny": ["Read(.env)"]}}), String::new()),
    ];
    assert_eq!(on.told("project"), expected);
    // The folder alone is a root too, and has what is in it.
    let inside: Vec<String> = on.told("project/.claude").into_iter().map(|(_, name, ..)| name).collect();
    assert_eq!(inside, ["web/css", "git/commit", "pdf", "critic", "Stop", "permissions"]);
    assert_eq!(on.told("user"), []);
    let item = &on.read("project").unwrap().items[3];
    assert!(item.path.ends_with("project/.claude/commands/git/commit.md"), "{}", item.path);
}

#[test]
fn what_is_there_stays() {
    let on = Fixture::new("codex");
    let before = "# my notes\nmodel = \"m\"\n\n[mcp_servers.db]\ncommand = \"old\" # why\nstartup_timeout_sec = 9\n";
    on.put("user/config.toml", before);
    let actions = on.write(
        "user",
        &config(
            "codex",
            vec![
                item(ConfigKind::McpServer, "db", json!({"command": "new"}), ""),
                item(ConfigKind::McpServer, "web", json!({"type": "http", "url": "https://a.example"}), ""),
                item(ConfigKind::Setting, "model", json!({"value": "m"}), ""),
                item(ConfigKind::Command, "go", json!({}), "x"),
            ],
        ),
        false,
    );
    use ConfigVerb::*;
    assert_eq!(verbs(&actions), [Updated, Created, Unchanged, Skipped]);
    assert_eq!(actions[3].reason.as_deref(), Some("Codex has no commands in a user's own folder"));
    let text = on.text("user/config.toml");
    assert!(text.starts_with(&before.replace("\"old\"", "\"new\"")), "{text}");
    assert!(text.contains("[mcp_servers.web]\nurl = \"https://a.example\"\n"), "{text}");
}

#[test]
fn deny_rules_and_front_matter_survive_an_import() {
    let on = Fixture::new("claude");
    on.put("project/.claude/settings.json", r#"{"permissions": {"deny": ["Read(.env)"], "allow": ["x"]}}"#)
        .put("project/.claude/commands/go.md", "---\nallowed-tools: Read\n---\nold");
    let items = vec![
        item(ConfigKind::Setting, "permissions", json!({"value": {"deny": [], "allow": ["y"]}}), ""),
        item(ConfigKind::Command, "go", json!({"description": "d"}), "new"),
    ];
    on.write("project", &config("claude", items), false);
    let told = on.told("project");
    assert_eq!(told[0].2, json!({"allowed-tools": "Read", "description": "d"}));
    assert_eq!(told[1].2, json!({"value": {"deny": ["Read(.env)"], "allow": ["x", "y"]}}));
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let from = Fixture::new("claude");
    from.put("project/CLAUDE.md", "x").put("project/.mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    let on = Fixture::new("opencode");
    let whole = from.read("project").unwrap();
    let dry = on.write("project", &whole, true);
    assert_eq!(files(on.dir.path()), []);
    assert_eq!(on.write("project", &whole, false), dry);
    assert_eq!(verbs(&dry), [ConfigVerb::Created, ConfigVerb::Created]);
    let again = on.write("project", &whole, false);
    assert_eq!(verbs(&again), [ConfigVerb::Unchanged, ConfigVerb::Unchanged]);
    assert_eq!(on.text("project/AGENTS.md"), "x");
    assert_eq!(on.told("project")[1].2, json!({"command": "a"}));
}

#[test]
fn a_copy_says_what_it_leaves_out() {
    let from = Fixture::new("claude");
    from.put("project/CLAUDE.md", "a")
        .put("project/.claude/CLAUDE.md", "b")
        .put("project/CLAUDE.local.md", "c")
        .put("project/.claude/rules/r.md", "---\npaths: [\"*.ts\"]\n---\nr")
        .put("project/.claude/commands/go.md", "---\ndescription: d\nmodel: opus\n---\ngo $ARGUMENTS")
        .put("project/.claude/settings.json", r#"{"env": {}, "hooks": {"Stop": []}}"#);
    let whole = from.read("project").unwrap();
    let told = |agent: &str| -> Vec<(ConfigVerb, String)> {
        let on = Fixture::new(agent);
        let actions = on.write("project", &whole, false);
        actions.into_iter().map(|action| (action.action, action.reason.unwrap_or_default())).collect()
    };
    use ConfigVerb::*;
    let own = "`AGENTS.md` is one text, and has the one of `CLAUDE.md` now";
    assert_eq!(
        told("cursor"),
        [
            (Created, String::new()),
            (Skipped, own.into()),
            (Skipped, "it is meant for one person's checkout only".into()),
            (Created, String::new()),
            (Created, "left out, as only its own agent knows it: model".into()),
            (Skipped, "a hook is run by its own agent's events; write it anew for Cursor".into()),
            (Skipped, "Cursor has settings of its own".into()),
        ]
    );
    let on = Fixture::new("gemini");
    on.write("project", &whole, false);
    assert_eq!(on.text("project/.gemini/commands/go.toml"), "description = \"d\"\nprompt = \"go {{args}}\"\n");
    let on = Fixture::new("cursor");
    on.write("project", &whole, false);
    assert_eq!(on.text("project/.cursor/rules/r.mdc"), "---\nglobs: \"*.ts\"\nalwaysApply: false\n---\nr");
}

#[test]
fn nothing_outside_the_root_is_touched() {
    let on = Fixture::new("claude");
    on.put("outside/secret.md", "secret").put("project/CLAUDE.md", "x");
    let at = |path: &str| on.dir.path().join(path);
    fs::create_dir_all(at("project/.claude/commands")).unwrap();
    symlink(at("outside"), at("project/.claude/commands/out")).unwrap();
    symlink(at("outside/secret.md"), at("project/.claude/commands/leak.md")).unwrap();
    symlink(at("outside"), at("project/.claude/agents")).unwrap();
    symlink(at("outside/settings.json"), at("project/.claude/settings.json")).unwrap();
    let names: Vec<String> = on.told("project").into_iter().map(|(_, name, ..)| name).collect();
    assert_eq!(names, ["CLAUDE.md"]);
    let before = files(&at("outside"));
    use ConfigKind::*;
    let mut items: Vec<ConfigItem> =
        ["out/x", "leak", "../../../outside/x", "..", "/etc/x", "a/../../x", "", ".x", "a\\b", "a\0b", "a//b"]
            .into_iter()
            .map(|name| item(Command, name, json!({}), "x"))
            .collect();
    items.push(item(Subagent, "secret", json!({}), "x"));
    items.push(item(Setting, "model", json!({"value": 1}), ""));
    items.push(item(Skill, "a/b", json!({}), "x"));
    items.push(item(Skill, "s", json!({"$files": {"../../../outside/y": "y"}}), "x"));
    items.push(item(Command, &"n".repeat(300), json!({}), "x"));
    let actions = on.write("project", &config("claude", items), false);
    for action in &actions {
        assert_eq!(action.action, ConfigVerb::Skipped, "{action:?}");
        assert!(action.reason.is_some(), "{action:?}");
    }
    assert_eq!(files(&at("outside")), before);
    assert!(!at("project/.claude/skills").exists());
}

#[test]
fn links_within_the_root_are_read_and_the_users_own_links_too() {
    let on = Fixture::new("claude");
    on.put("project/docs/all.md", "x").put("dotfiles/CLAUDE.md", "y");
    symlink(on.dir.path().join("project/docs/all.md"), on.dir.path().join("project/CLAUDE.md")).unwrap();
    symlink(on.dir.path().join("dotfiles/CLAUDE.md"), on.dir.path().join("user/CLAUDE.md")).unwrap();
    assert_eq!(on.told("project")[0].3, "x");
    assert_eq!(on.told("user")[0].3, "y");
    let update = config("claude", vec![item(ConfigKind::Instructions, "CLAUDE.md", json!({}), "new")]);
    assert_eq!(verbs(&on.write("user", &update, false)), [ConfigVerb::Skipped]);
    assert_eq!(on.text("dotfiles/CLAUDE.md"), "y");
}

#[test]
fn a_broken_file_is_named_and_never_overwritten() {
    let on = Fixture::new("claude");
    on.put("project/.mcp.json", "{\"mcpServers\": ");
    assert!(on.read("project").unwrap_err().starts_with(".mcp.json is no JSON: "));
    let update = config("claude", vec![item(ConfigKind::McpServer, "a", json!({"command": "a"}), "")]);
    let actions = on.write("project", &update, false);
    assert_eq!(actions[0].action, ConfigVerb::Skipped);
    assert!(actions[0].reason.as_deref().unwrap().contains("no JSON"), "{actions:?}");
    assert_eq!(on.text("project/.mcp.json"), "{\"mcpServers\": ");
    on.put("project/.mcp.json", "{\"mcpServers\": []}");
    assert_eq!(on.read("project").unwrap_err(), ".mcp.json: `mcpServers` must be an object");
    on.put("project/.mcp.json", "{}").put("project/CLAUDE.md", "\u{0}ok");
    fs::write(on.dir.path().join("project/CLAUDE.md"), [0xff, 0xfe]).unwrap();
    assert_eq!(on.read("project").unwrap_err(), "CLAUDE.md: not UTF-8");
}

#[test]
fn a_files_mode_stays_and_a_pipe_is_not_waited_for() {
    use std::os::unix::fs::PermissionsExt;
    let on = Fixture::new("claude");
    on.put("project/CLAUDE.md", "x");
    let path = on.dir.path().join("project/CLAUDE.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let update = config("claude", vec![item(ConfigKind::Instructions, "CLAUDE.md", json!({}), "new")]);
    on.write("project", &update, false);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo here");
        return;
    }
    assert_eq!(on.told("project"), []);
    assert_eq!(verbs(&on.write("project", &update, false)), [ConfigVerb::Skipped]);
}

#[test]
fn clines_rules_are_a_folder_or_a_file() {
    let on = Fixture::new("cline");
    on.put("project/.clinerules/a.md", "a").put("project/.clinerules/workflows/go.md", "go");
    let told: Vec<(ConfigKind, String)> = on.told("project").into_iter().map(|(kind, name, ..)| (kind, name)).collect();
    assert_eq!(told, [(ConfigKind::Rule, "a".into()), (ConfigKind::Command, "go".into())]);
    assert_eq!(on.told("project/.clinerules").len(), 2);
    assert_eq!(on.config.root(), on.dir.path().join("project"));
    let wrong = config("cline", vec![item(ConfigKind::Rule, "workflows/x", json!({}), "x")]);
    assert_eq!(verbs(&on.write("project", &wrong, false)), [ConfigVerb::Skipped]);
    let on = Fixture::new("cline");
    on.put("project/.clinerules", "all of it");
    assert_eq!(on.told("project")[0].1, ".clinerules");
    let rule = config("cline", vec![item(ConfigKind::Rule, "x", json!({}), "x")]);
    assert_eq!(verbs(&on.write("project", &rule, false)), [ConfigVerb::Skipped]);
}

/// Any text that a file can hold.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n]{0,60}",
        "\\PC{0,20}",
        Just("---\na: b\n---\nx".to_owned()),
        Just("\u{feff}---\n".to_owned()),
        Just("\"\"\"'''\\\r\n\u{0}\u{7f}".to_owned()),
    ]
}

fn value(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths: no parser rounds them.
        any::<i16>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((member(), inner), 0..4).prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
    .boxed()
}

fn member() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[ -~]{1,8}", "\\PC{1,6}"]
}

fn meta() -> impl Strategy<Value = Map<String, Value>> {
    let key = member().prop_filter("a key of our own", |key| key != "prompt" && !key.starts_with('$'));
    prop::collection::vec((key, value(2)), 0..4).prop_map(|all| all.into_iter().collect())
}

/// An item that an agent's files can hold.
fn any_item(kind: ConfigKind) -> impl Strategy<Value = ConfigItem> {
    let name = prop_oneof!["[a-z0-9_-]{1,12}", "[a-z]{1,4} [A-Zé.]{1,4}x"];
    let server = prop_oneof![
        (text(), prop::collection::vec(text(), 1..3), any::<u16>())
            .prop_map(|(command, args, n)| json!({"command": command, "args": args, "timeout": n})),
        (text(), text()).prop_map(|(url, token)| json!({"type": "http", "url": url, "headers": {"T": token}})),
    ];
    let of = (name, meta(), text(), server, value(3));
    of.prop_map(move |(name, meta, body, server, value)| match kind {
        ConfigKind::McpServer => item(kind, &name, server, ""),
        ConfigKind::Setting => item(kind, &format!("s-{name}"), json!({"value": value}), ""),
        ConfigKind::Hook => item(kind, &name, json!({"event": name, "hooks": [value]}), ""),
        ConfigKind::Instructions => item(kind, "", json!({}), &body),
        _ => item(kind, &name, Value::Object(meta), &body),
    })
}

fn any_config() -> impl Strategy<Value = (&'static Format, Vec<ConfigItem>)> {
    (0..FORMATS.len()).prop_map(|index| &FORMATS[index]).prop_flat_map(|format| {
        let kinds: Vec<ConfigKind> = format.project.iter().map(|place| place.kind).collect();
        (Just(format), prop::collection::vec(prop::sample::select(kinds).prop_flat_map(any_item), 1..6))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// What an agent's files can hold comes back as it was, and importing it again changes nothing.
    #[test]
    fn what_is_written_is_read((format, mut items) in any_config()) {
        items.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        items.dedup_by(|a, b| (a.kind, &a.name) == (b.kind, &b.name));
        let first = format.project.iter().find(|place| place.kind == ConfigKind::Instructions).unwrap();
        for item in items.iter_mut().filter(|item| item.kind == ConfigKind::Instructions) {
            item.name = first.path.to_owned();
        }
        let on = Fixture::new(format.id);
        let written = config(format.id, items.clone());
        let actions = on.write("project", &written, false);
        for action in &actions {
            prop_assert!(matches!(action.action, ConfigVerb::Created), "{:?}", action);
        }
        let mut read = on.read("project").unwrap().items;
        for item in &mut read {
            item.path.clear();
        }
        read.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        prop_assert_eq!(&read, &items);
        for action in on.write("project", &written, false) {
            prop_assert_eq!(action.action, ConfigVerb::Unchanged, "{:?}", action);
        }
    }
}
