//! Frames by hand and by a real client: sizes, close codes, silence, and readers that do not read.
//! Clauses: L01, L23, C09, C14. Faults: WS-02, WS-05 to WS-08.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[allow(unreachable_pub, dead_code, reason = "each test file uses its own part")]
mod support;

use futures_util::{SinkExt, StreamExt};
use std::time::Duration;
use support::{Running, close_of, frame, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use triplane_ws::WsLimits;

const TEXT: u8 = 0x81;
const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_message_of_exactly_the_limit_is_taken_and_one_byte_more_closes_that_connection_alone() {
    let server = Running::echo(WsLimits::default()).await;
    let mut other = server.client().await;
    let mut client = server.client().await;
    let limit = "x".repeat(MIB);
    client.send(limit.clone()).await;
    assert_eq!(client.text().await, limit);
    client.0.feed(Message::text("x".repeat(MIB + 1))).await.unwrap();
    let _ = within(client.0.flush()).await;
    assert_eq!(client.close_code().await, Some(1009));
    // The same in fragments, none of which is too large.
    let mut bare = server.bare().await;
    bare.write_all(&frame(0x01, &vec![b'x'; MIB / 2])).await.unwrap();
    bare.write_all(&frame(0x00, &vec![b'x'; MIB / 2])).await.unwrap();
    bare.write_all(&frame(0x80, b"x")).await.unwrap();
    assert_eq!(close_of(&mut bare).await, Some(1009));
    other.send("still here").await;
    assert_eq!(other.text().await, "still here");
    server.end().await;
}

#[tokio::test]
async fn a_declared_length_is_refused_before_its_bytes_come() {
    let server = Running::echo(WsLimits::default()).await;
    for declared in [1_u64 << 32, 1 << 63, MIB as u64 + 1] {
        let mut bare = server.bare().await;
        let mut head = vec![TEXT, 0xff];
        head.extend_from_slice(&declared.to_be_bytes());
        head.extend_from_slice(&[0; 4]);
        bare.write_all(&head).await.unwrap();
        assert!(matches!(close_of(&mut bare).await, Some(1009 | 1002)), "{declared}");
    }
    server.end().await;
}

#[tokio::test]
async fn each_fault_has_its_close_code() {
    let server = Running::echo(WsLimits::default()).await;
    let close = |payload: &[u8]| frame(0x88, payload);
    type Row = (&'static str, Vec<u8>, &'static [Option<u16>]);
    let rows: Vec<Row> = vec![
        ("binary", frame(0x82, b"x"), &[Some(1003)]),
        ("not UTF-8", frame(TEXT, &[0xff, 0xfe]), &[Some(1007)]),
        ("a lone surrogate", frame(TEXT, &[0xed, 0xa0, 0x80]), &[Some(1007)]),
        ("unmasked", vec![TEXT, 1, b'x'], &[Some(1002)]),
        ("a reserved bit", frame(0xc1, b"x"), &[Some(1002)]),
        ("a reserved opcode", frame(0x83, b"x"), &[Some(1002)]),
        ("a continuation of nothing", frame(0x80, b"x"), &[Some(1002)]),
        ("a long ping", frame(0x89, &[0; 126]), &[Some(1002)]),
        ("close 1000", close(&1000_u16.to_be_bytes()), &[Some(1000)]),
        ("close without a code", close(&[]), &[None]),
        ("close 999", close(&999_u16.to_be_bytes()), &[Some(1002)]),
        ("close 1005", close(&1005_u16.to_be_bytes()), &[Some(1002)]),
        ("close with a bad reason", close(&[0x03, 0xe8, 0xff]), &[Some(1007), Some(1002)]),
        ("close within a message", [frame(0x01, b"x"), close(&1001_u16.to_be_bytes())].concat(), &[Some(1001)]),
    ];
    for (what, bytes, codes) in rows {
        let mut bare = server.bare().await;
        bare.write_all(&bytes).await.unwrap();
        let code = close_of(&mut bare).await;
        assert!(codes.contains(&code), "{what}: {code:?}");
        // And then the stream ends.
        assert_eq!(within(bare.read(&mut [0; 16])).await.unwrap_or(0), 0, "{what}");
    }
    server.end().await;
}

#[tokio::test]
async fn pings_are_answered_and_a_flood_of_them_does_not_stop_messages() {
    let server = Running::echo(WsLimits::default()).await;
    let mut bare = server.bare().await;
    let mut bytes = frame(0x89, &[7; 125]).repeat(2000);
    bytes.extend_from_slice(&frame(TEXT, b"after"));
    let (mut reading, mut writing) = bare.split();
    let write = writing.write_all(&bytes);
    let read = async {
        let mut found = Vec::new();
        while !found.windows(7).any(|w| w == b"\x81\x05after") {
            let mut part = [0; 4096];
            let count = reading.read(&mut part).await.unwrap();
            assert!(count > 0);
            found.extend_from_slice(&part[..count]);
        }
        found
    };
    let (wrote, found) = within(async { tokio::join!(write, read) }).await;
    wrote.unwrap();
    assert_eq!(found[..2], [0x8a, 125]);
    server.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_told_why_when_it_looks_again() {
    let limits =
        WsLimits { stall: Duration::from_millis(200), ping_after: Duration::from_millis(200), ..WsLimits::default() };
    let server = Running::echo(limits).await;
    let mut slow = server.client().await;
    slow.send("flood 4096").await;
    // The other socket is served all the while; it outlives the stall by far.
    let mut other = server.client().await;
    for round in 0..20 {
        other.send(format!("{round}")).await;
        assert_eq!(other.text().await, format!("{round}"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(slow.close_code().await, Some(1013));
    server.end().await;
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_then_dropped_and_one_that_answers_stays() {
    let limits =
        WsLimits { ping_after: Duration::from_millis(100), silence: Duration::from_millis(400), ..WsLimits::default() };
    let server = Running::echo(limits).await;
    let mut silent = server.bare().await;
    let mut client = server.client().await;
    let dropped = async {
        let mut pings = Vec::new();
        silent.read_to_end(&mut pings).await.unwrap();
        pings
    };
    // Reading answers pings.
    let stays = client.0.by_ref().for_each(|message| {
        assert!(message.is_ok(), "{message:?}");
        std::future::ready(())
    });
    let pings = within(async {
        tokio::select! {
            pings = dropped => pings,
            () = stays => panic!("the client that answers was dropped"),
        }
    });
    assert!(pings.await.starts_with(&[0x89, 0]));
    client.send("x").await;
    assert_eq!(client.text().await, "x");
    server.end().await;
}

#[tokio::test]
async fn stop_closes_with_1001_and_ends_every_task() {
    let server = Running::echo(WsLimits::default()).await;
    let mut client = server.client().await;
    client.send("x").await;
    assert_eq!(client.text().await, "x");
    // One that goes along with the closing handshake, one that does not, one in the middle of its handshake.
    let _deaf = server.bare().await;
    let _half = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (code, ()) = tokio::join!(client.close_code(), server.end());
    assert_eq!(code, Some(1001));
}

#[tokio::test]
async fn a_burst_is_answered_in_order() {
    let server = Running::echo(WsLimits::default()).await;
    let mut client = server.client().await;
    for n in 0..3000 {
        client.0.feed(Message::text(n.to_string())).await.unwrap();
    }
    within(client.0.flush()).await.unwrap();
    for n in 0..3000 {
        assert_eq!(client.text().await, n.to_string());
    }
    server.end().await;
}

#[tokio::test]
async fn a_message_that_never_ends_is_not_listened_to_forever() {
    let limits = WsLimits { message_bytes: 16 << 10, ..WsLimits::default() };
    let server = Running::echo(limits).await;
    // A byte a fragment is taken, up to the message's own limit.
    let mut whole = server.bare().await;
    let mut bytes = frame(0x01, b"x");
    bytes.extend(frame(0x00, b"x").repeat(4000));
    bytes.extend(frame(0x80, b"x"));
    within(whole.write_all(&bytes)).await.unwrap();
    let mut head = [0; 4];
    within(whole.read_exact(&mut head)).await.unwrap();
    assert_eq!(head, [0x81, 126, 0x0f, 0xa2]);
    // Fragments that hold nothing never reach that limit; pings in between make no difference.
    let mut endless = server.bare().await;
    let (mut reading, mut writing) = endless.split();
    let mut part = frame(0x00, b"").repeat(100);
    part.extend(frame(0x89, b""));
    let write = async {
        writing.write_all(&frame(0x01, b"x")).await.unwrap();
        // Until the server has closed, and a little more than that.
        for _ in 0..10_000 {
            if writing.write_all(&part).await.is_err() {
                break;
            }
        }
    };
    let read = async {
        let mut all = Vec::new();
        let _ = reading.read_to_end(&mut all).await;
        all
    };
    let ((), all) = within(async { tokio::join!(write, read) }).await;
    assert!(all.windows(4).any(|part| part[0] == 0x88 && part[2..] == 1009_u16.to_be_bytes()), "no close in {all:?}");
    server.end().await;
}

#[tokio::test]
async fn large_messages_go_out_whole_between_small_ones_and_pongs() {
    let limits = WsLimits { message_bytes: 8 << 20, reply_bytes: 8 << 20, ..WsLimits::default() };
    let server = Running::echo(limits).await;
    let mut bare = server.bare().await;
    let sizes = [10, 16 << 10, (16 << 10) + 1, 3 << 20, 20, 70_000, 5 << 20, 30];
    let (mut reading, mut writing) = bare.split();
    let write = async {
        for size in sizes {
            writing.write_all(&frame(0x89, b"ping")).await.unwrap();
            writing.write_all(&frame(TEXT, &vec![b'a'; size])).await.unwrap();
            writing.write_all(&frame(0x89, b"ping")).await.unwrap();
        }
    };
    let read = async {
        let (mut got, mut pongs) = (Vec::new(), 0);
        while got.len() < sizes.len() {
            let first = reading.read_u8().await.unwrap();
            let len = match reading.read_u8().await.unwrap() {
                126 => u64::from(reading.read_u16().await.unwrap()),
                127 => reading.read_u64().await.unwrap(),
                len => u64::from(len),
            };
            let mut payload = vec![0; usize::try_from(len).unwrap()];
            reading.read_exact(&mut payload).await.unwrap();
            match first {
                TEXT => got.push(payload.len()),
                0x8a => pongs += 1,
                other => panic!("a frame that begins with {other:#x}"),
            }
        }
        (got, pongs)
    };
    let ((), (got, pongs)) = within(async { tokio::join!(write, read) }).await;
    assert_eq!(got, sizes);
    assert!(pongs > 0);
    server.end().await;
}

#[tokio::test]
async fn what_came_before_a_fault_is_answered() {
    let server = Running::echo(WsLimits::default()).await;
    let mut bare = server.bare().await;
    // A reserved opcode right behind two messages.
    let bytes = [frame(TEXT, b"one"), frame(TEXT, b"two"), frame(0x83, b"")].concat();
    within(bare.write_all(&bytes)).await.unwrap();
    let mut answer = Vec::new();
    within(bare.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"\x81\x03one\x81\x03two\x88"), "{answer:?}");
    server.end().await;
}
