//! Rules saved by `always`: one readable file a project, `<project>/.triplane/permissions.toml`, written atomically.
//! Invariant: a file that cannot be read is left as it is, and until it can be, no rule allows anything. Clauses: H21, C16.

use crate::store::files;
use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

const HEAD: &str = "# Permission rules of this project. The first rule that refuses wins, then the first that allows.\n\
# `pattern` is a glob over the command, or over the path relative to the project; `*` also matches `/`.\n\n";

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool that it is about.
    pub tool: String,
    /// Glob over the call's subject.
    pub pattern: String,
    /// Whether such calls go ahead.
    pub allow: bool,
}

impl Rule {
    /// A rule for exactly this call.
    pub fn exactly(tool: &str, subject: &str, allow: bool) -> Self {
        Self { tool: tool.to_owned(), pattern: globset::escape(subject), allow }
    }

    fn fits(&self, tool: &str, subject: &str) -> bool {
        self.tool == tool
            && GlobBuilder::new(&self.pattern)
                .literal_separator(false)
                .build()
                .is_ok_and(|glob| glob.compile_matcher().is_match(subject))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Rule>,
}

/// The rules of one project.
#[derive(Debug)]
pub struct Rules {
    path: PathBuf,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    stamp: Option<(SystemTime, u64)>,
    rules: Vec<Rule>,
    fault: Option<String>,
}

impl Rules {
    fn new(project: &Path) -> Self {
        Self { path: project.join(".triplane").join("permissions.toml"), cache: Mutex::default() }
    }

    /// What the rules say of a call: refuse, allow, or nothing. `Err` when the file cannot be read.
    pub fn find(&self, tool: &str, subject: &str) -> Result<Option<bool>, String> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut cache);
        if let Some(fault) = &cache.fault {
            return Err(fault.clone());
        }
        let fitting = cache.rules.iter().filter(|rule| rule.fits(tool, subject)).map(|rule| rule.allow);
        Ok(fitting.reduce(|all, one| all && one))
    }

    /// Adds a rule and writes the file. Errors: one line; then nothing was changed.
    pub fn save(&self, rule: Rule) -> Result<(), String> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut cache);
        if let Some(fault) = &cache.fault {
            return Err(fault.clone());
        }
        if cache.rules.contains(&rule) {
            return Ok(());
        }
        let mut rules = cache.rules.clone();
        rules.push(rule);
        let body = toml::to_string(&File { rule: rules.clone() }).map_err(|error| error.to_string())?;
        let dir = self.path.parent().ok_or("the rules have no directory")?;
        files::private_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        files::write_atomic(&self.path, format!("{HEAD}{body}").as_bytes())
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        cache.rules = rules;
        cache.stamp = stamp(&self.path);
        Ok(())
    }

    /// Reads the file again if it changed: another process, or a person, may have written it.
    fn refresh(&self, cache: &mut Cache) {
        let now = match std::fs::metadata(&self.path) {
            Ok(meta) => Some((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                cache.fault = Some(format!("{}: {error}", self.path.display()));
                return;
            }
        };
        if now == cache.stamp && cache.fault.is_none() {
            return;
        }
        let read = match now {
            None => Ok(File::default()),
            Some(_) => std::fs::read_to_string(&self.path)
                .map_err(|error| error.to_string())
                .and_then(|text| toml::from_str::<File>(&text).map_err(|error| error.message().to_owned())),
        };
        match read {
            Ok(file) => *cache = Cache { stamp: now, rules: file.rule, fault: None },
            Err(why) => {
                let fault = format!("{}: {why}", self.path.display());
                tracing::warn!("{fault}; nothing is allowed by a rule until it can be read");
                cache.fault = Some(fault);
            }
        }
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// The rules of every project that a live session works in.
#[derive(Debug, Default)]
pub struct RuleBook {
    projects: Mutex<HashMap<PathBuf, Arc<Rules>>>,
}

impl RuleBook {
    /// The rules of `project`; shared by its sessions.
    pub fn of(&self, project: &Path) -> Arc<Rules> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.retain(|path, rules| path == project || Arc::strong_count(rules) > 1);
        projects.entry(project.to_owned()).or_insert_with(|| Arc::new(Rules::new(project))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_rule_holds_exactly_and_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules::new(dir.path());
        assert_eq!(rules.find("bash", "rm *"), Ok(None));
        rules.save(Rule::exactly("bash", "rm *", true)).unwrap();
        for rules in [rules, Rules::new(dir.path())] {
            assert_eq!(rules.find("bash", "rm *"), Ok(Some(true)));
            assert_eq!(rules.find("bash", "rm x"), Ok(None));
            assert_eq!(rules.find("write", "rm *"), Ok(None));
        }
    }

    #[test]
    fn refusal_wins_and_an_edit_by_hand_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules::new(dir.path());
        rules.save(Rule::exactly("bash", "make", true)).unwrap();
        let path = dir.path().join(".triplane/permissions.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "\n[[rule]]\ntool = \"bash\"\npattern = \"m*\"\nallow = false\n").unwrap();
        assert_eq!(rules.find("bash", "make"), Ok(Some(false)));
    }

    #[test]
    fn a_broken_file_fails_closed_and_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules::new(dir.path());
        rules.save(Rule::exactly("bash", "make", true)).unwrap();
        let path = dir.path().join(".triplane/permissions.toml");
        std::fs::write(&path, "[[rule]\n").unwrap();
        assert!(rules.find("bash", "make").is_err());
        assert!(rules.save(Rule::exactly("bash", "x", true)).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[[rule]\n");
    }
}
