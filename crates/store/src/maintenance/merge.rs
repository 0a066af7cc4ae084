//! Merging segments: their live records are written to a new file, in the order in which they will be read, and the
//! segments are deleted, once what replaces them would survive the death of the machine. Readers keep the files that
//! they have open, and find the new one at the next refresh.

use std::collections::{HashMap, HashSet};
use std::io;

use rustix::fs::{OFlags, Timespec, Timestamps};

use crate::bounds;
use crate::bounds::{Cause, Room};
use crate::codec;
use crate::format::file::FileHeader;
use crate::format::footer::encode_end;
use crate::format::record_header::{IndexEntry, Stored, encode_record};
use crate::format::seal::Seal;
use crate::format::sizes::{CODEC_PLAIN, FIRST_RECORD, MOST_RECORDS};
use crate::format::table::Row;
use crate::maintenance::contents::{Live, Lost, PartContents, footprint, stays};
use crate::maintenance::duplicates;
use crate::maintenance::duplicates::Duplicates;
use crate::maintenance::outcome::Outcome;
use crate::maintenance::survey::PartFolder;
use crate::maintenance::uses::Uses;
use crate::segment::file as segment;
use crate::segment::file::DamagedIndex;
use crate::segment::name;
use crate::segment::name::new_name;
use vkstash_host::descriptor::Descriptor;
use vkstash_host::disk::folder::{FILE_MODE, Folder, write_all_at};
use vkstash_host::disk::{locks, ops as disk};
use vkstash_host::keyed::Keyed;
use vkstash_host::sort;
use vkstash_host::util::unix_ms;
use vkstash_model::record::Kind;

/// The lock file that is held while segments of a part are merged.
pub(crate) const LOCK: &str = ".lock";
/// After this many merges the rest is left for another time.
const ROUNDS: usize = 64;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Which segments are merged.
#[derive(Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// Where it is worth while.
    Worthwhile,
    /// Every segment with an evicted record is written again, and no other one: the records are not to stay until it is
    /// worth while.
    Evicted,
    /// All that nobody writes to, into one, so that all records are in the order of their first use.
    All,
    /// Each damaged one is written again.
    Damaged(&'a Damage),
}

/// What is known to be damaged in a part.
pub(crate) struct Damage {
    /// The names of the segments.
    pub(crate) files: HashSet<String>,
    /// Records that are not to be kept.
    pub(crate) lost: Lost,
}

/// The segments that nobody writes to.
fn sealed(contents: &PartContents) -> Vec<usize> {
    (0..contents.members.len()).filter(|&at| !contents.members[at].open).collect()
}

/// The merges of one part.
pub(crate) struct Job<'a> {
    pub(crate) part: &'a PartFolder,
    pub(crate) uses: &'a Uses,
    /// The records to evict, by hash.
    pub(crate) evicted: &'a HashMap<u64, Cause>,
    pub(crate) choice: Choice<'a>,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

