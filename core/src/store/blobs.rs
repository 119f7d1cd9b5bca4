//! Contents of files by their hash, for checkpoints. Written once, never changed, verified when read. Clauses: C16, H22.

use super::{error::StoreError, files};
use std::{
    io::{self, Read},
    path::PathBuf,
};

/// The blob directory. A blob's name is the blake3 hash of its content, 64 hex digits.
#[derive(Debug, Clone)]
pub struct Blobs {
    dir: PathBuf,
    max_bytes: u64,
}

impl Blobs {
    /// Blobs in `dir` (made with the first one), each of at most `max_bytes`.
    pub fn new(dir: PathBuf, max_bytes: u64) -> Self {
        Self { dir, max_bytes }
    }

    /// Stores `content` and answers with its hash; safe from a power cut when it returns. Blocking. Errors: `TooLarge`, `Io`.
    pub fn put(&self, content: &[u8]) -> Result<String, StoreError> {
        self.check(content.len() as u64)?;
        let name = hash(content);
        let path = self.dir.join(&name);
        if let Ok(file) = files::open(&path, files::Access::Read)
            && file.metadata().is_ok_and(|meta| meta.len() == content.len() as u64)
        {
            return Ok(name);
        }
        files::private_dir(&self.dir).map_err(StoreError::io("making the blob directory"))?;
        files::write_atomic(&path, content).map_err(StoreError::io("writing a blob"))?;
        Ok(name)
    }

    /// The content of a hash. Blocking. Errors: `NotFound`; `Corrupt` when the content is not what was stored; `TooLarge`.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let missing = || StoreError::Corrupt(format!("the saved content {} is missing", name.escape_debug()));
        if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(missing());
        }
        let reading = StoreError::io("reading a blob");
        let file = match files::open(&self.dir.join(name), files::Access::Read) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(err) => return Err(reading(err)),
        };
        let mut content = Vec::new();
        file.take(self.max_bytes + 1).read_to_end(&mut content).map_err(reading)?;
        self.check(content.len() as u64)?;
        if hash(&content) == name {
            Ok(content)
        } else {
            Err(StoreError::Corrupt(format!("the saved content {name} is damaged")))
        }
    }

    fn check(&self, bytes: u64) -> Result<(), StoreError> {
        let limit = self.max_bytes;
        if bytes > limit { Err(StoreError::TooLarge { what: "a file's saved content", bytes, limit }) } else { Ok(()) }
    }
}

/// The hash that [`Blobs::put`] would answer with.
pub fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_blob_comes_back_as_it_was_put() {
        let temp = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(temp.path().join("blobs"), 100);
        let name = blobs.put(b"\0\xffcontent").unwrap();
        assert_eq!(blobs.put(b"\0\xffcontent").unwrap(), name);
        assert_eq!(blobs.get(&name).unwrap(), b"\0\xffcontent");
        assert_eq!(blobs.get(&blobs.put(b"").unwrap()).unwrap(), b"");
        assert_eq!(fs::read_dir(temp.path().join("blobs")).unwrap().count(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(temp.path().join("blobs")), 0o700);
            assert_eq!(mode(temp.path().join("blobs").join(name)), 0o600);
        }
    }

    #[test]
    fn damage_and_foreign_names_are_told() {
        let temp = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(temp.path().into(), 100);
        let name = blobs.put(b"content").unwrap();
        fs::write(temp.path().join(&name), "cOntent").unwrap();
        for bad in [name.as_str(), "../secret", "", &"A".repeat(64), &hash(b"other")] {
            assert!(matches!(blobs.get(bad), Err(StoreError::Corrupt(_))), "{bad}");
        }
        fs::write(temp.path().join(&name), "cont").unwrap();
        assert_eq!(blobs.put(b"content").unwrap(), name, "a torn blob is written again");
        assert_eq!(blobs.get(&name).unwrap(), b"content");
    }

    #[test]
    fn a_blob_over_the_cap_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(temp.path().into(), 4);
        assert!(matches!(blobs.put(b"12345"), Err(StoreError::TooLarge { bytes: 5, limit: 4, .. })));
        blobs.put(b"1234").unwrap();
    }
}
