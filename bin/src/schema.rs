//! `triplane schema`: the documents that the method tables generate, written or compared.

use crate::{
    cli::SchemaArgs,
    exit::{CommandError, Exit},
    pages::{self, PAGES},
};
use serde_json::Value;
use std::{fs, io::Write, path::Path};
use triplane_protocol::{
    AgentEvent, ErrorCode, Session, larik, lich, openrpc,
    schemas::{self, Direction, SchemaOf},
    sepia,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A document: its path under the output directory, and its text.
type Document = (String, String);

/// Writes the documents and pages that are asked for, or with `--check` names those that differ.
pub(crate) fn run(args: &SchemaArgs) -> Result<Exit, CommandError> {
    let values = values().map_err(CommandError::Defect)?;
    let texts = |values| documents(values).map_err(CommandError::Defect);
    let sets = [(&args.out, texts(&values)?), (&args.docs, pages(&values).map_err(CommandError::Defect)?)];
    let mut stdout = anstream::stdout();
    let mut exit = Exit::Done;
    for (dir, documents) in sets {
        let Some(dir) = dir else { continue };
        let done = if args.check { check(dir, &documents, &mut stdout)? } else { write(dir, &documents, &mut stdout)? };
        exit = if done == Exit::Done { exit } else { done };
    }
    Ok(exit)
}

/// The page of each wire. Errors: a page without its document.
fn pages(values: &[(&'static str, Value)]) -> Result<Vec<Document>, String> {
    let page = |page: &pages::Page| {
        let found = values.iter().find(|(name, _)| *name == page.document);
        let (_, document) = found.ok_or_else(|| format!("{} has no document", page.file))?;
        Ok((page.file.to_owned(), pages::render(page, document)))
    };
    PAGES.iter().map(page).collect()
}

/// Every document. Errors: a defect of a table, in one line.
fn values() -> Result<Vec<(&'static str, Value)>, String> {
    let lich = openrpc::Info {
        title: "Triplane over WebSocket (lich)",
        version: VERSION,
        summary: "Sessions of coding agents over JSON-RPC on a WebSocket, for rich clients on the same machine.",
    };
    let types: [(&str, SchemaOf); 3] = [
        ("AgentEvent", |generator| generator.subschema_for::<AgentEvent>()),
        ("Session", |generator| generator.subschema_for::<Session>()),
        ("ErrorCode", |generator| generator.subschema_for::<ErrorCode>()),
    ];
    let types = types.map(|(name, of)| (name.to_owned(), Direction::Written, of));
    Ok(vec![
        ("lich.openrpc.json", openrpc::document(&lich, lich::ROWS, lich::NOTIFICATIONS)?),
        ("larik.openapi.json", larik::openapi(VERSION)?),
        ("sepia.openrpc.json", sepia::openrpc(VERSION)?),
        ("types.schema.json", schemas::bundle("urn:triplane:types", "Events and sessions", &types)?),
    ])
}

/// As text.
fn documents(values: &[(&'static str, Value)]) -> Result<Vec<Document>, String> {
    let text = |value: &Value| serde_json::to_string_pretty(value).map_err(|error| error.to_string());
    values.iter().map(|(name, value)| Ok(((*name).to_owned(), text(value)? + "\n"))).collect()
}

fn write(out: &Path, documents: &[Document], tell: &mut impl Write) -> Result<Exit, CommandError> {
    for (name, text) in documents {
        let path = out.join(name);
        let failed = || CommandError::io(format!("writing {}", path.display()));
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed())?;
        }
        fs::write(&path, text).map_err(failed())?;
        writeln!(tell, "{}", path.display()).map_err(CommandError::io("printing"))?;
    }
    Ok(Exit::Done)
}

fn check(out: &Path, documents: &[Document], tell: &mut impl Write) -> Result<Exit, CommandError> {
    let mut exit = Exit::Done;
    for (name, text) in documents {
        let path = out.join(name);
        if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            writeln!(tell, "{}", path.display()).map_err(CommandError::io("printing"))?;
            exit = Exit::Failed;
        }
    }
    if exit == Exit::Failed {
        anstream::eprintln!("triplane: the files above differ from what this version writes");
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_documents_are_what_the_tables_say() {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/schema");
        let mut differing = Vec::new();
        check(&committed, &documents(&values().unwrap()).unwrap(), &mut differing).unwrap();
        let differing = String::from_utf8(differing).unwrap();
        assert_eq!(differing, "", "run: cargo run -- schema --out protocol/schema");
    }

    #[test]
    fn the_committed_pages_are_what_the_tables_say() {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let mut differing = Vec::new();
        check(&committed, &pages(&values().unwrap()).unwrap(), &mut differing).unwrap();
        let differing = String::from_utf8(differing).unwrap();
        assert_eq!(differing, "", "run: cargo run -- schema --docs docs");
    }

    #[test]
    fn what_was_written_checks_and_a_change_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let documents = [("a.json".to_owned(), "1".to_owned()), ("b/c.json".to_owned(), "2".to_owned())];
        assert_eq!(check(dir.path(), &documents, &mut Vec::new()).unwrap(), Exit::Failed);
        assert_eq!(write(dir.path(), &documents, &mut Vec::new()).unwrap(), Exit::Done);
        assert_eq!(check(dir.path(), &documents, &mut Vec::new()).unwrap(), Exit::Done);
        fs::write(dir.path().join("b/c.json"), "3").unwrap();
        assert_eq!(check(dir.path(), &documents, &mut Vec::new()).unwrap(), Exit::Failed);
    }
}
