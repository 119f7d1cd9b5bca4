//! The ceiling over WebSocket: tungstenite, one task a socket, and no more of JSON-RPC than it takes to answer.
//! `health` is answered with a constant; `prompt.submit {n, bytes}` sends so many events of a relayed model and then its reply.

use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    io::{self, Write},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 16 << 10;
/// As large as ours.
const READ_BYTES: usize = 4 << 10;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<Submit>,
}

#[derive(Deserialize)]
struct Submit {
    n: Option<usize>,
    bytes: Option<usize>,
}

#[derive(Serialize)]
struct Event<'a> {
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    session_id: &'static str,
    event: Delta<'a>,
}

#[derive(Serialize, Deserialize)]
struct Delta<'a> {
    r#type: Cow<'a, str>,
    text: Cow<'a, str>,
}

/// Serves until it is killed.
pub async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{{\"port\":{},\"token\":\"\"}}", listener.local_addr()?.port())?;
    stdout.flush()?;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        // The process is the owner: it ends when the benchmark kills it. A client that goes away is the usual end.
        tokio::spawn(async move { socket(stream).await.map_err(drop) });
    }
}

async fn socket(stream: TcpStream) -> Result<(), tungstenite::Error> {
    let config = WebSocketConfig::default().read_buffer_size(READ_BYTES).write_buffer_size(WRITE_BYTES);
    let mut socket = accept_async_with_config(stream, Some(config)).await?;
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else { continue };
        let Ok(request) = serde_json::from_str::<Request<'_>>(&text) else { return Ok(()) };
        match (request.method.as_ref(), request.params) {
            ("prompt.submit", Some(Submit { n: Some(count), bytes: Some(bytes) })) => {
                relay(&mut socket, count, bytes).await?;
                socket.send(reply(request.id, "{}")).await?;
            }
            _ => socket.send(reply(request.id, r#"{"status":"ok","version":"0.1.0"}"#)).await?,
        }
    }
    Ok(())
}

fn reply(id: &RawValue, result: &str) -> Message {
    Message::text(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
}

/// The model is another task behind a pipe: chunks are read, parsed and made into events as any relay must; each event is a message.
async fn relay(socket: &mut WebSocketStream<TcpStream>, count: usize, bytes: usize) -> Result<(), tungstenite::Error> {
    let (mut model, ours) = tokio::io::duplex(WRITE_BYTES);
    let text = "x".repeat(bytes);
    let speaks = tokio::spawn(async move {
        for _ in 0..count {
            model.write_all(format!("{{\"type\":\"llm_delta\",\"text\":\"{text}\"}}\n").as_bytes()).await?;
        }
        Ok::<_, io::Error>(())
    });
    let mut lines = tokio::io::BufReader::new(ours).lines();
    let mut whole = String::new();
    while let Some(line) = lines.next_line().await? {
        let Ok(event) = serde_json::from_str::<Delta<'_>>(&line) else { break };
        whole.push_str(&event.text);
        // Gathered by the socket until its buffer is full, as ours are.
        socket.feed(message(event)).await?;
    }
    for kind in ["llm_end", "final"] {
        socket.feed(message(Delta { r#type: kind.into(), text: whole.as_str().into() })).await?;
    }
    speaks.await.map_err(io::Error::other)??;
    Ok(())
}

fn message(event: Delta<'_>) -> Message {
    let params = Params { session_id: "01890000-0000-7000-8000-000000000000", event };
    Message::text(serde_json::to_string(&Event { method: "event", params }).unwrap_or_default())
}
