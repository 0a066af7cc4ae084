//! One segment file: its descriptor, what is in it, and reading from it with positioned reads only. A mapping
//! would kill the host as soon as somebody truncates the file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use super::buckets::Buckets;
use super::codec::{self, Codec, CodecError};
use super::disk;
use super::folder::{Folder, read_at};
use super::format::{
    CODEC_PLAIN, ENTRY_BYTES, FIRST_RECORD, FOOT_BYTES, FOOT_BYTES_1, FileHeader, Foot, Foot1, HEAD_BYTES,
    HEADER_BYTES, INDEX_KIND, IndexEntry, MAX_PAYLOAD, MOST_BYTES, MOST_RECORDS, Mark, PartIdentity, Tally,
    decode_checkpoint, padded, payload_crc,
};
use super::part::Key;
use super::refusal::Refusal;
use super::scan;
use super::table::{self, BLOCK_BYTES, Block, Packed, Row};
use super::timer::never;

/// How many segments a process keeps open for reading; others are opened for each read. A stash of thousands
/// of small segments must not use up the host's descriptors.
const MAX_KEPT_OPEN: usize = 48;

static KEPT_OPEN: AtomicUsize = AtomicUsize::new(0);

/// A segment file of a part.
pub(super) struct Segment {
    folder: Arc<Folder>,
    name: String,
    fd: OnceLock<KeptOpen>,
    /// Where its records end.
    end: u64,
    tag: [u8; 8],
    table: Table,
    tally: Tally,
    /// Something of it could not be read, so that there may be more in it than is known.
    failed: AtomicBool,
    /// Its index is damaged, and looking at its heads instead takes longer than a thread of the program can wait.
    put_off: AtomicBool,
}

/// What to do where the index cannot be used.
pub(super) struct DamagedIndex<'a> {
    /// It is told of the damage.
    pub(super) damaged: &'a dyn Fn(),
    /// Where it says true, somebody else must look at the heads.
    pub(super) interrupted: &'a dyn Fn() -> bool,
}

impl DamagedIndex<'static> {
    /// Looking at all heads, however long that takes.
    pub(super) const WHOLLY: DamagedIndex<'static> = DamagedIndex { damaged: &|| (), interrupted: &never };
}

/// How a segment's records are found.
enum Table {
    /// By the part's map: it is being written.
    Elsewhere,
    /// By the blocks of its index, each read when it is first needed.
    Blocks {
        /// Where the first one starts.
        start: u64,
        blocks: Box<[OnceLock<Option<Block>>]>,
        /// Where a block turned out to be damaged: what the heads say.
        scanned: OnceLock<Buckets>,
    },
    /// In memory: there is no index.
    Rows(Buckets),
}

/// The age that a segment's name gives, in Unix milliseconds; 0 for a name that no writer makes.
pub fn age_of(name: &str) -> u64 {
    let age = name.split_once('-').map(|(age, _)| age).filter(|age| age.len() == 16);
    age.and_then(|age| u64::from_str_radix(age, 16).ok()).unwrap_or(0)
}

/// A descriptor that counts towards [`MAX_KEPT_OPEN`].
struct KeptOpen(OwnedFd);

impl Drop for KeptOpen {
    fn drop(&mut self) {
        KEPT_OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Segment").field(&self.folder.path().join(&self.name)).finish()
    }
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Verified and in the buffer.
    Good,
    /// The bytes are not what was written, or no longer there.
    Damaged,
    /// The file is no longer there: whoever compacts has taken it away.
    Gone,
    /// A record of another key stands there, whole.
    Other,
    /// For now the system would not read it (out of descriptors, memory, ...).
    Failed,
}

/// Where a record's payload stands.
#[derive(Clone, Debug)]
pub(super) struct Location {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) codec: u8,
}

impl Location {
    /// Of a record in `segment`.
    pub(super) fn new(segment: &Arc<Segment>, entry: &IndexEntry) -> Location {
        let offset = entry.offset + HEAD_BYTES as u64;
        Location {
            segment: segment.clone(),
            offset,
            length: entry.stored,
            crc: entry.crc,
            codec: entry.codec,
        }
    }

