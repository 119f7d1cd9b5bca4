//! TCP connections: requests and responses one after another, event streams, sockets; whatever is no HTTP goes through as it is.

use super::{
    Shared, frames,
    http::{Request, Response, chunk, request_head, response_head},
    process,
};
use crate::act::{Act, Message};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Accepts until the process ends.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, server: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        tokio::spawn(async move {
            // A connection that breaks off is what the client sees of it.
            let _ = serve(shared, Half { stream, buffer: Vec::new() }, server).await;
        });
    }
}

/// A stream, and what was read of it already.
struct Half {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Half {
    async fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Reads more; false at the end.
    async fn fill(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..))
    }

    /// Resolves when the other side has gone; never, if it says something instead.
    async fn gone(&self) {
        let mut byte = [0];
        if let Ok(1..) = self.stream.peek(&mut byte).await {
            std::future::pending().await
        }
    }

    fn split(self) -> frames::Side {
        let (read, write) = self.stream.into_split();
        frames::Side { read, write, buffer: self.buffer }
    }
}

async fn serve(shared: Arc<Shared>, mut client: Half, addr: SocketAddr) -> anyhow::Result<()> {
    let mut upstream = None;
    loop {
        let request = match read_request(&mut client).await {
            Ok(Some(request)) => request,
            Ok(None) => {
                // Half a message, and the end; the server is to see both.
                return if client.buffer.is_empty() { Ok(()) } else { tunnel(client, upstream, addr).await };
            }
            Err(_) => {
                if shared.dies() {
                    process::die(&shared);
                }
                if shared.acts.iter().any(|act| matches!(act, Act::Mute)) {
                    let bare = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                    return Ok(client.stream.write_all(bare.as_bytes()).await?);
                }
                return tunnel(client, upstream, addr).await;
            }
        };
        let mut request = request;
        for act in shared.acts {
            if let Act::Request(hook) = act {
                hook(&mut shared.mem(), &mut request);
            }
        }
        if let Some(answer) = request.answer.take() {
            client.stream.write_all(&answer.encode_head(true)).await?;
            client.stream.write_all(&answer.body).await?;
            continue;
        }
        let mut server = match upstream.take() {
            Some(server) => server,
            None => Half::connect(addr).await?,
        };
        server.stream.write_all(&request.encode()).await?;
        let head = tokio::select! {
            head = read_head(&mut server) => head?,
            () = client.gone() => return Ok(()),
        };
        let Some(mut response) = head else { return Ok(()) };
        if response.status == 101 {
            hooks(&shared, &request, &mut response);
            client.stream.write_all(&response.encode_head(false)).await?;
            if response.status == 101 {
                frames::front(shared, client.split(), server.split()).await;
            }
            return Ok(());
        }
        if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            hooks(&shared, &request, &mut response);
            client.stream.write_all(&response.encode_head(false)).await?;
            return stream(&shared, &request, client, server).await;
        }
        let closes = read_body(&mut server, &request, &mut response).await?;
        hooks(&shared, &request, &mut response);
        let whole = request.method != "HEAD";
        client.stream.write_all(&response.encode_head(whole)).await?;
        if whole {
            client.stream.write_all(&response.body).await?;
        }
        if closes {
            return Ok(());
        }
        upstream = Some(server);
    }
}

fn hooks(shared: &Shared, request: &Request, response: &mut Response) {
    shared.before();
    for act in shared.acts {
        if let Act::Response(hook) = act {
            hook(&mut shared.mem(), request, response);
        }
    }
}

