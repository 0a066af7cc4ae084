//! An open segment file, and positioned reads from it. A memory mapping would kill the host process as soon as another
//! process truncates the file.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fmt, io};

use crate::codec;
use crate::format::codec::{Codec, CodecError};
use crate::format::footer::Tally;
use crate::format::record_header::{IndexEntry, payload_crc};
use crate::format::sizes::{CODEC_PLAIN, FIRST_RECORD, RECORD_HEADER_BYTES};
use crate::format::table;
use crate::format::table::{BLOCK_BYTES, Block, Packed, Row};
use crate::segment::buckets::Buckets;
use crate::segment::scan;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{Folder, read_at};
use vkstash_host::disk::ops as disk;
use vkstash_host::once::OnceLock;
use vkstash_host::timer::never;
use vkstash_model::record::{Key, Kind};

/// The number of segments that a process keeps open. Others are opened for each read, because a stash of thousands of
/// small segments must not use up the descriptors of the host process.
pub(crate) const MAX_OPEN: usize = 48;

/// The most rows of one hash that a look-up tries. There is more than one where records were superseded in the same
/// file, and each costs a read if it turns out to be of another key.
const MOST_TRIED: usize = 64;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A segment file of a part.
pub(crate) struct Segment {
    folder: Arc<Folder>,
    name: String,
    fd: OnceLock<OpenFile>,
    /// The end of its records.
    end: u64,
    tag: [u8; 8],
    table: Table,
    tally: Tally,
    /// Some of it could not be read, so it may have more records than are known.
    failed: AtomicBool,
    /// The segment's index is damaged, and a scan takes longer than a thread of the program may wait.
    put_off: AtomicBool,
}

/// What to do if the index is damaged.
pub(crate) struct DamagedIndex<'a> {
    /// Called when the damage is found.
    pub(crate) damaged: &'a dyn Fn(),
    /// The scan stops, and is left to another thread, when this says true.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

impl DamagedIndex<'static> {
    /// Scans the segment, however long that takes.
    pub(crate) const WHOLLY: DamagedIndex<'static> = DamagedIndex { damaged: &|| (), interrupted: &never };
}

/// How the records of a segment are found.
pub(crate) enum Table {
    /// By the recent records of the part, because this process writes the segment.
    Elsewhere,
    /// By the blocks of its index. Each block is read when it is first needed.
    Blocks {
        /// The offset of the first block.
        start: u64,
        blocks: Box<[OnceLock<Option<Block>>]>,
        /// The rows that a scan has found after a block turned out to be damaged.
        scanned: OnceLock<Buckets>,
    },
    /// By rows in memory: the segment has no index.
    Rows(Buckets),
}

/// A descriptor that counts towards [`MAX_OPEN`].
struct OpenFile(Descriptor);

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Segment").field(&self.folder.path().join(&self.name)).finish()
    }
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The payload is verified and in the buffer.
    Good,
    /// The bytes differ from what was written, or are missing.
    Damaged,
    /// The file was removed by merging.
    Gone,
    /// A whole record of another key is there.
    Other,
    /// The system cannot read it for now (no descriptors, no memory, ...).
    Failed,
}

/// Where the payload of a record is.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) codec: u8,
}

impl Location {
    /// The location of a record of `segment`.
    pub(crate) fn new(segment: &Arc<Segment>, entry: &IndexEntry) -> Location {
        let offset = entry.offset + RECORD_HEADER_BYTES as u64;
        Location {
            segment: segment.clone(),
            offset,
            length: entry.stored,
            crc: entry.crc,
            codec: entry.codec,
        }
    }

    /// Reads the payload into `buffer`, which never has unverified bytes afterwards.
    pub(crate) fn read(&self, key: &Key, buffer: &mut Vec<u8>) -> Read {
        if self.codec == CODEC_PLAIN {
            return self.segment.read_payload(self.offset, self.length, self.crc, key, buffer);
        }
        self.segment.read_compressed(self.offset - RECORD_HEADER_BYTES as u64, self.length, key, buffer)
    }
}

/// Whether the read would fail again: the file was replaced, or its disk is broken.
fn is_lasting(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lasting = [Errno::LOOP, Errno::IO, Errno::SPIPE, Errno::ISDIR, Errno::NXIO, Errno::STALE];
    Errno::from_io_error(error).is_some_and(|errno| lasting.contains(&errno))
}

/// The outcome of a failed read.
pub(crate) fn failed(error: &io::Error) -> Read {
    match error {
        error if error.kind() == io::ErrorKind::NotFound => Read::Gone,
        error if is_lasting(error) => Read::Damaged,
        _ => Read::Failed,
    }
}

