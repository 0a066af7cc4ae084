//! Opening a segment file by its footer, by its checkpoints, or by a scan.

use std::io;
use std::sync::Arc;

use crate::format::checkpoint::CheckpointPointer;
use crate::format::checkpoint::decode_checkpoint;
use crate::format::file::FileHeader;
use crate::format::file::PartIdentity;
use crate::format::footer::Footer;
use crate::format::footer::Tally;
use crate::format::record_header::IndexEntry;
use crate::format::record_header::payload_crc;
use crate::format::refusal::Refusal;
use crate::format::seal::Seal;
use crate::format::sizes::FIRST_RECORD;
use crate::format::sizes::FOOTER_BYTES;
use crate::format::sizes::HEADER_BYTES;
use crate::format::sizes::MAX_PAYLOAD;
use crate::format::sizes::MOST_BYTES;
use crate::format::sizes::MOST_RECORDS;
use crate::format::sizes::RECORD_HEADER_BYTES;
use crate::format::table::BLOCK_BYTES;
use crate::format::table::Packed;
use crate::format::table::Row;
use crate::segment::buckets::Buckets;
use crate::segment::file::Segment;
use crate::segment::file::Table;
use crate::segment::scan;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::errors::FileError;
use vkstash_host::disk::folder::Folder;
use vkstash_host::disk::folder::read_at;
use vkstash_host::disk::locks;
use vkstash_host::disk::ops as disk;
use vkstash_host::once::OnceLock;
use vkstash_host::timer::never;

/// An opened segment.
pub(crate) struct Loaded {
    pub(crate) segment: Arc<Segment>,
    /// The valid header, at the start or before the footer.
    pub(crate) header: Option<FileHeader>,
    /// The number of places that are no record.
    pub(crate) damaged: u64,
    /// The length of the file, in bytes.
    pub(crate) bytes: u64,
    pub(crate) state: State,
    /// What the file was when it was sealed, if its end is missing now or damaged.
    pub(crate) cut: Option<Seal>,
}

/// Which process may still write to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No process: it ends in a valid index.
    Sealed,
    /// No process, but it has no index.
    Orphaned,
    /// No process, and some of it cannot be read now: it must not be sealed.
    Unreadable,
    /// A process that holds its lock. A scan finds its records.
    Written,
}

/// Opens the segment `name`, which must belong to the part `expected`. With `None` its own header decides.
pub(crate) fn load(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    load_until(folder, name, expected, &never)
}

