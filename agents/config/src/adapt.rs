//! What an item of one agent becomes for another: the text stays, what only its own agent understands is left out and told.

use crate::{format::Format, servers, skill};
use serde_json::{Map, Value};
use triplane_protocol::config::{ConfigItem, ConfigKind};

/// An item for `to`, and what of it was left out. Errors: why it is nothing for `to`, in one line.
pub(crate) fn adapt(
    item: &ConfigItem,
    from: Option<&Format>,
    to: &Format,
) -> Result<(ConfigItem, Vec<String>), String> {
    let mut out = item.clone();
    let mut left = Vec::new();
    match item.kind {
        ConfigKind::Instructions => {
            if item.name.contains(".local.") {
                return Err("it is meant for one person's checkout only".into());
            }
        }
        ConfigKind::Hook => {
            return Err(format!("a hook is run by its own agent's events; write it anew for {}", to.name));
        }
        ConfigKind::Setting => return Err(format!("{} has settings of its own", to.name)),
        ConfigKind::McpServer => (out.meta, left) = servers::portable(&item.meta),
        ConfigKind::Rule => out.meta = rule(&item.meta, to, &mut left),
        ConfigKind::Command => {
            out.meta = keep(&item.meta, &["description", "argument-hint"], &mut left);
            if let Some(from) = from.filter(|from| from.arguments != to.arguments) {
                out.body = item.body.replace(from.arguments, to.arguments);
            }
        }
        ConfigKind::Skill => {
            let kept = ["name", "description", "license", "compatibility", "metadata", skill::FILES, skill::MORE];
            out.meta = keep(&item.meta, &kept, &mut left);
        }
        ConfigKind::Subagent => {
            out.meta = keep(&item.meta, &["name", "description", skill::FILES, skill::MORE], &mut left);
            if to.id == "opencode" {
                out.meta.insert("mode".into(), "subagent".into());
            } else {
                out.meta.entry("name").or_insert_with(|| item.name.clone().into());
            }
        }
    }
    Ok((out, left))
}

fn keep(meta: &Map<String, Value>, kept: &[&str], left: &mut Vec<String>) -> Map<String, Value> {
    let (kept, rest): (Map<_, _>, Map<_, _>) =
        meta.clone().into_iter().partition(|(key, _)| kept.contains(&key.as_str()));
    left.extend(rest.into_iter().map(|(key, _)| key));
    kept
}

/// When a rule holds: `paths` for most, `globs` and `alwaysApply` for Cursor.
fn rule(meta: &Map<String, Value>, to: &Format, left: &mut Vec<String>) -> Map<String, Value> {
    let known = ["description", "paths", "globs", "alwaysApply"];
    let mut out = keep(meta, &known, left);
    let paths = out.shift_remove("paths").or_else(|| out.shift_remove("globs"));
    out.shift_remove("globs");
    let always = out.shift_remove("alwaysApply").is_some_and(|always| always == true);
    let paths: Vec<String> = match paths {
        Some(Value::String(list)) => list.split(',').map(|glob| glob.trim().to_owned()).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(|glob| glob.as_str().map(str::to_owned)).collect(),
        Some(_) | None => Vec::new(),
    };
    let paths: Vec<String> = paths.into_iter().filter(|glob| !glob.is_empty() && !always).collect();
    if to.id == "cursor" {
        if !paths.is_empty() {
            out.insert("globs".into(), paths.join(",").into());
        }
        out.insert("alwaysApply".into(), paths.is_empty().into());
    } else if !paths.is_empty() {
        out.insert("paths".into(), paths.into());
    }
    out
}
