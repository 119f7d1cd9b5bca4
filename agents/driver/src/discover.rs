//! Which programs are drivers: executables named `triplane-driver-NAME` or `sepia-driver-NAME`, in a directory of their own and
//! on the path. The first of a name counts, as with any command. Runs none of them. Clause: S31.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// What the names of drivers begin with, ours first.
const PREFIXES: &[&str] = &["triplane-driver-", "sepia-driver-"];

/// The longest name that is taken; it is typed by people.
const NAME_BYTES: usize = 64;

/// A driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The agent's name: what follows the prefix.
    pub name: String,
    /// The program.
    pub path: PathBuf,
}

/// The drivers in `dirs`, in their order, and in order of name within each. A directory that cannot be read has none.
pub fn discover(dirs: &[PathBuf]) -> Vec<Found> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    // An empty or relative entry of a path means wherever one happens to stand: nothing is run from there.
    for dir in dirs.iter().filter(|dir| dir.is_absolute()) {
        let mut here = of(dir);
        here.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        for (name, _, path) in here {
            if seen.insert(name.clone()) {
                found.push(Found { name, path });
            }
        }
    }
    found
}

/// Name, index of the prefix and path of each driver in a directory.
fn of(dir: &Path) -> Vec<(String, usize, PathBuf)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let driver = |entry: fs::DirEntry| {
        let file = entry.file_name();
        let file = file.to_str()?;
        let (index, name) =
            PREFIXES.iter().enumerate().find_map(|(i, prefix)| Some((i, file.strip_prefix(prefix)?)))?;
        let meta = fs::metadata(entry.path()).ok()?;
        let runs = meta.is_file() && meta.permissions().mode() & 0o111 != 0;
        (runs && is_name(name)).then(|| (name.to_owned(), index, entry.path()))
    };
    entries.filter_map(|entry| driver(entry.ok()?)).collect()
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    begins && name.len() <= NAME_BYTES && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_only_programs_do() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, mode: u32| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        put("own/sepia-driver-a", 0o755);
        put("own/triplane-driver-a", 0o755);
        put("own/triplane-driver-text", 0o644);
        put("own/triplane-driver-", 0o755);
        put("own/triplane-driver--x", 0o755);
        put("own/triplane-driver-a b", 0o755);
        put("own/other", 0o755);
        fs::create_dir(dir.path().join("own/triplane-driver-folder")).unwrap();
        put("path/triplane-driver-a", 0o755);
        put("path/sepia-driver-b", 0o755);
        let dirs = ["own", "missing", "path"].map(|name| dir.path().join(name));
        let found: Vec<(String, String)> = discover(&[&dirs[..], &["".into(), ".".into()]].concat())
            .into_iter()
            .map(|found| (found.name, found.path.strip_prefix(dir.path()).unwrap().display().to_string()))
            .collect();
        let expected = [("a", "own/triplane-driver-a"), ("b", "path/sepia-driver-b")];
        assert_eq!(found, expected.map(|(name, path)| (name.to_owned(), path.to_owned())));
    }
}