impl Job<'_> {
    /// Merges until nothing is left to do. A merge that fails changes nothing.
    pub(crate) fn run(&self, mut room: Room, outcome: &mut Outcome) {
        let Some(folder) = &self.part.open() else { return };
        let Some(_lock) = lock(folder) else { return };
        let Some(identity) = self.part.identity(self.interrupted) else { return };
        // Merging changes the folder's time stamp, which must say when the part was used.
        let stamps = disk::fstat(&**folder).ok();
        let mut lost = match self.choice {
            Choice::Damaged(damage) => damage.lost.clone(),
            _ => Lost::new(),
        };
        let mut merged_all = false;
        for _ in 0..ROUNDS {
            let Some(contents) = PartContents::read_again(folder, identity.clone(), &lost, self.interrupted)
            else {
                break;
            };
            let metas = contents.metas(self.evicted);
            let next = match self.choice {
                Choice::Worthwhile => bounds::compaction(&metas, room).map(|next| next.inputs),
                Choice::Evicted => self.one_with_evicted(&contents),
                Choice::All => (!merged_all).then(|| sealed(&contents)),
                Choice::Damaged(damage) => sealed(&contents)
                    .into_iter()
                    .find(|&at| damage.files.contains(contents.members[at].segment.name()))
                    .map(|at| vec![at]),
            };
            let Some(inputs) = next else { break };
            let records: u64 = inputs.iter().map(|&at| metas[at].live_records).sum();
            if records > MOST_RECORDS as u64 {
                break;
            }
            let damaged = self.damaged_newer(&contents, &inputs);
            if (self.interrupted)() {
                break;
            }
            if !damaged.is_empty() {
                lost.extend(damaged);
                continue;
            }
            let before: u64 = inputs.iter().map(|&at| metas[at].bytes).sum();
            let Ok(written) = self.merge(folder, &contents, &inputs, outcome) else { break };
            merged_all = true;
            outcome.written += written;
            outcome.freed += before;
            room.must_free = room.must_free.saturating_sub(before.saturating_sub(written));
        }
        if let Some(stat) = stamps {
            let time = Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ };
            // If that fails, the part looks used now.
            let _ = disk::futimens(&**folder, &Timestamps { last_access: time, last_modification: time });
        }
    }

    /// A segment that nobody writes to and that has an evicted record.
    fn one_with_evicted(&self, contents: &PartContents) -> Option<Vec<usize>> {
        let mut gone = contents.live.iter().filter(|live| !stays(live, self.evicted));
        gone.find(|live| !contents.member(live).open).map(|live| vec![live.member])
    }

    /// Replaces these segments by one. Returns its length.
    fn merge(
        &self,
        folder: &Folder,
        contents: &PartContents,
        inputs: &[usize],
        outcome: &mut Outcome,
    ) -> io::Result<u64> {
        let of_inputs = contents.live.iter().filter(|live| inputs.contains(&live.member));
        let (kept, dropped): (Vec<Live>, Vec<Live>) = of_inputs.partition(|live| stays(live, self.evicted));
        let written = if kept.is_empty() { 0 } else { self.write(folder, contents, inputs, &kept)? };
        if inputs.iter().any(|&at| contents.members[at].segment.has_failed()) {
            return Err(io::Error::other("not all of what is merged can be read"));
        }
        for at in newer_elsewhere(contents, inputs).iter().map(|live| live.member).collect::<HashSet<_>>() {
            contents.members[at].segment.sync()?;
        }
        folder.sync()?;
        for &at in inputs {
            folder.remove_file(contents.members[at].segment.name())?;
            for live in dropped.iter().filter(|live| live.member == at) {
                if let Some(&cause) = self.evicted.get(&live.row.hash) {
                    outcome.evicted(cause, 1, footprint(&live.row));
                }
            }
        }
        Ok(written)
    }

    /// Damaged records of other segments that supersede records of these segments, which therefore are the newest.
    fn damaged_newer(&self, contents: &PartContents, inputs: &[usize]) -> Lost {
        let (mut lost, mut bytes) = (Lost::new(), Vec::new());
        for live in newer_elsewhere(contents, inputs).into_iter().filter(|live| stays(live, self.evicted)) {
            if (self.interrupted)() {
                break;
            }
            let segment = &contents.member(live).segment;
            let read = segment.read_record(live.row.offset, live.row.stored, &mut bytes);
            if read == Err(segment::Read::Damaged) {
                lost.insert((segment.name().to_owned(), live.row.offset));
            }
        }
        lost
    }

    fn write(
        &self,
        folder: &Folder,
        contents: &PartContents,
        inputs: &[usize],
        kept: &[Live],
    ) -> io::Result<u64> {
        // The age of the newest input: segments that were written since stay newer.
        let age =
            inputs.iter().map(|&at| name::age_of(contents.members[at].segment.name())).max().unwrap_or(0);
        let (name, serial, (temporary, fd)) = new_name(age, |name| folder.create_temporary(name))?;
        let identity = contents.identity.clone();
        let header = FileHeader { identity, created_unix_ms: unix_ms(), serial };
        let done = self.fill(contents, inputs, kept, &header, &fd).and_then(|length| {
            // The inputs must not be deleted if one of them could not be read.
            if inputs.iter().any(|&at| contents.members[at].segment.has_failed()) {
                return Err(io::Error::other("not all of what is merged can be read"));
            }
            disk::fdatasync(&fd)?;
            disk::renameat(folder, &temporary, &name)?;
            Ok(length)
        });
        if done.is_err() {
            // The first error is returned.
            let _ = folder.remove_file(&temporary);
        }
        done
    }

    fn fill(
        &self,
        contents: &PartContents,
        inputs: &[usize],
        kept: &[Live],
        header: &FileHeader,
        fd: &Descriptor,
    ) -> io::Result<u64> {
        let mut file = File { fd, start: 0, bytes: header.encode().to_vec() };
        file.bytes.resize(FIRST_RECORD, 0);
        let tag = header.identity.tag();
        let mut rows = Vec::with_capacity(kept.len());
        let (mut bytes, mut compressed) = (Vec::new(), Vec::new());
        let ordered = self.in_order(contents, kept);
        // If that was interrupted, records are missing from the list.
        let goes_on =
            || if (self.interrupted)() { Err(io::Error::from(io::ErrorKind::Interrupted)) } else { Ok(()) };
        goes_on()?;
        let mut duplicates = Duplicates::of(contents, inputs, self.evicted);
        for (live, entry) in ordered {
            goes_on()?;
            let Some(payload) = newest_good(contents, &live, &entry, &mut bytes) else { continue };
            let known = Kind::from_number(entry.kind).filter(|_| payload.codec == CODEC_PLAIN);
            let stored = match (&mut duplicates, known) {
                (Some(duplicates), Some(kind)) => duplicates.stored(&live, kind, &entry.key, payload.bytes),
                _ => duplicates::Stored::Itself,
            };
            let (kind, payload) = match stored {
                duplicates::Stored::Itself => (entry.kind, improved(&entry, payload, &mut compressed)),
                duplicates::Stored::Reference(same) => {
                    compressed = same.encode();
                    (Kind::Same as u8, Copied::plain(&compressed))
                }
                duplicates::Stored::Nothing => continue,
            };
            rows.push(Row::of(&encode_record(
                &mut file.bytes,
                file.start,
                tag,
                kind,
                &entry.key,
                payload.stored(),
            )));
            file.write_if(WRITE_BYTES)?;
        }
        goes_on()?;
        let base = file.start + file.bytes.len() as u64;
        file.bytes.extend_from_slice(&encode_end(header, base, &rows));
        file.write_if(0)?;
        let seal = Seal { bytes: file.start, records: rows.len() as u32 };
        write_all_at(file.fd, &seal.encode(), Seal::OFFSET).map_err(|(_, error)| error)?;
        Ok(file.start)
    }

    /// The records to write, in order, with their headers.
    fn in_order(&self, contents: &PartContents, kept: &[Live]) -> Vec<(Live, IndexEntry)> {
        let (mut known, mut other) = (Vec::new(), Vec::new());
        for live in kept {
            // The caller checks for an interruption before it uses the list.
            if (self.interrupted)() {
                break;
            }
            // A record without a valid header cannot be read.
            let Some(entry) = contents.entry(live) else { continue };
            match Kind::from_number(entry.kind).filter(|_| live.row.is_readable()) {
                Some(kind) => {
                    let last_use = self.uses.last(contents, live, &entry.key);
                    let bytes = footprint(&live.row);
                    let record = bounds::Record { kind, key: entry.key, bytes, last_use, current: false };
                    known.push((record, *live, entry));
                }
                None => other.push((*live, entry)),
            }
        }
        let records: Vec<_> = known.iter().map(|(record, ..)| record.clone()).collect();
        let ordered = bounds::layout(&records).into_iter().map(|at| (known[at].1, known[at].2));
        sort::by_key(&mut other, |(live, _)| (live.member, live.row.offset));
        ordered.chain(other).collect()
    }
}

