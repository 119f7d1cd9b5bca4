//! Messages behind a `Content-Length` header, and requests that wait for their answers.
//! Invariants: a message is bounded before it is read; every request ends: answered, out of time, or with the connection.

use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The longest message, in bytes.
const MESSAGE_BYTES: usize = 32 << 20;

/// The longest header line, and their number.
const HEADER_BYTES: u64 = 1 << 10;
const HEADERS: usize = 16;

/// Messages that wait to be written. Full: the server does not read; whoever says more waits, under its own time limit.
const OUT_QUEUE: usize = 64;

/// The protocol's code for a method that is not known.
const METHOD_NOT_FOUND: i64 = -32601;

/// What a server says of itself: a notification, or a request; the answer to a request is returned (`None`: not known).
pub(super) type Heard = Box<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

type Waiting = HashMap<u64, oneshot::Sender<Result<Value, String>>>;

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    shared: Arc<Shared>,
    /// Cancelled when the server's side has ended, or broke the protocol.
    pub(super) closed: CancellationToken,
    _tasks: [AbortOnDropHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    out: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Shared {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    pub(super) fn new<R, W>(reader: R, writer: W, heard: Heard) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (out, queue) = mpsc::channel(OUT_QUEUE);
        let shared =
            Arc::new(Shared { out, waiting: Mutex::default(), next: AtomicU64::new(1), fault: Mutex::default() });
        let closed = CancellationToken::new();
        let read = tokio::spawn(listen(BufReader::new(reader), Arc::clone(&shared), heard, closed.clone()));
        let write = tokio::spawn(write(writer, queue, closed.clone()));
        Self { shared, closed, _tasks: [AbortOnDropHandle::new(read), AbortOnDropHandle::new(write)] }
    }

    /// Asks. Errors: one line. Cancel: dropped, the server is told that nobody waits any more.
    pub(super) async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Value, String> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.shared.waiting().insert(id, answer);
        let mut forget = Forget { shared: &self.shared, id, answered: false };
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let asked = async {
            self.say(&message).await?;
            tokio::select! {
                biased;
                answer = answered => answer.unwrap_or_else(|_| Err(self.fault())),
                () = self.closed.cancelled() => Err(self.fault()),
            }
        };
        let result = tokio::time::timeout(limit, asked).await;
        forget.answered = result.is_ok();
        result.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs_f32())))
    }

    /// Tells.
    pub(super) async fn notify(&self, method: &str, params: Value) -> Result<(), String> {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    async fn say(&self, message: &Value) -> Result<(), String> {
        self.shared.out.send(framed(message)).await.map_err(|_| self.fault())
    }

    /// Why the connection ended.
    pub(super) fn fault(&self) -> String {
        let fault = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fault.unwrap_or_else(|| "the language server went away".to_owned())
    }
}

/// A request that nobody waits for any more.
struct Forget<'a> {
    shared: &'a Shared,
    id: u64,
    answered: bool,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.waiting().remove(&self.id);
        if !self.answered {
            let params = json!({ "id": self.id });
            let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": params });
            // A server that does not even read is not helped by one more message.
            let _ = self.shared.out.try_send(framed(&cancel));
        }
    }
}

fn framed(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Vec<u8>>, closed: CancellationToken) {
    while let Some(bytes) = queue.recv().await {
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            break;
        }
    }
    closed.cancel();
}

async fn listen(mut reader: impl AsyncBufRead + Unpin, shared: Arc<Shared>, heard: Heard, closed: CancellationToken) {
    let fault = loop {
        let message = match read(&mut reader).await {
            Ok(Some(message)) => message,
            Ok(None) => break None,
            Err(err) => break Some(format!("the language server broke the protocol: {err}")),
        };
        let Ok(message) = serde_json::from_slice::<Value>(&message) else {
            break Some("the language server broke the protocol: a message is no JSON".to_owned());
        };
        if let Some(answer) = take(&message, &shared, &heard) {
            // Never waits: a full queue means that the server does not read, and it would wait for us in turn.
            if shared.out.try_send(framed(&answer)).is_err() {
                break Some("the language server does not read its answers".to_owned());
            }
        }
    };
    *shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    shared.waiting().clear();
    closed.cancel();
}

