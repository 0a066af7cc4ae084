//! Finding the records of a segment that has no good index: from head to head, and past damage to the next
//! good one.

use crate::base::descriptor::Descriptor;
use crate::disk::folder::read_at;
use crate::disk::ops as disk;
use crate::format::file::FileHeader;
use crate::format::footer::{Foot, Foot1};
use crate::format::record_header::IndexEntry;
use crate::format::sizes::{
    ALIGN, CHECKPOINT_KIND, FILE_MAGIC, FOOT_BYTES, FOOT_BYTES_1, FOOT_MAGIC, HEAD_BYTES, HEADER_BYTES,
    INDEX_KIND, MOST_BYTES, MOST_RECORDS, RECORD_MAGIC,
};

/// How much is read at once where heads follow each other closely.
const NEAR: usize = 4 << 10;
/// How much is read at once while looking for the next good record.
const FAR: usize = 256 << 10;
/// How much is read at once of payloads.
const PAYLOAD: usize = 64 << 10;
/// Of payloads that decide whether their heads are believed, at most so many times what the file takes is read, and
/// [`AT_LEAST`]. What was damaged by chance takes less than twice; a file that was made to take longer has its heads
/// believed then.
const TIMES: u64 = 4;
const AT_LEAST: u64 = 64 << 20;

/// What a scan found.
pub(crate) struct Scan {
    /// The records, in the order in which they stand.
    pub(crate) entries: Vec<IndexEntry>,
    /// Stretches in which there was no good record.
    pub(crate) damaged: u64,
    /// Where the last whole record ends.
    pub(crate) end: u64,
    /// Whether an index follows: its writer has sealed it, or died at it.
    pub(crate) sealed: bool,
    /// Something could not be read: there may be more than was found.
    pub(crate) failed: bool,
    /// It was told to stop: this is not all.
    pub(crate) stopped: bool,
}

/// A piece of the file in memory.
struct Window<'a> {
    fd: &'a Descriptor,
    bytes: Vec<u8>,
    start: u64,
    /// How many bytes were read from the file.
    read: u64,
    /// Whether a read has failed.
    failed: bool,
    /// Asked before each read; where it says true, nothing more is read.
    interrupted: &'a dyn Fn() -> bool,
    stopped: bool,
}

impl<'a> Window<'a> {
    fn new(fd: &'a Descriptor, interrupted: &'a dyn Fn() -> bool) -> Self {
        Window { fd, bytes: Vec::new(), start: 0, read: 0, failed: false, interrupted, stopped: false }
    }

    /// Whether the byte at `at` is in memory.
    fn holds(&self, at: u64) -> bool {
        at.checked_sub(self.start).is_some_and(|skip| skip < self.bytes.len() as u64)
    }

    /// The bytes from `at` on: at least `wanted` of them, or `None` where the file ends or can't be read.
    fn get(&mut self, at: u64, wanted: usize, ahead: usize) -> Option<&[u8]> {
        let inside = |window: &Self| {
            let skip = usize::try_from(at.checked_sub(window.start)?).ok()?;
            (window.bytes.len().checked_sub(skip)? >= wanted).then_some(skip)
        };
        if inside(self).is_none() {
            self.stopped |= (self.interrupted)();
            if self.stopped {
                return None;
            }
            self.bytes.clear();
            self.start = at;
            if read_at(self.fd, &mut self.bytes, ahead.max(wanted), at).is_err() {
                // A file that can't be read any further ends here.
                self.failed = true;
                return None;
            }
            self.read += self.bytes.len() as u64;
        }
        inside(self).map(|skip| &self.bytes[skip..])
    }

    /// Whether the payload of this record is the one that its head speaks of. False where it cannot be read.
    fn is_whole(&mut self, entry: &IndexEntry) -> bool {
        let mut crc = crc32c::crc32c(&entry.key);
        let (mut at, mut left) = (entry.offset + HEAD_BYTES as u64, entry.stored as usize);
        while left > 0 {
            let step = left.min(PAYLOAD);
            let Some(bytes) = self.get(at, step, PAYLOAD) else { return false };
            crc = crc32c::crc32c_append(crc, &bytes[..step]);
            (at, left) = (at + step as u64, left - step);
        }
        crc == entry.crc
    }
}

