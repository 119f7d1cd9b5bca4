//! Seqs over clean ends, unclean ends, cuts and trims; reading by bisection.

use super::super::{Committer, Durability, SessionDir, spool_read};
use super::*;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use triplane_protocol::SessionId;

fn id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

struct Bed {
    _temp: tempfile::TempDir,
    dir: SessionDir,
    path: PathBuf,
}

fn bed_with(committer: Committer) -> Bed {
    let temp = tempfile::tempdir().unwrap();
    let dir = SessionDir::open_with(&temp.path().join("sessions"), Durability::Flush, committer).unwrap();
    Bed { path: dir.root().join("s1.events"), dir, _temp: temp }
}

fn bed() -> Bed {
    bed_with(Committer::default())
}

impl Bed {
    async fn open(&self) -> (Spool, SpoolState) {
        let lock = self.dir.lock(&id(), "n", false).await.unwrap();
        self.dir.spool(&id(), lock).await.unwrap()
    }

    async fn open_capped(&self, cap: u64) -> (Spool, SpoolState) {
        let lock = self.dir.lock(&id(), "n", false).await.unwrap();
        Spool::open(self.path.clone(), lock, self.dir.ground.clone(), cap).unwrap()
    }

    fn page(&self, after: u64) -> SpoolPage {
        spool_read::page(&self.path, after, usize::MAX, usize::MAX).unwrap()
    }

    fn seqs(&self, after: u64) -> Vec<u64> {
        self.page(after).events.into_iter().map(|(seq, _)| seq).collect()
    }

    /// `next last oldest`
    async fn state(&self) -> (u64, u64, u64) {
        let state = self.dir.spool_state(&id()).await.unwrap().unwrap();
        (state.next_seq, state.last_seq, state.oldest_seq)
    }
}

fn event(n: u64) -> Vec<u8> {
    format!("{{\"type\":\"llm_delta\",\"text\":\"chunk {n} \\\"seq\\\":1,\"}}").into_bytes()
}

fn publish(spool: &mut Spool, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        spool.append(&[(seq, &event(seq))]).unwrap();
    }
}

#[tokio::test]
async fn nothing_is_made_before_the_first_reservation() {
    let bed = bed();
    let (mut spool, state) = bed.open().await;
    assert_eq!((state.next_seq, state.last_seq, state.oldest_seq, state.epoch.len()), (1, 0, 0, 16));
    assert!(!bed.path.exists() && bed.dir.spool_state(&id()).await.unwrap().is_none());
    assert_eq!(bed.page(0), SpoolPage::default());
    assert!(spool.append(&[(1, b"{}")]).is_err(), "nothing is reserved");
    spool.reserve(1).await.unwrap();
    assert_eq!(spool.reserved(), BLOCK);
    let text = fs::read_to_string(&bed.path).unwrap();
    assert_eq!(text, format!("{{\"epoch\":\"{}\",\"v\":1}}\n{{\"reserve\":4096}}\n", state.epoch));
    let (spool_epoch, _) = (spool.epoch().to_owned(), spool.close(0).unwrap());
    let (_, again) = bed.open().await;
    assert_eq!((again.epoch, again.next_seq), (spool_epoch, 1), "nothing was published");
}

#[tokio::test]
async fn a_reservation_is_synced_before_it_counts() {
    // How long the file was at its last sync.
    let synced = Arc::new(AtomicU64::new(0));
    let seen = synced.clone();
    let bed = bed_with(Committer::with(move |file| {
        seen.store(file.metadata()?.len(), Ordering::SeqCst);
        Ok(())
    }));
    let (mut spool, _) = bed.open().await;
    spool.reserve(1).await.unwrap();
    let length = || fs::metadata(&bed.path).unwrap().len();
    assert_eq!(synced.load(Ordering::SeqCst), length());
    publish(&mut spool, 1..=10);
    assert!(synced.load(Ordering::SeqCst) < length(), "events are not synced");
    spool.reserve(BLOCK).await.unwrap();
    assert!(synced.load(Ordering::SeqCst) < length(), "the block has room");
    spool.reserve(BLOCK + 1).await.unwrap();
    assert_eq!((synced.load(Ordering::SeqCst), spool.reserved()), (length(), 2 * BLOCK));
    spool.reserve(10 * BLOCK).await.unwrap();
    assert_eq!(spool.reserved(), 10 * BLOCK);
}

