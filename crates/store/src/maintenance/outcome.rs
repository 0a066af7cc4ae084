//! Outcome of maintenance: bytes and records that were evicted, written and freed.

use std::collections::BTreeMap;

use crate::bounds::Cause;

/// What maintenance has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of evicted records.
    pub evicted_records: u64,
    /// Bytes of evicted records and parts, by [`Cause::name`].
    pub evicted_bytes: BTreeMap<String, u64>,
    /// Bytes that were written.
    pub written: u64,
    /// Bytes of files that were removed.
    pub freed: u64,
    /// Bytes by which limits stay exceeded because running programs use the rest, by [`Cause::name`].
    pub short_by: BTreeMap<String, u64>,
    /// The number of removed application folders that had no record.
    pub emptied: u64,
}

impl Outcome {
    pub(crate) fn evicted(&mut self, cause: Cause, records: u64, bytes: u64) {
        self.evicted_records += records;
        *self.evicted_bytes.entry(cause.name().to_owned()).or_default() += bytes;
    }
}
