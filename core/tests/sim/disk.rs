//! A transcript in memory, byte for byte: writes that are refused, cut short, not synced, or the last thing that the process
//! does. What is acknowledged here is what a crash must leave, but for what a power cut may take of what was not synced.

use triplane_protocol::record::Record;

/// What befalls a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// Nothing of it is written.
    Refused,
    /// A part is written, and taken back.
    Short(u8),
    /// A part is written, and cannot be taken back before the next write.
    Ragged(u8),
    /// It is written, cannot be synced, and is taken back.
    Unsynced,
    /// The process dies with a part of it written.
    Dies(u8),
}

/// Why a write did not come to be.
#[derive(Debug, PartialEq)]
pub(crate) enum Failed {
    Told,
    Died,
}

#[derive(Debug, Default)]
pub(crate) struct Disk {
    bytes: Vec<u8>,
    /// Where whole lines end, as the writer knows it.
    len: usize,
    synced: usize,
    /// Every record that was acknowledged, and how many of them were synced.
    acked: Vec<Record>,
    safe: usize,
    /// Of the last write that failed, if a crash may still bring it back.
    in_flight: Vec<Record>,
    pub(crate) fault: Option<Fault>,
    pub(crate) faults: u8,
}

impl Disk {
    pub(crate) fn append(&mut self, records: &[Record], sync: bool) -> Result<(), Failed> {
        self.bytes.truncate(self.len);
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record).map_err(|_| Failed::Told)?;
            text.push(b'\n');
        }
        let part = |keep: u8| text.len() * usize::from(keep) / 256;
        self.in_flight = records.to_vec();
        if let Some(fault) = self.fault.filter(|_| self.faults > 0) {
            self.faults -= 1;
            match fault {
                Fault::Refused | Fault::Short(_) => return Err(Failed::Told),
                Fault::Ragged(keep) => {
                    self.bytes.extend_from_slice(&text[..part(keep)]);
                    return Err(Failed::Told);
                }
                Fault::Unsynced if sync => return Err(Failed::Told),
                Fault::Unsynced => (),
                Fault::Dies(keep) => {
                    self.bytes.extend_from_slice(&text[..part(keep)]);
                    return Err(Failed::Died);
                }
            }
        }
        self.bytes.append(&mut text);
        self.len = self.bytes.len();
        self.acked.extend_from_slice(records);
        self.in_flight.clear();
        if sync {
            (self.synced, self.safe) = (self.len, self.acked.len());
        }
        Ok(())
    }

    /// What is acknowledged and safe even from a power cut.
    pub(crate) fn safe(&self) -> &[Record] {
        &self.acked[..self.safe]
    }

    pub(crate) fn all_safe(&self) -> bool {
        self.safe == self.acked.len()
    }

    /// The process dies. Under a power cut `keep` of 256 parts of what was not synced are left. Answers with how many
    /// acknowledged records went.
    pub(crate) fn crash(&mut self, keep: Option<u8>) -> usize {
        let loose = self.bytes.len() - self.synced;
        if let Some(keep) = keep {
            self.bytes.truncate(self.synced + loose * usize::from(keep) / 256);
        }
        self.fault = None;
        let lines = self.bytes.iter().filter(|byte| **byte == b'\n').count();
        self.acked.len().saturating_sub(lines)
    }

    /// What a load finds: whole lines, a torn last one cut off. `killed`: the system lived on, so nothing that was written is gone.
    /// Errors: it is not the acknowledged records, or what follows them is not of the write that was in flight.
    pub(crate) fn load(&mut self, killed: bool) -> Result<Vec<Record>, String> {
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut found: Vec<Record> = Vec::new();
        for line in self.bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            found.push(serde_json::from_slice(line).map_err(|error| format!("a whole line is no record: {error}"))?);
        }
        // Whole but for its newline: nothing of it is lost.
        let last = serde_json::from_slice(&self.bytes[whole..]).ok();
        match last {
            Some(record) => {
                found.push(record);
                self.bytes.push(b'\n');
            }
            None => self.bytes.truncate(whole),
        }
        let least = if killed { self.acked.len() } else { self.safe };
        if found.len() < least {
            return Err(format!("{} records are left, {least} were promised", found.len()));
        }
        let acked = found.len().min(self.acked.len());
        let (kept, more) = found.split_at(acked);
        if kept != &self.acked[..acked] || !self.in_flight.starts_with(more) {
            return Err("the disk has what nobody acknowledged, or not what somebody did".into());
        }
        self.len = self.bytes.len();
        self.acked.clone_from(&found);
        (self.synced, self.safe) = (self.len, found.len());
        self.in_flight.clear();
        Ok(found)
    }
}