#[tokio::test]
async fn a_reservation_whose_sync_failed_does_not_count() {
    let results = Mutex::new(vec![Ok(()), Err(io::Error::from_raw_os_error(5))]);
    let bed = bed_with(Committer::with(move |_| results.lock().unwrap().pop().unwrap_or(Ok(()))));
    let (mut spool, _) = bed.open().await;
    spool.reserve(1).await.unwrap_err();
    assert_eq!(spool.reserved(), 0);
    assert!(spool.append(&[(1, b"{}")]).is_err());
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=1);
    assert_eq!(bed.seqs(0), [1]);
}

#[tokio::test]
async fn seqs_go_on_after_a_clean_end_and_past_the_block_after_another() {
    let bed = bed();
    let (mut spool, first) = bed.open().await;
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=3);
    spool.close(3).unwrap();
    assert_eq!(bed.state().await, (4, 3, 1));

    let (mut spool, state) = bed.open().await;
    assert_eq!((&state.epoch, state.next_seq, state.last_seq), (&first.epoch, 4, 3));
    assert_eq!(spool.reserved(), 3);
    spool.reserve(4).await.unwrap();
    publish(&mut spool, 4..=5);
    drop(spool); // No end: as if it was killed.

    let (mut spool, state) = bed.open().await;
    assert_eq!((&state.epoch, state.next_seq, state.last_seq), (&first.epoch, 3 + BLOCK + 1, 5));
    spool.reserve(state.next_seq).await.unwrap();
    publish(&mut spool, state.next_seq..=state.next_seq);
    spool.close(state.next_seq).unwrap();
    assert_eq!(bed.seqs(3), [4, 5, 4100], "the hole is seen in the numbers");

    // Opened and closed without a word: nothing moves.
    let (spool, state) = bed.open().await;
    spool.close(0).unwrap();
    assert_eq!(bed.state().await.0, state.next_seq);
    // Killed right after the reservation: the whole block is a hole.
    let (mut spool, state) = bed.open().await;
    spool.reserve(state.next_seq).await.unwrap();
    drop(spool);
    let (spool, again) = bed.open().await;
    assert_eq!(again.next_seq, state.next_seq + BLOCK);
    spool.close(0).unwrap();
    assert_eq!(bed.state().await.0, again.next_seq, "a clean end never goes back");
}

#[tokio::test]
async fn a_file_cut_at_any_byte_never_gives_a_seq_again() {
    let bed = bed();
    let (mut spool, first) = bed.open().await;
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=4);
    spool.close(4).unwrap();
    let whole = fs::read(&bed.path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&bed.path, &whole[..cut]).unwrap();
        let read = bed.seqs(0);
        let (mut spool, state) = bed.open().await;
        if state.epoch == first.epoch {
            assert_eq!(state.next_seq, BLOCK + 1, "cut at {cut}");
            assert_eq!(state.last_seq, read.last().copied().unwrap_or(0), "cut at {cut}");
        } else {
            // The reservation was never whole, so nothing was published: a new space.
            assert_eq!((state.next_seq, read.len()), (1, 0), "cut at {cut}");
        }
        spool.reserve(state.next_seq).await.unwrap();
        publish(&mut spool, state.next_seq..=state.next_seq);
        let expected: Vec<u64> = read.into_iter().chain([state.next_seq]).collect();
        assert_eq!((bed.seqs(0), bed.page(0).epoch), (expected, state.epoch), "cut at {cut}");
    }
}

