//! The keys of all segments of a part, in one table: a look-up asks the segments that have the key, and no other one.
//! The helper makes the table once, of parts that do not change.

use std::sync::Arc;

use crate::segment::file::Segment;

/// A part with more records has no such table: it takes 12 bytes a record.
const MOST_ROWS: usize = 1 << 20;
/// The average number of rows in a bucket.
const EACH: usize = 4;

/// Which segments have which hash ([`table::hash`]).
pub(crate) struct Merged {
    /// In order.
    hashes: Box<[u64]>,
    /// The number of the segment of each hash. Those of equal hashes are in order.
    segments: Box<[u32]>,
    /// The start of each bucket of hashes, and the end of the last one.
    starts: Box<[u32]>,
    /// The shift that turns a hash into the number of its bucket.
    shift: u32,
    /// Segments whose index is damaged: they are asked for everything.
    unknown: Box<[u32]>,
}

impl Merged {
    /// Reads all indexes. None: there are too many records, or `interrupted` says true.
    pub(crate) fn of(segments: &[Arc<Segment>], interrupted: &dyn Fn() -> bool) -> Option<Merged> {
        let (mut rows, mut unknown) = (Vec::new(), Vec::new());
        for (number, segment) in (0..).zip(segments) {
            let before = rows.len();
            if !segment.for_each_hash(&mut |hash| rows.push((hash, number))) {
                rows.truncate(before);
                unknown.push(number);
            }
            if interrupted() || rows.len() > MOST_ROWS {
                return None;
            }
        }
        rows.sort_unstable();
        rows.dedup();
        let bits = (rows.len() / EACH).max(2).ilog2();
        let shift = u64::BITS - bits;
        let ends = (0..=1_u64 << bits)
            .map(|bucket| rows.partition_point(|&(hash, _)| hash >> shift < bucket) as u32);
        Some(Merged {
            starts: ends.collect(),
            hashes: rows.iter().map(|(hash, _)| *hash).collect(),
            segments: rows.iter().map(|(_, number)| *number).collect(),
            shift,
            unknown: unknown.into_boxed_slice(),
        })
    }

    /// The numbers of the segments that may have a record of this hash, in order.
    pub(crate) fn find(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let bucket = (hash >> self.shift) as usize;
        let range = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        let (hashes, numbers) = (&self.hashes[range.clone()], &self.segments[range]);
        // Keys may be chosen so that all are in one bucket, so the bucket is searched by halves.
        let first = hashes.partition_point(|&one| one < hash);
        let found = hashes[first..].iter().zip(&numbers[first..]);
        let mut found = found.take_while(move |(one, _)| **one == hash).map(|(_, number)| *number);
        let mut unknown = self.unknown.iter().copied();
        let mut next = (found.next(), unknown.next());
        std::iter::from_fn(move || {
            let first = match next {
                (Some(one), Some(other)) if other < one => &mut next.1,
                (Some(_), _) => &mut next.0,
                (None, _) => &mut next.1,
            };
            let number = first.take()?;
            next = (next.0.or_else(|| found.next()), next.1.or_else(|| unknown.next()));
            Some(number as usize)
        })
    }
}
