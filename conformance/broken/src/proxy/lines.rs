//! The stdio wire, line by line.

use super::{Shared, process};
use crate::act::{Act, Talk, parse};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    task::JoinHandle,
};

/// Lines that wait to be written; whoever reads waits when that many do.
const WAITING: usize = 64;

/// Stands between our own stdio and the server's.
pub(super) fn front(shared: Arc<Shared>, stdin: ChildStdin, stdout: ChildStdout) -> Vec<JoinHandle<()>> {
    let talk = Arc::new(Mutex::new(Talk::default()));
    let (up, ups) = mpsc::channel(WAITING);
    let (down, downs) = mpsc::channel(WAITING);
    tokio::spawn(write(ups, stdin));
    tokio::spawn(read(shared.clone(), talk.clone(), true, tokio::io::stdin(), up.clone(), down.clone()));
    vec![tokio::spawn(read(shared, talk, false, stdout, up, down)), tokio::spawn(write(downs, tokio::io::stdout()))]
}

async fn read(
    shared: Arc<Shared>,
    talk: Arc<Mutex<Talk>>,
    upward: bool,
    from: impl AsyncRead + Unpin,
    up: mpsc::Sender<Vec<u8>>,
    down: mpsc::Sender<Vec<u8>>,
) {
    let mut reader = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
        let whole = line.pop_if(|last| *last == b'\n').is_some();
        let Some(text) = whole.then(|| String::from_utf8(line.clone()).ok()).flatten() else {
            if upward && shared.dies() {
                process::die(&shared);
            }
            if whole {
                line.push(b'\n');
            }
            let _ = if upward { up.send(line).await } else { down.send(line).await };
            continue;
        };
        if upward && shared.dies() && parse(&text).is_null() {
            process::die(&shared);
        }
        let (ups, downs) = {
            let mut talk = talk.lock().unwrap_or_else(PoisonError::into_inner);
            if upward {
                shared.up(&mut talk, &text)
            } else {
                shared.down(&mut talk, &text)
            }
            (std::mem::take(&mut talk.ups), std::mem::take(&mut talk.downs))
        };
        for text in ups {
            let _ = up.send(format!("{text}\n").into_bytes()).await;
        }
        for text in downs {
            let _ = down.send(format!("{text}\n").into_bytes()).await;
        }
    }
    if upward && shared.acts.iter().any(|act| matches!(act, Act::KeepsStdin)) {
        return std::future::pending().await;
    }
    // Nothing as the last.
    let _ = if upward { up.send(Vec::new()).await } else { down.send(Vec::new()).await };
}

async fn write(mut from: mpsc::Receiver<Vec<u8>>, mut to: impl AsyncWrite + Unpin) {
    while let Some(bytes) = from.recv().await {
        if bytes.is_empty() || to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
