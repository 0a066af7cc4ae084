//! Finding the records of a segment without an index: from record header to record header, and across damage to the
//! next valid record.

use crate::format::file::FileHeader;
use crate::format::footer::Footer;
use crate::format::record_header::IndexEntry;
use crate::format::sizes::{
    ALIGN, CHECKPOINT_KIND, FILE_MAGIC, FOOTER_BYTES, FOOTER_MAGIC, HEADER_BYTES, INDEX_KIND, MOST_BYTES,
    MOST_RECORDS, RECORD_HEADER_BYTES, RECORD_MAGIC,
};
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::read_at;
use vkstash_host::disk::ops as disk;

/// Bytes of the file that are read at once where record headers are close to each other.
const NEAR: usize = 4 << 10;
/// Bytes that are read at once in the search for a valid record.
const FAR: usize = 256 << 10;
/// Bytes of payloads that are read at once.
const PAYLOAD: usize = 64 << 10;
/// After damage, a record header counts only if its payload matches it. The payloads that are read for that have at
/// most this many times the allocated size of the file, plus [`AT_LEAST`] bytes. Accidental damage needs less than
/// twice the size; in a file that was made to need more, record headers count without their payloads from then on.
const TIMES: u64 = 4;
/// Bytes of payloads that are read after damage in any file ([`TIMES`]).
const AT_LEAST: u64 = 64 << 20;

/// The result of a scan.
pub(crate) struct Scan {
    /// The records, in the order of the file.
    pub(crate) entries: Vec<IndexEntry>,
    /// The number of damaged stretches.
    pub(crate) damaged: u64,
    /// The end of the last whole record.
    pub(crate) end: u64,
    /// The file has an index after its records: the writer has sealed the file, or died while it did.
    pub(crate) sealed: bool,
    /// Some of the file could not be read, so records may be missing.
    pub(crate) failed: bool,
    /// The scan was interrupted, so records may be missing.
    pub(crate) stopped: bool,
}

/// A piece of the file in memory.
struct Window<'a> {
    fd: &'a Descriptor,
    bytes: Vec<u8>,
    /// The offset in the file of the first byte of `bytes`.
    start: u64,
    /// The number of bytes that were read from the file so far.
    read: u64,
    /// Whether a read has failed.
    failed: bool,
    /// Called before each read. If it returns true, nothing more is read.
    interrupted: &'a dyn Fn() -> bool,
    /// `interrupted` has returned true.
    stopped: bool,
}

impl<'a> Window<'a> {
    fn new(fd: &'a Descriptor, interrupted: &'a dyn Fn() -> bool) -> Self {
        Window { fd, bytes: Vec::new(), start: 0, read: 0, failed: false, interrupted, stopped: false }
    }

    /// Whether the byte at offset `at` of the file is in memory.
    fn holds(&self, at: u64) -> bool {
        at.checked_sub(self.start).is_some_and(|skip| skip < self.bytes.len() as u64)
    }

    /// At least `wanted` bytes of the file from the offset `at` on. Where they are not in memory, `ahead` bytes are
    /// read. `None`: the file ends, or cannot be read.
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
                // The scan ends where the file cannot be read.
                self.failed = true;
                return None;
            }
            self.read += self.bytes.len() as u64;
        }
        inside(self).map(|skip| &self.bytes[skip..])
    }

    /// Whether the payload of a record matches the checksum in its header. False: it does not, or cannot be read.
    fn is_whole(&mut self, entry: &IndexEntry) -> bool {
        let mut crc = crc32c::crc32c(&entry.key);
        let (mut at, mut left) = (entry.offset + RECORD_HEADER_BYTES as u64, entry.stored as usize);
        while left > 0 {
            let step = left.min(PAYLOAD);
            let Some(bytes) = self.get(at, step, PAYLOAD) else { return false };
            crc = crc32c::crc32c_append(crc, &bytes[..step]);
            (at, left) = (at + step as u64, left - step);
        }
        crc == entry.crc
    }
}

