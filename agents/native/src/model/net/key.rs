//! A provider's key. Invariant: it leaves this module only for the request's header; `Debug` never shows it.

use std::{io::Read, os::unix::fs::MetadataExt, path::Path, path::PathBuf};

/// A key file is a line; a larger one is a mistake.
const FILE_BYTES: u64 = 16 * 1024;
/// A key that is shorter is too likely a word to be looked for in a text.
const LOOKED_FOR: usize = 6;

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Takes the text without white space around it; `None` when nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text with this key blotted out: providers like to repeat what they refuse.
    pub(super) fn blot(&self, text: &str) -> String {
        if self.0.len() < LOOKED_FOR { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The provider wants none.
    None,
    /// Known.
    Value(Key),
    /// In a file that only its owner can read; read at the first turn.
    File(PathBuf),
    /// It is needed and not there.
    Missing {
        /// What to do about it.
        help: String,
    },
}

impl KeySource {
    /// The key. Errors: one line that names the file and never its content.
    pub(super) fn read(&self) -> Result<Option<Key>, String> {
        match self {
            Self::None => Ok(None),
            Self::Value(key) => Ok(Some(key.clone())),
            Self::File(path) => from_file(path).map(Some),
            Self::Missing { help } => Err(help.clone()),
        }
    }
}

fn from_file(path: &Path) -> Result<Key, String> {
    let failed = |what: &dyn std::fmt::Display| format!("key_file {}: {what}", path.display());
    let meta = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if !meta.is_file() || meta.len() > FILE_BYTES {
        return Err(failed(&"not a file with a key"));
    }
    // What is opened is what is checked.
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mode = file.metadata().map_err(|error| failed(&error))?.mode();
    if mode & 0o077 != 0 {
        return Err(failed(&format!("others can read it (mode {:03o}); chmod 600 it", mode & 0o777)));
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).map_err(|_| failed(&"not text"))?;
    Key::new(&text).ok_or_else(|| failed(&"it is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let read = || KeySource::File(path.clone()).read();
        assert!(read().unwrap_err().contains("key_file"));
        std::fs::write(&path, "  sk-secret-1\n").unwrap();
        for (mode, good) in [(0o644, false), (0o640, false), (0o600, true), (0o400, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read() {
                Ok(key) => assert!(good && key == Key::new("sk-secret-1"), "{mode:o}"),
                Err(error) => assert!(!good && error.contains("chmod 600") && !error.contains("secret"), "{error}"),
            }
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::new("sk-secret-1").unwrap();
        let source = KeySource::Value(key.clone());
        assert!(!format!("{source:?} {key:?}").contains("secret"));
        assert_eq!(key.blot("bad key sk-secret-1!"), "bad key [key]!");
        assert_eq!(Key::new(" \n"), None);
    }
}
