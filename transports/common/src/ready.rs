//! The ready line: one JSON line that a parent process waits for.
//! Invariant: written once, in one piece, and flushed; nothing else of ours is ever written there. Clause: C07.

use serde::Serialize;
use std::io::{self, Write};

/// Where a transport says, once, that it accepts connections.
pub struct ReadyLine(Box<dyn Write + Send>);

impl std::fmt::Debug for ReadyLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadyLine(..)")
    }
}

impl ReadyLine {
    /// The usual place.
    pub fn stdout() -> Self {
        Self::to(io::stdout())
    }

    /// Where it goes when stdout is a wire.
    pub fn stderr() -> Self {
        Self::to(io::stderr())
    }

    /// Somewhere else.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Writes `line` as one JSON line and flushes it. Errors: whoever started us is gone.
    pub fn announce(mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.0.write_all(&text)?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.lock().unwrap().push("(flushed)".into());
            Ok(())
        }
    }

    #[test]
    fn one_line_in_one_write_then_flushed() {
        let log = Log::default();
        ReadyLine::to(log.clone()).announce(&serde_json::json!({"port": 1, "token": "a\nb"})).unwrap();
        assert_eq!(*log.0.lock().unwrap(), ["{\"port\":1,\"token\":\"a\\nb\"}\n", "(flushed)"]);
    }
}