/// The payload to write. It is compressed if an earlier writer had no time for that.
fn improved<'a>(entry: &IndexEntry, payload: Copied<'a>, compressed: &'a mut Vec<u8>) -> Copied<'a> {
    let Some(kind) = Kind::from_number(entry.kind).filter(|_| payload.codec == CODEC_PLAIN) else {
        return payload;
    };
    let codec = codec::encode(kind, payload.bytes, compressed).number();
    if codec == CODEC_PLAIN {
        return payload;
    }
    Copied { bytes: compressed, codec, length: payload.length }
}

/// Records of other segments that supersede records of these segments.
fn newer_elsewhere<'a>(contents: &'a PartContents, inputs: &[usize]) -> Vec<&'a Live> {
    let elsewhere = contents.live.iter().filter(|live| !inputs.contains(&live.member));
    let readable = elsewhere.filter(|live| live.row.is_readable());
    let mut newest: HashMap<u64, &Live, Keyed> = readable.map(|live| (live.row.hash, live)).collect();
    let rows = inputs.iter().flat_map(|&at| contents.members[at].segment.known_rows());
    rows.filter_map(|row| newest.remove(&row.hash)).collect()
}

/// A verified payload as it is stored.
#[derive(Clone, Copy)]
struct Copied<'a> {
    bytes: &'a [u8],
    codec: u8,
    length: u32,
}