/// Looks at the heads of the file's records from `from` up to `length`. Payloads are read behind damage only.
///
/// From head to head one comes to nothing but heads, because a head is believed for its checksum. Behind damage that is
/// no longer so: what is found there may be what somebody has put into a payload, and say that it takes the place of
/// good records, or that it reaches past the end of the file. So from the first damage on a record counts only with its
/// payload, and one that does not count hides nothing. `alive`: the file's writer goes on with it, so that a record that
/// reaches past the end is one that is being written.
///
/// What no writer makes is not looked for: records behind [`MOST_BYTES`], more than [`MOST_RECORDS`] of them, or any in
/// a hole. `interrupted` is asked before each read.
pub(crate) fn scan(
    fd: &Descriptor,
    from: u64,
    length: u64,
    tag: [u8; 8],
    alive: bool,
    interrupted: &dyn Fn() -> bool,
) -> Scan {
    let (entries, end) = (Vec::new(), from);
    let mut found = Scan { entries, damaged: 0, end, sealed: false, failed: false, stopped: false };
    let (mut window, mut payloads) = (Window::new(fd, interrupted), Window::new(fd, interrupted));
    let length = length.min(MOST_BYTES);
    // Where the system does not say what it takes, its length.
    let taken =
        disk::fstat(fd).map_or(length, |stat| (stat.st_blocks as u64).saturating_mul(512).min(length));
    let most = AT_LEAST.saturating_add(taken.saturating_mul(TIMES));
    let mut at = from;
    // Between damage and the next record; behind something that the file may end with; and, from the first of either
    // on, not certain to be where a record starts.
    let (mut lost, mut ended, mut adrift) = (false, false, false);
    let mut large = false;
    while at + HEAD_BYTES as u64 <= length {
        // Of a record that is larger than what is read at once only the head is wanted.
        let near = if large { HEAD_BYTES } else { NEAR };
        let ahead = if lost { FAR } else { near };
        let Some(bytes) = window.get(at, HEAD_BYTES, ahead) else { break };
        let head = bytes.first_chunk().and_then(|head| IndexEntry::decode_head(head, at));
        let reaches = |entry: &IndexEntry| at + HEAD_BYTES as u64 + u64::from(entry.stored);
        match head {
            Some((entry, _)) if reaches(&entry) > length => {
                if alive && !adrift {
                    break;
                }
                // A torn tail, unless a record follows.
                ended |= !lost;
            }
            Some((entry, record_tag)) if !adrift || payloads.read > most || payloads.is_whole(&entry) => {
                // What looked like the end was none.
                found.damaged += u64::from(ended);
                (lost, ended) = (false, false);
                if record_tag == tag && !matches!(entry.kind, INDEX_KIND | CHECKPOINT_KIND) {
                    if found.entries.len() >= MOST_RECORDS {
                        break;
                    }
                    found.entries.push(entry);
                }
                large = entry.stored as usize > NEAR;
                at = entry.end();
                if entry.kind == INDEX_KIND {
                    found.sealed = true;
                } else {
                    found.end = at;
                }
                continue;
            }
            Some(_) => found.damaged += u64::from(!lost),
            None if lost => {}
            None => {
                let rest = length - at;
                let whole = usize::try_from(rest).map_or(FOOT_BYTES, |rest| rest.min(FOOT_BYTES));
                let Some(bytes) = window.get(at, whole, ahead) else { break };
                match block_of_a_sealed_end(bytes) {
                    Some(block) if block <= rest && !adrift => {
                        at += block;
                        continue;
                    }
                    Some(_) => ended = true,
                    None => found.damaged += 1,
                }
            }
        }
        (lost, adrift) = (true, true);
        let Some(bytes) = window.get(at, HEAD_BYTES, FAR) else { break };
        at += distance_to_magic(bytes);
        if !window.holds(at) {
            at = disk::next_data(fd, at).map_or(length, |data| at.max(data - data % ALIGN));
        }
    }
    found.failed = window.failed || payloads.failed;
    found.stopped = window.stopped || payloads.stopped;
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
    while at + RECORD_MAGIC.len() <= bytes.len() && !bytes[at..].starts_with(&RECORD_MAGIC) {
        at += step;
    }
    at as u64
}
