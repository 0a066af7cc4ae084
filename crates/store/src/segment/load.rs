//! Opening a segment file: by its footer, by its checkpoints, or by looking for records.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;

use crate::base::descriptor::Descriptor;
use crate::base::timer::never;
use crate::disk::folder::Folder;
use crate::disk::folder::read_at;
use crate::disk::ops as disk;
use crate::format::bytes::padded;
use crate::format::checkpoint::Mark;
use crate::format::checkpoint::decode_checkpoint;
use crate::format::file::FileHeader;
use crate::format::file::PartIdentity;
use crate::format::footer::Foot;
use crate::format::footer::Foot1;
use crate::format::footer::Tally;
use crate::format::record_header::IndexEntry;
use crate::format::record_header::payload_crc;
use crate::format::refusal::Refusal;
use crate::format::sizes::ENTRY_BYTES;
use crate::format::sizes::FIRST_RECORD;
use crate::format::sizes::FOOT_BYTES;
use crate::format::sizes::FOOT_BYTES_1;
use crate::format::sizes::HEAD_BYTES;
use crate::format::sizes::HEADER_BYTES;
use crate::format::sizes::INDEX_KIND;
use crate::format::sizes::MAX_PAYLOAD;
use crate::format::sizes::MOST_BYTES;
use crate::format::sizes::MOST_RECORDS;
use crate::format::table::BLOCK_BYTES;
use crate::format::table::Packed;
use crate::format::table::Row;
use crate::segment::buckets::Buckets;
use crate::segment::file::Segment;
use crate::segment::file::Table;
use crate::segment::scan;

/// What opening a segment found.
pub(crate) struct Loaded {
    pub(crate) segment: Arc<Segment>,
    /// Where a valid one was found, at the head or before the foot.
    pub(crate) header: Option<FileHeader>,
    /// Places where something else than a record stood.
    pub(crate) damaged: u64,
    /// Length of the file, in bytes.
    pub(crate) bytes: u64,
    pub(crate) state: State,
}

/// Who may still write to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
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
pub(crate) fn is_locked(fd: &Descriptor) -> bool {
    match disk::try_lock(fd) {
        // A lock of ours would look like a writer's to others. Where it cannot be given back, closing does.
        Ok(()) => disk::unlock(fd).is_err(),
        // Held, or a file system without locks: nothing of it is touched.
        Err(_) => true,
    }
}

/// Opens the segment `name`. `expected`: the part that it must belong to; `None` lets its own header decide.
pub(crate) fn load(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    load_until(folder, name, expected, &never)
}

/// The same, put off where `interrupted` says true before it is done.
pub(crate) fn load_until(
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
pub(crate) fn load_unnamed(
    folder: &Arc<Folder>,
    fd: Descriptor,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    let length = disk::fstat(&fd).map_err(|error| Refusal::Unreadable(io::Error::from(error).to_string()))?;
    load_file(folder, "", fd, length.st_size as u64, expected, &never)
}

/// An empty name stands for none.
fn load_file(
    folder: &Arc<Folder>,
    name: &str,
    fd: Descriptor,
    length: u64,
    expected: Option<&PartIdentity>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Loaded, Refusal> {
    // Whether it grew between the two questions: then its writer was at it, and has sealed it or died since.
    let grown = |fd: &Descriptor| disk::fstat(fd).is_ok_and(|stat| stat.st_size as u64 != length);
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
    let segment = Segment::new(folder, name, records_end, tag, table, tally, failed);
    if name.is_empty() {
        segment.keep_unnamed(fd);
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

fn read_end(fd: &Descriptor, length: u64) -> io::Result<End> {
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
    fd: &Descriptor,
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
        if found != tag || entry.kind != crate::format::sizes::CHECKPOINT_KIND || entry.end() > limit {
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
fn read_index_1(fd: &Descriptor, length: u64, foot: &Foot1) -> Option<(Vec<Packed>, u64)> {
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
