//! The value file: records that are appended, and never changed.

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{read_at, write_all_at};
use vkstash_host::disk::ops;
use vkstash_host::signals::Quiet;

use crate::disk::write::write_all;
use crate::error::Error;
use crate::format::{ALIGN, HEAD, Head, Place, VALUE_HEADER, payload_crc};
use crate::scratch;

/// A value of this length or more is not copied to be written together with its head.
const LARGE: usize = 64 << 10;

/// An open value file.
pub(crate) struct Values {
    file: Descriptor,
    /// What each record has.
    tag: u32,
}

/// A record in a buffer, with a correct checksum.
pub(crate) struct Record<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The multiple of 8 from `length` on.
pub(crate) fn padded(length: u64) -> u64 {
    length.next_multiple_of(ALIGN)
}

impl Values {
    pub(crate) fn new(file: Descriptor, tag: u32) -> Values {
        Values { file, tag }
    }

    /// The length of the value file in bytes.
    pub(crate) fn length(&self) -> Result<u64, Error> {
        Ok(u64::try_from(ops::fstat(&self.file)?.st_size).unwrap_or(0))
    }

    /// Reads a record. None: it is damaged, or ends after the end of the file.
    pub(crate) fn read<'a>(
        &self,
        place: Place,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<Record<'a>>, Error> {
        Values::read_from(&self.file, self.tag, place, buffer)
    }

    /// [`Values::read`] from a file whose records have that tag.
    pub(crate) fn read_from<'a>(
        file: &Descriptor,
        tag: u32,
        place: Place,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<Record<'a>>, Error> {
        buffer.clear();
        read_at(file, buffer, place.length as usize, place.offset)?;
        let Some((head, payload)) = buffer.split_first_chunk::<HEAD>() else { return Ok(None) };
        let Some(head) = Head::decode(head, tag) else { return Ok(None) };
        if head.length() != u64::from(place.length) || payload_crc(payload, &[]) != head.crc {
            return Ok(None);
        }
        let Some((key, value)) = payload.split_at_checked(head.key as usize) else { return Ok(None) };
        Ok(Some(Record { hash: head.hash, key, value }))
    }

    /// The length of the value, if the record has this key. The value is not read. None: the record has another key,
    /// or is damaged.
    pub(crate) fn length_of(
        &self,
        place: Place,
        key: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<Option<usize>, Error> {
        buffer.clear();
        read_at(&self.file, buffer, HEAD + key.len(), place.offset)?;
        let Some((head, found)) = buffer.split_first_chunk::<HEAD>() else { return Ok(None) };
        let head = Head::decode(head, self.tag);
        let head =
            head.filter(|head| head.length() == u64::from(place.length) && head.key as usize == key.len());
        Ok(head.filter(|_| found == key).map(|head| head.value as usize))
    }

    /// Appends a record, if the file is at most `most` bytes long then. Returns where it is, and the file's length
    /// before.
    pub(crate) fn append(
        &self,
        quiet: &Quiet,
        hash: u64,
        key: &[u8],
        value: &[u8],
        most: u64,
    ) -> Result<(Place, u64), Error> {
        let (file, before) = self.file.still_with_length()?;
        let offset = padded(before.max(VALUE_HEADER as u64));
        let length = HEAD as u64 + key.len() as u64 + value.len() as u64;
        if offset.saturating_add(length) > most {
            return Err(Error::CacheFull);
        }
        let length = u32::try_from(length).map_err(|_| Error::CacheFull)?;
        let crc = payload_crc(key, value);
        // The lengths fit, because their sum does.
        let head = Head { key: key.len() as u32, value: value.len() as u32, crc, hash, tag: self.tag };
        let written = scratch::with(|buffer| {
            let (with, after) = if value.len() < LARGE { (value, &[][..]) } else { (&[][..], value) };
            let room = buffer.try_reserve(HEAD + key.len() + with.len());
            room.map_err(|_| Error::NoMemory)?;
            buffer.extend_from_slice(&head.encode());
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(with);
            let write = |bytes: &[u8], at| write_all(quiet, file, bytes, at);
            write(buffer, offset)?;
            if after.is_empty() { Ok(()) } else { write(after, offset + buffer.len() as u64) }
        });
        if written.is_err() {
            self.cut(before);
        }
        written.map(|()| (Place { offset, length }, before))
    }

    /// Takes back what was appended. If that fails, it stays without a slot.
    pub(crate) fn cut(&self, length: u64) {
        let _ = ops::ftruncate(&self.file, length);
    }

    /// Writes the header.
    pub(crate) fn write_header(&self, header: &[u8]) -> Result<(), Error> {
        write_all_at(&self.file, header, 0).map_err(|(_, error)| error.into())
    }

    /// Calls `each` with the head and the place of every whole record, in the order of the file.
    pub(crate) fn scan(&self, mut each: impl FnMut(&Head, Place)) -> Result<(), Error> {
        let end = self.length()?.min(MOST_BYTES);
        // What lies in damaged places may claim to be long. After so many bytes it is not believed any more.
        let mut budget = end.saturating_mul(4).saturating_add(64 << 20);
        let mut offset = VALUE_HEADER as u64;
        let mut window = Window::default();
        while offset + HEAD as u64 <= end {
            offset = match window.likely_head(&self.file, offset, end)? {
                Some(offset) => offset,
                None => break,
            };
            let head = window.head(&self.file, offset)?.and_then(|head| Head::decode(&head, self.tag));
            let head = head.filter(|head| head.length() <= (end - offset).min(budget));
            let next = match head {
                Some(head) => {
                    budget -= head.length();
                    let whole =
                        self.crc_of(offset + HEAD as u64, head.length() - HEAD as u64)? == Some(head.crc);
                    whole.then(|| {
                        // Less than 4 GiB, as the two lengths in the head are in a file of less than that.
                        each(&head, Place { offset, length: head.length() as u32 });
                        padded(offset + head.length())
                    })
                }
                None => None,
            };
            offset = next.unwrap_or(offset + ALIGN);
        }
        Ok(())
    }

    /// The checksum of a part of the file. None: the file ends before.
    fn crc_of(&self, mut offset: u64, mut length: u64) -> Result<Option<u32>, Error> {
        scratch::with(|buffer| {
            let mut crc = 0;
            while length > 0 {
                let step = length.min(256 << 10);
                buffer.clear();
                read_at(&self.file, buffer, step as usize, offset)?;
                if (buffer.len() as u64) < step {
                    return Ok(None);
                }
                crc = crc32c::crc32c_append(crc, buffer);
                (offset, length) = (offset + step, length - step);
            }
            Ok(Some(crc))
        })
    }
}

