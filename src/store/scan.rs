//! Finding the records of a segment that has no good index: from head to head, and past damage to the next
//! good one.

use std::os::fd::OwnedFd;

use super::folder::read_at;
use super::format::{
    ALIGN, CHECKPOINT_KIND, FILE_MAGIC, FOOT_BYTES, FOOT_BYTES_1, FOOT_MAGIC, FileHeader, Foot, Foot1,
    HEAD_BYTES, HEADER_BYTES, INDEX_KIND, IndexEntry, RECORD_MAGIC,
};

/// How much is read at once where heads follow each other closely.
const NEAR: usize = 4 << 10;
/// How much is read at once while looking for the next good record.
const FAR: usize = 256 << 10;

/// What a scan found.
pub(super) struct Scan {
    /// The records, in the order in which they stand.
    pub(super) entries: Vec<IndexEntry>,
    /// Stretches in which there was no good record.
    pub(super) damaged: u64,
    /// Where the last whole record ends.
    pub(super) end: u64,
    /// Whether an index follows: its writer has sealed it, or died at it.
    pub(super) sealed: bool,
}

/// A piece of the file in memory.
struct Window<'a> {
    fd: &'a OwnedFd,
    bytes: Vec<u8>,
    start: u64,
}

impl Window<'_> {
    /// The bytes from `at` on: at least `wanted` of them, or `None` where the file ends or can't be read.
    fn get(&mut self, at: u64, wanted: usize, ahead: usize) -> Option<&[u8]> {
        let inside = |window: &Self| {
            let skip = usize::try_from(at.checked_sub(window.start)?).ok()?;
            (window.bytes.len().checked_sub(skip)? >= wanted).then_some(skip)
        };
        if inside(self).is_none() {
            self.bytes.clear();
            self.start = at;
            // A file that can't be read any further ends here.
            read_at(self.fd, &mut self.bytes, ahead.max(wanted), at).ok()?;
        }
        inside(self).map(|skip| &self.bytes[skip..])
    }
}

/// Looks at the heads of the file's records from `from` up to `length`; payloads are not read.
pub(super) fn scan(fd: &OwnedFd, from: u64, length: u64, tag: [u8; 8]) -> Scan {
    let mut found = Scan { entries: Vec::new(), damaged: 0, end: from, sealed: false };
    let mut window = Window { fd, bytes: Vec::new(), start: 0 };
    let mut at = from;
    let mut lost = false;
    while at + HEAD_BYTES as u64 <= length {
        let ahead = if lost { FAR } else { NEAR };
        let Some(bytes) = window.get(at, HEAD_BYTES, ahead) else { break };
        let head = bytes.first_chunk().and_then(|head| IndexEntry::decode_head(head, at));
        let Some((entry, record_tag)) = head else {
            let rest = length - at;
            let whole = usize::try_from(rest).map_or(FOOT_BYTES, |rest| rest.min(FOOT_BYTES));
            let Some(bytes) = window.get(at, whole, ahead) else { break };
            match block_of_a_sealed_end(bytes) {
                Some(block) if block > rest => break,
                Some(block) => at += block,
                None => {
                    found.damaged += u64::from(!lost);
                    lost = true;
                    at += distance_to_magic(bytes);
                }
            }
            continue;
        };
        lost = false;
        let payload_end = at + HEAD_BYTES as u64 + u64::from(entry.stored);
        if payload_end > length {
            // A torn tail: its writer died, or is about to write the rest.
            break;
        }
        if record_tag == tag && !matches!(entry.kind, INDEX_KIND | CHECKPOINT_KIND) {
            found.entries.push(entry);
        }
        at = entry.end();
        if entry.kind == INDEX_KIND {
            found.sealed = true;
        } else {
            found.end = at;
        }
    }
    found
}

/// The length of a header's copy or a foot, which are no damage; also of one that was cut off.
fn block_of_a_sealed_end(bytes: &[u8]) -> Option<u64> {
    if bytes.first_chunk().and_then(Foot::decode).is_some() {
        return Some(FOOT_BYTES as u64);
    }
    if bytes.first_chunk().and_then(Foot1::decode).is_some() {
        return Some(FOOT_BYTES_1 as u64);
    }
    if bytes.len() < FOOT_BYTES && bytes.starts_with(&FOOT_MAGIC) {
        return Some(FOOT_BYTES as u64);
    }
    let cut = bytes.len() < HEADER_BYTES && bytes.starts_with(&FILE_MAGIC);
    (cut || matches!(FileHeader::decode(bytes), Ok(Some(_)))).then_some(HEADER_BYTES as u64)
}

/// How far it is from the start of `bytes`, where there is no record, to the next place that could be one.
fn distance_to_magic(bytes: &[u8]) -> u64 {
    let step = ALIGN as usize;
    let mut at = step;
    while at + RECORD_MAGIC.len() <= bytes.len() {
        if bytes[at..].starts_with(&RECORD_MAGIC) || bytes[at] == FILE_MAGIC[0] {
            break;
        }
        at += step;
    }
    at as u64
}
