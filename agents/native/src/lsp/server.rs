//! One language server for one directory: started, told of files, asked about them; its end.
//! Invariants: what it is told of a file is what is on the disk; questions about one file are asked after it was told; what it
//! publishes is bounded.

use super::{
    table::{self, LspServer},
    wire::{Heard, Wire},
};
use crate::{
    keeper::Kept,
    proc::piped::{self, Inherit, Launch, Piped},
};
use async_trait::async_trait;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Files that a server is told of at the same time; the one that was told first is closed.
const OPEN_FILES: usize = 64;

/// A larger file is not told.
const FILE_BYTES: u64 = 4 << 20;

/// Files whose problems are kept, and problems of one file.
const REPORTS: usize = 2000;
const PROBLEMS: usize = 200;

/// After a report more may follow at once (syntax first, then types); the last one within this time counts.
const SETTLE: Duration = Duration::from_millis(300);

/// How long an orderly end may take.
const STOP: Duration = Duration::from_secs(2);

/// Path characters that need no percent.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A server, as it is kept.
pub(super) struct Server {
    pub(super) config: LspServer,
    /// The sessions' directory.
    pub(super) root: PathBuf,
    pub(super) shim: Option<PathBuf>,
    pub(super) hidden: Vec<String>,
}

/// A running one.
pub(super) struct Running {
    wire: Wire,
    process: tokio::sync::Mutex<Option<Piped>>,
    /// Held while a file is told, so that versions go up.
    open: tokio::sync::Mutex<Open>,
    reports: Arc<Reports>,
}

#[derive(Default)]
struct Open {
    files: HashMap<PathBuf, File>,
    order: VecDeque<PathBuf>,
}

struct File {
    version: i64,
    content: u64,
}

/// A file that a server was told of.
pub(super) struct Told {
    pub(super) uri: String,
    pub(super) text: String,
    version: i64,
    /// The report before it was told.
    before: u64,
    /// Whether it was new to the server.
    fresh: bool,
}

/// What servers publish.
struct Reports {
    files: Mutex<HashMap<PathBuf, Report>>,
    count: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
struct Report {
    number: u64,
    version: Option<i64>,
    problems: Vec<Value>,
}

impl Reports {
    fn of(&self, path: &Path) -> Option<Report> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn take(&self, params: &Value) {
        let Some(path) = params.get("uri").and_then(Value::as_str).and_then(path_of) else { return };
        let problems = params.get("diagnostics").and_then(Value::as_array);
        let problems: Vec<Value> = problems.into_iter().flatten().take(PROBLEMS).cloned().collect();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= REPORTS && !files.contains_key(&path) {
            return;
        }
        let number = *self.count.borrow() + 1;
        files.insert(path, Report { number, version: params.get("version").and_then(Value::as_i64), problems });
        drop(files);
        self.count.send_replace(number);
    }
}

impl Running {
    /// Tells the server what is in `path` now. Errors: the file cannot be read, or is too large, or no text.
    pub(super) async fn tell(&self, path: &Path) -> Result<Told, String> {
        let text = read(path).await?;
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let (uri, content) = (uri_of(path), hasher.finish());
        let mut open = self.open.lock().await;
        let before = self.reports.of(path).map_or(0, |report| report.number);
        let (version, fresh) = match open.files.get(path).map(|file| (file.version, file.content)) {
            Some((version, known)) if known == content => (version, false),
            Some((version, _)) => {
                let version = version + 1;
                let document = json!({ "uri": uri, "version": version });
                let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
                self.wire.notify("textDocument/didChange", params).await?;
                let params = json!({ "textDocument": { "uri": uri } });
                self.wire.notify("textDocument/didSave", params).await?;
                open.files.insert(path.to_owned(), File { version, content });
                (version, true)
            }
            None => {
                self.close_one(&mut open).await?;
                let language = table::language(path);
                let document = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
                self.wire.notify("textDocument/didOpen", json!({ "textDocument": document })).await?;
                open.files.insert(path.to_owned(), File { version: 1, content });
                open.order.push_back(path.to_owned());
                (1, true)
            }
        };
        Ok(Told { uri, text, version, before, fresh })
    }

    async fn close_one(&self, open: &mut Open) -> Result<(), String> {
        if open.files.len() < OPEN_FILES {
            return Ok(());
        }
        let Some(oldest) = open.order.pop_front() else { return Ok(()) };
        open.files.remove(&oldest);
        let params = json!({ "textDocument": { "uri": uri_of(&oldest) } });
        self.wire.notify("textDocument/didClose", params).await
    }

