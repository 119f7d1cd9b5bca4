//! What an agent asks of us during a run: whether a call may go ahead, and files.
//! Invariants: every request is answered once; a file outside of the session's directory is neither read nor written; what is
//! written is kept first, so that it can be taken back.

use crate::{
    peer::Ask,
    told::{Telling, tool_kind},
};
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};
use triplane_core::session::{PermissionAsk, RunSink, Verdict};
use triplane_protocol::{
    CallId,
    event::{OptionKind, PermissionOption},
    ir::Mode,
};

/// JSON-RPC: wrong params.
const WRONG: i64 = -32602;
/// JSON-RPC: it failed.
const FAILED: i64 = -32603;

/// Bytes of a file that is handed out.
const FILE_BYTES: u64 = 16 << 20;

/// A permission request, ready to be asked. The call that it is about is begun, if the agent did not say so before.
pub(crate) async fn permission(telling: &mut Telling, ask: &Ask, cwd: &Path) -> Option<(PermissionAsk, Vec<Choice>)> {
    let call = ask.params.get("toolCall")?;
    let id = call.get("toolCallId").and_then(Value::as_str)?.to_owned();
    telling.call(&without_status(call)).await;
    let options: Vec<Choice> = ask.params.get("options")?.as_array()?.iter().filter_map(Choice::read).collect();
    let paths = changed(call, cwd);
    let (kind, tool, title, input) = match telling.of_call(&id) {
        Some((kind, tool, title, input)) => (kind, tool.to_owned(), title.to_owned(), input.clone()),
        None => (tool_kind("other"), "other".to_owned(), id.clone(), json!({})),
    };
    let raw = call.get("rawInput").filter(|raw| !raw.is_null()).cloned().unwrap_or(input);
    let inside = paths.iter().all(|path| within(cwd, path).is_some());
    let subject = match (raw.get("command").and_then(Value::as_str), paths.first()) {
        (Some(command), _) => command.to_owned(),
        (None, Some(path)) => path.strip_prefix(cwd).unwrap_or(path).to_string_lossy().into_owned(),
        (None, None) => title.clone(),
    };
    let kept: Vec<PathBuf> = paths.into_iter().filter_map(|path| within(cwd, &path)).collect();
    telling.keep(&id, kept).await;
    let offered = options.iter().map(|choice| choice.option.clone()).collect();
    let ask = PermissionAsk {
        call_id: CallId::from(id),
        tool,
        kind,
        title,
        input: raw,
        subject,
        outside: !inside,
        options: Some(offered),
    };
    Some((ask, options))
}

/// A request is about a call that is yet to run, whatever state its description has.
fn without_status(call: &Value) -> Value {
    let mut call = call.clone();
    if let Some(members) = call.as_object_mut() {
        members.remove("status");
    }
    call
}

/// One of the agent's options.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    option: PermissionOption,
}

impl Choice {
    fn read(option: &Value) -> Option<Self> {
        let id = option.get("optionId").and_then(Value::as_str)?.to_owned();
        let name = option.get("name").and_then(Value::as_str).unwrap_or(&id).to_owned();
        let kind = match option.get("kind").and_then(Value::as_str)? {
            "allow_once" => OptionKind::AllowOnce,
            "allow_always" => OptionKind::AllowAlways,
            "reject_once" => OptionKind::RejectOnce,
            "reject_always" => OptionKind::RejectAlways,
            _ => return None,
        };
        Some(Self { option: PermissionOption { id, name, kind } })
    }
}