/// A whole request; `None` at the end, with what came of it in the buffer; an error leaves all of it there.
async fn read_request(client: &mut Half) -> anyhow::Result<Option<Request>> {
    let (mut request, head) = loop {
        match request_head(&client.buffer)? {
            Some(found) => break found,
            None if !client.fill().await => return Ok(None),
            None => {}
        }
    };
    let lengths = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).count();
    if request.header("transfer-encoding").is_some() || lengths > 1 {
        anyhow::bail!("left to the server");
    }
    let length: usize = request.header("content-length").map_or(Ok(0), str::parse)?;
    while client.buffer.len() < head + length {
        if !client.fill().await {
            return Ok(None);
        }
    }
    request.body = client.buffer.get(head..head + length).unwrap_or_default().to_vec();
    client.buffer.drain(..head + length);
    Ok(Some(request))
}

async fn read_head(server: &mut Half) -> anyhow::Result<Option<Response>> {
    loop {
        match response_head(&server.buffer)? {
            Some((response, used)) => {
                server.buffer.drain(..used);
                return Ok(Some(response));
            }
            None if !server.fill().await => return Ok(None),
            None => {}
        }
    }
}

/// Reads a response's body; whether the server closes behind it.
async fn read_body(server: &mut Half, request: &Request, response: &mut Response) -> anyhow::Result<bool> {
    let closes = response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if request.method == "HEAD" || response.status == 204 || response.status == 304 {
        return Ok(closes);
    }
    if response.header("transfer-encoding").is_some() {
        loop {
            match chunk(&server.buffer).map_err(|_| anyhow::anyhow!("a bad chunk"))? {
                Some((bytes, used)) => {
                    server.buffer.drain(..used);
                    if bytes.is_empty() {
                        return Ok(closes);
                    }
                    response.body.extend_from_slice(&bytes);
                }
                None if !server.fill().await => return Ok(true),
                None => {}
            }
        }
    }
    let length: Option<usize> = response.header("content-length").map(str::parse).transpose()?;
    while length.is_none_or(|length| server.buffer.len() < length) {
        if !server.fill().await {
            break;
        }
    }
    let length = length.unwrap_or(server.buffer.len()).min(server.buffer.len());
    response.body = server.buffer.drain(..length).collect();
    Ok(closes)
}

/// An event stream, message by message.
async fn stream(shared: &Shared, request: &Request, mut client: Half, mut server: Half) -> anyhow::Result<()> {
    let mut text = String::new();
    loop {
        while let Some((bytes, used)) = chunk(&server.buffer).map_err(|_| anyhow::anyhow!("a bad chunk"))? {
            server.buffer.drain(..used);
            if bytes.is_empty() {
                client.stream.write_all(b"0\r\n\r\n").await?;
                return Ok(());
            }
            text += &String::from_utf8_lossy(&bytes);
            let mut out = Vec::new();
            while let Some(end) = text.find("\n\n") {
                let message = text.drain(..end + 2).collect::<String>();
                let message =
                    Message { lines: message.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect() };
                event(shared, request, message, &mut out);
            }
            let bytes: String = out.iter().map(|message| message.lines.join("\n") + "\n\n").collect();
            if !bytes.is_empty() {
                client.stream.write_all(format!("{:x}\r\n{bytes}\r\n", bytes.len()).as_bytes()).await?;
            }
        }
        tokio::select! {
            more = server.fill() => if !more { return Ok(()) },
            () = client.gone() => return Ok(()),
        }
    }
}

fn event(shared: &Shared, request: &Request, message: Message, out: &mut Vec<Message>) {
    shared.before();
    match shared.acts.iter().find_map(|act| if let Act::Event(hook) = act { Some(hook) } else { None }) {
        Some(hook) => hook(&mut shared.mem(), request, message, out),
        None => out.push(message),
    }
}

/// What was read, and all that follows, as it is.
async fn tunnel(mut client: Half, upstream: Option<Half>, addr: SocketAddr) -> anyhow::Result<()> {
    let mut server = match upstream {
        Some(server) => server,
        None => Half::connect(addr).await?,
    };
    server.stream.write_all(&client.buffer).await?;
    tokio::io::copy_bidirectional(&mut client.stream, &mut server.stream).await?;
    Ok(())
}
