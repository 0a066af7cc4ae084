//! One segment file: its descriptor, what is in it, and reading from it with positioned reads only. A mapping
//! would kill the host as soon as somebody truncates the file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use super::folder::{Folder, read_at};
use super::format::{
    ENTRY_BYTES, FOOT_BYTES, FileHeader, Foot, HEAD_BYTES, HEADER_BYTES, INDEX_KIND, IndexEntry, MAX_PAYLOAD,
    PartIdentity, padded, payload_crc,
};
use super::part::Key;
use super::refusal::Refusal;
use super::scan::{self, Scan};

/// How many segments a process keeps open for reading; others are opened for each read. A stash of thousands
/// of small segments must not use up the host's descriptors.
const MAX_KEPT_OPEN: usize = 48;

static KEPT_OPEN: AtomicUsize = AtomicUsize::new(0);

/// A segment file of a part.
pub(super) struct Segment {
    folder: Arc<Folder>,
    name: String,
    fd: OnceLock<KeptOpen>,
}

/// The age that a segment's name gives; 0 for a name that no writer makes.
pub(super) fn age_of(name: &str) -> u64 {
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
}

impl Location {
    /// Of a record in `segment`.
    pub(super) fn new(segment: &Arc<Segment>, entry: &IndexEntry) -> Location {
        let offset = entry.offset + HEAD_BYTES as u64;
        Location { segment: segment.clone(), offset, length: entry.stored, crc: entry.crc }
    }

    /// Replaces `buffer` by the payload. Whatever the outcome, it holds no unverified byte.
    pub(super) fn read(&self, key: &Key, buffer: &mut Vec<u8>) -> Read {
        buffer.clear();
        let outcome = match self.segment.read_at(buffer, self.length as usize, self.offset) {
            Ok(()) if buffer.len() < self.length as usize => Read::Damaged,
            Ok(()) if payload_crc(key, buffer) != self.crc => Read::Damaged,
            Ok(()) => Read::Good,
            Err(error) if is_lasting(&error) => Read::Damaged,
            Err(_) => Read::Failed,
        };
        if outcome != Read::Good {
            buffer.clear();
        }
        outcome
    }
}

/// Whether trying again would fail again: the file is gone, was replaced, or its disk is broken.
fn is_lasting(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lasting =
        [Errno::NOENT, Errno::LOOP, Errno::IO, Errno::SPIPE, Errno::ISDIR, Errno::NXIO, Errno::STALE];
    Errno::from_io_error(error).is_some_and(|errno| lasting.contains(&errno))
}

impl Segment {
    /// The segment that this process writes, with its descriptor.
    pub(super) fn of_writer(folder: Arc<Folder>, name: String, fd: OwnedFd) -> Arc<Segment> {
        // Counted like the others, but never turned away: there are few of them.
        KEPT_OPEN.fetch_add(1, Ordering::Relaxed);
        Arc::new(Segment { folder, name, fd: OnceLock::from(KeptOpen(fd)) })
    }

    /// The file's name in its folder.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The writer's descriptor; `None` for a segment that was never opened for writing and not read yet.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.get().map(|kept| kept.0.as_fd())
    }

    fn read_at(&self, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<()> {
        if let Some(fd) = self.descriptor() {
            return read_at(fd, buffer, length, offset);
        }
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = openat(&*self.folder, self.name.as_str(), flags, Mode::empty())?;
        read_at(&fd, buffer, length, offset)?;
        if KEPT_OPEN.fetch_add(1, Ordering::Relaxed) < MAX_KEPT_OPEN {
            // Where another thread was faster, dropping ours takes it off the count again.
            drop(self.fd.set(KeptOpen(fd)));
        } else {
            KEPT_OPEN.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What opening a segment found.
pub(super) struct Loaded {
    pub(super) segment: Arc<Segment>,
    /// Where a valid one was found, at the head or before the foot.
    pub(super) header: Option<FileHeader>,
    pub(super) entries: Vec<IndexEntry>,
    /// Places where something else than a record stood.
    pub(super) damaged: u64,
    /// Length of the file, in bytes.
    pub(super) bytes: u64,
    /// Whether it ends in a good index.
    pub(super) sealed: bool,
}

/// Opens the segment `name`. `expected`: the part that it must belong to; `None` lets its own header decide.
pub(super) fn load(
    folder: &Arc<Folder>,
    name: &str,
    expected: Option<&PartIdentity>,
) -> Result<Loaded, Refusal> {
    let (fd, length) = folder.open_file(name)?;
    if length < HEADER_BYTES as u64 {
        return Err(Refusal::Truncated);
    }
    let io_error = |error: io::Error| Refusal::Unreadable(error.to_string());
    let mut head = Vec::new();
    read_at(&fd, &mut head, FileHeader::LOOK_AT, 0).map_err(io_error)?;
    let (foot, copy) = read_foot(&fd, length).map_err(io_error)?;
    let header = match FileHeader::decode(&head)? {
        Some(header) => Some(header),
        None => FileHeader::decode(&copy)?,
    };
    if let (Some(header), Some(expected)) = (&header, expected) {
        if let Some(refusal) = header.identity.refused_by(expected) {
            return Err(refusal);
        }
    }
    let identity = expected.or(header.as_ref().map(|header| &header.identity));
    let tag = identity.ok_or(Refusal::NotASegment)?.tag();

    let index = foot.filter(|foot| foot.tag == tag).and_then(|foot| read_index(&fd, length, &foot));
    let sealed = index.is_some();
    let scan = match index {
        Some(entries) => Scan { entries, damaged: 0 },
        None => scan::scan(&fd, HEADER_BYTES as u64, length, tag),
    };
    if header.is_none() && scan.entries.is_empty() {
        return Err(Refusal::NotASegment);
    }
    let segment = Segment { folder: folder.clone(), name: name.to_owned(), fd: OnceLock::new() };
    let damaged = scan.damaged + u64::from(header.is_none());
    Ok(Loaded { segment: Arc::new(segment), header, entries: scan.entries, damaged, bytes: length, sealed })
}

/// The foot where there is a good one, and the bytes of the header's copy before it.
fn read_foot(fd: &OwnedFd, length: u64) -> io::Result<(Option<Foot>, Vec<u8>)> {
    let end = HEADER_BYTES + FOOT_BYTES;
    let mut bytes = Vec::new();
    if length >= (HEADER_BYTES + end) as u64 {
        read_at(fd, &mut bytes, end, length - end as u64)?;
    }
    let foot = bytes.last_chunk::<FOOT_BYTES>().filter(|_| bytes.len() == end).and_then(Foot::decode);
    bytes.truncate(HEADER_BYTES);
    Ok((foot, bytes))
}

/// The index that the foot points at; `None` unless all of it is as it was written.
fn read_index(fd: &OwnedFd, length: u64, foot: &Foot) -> Option<Vec<IndexEntry>> {
    let size = foot.count as usize * ENTRY_BYTES;
    if size > MAX_PAYLOAD as usize {
        return None;
    }
    let start = foot.index_offset.checked_add(HEAD_BYTES as u64)?;
    let end = start.checked_add(padded(size as u64))?;
    if end.checked_add((HEADER_BYTES + FOOT_BYTES) as u64)? != length {
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
    entries.map(|bytes| IndexEntry::decode(bytes).filter(inside)).collect()
}
