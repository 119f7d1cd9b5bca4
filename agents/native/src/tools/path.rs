//! Where a path of the model really leads: symlinks resolved, also those of the directories above a file that is not there yet.
//! Invariant: a [`Place`]'s real path has no symlink in it at the time of the look; [`super::files`] refuses one that came later.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// A path that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Absolute; no symlinks.
    pub(super) real: PathBuf,
    /// Whether it lies outside the session's directory.
    pub(super) outside: bool,
    /// Relative to the session's directory where inside, else absolute.
    pub(super) shown: String,
}

/// Looks `text` up against `cwd`, which is resolved already. The error names `field`.
pub(super) fn resolve(cwd: &Path, field: &str, text: &str) -> Result<Place, String> {
    if text.is_empty() {
        return Err(format!("{field}: must not be empty"));
    }
    if text.contains('\0') {
        return Err(format!("{field}: must not contain NUL"));
    }
    let real = real_path(&cwd.join(text)).map_err(|why| format!("{field}: {text}: {why}"))?;
    let inside = real.strip_prefix(cwd).ok();
    let shown = match inside {
        Some(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Some(relative) => relative.to_string_lossy().into_owned(),
        None => real.to_string_lossy().into_owned(),
    };
    Ok(Place { outside: inside.is_none(), shown, real })
}

/// The deepest part that exists, resolved, and the rest behind it.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    let mut missing = Vec::new();
    let mut at = path;
    let mut real = loop {
        match at.canonicalize() {
            Ok(real) => break real,
            Err(err) if err.kind() == ErrorKind::NotFound => {}
            Err(err) => return Err(err.to_string()),
        }
        if at.symlink_metadata().is_ok() {
            return Err("a symlink on the way leads to nothing".to_owned());
        }
        let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else {
            return Err("`..` behind a directory that does not exist".to_owned());
        };
        missing.push(name);
        at = parent;
    };
    real.extend(missing.iter().rev());
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn symlinks_and_dots_cannot_hide_where_a_path_leads() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let cwd = root.join("in");
        std::fs::create_dir_all(cwd.join("sub")).unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        std::fs::write(cwd.join("sub/f"), "x").unwrap();
        symlink(root.join("out"), cwd.join("away")).unwrap();
        symlink("sub", cwd.join("near")).unwrap();
        symlink("nothing", cwd.join("dangling")).unwrap();
        symlink("loop", cwd.join("loop")).unwrap();
        let out = root.join("out").to_string_lossy().into_owned();
        let inside = |text: &str| Ok((false, text.to_owned()));
        let outside = |text: String| Ok((true, text));
        let rows = [
            (".".to_owned(), inside(".")),
            ("sub/f".to_owned(), inside("sub/f")),
            ("./sub/../sub/f".to_owned(), inside("sub/f")),
            ("near/f".to_owned(), inside("sub/f")),
            ("new/deep/file".to_owned(), inside("new/deep/file")),
            ("near/new".to_owned(), inside("sub/new")),
            (cwd.join("sub").to_string_lossy().into_owned(), inside("sub")),
            ("away".to_owned(), outside(out.clone())),
            ("away/new/file".to_owned(), outside(format!("{out}/new/file"))),
            ("near/../../out/x".to_owned(), outside(format!("{out}/x"))),
            ("../in-not".to_owned(), outside(root.join("in-not").to_string_lossy().into_owned())),
            ("new/../../x".to_owned(), Err(())),
            ("dangling".to_owned(), Err(())),
            ("dangling/x".to_owned(), Err(())),
            ("loop".to_owned(), Err(())),
            ("sub/f/x".to_owned(), Err(())),
            (String::new(), Err(())),
            ("a\0b".to_owned(), Err(())),
        ];
        for (text, expected) in rows {
            let found = resolve(&cwd, "path", &text);
            if let Err(err) = &found {
                assert!(err.starts_with("path: "), "{err}");
            }
            assert_eq!(found.map(|p| (p.outside, p.shown)).map_err(drop), expected, "{text:?}");
        }
    }
}