/// [`load`] that gives up with [`Refusal::File(FileError::PutOff)`] when `interrupted` says true.
pub(crate) fn load_until(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Loaded, Refusal> {
    if interrupted() {
        return Err(Refusal::File(FileError::PutOff));
    }
    let (fd, length) = folder.open_file_or_put_off(name)?;
    load_file(folder, name, fd, length, expected, interrupted)
}

/// [`load`] of a file without a name, whose descriptor the segment keeps.
pub(crate) fn load_unnamed(
    folder: &Arc<Folder>,
    fd: Descriptor,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    let length = disk::fstat(&fd)
        .map_err(|error| Refusal::File(FileError::Unreadable(io::Error::from(error).to_string())))?;
    load_file(folder, "", fd, length.st_size as u64, expected, &never)
}

/// An empty name stands for a file without a name.
fn load_file(
    folder: &Arc<Folder>,
    name: &str,
    fd: Descriptor,
    length: u64,
    expected: Option<&PartIdentity>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Loaded, Refusal> {
    // If the file has grown since its length was read, its writer has sealed it or died in between.
    let grown = |fd: &Descriptor| disk::fstat(fd).is_ok_and(|stat| stat.st_size as u64 != length);
    let too_short = |fd: &Descriptor| match locks::is_locked(fd) {
        true => Err(Refusal::NotYet),
        false if grown(fd) => load_until(folder, name, expected, interrupted),
        false => Err(Refusal::Truncated),
    };
    if length < HEADER_BYTES as u64 {
        return too_short(&fd);
    }
    let io_error = |error: io::Error| Refusal::File(FileError::Unreadable(error.to_string()));
    let mut head = Vec::new();
    read_at(&fd, &mut head, FileHeader::LOOK_AT, 0).map_err(io_error)?;
    let end = read_end(&fd, length).map_err(io_error)?;
    let header = match FileHeader::decode(&head)? {
        Some(header) => Some(header),
        None => end.header()?,
    };
    if header.is_some() && length < FIRST_RECORD as u64 {
        return too_short(&fd);
    }
    if let (Some(header), Some(expected)) = (&header, expected) {
        if let Some(refusal) = header.identity.refused_by(expected) {
            return Err(refusal);
        }
    }
    let identity = expected.or(header.as_ref().map(|header| &header.identity));
    let tag = identity.ok_or(Refusal::NotASegment)?.tag();

    let file = File { fd: &fd, length, head: &head, header: header.as_ref(), tag };
    let records = match file.indexed(&end) {
        Some(indexed) => indexed,
        None => {
            let state = if locks::is_locked(&fd) { State::Written } else { State::Orphaned };
            if state == State::Orphaned && grown(&fd) {
                return load_until(folder, name, expected, interrupted);
            }
            file.scanned(state, interrupted)?
        }
    };
    let Records { table, tally, end, state, failed, damaged, cut } = records;
    if header.is_none() && tally == Tally::default() {
        return Err(Refusal::NotASegment);
    }
    let segment = Segment::new(folder, name, end, tag, table, tally, failed);
    if name.is_empty() {
        segment.stay_open_unnamed(fd);
    } else if state == State::Sealed {
        // The file of a live writer is reopened for each read, because many may be followed.
        segment.keep(fd);
    }
    let damaged = damaged + u64::from(header.is_none());
    Ok(Loaded { segment: Arc::new(segment), header, damaged, bytes: length, state, cut })
}

/// A file whose header was read, or is lost.
struct File<'a> {
    fd: &'a Descriptor,
    length: u64,
    /// The first bytes.
    head: &'a [u8],
    header: Option<&'a FileHeader>,
    tag: [u8; 8],
}

/// The records of a file, and how they were found.
struct Records {
    table: Table,
    tally: Tally,
    /// The end of the last one.
    end: u64,
    state: State,
    /// Some of them could not be read.
    failed: bool,
    /// The number of places that are no record.
    damaged: u64,
    cut: Option<Seal>,
}

impl File<'_> {
    /// The records by the index. `None`: there is none, or it is damaged.
    fn indexed(&self, end: &End) -> Option<Records> {
        let footer = end.footer(self.length, self.tag)?;
        let blocks = (0..footer.blocks).map(|_| OnceLock::new()).collect();
        let start = footer.index_offset + RECORD_HEADER_BYTES as u64;
        Some(Records {
            table: Table::Blocks { start, blocks, scanned: OnceLock::new() },
            tally: footer.tally,
            end: footer.index_offset,
            state: State::Sealed,
            failed: false,
            damaged: 0,
            cut: None,
        })
    }

    /// The records by the checkpoints, and by a scan of what follows.
    fn scanned(&self, mut state: State, interrupted: &dyn Fn() -> bool) -> Result<Records, Refusal> {
        // Without a header it may be a file of another version, with other things at its start.
        let is_known = self.header.is_some();
        let cut = Seal::of(self.head).filter(|_| is_known && state == State::Orphaned);
        let first = if is_known { FIRST_RECORD } else { HEADER_BYTES } as u64;
        let pointer = self.head.get(HEADER_BYTES..FIRST_RECORD).filter(|_| is_known);
        let (mut rows, from) = pointer
            .and_then(CheckpointPointer::newest)
            .and_then(|pointer| checkpointed(self.fd, self.length, self.tag, pointer, interrupted))
            .unwrap_or((Vec::new(), first));
        let found = scan::scan(self.fd, from, self.length, self.tag, state == State::Written, interrupted);
        if found.stopped {
            return Err(Refusal::File(FileError::PutOff));
        }
        if found.failed && state == State::Orphaned {
            state = State::Unreadable;
        }
        rows.extend(found.entries.iter().map(|entry| Row::of(entry).pack()));
        Ok(Records {
            table: Table::Rows(Buckets::of(&rows)),
            tally: Tally::of(rows.iter().map(Row::unpack)),
            end: found.end,
            state,
            failed: found.failed,
            damaged: found.damaged + u64::from(cut.is_some()),
            cut,
        })
    }
}

