//! Writing a segment: an exclusively created file, to which batches of records are appended, and which is sealed with
//! an index.

use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;

use crate::codec;
use crate::format::checkpoint::{CheckpointPointer, POINTER_BYTES, encode_checkpoint};
use crate::format::file::{FileHeader, PartIdentity};
use crate::format::footer::encode_end;
use crate::format::record_header::{Stored, encode_record};
use crate::format::seal::Seal;
use crate::format::sizes::{
    ALIGN, CHECKPOINT_KIND, CODEC_PLAIN, HEADER_BYTES, POINTERS_BYTES, RECORD_HEADER_BYTES,
};
use crate::format::table::Row;
use crate::segment::file::{Location, Segment};
use crate::segment::name::new_name;
use vkstash_host::disk::folder::{Folder, write_all_at};
use vkstash_host::disk::ops as disk;
use vkstash_host::memory;
use vkstash_host::util::unix_ms;
use vkstash_model::record::{Key, Kind};

/// A segment of this size is sealed.
const ROTATE_BYTES: u64 = 1 << 30;
/// A segment with this many records is sealed, because its writer keeps a row of each in memory.
const ROTATE_RECORDS: usize = 1 << 17;
/// After this many records a checkpoint is written, which bounds what is scanned after a `kill -9`.
const CHECKPOINT_RECORDS: usize = 192;
/// A larger buffer is freed after a batch.
const KEEP_BUFFER: usize = 4 << 20;

/// A record to be written.
pub(crate) type Item = (RecordId, Arc<Payload>);

/// The segment that this process writes in one part.
pub(crate) struct Appender {
    segment: Arc<Segment>,
    folder: Arc<Folder>,
    header: FileHeader,
    tag: [u8; 8],
    /// The offset of the next record. 0: the header is not written yet.
    end: u64,
    rows: Vec<Row>,
    /// The number of rows that are in checkpoints, the offset of the newest checkpoint (0: none), and the number of
    /// checkpoints.
    checkpointed: usize,
    checkpoint: u64,
    checkpoints: u64,
    buffer: Vec<u8>,
    compressed: Vec<u8>,
}

impl Appender {
    /// Creates the file. Its header is written with the first records. `age` orders it among the segments of the part.
    pub(crate) fn create(folder: Arc<Folder>, identity: PartIdentity, age: u64) -> io::Result<Appender> {
        let (name, serial, fd) = new_name(age, |name| folder.create_locked(name))?;
        let tag = identity.tag();
        Ok(Appender {
            segment: Segment::of_writer(folder.clone(), name, fd, tag),
            folder,
            header: FileHeader { identity, created_unix_ms: unix_ms(), serial },
            tag,
            end: 0,
            rows: Vec::new(),
            checkpointed: 0,
            checkpoint: 0,
            checkpoints: 0,
            buffer: Vec::new(),
            compressed: Vec::new(),
        })
    }

    /// Appends the records with one write, uncompressed if `plain`; merging compresses them later. Returns the
    /// locations of the records that were written, the bytes, and the error if these are not all.
    pub(crate) fn append(&mut self, items: &[Item], plain: bool) -> (Vec<Location>, u64, io::Result<()>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // A record grows by its header and padding at most.
        let most = items.iter().map(|(_, payload)| payload.0.len() + RECORD_HEADER_BYTES + ALIGN as usize);
        if !memory::reserve(&mut buffer, most.sum::<usize>() + HEADER_BYTES + POINTERS_BYTES) {
            return (Vec::new(), 0, Err(io::ErrorKind::OutOfMemory.into()));
        }
        if self.end == 0 {
            buffer.extend_from_slice(&self.header.encode());
            buffer.resize(HEADER_BYTES + POINTERS_BYTES, 0);
        }
        let entries: Vec<_> = items
            .iter()
            .map(|(id, payload)| {
                let codec = match plain {
                    true => CODEC_PLAIN,
                    false => codec::encode(id.kind, &payload.0, &mut self.compressed).number(),
                };
                let stored = match codec {
                    CODEC_PLAIN => Stored::plain(&payload.0),
                    _ => Stored { bytes: &self.compressed, codec, length: payload.0.len() as u32 },
                };
                encode_record(&mut buffer, self.end, self.tag, id.kind as u8, &id.key, stored)
            })
            .collect();
        if self.compressed.capacity() > KEEP_BUFFER {
            self.compressed = Vec::new();
        }
        let outcome = self.write(&buffer);
        let (written, outcome) = match outcome {
            Ok(()) => (self.end + buffer.len() as u64, Ok(())),
            Err((count, error)) => (self.end + count as u64, Err(error)),
        };
        let intact = entries.iter().take_while(|entry| entry.end() <= written).count();
        let before = self.end;
        if let Some(last) = entries[..intact].last() {
            self.end = last.end();
        }
        if outcome.is_err() {
            // More than was reported may have been written.
            self.cut();
        }
        let locations = entries[..intact].iter().map(|entry| Location::new(&self.segment, entry)).collect();
        self.rows.extend(entries[..intact].iter().map(Row::of));
        if buffer.capacity() <= KEEP_BUFFER {
            self.buffer = buffer;
        }
        let outcome = outcome.and_then(|()| self.checkpoint_if_due());
        (locations, self.end - before, outcome)
    }

