//! The config of agents: counted, read as it lies in their own files, installed without losing or reaching anything.
//! Clauses: S19, S20, S28.

use crate::{
    cases,
    cases::STDIO,
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::{fs, path::Path};

cases! {
    "s19-one-broken-config-hides-no-other" on STDIO [S19, S28] needs [Process] => one_broken;
    "s20-the-files-of-a-project" on STDIO [S20] needs [Process] => project;
    "s20-import-tells-an-action-an-item" on STDIO [S20] needs [Process] => actions;
    "s20-import-keeps-and-reaches-nothing-else" on STDIO [S20, C16] needs [Process] => keeps;
    "s20-a-copy-from-agent-to-agent" on STDIO [S20] needs [Process] => copy;
    "s31-an-agents-folder-by-variable" on STDIO [S31, S20] needs [Process] => by_variable;
    "s28-config-verbs-refuse" on STDIO [S28, S20, C04] needs [Process] => refusals;
}

fn put(path: &Path, text: &str) -> Outcome {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Stop::harness)?;
    }
    fs::write(path, text).map_err(Stop::harness)
}

fn get(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Stop::broke(format!("{}: {error}", path.display())))
}

/// An agent's entry of `config.list`.
fn entry<'a>(listed: &'a Value, agent: &str) -> Outcome<&'a Value> {
    let all = listed.as_array().ok_or_else(|| Stop::broke(format!("not a list: {listed}")))?;
    let found = all.iter().find(|entry| entry.get("agent") == Some(&json!(agent)));
    found.ok_or_else(|| Stop::broke(format!("no entry of {agent}: {listed}")))
}

/// `action kind name` of each action.
fn told(imported: &Value) -> Outcome<Vec<String>> {
    let line =
        |action: &Value| Ok(format!("{} {} {}", action.text("/action")?, action.text("/kind")?, action.text("/name")?));
    imported.list("/actions")?.iter().map(line).collect()
}

async fn one_broken(ctx: &mut Ctx) -> Outcome {
    put(&ctx.home().join(".claude/CLAUDE.md"), "be kind")?;
    put(&ctx.home().join(".claude/commands/go.md"), "go")?;
    put(&ctx.home().join(".codex/config.toml"), "model = ")?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let listed = rpc.call("config.list", json!({})).await?;
    let counts = entry(&listed, "claude")?.at("/counts")?.clone();
    expect_eq!((counts.int("/instructions")?, counts.int("/command")?, counts.int("/rule")?), (1, 1, 0), "the counts");
    let broken = entry(&listed, "codex")?;
    expect!(broken.text("/error")?.contains("config.toml"), "the error names no file: {broken}");
    expect_eq!(broken.get("counts"), None, "counts beside an error");
    let one = rpc.call("config.list", json!({"agent": "codex"})).await?;
    expect_eq!(one, json!([broken]), "the list of one agent");
    rpc.fails("config.get", json!({"agent": "codex"}), "invalid").await?;
    Ok(())
}