#[tokio::test]
async fn events_come_back_as_they_were_appended() {
    let bed = bed();
    let (mut spool, state) = bed.open().await;
    spool.reserve(9).await.unwrap();
    let events: [&[u8]; 4] = [b"{}", b"{\"a\":\"\\n\"}", "{\"é\":{\"seq\":7}}".as_bytes(), b"{\"seq\":1}"];
    let batch: Vec<(u64, &[u8])> = (1..).zip(events).collect();
    spool.append(&batch).unwrap();
    let page = bed.page(0);
    assert_eq!(page.epoch, state.epoch);
    let got: Vec<(u64, &[u8])> = page.events.iter().map(|(seq, event)| (*seq, event.as_ref())).collect();
    assert_eq!(got, batch);
    for bad in [(4, b"{}".as_slice()), (5, b"[1]"), (5, b"{\n}"), (5, b""), (BLOCK + 1, b"{}")] {
        let before = fs::read(&bed.path).unwrap();
        assert!(matches!(spool.append(&[bad]), Err(StoreError::Corrupt(_))), "{bad:?}");
        assert_eq!(fs::read(&bed.path).unwrap(), before);
    }
}

#[tokio::test]
async fn bisection_finds_every_place_in_a_large_and_damaged_file() {
    let bed = bed();
    let (mut spool, _) = bed.open().await;
    let mut published = Vec::new();
    let mut seq = 0;
    for round in 0..400_u64 {
        // Holes, lines of all sizes, control lines in between.
        seq += 1 + (round % 7) * 3;
        spool.reserve(seq + 40).await.unwrap();
        for _ in 0..20 {
            seq += 1;
            let text = "x".repeat((seq.wrapping_mul(2_654_435_761) % 900) as usize);
            let large = if seq % 1500 == 0 { "y".repeat(100_000) } else { String::new() };
            spool.append(&[(seq, format!("{{\"t\":\"{text}{large}\"}}").as_bytes())]).unwrap();
            published.push(seq);
        }
        if round % 50 == 0 {
            spool.put(b"\0\0{\"seq\":999999999\n{\"seq\":12\n\n{\"seq\":x}\n").unwrap();
        }
    }
    assert!(fs::metadata(&bed.path).unwrap().len() > 2_000_000);
    for after in (0..seq + 5).step_by(3).chain([0, 1, seq - 1, seq, seq + 1, u64::MAX]) {
        let page = spool_read::page(&bed.path, after, 3, usize::MAX).unwrap();
        let got: Vec<u64> = page.events.iter().map(|(seq, _)| *seq).collect();
        let rest: Vec<u64> = published.iter().copied().filter(|seq| *seq > after).collect();
        assert_eq!(got, rest[..rest.len().min(3)], "after {after}");
        assert_eq!(page.more, rest.len() > 3, "after {after}");
    }
    assert_eq!(bed.seqs(0), published);
    let page = spool_read::page(&bed.path, 0, usize::MAX, 2000).unwrap();
    let bytes: usize = page.events.iter().map(|(_, event)| event.len()).sum();
    assert!(page.more && (2000..4000).contains(&bytes), "{bytes}");
    drop(spool);
    let (_, state) = bed.open().await;
    assert_eq!((state.oldest_seq, state.last_seq), (published[0], seq));
}

#[tokio::test]
async fn over_the_cap_the_older_half_goes() {
    let bed = bed();
    let (mut spool, state) = bed.open_capped(10_000).await;
    let mut seq = 0;
    for _ in 0..5 {
        while !spool.oversize() {
            seq += 1;
            spool.reserve(seq).await.unwrap();
            publish(&mut spool, seq..=seq);
        }
        trimmed(&mut spool).await;
    }
    assert!(fs::metadata(&bed.path).unwrap().len() < 10_000);
    publish(&mut spool, seq + 1..=seq + 1);
    let kept = bed.seqs(0);
    assert_eq!(kept, (kept[0]..=seq + 1).collect::<Vec<_>>(), "the newest, without a gap among them");
    assert!(kept[0] > 1 && kept.len() > 20);
    drop(spool);
    let (spool, again) = bed.open().await;
    assert_eq!((&again.epoch, again.next_seq, again.oldest_seq), (&state.epoch, BLOCK + 1, kept[0]));
    spool.close(0).unwrap();
    assert_eq!(
        fs::read_dir(bed.dir.root())
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"))
            .count(),
        0
    );
}

