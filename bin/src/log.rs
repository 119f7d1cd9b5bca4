//! Logs: to stderr, one event a line, control characters escaped, whatever the fields hold; and panics, through the same path.
//! Clauses: C07 (stdout is never touched).

use crate::plain;
use std::io::{self, Write};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::MakeWriter,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Starts logging. `$TRIPLANE_LOG`, else `$RUST_LOG`, says how much; the default is `warn`, also for a text that makes no sense.
pub(crate) fn start() {
    let found = targets(&|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let (targets, complaint) = match found {
        Ok(targets) => (targets, None),
        Err(complaint) => (Targets::new().with_default(tracing::Level::WARN), Some(complaint)),
    };
    // The library logs whole bodies of providers, which may repeat a key; what matters of them is told as an error.
    let targets = targets.with_target("genai", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Lines(io::stderr));
    // Fails only when a subscriber is already set; then that one logs.
    let _ = tracing_subscriber::registry().with(targets).with(lines).try_init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let what = panic.payload_as_str().unwrap_or("(no text)");
        tracing::error!(place, thread = thread.name().unwrap_or("?"), "panic: {what}");
    }));
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
}

fn targets(variable: &dyn Fn(&str) -> Option<String>) -> Result<Targets, String> {
    let found = ["TRIPLANE_LOG", "RUST_LOG"].into_iter().find_map(|name| Some((name, variable(name)?)));
    match found {
        Some((name, text)) => {
            text.parse().map_err(|error| format!("${name}: {error}; write it like `info` or `triplane_core=debug`"))
        }
        None => Ok(Targets::new().with_default(tracing::Level::WARN)),
    }
}

/// Makes one line of each event. The formatter hands over an event whole, its end of line last.
struct Lines<M>(M);

impl<'a, M, W> MakeWriter<'a> for Lines<M>
where
    M: Fn() -> W + 'a,
    W: Write,
{
    type Writer = Line<W>;

    fn make_writer(&'a self) -> Line<W> {
        Line((self.0)())
    }
}

struct Line<W>(W);

impl<W: Write> Write for Line<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let mut line = plain::line(text.strip_suffix('\n').unwrap_or(&text)).into_owned();
        line.push('\n');
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_field_cannot_forge_a_line() {
        let sink = Sink::default();
        let make = sink.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Lines(move || make.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(title = "x\nERROR forged \u{1b}[2J", "a\nb");
            tracing::warn!("second");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.ends_with("second\n"));
    }

    #[test]
    fn ours_goes_before_rust_log_and_warn_is_the_default() {
        let warn = targets(&|_| None).unwrap();
        assert!(warn.would_enable("triplane_core", &tracing::Level::WARN));
        assert!(!warn.would_enable("triplane_core", &tracing::Level::INFO));
        let both =
            targets(&|name| Some(if name == "RUST_LOG" { "off" } else { "triplane_ws=trace" }.to_owned())).unwrap();
        assert!(both.would_enable("triplane_ws", &tracing::Level::TRACE));
        let error = targets(&|name| (name == "RUST_LOG").then(|| "triplane=loud".to_owned())).unwrap_err();
        assert!(error.starts_with("$RUST_LOG: "), "{error}");
    }
}
