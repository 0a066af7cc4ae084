//! Reads an archive.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::slice;

use rustix::fs::{Mode, OFlags};

use super::error::{Damage, OpenError};
use super::inflate::{empty, inflate};
use super::layout::{Compression, EMPTY, MAGIC, OLDEST_VERSION, VERSION};
use super::scan::{Entry, Index, MAX_ENTRIES, Skipped, scan};
use super::tag::Tag;

/// An archive that is read: its index is in memory, its payloads are read on request.
#[derive(Debug)]
pub struct Reader {
    file: File,
    version: u8,
    index: Index,
}

impl Reader {
    /// Opens an archive and indexes its entries. Its entries are those that are complete now: another process may be
    /// appending to it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_up_to(path, MAX_ENTRIES)
    }

    /// Indexes at most `most` entries.
    pub(super) fn open_up_to(path: &Path, most: usize) -> Result<Self, OpenError> {
        let path_of_error = || path.to_owned();
        // Without NONBLOCK, a FIFO would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file: File = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| OpenError::Open { path: path_of_error(), source: error.into() })?
            .into();
        let read_error = |source| OpenError::Read { path: path_of_error(), source };
        let metadata = file.metadata().map_err(read_error)?;
        if !metadata.is_file() {
            return Err(OpenError::NotAFile { path: path_of_error() });
        }
        if metadata.len() < EMPTY {
            return Err(OpenError::TooShort { path: path_of_error() });
        }
        let mut beginning = ([0; MAGIC.len()], [0]);
        file.read_exact(&mut beginning.0)
            .and_then(|()| file.read_exact(&mut beginning.1))
            .map_err(read_error)?;
        let (magic, [version]) = beginning;
        if magic != MAGIC {
            return Err(OpenError::NotAnArchive { path: path_of_error() });
        }
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(OpenError::Version { path: path_of_error(), version });
        }
        let index = scan(&file, metadata.len(), most).map_err(read_error)?;
        Ok(Self { file, version, index })
    }

    /// The version of the file. The entries' JSON states one of its own.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// All entries of known tags, by tag and hash; each tag and hash once.
    pub fn entries(&self) -> &[Entry] {
        &self.index.entries
    }

    /// The entries of a tag, by hash.
    pub fn entries_of(&self, tag: Tag) -> &[Entry] {
        let entries = self.entries();
        let from = entries.partition_point(|entry| entry.tag < tag);
        let to = entries.partition_point(|entry| entry.tag <= tag);
        entries.get(from..to).unwrap_or_default()
    }

    /// The entry of this name.
    pub fn find(&self, tag: Tag, hash: u64) -> Option<&Entry> {
        let at = self.entries().binary_search_by_key(&(tag, hash), |entry| (entry.tag, entry.hash)).ok()?;
        self.entries().get(at)
    }

    /// What is in the file and not in [`entries`](Self::entries).
    pub fn skipped(&self) -> &Skipped {
        &self.index.skipped
    }

    /// The payload of an entry of this archive: of the size that its header states, and intact if the header has a
    /// CRC. It is read from the file; several threads may do so at the same time.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, Damage> {
        let stored = self.stored(entry)?;
        if entry.crc != 0 {
            let found = crc32fast::hash(&stored);
            if found != entry.crc {
                return Err(Damage::Crc { stated: entry.crc, found });
            }
        }
        match entry.compression {
            Compression::None => Ok(stored),
            Compression::Zlib => inflate(&stored, entry.size),
        }
    }

    /// The intact payloads, by tag and hash; the others are counted.
    pub fn payloads(&self) -> Payloads<'_> {
        Payloads { reader: self, left: self.entries().iter(), damaged: 0 }
    }

    fn stored(&self, entry: &Entry) -> Result<Vec<u8>, Damage> {
        let mut stored = empty(entry.stored, 0)?;
        let length = usize::try_from(entry.stored).map_err(|_| Damage::Memory(entry.stored))?;
        stored.resize(length, 0);
        self.file.read_exact_at(&mut stored, entry.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Damage::Read(io::Error::new(error.kind(), "the file has become shorter"))
            }
            _ => Damage::Read(error),
        })?;
        Ok(stored)
    }
}

/// The intact payloads of an archive: each entry with its payload. See [`Reader::payloads`].
#[derive(Debug)]
pub struct Payloads<'a> {
    reader: &'a Reader,
    left: slice::Iter<'a, Entry>,
    damaged: u64,
}

impl Payloads<'_> {
    /// How many entries were damaged so far, and not returned.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

impl<'a> Iterator for Payloads<'a> {
    type Item = (&'a Entry, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        for entry in self.left.by_ref() {
            match self.reader.read(entry) {
                Ok(payload) => return Some((entry, payload)),
                Err(_) => self.damaged += 1,
            }
        }
        None
    }
}