/// The stored payload in the bytes of a record.
pub(crate) fn payload_of(record: &[u8]) -> &[u8] {
    record.get(RECORD_HEADER_BYTES..).unwrap_or_default()
}

impl Segment {
    /// A segment with this table. An empty name stands for a file without a name.
    pub(crate) fn new(
        folder: &Arc<Folder>,
        name: &str,
        end: u64,
        tag: [u8; 8],
        table: Table,
        tally: Tally,
        failed: bool,
    ) -> Segment {
        Segment {
            folder: folder.clone(),
            name: name.to_owned(),
            fd: OnceLock::new(),
            end,
            tag,
            table,
            tally,
            failed: AtomicBool::new(failed),
            put_off: AtomicBool::new(false),
        }
    }

    /// Keeps the descriptor of a file without a name, which cannot be opened again.
    pub(crate) fn stay_open_unnamed(&self, fd: Descriptor) {
        OPEN.fetch_add(1, Ordering::Relaxed);
        drop(self.fd.set(OpenFile(fd)));
    }

    /// The segment that this process writes, with its descriptor.
    pub(crate) fn of_writer(folder: Arc<Folder>, name: String, fd: Descriptor, tag: [u8; 8]) -> Arc<Segment> {
        // Counted, but not limited: there are few of them.
        OPEN.fetch_add(1, Ordering::Relaxed);
        let fd = OnceLock::from(OpenFile(fd));
        let (table, tally) = (Table::Elsewhere, Tally::default());
        let (failed, put_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Segment { folder, name, fd, end: 0, tag, table, tally, failed, put_off })
    }

    /// The name of the file in its folder.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The records by kind; none while this process writes the segment.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The end of its records.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The descriptor, if the file is open.
    pub(crate) fn descriptor(&self) -> Option<&Descriptor> {
        self.fd.get().map(|kept| &kept.0)
    }

    /// Reads and decompresses the record at `offset` into `buffer`. The record header has the length of the payload.
    fn read_compressed(&self, offset: u64, stored: u32, key: &Key, buffer: &mut Vec<u8>) -> Read {
        buffer.clear();
        let mut bytes = Vec::new();
        let entry = match self.read_record(offset, stored, &mut bytes) {
            Ok(entry) => entry,
            Err(outcome) => return outcome,
        };
        if entry.key != *key {
            // Two keys with the same hash.
            return Read::Other;
        }
        let Some(codec) = Codec::from_number(entry.codec) else { return Read::Other };
        match codec::decode_into(codec, payload_of(&bytes), entry.length as usize, buffer) {
            Ok(()) => Read::Good,
            Err(CodecError::Memory) => Read::Failed,
            Err(_) => Read::Damaged,
        }
    }

    /// Reads the whole record at `offset` into `bytes` and verifies it. [`payload_of`] finds the stored payload in it.
    pub(crate) fn read_record(
        &self,
        offset: u64,
        stored: u32,
        bytes: &mut Vec<u8>,
    ) -> Result<IndexEntry, Read> {
        bytes.clear();
        self.read_at(bytes, RECORD_HEADER_BYTES + stored as usize, offset).map_err(|error| failed(&error))?;
        let (head, payload) = bytes.split_first_chunk().ok_or(Read::Damaged)?;
        let (entry, tag) = IndexEntry::decode_header(head, offset).ok_or(Read::Damaged)?;
        let whole = tag == self.tag && payload.len() == entry.stored as usize;
        if whole && payload_crc(&entry.key, payload) == entry.crc { Ok(entry) } else { Err(Read::Damaged) }
    }

    fn read_payload(&self, offset: u64, length: u32, crc: u32, key: &Key, buffer: &mut Vec<u8>) -> Read {
        buffer.clear();
        let outcome = match self.read_at(buffer, length as usize, offset) {
            Ok(()) if buffer.len() < length as usize => Read::Damaged,
            Ok(()) if payload_crc(key, buffer) != crc => Read::Damaged,
            Ok(()) => Read::Good,
            Err(error) => failed(&error),
        };
        if outcome != Read::Good {
            buffer.clear();
        }
        outcome
    }