/// The last bytes of a file.
struct End {
    bytes: Vec<u8>,
}

fn read_end(fd: &Descriptor, length: u64) -> io::Result<End> {
    let wanted = (HEADER_BYTES + FOOTER_BYTES) as u64;
    let mut bytes = Vec::new();
    let wanted = wanted.min(length);
    read_at(fd, &mut bytes, wanted as usize, length - wanted)?;
    Ok(End { bytes })
}

impl End {
    /// The footer, if its claims are possible.
    fn footer(&self, length: u64, tag: [u8; 8]) -> Option<Footer> {
        let footer = self.bytes.last_chunk::<FOOTER_BYTES>().and_then(Footer::decode)?;
        let table = u64::from(footer.blocks) * BLOCK_BYTES as u64;
        let end = footer.index_offset.checked_add(RECORD_HEADER_BYTES as u64 + table)?;
        let fits = end.checked_add((HEADER_BYTES + FOOTER_BYTES) as u64)? == length;
        // The index is a record, whose length is limited.
        let sane = footer.blocks > 0 && table <= u64::from(MAX_PAYLOAD);
        (fits && sane && footer.tag == tag).then_some(footer)
    }

    /// The copy of the header.
    fn header(&self) -> Result<Option<FileHeader>, Refusal> {
        let start = self.bytes.len().checked_sub(FOOTER_BYTES + HEADER_BYTES);
        let copy = start.and_then(|start| self.bytes.get(start..start + HEADER_BYTES));
        Ok(copy.map(FileHeader::decode).transpose()?.flatten())
    }
}

/// Bytes that are read of a checkpoint at once; usually all of it.
const CHECKPOINT_AT_ONCE: usize = 8 << 10;

/// The rows of the checkpoints, and the end of the newest one. `None`: one of them is damaged, or `interrupted` says
/// true.
fn checkpointed(
    fd: &Descriptor,
    length: u64,
    tag: [u8; 8],
    pointer: CheckpointPointer,
    interrupted: &dyn Fn() -> bool,
) -> Option<(Vec<Packed>, u64)> {
    let length = length.min(MOST_BYTES);
    // Memory is reserved only for as many rows as the file can have.
    let room = usize::try_from(length / RECORD_HEADER_BYTES as u64).unwrap_or(usize::MAX);
    if pointer.count as usize > room.min(MOST_RECORDS) {
        return None;
    }
    let mut rows = Vec::new();
    rows.try_reserve_exact(pointer.count as usize).ok()?;
    let (mut at, mut behind, mut bytes, mut limit) = (pointer.offset, None, Vec::new(), length);
    while at != 0 {
        if interrupted() {
            return None;
        }
        bytes.clear();
        read_at(fd, &mut bytes, CHECKPOINT_AT_ONCE, at).ok()?;
        let (entry, found) = IndexEntry::decode_header(bytes.first_chunk()?, at)?;
        if found != tag || entry.kind != crate::format::sizes::CHECKPOINT_KIND || entry.end() > limit {
            return None;
        }
        let whole = RECORD_HEADER_BYTES + entry.stored as usize;
        let missing = whole.saturating_sub(bytes.len());
        let there = at + bytes.len() as u64;
        read_at(fd, &mut bytes, missing, there).ok()?;
        let payload = bytes.get(RECORD_HEADER_BYTES..whole)?;
        if payload_crc(&entry.key, payload) != entry.crc {
            return None;
        }
        behind.get_or_insert(entry.end());
        let (before, listed) = decode_checkpoint(payload)?;
        rows.extend(listed);
        if rows.len() > pointer.count as usize {
            return None;
        }
        // Each checkpoint must be before the previous one and not overlap it, so there are no circles.
        if before >= at {
            return None;
        }
        (limit, at) = (at, before);
    }
    (rows.len() == pointer.count as usize).then_some((rows, behind?))
}