/// Hands a message to whom it is for; returns what is answered.
fn take(message: &Value, shared: &Shared, heard: &Heard) -> Option<Value> {
    let params = message.get("params").unwrap_or(&Value::Null);
    match (message.get("method").and_then(Value::as_str), message.get("id")) {
        (Some(method), Some(id)) => Some(match heard(method, params) {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => {
                let error = json!({ "code": METHOD_NOT_FOUND, "message": format!("no `{method}` here") });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        }),
        (Some(method), None) => {
            heard(method, params);
            None
        }
        (None, id) => {
            let waiting = id.and_then(Value::as_u64).and_then(|id| shared.waiting().remove(&id))?;
            let result = match message.get("error") {
                Some(error) => Err(error.get("message").and_then(Value::as_str).unwrap_or("an error").to_owned()),
                None => Ok(message.get("result").cloned().unwrap_or_default()),
            };
            let _ = waiting.send(result);
            None
        }
    }
}

/// One message's body; `None` at the end.
async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut length = None;
    for number in 0..HEADERS {
        let mut line = Vec::new();
        let read = (&mut *reader).take(HEADER_BYTES).read_until(b'\n', &mut line).await?;
        if read == 0 && number == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') {
            return Err(bad("a header has no end"));
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            let length = length.ok_or_else(|| bad("a message has no Content-Length"))?;
            if length > MESSAGE_BYTES {
                return Err(bad("a message is too long"));
            }
            let mut body = Vec::new();
            let got = (&mut *reader).take(length as u64).read_to_end(&mut body).await?;
            return if got == length { Ok(Some(body)) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("something that is no header"))?;
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(bad("something that is no header"));
        }
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(|_| bad("a Content-Length is no number"))?);
        }
    }
    Err(bad("too many headers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const SECOND: Duration = Duration::from_secs(1);

    async fn frames(text: &[u8]) -> Vec<Result<String, String>> {
        let (mut reader, mut all) = (BufReader::with_capacity(3, text), Vec::new());
        loop {
            match read(&mut reader).await {
                Ok(Some(body)) => all.push(Ok(String::from_utf8(body).unwrap())),
                Ok(None) => return all,
                Err(err) => {
                    all.push(Err(err.to_string()));
                    return all;
                }
            }
        }
    }

    #[tokio::test]
    async fn frames_are_cut_by_their_length_and_faults_are_named() {
        let good = frames(b"Content-Length: 2\r\n\r\n{}content-length:3\nX: y\n\n\xc3\xa9!").await;
        assert_eq!(good, [Ok("{}".to_owned()), Ok("é!".to_owned())]);
        let rows: [(&[u8], &str); 6] = [
            (b"hello\n", "something that is no header"),
            (b"\r\n", "a message has no Content-Length"),
            (b"Content-Length: x\r\n\r\n", "a Content-Length is no number"),
            (b"Content-Length: 99999999999\r\n\r\n", "a message is too long"),
            (b"Content-Length: 5\r\n\r\n{}", "unexpected end of file"),
            (&[b'x'; 5000], "a header has no end"),
        ];
        for (text, expected) in rows {
            assert_eq!(frames(text).await, [Err(expected.to_owned())]);
        }
        assert_eq!(frames(&b"a: b\n".repeat(20)).await, [Err("too many headers".to_owned())]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_answered_cancelled_and_end_with_the_connection() {
        let (ours, theirs) = duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let heard: Heard = Box::new(|method, _| (method == "known").then(|| 7.into()));
        let wire = Wire::new(reader, writer, heard);
        let mut theirs = BufReader::new(theirs);
        let asked = wire.request("a", Value::Null, SECOND);
        let (got, ()) = tokio::join!(asked, async {
            let body: Value = serde_json::from_slice(&read(&mut theirs).await.unwrap().unwrap()).unwrap();
            assert_eq!((&body["method"], &body["id"]), (&"a".into(), &1.into()));
            for message in
                [json!({"id": 9, "method": "known"}), json!({"id": 10, "method": "x"}), json!({"id": 1, "result": [1]})]
            {
                theirs.write_all(&framed(&message)).await.unwrap();
            }
        });
        assert_eq!(got, Ok(json!([1])));
        let next = async |theirs: &mut BufReader<_>| -> Value {
            serde_json::from_slice(&read(theirs).await.unwrap().unwrap()).unwrap()
        };
        assert_eq!(next(&mut theirs).await["result"], 7);
        assert_eq!(next(&mut theirs).await["error"]["code"], METHOD_NOT_FOUND);
        assert_eq!(wire.request("b", Value::Null, SECOND).await.unwrap_err(), "no answer within 1 s");
        assert_eq!(next(&mut theirs).await["method"], "b");
        let cancel = next(&mut theirs).await;
        assert_eq!((&cancel["method"], &cancel["params"]["id"]), (&"$/cancelRequest".into(), &2.into()));
        let (got, ()) = tokio::join!(wire.request("c", Value::Null, SECOND), async {
            theirs.write_all(b"oh no\n").await.unwrap();
        });
        assert_eq!(got.unwrap_err(), "the language server broke the protocol: something that is no header");
        assert!(wire.closed.is_cancelled());
        assert!(wire.request("d", Value::Null, SECOND).await.is_err());
    }
}