/// Finds the records from `from` to `length`, and reads payloads only after damage.
///
/// Up to the first damage each record header follows the previous record, and its checksum is enough. After damage,
/// what looks like a record header may be bytes of a payload, and may claim the place of good records or reach past the
/// end of the file. So from then on a record counts only if its payload is valid too, and one that does not count hides
/// nothing. If the writer is `alive`, a record that reaches past the end is being written.
///
/// Records after [`MOST_BYTES`], more than [`MOST_RECORDS`] records, and records in holes of the file are not looked
/// for, because no writer makes them. `interrupted` is asked before each read.
pub(crate) fn scan(
    fd: &Descriptor,
    from: u64,
    length: u64,
    tag: [u8; 8],
    alive: bool,
    interrupted: &dyn Fn() -> bool,
) -> Scan {
    let length = length.min(MOST_BYTES);
    // Where the system does not tell the allocated size, the length takes its place.
    let taken =
        disk::fstat(fd).map_or(length, |stat| (stat.st_blocks as u64).saturating_mul(512).min(length));
    let (entries, end) = (Vec::new(), from);
    let mut scanner = Scanner {
        length,
        tag,
        alive,
        window: Window::new(fd, interrupted),
        payloads: Window::new(fd, interrupted),
        most: AT_LEAST.saturating_add(taken.saturating_mul(TIMES)),
        at: from,
        lost: false,
        ended: false,
        adrift: false,
        large: false,
        found: Scan { entries, damaged: 0, end, sealed: false, failed: false, stopped: false },
    };
    while scanner.at + RECORD_HEADER_BYTES as u64 <= length && scanner.step().is_some() {}
    let Scanner { window, payloads, mut found, .. } = scanner;
    found.failed = window.failed || payloads.failed;
    found.stopped = window.stopped || payloads.stopped;
    found
}

/// A scan that is under way.
struct Scanner<'a> {
    /// The offset in the file where the scan ends.
    length: u64,
    /// The tag in the headers of the records that are wanted.
    tag: [u8; 8],
    /// The writer may still append to the file.
    alive: bool,
    /// Where record headers are read.
    window: Window<'a>,
    /// Where payloads are read, after damage only.
    payloads: Window<'a>,
    /// When so many bytes of payloads were read, record headers count without their payloads.
    most: u64,
    /// The offset in the file where the next record header may be.
    at: u64,
    /// `at` is behind damaged bytes, and no valid record was found after them yet.
    lost: bool,
    /// Bytes before `at` look like the end of the file: a block of a sealed end, or a record that is cut off. If a
    /// record follows, they were damage.
    ended: bool,
    /// The scan has met damage, or what looked like the end of the file. From there on a record may start at any
    /// multiple of [`ALIGN`], and only its payload shows whether it is one.
    adrift: bool,
    /// The previous record has a payload of more than [`NEAR`] bytes.
    large: bool,
    /// What was found so far.
    found: Scan,
}

