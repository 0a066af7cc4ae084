//! The order of records in a merged segment.

use std::cmp::Reverse;

use crate::bounds::inventory::Record;

/// The order in which to write these records: their places, each once. Kind by kind; within a kind those of the
/// latest run in the order in which it used them first, then those of the run before, and so on; then those of
/// unknown runs in the same way, at last what was never used. Work ahead of a program reads the front in one go.
pub fn layout(records: &[Record]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&at| {
        let Record { kind, key, last_use, .. } = &records[at];
        let never = last_use.run == 0 && last_use.unix_ms == 0;
        (*kind as u8, never, Reverse(last_use.run), last_use.order, last_use.unix_ms, *key)
    });
    order
}
