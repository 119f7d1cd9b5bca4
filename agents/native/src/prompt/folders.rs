//! Skills and slash commands from the project's and the user's folders: `.triplane`, `.agents`, `.claude`, in this order.
//! A skill is `skills/NAME/SKILL.md`; the model is told what there is and reads the one that fits. A command is `commands/NAME.md`;
//! a prompt that begins with `/NAME` stands for its text.
//! Invariants: only plain files of bounded size and number; the project's go before the user's, the first of a name counts.

use super::instructions::{directories, plain_file};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const FOLDERS: &[&str] = &[".triplane", ".agents", ".claude"];

/// Skills that a model is told of.
const SKILLS: usize = 64;

/// Characters of a skill's description.
const DESCRIPTION: usize = 400;

/// What `$ARGUMENTS` is in a command's text.
const ARGUMENTS: &str = "$ARGUMENTS";

/// The folders that there are, nearest first.
fn folders(cwd: &Path, user: Option<&Path>) -> Vec<PathBuf> {
    let near = directories(cwd).into_iter().rev().chain(user);
    near.flat_map(|place| FOLDERS.iter().map(|name| place.join(name))).filter(|folder| folder.is_dir()).collect()
}

/// One line a skill, or nothing.
pub(super) fn skills(cwd: &Path, user: Option<&Path>) -> String {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders(cwd, user) {
        let Ok(entries) = std::fs::read_dir(folder.join("skills")) else { continue };
        for entry in entries.flatten() {
            let Some((path, text)) = plain_file(&entry.path().join("SKILL.md")) else { continue };
            let name = field(&text, "name").unwrap_or_else(|| entry.file_name().to_string_lossy().into_owned());
            if found.len() < SKILLS && !found.contains_key(&name) {
                let about: String = field(&text, "description").unwrap_or_default().chars().take(DESCRIPTION).collect();
                found.insert(name.clone(), format!("- {name}: {about} ({})\n", path.display()));
            }
        }
    }
    found.into_values().collect()
}

/// A member of the lines between `---` at the head of a file.
fn field(text: &str, name: &str) -> Option<String> {
    let (head, _) = parted(text)?;
    let line = head.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    let value = line.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// Head and body of a file with a head.
fn parted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("---\n")?
        .split_once("\n---")
        .map(|(head, body)| (head, body.trim_start_matches('-').trim_start()))
}

/// What a prompt stands for, when it begins with the name of a command.
pub(crate) fn command(cwd: &Path, user: Option<&Path>, prompt: &str) -> Option<String> {
    let (name, arguments) = prompt.strip_prefix('/')?.split_once(char::is_whitespace).unwrap_or((prompt.get(1..)?, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return None;
    }
    let file = PathBuf::from(format!("{}.md", name.replace(':', "/")));
    let mut folders = folders(cwd, user).into_iter();
    let (_, text) = folders.find_map(|folder| plain_file(&folder.join("commands").join(&file)))?;
    let body = parted(&text).map_or(text.as_str(), |(_, body)| body);
    let arguments = arguments.trim();
    Some(match (body.contains(ARGUMENTS), arguments.is_empty()) {
        (true, _) => body.replace(ARGUMENTS, arguments),
        (false, true) => body.to_owned(),
        (false, false) => format!("{body}\n\n{arguments}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_are_listed_and_the_projects_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("work/.agents/skills/fly/SKILL.md", "---\nname: fly\ndescription: \"How to fly\"\n---\nFlap.");
        write("work/.claude/skills/swim/SKILL.md", "no head");
        write("user/.triplane/skills/fly/SKILL.md", "---\nname: fly\ndescription: other\n---\n");
        write("user/.claude/commands/ship.md", "---\ndescription: x\n---\nShip $ARGUMENTS now.");
        write("user/.claude/commands/deep/down.md", "Down.");
        write("work/.triplane/commands/ask.md", "Ask well.");
        let (work, user) = (dir.path().join("work"), dir.path().join("user"));
        let text = skills(&work, Some(&user));
        assert!(text.starts_with("- fly: How to fly (") && text.contains("\n- swim:  ("), "{text}");
        assert!(!text.contains("other"), "{text}");
        let command = |prompt| command(&work, Some(&user), prompt);
        assert_eq!(command("/ship  it all").unwrap(), "Ship it all now.");
        assert_eq!(command("/ask").unwrap(), "Ask well.");
        assert_eq!(command("/ask me").unwrap(), "Ask well.\n\nme");
        assert_eq!(command("/deep:down").unwrap(), "Down.");
        for none in ["ask", "/", "/nope", "/../ask", "/ask/../ask", "/say hi"] {
            assert_eq!(command(none), None, "{none}");
        }
    }
}