/// The answer that says what became of a request: the option that was chosen, else one of the kind that fits. An agent that offers
/// none of it is told that the request was cancelled.
pub(crate) fn outcome(verdict: &Verdict, choices: &[Choice]) -> Value {
    let of = |kinds: [OptionKind; 2]| {
        let of_kind = |kind| choices.iter().find(|choice| choice.option.kind == kind);
        kinds.into_iter().find_map(of_kind).map(|choice| choice.option.id.clone())
    };
    let chosen = match verdict {
        Verdict::Allowed { option } => option.clone().or_else(|| of([OptionKind::AllowOnce, OptionKind::AllowAlways])),
        Verdict::Denied { option, .. } => {
            option.clone().or_else(|| of([OptionKind::RejectOnce, OptionKind::RejectAlways]))
        }
        Verdict::Expired => None,
    };
    let known = chosen.filter(|id| choices.iter().any(|choice| choice.option.id == *id));
    match known {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

/// The files that a call says it changes.
fn changed(call: &Value, cwd: &Path) -> Vec<PathBuf> {
    if call.get("kind").and_then(Value::as_str).is_some_and(|kind| !matches!(kind, "edit" | "delete" | "move")) {
        return Vec::new();
    }
    let list = |name: &str| call.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let diffs = list("content").iter().filter(|block| block.get("type").and_then(Value::as_str) == Some("diff"));
    let mut paths: Vec<PathBuf> = diffs
        .chain(list("locations"))
        .filter_map(|place| place.get("path").and_then(Value::as_str))
        .map(|path| cwd.join(path))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// `fs/read_text_file`.
pub(crate) async fn read(ask: Ask, cwd: PathBuf) {
    let path = ask.params.get("path").and_then(Value::as_str).map(|path| cwd.join(path));
    let Some(path) = path.as_deref().and_then(|path| within(&cwd, path)) else {
        return ask.refuse(WRONG, "path: must be inside of the session's directory").await;
    };
    let number =
        |name: &str| ask.params.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
    let (line, limit) = (number("line").unwrap_or(1).max(1), number("limit").unwrap_or(usize::MAX));
    match whole(&path).await {
        Ok(text) => {
            let content: String = text.split_inclusive('\n').skip(line - 1).take(limit).collect();
            ask.answer(json!({ "content": content })).await;
        }
        Err(why) => ask.refuse(FAILED, &why).await,
    }
}

async fn whole(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let meta = tokio::fs::metadata(path).await.map_err(told)?;
    if !meta.is_file() || meta.len() > FILE_BYTES {
        return Err(format!("{}: no regular file of at most 16 MiB", path.display()));
    }
    tokio::fs::read_to_string(path).await.map_err(told)
}

/// `fs/write_text_file`.
pub(crate) async fn write(ask: Ask, cwd: PathBuf, sink: RunSink, mode: Mode) {
    let path = ask.params.get("path").and_then(Value::as_str).map(|path| cwd.join(path));
    let Some(path) = path.as_deref().and_then(|path| within(&cwd, path)) else {
        return ask.refuse(WRONG, "path: must be inside of the session's directory").await;
    };
    let Some(content) = ask.params.get("content").and_then(Value::as_str).map(str::to_owned) else {
        return ask.refuse(WRONG, "content: must be a string").await;
    };
    if mode == Mode::Plan {
        return ask.refuse(FAILED, "nothing is changed in the mode `plan`").await;
    }
    // An agent may say what it wrote itself already.
    if tokio::fs::read(&path).await.is_ok_and(|now| now == content.as_bytes()) {
        return ask.answer(Value::Null).await;
    }
    let written = async {
        let guard = sink.before_change(&path).await?;
        if let Some(dir) = path.parent() {
            tokio::fs::create_dir_all(dir).await.map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        tokio::fs::write(&path, content).await.map_err(|error| format!("{}: {error}", path.display()))?;
        guard.done().await;
        Ok::<_, String>(())
    };
    match written.await {
        Ok(()) => ask.answer(Value::Null).await,
        Err(why) => ask.refuse(FAILED, &why).await,
    }
}

/// The path, when it is inside of `cwd`: no `..`, and no link on the way leads out of it.
fn within(cwd: &Path, path: &Path) -> Option<PathBuf> {
    let root = cwd.canonicalize().ok()?;
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let (mut there, mut rest) = (path.to_path_buf(), Vec::new());
    // What is not there yet cannot be a link.
    let real = loop {
        match there.canonicalize() {
            Ok(real) => break real,
            Err(_) if std::fs::symlink_metadata(&there).is_ok() => return None,
            Err(_) => {
                rest.push(there.file_name()?.to_owned());
                if !there.pop() {
                    return None;
                }
            }
        }
    };
    real.starts_with(&root).then(|| rest.iter().rev().fold(real, |path, name| path.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices() -> Vec<Choice> {
        let options = json!([
            {"optionId": "always-1", "name": "A", "kind": "allow_always"},
            {"optionId": "always-2", "name": "B", "kind": "allow_always"},
            {"optionId": "once", "kind": "allow_once"},
            {"optionId": "no", "name": "N", "kind": "reject_once"},
            {"optionId": "odd", "name": "O", "kind": "ask_my_lawyer"},
        ]);
        options.as_array().unwrap().iter().filter_map(Choice::read).collect()
    }

    #[test]
    fn an_answer_is_one_of_the_agents_own_options() {
        let id = |verdict: Verdict| outcome(&verdict, &choices())["outcome"]["optionId"].clone();
        assert_eq!(id(Verdict::Allowed { option: None }), "once");
        assert_eq!(id(Verdict::Allowed { option: Some("always-2".into()) }), "always-2");
        assert_eq!(id(Verdict::Denied { reason: String::new(), option: None }), "no");
        assert_eq!(id(Verdict::Expired), Value::Null);
        assert_eq!(outcome(&Verdict::Allowed { option: None }, &[])["outcome"]["outcome"], "cancelled");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_outside_of_the_directory_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("work");
        std::fs::create_dir(&cwd).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path(), cwd.join("out")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("nowhere"), cwd.join("dangling")).unwrap();
        for bad in ["../secret", "out/secret", "/etc/passwd", "a/../../secret", "dangling"] {
            assert_eq!(within(&cwd, &cwd.join(bad)), None, "{bad}");
        }
        let real = cwd.canonicalize().unwrap();
        assert_eq!(within(&cwd, &cwd.join("new/dir/file")), Some(real.join("new/dir/file")));
    }
}
