//! The ceilings over a pipe, which `bare` serves: blocking reads and writes, 64 KiB buffers, and nothing that JSON-RPC over lines
//! or a stream of events does not need. A request is parsed once into its members and its result is made into JSON once, as any
//! server of the protocol must.

pub mod ws;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use std::{
    borrow::Cow,
    io::{self, BufRead, Write},
};

/// A request.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(default)]
    params: Map<String, Value>,
}

/// A reply.
#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    result: &'a Value,
}

/// Answers each request for `agents.list` with its id and always the same result, which is given as JSON.
pub fn answer(result: &str) -> io::Result<()> {
    let result: Value = serde_json::from_str(result)?;
    let mut input = io::BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut output = io::BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return output.flush();
        }
        let request: Request<'_> = serde_json::from_slice(&line)?;
        if request.jsonrpc != "2.0" || request.method != "agents.list" || !request.params.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        serde_json::to_writer(&mut output, &Reply { jsonrpc: "2.0", id: request.id, result: &result })?;
        output.write_all(b"\n")?;
        // Replies wait for each other only as long as there is more to read already.
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
    }
}

/// An event, as short as ours.
#[derive(Serialize)]
struct Delta<'a> {
    r#type: &'static str,
    text: &'a str,
    seq: usize,
}

/// For each line `COUNT BYTES`: so many events of so many characters each, at most 16 KiB a line and a write; then `end`.
pub fn stream() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (count, bytes) = line.split_once(' ').ok_or(io::ErrorKind::InvalidInput)?;
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        let text = "x".repeat(number(bytes)?);
        let head = r#"{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":"01890000-0000-7000-8000-000000000000","events":["#;
        let mut batch = Vec::with_capacity(17 << 10);
        for seq in 1..=number(count)? {
            batch.extend_from_slice(if batch.is_empty() { head.as_bytes() } else { b"," });
            serde_json::to_writer(&mut batch, &Delta { r#type: "textDelta", text: &text, seq })?;
            if batch.len() > (15 << 10) {
                batch.extend_from_slice(b"]}}\n");
                output.write_all(&batch)?;
                batch.clear();
            }
        }
        batch.extend_from_slice(if batch.is_empty() { b"end\n" } else { b"]}}\nend\n" });
        output.write_all(&batch)?;
        output.flush()?;
    }
    Ok(())
}