    /// Reads the payload of a row that was found for `key` into `buffer`.
    pub(crate) fn read_row(&self, row: &Row, key: &Key, buffer: &mut Vec<u8>) -> Read {
        if row.codec != CODEC_PLAIN {
            return self.read_compressed(row.offset, row.stored, key, buffer);
        }
        let outcome =
            self.read_payload(row.offset + RECORD_HEADER_BYTES as u64, row.stored, row.crc, key, buffer);
        if outcome == Read::Damaged {
            // Two keys may have the same hash.
            let header = self.header_at(row.offset).ok();
            if let Some(entry) = header.filter(|entry| entry.key != *key) {
                return match self.read_payload(
                    row.offset + RECORD_HEADER_BYTES as u64,
                    row.stored,
                    row.crc,
                    &entry.key,
                    buffer,
                ) {
                    Read::Good => {
                        buffer.clear();
                        Read::Other
                    }
                    other => other,
                };
            }
        }
        outcome
    }

    /// The record header at `offset`.
    pub(crate) fn header_at(&self, offset: u64) -> Result<IndexEntry, Read> {
        let mut head = Vec::with_capacity(RECORD_HEADER_BYTES);
        self.read_at(&mut head, RECORD_HEADER_BYTES, offset).map_err(|error| failed(&error))?;
        let decode = |head| IndexEntry::decode_header(head, offset);
        let (entry, tag) = head.first_chunk().and_then(decode).ok_or(Read::Damaged)?;
        if tag == self.tag { Ok(entry) } else { Err(Read::Damaged) }
    }

    /// Whether its own table has records of that kind.
    pub(crate) fn has_any(&self, kind: Kind) -> bool {
        self.count(kind) > 0
    }

    /// The number of records of that kind in its own table.
    pub(crate) fn count(&self, kind: Kind) -> u32 {
        self.tally().counts[kind.position()]
    }

    /// Calls `each` with the rows of this hash, the newest first, until it says true; with [`MOST_TRIED`] at most. An
    /// error: the rows are not known, because the file is gone or cannot be read for now.
    pub(crate) fn find(
        &self,
        hash: u64,
        instead: &DamagedIndex<'_>,
        mut each: impl FnMut(Row) -> bool,
    ) -> Result<bool, Read> {
        let (mut left, mut is_found) = (MOST_TRIED, false);
        let mut each = |row| {
            left -= 1;
            is_found = each(row);
            is_found || left == 0
        };
        match &self.table {
            Table::Elsewhere => {}
            Table::Rows(rows) => _ = rows.find(hash, each),
            Table::Blocks { blocks, scanned, .. } => {
                let why = Cell::new(Read::Damaged);
                let block = |at| self.block(at).inspect_err(|error| why.set(*error)).ok();
                let ended = match scanned.get() {
                    None => table::find(hash, blocks.len(), block, &mut each),
                    Some(_) => None,
                };
                if ended.is_none() {
                    _ = self.rows_instead(why.get(), instead)?.find(hash, each);
                }
            }
        }
        Ok(is_found)
    }

    fn block(&self, at: usize) -> Result<&Block, Read> {
        let Table::Blocks { blocks, .. } = &self.table else { return Err(Read::Failed) };
        let slot = blocks.get(at).ok_or(Read::Damaged)?;
        let block = match slot.get() {
            Some(block) => block,
            None => {
                let bytes = self.read_block(at)?;
                slot.get_or_init(|| Block::check(bytes))
            }
        };
        block.as_ref().ok_or(Read::Damaged)
    }

    fn read_block(&self, at: usize) -> Result<Vec<u8>, Read> {
        let Table::Blocks { start, .. } = &self.table else { return Err(Read::Failed) };
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        let offset = start + (at * BLOCK_BYTES) as u64;
        self.read_at(&mut bytes, BLOCK_BYTES, offset).map_err(|error| failed(&error))?;
        Ok(bytes)
    }

    /// The rows that a scan finds in place of an index that is damaged. An error: it is not, but could not be read
    /// (`why`), or the rows are not known yet.
    fn rows_instead(&self, why: Read, instead: &DamagedIndex<'_>) -> Result<&Buckets, Read> {
        match why {
            Read::Damaged => self.scan_instead(instead).ok_or(Read::Failed),
            unread => Err(unread),
        }
    }

