//! The project's instructions: `AGENTS.md`, or `CLAUDE.md` where there is none, from the repository's root down to the
//! working directory. Outside of a repository only the directory itself is looked at: what lies above may be anybody's.
//! Invariant: at most [`TOTAL_BYTES`] in all; a cut is marked; only plain files are read.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The most that all files together give.
pub(super) const TOTAL_BYTES: usize = 64 * 1024;
/// Directories that are looked at; a repository is not deeper.
const DIRECTORIES: usize = 32;
/// In the order of preference.
const NAMES: &[&str] = &["AGENTS.md", "CLAUDE.md"];
/// In the user's home.
const USER: &[&str] = &[".triplane/AGENTS.md", ".claude/CLAUDE.md"];

/// All instructions that hold in `cwd`, each under its path; those of the `user`, if the home is known, first.
pub(super) fn read(cwd: &Path, user: Option<&Path>) -> String {
    let mut text = String::new();
    let own = user.and_then(|user| USER.iter().find_map(|name| plain_file(&user.join(name))));
    let project = directories(cwd).into_iter();
    let project = project.filter_map(|directory| NAMES.iter().find_map(|name| plain_file(&directory.join(name))));
    for (path, found) in own.into_iter().chain(project) {
        let left = TOTAL_BYTES.saturating_sub(text.len());
        if left == 0 {
            break;
        }
        text.push_str(&format!(
            "\n<instructions path=\"{}\">\n{}\n</instructions>\n",
            path.display(),
            cut(&found, left)
        ));
    }
    text
}

/// From the repository's root down.
pub(super) fn directories(cwd: &Path) -> Vec<&Path> {
    let up: Vec<&Path> = cwd.ancestors().take(DIRECTORIES).collect();
    let root = up.iter().position(|directory| directory.join(".git").exists());
    let mut down = up.get(..=root.unwrap_or(0)).unwrap_or_default().to_vec();
    down.reverse();
    down
}

pub(super) fn plain_file(path: &Path) -> Option<(PathBuf, String)> {
    // A pipe of this name would block for ever.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(TOTAL_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some((path.to_owned(), String::from_utf8_lossy(&bytes).trim().to_owned()))
}

fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[cut: the file is longer]", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_repository_are_read_from_its_root_down() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("outside/repo/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join("outside").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("AGENTS.md", "not ours");
        write("repo/CLAUDE.md", "root");
        write("repo/a/AGENTS.md", "middle");
        write("repo/a/CLAUDE.md", "passed over");
        write("repo/a/b/AGENTS.md", "deep");
        let own = read(&deep, None);
        assert!(own.contains("deep") && !own.contains("root"), "{own}");
        std::fs::create_dir(dir.path().join("outside/repo/.git")).unwrap();
        write(".triplane/AGENTS.md", "of the user");
        let all = read(&deep, Some(&dir.path().join("outside")));
        assert!(all.find("of the user") < all.find("root"), "{all}");
        let at = |text: &str| all.find(text).unwrap_or(usize::MAX);
        assert!(at("root") < at("middle") && at("middle") < at("deep") && at("deep") < usize::MAX, "{all}");
        assert!(!all.contains("passed over") && !all.contains("not ours"), "{all}");
    }

    #[test]
    fn a_long_file_is_cut_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "é".repeat(TOTAL_BYTES)).unwrap();
        let text = read(dir.path(), None);
        assert!(text.len() < TOTAL_BYTES + 300 && text.contains("[cut: the file is longer]"), "{}", text.len());
    }
}