    /// Replaces `buffer` by the payload. Whatever the outcome, it holds no unverified byte.
    pub(super) fn read(&self, key: &Key, buffer: &mut Vec<u8>) -> Read {
        if self.codec == CODEC_PLAIN {
            return self.segment.read_payload(self.offset, self.length, self.crc, key, buffer);
        }
        self.segment.read_compressed(self.offset - HEAD_BYTES as u64, self.length, key, buffer)
    }
}

/// Whether trying again would fail again: the file was replaced, or its disk is broken.
fn is_lasting(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lasting = [Errno::LOOP, Errno::IO, Errno::SPIPE, Errno::ISDIR, Errno::NXIO, Errno::STALE];
    Errno::from_io_error(error).is_some_and(|errno| lasting.contains(&errno))
}

/// What a failed read came to.
fn failed(error: &io::Error) -> Read {
    match error {
        error if error.kind() == io::ErrorKind::NotFound => Read::Gone,
        error if is_lasting(error) => Read::Damaged,
        _ => Read::Failed,
    }
}

/// The stored payload among the bytes of a record.
pub(super) fn payload_of(record: &[u8]) -> &[u8] {
    record.get(HEAD_BYTES..).unwrap_or_default()
}

impl Segment {
    /// The segment that this process writes, with its descriptor.
    pub(super) fn of_writer(folder: Arc<Folder>, name: String, fd: OwnedFd, tag: [u8; 8]) -> Arc<Segment> {
        // Counted like the others, but never turned away: there are few of them.
        KEPT_OPEN.fetch_add(1, Ordering::Relaxed);
        let fd = OnceLock::from(KeptOpen(fd));
        let (table, tally) = (Table::Elsewhere, Tally::default());
        let (failed, put_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Segment { folder, name, fd, end: 0, tag, table, tally, failed, put_off })
    }