impl<'a> Copied<'a> {
    fn plain(bytes: &'a [u8]) -> Copied<'a> {
        Copied { bytes, codec: CODEC_PLAIN, length: bytes.len() as u32 }
    }

    fn stored(self) -> Stored<'a> {
        Stored { bytes: self.bytes, codec: self.codec, length: self.length }
    }
}

/// The stored payload of a record or, if it is damaged, of the record that it superseded.
fn newest_good<'a>(
    contents: &PartContents,
    live: &Live,
    entry: &IndexEntry,
    bytes: &'a mut Vec<u8>,
) -> Option<Copied<'a>> {
    let segment = &contents.member(live).segment;
    let mut found = segment.read_record(live.row.offset, live.row.stored, bytes).ok();
    if found.is_none() {
        for member in contents.members[..=live.member].iter().rev() {
            let segment = &member.segment;
            // Of a file that cannot be read there are no rows to try.
            let _ = segment.find(live.row.hash, &DamagedIndex::WHOLLY, |row| {
                found = segment
                    .read_record(row.offset, row.stored, bytes)
                    .ok()
                    .filter(|other| (other.kind, other.key) == (entry.kind, entry.key));
                found.is_some()
            });
            if found.is_some() {
                break;
            }
        }
    }
    let found = found?;
    Some(Copied { bytes: segment::payload_of(bytes), codec: found.codec, length: found.length })
}

/// A file that is written from start to end.
struct File<'a> {
    fd: &'a Descriptor,
    /// Bytes that were written.
    start: u64,
    bytes: Vec<u8>,
}

impl File<'_> {
    /// Writes the buffer, if it has at least so many bytes.
    fn write_if(&mut self, least: usize) -> io::Result<()> {
        if self.bytes.len() >= least {
            write_all_at(self.fd, &self.bytes, self.start).map_err(|(_, error)| error)?;
            self.start += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// None: another process merges segments of this part.
fn lock(folder: &Folder) -> Option<Descriptor> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = disk::openat(folder, LOCK, flags, FILE_MODE).ok()?;
    locks::begin(&lock).ok()?;
    Some(lock)
}
