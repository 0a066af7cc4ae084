//! The order of records in a merged segment.

use std::cmp::Reverse;

use crate::bounds::inventory::Record;
use vkstash_host::sort;

/// The order in which these records are written: the place of each, once. Kind by kind; in each kind the records of the
/// latest run in the order of their first use, then those of earlier runs; then those of unknown runs in the same way;
/// then unused ones. So the records that a program needs first are next to each other.
pub fn layout(records: &[Record]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    sort::by_key(&mut order, |&at| {
        let Record { kind, key, last_use, .. } = &records[at];
        let never = last_use.run == 0 && last_use.unix_ms == 0;
        (*kind as u8, never, Reverse(last_use.run), last_use.order, last_use.unix_ms, *key, at)
    });
    order
}
