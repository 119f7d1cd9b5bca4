//! Who may depend on whom, checked against `cargo metadata`; and no wire's name inside the plane.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot look has failed")]

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Crate, and the crates of ours that it may name in `[dependencies]`.
const LAYERS: &[(&str, &[&str])] = &[
    ("triplane-protocol", &[]),
    ("triplane-core", &["triplane-protocol"]),
    ("triplane-script", &[]),
    ("triplane-endpoint", &["triplane-script"]),
    ("triplane-acp", &["triplane-protocol", "triplane-core"]),
    ("triplane-native", &["triplane-protocol", "triplane-core", "triplane-script"]),
    ("triplane-driver", &["triplane-protocol", "triplane-core"]),
    ("triplane-config", &["triplane-protocol", "triplane-core"]),
    ("triplane-stores", &["triplane-protocol", "triplane-core"]),
    ("triplane-common", &["triplane-protocol", "triplane-core"]),
    ("triplane-ws", &["triplane-protocol", "triplane-core", "triplane-common"]),
    ("triplane-http", &["triplane-protocol", "triplane-core", "triplane-common"]),
    ("triplane-stdio", &["triplane-protocol", "triplane-core", "triplane-common"]),
    ("triplane-conformance", &["triplane-protocol", "triplane-script"]),
    ("triplane-broken", &["triplane-conformance"]),
    ("triplane-bench", &["triplane-protocol"]),
];

/// The command may name all of them.
const COMMAND: &str = "triplane";

/// Crate, and the outside crates that it must never name.
const BANNED: &[(&str, &[&str])] = &[
    ("triplane-protocol", &["tokio", "axum", "hyper", "tokio-tungstenite", "tracing"]),
    ("triplane-core", &["axum", "hyper", "tokio-tungstenite", "clap"]),
];

/// Names of the wires, which the plane does not know.
const WIRES: &[&str] = &["lich", "larik", "sepia"];

#[test]
fn layers_hold() {
    let meta = metadata();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in meta["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        seen.insert(name.to_owned());
        let allowed = LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, allowed)| *allowed);
        if allowed.is_none() && name != COMMAND {
            wrong.push(format!("{name} has no layer: add it to LAYERS"));
        }
        let banned = BANNED.iter().find(|(layer, _)| *layer == name).map_or(&[][..], |(_, banned)| banned);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let wanted = dependency["name"].as_str().expect("a name");
            if dependency["kind"] == "dev" {
                continue;
            }
            if banned.contains(&wanted) {
                wrong.push(format!("{name} must not depend on {wanted}"));
            }
            let ours = dependency["path"].is_string();
            if ours && allowed.is_some_and(|allowed| !allowed.contains(&wanted)) {
                wrong.push(format!("{name} must not depend on {wanted}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let known = LAYERS.iter().map(|(layer, _)| *layer).chain([COMMAND]).map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(seen, known, "LAYERS lists a crate that is not there");
}

#[test]
fn the_plane_knows_no_wire() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("core").join("src")) {
        let text = fs::read_to_string(&path).expect("a source file").to_lowercase();
        for (number, line) in text.lines().enumerate() {
            for wire in WIRES.iter().filter(|wire| names(line, wire)) {
                wrong.push(format!("{}:{}: `{wire}`", path.display(), number + 1));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "core names a wire");
}

#[test]
fn a_name_is_a_whole_word() {
    assert!(names("// as lich does", "lich"));
    assert!(names("fn lich_prompt()", "lich"));
    assert!(!names("published liched", "lich"));
}

/// Whether a line holds the name, with no letter before or behind it.
fn names(line: &str, wire: &str) -> bool {
    line.match_indices(wire).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let behind = line[at + wire.len()..].chars().next().is_some_and(char::is_alphanumeric);
        !before && !behind
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}
