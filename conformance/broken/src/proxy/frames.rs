//! A WebSocket behind its handshake: frames both ways, whole text messages through the hooks.

use super::Shared;
use crate::act::{Frame, Talk};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};

/// Frames that wait to be written; whoever reads waits when that many do.
const WAITING: usize = 64;
/// The longest payload that is looked at; whatever follows a longer one goes through as it is.
const LONGEST: u64 = 16 << 20;

/// A connection, and what was read of it already.
pub(super) struct Side {
    pub(super) read: OwnedReadHalf,
    pub(super) write: OwnedWriteHalf,
    pub(super) buffer: Vec<u8>,
}

/// Stands between two ends until either goes.
pub(super) async fn front(shared: Arc<Shared>, client: Side, server: Side) {
    let talk = Arc::new(Mutex::new(Talk::default()));
    let (up, ups) = mpsc::channel(WAITING);
    let (down, downs) = mpsc::channel(WAITING);
    let upward =
        tokio::spawn(read(shared.clone(), talk.clone(), true, client.read, client.buffer, up.clone(), down.clone()));
    let downward = tokio::spawn(read(shared, talk, false, server.read, server.buffer, up, down));
    let to_server = tokio::spawn(write(ups, server.write));
    write(downs, client.write).await;
    // The server has said its last; what the client says from now on reaches nobody.
    upward.abort();
    downward.abort();
    to_server.abort();
}

/// What is at the front of a buffer.
enum Cut {
    More,
    TooLong,
    One(Frame, usize),
}

fn cut(buffer: &[u8], up: bool) -> Cut {
    let [head, second, rest @ ..] = buffer else { return Cut::More };
    let (length, rest) = match second & 0x7f {
        126 => match rest.split_at_checked(2) {
            Some((length, rest)) => (length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest),
            None => return Cut::More,
        },
        127 => match rest.split_at_checked(8) {
            Some((length, rest)) => (length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest),
            None => return Cut::More,
        },
        short => (u64::from(short), rest),
    };
    if length > LONGEST || up != (second & 0x80 != 0) {
        return Cut::TooLong;
    }
    let (mask, rest) = if up {
        match rest.split_at_checked(4) {
            Some(both) => both,
            None => return Cut::More,
        }
    } else {
        (&[0; 4][..], rest)
    };
    let Some(payload) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else { return Cut::More };
    let payload: Vec<u8> = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let used = buffer.len() - rest.len() + payload.len();
    Cut::One(Frame { up, head: *head, payload }, used)
}

fn encode(frame: &Frame) -> Vec<u8> {
    let mask = if frame.up { 0x80 } else { 0 };
    let mut bytes = vec![frame.head];
    match (u8::try_from(frame.payload.len()), u16::try_from(frame.payload.len())) {
        (Ok(length @ 0..=125), _) => bytes.push(mask | length),
        (_, Ok(length)) => {
            bytes.push(mask | 126);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            bytes.push(mask | 127);
            bytes.extend_from_slice(&(frame.payload.len() as u64).to_be_bytes());
        }
    }
    if frame.up {
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes.extend_from_slice(&frame.payload);
    bytes
}

async fn read(
    shared: Arc<Shared>,
    talk: Arc<Mutex<Talk>>,
    upward: bool,
    mut from: OwnedReadHalf,
    mut buffer: Vec<u8>,
    up: mpsc::Sender<Vec<u8>>,
    down: mpsc::Sender<Vec<u8>>,
) {
    let on = if upward { &up } else { &down };
    let mut raw = false;
    loop {
        while !raw {
            let (mut frame, used) = match cut(&buffer, upward) {
                Cut::More => break,
                Cut::TooLong => {
                    raw = true;
                    break;
                }
                Cut::One(frame, used) => (frame, used),
            };
            buffer.drain(..used);
            shared.frame(&mut frame);
            let text = (frame.head == 0x81).then(|| std::str::from_utf8(&frame.payload).ok()).flatten();
            let Some(text) = text else {
                let _ = on.send(encode(&frame)).await;
                continue;
            };
            let (ups, downs) = {
                let mut talk = talk.lock().unwrap_or_else(PoisonError::into_inner);
                if upward {
                    shared.up(&mut talk, text)
                } else {
                    shared.down(&mut talk, text)
                }
                (std::mem::take(&mut talk.ups), std::mem::take(&mut talk.downs))
            };
            for text in ups {
                let _ = up.send(encode(&Frame { up: true, head: 0x81, payload: text.into_bytes() })).await;
            }
            for text in downs {
                let _ = down.send(encode(&Frame { up: false, head: 0x81, payload: text.into_bytes() })).await;
            }
        }
        if raw && !buffer.is_empty() {
            let _ = on.send(std::mem::take(&mut buffer)).await;
        }
        match from.read_buf(&mut buffer).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    // Nothing as the last.
    let _ = on.send(Vec::new()).await;
}

async fn write(mut from: mpsc::Receiver<Vec<u8>>, mut to: OwnedWriteHalf) {
    while let Some(bytes) = from.recv().await {
        if bytes.is_empty() || to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