/// A project of Claude's in a folder of its own.
fn claude_project(ctx: &Ctx) -> Outcome<std::path::PathBuf> {
    let root = ctx.scratch("project");
    put(&root.join("CLAUDE.md"), "be kind\n")?;
    put(&root.join(".claude/commands/git/commit.md"), "---\ndescription: Commits\n---\nCommit $ARGUMENTS")?;
    put(&root.join(".claude/skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: Reads PDFs\n---\nsteps")?;
    put(
        &root.join(".claude/settings.json"),
        "{\n  // ours\n  \"hooks\": {\"Stop\": []},\n  \"permissions\": {\"deny\": [\"x\"]}\n}\n",
    )?;
    put(&root.join(".mcp.json"), r#"{"mcpServers": {"db": {"command": "db", "args": ["--ro"], "env": {"K": "v"}}}}"#)?;
    Ok(root)
}

async fn project(ctx: &mut Ctx) -> Outcome {
    let root = claude_project(ctx)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let config = rpc.call("config.get", json!({"agent": "claude", "dir": root})).await?;
    expect_eq!((config.text("/agent")?.as_str(), config.at("/dir")?), ("claude", &json!(root)), "whose config it is");
    let items: Vec<String> = config
        .list("/items")?
        .iter()
        .map(|item| Ok(format!("{} {} {}", item.text("/kind")?, item.text("/name")?, item.text("/scope")?)))
        .collect::<Outcome<_>>()?;
    let expected = [
        "instructions CLAUDE.md project",
        "command git/commit project",
        "skill pdf project",
        "mcp_server db project",
        "hook Stop project",
        "setting permissions project",
    ];
    expect_eq!(items, expected, "the items");
    let command = config.at("/items/1")?;
    expect_eq!(command.text("/body")?, "Commit $ARGUMENTS", "the body of a command");
    expect_eq!(command.at("/meta")?, &json!({"description": "Commits"}), "the front matter of a command");
    expect_eq!(command.at("/path")?, &json!(root.join(".claude/commands/git/commit.md")), "where it is");
    Ok(())
}

async fn actions(ctx: &mut Ctx) -> Outcome {
    let root = claude_project(ctx)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let config = rpc.call("config.get", json!({"agent": "claude", "dir": root})).await?;
    let other = ctx.scratch("other");
    let params = json!({"agent": "claude", "dir": other, "config": {"config": config}, "dryRun": true});
    let dry = rpc.call("config.import", params.clone()).await?;
    expect!(!other.exists(), "a dry run made {}", other.display());
    let mut params = params;
    params["dryRun"] = json!(false);
    let done = rpc.call("config.import", params.clone()).await?;
    expect_eq!(done, dry, "the import, after what the dry run told");
    expect!(told(&done)?.iter().all(|line| line.starts_with("created ")), "the first import: {done}");
    let again = rpc.call("config.import", params).await?;
    expect!(told(&again)?.iter().all(|line| line.starts_with("unchanged ")), "the same import again: {again}");
    let mut read = rpc.call("config.get", json!({"agent": "claude", "dir": other})).await?;
    let mut first = config.clone();
    for items in [&mut read, &mut first].into_iter().filter_map(|whole| whole["items"].as_array_mut()) {
        items.iter_mut().for_each(|item| item["path"] = Value::Null);
    }
    expect_eq!(read["items"], first["items"], "what was imported, read again");
    let changed = json!({"items": [
        {"kind": "command", "name": "git/commit", "meta": {"description": "Commits"}, "body": "anew"},
        {"kind": "command", "name": "fresh", "body": "x"},
        {"kind": "skill", "name": "pdf", "meta": {"name": "pdf", "description": "Reads PDFs"}, "body": "steps"},
    ]});
    let third = rpc.call("config.import", json!({"agent": "claude", "dir": other, "config": changed})).await?;
    let expected = ["updated command git/commit", "created command fresh", "unchanged skill pdf"];
    expect_eq!(told(&third)?, expected, "the actions");
    expect!(
        other.join("CLAUDE.md").exists() && other.join(".mcp.json").exists(),
        "an import deleted what it did not name"
    );
    Ok(())
}

async fn keeps(ctx: &mut Ctx) -> Outcome {
    let root = claude_project(ctx)?;
    let outside = ctx.scratch("outside");
    put(&outside.join("x.md"), "outside")?;
    std::os::unix::fs::symlink(&outside, root.join(".claude/commands/out")).map_err(Stop::harness)?;
    std::os::unix::fs::symlink(outside.join("x.md"), root.join(".claude/commands/leak.md")).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let read = rpc.call("config.get", json!({"agent": "claude", "dir": root})).await?;
    expect!(!read.to_string().contains("\"outside\""), "a link out of the root was read: {read}");
    let mut items: Vec<Value> = ["out/x", "leak", "../../../outside/x", "..", "/tmp/x", "a/../../../../outside/x", ""]
        .into_iter()
        .map(|name| json!({"kind": "command", "name": name, "body": "bad"}))
        .collect();
    items.push(json!({"kind": "setting", "name": "permissions", "meta": {"value": {"deny": [], "allow": ["y"]}}}));
    items.push(json!({"kind": "mcp_server", "name": "web", "meta": {"type": "http", "url": "https://a.example"}}));
    let done = rpc.call("config.import", json!({"agent": "claude", "dir": root, "config": {"items": items}})).await?;
    for action in done.list("/actions")?.iter().take(7) {
        expect_eq!(action.text("/action")?, "skipped", "an item that leads out of the root");
        expect!(!action.text("/reason")?.is_empty(), "a skipped item without a reason: {action}");
    }
    expect_eq!(get(&outside.join("x.md"))?, "outside", "a file outside of the root");
    expect_eq!(fs::read_dir(&outside).map_err(Stop::harness)?.count(), 1, "files outside of the root");
    let settings = get(&root.join(".claude/settings.json"))?;
    expect!(settings.contains("// ours") && settings.contains("\"Stop\""), "what was there is gone: {settings}");
    let read = rpc.call("config.get", json!({"agent": "claude", "dir": root})).await?;
    let meta = |name: &str| {
        let found = read.list("/items")?.iter().find(|item| item.get("name") == Some(&json!(name))).cloned();
        found.ok_or_else(|| Stop::broke(format!("no item {name}")))?.at("/meta").cloned()
    };
    expect_eq!(meta("permissions")?, json!({"value": {"deny": ["x"], "allow": ["y"]}}), "permissions after an import");
    expect_eq!(meta("db")?.text("/command")?, "db", "a server that the import did not name");
    expect_eq!(meta("web")?.text("/url")?, "https://a.example", "a new server");
    Ok(())
}

async fn copy(ctx: &mut Ctx) -> Outcome {
    let root = claude_project(ctx)?;
    put(&root.join(".codex/config.toml"), "# mine\nmodel = \"m\" # why\n")?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let config = rpc.call("config.get", json!({"agent": "claude", "dir": root})).await?;
    for (agent, expected) in [
        (
            "codex",
            "created instructions CLAUDE.md, skipped command git/commit, created skill pdf, created mcp_server db",
        ),
        (
            "opencode",
            "unchanged instructions CLAUDE.md, created command git/commit, created skill pdf, created mcp_server db",
        ),
        (
            "gemini",
            "created instructions CLAUDE.md, created command git/commit, unchanged skill pdf, created mcp_server db",
        ),
    ] {
        let done = rpc.call("config.import", json!({"agent": agent, "dir": root, "config": config})).await?;
        let expected = format!("{expected}, skipped hook Stop, skipped setting permissions");
        expect_eq!(told(&done)?.join(", "), expected, "the copy for {agent}");
        let read = rpc.call("config.get", json!({"agent": agent, "dir": root})).await?;
        let server = read.list("/items")?.iter().find(|item| item.get("kind") == Some(&json!("mcp_server"))).cloned();
        let expected = json!({"command": "db", "args": ["--ro"], "env": {"K": "v"}});
        expect_eq!(server.unwrap_or_default().get("meta"), Some(&expected), "the server as {agent} has it");
    }
    let toml = get(&root.join(".codex/config.toml"))?;
    expect!(toml.starts_with("# mine\nmodel = \"m\" # why\n"), "comments or order are gone: {toml}");
    expect_eq!(get(&root.join("AGENTS.md"))?, "be kind\n", "the instructions");
    Ok(())
}

async fn by_variable(ctx: &mut Ctx) -> Outcome {
    let mine = ctx.scratch("elsewhere");
    put(&mine.join("CLAUDE.md"), "from elsewhere")?;
    put(&ctx.home().join(".claude/CLAUDE.md"), "from home")?;
    for (variables, expected) in [
        (&["SEPIA_CLAUDE_DIR"][..], "from elsewhere"),
        (&["TRIPLANE_CLAUDE_DIR"], "from elsewhere"),
        (&[], "from home"),
    ] {
        let dir = mine.to_string_lossy();
        let launch = variables.iter().fold(ctx.launch(), |launch, name| launch.env(name, &dir));
        let mut on = ctx.start(&launch).await?;
        let mut rpc = on.stdio()?;
        let config = rpc.call("config.get", json!({"agent": "claude"})).await?;
        expect_eq!(config.text("/items/0/body")?, expected, "the instructions with {variables:?}");
        expect_eq!(config.text("/items/0/scope")?, "user", "the scope of the user's own folder");
    }
    Ok(())
}

async fn refusals(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let plane_agent = rpc.call("agents.list", json!({})).await?.text("/agents/0/id")?;
    for agent in ["nobody", "", plane_agent.as_str()] {
        rpc.fails("config.list", json!({"agent": agent}), "unknown_agent").await?;
        rpc.fails("config.get", json!({"agent": agent}), "unknown_agent").await?;
        rpc.fails("config.import", json!({"agent": agent, "config": {"items": []}}), "unknown_agent").await?;
    }
    for bad in
        [json!({}), json!([]), json!("x"), json!({"items": 1}), json!({"items": [{"kind": "spell", "name": "x"}]})]
    {
        let error = rpc.fails("config.import", json!({"agent": "claude", "config": bad}), "invalid").await?;
        expect!(error.cause.is_some(), "no cause: {error:?}");
    }
    for bad in [json!({"agent": 1}), json!({"agent": "claude", "dir": 1}), json!({"agent": "claude", "dir": ""})] {
        rpc.fails("config.get", bad, "invalid_params").await?;
    }
    rpc.fails("config.import", json!({"agent": "claude"}), "invalid_params").await?;
    Ok(())
}