    /// The file's name in its folder.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it holds; nothing while it is being written.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Where its records end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The writer's descriptor; `None` for a segment that was never opened for writing and not read yet.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.get().map(|kept| kept.0.as_fd())
    }

    /// Replaces `buffer` by what the compressed record at `offset` stands for. Its head knows the length.
    fn read_compressed(&self, offset: u64, stored: u32, key: &Key, buffer: &mut Vec<u8>) -> Read {
        buffer.clear();
        let mut bytes = Vec::new();
        let entry = match self.read_record(offset, stored, &mut bytes) {
            Ok(entry) => entry,
            Err(outcome) => return outcome,
        };
        if entry.key != *key {
            // The same hash, by chance.
            return Read::Other;
        }
        let Some(codec) = Codec::from_number(entry.codec) else { return Read::Other };
        match codec::decode_into(codec, payload_of(&bytes), entry.length as usize, buffer) {
            Ok(()) => Read::Good,
            Err(CodecError::Memory) => Read::Failed,
            Err(_) => Read::Damaged,
        }
    }

    /// Replaces `bytes` by the whole record at `offset`, verified. [`payload_of`] finds the stored payload in them.
    pub(super) fn read_record(
        &self,
        offset: u64,
        stored: u32,
        bytes: &mut Vec<u8>,
    ) -> Result<IndexEntry, Read> {
        bytes.clear();
        self.read_at(bytes, HEAD_BYTES + stored as usize, offset).map_err(|error| failed(&error))?;
        let (head, payload) = bytes.split_first_chunk().ok_or(Read::Damaged)?;
        let (entry, tag) = IndexEntry::decode_head(head, offset).ok_or(Read::Damaged)?;
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

    /// Replaces `buffer` by the payload of a row that was found for `key`.
    pub(super) fn read_row(&self, row: &Row, key: &Key, buffer: &mut Vec<u8>) -> Read {
        if row.codec != CODEC_PLAIN {
            return self.read_compressed(row.offset, row.stored, key, buffer);
        }
        let outcome = self.read_payload(row.offset + HEAD_BYTES as u64, row.stored, row.crc, key, buffer);
        if outcome == Read::Damaged {
            // Another key of the same hash, by chance?
            if let Some(entry) = self.head_at(row.offset).filter(|entry| entry.key != *key) {
                return match self.read_payload(
                    row.offset + HEAD_BYTES as u64,
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

    /// The head that stands at `offset`, if it is whole.
    pub(super) fn head_at(&self, offset: u64) -> Option<IndexEntry> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        self.read_at(&mut head, HEAD_BYTES, offset).ok()?;
        let (entry, tag) = IndexEntry::decode_head(head.first_chunk()?, offset)?;
        (tag == self.tag).then_some(entry)
    }

    /// Calls `each` on the rows of this hash, the newest first, until it says true.
    pub(super) fn find(
        &self,
        hash: u64,
        instead: &DamagedIndex<'_>,
        mut each: impl FnMut(Row) -> bool,
    ) -> bool {
        match &self.table {
            Table::Elsewhere => false,
            Table::Rows(rows) => rows.find(hash, each),
            Table::Blocks { blocks, scanned, .. } => {
                if scanned.get().is_none() {
                    if let Some(found) = table::find(hash, blocks.len(), |at| self.block(at), &mut each) {
                        return found;
                    }
                }
                self.scan_instead(instead).is_some_and(|rows| rows.find(hash, each))
            }
        }
    }

    fn block(&self, at: usize) -> Option<&Block> {
        let Table::Blocks { start, blocks, .. } = &self.table else { return None };
        let slot = blocks.get(at)?;
        if let Some(block) = slot.get() {
            return block.as_ref();
        }
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        self.read_at(&mut bytes, BLOCK_BYTES, start + (at * BLOCK_BYTES) as u64).ok()?;
        slot.get_or_init(|| Block::check(bytes)).as_ref()
    }

    /// The rows that the heads give, where the index cannot be used. `None`: they are not known yet.
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
            Some(KeptOpen(fd)) => (fd, disk::fstat(fd).map_or(self.end, |stat| stat.st_size as u64)),
            None => match self.folder.open_file(&self.name) {
                Ok(file) => {
                    opened = file;
                    (&opened.0, opened.1)
                }
                // Out of descriptors, perhaps: the next one tries again.
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
        // Another thread may have been faster.
        if scanned.set(Buckets::of(&rows)).is_ok() {
            (instead.damaged)();
        }
        self.put_off.store(false, Ordering::Release);
        scanned.get()
    }

    /// Whether somebody other than the program's threads has to look at its heads.
    pub(super) fn is_put_off(&self) -> bool {
        self.put_off.load(Ordering::Acquire)
    }

    /// Looks at them, if that is so. False: not all of them.
    pub(super) fn catch_up(&self, instead: &DamagedIndex<'_>) -> bool {
        !self.is_put_off() || self.scan_instead(instead).is_some()
    }

    /// Every row, in no order.
    pub(super) fn rows(&self, instead: &DamagedIndex<'_>) -> Vec<Row> {
        match &self.table {
            Table::Elsewhere => Vec::new(),
            Table::Rows(rows) => rows.rows().collect(),
            Table::Blocks { blocks, scanned, .. } => {
                let all: Option<Vec<&Block>> = match scanned.get() {
                    None => (0..blocks.len()).map(|at| self.block(at)).collect(),
                    Some(_) => None,
                };
                match all {
                    Some(blocks) => blocks.into_iter().flat_map(Block::rows).collect(),
                    None => self.scan_instead(instead).map_or_else(Vec::new, |rows| rows.rows().collect()),
                }
            }
        }
    }

    /// Whether something of it could not be read: nobody may say that all that it holds stands elsewhere.
    pub(super) fn has_failed(&self) -> bool {
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
        if let Some(fd) = self.descriptor() {
            return read_at(fd, buffer, length, offset);
        }
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = disk::openat(&*self.folder, self.name.as_str(), flags, Mode::empty())?;
        read_at(&fd, buffer, length, offset)?;
        self.keep(fd);
        Ok(())
    }

    fn keep(&self, fd: OwnedFd) {
        if KEPT_OPEN.fetch_add(1, Ordering::Relaxed) < MAX_KEPT_OPEN {
            // Where another thread was faster, dropping ours takes it off the count again.
            drop(self.fd.set(KeptOpen(fd)));
        } else {
            KEPT_OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What opening a segment found.
pub(super) struct Loaded {
    pub(super) segment: Arc<Segment>,
    /// Where a valid one was found, at the head or before the foot.
    pub(super) header: Option<FileHeader>,
    /// Places where something else than a record stood.
    pub(super) damaged: u64,
    /// Length of the file, in bytes.
    pub(super) bytes: u64,
    pub(super) state: State,
}

/// Who may still write to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody: it ends in a good index.
    Sealed,
    /// Nobody, but it has no index.
    Orphaned,
    /// The same, and not all of it can be read now: it must not be sealed.
    Unreadable,
    /// A process that holds its lock. Its records are found by [`scan::scan`] alone.
    Written,
}

/// Whether somebody holds the lock of a segment's file, which dies with its process.
pub(super) fn is_locked(fd: &OwnedFd) -> bool {
    match disk::try_lock(fd) {
        // A lock of ours would look like a writer's to others. Where it cannot be given back, closing does.
        Ok(()) => disk::unlock(fd).is_err(),
        // Held, or a file system without locks: nothing of it is touched.
        Err(_) => true,
    }
}

/// Opens the segment `name`. `expected`: the part that it must belong to; `None` lets its own header decide.
pub(super) fn load(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    load_until(folder, name, expected, &never)
}

/// The same, put off where `interrupted` says true before it is done.
pub(super) fn load_until(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Loaded, Refusal> {
    if interrupted() {
        return Err(Refusal::PutOff);
    }
    let (fd, length) = folder.open_file_or_put_off(name)?;
    load_file(folder, name, fd, length, expected, interrupted)
}

/// The same for a file that has no name, whose descriptor the segment keeps.
pub(super) fn load_unnamed(
    folder: &Arc<Folder>,
    fd: OwnedFd,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    let length = disk::fstat(&fd).map_err(|error| Refusal::Unreadable(io::Error::from(error).to_string()))?;
    load_file(folder, "", fd, length.st_size as u64, expected, &never)
}

/// An empty name stands for none.
fn load_file(
    folder: &Arc<Folder>,
    name: &str,
    fd: OwnedFd,
    length: u64,
    expected: Option<&PartIdentity>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Loaded, Refusal> {
    // Whether it grew between the two questions: then its writer was at it, and has sealed it or died since.
    let grown = |fd: &OwnedFd| disk::fstat(fd).is_ok_and(|stat| stat.st_size as u64 != length);
    if length < HEADER_BYTES as u64 {
        return match is_locked(&fd) {
            true => Err(Refusal::NotYet),
            false if grown(&fd) => load_until(folder, name, expected, interrupted),
            false => Err(Refusal::Truncated),
        };
    }
    let io_error = |error: io::Error| Refusal::Unreadable(error.to_string());
    let mut head = Vec::new();
    read_at(&fd, &mut head, FileHeader::LOOK_AT, 0).map_err(io_error)?;
    let end = read_end(&fd, length).map_err(io_error)?;
    let header = match FileHeader::decode(&head)? {
        Some(header) => Some(header),
        None => end.header()?,
    };
    if let (Some(header), Some(expected)) = (&header, expected) {
        if let Some(refusal) = header.identity.refused_by(expected) {
            return Err(refusal);
        }
    }
    let identity = expected.or(header.as_ref().map(|header| &header.identity));
    let tag = identity.ok_or(Refusal::NotASegment)?.tag();

    let mut damaged = u64::from(header.is_none());
    let (mut state, mut failed) = (State::Sealed, false);
    let version = header.as_ref().map_or(0, |header| header.version);
    let (table, tally, records_end) = if let Some(foot) = end.foot(length, tag).filter(|_| version != 1) {
        let blocks = (0..foot.blocks).map(|_| OnceLock::new()).collect();
        let start = foot.index_offset + HEAD_BYTES as u64;
        (Table::Blocks { start, blocks, scanned: OnceLock::new() }, foot.tally, foot.index_offset)
    } else if let Some((rows, index)) = end.foot_1(tag).and_then(|foot| read_index_1(&fd, length, &foot)) {
        let tally = Tally::of(rows.iter().map(Row::unpack));
        (Table::Rows(Buckets::of(&rows)), tally, index)
    } else {
        state = if is_locked(&fd) { State::Written } else { State::Orphaned };
        if state == State::Orphaned && grown(&fd) {
            return load_until(folder, name, expected, interrupted);
        }
        let first = header.as_ref().map_or(HEADER_BYTES as u64, FileHeader::first_record);
        let mark = head.get(HEADER_BYTES..FIRST_RECORD).filter(|_| version == 2).and_then(Mark::newest);
        let (mut rows, from) = mark
            .and_then(|mark| checkpointed(&fd, length, tag, mark, interrupted))
            .unwrap_or((Vec::new(), first));
        let found = scan::scan(&fd, from, length, tag, state == State::Written, interrupted);
        if found.stopped {
            return Err(Refusal::PutOff);
        }
        damaged += found.damaged;
        failed = found.failed;
        if failed && state == State::Orphaned {
            state = State::Unreadable;
        }
        rows.extend(found.entries.iter().map(|entry| Row::of(entry).pack()));
        let tally = Tally::of(rows.iter().map(Row::unpack));
        (Table::Rows(Buckets::of(&rows)), tally, found.end)
    };
    if header.is_none() && tally == Tally::default() {
        return Err(Refusal::NotASegment);
    }
    let segment = Segment {
        folder: folder.clone(),
        name: name.to_owned(),
        fd: OnceLock::new(),
        end: records_end,
        tag,
        table,
        tally,
        failed: AtomicBool::new(failed),
        put_off: AtomicBool::new(false),
    };
    if name.is_empty() {
        // Never turned away: it cannot be opened again.
        KEPT_OPEN.fetch_add(1, Ordering::Relaxed);
        drop(segment.fd.set(KeptOpen(fd)));
    } else if state == State::Sealed {
        // Not one that is followed: it may be sealed by then, and many may be.
        segment.keep(fd);
    }
    Ok(Loaded { segment: Arc::new(segment), header, damaged, bytes: length, state })
}

/// Bytes of the end of a file.
struct End {
    bytes: Vec<u8>,
}

fn read_end(fd: &OwnedFd, length: u64) -> io::Result<End> {
    let wanted = (HEADER_BYTES + FOOT_BYTES) as u64;
    let mut bytes = Vec::new();
    let wanted = wanted.min(length);
    read_at(fd, &mut bytes, wanted as usize, length - wanted)?;
    Ok(End { bytes })
}

impl End {
    /// The foot of this version, if all that it says can be so.
    fn foot(&self, length: u64, tag: [u8; 8]) -> Option<Foot> {
        let foot = self.bytes.last_chunk::<FOOT_BYTES>().and_then(Foot::decode)?;
        let table = u64::from(foot.blocks) * BLOCK_BYTES as u64;
        let end = foot.index_offset.checked_add(HEAD_BYTES as u64 + table)?;
        let fits = end.checked_add((HEADER_BYTES + FOOT_BYTES) as u64)? == length;
        // An index is a record like any other.
        let sane = foot.blocks > 0 && table <= u64::from(MAX_PAYLOAD);
        (fits && sane && foot.tag == tag).then_some(foot)
    }

    fn foot_1(&self, tag: [u8; 8]) -> Option<Foot1> {
        let foot = self.bytes.last_chunk::<FOOT_BYTES_1>().and_then(Foot1::decode)?;
        (foot.tag == tag).then_some(foot)
    }

    /// The header's copy.
    fn header(&self) -> Result<Option<FileHeader>, Refusal> {
        for foot in [FOOT_BYTES, FOOT_BYTES_1] {
            let start = self.bytes.len().checked_sub(foot + HEADER_BYTES);
            let copy = start.and_then(|start| self.bytes.get(start..start + HEADER_BYTES));
            if let Some(header) = copy.map(FileHeader::decode).transpose()?.flatten() {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }
}

/// What is read of a checkpoint at once: all of it, as a rule.
const CHECKPOINT_AT_ONCE: usize = 8 << 10;

/// What the checkpoints say, and where the records behind the last one start. `None`: one of them is damaged, or it was
/// `interrupted`.
fn checkpointed(
    fd: &OwnedFd,
    length: u64,
    tag: [u8; 8],
    mark: Mark,
    interrupted: &dyn Fn() -> bool,
) -> Option<(Vec<Packed>, u64)> {
    let length = length.min(MOST_BYTES);
    // As many as are said to come, if the file has room for them.
    let room = usize::try_from(length / HEAD_BYTES as u64).unwrap_or(usize::MAX);
    if mark.count as usize > room.min(MOST_RECORDS) {
        return None;
    }
    let mut rows = Vec::new();
    rows.try_reserve_exact(mark.count as usize).ok()?;
    let (mut at, mut behind, mut bytes, mut limit) = (mark.offset, None, Vec::new(), length);
    while at != 0 {
        if interrupted() {
            return None;
        }
        bytes.clear();
        read_at(fd, &mut bytes, CHECKPOINT_AT_ONCE, at).ok()?;
        let (entry, found) = IndexEntry::decode_head(bytes.first_chunk()?, at)?;
        if found != tag || entry.kind != super::format::CHECKPOINT_KIND || entry.end() > limit {
            return None;
        }
        let whole = HEAD_BYTES + entry.stored as usize;
        let missing = whole.saturating_sub(bytes.len());
        let there = at + bytes.len() as u64;
        read_at(fd, &mut bytes, missing, there).ok()?;
        let payload = bytes.get(HEAD_BYTES..whole)?;
        if payload_crc(&entry.key, payload) != entry.crc {
            return None;
        }
        behind.get_or_insert(entry.end());
        let (before, listed) = decode_checkpoint(payload)?;
        rows.extend(listed);
        if rows.len() > mark.count as usize {
            return None;
        }
        // Backwards only, and none inside another: no circle, and never more rows than the file has room for.
        if before >= at {
            return None;
        }
        (limit, at) = (at, before);
    }
    (rows.len() == mark.count as usize).then_some((rows, behind?))
}

/// The rows of an index of version 1, and where it starts; `None` unless all of it is as it was written.
fn read_index_1(fd: &OwnedFd, length: u64, foot: &Foot1) -> Option<(Vec<Packed>, u64)> {
    let size = foot.count as usize * ENTRY_BYTES;
    if size > MAX_PAYLOAD as usize {
        return None;
    }
    let start = foot.index_offset.checked_add(HEAD_BYTES as u64)?;
    let end = start.checked_add(padded(size as u64))?;
    if end.checked_add((HEADER_BYTES + FOOT_BYTES_1) as u64)? != length {
        return None;
    }
    let mut bytes = Vec::new();
    read_at(fd, &mut bytes, size, start).ok()?;
    if bytes.len() != size || payload_crc(&[0; 32], &bytes) != foot.index_crc {
        return None;
    }
    let inside = |entry: &IndexEntry| {
        let end = entry.offset.checked_add(HEAD_BYTES as u64 + padded(u64::from(entry.stored)));
        entry.kind != INDEX_KIND && end.is_some_and(|end| end <= foot.index_offset)
    };
    let entries = bytes.chunks_exact(ENTRY_BYTES).filter_map(|bytes| bytes.first_chunk());
    let row = |bytes| IndexEntry::decode(bytes).filter(inside).map(|entry| Row::of(&entry).pack());
    let rows: Option<Vec<Packed>> = entries.map(row).collect();
    Some((rows?, foot.index_offset))
}