    /// Tells that a file was made or changed on the disk, for the sake of the others that use it.
    pub(super) async fn changed(&self, path: &Path) -> Result<(), String> {
        // 2: changed. Servers look at the disk anyway.
        let params = json!({ "changes": [{ "uri": uri_of(path), "type": 2 }] });
        self.wire.notify("workspace/didChangeWatchedFiles", params).await
    }

    /// The problems of a file that was told; waits for the report that belongs to it, at most `limit`.
    /// `None`: no report came; there may be problems or not.
    pub(super) async fn problems(&self, path: &Path, told: &Told, limit: Duration) -> Option<Vec<Value>> {
        let mut counts = self.reports.count.subscribe();
        let end = Instant::now() + limit;
        let fits = |report: &Report| {
            let late = report.version.is_none_or(|version| version >= told.version);
            late && (!told.fresh || report.number > told.before)
        };
        let mut latest = None;
        loop {
            counts.borrow_and_update();
            let report = self.reports.of(path).filter(fits);
            let settled = !told.fresh && report.is_some();
            if let Some(report) = report {
                latest = Some(report);
            }
            if settled {
                break;
            }
            let until = if latest.is_some() { end.min(Instant::now() + SETTLE) } else { end };
            tokio::select! {
                () = self.wire.closed.cancelled() => break,
                () = tokio::time::sleep_until(until) => break,
                changed = counts.changed() => if changed.is_err() { break },
            }
        }
        latest.map(|report| report.problems)
    }

