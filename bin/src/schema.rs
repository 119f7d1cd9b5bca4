//! `triplane schema`: the documents that the method tables generate, written or compared.

use crate::{
    cli::SchemaArgs,
    exit::{CommandError, Exit},
};
use std::{fs, io::Write, path::Path};

/// A document: its path under the output directory, and its text.
type Document = (String, String);

/// Writes the documents, or with `--check` names those that differ.
pub(crate) fn run(args: &SchemaArgs) -> Result<Exit, CommandError> {
    let documents = documents();
    let mut stdout = anstream::stdout();
    if args.check { check(&args.out, &documents, &mut stdout) } else { write(&args.out, &documents, &mut stdout) }
}

fn documents() -> Vec<Document> {
    Vec::new()
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
