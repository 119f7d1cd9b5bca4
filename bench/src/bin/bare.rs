//! The ceiling that the plane is measured against: the least that a server of events can do, and nothing else.
//! One shared log, a cursor per reader, at most 16 KiB a write, on hyper; no sessions, no seq, no disk, no token.
//! With `--stdio` it answers each line of stdin with a line instead.

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::VecDeque,
    convert::Infallible,
    io::{self, BufRead, Write},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Events that the log keeps; the plane's ring has as many.
const RING: usize = 4096;
/// Bytes of one write at most.
const WRITE_BYTES: usize = 16 << 10;
type Reply = Response<BoxBody<Bytes, Infallible>>;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--stdio"] => return echo(),
        ["--answer", result] => return triplane_bench::ceiling::answer(result),
        ["--stream"] => return triplane_bench::ceiling::stream(),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if args.iter().any(|arg| arg == "--ws") {
        return runtime.block_on(triplane_bench::ceiling::ws::serve());
    }
    runtime.block_on(serve())
}

/// Answers every line with the same line: what reading, finding the end of a line and writing cost.
fn echo() -> io::Result<()> {
    let mut input = io::BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut output = io::BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return output.flush();
        }
        output.write_all(&line)?;
        // Replies wait for each other only as long as there is more to read already.
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{{\"url\":\"http://{}\",\"token\":\"\"}}", listener.local_addr()?)?;
    stdout.flush()?;
    let log = Arc::new(Log::default());
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        let log = log.clone();
        // The process is the owner: it ends when the benchmark kills it.
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(log.clone(), request));
            // A client that goes away is the usual end.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(log: Arc<Log>, request: Request<Incoming>) -> Result<Reply, http::Error> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/health") => json(r#"{"status":"ok","version":"0.1.0"}"#.into()),
        (&Method::GET, "/events") => {
            let events = Events::at_end(log);
            Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(events.boxed())
        }
        (&Method::GET, "/replay") => {
            let events = Events { log, next: 0 };
            Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(events.boxed())
        }
        (&Method::POST, "/publish") => {
            let count = number(request.uri().query(), "n").unwrap_or(1);
            let size = number(request.uri().query(), "bytes").unwrap_or(200);
            match number(request.uri().query(), "every_ms") {
                Some(ms) => tokio::spawn(clock(log, count, ms)),
                None => tokio::spawn(relay(log, count, size)),
            };
            json("{}".into())
        }
        _ => Response::builder().status(StatusCode::NOT_FOUND).body(Full::default().boxed()),
    }
}

fn json(text: String) -> Result<Reply, http::Error> {
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(Full::from(text).boxed())
}

fn number(query: Option<&str>, name: &str) -> Option<usize> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (key == name).then(|| value.parse().ok())?)
}

/// What a model's chunk holds, as far as it matters.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    delta: Cow<'a, str>,
}

/// The event that is made of it.
#[derive(Serialize)]
struct Delta<'a> {
    r#type: &'static str,
    text: &'a str,
    seq: usize,
}

/// Relays `count` deltas of a model, each an event of about `size` bytes, and publishes the event that ends a run.
/// The model is another task behind a pipe: chunks are read, parsed and made into events as any relay must.
async fn relay(log: Arc<Log>, count: usize, size: usize) -> io::Result<()> {
    let (model, ours) = tokio::io::duplex(WRITE_BYTES);
    let text = "x".repeat(size.saturating_sub(76));
    let speaks = async move {
        let mut model = model;
        for _ in 0..count {
            model.write_all(format!("{{\"delta\":\"{text}\"}}\n").as_bytes()).await?;
        }
        Ok::<_, io::Error>(())
    };
    let relays = async {
        let mut lines = tokio::io::BufReader::new(ours).lines();
        let (mut seq, mut whole) = (0, String::new());
        while let Some(line) = lines.next_line().await? {
            let chunk: Chunk<'_> = serde_json::from_str(&line)?;
            seq += 1;
            whole.push_str(&chunk.delta);
            let data = serde_json::to_string(&Delta { r#type: "llm_delta", text: &chunk.delta, seq })?;
            log.push(format!("id: {seq}\nevent: llm_delta\ndata: {data}\n\n").into());
        }
        // A turn's end and a run's end each tell the whole text, as the plane's events do.
        for kind in ["llm_end", "final"] {
            seq += 1;
            let data = serde_json::to_string(&Delta { r#type: kind, text: &whole, seq })?;
            log.push(format!("id: {seq}\nevent: {kind}\ndata: {data}\n\n").into());
        }
        Ok::<_, io::Error>(())
    };
    let model = tokio::spawn(speaks);
    relays.await?;
    model.await.map_err(io::Error::other)?
}

/// Says what time it is `count` times, `ms` apart.
async fn clock(log: Arc<Log>, count: usize, ms: usize) -> io::Result<()> {
    for seq in 1..=count {
        tokio::time::sleep(std::time::Duration::from_millis(ms as u64)).await;
        let text = triplane_bench::stats::clock_ns().to_string() + " ";
        let data = serde_json::to_string(&Delta { r#type: "llm_delta", text: &text, seq })?;
        log.push(format!("id: {seq}\nevent: llm_delta\ndata: {data}\n\n").into());
    }
    log.push("event: final\ndata: {\"type\":\"final\"}\n\n".into());
    Ok(())
}

/// All events, and who waits for the next.
#[derive(Debug, Default)]
struct Log(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Bytes>,
    /// Number of the first event that is kept.
    first: u64,
    waiting: Vec<Waker>,
}

impl Log {
    fn push(&self, event: Bytes) {
        let waiting = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.events.len() == RING {
                state.events.pop_front();
                state.first += 1;
            }
            state.events.push_back(event);
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

/// One reader: a position in the log.
#[derive(Debug)]
struct Events {
    log: Arc<Log>,
    next: u64,
}

impl Events {
    fn at_end(log: Arc<Log>) -> Self {
        let next = {
            let state = log.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.first + state.events.len() as u64
        };
        Self { log, next }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let log = self.log.clone();
        let mut state = log.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.next = self.next.max(state.first);
        let skip = usize::try_from(self.next - state.first).unwrap_or(usize::MAX);
        let mut ready = state.events.iter().skip(skip);
        let Some(first) = ready.next() else {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        };
        self.next += 1;
        let Some(second) = ready.next() else { return Poll::Ready(Some(Ok(Frame::data(first.clone())))) };
        let mut batch = BytesMut::with_capacity(WRITE_BYTES);
        batch.extend_from_slice(first);
        for event in std::iter::once(second).chain(ready) {
            if batch.len() + event.len() > WRITE_BYTES {
                break;
            }
            batch.extend_from_slice(event);
            self.next += 1;
        }
        Poll::Ready(Some(Ok(Frame::data(batch.freeze()))))
    }
}
