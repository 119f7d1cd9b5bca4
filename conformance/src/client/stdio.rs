//! The lines of a child's stdin and stdout, for sepia. Lines end at LF and at nothing else; every line must be UTF-8.

use crate::verdict::{Outcome, Stop, shorten};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    time::timeout,
};

/// Both ends of a child.
#[derive(Debug)]
pub struct Lines {
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    partial: Vec<u8>,
    deadline: Duration,
}

/// What came next on a child's stdout.
#[derive(Debug)]
pub enum Line {
    /// A line, without its end.
    Text(String),
    /// The end of the output.
    End,
}

impl Lines {
    /// Takes over the pipes of a child.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout, deadline: Duration) -> Self {
        Self { stdin: Some(stdin), stdout: BufReader::new(stdout), partial: Vec::new(), deadline }
    }

    /// Writes bytes as they are. A child that has closed its stdin is no failure here.
    pub async fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        let Some(stdin) = &mut self.stdin else { return Err(Stop::harness("stdin is closed already")) };
        let write = async {
            stdin.write_all(bytes).await?;
            stdin.flush().await
        };
        match timeout(self.deadline, write).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stop::broke(format!("{} bytes were not taken within {:?}", bytes.len(), self.deadline))),
        }
    }

    /// Writes what the child takes within `wait`: how many bytes that was.
    pub async fn some_bytes(&mut self, bytes: &[u8], wait: Duration) -> Outcome<usize> {
        let Some(stdin) = &mut self.stdin else { return Err(Stop::harness("stdin is closed already")) };
        match timeout(wait, stdin.write(bytes)).await {
            Ok(taken) => taken.map_err(|err| Stop::broke(format!("stdin was closed: {err}"))),
            Err(_) => Ok(0),
        }
    }

    /// Writes one line.
    pub async fn line(&mut self, text: &str) -> Outcome {
        self.bytes(format!("{text}\n").as_bytes()).await
    }

    /// Closes the child's stdin.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// What comes next; `None` when nothing does for `wait`.
    pub async fn next(&mut self, wait: Duration) -> Outcome<Option<Line>> {
        // `read_until` keeps what it has read in `partial` when it is dropped midway.
        let read = match timeout(wait, self.stdout.read_until(b'\n', &mut self.partial)).await {
            Err(_) => return Ok(None),
            Ok(read) => read.map_err(Stop::harness)?,
        };
        let mut line = std::mem::take(&mut self.partial);
        if line.pop() != Some(b'\n') {
            if read == 0 && line.is_empty() {
                return Ok(Some(Line::End));
            }
            let rest = String::from_utf8_lossy(&line).into_owned();
            return Err(Stop::Broke {
                clause: Some("S01"),
                seen: format!("the output ended within a line: {}", shorten(&rest)),
            });
        }
        match String::from_utf8(line) {
            Ok(text) => Ok(Some(Line::Text(text))),
            Err(err) => Err(Stop::Broke { clause: Some("S01"), seen: format!("a line that is no UTF-8: {err}") }),
        }
    }
}
