//! The index of an archive: where each entry is.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek};

use super::inflate::sizes_are_possible;
use super::layout::{self, Compression, HEADER, MAX_PAYLOAD, NAME, PayloadHeader};
use super::tag::Tag;

/// The most entries that are indexed: 128 MiB of index. Steam's archives of one game have some hundred thousand.
pub const MAX_ENTRIES: usize = 4 << 20;
/// So many unknown tags are told apart: a file of garbage could have millions.
const MAX_UNKNOWN_TAGS: usize = 64;

/// Where an entry is, and what its header says.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(super) hash: u64,
    /// Of the payload, from the beginning of the file.
    pub(super) offset: u64,
    pub(super) stored: u32,
    pub(super) size: u32,
    pub(super) crc: u32,
    pub(super) compression: Compression,
    pub(super) tag: Tag,
}

// What MAX_ENTRIES counts with.
const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    /// What the entry describes.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The hash in the entry's name, by which others refer to it.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The size of the payload in bytes, at most [`MAX_PAYLOAD`].
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The size of the payload in the file, in bytes.
    pub fn stored_size(&self) -> u32 {
        self.stored
    }
}

/// What an archive has that is not in its index. Entries whose payload is damaged are in the index: only reading it
/// shows that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// How many entries have a tag that is not known here, by the tag's number.
    pub unknown_tags: BTreeMap<u128, u64>,
    /// Entries of further unknown tags.
    pub other_unknown: u64,
    /// Entries whose tag and hash an earlier entry has. The first one counts, as in Fossilize.
    pub duplicates: u64,
    /// Entries whose name is not made of hexadecimal digits.
    pub malformed_names: u64,
    /// Entries with an unknown compression, or with two sizes of which one must be wrong.
    pub malformed_headers: u64,
    /// Entries of more than [`MAX_PAYLOAD`] bytes.
    pub too_large: u64,
    /// Entries behind [`MAX_ENTRIES`] others.
    pub over_limit: u64,
    /// The bytes of an incomplete entry at the end: its writer is not done with it, or died.
    pub tail: u64,
}

impl Skipped {
    /// How many entries were skipped. What stands in [`tail`](Self::tail) is one entry.
    pub fn entries(&self) -> u64 {
        self.unknown_tags.values().sum::<u64>()
            + self.other_unknown
            + self.duplicates
            + self.malformed_names
            + self.malformed_headers
            + self.too_large
            + self.over_limit
            + u64::from(self.tail != 0)
    }

    fn unknown(&mut self, tag: u128) {
        if let Some(count) = self.unknown_tags.get_mut(&tag) {
            *count += 1;
        } else if self.unknown_tags.len() < MAX_UNKNOWN_TAGS {
            self.unknown_tags.insert(tag, 1);
        } else {
            self.other_unknown += 1;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Index {
    /// By tag and hash.
    pub(super) entries: Vec<Entry>,
    pub(super) skipped: Skipped,
}

/// Indexes the entries of `file`, which stands behind its version and has `length` bytes in all. Bytes that another
/// process appends meanwhile are not looked at.
pub(super) fn scan(file: impl Read + Seek, length: u64, most: usize) -> io::Result<Index> {
    let mut file = BufReader::with_capacity(32 << 10, file);
    let mut index = Index::default();
    let mut offset = layout::EMPTY;
    while offset < length {
        let beginning = offset;
        let Some((name, header)) = name_and_header(&mut file)? else {
            index.skipped.tail = length - beginning;
            break;
        };
        offset += (NAME + HEADER) as u64;
        let next = offset + u64::from(header.stored);
        if next > length {
            index.skipped.tail = length - beginning;
            break;
        }
        index.add(name, header, offset, most);
        file.seek_relative(i64::from(header.stored))?;
        offset = next;
    }
    index.sort();
    Ok(index)
}

/// None at the end of the file, also if it has become shorter.
fn name_and_header(file: &mut impl Read) -> io::Result<Option<([u8; NAME], PayloadHeader)>> {
    let mut name = [0; NAME];
    let mut fields = [[0; 4]; 4];
    match file.read_exact(&mut name).and_then(|()| file.read_exact(fields.as_flattened_mut())) {
        Ok(()) => Ok(Some((name, PayloadHeader::from_fields(fields)))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

impl Index {
    fn add(&mut self, name: [u8; NAME], header: PayloadHeader, offset: u64, most: usize) {
        let skipped = &mut self.skipped;
        let Some((tag, hash)) = layout::parse_name(name) else {
            skipped.malformed_names += 1;
            return;
        };
        let Some(tag) = Tag::from_number(tag) else {
            skipped.unknown(tag);
            return;
        };
        let Some(compression) = Compression::from_flags(header.flags) else {
            skipped.malformed_headers += 1;
            return;
        };
        let PayloadHeader { stored, crc, size, .. } = header;
        if !sizes_are_possible(compression, &header) {
            skipped.malformed_headers += 1;
        } else if stored > MAX_PAYLOAD || size > MAX_PAYLOAD {
            skipped.too_large += 1;
        } else if self.entries.len() >= most {
            skipped.over_limit += 1;
        } else {
            self.entries.push(Entry { hash, offset, stored, size, crc, compression, tag });
        }
    }

    fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.tag, entry.hash, entry.offset));
        let before = self.entries.len();
        self.entries.dedup_by_key(|entry| (entry.tag, entry.hash));
        self.skipped.duplicates = (before - self.entries.len()) as u64;
    }
}