/// The longest value file that a writer makes.
const MOST_BYTES: u64 = 1 << 32;

#[cfg(test)]
thread_local! {
    /// How many bytes this thread has searched.
    pub(crate) static READ: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A piece of the file in memory, for looking at each multiple of 8.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const BYTES: usize = 64 << 10;

    /// Reads the piece from `offset` on, unless it has at least that many bytes from there.
    fn reach(&mut self, file: &Descriptor, offset: u64, count: usize) -> Result<&[u8], Error> {
        let inside =
            offset.checked_sub(self.start).is_some_and(|at| at + count as u64 <= self.bytes.len() as u64);
        if !inside {
            self.bytes.clear();
            self.start = offset;
            read_at(file, &mut self.bytes, Self::BYTES, offset)?;
            #[cfg(test)]
            READ.set(READ.get() + self.bytes.len() as u64);
        }
        Ok(self.bytes.get((offset - self.start) as usize..).unwrap_or_default())
    }

    fn head(&mut self, file: &Descriptor, offset: u64) -> Result<Option<[u8; HEAD]>, Error> {
        Ok(self.reach(file, offset, HEAD)?.first_chunk().copied())
    }

    /// The first multiple of 8 from `offset` on where a head may begin. Holes of the file are not read.
    fn likely_head(&mut self, file: &Descriptor, mut offset: u64, end: u64) -> Result<Option<u64>, Error> {
        while offset + HEAD as u64 <= end {
            let bytes = self.reach(file, offset, HEAD)?;
            let length = bytes.len();
            if let Some(at) = bytes.chunks_exact(ALIGN as usize).position(Head::may_begin) {
                let found = offset + at as u64 * ALIGN;
                return Ok(Some(found).filter(|found| found + HEAD as u64 <= end));
            }
            if length < HEAD {
                return Ok(None);
            }
            offset = match next_data(file, offset + length as u64 / ALIGN * ALIGN) {
                Some(data) => data / ALIGN * ALIGN,
                None => return Ok(None),
            };
        }
        Ok(None)
    }
}

/// Where the file has data, from `offset` on. None: nowhere. A file system that does not know counts everything as
/// data.
fn next_data(file: &Descriptor, offset: u64) -> Option<u64> {
    // The position of a file that the program has put in its place is left alone.
    match file.still().and_then(|file| rustix::fs::seek(file, SeekFrom::Data(offset))) {
        Ok(data) => Some(data),
        Err(Errno::NXIO) => None,
        Err(_) => Some(offset),
    }
}