    /// Writes a checkpoint with the rows since the last one, if there are enough.
    fn checkpoint_if_due(&mut self) -> io::Result<()> {
        if self.rows.len() - self.checkpointed < CHECKPOINT_RECORDS {
            return Ok(());
        }
        let payload = encode_checkpoint(self.checkpoint, &self.rows[self.checkpointed..]);
        let mut bytes = Vec::with_capacity(payload.len() + 128);
        let entry =
            encode_record(&mut bytes, self.end, self.tag, CHECKPOINT_KIND, &[0; 32], Stored::plain(&payload));
        self.write_at(&bytes, self.end).inspect_err(|_| self.cut())?;
        let pointer = CheckpointPointer { offset: self.end, count: self.rows.len() as u32 };
        // The two pointers are written in turn, so a torn one leaves the other.
        let offset = HEADER_BYTES as u64 + self.checkpoints % 2 * POINTER_BYTES as u64;
        self.checkpoint = self.end;
        self.end = entry.end();
        self.checkpointed = self.rows.len();
        self.checkpoints += 1;
        self.write_at(&pointer.encode(), offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.segment.descriptor() {
            Some(fd) => write_all_at(fd, bytes, offset).map_err(|(_, error)| error),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        match self.segment.descriptor() {
            Some(fd) => write_all_at(fd, bytes, self.end),
            None => Err((0, io::ErrorKind::NotConnected.into())),
        }
    }

    /// Cuts off what a failed write has left after the last whole record.
    fn cut(&self) {
        if let Some(fd) = self.segment.descriptor() {
            // If that fails, readers take the rest for a torn tail, and the next write overwrites it.
            let _ = disk::ftruncate(fd, self.end);
        }
    }

    /// The segment.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Whether the segment is to be sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.end >= ROTATE_BYTES || self.rows.len() >= ROTATE_RECORDS
    }

    /// Seals the file; a file without records is removed. Returns the bytes that were added.
    pub(crate) fn seal(self) -> io::Result<u64> {
        if self.rows.is_empty() {
            self.folder.remove_file(self.segment.name())?;
            return Ok(0);
        }
        let end = encode_end(&self.header, self.end, &self.rows);
        self.write(&end).map_err(|(_, error)| {
            self.cut();
            error
        })?;
        let seal = Seal { bytes: self.end + end.len() as u64, records: self.rows.len() as u32 };
        // The seal repeats the length and the number of records, which shows whether a file was cut short. Without it
        // the file is complete, and only a later cut goes unnoticed.
        let _ = self.write_at(&seal.encode(), Seal::OFFSET);
        Ok(end.len() as u64)
    }
}

/// Kind and key of a record. Of several records with one id the newest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

impl Hash for RecordId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.key);
        state.write_u8(self.kind as u8);
    }
}

/// A payload that waits to be written. It is the caller's allocation, never a copy.
#[derive(Debug)]
pub(crate) struct Payload(pub(crate) Box<[u8]>);