impl Scanner<'_> {
    /// Looks at the bytes at `at`, takes the record that is there, if there is one, and moves `at` to the next place
    /// where a record may start. `None`: the scan is over, because there is no such place, or it cannot be read.
    fn step(&mut self) -> Option<()> {
        // After a large record only the next header is read: the record that follows is probably large too.
        let near = if self.large { RECORD_HEADER_BYTES } else { NEAR };
        let ahead = if self.lost { FAR } else { near };
        let bytes = self.window.get(self.at, RECORD_HEADER_BYTES, ahead)?;
        let head = bytes.first_chunk().and_then(|head| IndexEntry::decode_header(head, self.at));
        let payload = self.at + RECORD_HEADER_BYTES as u64;
        match head {
            Some((entry, _)) if payload + u64::from(entry.stored) > self.length => {
                if self.alive && !self.adrift {
                    return None;
                }
                // The last record is cut off, unless another record follows.
                self.ended |= !self.lost;
            }
            Some((entry, tag)) if self.is_believed(&entry) => return self.take(entry, tag),
            Some(_) => self.found.damaged += u64::from(!self.lost),
            None if self.lost => {}
            None => {
                if self.passes_a_sealed_end(ahead)? {
                    return Some(());
                }
            }
        }
        self.go_astray()
    }

    /// Whether the bytes that look like a record header count as one: until damage always, and then if the payload
    /// matches, or if too many payloads were read ([`TIMES`]).
    fn is_believed(&mut self, entry: &IndexEntry) -> bool {
        !self.adrift || self.payloads.read > self.most || self.payloads.is_whole(entry)
    }

    /// Adds a record to what was found, and moves `at` behind it. `None`: the file has too many records.
    fn take(&mut self, entry: IndexEntry, tag: [u8; 8]) -> Option<()> {
        // The bytes that looked like the end of the file were damage, because a record follows them.
        self.found.damaged += u64::from(self.ended);
        (self.lost, self.ended) = (false, false);
        self.large = entry.stored as usize > NEAR;
        let (kind, end) = (entry.kind, entry.end());
        if tag == self.tag && !matches!(kind, INDEX_KIND | CHECKPOINT_KIND) {
            if self.found.entries.len() >= MOST_RECORDS {
                return None;
            }
            self.found.entries.push(entry);
        }
        self.at = end;
        if kind == INDEX_KIND {
            self.found.sealed = true;
        } else {
            self.found.end = end;
        }
        Some(())
    }

    /// Moves `at` behind a block of a sealed end (a footer, or a copy of the file's header), which is no damage.
    /// `Some(false)`: there is no such block, or it does not count, because it came after damage or is cut off. `None`:
    /// the bytes cannot be read.
    fn passes_a_sealed_end(&mut self, ahead: usize) -> Option<bool> {
        let rest = self.length - self.at;
        let whole = usize::try_from(rest).map_or(FOOTER_BYTES, |rest| rest.min(FOOTER_BYTES));
        let bytes = self.window.get(self.at, whole, ahead)?;
        match block_of_a_sealed_end(bytes) {
            Some(block) if block <= rest && !self.adrift => {
                self.at += block;
                return Some(true);
            }
            Some(_) => self.ended = true,
            None => self.found.damaged += 1,
        }
        Some(false)
    }

    /// Moves `at` to the next place that looks like a record, or to the end of the bytes in memory.
    fn go_astray(&mut self) -> Option<()> {
        (self.lost, self.adrift) = (true, true);
        let bytes = self.window.get(self.at, RECORD_HEADER_BYTES, FAR)?;
        self.at += distance_to_magic(bytes);
        if !self.window.holds(self.at) {
            let data = disk::next_data(self.window.fd, self.at);
            self.at = data.map_or(self.length, |data| self.at.max(data - data % ALIGN));
        }
        Some(())
    }
}

/// The length of the footer, or of the copy of the file's header, that `bytes` begin with. Either counts
/// even if the end of the file cuts it off.
fn block_of_a_sealed_end(bytes: &[u8]) -> Option<u64> {
    if bytes.first_chunk().and_then(Footer::decode).is_some() {
        return Some(FOOTER_BYTES as u64);
    }
    if bytes.len() < FOOTER_BYTES && bytes.starts_with(&FOOTER_MAGIC) {
        return Some(FOOTER_BYTES as u64);
    }
    let cut = bytes.len() < HEADER_BYTES && bytes.starts_with(&FILE_MAGIC);
    (cut || matches!(FileHeader::decode(bytes), Ok(Some(_)))).then_some(HEADER_BYTES as u64)
}

/// The distance from the start of `bytes`, where there is no record, to the next place where one may start.
fn distance_to_magic(bytes: &[u8]) -> u64 {
    let step = ALIGN as usize;
    let mut at = step;
    while at + RECORD_MAGIC.len() <= bytes.len() && !bytes[at..].starts_with(&RECORD_MAGIC) {
        at += step;
    }
    at as u64
}
