//! Reading a spool: its state, a page by bisection, and the copy of its newer half. Needs no lock; knows that the tail may be torn
//! and that any line may be damaged.

use super::{
    files::{self, Access},
    lines::{Line, Lines},
    spool::{SpoolPage, SpoolState},
};
use bytes::Bytes;
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};

/// The longest line that is read; an event is never larger than the prompt or tool output it tells of.
const LINE_BYTES: usize = 64 << 20;

/// Bisection ends when this little is left: reading it is as quick as another step.
const NEAR_BYTES: u64 = 32 << 10;

/// What is read at once.
const READ_BYTES: usize = 32 << 10;

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) epoch: String,
    /// No seq up to here may be used again.
    pub(super) floor: u64,
    pub(super) last_seq: u64,
    pub(super) oldest_seq: u64,
    pub(super) ended: bool,
    /// Where whole lines end.
    pub(super) len: u64,
}

/// One line, as far as a spool cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event(u64),
    Reserve(u64),
    End(u64),
    Other,
}

/// `{"word":number}` and its newline.
pub(super) fn control_line(word: &str, number: u64) -> String {
    format!("{{\"{word}\":{number}}}\n")
}

fn kind(line: &[u8]) -> Kind {
    let number = |prefix: &[u8]| {
        let rest = line.strip_prefix(prefix)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at_checked(digits)?;
        let whole = line.ends_with(b"}") && matches!(rest.first(), Some(b',' | b'}'));
        std::str::from_utf8(digits).ok().filter(|_| whole)?.parse().ok()
    };
    if let Some(seq) = number(b"{\"seq\":") {
        Kind::Event(seq)
    } else if let Some(upto) = number(b"{\"reserve\":") {
        Kind::Reserve(upto)
    } else if let Some(last) = number(b"{\"end\":") {
        Kind::End(last)
    } else {
        Kind::Other
    }
}

fn epoch_of(line: &[u8]) -> Option<String> {
    let hex = line.strip_prefix(b"{\"epoch\":\"")?.get(..16)?;
    let plain = hex.iter().all(|byte| byte.is_ascii_hexdigit());
    String::from_utf8(hex.to_vec()).ok().filter(|_| plain && line.ends_with(b"}"))
}

fn lines_from(file: &File, offset: u64) -> io::Result<Lines<BufReader<io::Take<&File>>>> {
    let len = file.metadata()?.len();
    let mut at = file;
    at.seek(SeekFrom::Start(offset))?;
    // What a writer appends meanwhile is for the next read.
    Ok(Lines::new(BufReader::with_capacity(READ_BYTES, at.take(len.saturating_sub(offset))), offset, LINE_BYTES))
}

/// What the file says; `None` when its first or its last control line is damaged beyond use: then a new seq space must begin.
pub(super) fn look(file: &File) -> io::Result<Option<Found>> {
    let mut lines = lines_from(file, 0)?;
    let Some(Line::Whole(first)) = lines.next()? else { return Ok(None) };
    let Some(epoch) = epoch_of(first) else { return Ok(None) };
    let head = lines.end();
    let oldest_seq = first_event(&mut lines)?;

    let mut found = Found { epoch, floor: 0, last_seq: 0, oldest_seq, ended: false, len: head };
    let mut block = None;
    // The last control line, found from the end in steps of a block each; every step is read forwards.
    let mut upper = file.metadata()?.len();
    let mut whole_end = None;
    while upper > head && (block.is_none() || found.last_seq == 0) {
        let lower = line_start(file, upper.saturating_sub(1 << 20).max(head), head)?;
        let mut lines = lines_from(file, lower)?;
        let (mut control, mut last_event) = (None, 0);
        while lines.end() < upper {
            match lines.next()? {
                Some(Line::Whole(text)) => match kind(text) {
                    Kind::Event(seq) => last_event = last_event.max(seq),
                    Kind::Reserve(upto) => control = Some((upto, false)),
                    Kind::End(last) => control = Some((last, true)),
                    Kind::Other => {}
                },
                Some(Line::TooLong) => {}
                Some(Line::Unended(_) | Line::UnendedTooLong) => {
                    whole_end.get_or_insert(lines.start());
                }
                None => break,
            }
        }
        whole_end.get_or_insert(lines.end());
        block = block.or(control);
        found.last_seq = found.last_seq.max(last_event);
        upper = lower;
    }
    found.len = whole_end.unwrap_or(head);
    let Some((upto, ended)) = block else { return Ok(None) };
    found.floor = upto.max(found.last_seq);
    found.ended = ended;
    Ok(Some(found))
}

fn first_event<R: io::BufRead>(lines: &mut Lines<R>) -> io::Result<u64> {
    loop {
        match lines.next()? {
            Some(Line::Whole(text)) => {
                if let Kind::Event(seq) = kind(text) {
                    return Ok(seq);
                }
            }
            Some(Line::TooLong) => {}
            Some(Line::Unended(_) | Line::UnendedTooLong) | None => return Ok(0),
        }
    }
}