    /// The problems of all files that were reported.
    pub(super) fn all_problems(&self) -> Vec<(PathBuf, Vec<Value>)> {
        let files = self.reports.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = files.iter().map(|(path, report)| (path.clone(), report.problems.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    pub(super) async fn ask(&self, method: &str, params: Value, limit: Duration) -> Result<Value, String> {
        self.wire.request(method, params, limit).await
    }
}

#[async_trait]
impl Kept for Server {
    type Live = Running;

    fn name(&self) -> String {
        format!("language server `{}`", self.config.name)
    }

    fn start_timeout(&self) -> Duration {
        self.config.start_timeout
    }

    fn idle(&self) -> Option<Duration> {
        Some(self.config.idle)
    }

    async fn start(&self) -> Result<Running, String> {
        let program = self.config.program().ok_or_else(|| format!("`{}` is not installed", self.config.command))?;
        let launch = Launch {
            program,
            args: self.config.args.iter().map(Into::into).collect(),
            cwd: self.root.clone(),
            inherits: Inherit::AllBut(self.hidden.clone()),
            env: self.config.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        };
        let started = piped::start(&launch, self.shim.as_deref()).await;
        let (mut process, pipes) =
            started.map_err(|err| format!("{} cannot be started: {err}", self.config.command))?;
        let reports = Arc::new(Reports { files: Mutex::default(), count: watch::channel(0).0 });
        let heard = heard(self.config.settings.clone(), &self.root, Arc::clone(&reports));
        let wire = Wire::new(pipes.stdout, pipes.stdin, heard);
        let hello = async {
            wire.request("initialize", initialize(&self.config, &self.root), self.config.start_timeout).await?;
            wire.notify("initialized", json!({})).await?;
            // Some wait for it before they look at anything.
            wire.notify("workspace/didChangeConfiguration", json!({ "settings": self.config.settings })).await
        };
        if let Err(why) = hello.await {
            return Err(format!("{why}: {}", process.epitaph().await));
        }
        Ok(Running {
            wire,
            process: tokio::sync::Mutex::new(Some(process)),
            open: tokio::sync::Mutex::default(),
            reports,
        })
    }

    fn is_over(&self, live: &Running) -> bool {
        live.wire.closed.is_cancelled()
    }

    async fn over(&self, live: &Running) -> String {
        live.wire.closed.cancelled().await;
        match live.process.lock().await.as_mut() {
            Some(process) => format!("{}: {}", live.wire.fault(), process.epitaph().await),
            None => live.wire.fault(),
        }
    }

    async fn stop(&self, live: &Running) {
        let _ = live.ask("shutdown", Value::Null, STOP).await;
        let _ = tokio::time::timeout(STOP, live.wire.notify("exit", Value::Null)).await;
        drop(live.process.lock().await.take());
    }
}

fn initialize(config: &LspServer, root: &Path) -> Value {
    let (uri, name) = (uri_of(root), root.file_name().map(|name| name.to_string_lossy()).unwrap_or_default());
    json!({
        "processId": std::process::id(),
        "clientInfo": { "name": "triplane", "version": env!("CARGO_PKG_VERSION") },
        "rootUri": uri,
        "rootPath": root.to_string_lossy(),
        "workspaceFolders": [{ "uri": uri, "name": name }],
        "initializationOptions": config.init_options,
        "capabilities": {
            "general": { "positionEncodings": ["utf-16"] },
            "textDocument": {
                "synchronization": { "didSave": true },
                "publishDiagnostics": { "versionSupport": true },
                "definition": { "linkSupport": true },
                "references": {},
                "documentSymbol": { "hierarchicalDocumentSymbolSupport": true },
            },
            "workspace": {
                "workspaceFolders": true,
                "configuration": true,
                "symbol": {},
                "didChangeWatchedFiles": { "dynamicRegistration": true },
            },
            "window": { "workDoneProgress": true },
        },
    })
}

/// What a server may ask of us: its configuration and its folder; the rest is taken note of, or not known.
fn heard(settings: Value, root: &Path, reports: Arc<Reports>) -> Heard {
    let folder = json!([{ "uri": uri_of(root), "name": "root" }]);
    Box::new(move |method, params| match method {
        "textDocument/publishDiagnostics" => {
            reports.take(params);
            None
        }
        "workspace/configuration" => {
            let items = params.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let section = |item: &Value| {
                let path = item.get("section").and_then(Value::as_str).unwrap_or_default();
                let parts = path.split('.').filter(|part| !part.is_empty());
                parts.fold(&settings, |at, part| at.get(part).unwrap_or(&Value::Null)).clone()
            };
            Some(items.iter().map(section).collect())
        }
        "workspace/workspaceFolders" => Some(folder.clone()),
        "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create" => {
            Some(Value::Null)
        }
        "window/showMessageRequest" => Some(Value::Null),
        // A server must not change files: only tools do, and they ask.
        "workspace/applyEdit" => Some(json!({ "applied": false })),
        _ => None,
    })
}

async fn read(path: &Path) -> Result<String, String> {
    let told = |err: std::io::Error| format!("{}: {err}", path.display());
    let meta = tokio::fs::metadata(path).await.map_err(told)?;
    if !meta.is_file() || meta.len() > FILE_BYTES {
        return Err(format!("{} is not a file of at most 4 MiB", path.display()));
    }
    let bytes = tokio::fs::read(path).await.map_err(told)?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text", path.display()))
}

pub(super) fn uri_of(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), PATH))
}

/// The path of a `file:` address; servers write the same one in different ways.
pub(super) fn path_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.get(path.find('/')?..)?;
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back_from_their_addresses() {
        for path in ["/a b/c#d?.rs", "/é/😀%41", "/x:y/~z"] {
            assert_eq!(path_of(&uri_of(Path::new(path))).unwrap(), Path::new(path));
        }
        assert_eq!(path_of("file://localhost/a%3Ab").unwrap(), Path::new("/a:b"));
        assert_eq!((path_of("untitled:x"), path_of("file://")), (None, None));
    }

    #[test]
    fn a_server_is_told_its_own_section() {
        let reports = Arc::new(Reports { files: Mutex::default(), count: watch::channel(0).0 });
        let heard = heard(json!({"a": {"b": 1}}), Path::new("/r"), Arc::clone(&reports));
        let items = json!({"items": [{"section": "a.b"}, {"section": "x.y"}, {}]});
        assert_eq!(heard("workspace/configuration", &items), Some(json!([1, null, {"a": {"b": 1}}])));
        assert_eq!(heard("workspace/applyEdit", &Value::Null), Some(json!({"applied": false})));
        assert_eq!(heard("x/y", &Value::Null), None);
        let many = vec![json!({"message": "m"}); PROBLEMS + 1];
        heard("textDocument/publishDiagnostics", &json!({"uri": "file:///r/a", "version": 3, "diagnostics": many}));
        let report = reports.of(Path::new("/r/a")).unwrap();
        assert_eq!((report.number, report.version, report.problems.len()), (1, Some(3), PROBLEMS));
    }
}