    /// The rows that a scan finds in place of a damaged index. `None`: they are not known yet.
    fn scan_instead(&self, instead: &DamagedIndex<'_>) -> Option<&Buckets> {
        let Table::Blocks { scanned, .. } = &self.table else { return None };
        if let Some(rows) = scanned.get() {
            return Some(rows);
        }
        if (instead.interrupted)() {
            self.put_off.store(true, Ordering::Release);
            return None;
        }
        let opened;
        let (fd, length) = match self.fd.get() {
            // A file without a name cannot be opened again.
            Some(OpenFile(fd)) => (fd, disk::fstat(fd).map_or(self.end, |stat| stat.st_size as u64)),
            None => match self.folder.open_file(&self.name) {
                Ok(file) => {
                    opened = file;
                    (&opened.0, opened.1)
                }
                // There may be no descriptors; the next caller tries again.
                Err(_) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return None;
                }
            },
        };
        let (from, length) = (FIRST_RECORD as u64, length.min(self.end));
        let found = scan::scan(fd, from, length, self.tag, false, instead.interrupted);
        if found.stopped {
            self.put_off.store(true, Ordering::Release);
            return None;
        }
        if found.failed {
            self.failed.store(true, Ordering::Relaxed);
        }
        let rows: Vec<Packed> = found.entries.iter().map(|entry| Row::of(entry).pack()).collect();
        // Another thread may have set it first.
        if scanned.set(Buckets::of(&rows)).is_ok() {
            (instead.damaged)();
        }
        self.put_off.store(false, Ordering::Release);
        scanned.get()
    }

    /// Whether the scan in place of its damaged index is left to the helper.
    pub(crate) fn is_put_off(&self) -> bool {
        self.put_off.load(Ordering::Acquire)
    }

    /// Scans the segment if that was left to the helper. False: the scan is not complete.
    pub(crate) fn catch_up(&self, instead: &DamagedIndex<'_>) -> bool {
        !self.is_put_off() || self.scan_instead(instead).is_some()
    }

    /// All rows, in no order. An error as of [`Segment::find`].
    pub(crate) fn rows(&self, instead: &DamagedIndex<'_>) -> Result<Vec<Row>, Read> {
        match &self.table {
            Table::Elsewhere => Ok(Vec::new()),
            Table::Rows(rows) => Ok(rows.rows().collect()),
            Table::Blocks { blocks, scanned, .. } => {
                let all: Result<Vec<&Block>, Read> = match scanned.get() {
                    None => (0..blocks.len()).map(|at| self.block(at)).collect(),
                    Some(_) => Err(Read::Damaged),
                };
                match all {
                    Ok(blocks) => Ok(blocks.into_iter().flat_map(Block::rows).collect()),
                    Err(why) => Ok(self.rows_instead(why, instead)?.rows().collect()),
                }
            }
        }
    }

    /// [`Segment::rows`] of a file of which [`has_failed`](Segment::has_failed) is asked afterwards.
    pub(crate) fn known_rows(&self) -> Vec<Row> {
        self.rows(&DamagedIndex::WHOLLY).unwrap_or_default()
    }

    /// Calls `each` with the hash of every row. Blocks that are not in memory do not stay there. False: not all of them
    /// can be read.
    pub(crate) fn for_each_hash(&self, each: &mut dyn FnMut(u64)) -> bool {
        match &self.table {
            Table::Elsewhere => false,
            Table::Rows(rows) => {
                rows.rows().for_each(|row| each(row.hash));
                true
            }
            Table::Blocks { blocks, scanned, .. } => {
                if let Some(rows) = scanned.get() {
                    rows.rows().for_each(|row| each(row.hash));
                    return true;
                }
                blocks.iter().enumerate().all(|(at, known)| match known.get() {
                    Some(block) => block.as_ref().is_some_and(|block| block.hashes(each)),
                    None => self
                        .read_block(at)
                        .ok()
                        .and_then(Block::check)
                        .is_some_and(|block| block.hashes(each)),
                })
            }
        }
    }

    /// Whether some of it could not be read. Then the segment must not be deleted.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn read_at(&self, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        let outcome = self.try_read_at(buffer, length, offset);
        if outcome.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        outcome
    }

    fn try_read_at(&self, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        self.with_file(|fd| read_at(fd, buffer, length, offset))
    }

    /// Writes the file to the disk, as far as it is only in the system's memory, also what other processes wrote.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.with_file(|fd| Ok(disk::fdatasync(fd)?))
    }

    fn with_file(&self, work: impl FnOnce(&Descriptor) -> io::Result<()>) -> io::Result<()> {
        if let Some(fd) = self.descriptor() {
            return work(fd);
        }
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = disk::openat(&*self.folder, self.name.as_str(), flags, Mode::empty())?;
        work(&file)?;
        self.keep(file);
        Ok(())
    }

    /// Stays open if there is room.
    pub(crate) fn keep(&self, fd: Descriptor) {
        match OPEN.fetch_add(1, Ordering::Relaxed) < MAX_OPEN {
            // If another thread has set it first, dropping the value reduces the count again.
            true => drop(self.fd.set(OpenFile(fd))),
            false => _ = OPEN.fetch_sub(1, Ordering::Relaxed),
        }
    }
}
