//! A command of somebody else's that speaks sepia: started afresh for each case, in directories of the case's own, and killed
//! with its group when the case is over. It is judged by its frames alone; what it leaves behind is cleared up in silence.

use super::{
    process::{self, MARKER},
    server::{Tail, Trail, mark},
};
use crate::{
    client::stdio::Lines,
    verdict::{Outcome, Stop, shorten},
};
use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{process::Child, time::timeout};

/// A command line, and what its environment has beside the runner's own.
#[derive(Debug, Clone)]
pub struct Command {
    /// As it was typed.
    text: String,
    program: OsString,
    args: Vec<OsString>,
    /// Where a model is, and the like.
    pub env: Vec<(String, String)>,
}

impl Command {
    /// Splits a command line as a shell does. Cases run it in directories of their own, so a word that names a file of `here`
    /// is made absolute. Errors: an open quote, or nothing at all.
    pub fn parse(text: &str, here: &Path) -> Result<Self, String> {
        let words = shlex::split(text).ok_or_else(|| format!("{text}: a quote is not closed"))?;
        let absolute = |word: &String| {
            let path = here.join(word);
            if !word.is_empty() && path.is_file() { path.into_os_string() } else { word.into() }
        };
        // The program is looked up in `$PATH` unless it has a slash.
        let program = words.first().ok_or("an empty command")?;
        let program = if program.contains('/') { absolute(program) } else { program.into() };
        let args = words.iter().skip(1).map(absolute).collect();
        Ok(Self { text: text.to_owned(), program, args, env: Vec::new() })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// It, running.
#[derive(Debug)]
pub struct Foreign {
    child: Child,
    pid: u32,
    mark: String,
    stderr: Tail,
    pipes: Option<Lines>,
}

impl Foreign {
    /// Starts it in `work`, with `home` as its `$HOME`, `$TRIPLANE_HOME` and `$SEPIA_HOME`.
    pub fn start(command: &Command, work: &Path, home: &Path, deadline: Duration) -> Outcome<Self> {
        let mark = mark();
        let plane: PathBuf = home.join(".triplane");
        let mut child = tokio::process::Command::new(&command.program)
            .args(&command.args)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .env("HOME", home)
            .env("TRIPLANE_HOME", &plane)
            .env("SEPIA_HOME", &plane)
            .env(MARKER, &mark)
            .current_dir(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|err| Stop::harness(format!("{command}: does not start: {err}")))?;
        let missing = || Stop::harness("the child has no pipes");
        let pid = child.id().ok_or_else(missing)?;
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        // The reader ends with the last process that holds the pipe; all of them are killed below.
        let (stderr, _reader) = Tail::follow(child.stderr.take().ok_or_else(missing)?);
        Ok(Self { child, pid, mark, stderr, pipes: Some(Lines::new(stdin, stdout, deadline)) })
    }

    /// Its stdin and stdout; they can be taken once.
    pub fn take_pipes(&mut self) -> Outcome<Lines> {
        self.pipes.take().ok_or_else(|| Stop::harness("the stdio wire is taken already"))
    }

    /// How it ended, if it does within `wait`, and what it said on stderr.
    pub async fn ended(&mut self, wait: Duration) -> (Option<ExitStatus>, String) {
        let status = timeout(wait, self.child.wait()).await.ok().and_then(Result::ok);
        (status, shorten(self.stderr.text().trim_end()))
    }

    /// What the runner looks at when the case is over.
    pub fn trail(&self) -> Trail {
        Trail { mark: self.mark.clone(), stdout: None, stderr: self.stderr.clone(), ready: 0 }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            process::kill_group(self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_files_are_made_absolute() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("fake.py"), "").unwrap();
        let command = Command::parse("python3 fake.py --name 'two words' other.py", dir.path()).unwrap();
        let file = dir.path().join("fake.py").into_os_string();
        assert_eq!(command.program, "python3");
        assert_eq!(command.args, [file, "--name".into(), "two words".into(), "other.py".into()]);
        assert!(Command::parse("x 'y", dir.path()).is_err());
        assert!(Command::parse("  ", dir.path()).is_err());
    }
}