/// Lets the older half go; nothing else happens meanwhile.
async fn trimmed(spool: &mut Spool) {
    let begun = std::time::Instant::now();
    while spool.oversize() {
        assert!(begun.elapsed().as_secs() < 60, "the copy is never put in place");
        spool.trim().await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_trim_does_not_keep_the_publisher_and_what_is_published_meanwhile_is_kept() {
    let bed = bed();
    let (mut spool, _) = bed.open_capped(8_000).await;
    let mut seq = 0;
    while !spool.oversize() {
        seq += 1;
        spool.reserve(seq).await.unwrap();
        publish(&mut spool, seq..=seq);
    }
    spool.trim().await.unwrap();
    assert!(spool.oversize(), "the call came back before the copy was in place");
    // Past a reservation, so that one is made meanwhile.
    let last = BLOCK + 5;
    for seq in seq + 1..=last {
        spool.reserve(seq).await.unwrap();
        if seq > BLOCK || seq % 512 == 0 {
            publish(&mut spool, seq..=seq);
        }
    }
    trimmed(&mut spool).await;
    publish(&mut spool, last + 1..=last + 1);
    let kept = bed.seqs(0);
    assert!(kept.ends_with(&(BLOCK..=last + 1).collect::<Vec<_>>()), "{kept:?}");
    assert!(kept[0] > 1 && kept[0] < seq && kept.contains(&seq), "{kept:?}");
    drop(spool);
    assert_eq!(bed.open().await.1.next_seq, 2 * BLOCK + 1, "nothing that was reserved is forgotten");
}

#[tokio::test]
async fn a_copy_that_nobody_wants_any_more_is_removed() {
    let bed = bed();
    let (mut spool, _) = bed.open_capped(8_000).await;
    for seq in 1..=400 {
        spool.reserve(seq).await.unwrap();
        publish(&mut spool, seq..=seq);
    }
    spool.trim().await.unwrap();
    spool.close(400).unwrap();
    let begun = std::time::Instant::now();
    let temps =
        || fs::read_dir(bed.dir.root()).unwrap().any(|e| e.unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    // Made after the close, perhaps; then it is there for a moment.
    std::thread::sleep(std::time::Duration::from_millis(20));
    while temps() {
        assert!(begun.elapsed().as_secs() < 60, "the copy stays");
        std::thread::yield_now();
    }
    assert_eq!(bed.seqs(399), [400]);
}

#[tokio::test]
async fn a_lost_spool_begins_a_new_space() {
    let bed = bed();
    let (mut spool, first) = bed.open().await;
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=1);
    drop(spool);
    fs::remove_file(&bed.path).unwrap();
    let (spool, second) = bed.open().await;
    assert_ne!(first.epoch, second.epoch);
    assert_eq!(second.next_seq, 1);
    drop(spool);
    fs::write(&bed.path, "rubbish\n{\"seq\":5}\n").unwrap();
    assert_eq!(bed.page(0), SpoolPage::default());
    let (mut spool, third) = bed.open().await;
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=1);
    assert_eq!((bed.page(0).epoch, bed.seqs(0)), (third.epoch, vec![1]));
}

#[tokio::test]
async fn a_former_holder_writes_no_event_and_no_reservation() {
    let bed = bed();
    let (mut spool, _) = bed.open().await;
    spool.reserve(1).await.unwrap();
    publish(&mut spool, 1..=1);
    let taken = bed.dir.lock(&id(), "other", true).await.unwrap();
    let before = fs::read(&bed.path).unwrap();
    assert!(matches!(spool.append(&[(2, b"{}")]), Err(StoreError::Fenced)));
    assert!(matches!(spool.reserve(BLOCK + 1).await, Err(StoreError::Fenced)));
    assert!(matches!(spool.close(1), Err(StoreError::Fenced)));
    assert_eq!(fs::read(&bed.path).unwrap(), before);
    let (_, state) = bed.dir.spool(&id(), taken).await.unwrap();
    assert_eq!(state.next_seq, BLOCK + 1, "what the former one published unseen is passed over");
}
