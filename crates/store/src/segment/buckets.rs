//! A hash table in memory over the rows of a segment whose index is damaged or missing, because its writer was killed
//! or still writes. A thread that looks something up waits until the table is made. Hashes are spread evenly, so
//! distributing the rows over buckets by the first bits of their hashes is enough to find them, and much faster than
//! sorting all of them.

use std::cmp::Reverse;

use crate::format::table::{Packed, ROW_BYTES, Row, hash_of};
use vkstash_host::sort;

/// The average number of rows in a bucket.
const EACH: usize = 4;
/// Buckets with more rows are sorted: keys can be chosen so that all rows are in one bucket.
const MANY: usize = 32;

/// Rows by hash.
pub(crate) struct Buckets {
    rows: Box<[Packed]>,
    /// The start of each bucket, and the end of the last one.
    starts: Box<[u32]>,
    /// The shift that turns a hash into the number of its bucket.
    shift: u32,
}

impl Buckets {
    /// From rows in any order.
    pub(crate) fn of(rows: &[Packed]) -> Buckets {
        let bits = (rows.len() / EACH).max(2).ilog2();
        let shift = u64::BITS - bits;
        let mut starts = vec![0_u32; (1 << bits) + 1];
        rows.iter().for_each(|row| starts[(hash_of(row) >> shift) as usize] += 1);
        let mut end = 0;
        for at in &mut starts {
            end += *at;
            *at = end;
        }
        // Each bucket is filled from its end to its start.
        let mut out = vec![[0; ROW_BYTES]; rows.len()].into_boxed_slice();
        for row in rows {
            let start = &mut starts[(hash_of(row) >> shift) as usize];
            *start -= 1;
            out[*start as usize] = *row;
        }
        for ends in starts.windows(2) {
            let bucket = &mut out[ends[0] as usize..ends[1] as usize];
            if bucket.len() > MANY {
                bucket.sort_by_cached_key(|row| (hash_of(row), Reverse(Row::unpack(row).offset)));
            }
        }
        Buckets { rows: out, starts: starts.into_boxed_slice(), shift }
    }

    /// All rows, in no order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().map(Row::unpack)
    }

    /// Calls `each` with the rows of this hash, the newest first, until it says true.
    pub(crate) fn find(&self, hash: u64, mut each: impl FnMut(Row) -> bool) -> bool {
        let bucket = (hash >> self.shift) as usize;
        let bucket = &self.rows[self.starts[bucket] as usize..self.starts[bucket + 1] as usize];
        if bucket.len() > MANY {
            let first = bucket.partition_point(|row| hash_of(row) < hash);
            let found = bucket[first..].iter().take_while(|row| hash_of(row) == hash);
            return found.map(Row::unpack).any(each);
        }
        let mut found = bucket.iter().filter(|row| hash_of(row) == hash).map(Row::unpack);
        let (Some(first), second) = (found.next(), found.next()) else { return false };
        let Some(second) = second else { return each(first) };
        let mut all: Vec<Row> = [first, second].into_iter().chain(found).collect();
        sort::by_key(&mut all, |row| Reverse(row.offset));
        all.into_iter().any(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::table;

    fn row(number: u64, of: u64) -> Row {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number % of).to_le_bytes());
        Row { hash: table::hash(1, &key), offset: number * 8, stored: 1, crc: 2, code: 1, codec: 0 }
    }

    #[test]
    fn every_row_is_found_the_newest_first_and_nothing_else() {
        for count in [0, 1, 2, 3, 7, 8, 9, 100, 5000] {
            // Some several times, in a scattered order.
            let rows: Vec<Row> = (0..count).map(|number| row(number * 7919 % 10_007, 900)).collect();
            let buckets = Buckets::of(&rows.iter().map(Row::pack).collect::<Vec<_>>());
            let found = |hash| {
                let mut found = Vec::new();
                assert!(!buckets.find(hash, |row| {
                    found.push(row);
                    false
                }));
                found
            };
            for wanted in &rows {
                let mut expected: Vec<Row> =
                    rows.iter().filter(|row| row.hash == wanted.hash).copied().collect();
                expected.sort_by_key(|row| Reverse(row.offset));
                assert_eq!(found(wanted.hash), expected);
                assert!(buckets.find(wanted.hash, |row| row == expected[0]));
            }
            (900..1500).for_each(|number| assert_eq!(found(row(number, 2000).hash), []));
            let mut all = buckets.rows().collect::<Vec<_>>();
            let mut expected = rows;
            all.sort();
            expected.sort();
            assert_eq!(all, expected);
        }
    }

    /// Without an order this would compare ten thousand million times.
    #[test]
    fn rows_of_one_bucket_do_not_take_for_ever() {
        let of = |number: u64| Row { hash: number, offset: number * 8, ..row(0, 1) };
        let rows: Vec<Packed> = (0..100_000).rev().map(|number| of(number).pack()).collect();
        let buckets = Buckets::of(&rows);
        for number in 0..100_000 {
            assert!(buckets.find(number, |row| row == of(number)));
            assert!(!buckets.find(100_000 + number, |_| true));
        }
    }

    #[test]
    fn equal_hashes_do_not_take_for_ever() {
        let rows: Vec<Packed> = (0..200_000).map(|number| row(number, 1).pack()).collect();
        let buckets = Buckets::of(&rows);
        let mut last = u64::MAX;
        assert!(!buckets.find(row(0, 1).hash, |row| {
            assert!(row.offset < last);
            last = row.offset;
            false
        }));
        assert_eq!(last, 0);
    }
}