/// Where the line begins that holds `offset`; not before `floor`, which is such a place.
fn line_start(file: &File, offset: u64, floor: u64) -> io::Result<u64> {
    let mut end = offset;
    let mut chunk = vec![0; READ_BYTES];
    while end > floor {
        let begin = end.saturating_sub(READ_BYTES as u64).max(floor);
        let part = chunk.get_mut(..usize::try_from(end - begin).unwrap_or(0)).unwrap_or_default();
        let read = files::read_at(file, part, begin)?;
        if let Some(at) = memchr::memrchr(b'\n', part.get(..read).unwrap_or_default()) {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(floor)
}

/// The state for a reader; `None`: no spool, or none that can be used.
pub(super) fn state(path: &Path) -> io::Result<Option<SpoolState>> {
    let file = match files::open(path, Access::Read) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    Ok(look(&file)?.map(|found| SpoolState {
        epoch: found.epoch,
        next_seq: found.floor + 1,
        last_seq: found.last_seq,
        oldest_seq: found.oldest_seq,
    }))
}

/// Events with a seq above `after`: at most `max_events`, and no more once there are `max_bytes` of them.
pub(super) fn page(path: &Path, after: u64, max_events: usize, max_bytes: usize) -> io::Result<SpoolPage> {
    let file = match files::open(path, Access::Read) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(SpoolPage::default()),
        Err(err) => return Err(err),
    };
    let mut lines = lines_from(&file, 0)?;
    let Some(Line::Whole(first)) = lines.next()? else { return Ok(SpoolPage::default()) };
    let Some(epoch) = epoch_of(first) else { return Ok(SpoolPage::default()) };
    let begin = bisect(&file, lines.end(), after)?;
    let mut page = SpoolPage { epoch, events: Vec::new(), more: false };
    let mut lines = lines_from(&file, begin)?;
    let (mut bytes, mut last) = (0, after);
    loop {
        let text = match lines.next()? {
            Some(Line::Whole(text)) => text,
            Some(Line::TooLong) => continue,
            Some(Line::Unended(_) | Line::UnendedTooLong) | None => return Ok(page),
        };
        let Kind::Event(seq) = kind(text) else { continue };
        if seq <= last {
            continue;
        }
        if page.events.len() >= max_events || bytes >= max_bytes {
            page.more = true;
            return Ok(page);
        }
        let event = event_of(text);
        bytes += event.len();
        last = seq;
        page.events.push((seq, event));
    }
}

/// The event as it was appended: the line without its seq.
fn event_of(line: &[u8]) -> Bytes {
    let Some(comma) = memchr::memchr(b',', line) else { return Bytes::from_static(b"{}") };
    let mut event = line.get(comma..).unwrap_or_default().to_vec();
    if let Some(first) = event.first_mut() {
        *first = b'{';
    }
    event.into()
}

/// A line's beginning at or a little before the first event above `after`.
fn bisect(file: &File, head: u64, after: u64) -> io::Result<u64> {
    // Every event that begins before `low` is at or below `after`; one that begins at `high` or later is above, if there is one.
    let (mut low, mut high) = (head, file.metadata()?.len());
    while high - low > NEAR_BYTES {
        let middle = low + (high - low) / 2;
        let mut lines = lines_from(file, middle)?;
        lines.next()?; // The rest of the line that holds the middle.
        let mut step = None;
        while step.is_none() && lines.end() < high {
            match lines.next()? {
                Some(Line::Whole(text)) => {
                    if let Kind::Event(seq) = kind(text) {
                        step = Some((seq, lines.start(), lines.end()));
                    }
                }
                Some(Line::TooLong) => {}
                Some(Line::Unended(_) | Line::UnendedTooLong) | None => break,
            }
        }
        match step {
            Some((seq, _, end)) if seq <= after => low = end,
            Some(_) | None => high = middle,
        }
    }
    // `high` may lie inside a line, `low` never does.
    Ok(low)
}

/// A new file at `temp`, synced: the first line, the lines from the one after `range.start` on, and `tail`. Answers with its length.
pub(super) fn copy_tail(
    mut file: &File,
    range: Range<u64>,
    epoch: &str,
    tail: &str,
    temp: &Path,
) -> io::Result<(File, u64)> {
    let mut lines = lines_from(file, range.start)?;
    lines.next()?;
    let begin = lines.end().min(range.end);
    let mut new = files::open(temp, Access::CreateNew)?;
    let head = format!("{{\"epoch\":\"{epoch}\",\"v\":1}}\n");
    new.write_all(head.as_bytes())?;
    file.seek(SeekFrom::Start(begin))?;
    let copied = io::copy(&mut file.take(range.end - begin), &mut new)?;
    // Last, since it is the last control line that counts.
    new.write_all(tail.as_bytes())?;
    new.sync_data()?;
    Ok((new, (head.len() + tail.len()) as u64 + copied))
}
